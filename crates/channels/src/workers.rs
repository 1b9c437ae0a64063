//! Who takes part: a process on the host, and the programs of two partitions with a section each and a network.

use std::io::{self, pipe};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::handle::{NoAnswer, WorkerHandle};
use super::worker::{self, VERB};
use model::channel_worker::WorkerOrder;
use model::partition::{
    CardSpec, Content, Files, NumberList, PartitionSpec, Program, Resources, SectionSpec,
};
use partition::network::switch::socket_name;
use partition::run::{Event, Order, Outcome, Streams, Surroundings, run};
use partition::section_folder::SectionFolder;
use platforms::Cancel;
use platforms::spawn::{Bond, ending, spawn};
use platforms::vm::toolbox::memory_for;
use units::{Bytes, Mebibytes};

/// Name of the network between the partitions.
const NETWORK: &str = "bench";
/// Memory of a partition, less what its system takes.
const MEMORY: Bytes = Bytes::from_bytes(192 << 20);
/// The section that partition a writes, and its partition.
pub const CHANNEL_A: &str = "a";
/// The section that partition b writes, and its partition.
pub const CHANNEL_B: &str = "b";
/// How long who was told to end may take.
const END_GRACE: Duration = Duration::from_secs(5);
/// How often it is looked.
const LOOK: Duration = Duration::from_millis(10);

/// A process on the host; killed when dropped.
pub struct HostWorker {
    /// Where it is asked.
    pub handle: WorkerHandle,
    child: Child,
}

impl HostWorker {
    /// Starts it.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(exe: &Path, cancel: &Cancel) -> io::Result<Self> {
        let ((input, to), (from, output)) = (pipe()?, pipe()?);
        let mut command = Command::new(exe);
        command.arg(VERB).stdin(input).stdout(output);
        let child = spawn(command, Bond::DiesWithUs, None)?;
        Ok(Self { handle: WorkerHandle::new("the host's process", to.into(), from.into(), cancel)?, child })
    }

    /// Says how it ended, once it is lost.
    pub fn explain(&mut self) {
        if self.handle.has_ended()
            && let Some(status) = ended_soon(&mut self.child)
        {
            self.handle.lose(&ending(status));
        }
    }
}

impl Drop for HostWorker {
    fn drop(&mut self) {
        let is_idle = self.handle.is_idle();
        let _ = self.handle.order(&WorkerOrder::Bye);
        if !is_idle || ended_soon(&mut self.child).is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn ended_soon(child: &mut Child) -> Option<std::process::ExitStatus> {
    let until = Instant::now() + END_GRACE;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if Instant::now() < until => std::thread::sleep(LOOK),
            _ => return None,
        }
    }
}

/// Address of the partition that follows.
pub const FOLLOWER_ADDRESS: &str = "10.77.9.2";

/// Address of a partition in the network, with prefix length.
pub fn address(number: u8) -> String {
    format!("10.77.9.{number}/24")
}

/// What a partition is made of.
pub struct PartitionPlan<'a> {
    /// `a` or `b`.
    pub name: &'a str,
    /// 1 or 2.
    pub number: u8,
    /// Folder of the switch's sockets.
    pub link: &'a Path,
    /// Host CPUs of its virtual ones; empty for any.
    pub cpus: &'a [u32],
    /// The memory of both sections.
    pub sections: &'a SectionFolder,
}

/// A partition whose program is a worker; ended when dropped.
pub struct PartitionWorker {
    /// Where it is asked.
    pub handle: WorkerHandle,
    /// `kvm` or `tcg`, once it runs.
    pub engine: Option<String>,
    orders: Sender<Order>,
    runs: Option<JoinHandle<Outcome>>,
    told: Receiver<Told>,
}

/// What is told while it runs.
enum Told {
    Engine(&'static str),
    Started,
}

impl PartitionWorker {
    /// Starts it; [`Self::wait_until_started`] says whether that went well.
    ///
    /// # Errors
    /// When there are no pipes or threads.
    pub fn start(plan: &PartitionPlan<'_>, around: &Surroundings, cancel: &Cancel) -> io::Result<Self> {
        let ((input, to), (from, output)) = (pipe()?, pipe()?);
        let error: OwnedFd = io::stderr().as_fd().try_clone_to_owned()?;
        let streams = Streams { input: input.into(), output: output.into(), error };
        let handle = WorkerHandle::new(&format!("partition {}", plan.name), to.into(), from.into(), cancel)?;
        let ((orders, inbox), (tell, told)) = (channel(), channel());
        let (spec, around) = (partition(plan, &around.exe), around.clone());
        let runs = std::thread::Builder::new().name(format!("partition {}", plan.name)).spawn(move || {
            run(&spec, streams, &around, inbox, &mut |event| {
                // Nobody listens once it has started.
                let _ = match event {
                    Event::Created { engine, .. } => tell.send(Told::Engine(engine)),
                    Event::Started => tell.send(Told::Started),
                    _ => Ok(()),
                };
            })
        })?;
        Ok(Self { handle, engine: None, orders, runs: Some(runs), told })
    }

