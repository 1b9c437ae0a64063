//! Where does it run? Native, container, VM, fake; and the agent link, both ends.
//!
//! ```text
//!             Platform ──start──► Instance ──begin──► job runs ──finish──► JobReply
//!                                   │  ▲                 │
//!                              pause│  │resume           └─ breaks ─► Broken::Failed(Failure)
//!                                   ▼  │                               (instance is gone)
//!                                  paused
//! ```
//!
//! Every real platform carries the same agent (this binary) over the same link; what differs is the carrier: a child
//! process, a container, a virtual machine. [`instance::AgentInstance`] is the one implementation of [`Instance`] over
//! a carrier; `fake` is the other, scripted one.

pub mod agent;
mod agent_stage;
pub mod allowances;
pub mod cgroup;
pub mod console;
pub mod container;
mod context;
pub mod facts;
pub mod fake;
pub mod held_process;
pub mod host;
pub mod instance;
pub mod lab;
pub mod ledger;
pub mod limits;
pub mod link;
pub mod listening;
pub mod make;
pub mod native;
pub mod own_folder;
pub mod process;
pub mod reaper;
mod removal;
pub mod run_lock;
pub mod spawn;
pub mod ssh;
pub mod storage;
pub mod sweep;
mod tracing;
pub mod vm;
pub mod wall;

pub use context::PlatformContext;
pub use make::make;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use model::journal::{Failure, PlatformState};
use probes::job::{Job, JobReply};
use units::facts::MachineFacts;
use units::{Bytes, Nanos, Reason};

/// Set once when the user interrupts; everything that waits looks at it at least every 100 ms.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// A fresh token, not cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks everyone who holds a clone to end. Safe to call in a signal handler.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Whether to end.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// Why a platform or an instance did not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Broken {
    /// It broke; to be recorded. The instance is gone or must be ended.
    Failed(Failure),
    /// The user interrupted; nothing is to be recorded.
    Interrupted,
}

impl From<Failure> for Broken {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// What an instance is started with.
#[derive(Debug, Clone, Default)]
pub struct InstanceSpec {
    /// Unique among the instances of its platform that live at once: 0 is the measured instance, 1 its neighbour, the
    /// members of a layout follow.
    pub number: u32,
    /// Memory the probes need; a VM gets at least this unless its settings say otherwise.
    pub memory_wanted: Bytes,
    /// Room for the disk probe's and disk load's files; a VM's disk gets this size.
    pub disk_wanted: Bytes,
    /// Folder on the host for files of this instance (disk probe files, disk images). Exists; emptied by its owner.
    pub scratch: PathBuf,
    /// 0 for the measured instance and the first of a layout, more for the others.
    pub rank: u32,
    /// Number of its host in a layout, 0 otherwise.
    pub host: u32,
    /// Where it is plugged in, for layouts that need a network.
    pub port: Option<lab::Port>,
}

/// How instances of a platform reach each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// They cannot.
    None,
    /// Over a [`lab::Lab`] of this machine, with addresses of their own.
    Lab,
    /// Over a [`lab::Lab`] of this machine, with the address of their host.
    LabSharedAddress,
    /// Over a network of their own; [`Platform::address`] says under which address.
    Own,
}

/// A way to run code on this host.
pub trait Platform: Send {
    /// Looks whether instances can be started here and what they will be; slow trials (does KVM really work?) happen
    /// here, once. What is missing is said in [`PlatformState::unavailable`] with what installs it.
    fn survey(&mut self, cancel: &Cancel) -> PlatformState;

    /// Starts an instance and waits until its agent answers.
    ///
    /// # Errors
    /// When it cannot be started or the user interrupts; nothing of it is left then.
    fn start(&mut self, spec: &InstanceSpec, cancel: &Cancel) -> Result<Box<dyn Instance>, Broken>;

    /// How its instances reach each other.
    fn reach(&self) -> Reach {
        Reach::None
    }

