//! The user's own test: a program that prints a number, or results as `JUnit` or TAP, run on this host or in a partition.
//!
//! ```text
//!  program ─► output, errors: bounded, kept ─► last line a number? JUnit? TAP? ─► Commanded
//!     └─ longer than its time, or interrupted ─► it is killed
//! ```
//! When the program has ended, so has the test: what it started and left is killed on this host ([`keeper`]), and its output is not
//! waited for.

pub mod keeper;
mod reports;

use std::io::Read;
use std::ops::RangeInclusive;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use platforms::{Broken, Cancel, PlatformContext};

use keeper::{KEEP_VERB, Kept};
use model::verification::{Commanded, Observed};

/// Bytes of output and of errors that are kept: the last ones.
const KEPT: usize = 64 * 1024;
/// Bytes of reports that are read: the first ones.
const MOST_READ: usize = 16 << 20;
/// How long what is still on its way is waited for once the program has ended.
const DRAINS_WITHIN: Duration = Duration::from_secs(1);
/// Bytes of what a program printed that stand in a message.
const SHOWN: usize = 400;
/// Exit codes of `exec --in` where it is not the program's: the partition does not run, the program cannot be started, or is not there.
const DID_NOT_RUN: RangeInclusive<i32> = 125..=127;
/// How often a running program is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// Where a command runs.
#[derive(Debug, Clone, Copy)]
pub enum Place<'a> {
    /// On this host, in this folder.
    Here(&'a Path),
    /// In a partition, `SET/NAME`.
    In(&'a str),
}

/// Runs it once, at most for `limit`.
///
/// # Errors
/// The user interrupted.
pub fn run(
    command: &[String],
    place: Place<'_>,
    context: &PlatformContext,
    limit: Duration,
    cancel: &Cancel,
) -> Result<Observed, Broken> {
    let Some((program, arguments)) = command.split_first() else {
        return Ok(Observed::Failed { reason: "the command has no words".into() });
    };
    let mut keeper = Command::new(&context.exe);
    keeper.arg(KEEP_VERB).stdout(Stdio::piped()).stderr(Stdio::piped());
    match place {
        // A name alone is looked for where programs are.
        Place::Here(_) if !program.contains('/') => keeper.arg(program).args(arguments),
        Place::Here(folder) => keeper.arg(folder.join(program)).args(arguments),
        Place::In(name) => keeper.arg(&context.exe).args(["exec", "--in", name, "--"]).args(command),
    };
    if let Place::Here(folder) = place {
        keeper.current_dir(folder);
    }
    let mut kept = match Kept::start(keeper) {
        Ok(kept) => kept,
        Err(error) => {
            return Ok(Observed::Failed { reason: format!("{program} cannot be started: {error}").into() });
        }
    };
    let output = kept.process.stdout.take().map(|pipe| follow(pipe, MOST_READ));
    let errors = kept.process.stderr.take().map(|pipe| follow(pipe, 0));
    let ended = wait(&kept.process, limit, cancel);
    let last = kept.end();
    let printed = |stream: Option<Followed>| stream.map(Followed::end).unwrap_or_default();
    let (output, errors) = (printed(output), printed(errors));
    match (ended, last) {
        (Waited::Cancelled, _) => Err(Broken::Interrupted),
        (Waited::TooLong, _) => {
            let said =
                format!("{program} did not end within {} s{}", limit.as_secs(), said(&output, &errors));
            Ok(Observed::Failed { reason: said.into() })
        }
        (Waited::Ended, Ok(code)) if matches!(place, Place::In(_)) && DID_NOT_RUN.contains(&code) => {
            let said = format!("{program} did not run there, exit code {code}{}", said(&output, &errors));
            Ok(Observed::Failed { reason: said.into() })
        }
        (Waited::Ended, Ok(code)) => Ok(Observed::Commanded(commanded(code, &output, &errors))),
        (Waited::Ended, Err(error)) => Ok(Observed::Failed { reason: format!("{program} {error}").into() }),
    }
}

/// The end of what it printed, for a message.
fn said(output: &Printed, errors: &Printed) -> String {
    let end = |printed: &Printed| tail(&String::from_utf8_lossy(&printed.last), SHOWN).trim().to_owned();
    let (output, errors) = (end(output), end(errors));
    match (output.is_empty(), errors.is_empty()) {
        (true, true) => ", and printed nothing".to_owned(),
        (false, true) => format!("; it printed: {output}"),
        (true, false) => format!("; its errors: {errors}"),
        (false, false) => format!("; it printed: {output}; its errors: {errors}"),
    }
}

enum Waited {
    Ended,
    TooLong,
    Cancelled,
}

fn wait(child: &Child, limit: Duration, cancel: &Cancel) -> Waited {
    let until = Instant::now() + limit;
    loop {
        if has_ended(child) {
            return Waited::Ended;
        }
        if cancel.is_cancelled() {
            return Waited::Cancelled;
        }
        if Instant::now() >= until {
            return Waited::TooLong;
        }
        thread::sleep(LOOK);
    }
}

/// Its number stays its own until it is reaped.
fn has_ended(child: &Child) -> bool {
    let Ok(pid) = i32::try_from(child.id()) else { return true };
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    !matches!(waitid(Id::Pid(Pid::from_raw(pid)), flags), Ok(WaitStatus::StillAlive))
}

/// What came over a stream: its beginning, and its end.
#[derive(Debug, Clone, Default)]
struct Printed {
    first: Vec<u8>,
    last: Vec<u8>,
    all: u64,
    is_cut: bool,
}

/// A stream that is read all the time.
struct Followed {
    printed: Arc<Mutex<Printed>>,
    reader: thread::JoinHandle<()>,
}

impl Followed {
    /// What has come. Somebody may hold the stream for ever: it is not waited for its end, only for what is on its way.
    fn end(self) -> Printed {
        let until = Instant::now() + DRAINS_WITHIN;
        while !self.reader.is_finished() && Instant::now() < until {
            thread::sleep(LOOK);
        }
        self.printed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Reads all of a stream; keeps its first bytes, so many at most, and its last.
fn follow(mut pipe: impl Read + Send + 'static, most: usize) -> Followed {
    let printed = Arc::new(Mutex::new(Printed::default()));
    let theirs = Arc::clone(&printed);
    let reader = thread::spawn(move || {
        let mut chunk = [0; 16 * 1024];
        loop {
            let count = match pipe.read(&mut chunk) {
                Ok(count @ 1..) => count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Ok(_) | Err(_) => return,
            };
            let bytes = chunk.get(..count).unwrap_or_default();
            let mut printed = theirs.lock().unwrap_or_else(PoisonError::into_inner);
            let room = most.saturating_sub(printed.first.len());
            printed.is_cut |= count > room;
            printed.all = printed.all.saturating_add(count as u64);
            printed.first.extend_from_slice(bytes.get(..room.min(count)).unwrap_or_default());
            printed.last.extend_from_slice(bytes);
            let surplus = printed.last.len().saturating_sub(KEPT);
            if surplus > KEPT {
                printed.last.drain(..surplus);
            }
        }
    });
    Followed { printed, reader }
}

fn commanded(exit_code: i32, output: &Printed, errors: &Printed) -> Commanded {
    let last = String::from_utf8_lossy(&output.last);
    let read = reports::read(&String::from_utf8_lossy(&output.first), output.is_cut);
    let cut =
        output.is_cut.then(|| format!("it printed more than {} MiB, and no more is read", MOST_READ >> 20));
    Commanded {
        exit_code,
        value: number(&last),
        tests: read.tests,
        unread: cut.or(read.unread),
        printed_bytes: Some(output.all),
        output: tail(&last, KEPT),
        errors: tail(&String::from_utf8_lossy(&errors.last), KEPT),
    }
}

/// Whether what a program printed, where all of it was kept, says something else than what was read of it.
pub fn says_otherwise(done: &Commanded) -> bool {
    if done.printed_bytes != Some(done.output.len() as u64) {
        return false;
    }
    let read = reports::read(&done.output, false);
    (number(&done.output), read.tests, read.unread) != (done.value, done.tests.clone(), done.unread.clone())
}

/// The end of a text, as what can be kept and shown.
pub fn tail(text: &str, most: usize) -> String {
    let from = text.len().saturating_sub(most);
    let from = (from..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    text.get(from..).unwrap_or_default().to_owned()
}

/// The number that is the last line that is not empty.
fn number(text: &str) -> Option<f64> {
    let last = text.lines().rev().map(str::trim).find(|line| !line.is_empty())?;
    last.parse::<f64>().ok().filter(|value| value.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_is_the_number() {
        assert_eq!(number("warming up\n 12.5 \n\n"), Some(12.5));
        assert_eq!(number("12 ms\n"), None);
        assert_eq!(number("inf"), None);
    }

    #[test]
    fn what_was_printed_and_kept_whole_says_what_was_read_of_it() {
        let text = b"1..2\nok 1\nnot ok 2 - late\n7\n".to_vec();
        let all = text.len() as u64;
        let printed = Printed { first: text.clone(), last: text, all, is_cut: false };
        let done = commanded(0, &printed, &Printed::default());
        assert_eq!((says_otherwise(&done), done.value), (false, Some(7.0)));
        let forged = |change: &dyn Fn(&mut Commanded)| {
            let mut forged = done.clone();
            change(&mut forged);
            says_otherwise(&forged)
        };
        assert!(forged(&|done| done.value = Some(1.0)) && forged(&|done| done.tests = None));
        assert!(forged(&|done| done.output = done.output.replace("not ok", "    ok")));
        assert!(!forged(&|done| done.output = tail(&done.output, 9)), "what was cut is not known");
    }

    #[test]
    fn a_long_output_is_kept_from_its_end() {
        let text = format!("{}é", "x".repeat(KEPT));
        let kept = tail(&text, KEPT);
        assert!(kept.len() <= KEPT && kept.ends_with('é'));
    }
}
