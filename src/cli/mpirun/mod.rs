//! `bulkhead mpirun`: an unmodified MPI program over several partitions of this host.
//!
//! ```text
//!  arguments ─► job ─► check ─► runtime folder, reaper ─► partition::together ─► code of Open MPI's mpirun
//!  signals ──────────────────────────────────────────────────► first partition
//!  stdin, stdout, stderr ◄════════════════════════════════════► its streams
//! ```

pub mod args;
mod job;
mod progress;

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::channel;
use std::time::Instant;

use anyhow::{Context, Result};
use nix::sys::signal::Signal;

use self::args::MpirunArgs;
use self::job::{Found, Job};
use self::progress::BootProgress;
use super::exec::folder::RuntimeFolder;
use super::exec::{OWN_FAILURE, code_of, on_event, say_failed, signals, surroundings, take_streams};
use super::output;
use model::partition::{PartitionSpec, ProgramEnd};
use partition::mpi::heartbeat::RankHeartbeat;
use partition::mpi::sections::{Sections, complaint};
use partition::mpi::words::{self, Transport, address_with_prefix};
use partition::mpi::{found, library};
use partition::network::hardware_prefix;
use partition::run::{self, Event, Failed, Outcome};
use partition::set::root::make_private;
use partition::together::{self, End, Team};

/// Runs the program; the code of Open MPI's own `mpirun` is ours.
pub fn run(args: &MpirunArgs) -> ExitCode {
    match execute(args) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            output::error(&error);
            ExitCode::from(OWN_FAILURE)
        }
    }
}

fn execute(args: &MpirunArgs) -> Result<u8> {
    let held = signals::hold().context("holding signals back")?;
    let job = Job::of(args)?;
    let exe = std::env::current_exe().context("the program's own file cannot be found")?;
    let ready = run::check(&job.as_asked()).and_then(|()| {
        let library = match job.transport {
            Transport::Channel => Some(found::library_folder(args.provider.as_deref(), &exe)?),
            Transport::Tcp => None,
        };
        let launcher = found::launcher(&job.program)?;
        library.as_deref().map(library::check).transpose()?;
        Ok((launcher, library))
    });
    let (launcher, library) = match ready {
        Ok(found) => found,
        Err(failed) => return Ok(refuse(&failed)),
    };
    if let Some(remark) = job.remark() {
        output::say(&format!("bulkhead: {remark}"));
    }
    let folder = RuntimeFolder::make(&exe).context("a folder for what is made")?;
    let link = folder.ledger().dir().join("link");
    make_private(&link).with_context(|| format!("{}", link.display()))?;
    let places = write_places(&folder, &job).context("the list of where further ranks are started")?;
    let sections = library
        .as_ref()
        .map(|_| Sections::make(&job.layout, job.section, &folder.ledger()))
        .transpose()
        .with_context(|| {
            let (count, size) = (job.layout.ranks(), job.section.to_bytes());
            format!("memory for the channels of {count} ranks, {size} each (--channel-size), in /dev/shm")
        })?;
    let found = Found {
        launcher: &launcher,
        library: library.as_deref(),
        exe: &exe,
        link: &link,
        places: &places,
        sections: sections.as_ref(),
    };
    let members = job.partitions(&found);
    let around = surroundings(&args.engine, exe.clone(), &folder);
    let prefix = hardware_prefix(&address_with_prefix(0)).map_err(anyhow::Error::msg)?;
    let (was_passed, passed) = channel();
    let orders = signals::pass_on(held, None, passed).context("a thread for signals")?;
    let streams = take_streams().context("the standard streams")?;
    let mut progress = BootProgress::new(&members);
    let team = Team { members: &members, link: &link, prefix };
    let mut heartbeat = sections.as_ref().map(Sections::heartbeat);
    let mut watch = || frozen(sections.as_ref()?, heartbeat.as_mut()?, &members);
    let mut tell = |number: usize, event: &Event| {
        progress.on(number, event);
        if let Event::Passed { number } = event {
            // Nobody waits for it any more.
            let _ = was_passed.send(*number);
        }
        if let Some(member) = members.get(number) {
            on_event(event, member);
        }
    };
    let end = together::run(&team, streams, &around, &orders, &mut tell, &mut watch);
    progress.finish();
    let code = code_of_end(&end, &members, sections.as_ref(), progress.ran_out());
    drop((around, sections));
    if let Err(error) = folder.remove() {
        output::say(&format!("bulkhead: removing the folder of what was made: {error}"));
    }
    Ok(code)
}

/// The list of where further ranks are started; another user of the partition may start Open MPI, so all may read it.
fn write_places(folder: &RuntimeFolder, job: &Job) -> io::Result<PathBuf> {
    let path = folder.ledger().dir().join("places");
    fs::write(&path, words::places(&job.layout))?;
    fs::set_permissions(&path, Permissions::from_mode(0o644))?;
    Ok(path)
}

fn refuse(failed: &Failed) -> u8 {
    say_failed(failed);
    failed.code
}

/// A rank that stands still while the job waits for it.
fn frozen(sections: &Sections, heartbeat: &mut RankHeartbeat, members: &[PartitionSpec]) -> Option<Failed> {
    let (rank, silent) = heartbeat.frozen(Instant::now())?;
    let partition = members.get(sections.home(rank)).map_or("", |member| member.name.as_str());
    Some(Failed::own(format!(
        "rank {rank} in partition {partition} has given no sign of life for {} s, and the others did not end by that",
        silent.as_secs()
    )))
}

/// Open MPI's mpirun ends with 1 when a signal made it end its ranks: what was asked says more. What ends well all the
/// same has caught the signal.
fn code_when_asked(how: ProgramEnd, number: i32, code: u8) -> u8 {
    let asked = ProgramEnd::Signal(number);
    if how == ProgramEnd::Exit(0) || how == asked {
        return code;
    }
    let name = Signal::try_from(number).map_or("a signal", Signal::as_str);
    output::say(&format!("bulkhead: ended because {name} came"));
    asked.code()
}

/// The launcher's own code, unless a rank never came to its channel.
fn code_of_end(end: &End, members: &[PartitionSpec], sections: Option<&Sections>, ran_out: bool) -> u8 {
    let code = members.first().map_or(OWN_FAILURE, |first| code_of(&end.outcome, &first.name, ran_out));
    let Outcome::Ended(how) = &end.outcome else { return code };
    if let Some(number) = end.asked {
        return code_when_asked(*how, number, code);
    }
    let Some(sections) = sections else { return code };
    let ended = match how {
        ProgramEnd::Exit(code) => format!("ended with {code}"),
        ProgramEnd::Signal(number) => format!("was ended by signal {number}"),
    };
    match sections.missing() {
        Ok(missing) if missing.is_empty() => code,
        Ok(missing) => refuse(&Failed::own(complaint(&missing, sections.ranks(), &ended))),
        Err(problem) => refuse(&Failed::own(format!("{problem} (mpirun {ended})"))),
    }
}
