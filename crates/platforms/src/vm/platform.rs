//! The platform `vm`: surveys what is there, then starts guests.
//!
//! ```text
//!  survey: QEMU ─► kernel ─► modules ─► uncompressed kernel (cached) ─► engine (trial guest) ─► ready
//!  start:  disk image ─► first file system ─► QEMU ─► Hello ─► instance
//! ```

use std::borrow::Cow;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::accel::{TRIAL_DEADLINE, Verdict, boot_deadline, choose};
use super::disk::DiskImage;
use super::guest::{GuestConfig, Rehearsal};
use super::machine::{self, Parts};
use super::network::{self, Cards, Nics};
use super::payload::{self, GuestModules};
use super::qemu::{Engine, MACHINE, Machine, guest_device};
use super::toolbox::{Toolbox, Unavailable, host_cpus, memory_for};
use crate::cgroup::{CpuLimits, Groups};
use crate::context::PlatformContext;
use crate::instance::AgentInstance;
use crate::ledger::Ledger;
use crate::link::HostEnd;
use crate::storage::Storage;
use crate::{Broken, Cancel, Instance, InstanceSpec, Platform, Reach};
use model::experiment::PlatformSpec;
use model::journal::{Failure, FailureKind, PlatformState};
use model::platform::DiskBus;
use units::{Bytes, Hertz, Mebibytes, Reason};

/// A translated guest is slow in everything, its signs of life included.
const PATIENCE_TCG: u32 = 3;
/// Memory of the trial guest.
const TRIAL_MEMORY: Mebibytes = Mebibytes::from_mib(256);

/// Virtual machines under QEMU.
pub struct Vm {
    spec: PlatformSpec,
    exe: PathBuf,
    ledger: Ledger,
    cache: PathBuf,
    counter_hz: Option<Hertz>,
    rehearse: Option<Rehearsal>,
    storage: Storage,
    /// What the survey found below the disk, where it is no image.
    backing: Option<String>,
    ready: Option<Ready>,
}

/// What a survey found.
struct Ready {
    tools: Toolbox,
    verdict: Verdict,
    engine: Engine,
}

/// One guest to start.
struct Wanted<'a> {
    label: &'a str,
    engine: Engine,
    cpus: u32,
    memory: Mebibytes,
    disk: Option<DiskImage>,
    limits: CpuLimits,
    nics: Nics,
    rehearse: Option<Rehearsal>,
    deadline: Duration,
}

impl Vm {
    /// A platform that runs this program in guests. Nothing is looked for yet.
    pub fn new(spec: &PlatformSpec, context: &PlatformContext) -> Self {
        Self {
            spec: spec.clone(),
            exe: context.exe.clone(),
            ledger: context.ledger.clone(),
            cache: context.cache.clone(),
            counter_hz: context.counter_hz,
            rehearse: None,
            storage: Storage::new(spec, context.may_destroy, &context.ledger),
            backing: None,
            ready: None,
        }
    }

    /// Guests of this platform break at their first job; see [`Rehearsal`].
    #[must_use]
    pub fn rehearsing(mut self, how: Rehearsal) -> Self {
        self.rehearse = Some(how);
        self
    }

    fn prepare(&mut self, cancel: &Cancel) -> Result<&Ready, Unavailable> {
        if let Some(ready) = self.ready.take() {
            return Ok(self.ready.insert(ready));
        }
        let tools = Toolbox::find(&self.spec, &self.exe, &self.cache, self.counter_hz)?;
        let pair = (tools.qemu.as_path(), tools.kernel.image.as_path());
        let trial = || {
            let wanted = Wanted {
                label: "trial guest",
                engine: Engine::Kvm,
                cpus: 1,
                memory: TRIAL_MEMORY,
                disk: None,
                limits: CpuLimits::default(),
                nics: Nics::default(),
                rehearse: None,
                deadline: TRIAL_DEADLINE,
            };
            self.launch(&tools, wanted, cancel).map(|guest| guest.start_time())
        };
        let verdict = choose(self.spec.accelerator, pair, trial).map_err(|broken| match broken {
            Broken::Interrupted => Unavailable::Interrupted,
            Broken::Failed(failure) => Unavailable::Missing(failure.reason.into()),
        })?;
        let Some(engine) = verdict.engine else {
            return Err(Unavailable::Missing(
                format!(
                    "accelerator = \"kvm\" was asked for, but: {}; use accelerator = \"auto\" or \"tcg\"",
                    verdict.why
                )
                .into(),
            ));
        };
        Ok(self.ready.insert(Ready { tools, verdict, engine }))
    }

