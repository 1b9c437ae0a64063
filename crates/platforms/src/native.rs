//! Native: the agent as a process on the host itself, the baseline of the others. So that nothing but the wall between
//! differs, it is started as an OCI runtime starts the agent of a container: the same file, with nothing of this program's
//! environment, in a session of its own and, by root, in cgroups of its own at the same place.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use super::cgroup::{CpuLimits, Groups};
use super::instance::AgentInstance;
use super::ledger::Ledger;
use super::process::Process;
use super::spawn::{enter, enter_group};
use super::storage::{Held, Storage};
use super::{Broken, Cancel, Carrier, Instance, InstanceSpec, Platform, Reach};
use model::experiment::PlatformSpec;
use model::journal::{Failure, FailureKind, PlatformState};

/// Until the agent must have answered.
const START_DEADLINE: Duration = Duration::from_secs(20);

/// This program's binary, opened once: replacing the file during a run does not change what is measured.
#[derive(Debug)]
pub struct Executable {
    file: File,
}

impl Executable {
    /// Opens the binary at `path`, for example `/proc/self/exe`.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn open(path: &std::path::Path) -> io::Result<Self> {
        Ok(Self { file: File::open(path)? })
    }

    /// Under this path this process and a child it has just forked reach the binary.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.file.as_raw_fd()))
    }

    /// Whether `path` is this very file.
    pub fn is_at(&self, path: &std::path::Path) -> bool {
        use std::os::unix::fs::MetadataExt;
        let same = |there: std::fs::Metadata| {
            self.file.metadata().is_ok_and(|ours| (ours.dev(), ours.ino()) == (there.dev(), there.ino()))
        };
        path.metadata().is_ok_and(same)
    }

    /// A command that runs the binary.
    pub fn command(&self) -> Command {
        let mut command = Command::new(self.path());
        command.arg0("bulkhead");
        command
    }
}

/// The host itself.
#[derive(Debug)]
pub struct Native {
    spec: PlatformSpec,
    exe: PathBuf,
    opened: Option<Executable>,
    ledger: Ledger,
    storage: Storage,
}

impl Native {
    /// Runs agents of the binary `exe`.
    pub fn new(spec: &PlatformSpec, exe: PathBuf, ledger: Ledger, storage: Storage) -> Self {
        Self { spec: spec.clone(), exe, opened: None, ledger, storage }
    }

    fn failure(&self, reason: &str) -> Broken {
        let reason = format!("{}: {reason}", self.spec.label);
        Failure { kind: FailureKind::Start, reason, console: vec![] }.into()
    }
}

impl Platform for Native {
    fn survey(&mut self, _cancel: &Cancel) -> PlatformState {
        let cpus = self.spec.cpus.map_or_else(
            || "all this process may use".to_owned(),
            |cpus| format!("held to the first {cpus} this process may use"),
        );
        let limits = CpuLimits::of(&self.spec, 0);
        // Why it cannot be had is said when it is needed.
        let group = Groups::of_instance(limits, true, &self.ledger);
        let words = group.map_or_else(|_| "none of its own".to_owned(), |group| group.words());
        let mut properties = properties(cpus, &words, limits);
        let slower = self.spec.more_work_percent;
        properties
            .extend(slower.map(|percent| ("made slower".to_owned(), format!("by {percent} % on purpose"))));
        let disk = self.storage.survey();
        properties.extend(disk.as_ref().ok().cloned().flatten());
        PlatformState {
            label: self.spec.label.clone(),
            kind: self.spec.kind,
            unavailable: disk.err().map(String::from),
            properties,
            facts: None,
            start_ns: None,
        }
    }

    fn start(&mut self, spec: &InstanceSpec, cancel: &Cancel) -> Result<Box<dyn Instance>, Broken> {
        let started = Instant::now();
        if self.opened.is_none() {
            let opened = Executable::open(&self.exe);
            self.opened = Some(opened.map_err(|error| {
                self.failure(&format!("cannot open the agent's binary {}: {error}", self.exe.display()))
            })?);
        }
        let Some(executable) = &self.opened else { return Err(self.failure("no binary")) };
        let disk = self.storage.provide(spec).map_err(|why| self.failure(&why.to_string()))?;
        let place = disk.as_ref().map_or(spec.scratch.as_path(), Held::path);
        let mut command = executable.command();
        command
            .args(["agent", "--link", "stdio", "--scratch"])
            .arg(place.canonicalize().unwrap_or(place.into()));
        command.env_clear().envs([("HOME", "/"), ("PATH", "/")]).current_dir("/");
        let group = Groups::of_instance(CpuLimits::of(&self.spec, spec.rank), true, &self.ledger)
            .map_err(|error| self.failure(&error.to_string()))?;
        let entrances = group
            .entrances()
            .map_err(|error| self.failure(&format!("CPU groups: cannot open its cgroup: {error}")))?;
        for procs in entrances {
            enter_group(&mut command, procs);
        }
        if let Some(port) = &spec.port {
            enter(&mut command, port.namespace.clone());
        }
        let (process, link) = Process::start("the agent's process", command, self.spec.cpus, &self.ledger)
            .map_err(|error| self.failure(&format!("cannot start the agent's process: {error}")))?;
        let carrier = Box::new(ProcessCarrier { process, group, disk, grace: Duration::ZERO });
        let label = format!("{}/{}", self.spec.label, spec.number);
        let instance = AgentInstance::attach(&label, link, carrier, started, START_DEADLINE, cancel)?;
        Ok(Box::new(instance))
    }

    fn reach(&self) -> Reach {
        Reach::LabSharedAddress
    }
}

fn properties(cpus: String, cgroups: &str, limits: CpuLimits) -> Vec<(String, String)> {
    let mut all = vec![
        ("cpus".to_owned(), cpus),
        ("cgroups".to_owned(), cgroups.to_owned()),
        ("session".to_owned(), "its own".to_owned()),
        ("paused by".to_owned(), "sleeping".to_owned()),
    ];
    if limits.is_some() {
        all.push(("CPU group".to_owned(), limits.words()));
    }
    all
}

/// A bare process as carrier. Pausing it is not needed: an idle agent sleeps in `poll`.
#[derive(Debug)]
pub struct ProcessCarrier {
    process: Process,
    group: Groups,
    /// Its block device; given back when the process has ended.
    disk: Option<Held>,
    /// How long it may take to clear up before it is killed.
    grace: Duration,
}

impl ProcessCarrier {
    /// Carries with `process`.
    pub fn new(process: Process) -> Self {
        Self { process, group: Groups::default(), disk: None, grace: Duration::ZERO }
    }

    /// Lets it end by itself when its agent has, and asks it to when it does not, each at most so long: it has something to clear up.
    #[must_use]
    pub fn with_grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }
}

impl Carrier for ProcessCarrier {
    fn console_tail(&self) -> Vec<String> {
        self.process.console_tail()
    }

    fn how_it_ended(&mut self) -> Option<String> {
        self.process.how_it_ended()
    }

    fn processes(&self) -> Vec<u32> {
        vec![self.process.id()]
    }

    fn end(&mut self) {
        if !self.grace.is_zero() && !self.process.wait(self.grace) {
            self.process.ask_to_end();
            self.process.wait(self.grace);
        }
        self.process.end();
        self.group = Groups::default();
        self.disk = None;
    }
}
