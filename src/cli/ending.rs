//! How a verb ends: the documented list of exit codes, and errors that carry one.

use std::process::ExitCode;

use super::output;

/// Exit codes. Scripts rely on them: extend, never renumber.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// 0: done.
    Done,
    /// 1: a requirement or verdict that was asked for is not met.
    NotMet,
    /// 2: bad input or usage.
    BadInput,
    /// 3: the machine lacks something; the message says what installs it.
    Lacking,
    /// 4: a measured thing broke; it is recorded.
    Broke,
    /// 130: interrupted; what was finished is kept.
    Interrupted,
}

impl Ending {
    const ALL: [Self; 6] =
        [Self::Done, Self::NotMet, Self::BadInput, Self::Lacking, Self::Broke, Self::Interrupted];

    const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::NotMet => 1,
            Self::BadInput => 2,
            Self::Lacking => 3,
            Self::Broke => 4,
            Self::Interrupted => 130,
        }
    }

    /// That of a code, as another call of this program has ended with; none for what is no code of ours.
    pub fn of_code(code: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|ending| i32::from(ending.code()) == code)
    }
}

impl From<Ending> for ExitCode {
    fn from(ending: Ending) -> Self {
        Self::from(ending.code())
    }
}

/// An error with the exit code it leads to.
#[derive(Debug)]
pub struct Stop {
    ending: Ending,
    error: anyhow::Error,
}

/// What a verb returns.
pub type Verdict = Result<Ending, Stop>;

/// Gives an error its exit code.
pub trait OrStop<T> {
    /// Bad input or usage: exit code 2.
    fn or_bad_input(self) -> Result<T, Stop>;
    /// The machine lacks something: exit code 3.
    fn or_lacking(self) -> Result<T, Stop>;
    /// Something that was started broke: exit code 4.
    fn or_broke(self) -> Result<T, Stop>;
}

impl<T, E: Into<anyhow::Error>> OrStop<T> for Result<T, E> {
    fn or_bad_input(self) -> Result<T, Stop> {
        self.map_err(|error| Stop { ending: Ending::BadInput, error: error.into() })
    }

    fn or_lacking(self) -> Result<T, Stop> {
        self.map_err(|error| Stop { ending: Ending::Lacking, error: error.into() })
    }

    fn or_broke(self) -> Result<T, Stop> {
        self.map_err(|error| Stop { ending: Ending::Broke, error: error.into() })
    }
}

/// Maps what a verb returned to the exit code, printing an error with its causes to stderr.
pub fn exit_code(verdict: Verdict) -> ExitCode {
    match verdict {
        Ok(ending) => ending.into(),
        Err(stop) if is_broken_pipe(&stop.error) => Ending::Done.into(),
        Err(stop) => {
            output::error(&stop.error);
            stop.ending.into()
        }
    }
}

/// A reader that has seen enough (`| head`) is no failure.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|cause| cause.kind() == std::io::ErrorKind::BrokenPipe)
}
