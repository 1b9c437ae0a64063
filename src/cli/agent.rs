//! The agent's side of the program: what runs inside an instance, the reaper, and the children of probes.
//!
//! ```text
//!  bulkhead agent --link stdio --scratch DIR     child process or container: the link is stdin and stdout
//!  PID 1 with a guest configuration              VM: boots the guest, then serves the link
//!  bulkhead wall …                               becomes a program that sees only what it is given; wall-users beside it
//!  bulkhead reaper DIR                           undoes what a crashed run left behind
//!  bulkhead supervisor FOLDER                    keeps a partition or a switch of a set
//!  bulkhead watch SET                            starts supervisors of a set that were killed again
//!  bulkhead undo STATE SET                       undoes what a killed `up` had begun
//!  bulkhead settle                               puts this program to stay on another machine, for --on
//!  bulkhead errand                               does there what --on has sent
//!  bulkhead janitor FOLDER                       removes a remote agent's folder when the agent has ended
//!  bulkhead channel-worker                       one of those between whom a channel bench measures
//!  bulkhead noop                                 ends at once: what the fork probe executes
//!  bulkhead agent fail WHAT                      makes something fail where it runs, for verify --failures
//!  bulkhead mend STATE SET NAME…                 starts what a killed verification had made to fail
//!  bulkhead agent mpi-wait                       in a partition: waits for Open MPI's daemon and runs it
//!  bulkhead agent mpi-launch HOST WORDS…         in the first one: brings it there, in place of ssh
//!  bulkhead switch --folder DIR …                carries frames between the partitions of a network
//!  bulkhead files TREES                        serves a partition's file trees over virtio-fs
//!  bulkhead compile, bulkhead link               what the compile job executes
//! ```

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use super::{output, remote};
use channels::worker;
use partition;
use partition::mpi;
use partition::network::switch;
use partition::set::down::undo_after_death;
use partition::set::supervisor::{Means, keep};
use partition::set::watch::watch;
use platforms::ssh::errand;
use platforms::ssh::janitor::{Janitor, janitor_main};
use platforms::{Cancel, agent, facts, reaper, vm, wall};
use probes::build::verbs;
use probes::clock::Anchor;
use probes::job::{Job, JobReply};
use probes::loads::resting::Resting;
use probes::run::{Surroundings, run_job_after};
use units::stage::Stage;
use units::{Hertz, Reason};
use verify::command::keeper::{KEEP_VERB, keep as keep_test};
use verify::failure::{FAIL_VERB, MEND_VERB, fail_here, mend};

/// This program, also when its file has been removed.
const OWN_FILE: &str = "/proc/self/exe";

/// Most words that are read: a switch has two for each plug with a rate.
const MOST_WORDS: usize = 600;

/// Runs the agent's side if that is what was asked for; `None` means this is an ordinary command line.
pub fn take_over() -> Option<ExitCode> {
    let words: Vec<OsString> = std::env::args_os().skip(1).take(MOST_WORDS).collect();
    let first = words.first().and_then(|word| word.to_str());
    match first {
        Some("noop") => Some(ExitCode::SUCCESS),
        Some("compile") => Some(ended(verbs::compile_file(words.get(1..).unwrap_or_default()))),
        Some("link") => Some(ended(verbs::link_files(words.get(1..).unwrap_or_default()))),
        Some("agent") => Some(match words.get(1).and_then(|word| word.to_str()) {
            Some(FAIL_VERB) => ended(fail_here(&in_text(words.get(2..).unwrap_or_default()))),
            Some("mpi-wait") => ExitCode::from(mpi::agent::wait()),
            Some("mpi-launch") => ExitCode::from(mpi::agent::launch(words.get(2..).unwrap_or_default())),
            _ => serve(&words),
        }),
        Some("switch") => Some(ended(carry(words.get(1..).unwrap_or_default()))),
        Some(vm::files::VERB) => Some(ended(vm::files::serve(words.get(1..).unwrap_or_default()))),
        Some(worker::VERB) => Some(ended(worker::serve())),
        Some("reaper") => Some(reap(&words)),
        Some("janitor") => Some(clean(&words)),
        Some("settle") => Some(remote::settle()),
        Some(errand::VERB) => Some(remote::serve()),
        Some(wall::VERB) => Some(wall::main(std::env::args_os().skip(2).collect())),
        Some(wall::USERS_VERB) => Some(wall::hold_users()),
        Some("supervisor") => Some(kept(&words)),
        Some("watch") => Some(watched(&words)),
        Some("undo") => Some(undone(&words)),
        Some(KEEP_VERB) => Some(keep_test(words.get(1..).unwrap_or_default())),
        Some(MEND_VERB) => {
            Some(ended(mend(&in_text(words.get(1..).unwrap_or_default()), Path::new(OWN_FILE))))
        }
        _ if vm::init::is_guest() => {
            let resting = Resting::default();
            vm::init::guest_main(
                counter_rate,
                &|scratch: &Path, job: &Job, stop: &AtomicBool, stage: &mut dyn Stage| {
                    execute(&resting, job, Some(scratch.to_owned()), stop, stage)
                },
            )
        }
        _ => None,
    }
}

/// Words as text: what is none was not written by this program.
fn in_text(words: &[OsString]) -> Vec<String> {
    words.iter().map(|word| word.to_string_lossy().into_owned()).collect()
}

