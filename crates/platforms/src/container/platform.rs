//! The container platform: finds a runtime that really works by starting a container once, then starts containers.

use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::bundle::{self, Wanted, is_root};
use super::carrier::{ContainerCarrier, Made};
use super::reach::ContainerReach;
use super::read_back;
use super::runtime::{Cgroups, Runtime};
use super::walls::{Users, Walls};
use crate::cgroup::CpuLimits;
use crate::instance::AgentInstance;
use crate::lab::plug::Plug;
use crate::ledger::{Ledger, Thing};
use crate::native::Executable;
use crate::process::Process;
use crate::spawn::{enter_reach, own_cpus};
use crate::storage::{Held, Storage};
use crate::sweep::OUR_PREFIX;
use crate::{Broken, Cancel, Instance, InstanceSpec, Platform, Reach};
use model::experiment::PlatformSpec;
use model::journal::{Failure, FailureKind, PlatformState};
use units::Bytes;

/// Until the agent must have answered.
const START_DEADLINE: Duration = Duration::from_secs(30);

/// Containers of one OCI runtime.
#[derive(Debug)]
pub struct Container {
    spec: PlatformSpec,
    exe: PathBuf,
    ledger: Ledger,
    storage: Storage,
    chosen: Option<Chosen>,
}

/// What the survey settled on.
#[derive(Debug)]
struct Chosen {
    runtime: Runtime,
    cgroups: Cgroups,
    executable: Executable,
    why: String,
    walls: Walls,
    /// What the kernel says of the walls of the container that was tried.
    read_back: Option<String>,
}

impl Container {
    /// Runs agents of the binary `exe` in containers; bundles and runtime state go into the ledger's directory.
    pub fn new(spec: &PlatformSpec, exe: PathBuf, ledger: Ledger, storage: Storage) -> Self {
        Self { spec: spec.clone(), exe, ledger, storage, chosen: None }
    }

    fn failure(&self, reason: &str, console: Vec<String>) -> Broken {
        let reason = format!("{}: {reason}", self.spec.label);
        Failure { kind: FailureKind::Start, reason, console }.into()
    }

    /// Tries runtimes, each with and without cgroups, until a container's agent answers.
    fn choose(&self, cancel: &Cancel) -> Result<Chosen, Broken> {
        let runtimes = Runtime::find(self.spec.runtime.as_deref())
            .map_err(|why| self.failure(&why.to_string(), vec![]))?;
        let limits = CpuLimits::of(&self.spec, 0);
        if limits.is_some() && !is_root() {
            let reason = format!("{} needs cgroups of its own for containers: run as root", limits.words());
            return Err(self.failure(&reason, vec![]));
        }
        let walls = Walls::of(&self.spec, self.ledger.dir());
        self.check_users(&walls)?;
        let mut refused = Vec::new();
        for runtime in runtimes {
            for cgroups in manners(&runtime, limits) {
                let attempt = self.attempt(&runtime, cgroups, walls.clone(), &mut refused, cancel)?;
                if let Some(chosen) = attempt {
                    return Ok(chosen);
                }
                if walls.users.is_err() || self.spec.user_namespace.is_some() {
                    continue;
                }
                let without = walls.without_users(refused.last().map_or("", String::as_str));
                if let Some(chosen) = self.attempt(&runtime, cgroups, without, &mut refused, cancel)? {
                    return Ok(chosen);
                }
            }
        }
        Err(self.failure(&unique(&refused).join("; "), vec![]))
    }

    /// Tries one way; none when the runtime refuses, which is then among `refused`.
    fn attempt(
        &self,
        runtime: &Runtime,
        cgroups: Cgroups,
        walls: Walls,
        refused: &mut Vec<String>,
        cancel: &Cancel,
    ) -> Result<Option<Chosen>, Broken> {
        let executable = Executable::open(&self.exe).map_err(|error| {
            let reason = format!("cannot open the agent's binary {}: {error}", self.exe.display());
            self.failure(&reason, vec![])
        })?;
        let why = why(self.spec.runtime.is_some(), refused);
        let mut chosen =
            Chosen { runtime: runtime.clone(), cgroups, executable, why, walls, read_back: None };
        match self.trial(&chosen, cancel) {
            Ok(read_back) => chosen.read_back = read_back,
            Err(Broken::Interrupted) => return Err(Broken::Interrupted),
            Err(Broken::Failed(failure)) => {
                // The runtime's own last word says more than that its agent did not answer.
                let reason = failure.console.last().unwrap_or(&failure.reason);
                refused.push(format!("{} could not start one: {reason}", runtime.version));
                return Ok(None);
            }
        }
        Ok(Some(chosen))
    }