    /// What runs the CPUs, tried if need be.
    pub fn engine(&mut self, cancel: &Cancel) -> Result<Verdict, Unavailable> {
        self.prepare(cancel).map(|ready| ready.verdict.clone())
    }

    fn cpus(&self) -> u32 {
        self.spec.cpus.unwrap_or_else(host_cpus)
    }

    fn memory(&self, wanted: Bytes) -> Mebibytes {
        self.spec.memory_mib.unwrap_or_else(|| memory_for(wanted))
    }

    fn properties(&self, ready: &Ready) -> Vec<(String, String)> {
        let limits = CpuLimits::of(&self.spec, 0);
        let tools = &ready.tools;
        let memory = self.spec.memory_mib.map_or_else(
            || "what the probes need and 256 MiB, at least 512 MiB, at most half of what is free".to_owned(),
            |memory| memory.to_bytes().to_string(),
        );
        let disk = self.disk_words(tools);
        [
            ("accelerator", ready.engine.as_str().to_owned()),
            ("why", ready.verdict.why.clone()),
            ("qemu", tools.qemu_version.clone()),
            ("machine", MACHINE.split(',').next().unwrap_or(MACHINE).to_owned()),
            ("kernel", tools.kernel.release.clone()),
            ("kernel image", tools.bootable.form.clone()),
            ("vcpus", self.cpus().to_string()),
            ("memory", memory),
            ("disk", disk),
            ("nic", Cards::of(&self.spec).describe(ready.engine)),
        ]
        .map(|(key, value)| (key.to_owned(), value))
        .into_iter()
        .chain(limits.is_some().then(|| ("CPU group".to_owned(), limits.words())))
        .collect()
    }

    /// A guest without network cards gets no module for them: it boots as if there were none.
    fn modules<'a>(&self, tools: &'a Toolbox, config: &GuestConfig) -> io::Result<Cow<'a, GuestModules>> {
        if config.nics.is_empty() {
            return Ok(Cow::Borrowed(&tools.modules));
        }
        let driver = network::driver(Cards::of(&self.spec).model);
        let modules = tools.modules.with_nic(tools.kernel.modules.as_deref(), driver);
        modules.map(Cow::Owned).map_err(io::Error::other)
    }

    fn bus(&self) -> DiskBus {
        self.spec.disk_bus.unwrap_or(DiskBus::Virtio)
    }

    fn disk_words(&self, tools: &Toolbox) -> String {
        let how = match self.bus() {
            DiskBus::Virtio => "virtio-blk",
            DiskBus::Sata => "SATA (AHCI, emulated)",
            DiskBus::Nvme => "NVMe (emulated)",
        };
        if !tools.modules.has_disk() {
            return "none: this kernel has no virtio disk; files are in memory".to_owned();
        }
        match (self.backing.as_ref(), &tools.mke2fs) {
            (Some(backing), _) => format!("{how}, raw: {backing}"),
            (None, Some(_)) => format!("{how}, ext4 on a raw image"),
            (None, None) => {
                format!("{how}, raw without a file system: install e2fsprogs (mke2fs) for ext4")
            }
        }
    }

    /// The disk of an instance; none where the guest's kernel has no driver.
    fn disk(&self, tools: &Toolbox, spec: &InstanceSpec) -> Result<Option<DiskImage>, Reason> {
        if !tools.modules.has_disk() {
            return Ok(None);
        }
        if let Some(held) = self.storage.provide(spec)? {
            return Ok(Some(DiskImage::over(held, self.bus())));
        }
        DiskImage::create(&spec.scratch, spec.disk_wanted, tools.mke2fs.as_deref(), self.bus())
            .map(Some)
            .map_err(|error| error.to_string().into())
    }

    /// Starts a guest and waits for its agent.
    fn launch(&self, tools: &Toolbox, wanted: Wanted<'_>, cancel: &Cancel) -> Result<AgentInstance, Broken> {
        let label = wanted.label;
        let not_started = |error: io::Error| Failure {
            kind: FailureKind::Start,
            reason: format!("{label}: qemu could not be started: {error}"),
            console: vec![],
        };
        let config = GuestConfig {
            disk: wanted.disk.as_ref().map(DiskImage::content).unwrap_or_default(),
            disk_device: PathBuf::from(guest_device(self.bus())),
            disk_notes: wanted.disk.as_ref().map(|disk| disk.notes().to_vec()).unwrap_or_default(),
            nics: wanted.nics.guest,
            rehearse: wanted.rehearse,
            ..GuestConfig::default()
        };
        let modules = self.modules(tools, &config).map_err(not_started)?;
        let initramfs = payload::build(&tools.program, &modules, config).map_err(not_started)?;
        let disk_argument = wanted.disk.as_ref().map(DiskImage::argument);
        let group = Groups::of_instance(wanted.limits, false, &self.ledger).map_err(not_started)?;
        let nic_arguments = wanted.nics.arguments;
        let parts = Parts {
            qemu: &tools.qemu,
            ledger: &self.ledger,
            disk: wanted.disk,
            exe: &self.exe,
            group,
            initramfs: &initramfs,
            inherited: wanted.nics.descriptors,
        };
        let describe = |descriptors| Machine {
            disk: disk_argument,
            nics: nic_arguments,
            ..tools.machine(wanted.engine, wanted.cpus, wanted.memory, descriptors)
        };
        let started = machine::start(parts, describe).map_err(not_started)?;
        let write = started.link.try_clone().map_err(not_started)?;
        let link = HostEnd::new(started.link.into(), write.into());
        let instance = AgentInstance::attach(
            label,
            link,
            Box::new(started.carrier),
            started.at,
            wanted.deadline,
            cancel,
        )?;
        Ok(match wanted.engine {
            Engine::Kvm => instance,
            Engine::Tcg => instance.with_patience(PATIENCE_TCG),
        })
    }
}

