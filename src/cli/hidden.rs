//! Commands nobody types: the agent, the reaper, and a program that does nothing.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::model::job::{Job, JobReply};
use crate::model::params::ProbeSpec;
use crate::platforms::fake::{Pretence, dose, report};
use crate::platforms::{agent, facts, reaper};

/// Runs a hidden command; none when the arguments name no such command.
pub fn dispatch(arguments: &[String]) -> Option<ExitCode> {
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["agent", "--link", "stdio", ..] => Some(run_agent()),
        ["reaper", dir] => Some(run_reaper(Path::new(dir))),
        ["noop"] => Some(ExitCode::SUCCESS),
        _ => None,
    }
}

fn streams() -> std::io::Result<(OwnedFd, OwnedFd)> {
    Ok((std::io::stdin().as_fd().try_clone_to_owned()?, std::io::stdout().as_fd().try_clone_to_owned()?))
}

fn run_agent() -> ExitCode {
    let Ok((read, write)) = streams() else { return ExitCode::FAILURE };
    match agent::serve(read, write, facts::collect(None), &pretend) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn run_reaper(dir: &Path) -> ExitCode {
    let Ok((read, _)) = streams() else { return ExitCode::FAILURE };
    reaper::reaper_main(dir, read);
    ExitCode::SUCCESS
}

/// Takes the time of the job and answers with made-up data.
fn pretend(job: &Job, stop: &AtomicBool, running: &mut dyn FnMut()) -> JobReply {
    running();
    let doses = job.loads.iter().map(|load| dose(load, 2)).collect();
    let time = match &job.probe {
        Some(ProbeSpec::Gap(gap)) => gap.duration_ms.to_duration(),
        Some(_) => Duration::from_millis(1),
        None => Duration::MAX,
    };
    let begun = Instant::now();
    while begun.elapsed() < time && !(job.probe.is_none() && stop.load(Ordering::SeqCst)) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let pretence =
        Pretence { seed: 0, label: "agent".to_owned(), slowdown_percent: 100, noise_percent: 1, cpus: 2 };
    let report = job.probe.as_ref().map(|probe| report(&pretence, probe, job.seed));
    JobReply { report, doses }
}
