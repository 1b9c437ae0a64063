//! The user's own test: a program that prints a number, or results as `JUnit` or TAP, run on this host or in a partition.
//!
//! ```text
//!  program ─► output, errors: bounded, kept ─► last line a number? JUnit? TAP? ─► Commanded
//!     └─ longer than its time, or interrupted ─► its process group is killed
//! ```

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use platforms::spawn::{Bond, spawn};
use platforms::{Broken, Cancel, PlatformContext};
use quick_junit::TestCaseStatus;

use model::verification::{Commanded, Observed, TestCounts};

/// Bytes of output and of errors that are kept: the last ones.
const KEPT: usize = 64 * 1024;
/// Bytes of `JUnit` that are read.
const MOST_JUNIT: usize = 16 << 20;
/// How often a running program is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// Exit codes of signals begin here.
const SIGNALLED: i32 = 128;
/// Tests that failed which are named.
const MOST_NAMED: usize = 3;
/// Letters of a name.
const LONGEST_NAME: usize = 200;

/// Runs it once, at most for `limit`.
///
/// # Errors
/// The user interrupted.
pub fn run(
    command: &[String],
    partition: Option<&str>,
    context: &PlatformContext,
    limit: Duration,
    cancel: &Cancel,
) -> Result<Observed, Broken> {
    let Some((program, arguments)) = command.split_first() else {
        return Ok(Observed::Failed { reason: "the command has no words".into() });
    };
    let mut started = Command::new(partition.map_or(Path::new(program), |_| &context.exe));
    match partition {
        Some(name) => started.args(["exec", "--in", name, "--"]).args(command),
        None => started.args(arguments),
    };
    started.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match spawn(started, Bond::DiesWithUs, None) {
        Ok(child) => child,
        Err(error) => {
            return Ok(Observed::Failed { reason: format!("{program} cannot be started: {error}").into() });
        }
    };
    let output = child.stdout.take().map(|pipe| follow(pipe, MOST_JUNIT));
    let errors = child.stderr.take().map(|pipe| follow(pipe, KEPT));
    let ended = wait(&child, limit, cancel);
    // What it has started may still hold its output.
    if let Ok(group) = i32::try_from(child.id()) {
        let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
    }
    let last = child.wait();
    let text = |thread: Option<JoinHandle<Vec<u8>>>| {
        thread.and_then(|thread| thread.join().ok()).unwrap_or_default()
    };
    let (output, errors) = (text(output), text(errors));
    match (ended, last) {
        (Waited::Cancelled, _) => Err(Broken::Interrupted),
        (Waited::TooLong, _) => Ok(Observed::Failed {
            reason: format!("{program} did not end within {} s", limit.as_secs()).into(),
        }),
        (Waited::Ended, Ok(status)) => Ok(Observed::Commanded(commanded(status, &output, &errors))),
        (Waited::Ended, Err(error)) => {
            Ok(Observed::Failed { reason: format!("{program}: its end is not known: {error}").into() })
        }
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

/// Its number stays its own until it is reaped, so that its group can still be named.
fn has_ended(child: &Child) -> bool {
    let Ok(pid) = i32::try_from(child.id()) else { return true };
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    !matches!(waitid(Id::Pid(Pid::from_raw(pid)), flags), Ok(WaitStatus::StillAlive))
}

/// Reads all of a stream, and keeps its last bytes.
fn follow(mut pipe: impl Read + Send + 'static, most: usize) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let (mut kept, mut chunk) = (Vec::new(), [0; 16 * 1024]);
        loop {
            match pipe.read(&mut chunk) {
                Ok(count @ 1..) => {
                    kept.extend_from_slice(chunk.get(..count).unwrap_or_default());
                    if kept.len() > 2 * most {
                        kept.drain(..kept.len() - most);
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Ok(_) | Err(_) => {
                    kept.drain(..kept.len().saturating_sub(most));
                    return kept;
                }
            }
        }
    })
}

fn commanded(status: ExitStatus, output: &[u8], errors: &[u8]) -> Commanded {
    let text = String::from_utf8_lossy(output);
    let signal = status.signal().map(|signal| SIGNALLED + signal);
    Commanded {
        exit_code: status.code().or(signal).unwrap_or(-1),
        value: number(&text),
        tests: junit(&text).or_else(|| tap(&text)),
        output: tail(&text),
        errors: tail(&String::from_utf8_lossy(errors)),
    }
}

/// The end of a text, as what can be kept and shown.
fn tail(text: &str) -> String {
    let from = text.len().saturating_sub(KEPT);
    let from = (from..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    text.get(from..).unwrap_or_default().to_owned()
}

/// The number that is the last line that is not empty.
fn number(text: &str) -> Option<f64> {
    let last = text.lines().rev().map(str::trim).find(|line| !line.is_empty())?;
    last.parse::<f64>().ok().filter(|value| value.is_finite())
}

/// Counts of `JUnit` XML.
fn junit(text: &str) -> Option<TestCounts> {
    let from = text.find("<?xml").or_else(|| text.find("<testsuite"))?;
    let report = quick_junit::Report::deserialize_from_str(text.get(from..)?).ok()?;
    let mut counts = TestCounts::default();
    for case in report.test_suites.iter().flat_map(|suite| &suite.test_cases) {
        counts.all += 1;
        match &case.status {
            TestCaseStatus::NonSuccess { message, .. } => {
                let said = message.as_ref().map(|message| format!(": {}", message.as_str()));
                failed(&mut counts, &format!("{}{}", case.name.as_str(), said.unwrap_or_default()));
            }
            TestCaseStatus::Skipped { .. } => counts.left_out += 1,
            TestCaseStatus::Success { .. } => {}
        }
    }
    Some(counts)
}

/// One more that failed.
fn failed(counts: &mut TestCounts, name: &str) {
    counts.failed += 1;
    let name: String = name.trim().chars().filter(|sign| !sign.is_control()).take(LONGEST_NAME).collect();
    if !name.is_empty() && counts.first_failed.len() < MOST_NAMED {
        counts.first_failed.push(name);
    }
}

/// Counts of the Test Anything Protocol, version 12 to 14: points of the outermost level; a plan of more tests than came, or `Bail out!`,
/// counts what is missing as failed.
fn tap(text: &str) -> Option<TestCounts> {
    let (mut counts, mut planned, mut is_tap) = (TestCounts::default(), None, false);
    for line in text.lines() {
        if let Some(plan) = line.strip_prefix("1..") {
            let number = plan.split_whitespace().next().unwrap_or_default();
            planned = number.parse::<u64>().ok();
            is_tap |= planned.is_some();
        } else if line.starts_with("Bail out!") {
            counts.all += 1;
            failed(&mut counts, line);
            is_tap = true;
        } else if let Some((is_good, rest)) = point(line) {
            is_tap = true;
            counts.all += 1;
            let directive = rest.split_once('#').map(|(_, directive)| directive.trim().to_ascii_lowercase());
            let is = |word: &str| directive.as_ref().is_some_and(|directive| directive.starts_with(word));
            if is("skip") {
                counts.left_out += 1;
            } else if !is_good && !is("todo") {
                failed(&mut counts, description(rest));
            }
        }
    }
    let missing = planned.unwrap_or(0).saturating_sub(counts.all);
    counts.all += missing;
    counts.failed += missing;
    is_tap.then_some(counts)
}

/// What stands behind a point's number: ` 2 - it is late`.
fn description(rest: &str) -> &str {
    let behind = rest.trim_start().trim_start_matches(|sign: char| sign.is_ascii_digit()).trim_start();
    behind.strip_prefix("- ").unwrap_or(behind)
}

fn point(line: &str) -> Option<(bool, &str)> {
    let (is_good, rest) = match line.strip_prefix("not ok") {
        Some(rest) => (false, rest),
        None => (true, line.strip_prefix("ok")?),
    };
    (rest.is_empty() || rest.starts_with(' ')).then_some((is_good, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_junit_and_tap_are_understood() {
        assert_eq!(number("warming up\n 12.5 \n\n"), Some(12.5));
        assert_eq!(number("12 ms\n"), None);
        assert_eq!(number("inf"), None);
        let xml = "building…\n<?xml version=\"1.0\"?><testsuites><testsuite name=\"s\" tests=\"3\"><testcase name=\"a\"/>\
                   <testcase name=\"b\"><failure message=\"late\">x</failure></testcase><testcase name=\"c\"><skipped/></testcase>\
                   </testsuite></testsuites>";
        let counts = |all, failed, left_out, names: &[&str]| {
            let first_failed = names.iter().map(|name| (*name).to_owned()).collect();
            Some(TestCounts { all, failed, left_out, first_failed })
        };
        assert_eq!(junit(xml), counts(3, 1, 1, &["b: late"]));
        let text = "TAP version 13\n1..5\nok 1 - a\nnot ok 2 b\nok 3 # SKIP no disk\nnot ok 4 # TODO later\n    not ok 1 nested\n";
        // What is to be done, what is nested and what never came has no name of a test that failed.
        assert_eq!(tap(text), counts(5, 2, 1, &["b"]));
        assert_eq!(tap("okay\nnothing\n"), None);
        assert_eq!(tap("ok 1\nBail out! disk full\n"), counts(2, 1, 0, &["Bail out! disk full"]));
        let many = "not ok 1 - late: 7 ms\u{1b}\nnot ok 2\nnot ok 3 a\nnot ok 4 b\nnot ok 5 c\n";
        assert_eq!(tap(many), counts(5, 5, 0, &["late: 7 ms", "a", "b"]));
    }

    #[test]
    fn a_long_output_is_kept_from_its_end() {
        let text = format!("{}é", "x".repeat(KEPT));
        let kept = tail(&text);
        assert!(kept.len() <= KEPT && kept.ends_with('é'));
    }
}
