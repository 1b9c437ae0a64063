//! Why a probe or a load could not do its work. The text is what the host records, so it says what was wanted,
//! what came instead, and what helps.

use std::io;

use units::Millis;

/// Why a probe or a load could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum WorkError {
    /// The host asked to end.
    #[error("stopped")]
    Stopped,
    /// A consequence of another error, which explains it.
    #[error("another thread of the probe gave up")]
    MateGaveUp,
    /// It took longer than the job allows.
    #[error(
        "gave up at the job's deadline of {} ms; give the probe less to do, or more time",
        .deadline.get()
    )]
    Deadline {
        /// The deadline of the job.
        deadline: Millis,
    },
    /// The operating system refused something.
    #[error("could not {wanted}: {source}")]
    System {
        /// What was wanted, to be read after "could not".
        wanted: String,
        /// What the system said.
        source: io::Error,
    },
    /// No room on the disk.
    #[error("no room left while {doing}; free some space there, or have less written")]
    DiskFull {
        /// What was being done, with the place.
        doing: String,
    },
    /// The surroundings lack something, or an answer was not what it must be.
    #[error("{0}")]
    Unfit(String),
}

impl WorkError {
    /// Wraps a refusal of the system.
    pub fn system(wanted: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self::System { wanted: wanted.into(), source: source.into() }
    }
}