    /// Waits until its program runs; how long that may take is the business of who runs it.
    ///
    /// # Errors
    /// Why it does not.
    pub fn wait_until_started(&mut self, cancel: &Cancel) -> Result<(), NoAnswer> {
        loop {
            match self.told.recv_timeout(LOOK) {
                Ok(Told::Engine(engine)) => self.engine = Some(engine.to_owned()),
                Ok(Told::Started) => return Ok(()),
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) if cancel.is_cancelled() => {
                    return Err(NoAnswer::Interrupted);
                }
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {}
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => {
                    let how = self.how_it_ended();
                    return Err(self.handle.lose(&how));
                }
            }
        }
    }

    /// Says how it ended, once it is lost.
    pub fn explain(&mut self) {
        if self.handle.has_ended() && self.runs.is_some() {
            let until = Instant::now() + END_GRACE;
            while Instant::now() < until && self.runs.as_ref().is_some_and(|runs| !runs.is_finished()) {
                std::thread::sleep(LOOK);
            }
            if self.runs.as_ref().is_some_and(JoinHandle::is_finished) {
                let how = self.how_it_ended();
                self.handle.lose(&how);
            }
        }
    }

    fn how_it_ended(&mut self) -> String {
        match self.runs.take().map(JoinHandle::join) {
            Some(Ok(Outcome::Ended(how))) => format!("has ended: its program ended with {}", how.code()),
            Some(Ok(Outcome::Failed(failed))) => {
                let last = failed.console.last().map(|line| format!(" ({line})")).unwrap_or_default();
                format!("broke: {}{last}", failed.reason)
            }
            _ => "broke".to_owned(),
        }
    }
}

impl Drop for PartitionWorker {
    fn drop(&mut self) {
        let grace = if self.handle.is_idle() { END_GRACE } else { Duration::ZERO };
        let _ = self.handle.order(&WorkerOrder::Bye);
        let Some(runs) = self.runs.take() else { return };
        let until = Instant::now() + grace;
        while !runs.is_finished() && Instant::now() < until {
            std::thread::sleep(LOOK);
        }
        let _ = self.orders.send(Order::Kill);
        let _ = runs.join();
    }
}

fn partition(plan: &PartitionPlan<'_>, exe: &Path) -> PartitionSpec {
    use std::os::unix::ffi::OsStrExt;
    let program = Program {
        argv: vec![exe.as_os_str().as_bytes().to_vec(), VERB.as_bytes().to_vec()],
        workdir: PathBuf::from("/"),
        files: Files::None,
        ..Program::default()
    };
    let cpus = u32::try_from(plan.cpus.len()).unwrap_or(1).max(1);
    PartitionSpec {
        name: plan.name.to_owned(),
        content: Content::Program(Box::new(program)),
        resources: Resources {
            pin: (!plan.cpus.is_empty()).then(|| NumberList::of(plan.cpus.iter().copied())),
            ..Resources::usual(cpus, memory_for(MEMORY))
        },
        disks: Vec::new(),
        cards: vec![CardSpec::Switch {
            network: NETWORK.to_owned(),
            sockets: vec![plan.link.join(socket_name(plan.number))],
            number: plan.number,
            address: address(plan.number),
        }],
        sections: sections(plan),
        ports: Vec::new(),
    }
}

/// Size of a section: devices have powers of two.
pub fn section_size() -> Mebibytes {
    Mebibytes::from_mib(worker::section_bytes().div_ceil(1 << 20).next_power_of_two())
}

/// Each writes its own section and reads the other's.
fn sections(plan: &PartitionPlan<'_>) -> Vec<SectionSpec> {
    let section = |name: &str| SectionSpec {
        name: name.to_owned(),
        path: plan.sections.file(name),
        size_mib: section_size(),
        writable: name == plan.name,
    };
    [CHANNEL_A, CHANNEL_B].map(section).into()
}
