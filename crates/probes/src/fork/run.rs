//! Measures: see the folder.

#![expect(unsafe_code, reason = "fork and exec with nothing between them are what is measured")]

use std::ffi::{CString, c_char};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Instant;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::batches::{BatchTally, Spans};
use crate::clock::monotonic_facts;
use crate::context::Context;
use crate::detail::{Detail, RateDetail};
use crate::error::WorkError;
use crate::job::ProbeReport;
use crate::params::ForkParams;
use crate::pin::granted_cpus;
use crate::workers::{self, Muster};
use units::facts::OwnCost;
use units::histogram::{BUCKETS, DenseHistogram, Histogram};
use units::{Bytes, Nanos};

/// Spans of time per number of threads: a translated guest forks once in ten milliseconds.
const SPANS: u32 = 4;
/// What a child exits with when it could not become the program.
const EXEC_FAILED: i32 = 127;

/// Measures every number of threads.
///
/// # Errors
/// The job was to end, a process could not be made, or the program did not exit with 0.
pub fn measure(params: &ForkParams, context: &Context<'_>) -> Result<ProbeReport, WorkError> {
    let command = Command::new(&context.surroundings.exe)?;
    let most = params.max_threads.unwrap_or_else(granted_cpus).max(1);
    let spans = Spans::over(params.duration_ms, SPANS);
    let children_before = children_cpu_time()?;
    let mut cpu_time_ns = Nanos::ZERO;
    let (mut points, mut latencies) = (Vec::new(), Vec::new());
    for threads in 1..=most {
        let outcome =
            workers::run(threads, context.bounds, |_, muster| one_thread(&command, spans, context, muster))?;
        cpu_time_ns = cpu_time_ns.saturating_add(outcome.cpu_time);
        let (tallies, histograms): (Vec<BatchTally>, Vec<Histogram>) = outcome.results.into_iter().unzip();
        points.push(spans.point(&tallies));
        latencies.extend(histograms);
    }
    let clock = monotonic_facts();
    let cost = OwnCost {
        per_sample_ns: clock.read_ns,
        cpu_time_ns: cpu_time_ns.saturating_add(children_cpu_time()?.saturating_sub(children_before)),
        memory_bytes: Bytes::from_bytes(u64::from(most) * (BUCKETS as u64) * 16),
    };
    let detail = RateDetail { points, latency_ns: Histogram::merge_all(&latencies) };
    if detail.latency_ns.is_empty() {
        return Err(WorkError::Unfit(format!(
            "no process ended within {} ms; give the fork probe more time",
            params.duration_ms.get()
        )));
    }
    Ok(ProbeReport::new(clock, cost, Detail::Fork(detail), Vec::new()))
}

fn one_thread(
    command: &Command,
    spans: Spans,
    context: &Context<'_>,
    muster: &Muster<'_>,
) -> Result<(BatchTally, Histogram), WorkError> {
    let mut latency = DenseHistogram::new();
    command.run_once()?;
    muster.wait()?;
    let mut tally = spans.tally();
    let mut before = Instant::now();
    loop {
        command.run_once()?;
        let now = Instant::now();
        latency.record(u64::try_from((now - before).as_nanos()).unwrap_or(u64::MAX));
        if !tally.count(now, 1) {
            break;
        }
        context.bounds.check()?;
        before = Instant::now();
    }
    Ok((tally, latency.to_histogram()))
}

/// CPU time of all processes that were started here and have ended.
///
/// # Errors
/// The system does not say.
pub fn children_cpu_time() -> Result<Nanos, WorkError> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)
        .map_err(|errno| WorkError::system("read the CPU time of the children", errno))?;
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Ok(Nanos::from_nanos(u64::try_from(micros).unwrap_or(0).saturating_mul(1000)))
}

/// The program with its argument, as `execv` wants them; made once, so that nothing happens between fork and exec.
#[derive(Debug)]
struct Command {
    path: CString,
    argument: CString,
}

impl Command {
    fn new(path: &Path) -> Result<Self, WorkError> {
        let text = |bytes: &[u8]| {
            CString::new(bytes)
                .map_err(|_| WorkError::Unfit(format!("{} contains a zero byte", path.display())))
        };
        Ok(Self { path: text(path.as_os_str().as_bytes())?, argument: text(b"noop")? })
    }

    fn run_once(&self) -> Result<(), WorkError> {
        let arguments: [*const c_char; 3] = [self.path.as_ptr(), self.argument.as_ptr(), std::ptr::null()];
        // SAFETY: the child of a process with threads may only make async-signal-safe calls; it makes two, execv and
        // _exit, and touches nothing else.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: path and arguments are C strings that live in `self`; the list ends with a null pointer.
            unsafe { libc::execv(self.path.as_ptr(), arguments.as_ptr()) };
            // SAFETY: ends the child at once, without the handlers of the parent.
            unsafe { libc::_exit(EXEC_FAILED) };
        }
        if child < 0 {
            return Err(WorkError::system("fork", io::Error::last_os_error()));
        }
        let program = || self.path.to_string_lossy().into_owned();
        match waitpid(Pid::from_raw(child), None) {
            Ok(WaitStatus::Exited(_, 0)) => Ok(()),
            Ok(WaitStatus::Exited(_, EXEC_FAILED)) => {
                Err(WorkError::Unfit(format!("the fork probe could not run {} noop", program())))
            }
            Ok(other) => {
                Err(WorkError::Unfit(format!("{} noop did not exit with 0 but {other:?}", program())))
            }
            Err(errno) => Err(WorkError::system(format!("wait for {} noop", program()), errno)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_missing_or_fails_is_told_from_one_that_ran() {
        assert!(Command::new(Path::new("/bin/true")).unwrap().run_once().is_ok());
        let missing = Command::new(Path::new("/nonexistent/program")).unwrap().run_once().unwrap_err();
        assert!(missing.to_string().contains("could not run /nonexistent/program"), "{missing}");
        let failing = Command::new(Path::new("/bin/false")).unwrap().run_once().unwrap_err();
        assert!(failing.to_string().contains("did not exit with 0"), "{failing}");
    }
}