/// Value after `--name`.
fn option(words: &[OsString], name: &str) -> Option<PathBuf> {
    let at = words.iter().position(|word| word == name)?;
    words.get(at + 1).map(PathBuf::from)
}

fn serve(words: &[OsString]) -> ExitCode {
    let scratch = option(words, "--scratch");
    // Held until the agent ends.
    let _janitor =
        match option(words, "--leave-nothing").map(|folder| Janitor::hire(&folder, Path::new(OWN_FILE))) {
            Some(Err(error)) => return failed(&format!("agent: {error}")),
            hired => hired,
        };
    let (read, write) =
        match (std::io::stdin().as_fd().try_clone_to_owned(), std::io::stdout().as_fd().try_clone_to_owned())
        {
            (Ok(read), Ok(write)) => (read, write),
            (Err(error), _) | (_, Err(error)) => {
                return failed(&format!("agent: no link on stdin and stdout: {error}"));
            }
        };
    let resting = Resting::default();
    let run = move |job: &Job, stop: &AtomicBool, stage: &mut dyn Stage| {
        execute(&resting, job, scratch.clone(), stop, stage)
    };
    match agent::serve(read, write, facts::collect(counter_rate()), &run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&format!("agent: {error}")),
    }
}

fn execute(
    resting: &Resting,
    job: &Job,
    scratch: Option<PathBuf>,
    stop: &AtomicBool,
    stage: &mut dyn Stage,
) -> JobReply {
    let surroundings = Surroundings { scratch, exe: PathBuf::from(OWN_FILE) };
    run_job_after(resting, job, &surroundings, stop, stage)
}

/// Rate of the cycle counter over a short time; none where it cannot be used.
pub fn counter_rate() -> Option<Hertz> {
    Anchor::take().and_then(|anchor| anchor.rate_since()).ok()
}

fn reap(words: &[OsString]) -> ExitCode {
    let Some(folder) = words.get(1).map(PathBuf::from) else {
        return failed("reaper: wanted the run directory as argument");
    };
    match std::io::stdin().as_fd().try_clone_to_owned() {
        Ok(pipe) => {
            reaper::reaper_main(&folder, pipe);
            ExitCode::SUCCESS
        }
        Err(error) => failed(&format!("reaper: no pipe on stdin: {error}")),
    }
}

fn carry(words: &[OsString]) -> Result<(), String> {
    let order = switch::SwitchOrder::parse(words).map_err(|error| format!("switch: {error}"))?;
    switch::process::serve(&order).map_err(|error| format!("switch: {error}"))
}

fn clean(words: &[OsString]) -> ExitCode {
    let Some(folder) = words.get(1).map(PathBuf::from) else {
        return failed("janitor: wanted a folder as argument");
    };
    let pipe = std::io::stdin().as_fd().try_clone_to_owned().map(std::io::PipeReader::from);
    match pipe.and_then(|pipe| janitor_main(&folder, pipe)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&format!("janitor: {error}")),
    }
}

fn kept(words: &[OsString]) -> ExitCode {
    let Some(folder) = words.get(1).map(PathBuf::from) else {
        return failed("supervisor: wanted a folder as argument");
    };
    let cancel = Cancel::new();
    let handed = cancel.clone();
    if let Err(error) = ctrlc::set_handler(move || handed.cancel()) {
        return failed(&format!("supervisor: no handler for signals: {error}"));
    }
    let go = match std::io::stdin().as_fd().try_clone_to_owned() {
        Ok(go) => go,
        Err(error) => return failed(&format!("supervisor: {error}")),
    };
    // Not by its path: a set outlives updates of the program, and what it starts anew must understand its words.
    let exe = Path::new(OWN_FILE);
    let means = Means { cancel: &cancel, exe, counter_hz: counter_rate(), run: &partition::run::run };
    ended(keep(&folder, go, &means).map_err(|error| format!("supervisor: {error}")))
}

fn watched(words: &[OsString]) -> ExitCode {
    let Some(set) = words.get(1).map(PathBuf::from) else {
        return failed("watch: wanted the folder of a set as argument");
    };
    let held = std::io::stdin().as_fd().try_clone_to_owned().map_err(|error| Reason::from(error.to_string()));
    let watched = held.and_then(|held| watch(&set, &held.into(), Path::new(OWN_FILE)));
    ended(watched.map_err(|error| format!("watch: {error}")))
}

fn undone(words: &[OsString]) -> ExitCode {
    let (Some(state), Some(set)) =
        (words.get(1).map(PathBuf::from), words.get(2).and_then(|set| set.to_str()))
    else {
        return failed("undo: wanted the folder of all sets and the name of one");
    };
    match std::io::stdin().as_fd().try_clone_to_owned() {
        Ok(pipe) => {
            if !reaper::goodbye_was_said(pipe) {
                undo_after_death(&state, set);
            }
            ExitCode::SUCCESS
        }
        Err(error) => failed(&format!("undo: no pipe on stdin: {error}")),
    }
}

fn ended<E: std::fmt::Display>(outcome: Result<(), E>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => failed(&reason.to_string()),
    }
}

fn failed(text: &str) -> ExitCode {
    output::say(&format!("bulkhead: {text}"));
    ExitCode::FAILURE
}