    /// Under which address the instance `spec` is reached by the others, for [`Reach::Own`].
    fn address(&self, _spec: &InstanceSpec) -> Option<std::net::IpAddr> {
        None
    }

    /// How many hosts it can spread a layout over; a platform on one machine stands in for any number.
    fn hosts(&self) -> u32 {
        units::layout::MAX_HOSTS
    }
}

/// One running copy of a platform. Dropping it ends it, too, and undoes what was made for it.
pub trait Instance: Send {
    /// What its agent sees of its machine.
    fn facts(&self) -> &MachineFacts;

    /// From the start of the instance until its agent answered.
    fn start_time(&self) -> Nanos;

    /// Lets a paused instance run again. A running one stays as it is.
    ///
    /// # Errors
    /// When the instance is gone or does not obey.
    fn resume(&mut self) -> Result<(), Broken>;

    /// Takes the instance's CPUs away while it is not its turn, where the platform can do that; otherwise it idles.
    ///
    /// # Errors
    /// When the instance is gone, busy, or does not obey.
    fn pause(&mut self) -> Result<(), Broken>;

    /// Gives it a job and returns when its loads are up (and its probe, if any, begins).
    ///
    /// # Errors
    /// When the instance is gone, breaks meanwhile, or the user interrupts.
    fn begin(&mut self, job: &Job, cancel: &Cancel) -> Result<(), Broken>;

    /// Tells the job that was begun, and that has a part, at which moment of the host's `CLOCK_MONOTONIC` its probe
    /// starts.
    ///
    /// # Errors
    /// When the instance is gone or no job was begun.
    fn start_at(&mut self, _at: Nanos) -> Result<(), Broken> {
        Ok(())
    }

    /// Processes of this machine that carry the instance, for the host's account of it; empty where there are none.
    fn processes(&self) -> Vec<u32> {
        Vec::new()
    }

    /// Bytes of its memory on each memory node of this machine as `(node, bytes)`, ascending; none where the instance sees
    /// the nodes itself, or does not run on this machine.
    ///
    /// # Errors
    /// Why they cannot be known.
    fn memory_by_node(&mut self) -> Option<Result<Vec<(u32, Bytes)>, Reason>> {
        None
    }

    /// Waits for the reply of the job that was begun. A job without a probe is asked to stop first.
    ///
    /// # Errors
    /// When the instance is gone, breaks meanwhile, or the user interrupts.
    fn finish(&mut self, cancel: &Cancel) -> Result<JobReply, Broken>;

    /// Ends the instance: politely, then by force; nothing is left behind when this returns. Safe to call twice.
    fn end(&mut self);
}

/// What carries an agent: the process, container or VM behind the link. Implemented once per real platform.
pub trait Carrier: Send {
    /// Last lines of its console or error output, oldest first, at most 40 of at most 400 characters each.
    fn console_tail(&self) -> Vec<String>;

    /// Says how it ended when it has ended, for example `qemu ended with exit status 1`; none while it runs.
    fn how_it_ended(&mut self) -> Option<String>;

    /// Stops its CPUs, where it has some of its own: an idle agent sleeps in `poll` and takes none.
    ///
    /// # Errors
    /// Why its CPUs cannot be stopped.
    fn pause(&mut self) -> Result<(), Reason> {
        Ok(())
    }

    /// Undoes [`Carrier::pause`].
    ///
    /// # Errors
    /// Why its CPUs cannot be let go.
    fn resume(&mut self) -> Result<(), Reason> {
        Ok(())
    }

    /// Processes of this machine that carry the instance, threads' parents only.
    fn processes(&self) -> Vec<u32> {
        Vec::new()
    }

    /// Bytes of the instance's memory on each memory node of this machine; none where it sees the nodes itself.
    ///
    /// # Errors
    /// Why they cannot be known.
    fn memory_by_node(&mut self) -> Option<Result<Vec<(u32, Bytes)>, Reason>> {
        None
    }

    /// Kills what still runs, reaps it, and removes what was made for it. Safe to call twice.
    fn end(&mut self);
}