    /// Users of its own or nothing, where the experiment says so.
    fn check_users(&self, walls: &Walls) -> Result<(), Broken> {
        match (self.spec.user_namespace, &walls.users) {
            (Some(true), Err(why)) if is_root() => {
                Err(self.failure(&format!("user_namespace = true, but {why}"), vec![]))
            }
            (Some(false), _) if !is_root() => {
                let reason = "user_namespace = false, but only root makes containers without: run as root";
                Err(self.failure(reason, vec![]))
            }
            _ => Ok(()),
        }
    }

    /// Starts a container, looks how it is walled off, and ends it.
    fn trial(&self, chosen: &Chosen, cancel: &Cancel) -> Result<Option<String>, Broken> {
        let scratch = tempfile::Builder::new()
            .prefix(OUR_PREFIX)
            .tempdir_in(self.ledger.dir())
            .map_err(|error| self.failure(&format!("cannot make a folder for a trial: {error}"), vec![]))?;
        let spec = InstanceSpec {
            rank: 0,
            host: 0,
            port: None,
            number: 0,
            memory_wanted: Bytes::from_bytes(0),
            disk_wanted: Bytes::from_bytes(0),
            scratch: scratch.path().to_owned(),
        };
        let mut instance = self.start_chosen(chosen, &spec, None, cancel)?;
        let found = read_back::compare(&chosen.walls, &instance.processes());
        instance.end();
        found.map_err(|why| self.failure(&why.to_string(), vec![]))
    }

    fn start_chosen(
        &self,
        chosen: &Chosen,
        spec: &InstanceSpec,
        disk: Option<Held>,
        cancel: &Cancel,
    ) -> Result<AgentInstance, Broken> {
        let started = Instant::now();
        let id = format!("{OUR_PREFIX}{:016x}", RandomState::new().hash_one(started));
        let dir = self.ledger.dir().join(&id);
        let carrier = self.make(chosen, spec, disk, (&id, &dir));
        let (carrier, link) = carrier.map_err(|error| {
            self.failure(&format!("cannot start a container with {}: {error}", chosen.runtime.name), vec![])
        })?;
        let label = format!("{}/{}", self.spec.label, spec.number);
        AgentInstance::attach(&label, link, Box::new(carrier), started, START_DEADLINE, cancel)
    }

    fn make(
        &self,
        chosen: &Chosen,
        spec: &InstanceSpec,
        disk: Option<Held>,
        (id, dir): (&str, &Path),
    ) -> std::io::Result<(ContainerCarrier, crate::link::HostEnd)> {
        let plug = spec.port.as_ref().map(Plug::make).transpose()?;
        let network = plug.as_ref().map(Plug::path);
        let walls = match &plug {
            Some(_) => chosen.walls.without_users("plugged into a network, which is the host's"),
            None => chosen.walls.clone(),
        };
        let mut made = Made::new(&self.ledger, id, dir)?;
        let scratch = made.scratch(&spec.scratch.canonicalize()?, walls.users.as_ref().ok())?;
        let cpus = self.cpus();
        let wanted = Wanted {
            id,
            scratch: &scratch,
            cgroups: chosen.cgroups,
            cpus: cpus.as_deref(),
            limits: CpuLimits::of(&self.spec, spec.rank),
            network: network.as_deref(),
            device: disk.as_ref().map(|held| (held.path(), held.number())),
            unified_cgroups: has_unified_cgroups(),
            walls: &walls,
            run: self.ledger.dir(),
        };
        bundle::write(dir, &chosen.executable, &wanted)?;
        let state = dir.join("state");
        made.container = Some(self.ledger.record(Thing::Container {
            runtime: chosen.runtime.path.clone(),
            root: state.clone(),
            id: id.to_owned(),
        })?);
        let mut command = chosen.runtime.command(&state, chosen.cgroups);
        if plug.is_some() {
            chosen.runtime.let_network(&mut command);
        }
        if let Ok(Users { reached_at, .. }) = &walls.users {
            enter_reach(&mut command, ContainerReach::new(reached_at, &bundle::rootfs(dir), &scratch)?);
        }
        command.arg("run").arg("--bundle").arg(dir).arg(id);
        let name = format!("the container's {}", chosen.runtime.name);
        let (process, link) = Process::start(&name, command, self.spec.cpus, &self.ledger)?;
        let runtime = chosen.runtime.clone();
        Ok((ContainerCarrier { runtime, cgroups: chosen.cgroups, process, made, plug, disk }, link))
    }

