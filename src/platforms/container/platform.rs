//! The container platform: finds a runtime that really works by starting a container once, then starts containers.

use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::bundle::{self, Wanted, is_root};
use super::carrier::{ContainerCarrier, Made};
use super::runtime::{Cgroups, Runtime};
use crate::model::experiment::PlatformSpec;
use crate::model::journal::{Failure, FailureKind, PlatformState};
use crate::model::units::Bytes;
use crate::platforms::cpu_group::CpuLimits;
use crate::platforms::instance::AgentInstance;
use crate::platforms::lab::plug::Plug;
use crate::platforms::ledger::{Ledger, Thing};
use crate::platforms::native::Executable;
use crate::platforms::process::Process;
use crate::platforms::spawn::own_cpus;
use crate::platforms::storage::{Held, Storage};
use crate::platforms::sweep::OUR_PREFIX;
use crate::platforms::{Broken, Cancel, Instance, InstanceSpec, Platform, Reach};

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
        let runtimes =
            Runtime::find(self.spec.runtime.as_deref()).map_err(|why| self.failure(&why, vec![]))?;
        let limits = CpuLimits::of(&self.spec, 0);
        if limits.is_some() && !is_root() {
            let reason = format!("{} needs cgroups of its own for containers: run as root", limits.words());
            return Err(self.failure(&reason, vec![]));
        }
        let mut refused = Vec::new();
        for runtime in runtimes {
            for cgroups in manners(&runtime, limits) {
                let executable = Executable::open(&self.exe).map_err(|error| {
                    let reason = format!("cannot open the agent's binary {}: {error}", self.exe.display());
                    self.failure(&reason, vec![])
                })?;
                let why = why(self.spec.runtime.is_some(), &refused);
                let chosen = Chosen { runtime: runtime.clone(), cgroups, executable, why };
                match self.trial(&chosen, cancel) {
                    Ok(()) => return Ok(chosen),
                    Err(Broken::Interrupted) => return Err(Broken::Interrupted),
                    Err(Broken::Failed(failure)) => {
                        // The runtime's own last word says more than that its agent did not answer.
                        let reason = failure.console.last().unwrap_or(&failure.reason);
                        let refusal = format!("{} could not start one: {reason}", runtime.version);
                        if !refused.contains(&refusal) {
                            refused.push(refusal);
                        }
                    }
                }
            }
        }
        Err(self.failure(&refused.join("; "), vec![]))
    }

    /// Starts a container and ends it.
    fn trial(&self, chosen: &Chosen, cancel: &Cancel) -> Result<(), Broken> {
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
        self.start_chosen(chosen, &spec, None, cancel).map(|mut instance| instance.end())
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
    ) -> std::io::Result<(ContainerCarrier, crate::platforms::link::HostEnd)> {
        let scratch = spec.scratch.canonicalize()?;
        let cpus = self.spec.cpus.map(|count| {
            let first: Vec<String> =
                own_cpus().into_iter().take(count as usize).map(|cpu| cpu.to_string()).collect();
            first.join(",")
        });
        let plug = spec.port.as_ref().map(Plug::make).transpose()?;
        let network = plug.as_ref().map(Plug::path);
        let directory = self.ledger.record(Thing::Directory { path: dir.to_owned() })?;
        let mut made = Made {
            ledger: self.ledger.clone(),
            id: id.to_owned(),
            dir: dir.to_owned(),
            directory: Some(directory),
            container: None,
        };
        std::fs::create_dir(dir)?;
        let wanted = Wanted {
            id,
            scratch: &scratch,
            cgroups: chosen.cgroups,
            cpus: cpus.as_deref(),
            limits: CpuLimits::of(&self.spec, spec.rank),
            network: network.as_deref(),
            device: disk.as_ref().map(|held| (held.path(), held.number())),
            unified_cgroups: has_unified_cgroups(),
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
        command.arg("run").arg("--bundle").arg(dir).arg(id);
        let name = format!("the container's {}", chosen.runtime.name);
        let (process, link) = Process::start(&name, command, self.spec.cpus, &self.ledger)?;
        let runtime = chosen.runtime.clone();
        Ok((ContainerCarrier { runtime, cgroups: chosen.cgroups, process, made, plug, disk }, link))
    }

    fn properties(&self, chosen: &Chosen) -> Vec<(String, String)> {
        let namespaces = match (has_unified_cgroups(), is_root()) {
            (true, true) => "pid, ipc, uts, mount, network, cgroup",
            (true, false) => "pid, ipc, uts, mount, network, cgroup, user",
            (false, true) => "pid, ipc, uts, mount, network",
            (false, false) => "pid, ipc, uts, mount, network, user",
        };
        let version = if has_unified_cgroups() { "version 2" } else { "version 1 or hybrid" };
        let cgroups = match chosen.cgroups {
            Cgroups::Own => format!("{version}, one of its own"),
            Cgroups::Ours => format!("{version}, none of its own"),
        };
        let user = if is_root() { "root" } else { "rootless: a user namespace with one user" };
        let mut properties = vec![
            ("runtime", chosen.runtime.version.clone()),
            ("why", chosen.why.clone()),
            ("path", chosen.runtime.path.display().to_string()),
            ("user", user.to_owned()),
            ("cgroups", cgroups),
            ("namespaces", namespaces.to_owned()),
            ("capabilities", "14, the same set as Docker's; no new privileges".to_owned()),
            ("seccomp", "none: system calls are not filtered".to_owned()),
            ("root file system", "read-only, holds this binary only".to_owned()),
            ("paused by", "sleeping".to_owned()),
        ];
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
            Err(why) => Err(self.failure(why, vec![])),
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
            Err(why) => Err(self.failure(&why, vec![])),
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
        (_, refused) => refused.join("; "),
    }
}

fn has_unified_cgroups() -> bool {
    Path::new("/sys/fs/cgroup/cgroup.controllers").exists()
}
