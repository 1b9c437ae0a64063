//! Runs one partition from creation to its end: for the verb `exec`, and for each supervisor of a set.
//!
//! ```text
//!  check ─► engine ─► assemble ─► QEMU, paused ─► place ─► let go ─► main session ◄──► PID 1      relay ◄══► streams
//!                        └─► QEMU, with a saved machine's state ─┘
//! ```

mod assemble;
mod check;
mod engine;
mod inbox;
mod launch;
pub mod links;
mod lookup;
mod main_session;
mod making;
mod opened;
mod own_places;
mod parked;
mod relay;
mod sections;
mod tools;
mod unattended;
mod view;

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use crate::place;
use model::experiment::Accelerator;
use model::partition::network::NamedAddress;
use model::partition::{Given, PartitionSpec, ProgramEnd, Stream, TerminalSize, Victim};
use platforms::ledger::Ledger;
use units::{Hertz, Nanos, Reason};

pub use assemble::sections;
pub use check::Obstacle;
pub use inbox::is_ending;
pub use launch::run;
pub use lookup::{FoundProgram, path_of, program as find_program, root_of};
pub use main_session::REACTION;
pub use sections::check_file;
pub use tools::all_there;
pub use unattended::{Unattended, can_be_left_alone, unattended};
pub use view::{named_by_path, shown_unasked};

/// What a partition is made with.
#[derive(Debug, Clone)]
pub struct Surroundings {
    /// This program.
    pub exe: PathBuf,
    /// Cache folder: kernels, and whether KVM works on this boot of this host.
    pub cache: PathBuf,
    /// Where everything that must be undone is written down; its folder takes temporary files, too.
    pub ledger: Ledger,
    /// Rate of the cycle counter.
    pub counter_hz: Option<Hertz>,
    /// What runs the CPUs.
    pub accelerator: Accelerator,
    /// QEMU, kernel and modules, where the user named them.
    pub qemu: Option<String>,
    /// See `qemu`.
    pub kernel: Option<String>,
    /// See `qemu`.
    pub modules: Option<String>,
    /// Time from creation until the program runs.
    pub boot_deadline: Option<Duration>,
    /// By which names its program finds others, and itself. No part of what the partition is: who comes or goes beside
    /// it is no reason to start it anew.
    pub names: Vec<NamedAddress>,
    /// Whether its guest may come from a saved machine, and be saved for those that come after it.
    pub restores: bool,
    /// Socket, in a folder that is ours alone, at which sessions with it come in; without one, nobody's.
    pub door: Option<PathBuf>,
}

/// The program's standard streams on the host's side.
#[derive(Debug)]
pub struct Streams {
    /// Read until its end.
    pub input: OwnedFd,
    /// Written to; when nobody reads there any more, the program's own writes fail, too. An image's console goes there.
    pub output: OwnedFd,
    /// See `output`.
    pub error: OwnedFd,
}

/// What a running partition can be told from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Send the program this signal.
    Signal(i32),
    /// Its terminal has another size.
    Resize(TerminalSize),
    /// End the partition at once.
    Kill,
}

/// What is told while a partition runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Whether KVM works is being tried, which takes some seconds once per boot of the host.
    Trying,
    /// QEMU was started, paused.
    Created {
        /// Its process.
        pid: u32,
        /// The one that serves its file trees, where there are any.
        files: Option<u32>,
        /// `kvm` or `tcg`.
        engine: &'static str,
    },
    /// Its guest is made from a saved machine.
    Restored,
    /// It is not, or could not be saved for others: why.
    NotRestored {
        /// In words.
        why: String,
    },
    /// It was placed and checked, and is let go.
    Placed(Box<Given>),
    /// Its kernel and file tree are up, the program is about to start.
    Booted {
        /// CPUs it sees.
        cpus: u32,
        /// Memory it sees, in bytes.
        memory_bytes: u64,
        /// Memory that is free for the program, in bytes.
        free_bytes: u64,
    },
    /// The program runs (for an image: its CPUs do).
    Started,
    /// The program was given this signal, which was ordered before.
    Passed {
        /// Its number.
        number: i32,
    },
    /// What it writes cannot be written on for another reason than that nobody reads; its own writes fail from now on.
    Unwritable {
        /// Which stream.
        stream: Stream,
        /// Why.
        why: String,
    },
    /// Its program has ended; clients of its ports still take what it sent.
    Delivers,
    /// A process in it was killed because memory had run out.
    MemoryRanOut(Victim),
}

/// How a partition ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Its program ended.
    Ended(ProgramEnd),
    /// It could not be started, or broke.
    Failed(Failed),
}

/// Why there is no end of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// 125: our own failure, 126: cannot be executed, 127: not found.
    pub code: u8,
    /// What was wanted, what happened, what to do.
    pub reason: String,
    /// The last lines of the guest's console.
    pub console: Vec<String>,
    /// The signal from outside that ended it before its program ran.
    pub interrupted: Option<i32>,
    /// The guest has ended: how its machine did is known in a moment.
    pub guest_ended: bool,
    /// It runs, and did not come so far in time.
    pub is_late: bool,
}

impl From<Failed> for Outcome {
    /// An interruption is an end by that signal.
    fn from(failed: Failed) -> Self {
        failed.interrupted.map_or(Self::Failed(failed), |number| Self::Ended(ProgramEnd::Signal(number)))
    }
}

impl From<Reason> for Failed {
    fn from(reason: Reason) -> Self {
        Self::own(reason)
    }
}

impl Failed {
    /// A failure of our own.
    pub fn own(reason: impl Into<String>) -> Self {
        Self::of(125, reason)
    }

    /// With another code, see [`Self::code`].
    pub fn of(code: u8, reason: impl Into<String>) -> Self {
        let (console, interrupted) = (Vec::new(), None);
        Self { code, reason: reason.into(), console, interrupted, guest_ended: false, is_late: false }
    }

    /// The guest has ended, and its program has not.
    pub fn guest_ended() -> Self {
        Self { guest_ended: true, ..Self::own("the guest has ended before its program") }
    }

    /// The guest had so long, and did not do this.
    pub fn late(what: &str, within: Duration) -> Self {
        let within = Nanos::from_duration(within);
        let reason = format!("the guest did not {what} within {within} (--boot-deadline-s gives it longer)");
        Self { is_late: true, ..Self::own(reason) }
    }

    /// Ended from outside before its program ran.
    pub fn interrupted(number: i32) -> Self {
        Self { interrupted: Some(number), ..Self::own("interrupted") }
    }
}

/// Orders for a partition; when the sending end is dropped there are no more.
pub type Orders = Receiver<Order>;

/// Checks what can be told before anything is made: the program is there and runs on this machine, the folders that are
/// to be served exist, CPUs and memory nodes are there, memory suffices.
///
/// # Errors
/// The first thing that stands in its way, and the exit code that says so.
pub fn check(spec: &PartitionSpec) -> Result<(), Failed> {
    place::possible(&spec.resources)?;
    obstacles(spec).into_iter().next().map_or(Ok(()), |first| Err(first.failed))
}

/// The same but for CPUs and memory, and all that stands in its way.
pub fn obstacles(spec: &PartitionSpec) -> Vec<Obstacle> {
    check::obstacles(spec)
}