    /// CPUs that an instance is held to.
    fn cpus(&self) -> Option<String> {
        let first = |count: u32| own_cpus().into_iter().take(count as usize);
        self.spec.cpus.map(|count| first(count).map(|cpu| cpu.to_string()).collect::<Vec<_>>().join(","))
    }

    fn properties(&self, chosen: &Chosen) -> Vec<(String, String)> {
        let wanted = Wanted {
            id: "",
            scratch: Path::new(""),
            cgroups: chosen.cgroups,
            cpus: None,
            limits: CpuLimits::default(),
            network: None,
            device: None,
            unified_cgroups: has_unified_cgroups(),
            walls: &chosen.walls,
            run: Path::new(""),
        };
        let version = if has_unified_cgroups() { "version 2" } else { "version 1 or hybrid" };
        let cgroups = match chosen.cgroups {
            Cgroups::Own => format!("{version}, one of its own"),
            Cgroups::Ours => format!("{version}, none of its own"),
        };
        let read_back = chosen.read_back.clone().unwrap_or_else(|| "not possible here".to_owned());
        let mut properties = vec![
            ("runtime", chosen.runtime.version.clone()),
            ("cgroups", cgroups),
            ("namespaces", bundle::namespaces(&wanted).join(", ")),
        ];
        properties.extend(chosen.walls.properties());
        properties.extend([
            ("walls read back", read_back),
            ("why", chosen.why.clone()),
            ("path", chosen.runtime.path.display().to_string()),
            ("root file system", "read-only, holds this binary only".to_owned()),
            ("paused by", "sleeping".to_owned()),
        ]);
        if let Some(cpus) = self.spec.cpus {
            properties.push(("cpus", format!("held to the first {cpus} this process may use")));
        }
        properties.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }
}

impl Platform for Container {
    fn survey(&mut self, cancel: &Cancel) -> PlatformState {
        // What is easily told comes first.
        let disk = self.storage.survey();
        let chosen = match &disk {
            Ok(_) => self.choose(cancel),
            Err(why) => Err(self.failure(&why.to_string(), vec![])),
        };
        let (unavailable, properties) = match &chosen {
            Ok(chosen) => {
                let mut properties = self.properties(chosen);
                properties.extend(disk.ok().flatten());
                (None, properties)
            }
            Err(Broken::Failed(failure)) => (Some(failure.reason.clone()), vec![]),
            Err(Broken::Interrupted) => (Some("interrupted while it was tried".to_owned()), vec![]),
        };
        self.chosen = chosen.ok();
        PlatformState {
            label: self.spec.label.clone(),
            kind: self.spec.kind,
            unavailable,
            properties,
            facts: None,
            start_ns: None,
        }
    }

    fn start(&mut self, spec: &InstanceSpec, cancel: &Cancel) -> Result<Box<dyn Instance>, Broken> {
        let chosen = match self.chosen.take() {
            Some(chosen) => chosen,
            None => self.choose(cancel)?,
        };
        let started = match self.storage.provide(spec) {
            Ok(disk) => self.start_chosen(&chosen, spec, disk, cancel),
            Err(why) => Err(self.failure(&why.to_string(), vec![])),
        };
        self.chosen = Some(chosen);
        Ok(Box::new(started?))
    }

    fn reach(&self) -> Reach {
        Reach::Lab
    }
}

/// The ways in which a runtime is tried. Root tries a cgroup of its own first; a user has none to give away.
fn manners(runtime: &Runtime, limits: CpuLimits) -> Vec<Cgroups> {
    if limits.is_some() {
        return vec![Cgroups::Own];
    }
    match (is_root(), runtime.name.as_str()) {
        (true, "crun" | "runsc") => vec![Cgroups::Own, Cgroups::Ours],
        (true, _) => vec![Cgroups::Own],
        (false, _) => vec![Cgroups::Ours],
    }
}

fn why(is_named: bool, refused: &[String]) -> String {
    match (is_named, refused) {
        (true, []) => "named in the experiment".to_owned(),
        (false, []) => format!("first found of {}", super::runtime::KNOWN.join(", ")),
        (_, refused) => unique(refused).join("; "),
    }
}

/// Without those that were said before.
fn unique(refused: &[String]) -> Vec<&str> {
    let mut all: Vec<&str> = Vec::new();
    for one in refused {
        if !all.contains(&one.as_str()) {
            all.push(one);
        }
    }
    all
}

fn has_unified_cgroups() -> bool {
    Path::new("/sys/fs/cgroup/cgroup.controllers").exists()
}