impl Platform for Vm {
    fn survey(&mut self, cancel: &Cancel) -> PlatformState {
        // What is easily told comes first.
        let unavailable = match self.storage.survey() {
            Ok(backing) => {
                self.backing = backing.map(|(_, words)| words);
                self.prepare(cancel).err().map(|error| error.to_string())
            }
            Err(why) => Some(format!("{}: {why}", self.spec.label)),
        };
        PlatformState {
            label: self.spec.label.clone(),
            kind: self.spec.kind,
            unavailable,
            properties: self.ready.as_ref().map(|ready| self.properties(ready)).unwrap_or_default(),
            facts: None,
            start_ns: None,
        }
    }

    fn start(&mut self, spec: &InstanceSpec, cancel: &Cancel) -> Result<Box<dyn Instance>, Broken> {
        let label = format!("{} {}", self.spec.label, spec.number);
        let failed = |reason: Reason| {
            Broken::Failed(Failure {
                kind: FailureKind::Start,
                reason: format!("{label}: {reason}"),
                console: vec![],
            })
        };
        self.prepare(cancel).map_err(|error| match error {
            Unavailable::Interrupted => Broken::Interrupted,
            Unavailable::Missing(reason) => failed(reason),
        })?;
        let Some(ready) = &self.ready else { return Err(failed("it was not surveyed".into())) };
        let disk = self.disk(&ready.tools, spec).map_err(failed)?;
        let cards = Cards::of(&self.spec);
        let nics = spec.port.as_ref().map(|port| cards.plug(port, ready.engine)).transpose();
        let nics =
            nics.map_err(|error| failed(format!("no network card: {error}").into()))?.unwrap_or_default();
        let wanted = Wanted {
            label: &label,
            engine: ready.engine,
            cpus: self.cpus(),
            memory: self.memory(spec.memory_wanted),
            disk,
            limits: CpuLimits::of(&self.spec, spec.rank),
            nics,
            rehearse: self.rehearse,
            deadline: boot_deadline(ready.engine),
        };
        Ok(Box::new(self.launch(&ready.tools, wanted, cancel)?))
    }

    fn reach(&self) -> Reach {
        Reach::Lab
    }
}
