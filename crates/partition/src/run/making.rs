//! A machine that is made for a partition: created paused, placed and read back, let go, watched to its end.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use model::partition::{Content, Difference, PartitionSpec, ProgramEnd};
use platforms::Carrier as _;
use platforms::vm::machine::{self, Parts, RunningMachine, Started};
use platforms::vm::payload;
use platforms::vm::qemu::{Engine, Machine};
use platforms::vm::toolbox::Toolbox;
use units::Bytes;

use super::assemble::{Assembled, assemble};
use super::inbox::is_ending;
use super::main_session::{Beginning, Happened, MainSession};
use super::{Event, Failed, Order, Streams, Surroundings, sections};
use crate::layer::{self, Layer, Stopped};
use crate::network::watch::watch;
use crate::place;
use crate::session::Hub;

/// How long QEMU may take to answer.
const CONTROL_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a machine of which nothing else is known is looked at.
const LOOK: Duration = Duration::from_millis(50);
/// What a guest's kernel takes for itself while it unpacks, with the kernels of the set-up: tried with first file systems of 25 and 31 MiB
/// (52 to 60 MiB).
const OF_KERNEL: u64 = 58 << 20;
/// What a small program takes.
const FOR_PROGRAM: u64 = 16 << 20;
/// Variables and secrets of more are many.
const MUCH_TOLD: Bytes = Bytes::from_bytes(1 << 20);
/// What is said of them.
pub const TOLD_MUCH: &str = "its variables and secrets are large";
/// How long a machine whose link has ended may take to end, so that it can be told why.
const LAST_BREATH: Duration = Duration::from_secs(3);

/// What a machine is made of.
pub struct Making<'a> {
    /// What was asked for.
    pub spec: &'a PartitionSpec,
    /// With what.
    pub around: &'a Surroundings,
    /// What was found.
    pub tools: &'a Toolbox,
    /// What runs its CPUs.
    pub engine: Engine,
    /// Whether others than its program are let in.
    pub takes_sessions: bool,
    /// What its program's changes are kept on.
    pub layer: Option<&'a Layer>,
}

/// A machine that was created, and our ends of its sockets.
pub struct Created {
    /// The machine.
    pub machine: RunningMachine,
    /// Our end of its link.
    pub link: Option<UnixStream>,
    ports: Option<[UnixStream; 3]>,
    /// Whether its guest was stopped because its saved layer could not be written.
    stopped: Stopped,
    /// Our end of its port of sessions, until they are let in.
    pub(super) sessions: Option<UnixStream>,
    /// Until when its program must run, once that is counted.
    pub deadline: Option<Instant>,
}

/// Whether a guest can unpack its first file system and read what it is told: a kernel that cannot goes on with what it has, and
/// stops somewhere. Half of what is left when the packed one lies in memory may be files (`shmem_default_max_blocks` of Linux).
///
/// # Errors
/// Which memory it needs.
fn fits(spec: &PartitionSpec, first_files: u64) -> Result<(), Failed> {
    let given = spec.resources.memory.to_bytes().get();
    let told = told(spec).get();
    let unpacking = first_files.saturating_mul(3);
    let reading = first_files.saturating_add(told.saturating_mul(4)).saturating_add(FOR_PROGRAM);
    let needed = OF_KERNEL.saturating_add(unpacking.max(reading));
    if needed <= given {
        return Ok(());
    }
    let needed = needed.div_ceil(8 << 20) * 8;
    let why = match &spec.content {
        _ if is_told_much(spec) => TOLD_MUCH,
        Content::Program(program) if program.layer.is_some() => "a saved layer takes more of its kernel",
        _ => "its first file system is large",
    };
    let got = spec.resources.memory.get();
    Err(Failed::own(format!("it boots with at least {needed} MiB of memory, got {got} MiB: {why}")))
}

/// Whether more is told than a guest from a saved machine is: its memory may be too small for it, which is told before a boot.
pub fn is_told_much(spec: &PartitionSpec) -> bool {
    told(spec) > MUCH_TOLD
}

/// What a program is given by content: variables and secrets.
fn told(spec: &PartitionSpec) -> Bytes {
    let Content::Program(program) = &spec.content else { return Bytes::default() };
    let words = program.env.iter().map(|(name, value)| (name.len() + value.len()) as u64);
    let secrets = program.secrets.iter();
    // What cannot be looked at is told where it is read.
    let secrets = secrets.filter_map(|secret| Some(std::fs::metadata(&secret.from).ok()?.len()));
    Bytes::from_bytes(words.chain(secrets).fold(0, u64::saturating_add))
}

fn not_started(error: &io::Error) -> Failed {
    Failed::own(format!("qemu could not be started: {error}"))
}

impl Making<'_> {
    /// A machine that boots what it runs.
    pub(super) fn usual(&self) -> Result<Created, Failed> {
        let (around, tools) = (self.around, self.tools);
        let mut made = assemble(self.spec, &around.names, tools.modules.files, self.takes_sessions)?;
        let (extras, inherited) = (&mut made.extras, &mut made.inherited);
        made.layer_events = self
            .layer
            .map(|layer| layer.attach(extras, inherited))
            .transpose()
            .map_err(|error| not_started(&error))?;
        let config = std::mem::take(&mut made.config);
        let initramfs = payload::build_with(&tools.program, &tools.modules, config, made.alone.as_deref())
            .map_err(|error| not_started(&error))?;
        let stat = rustix::fs::fstat(&initramfs).map_err(|error| not_started(&error.into()))?;
        fits(self.spec, stat.st_size.unsigned_abs())?;
        self.create(made, &initramfs)
    }

    /// Starts QEMU, paused, with this first file system.
    pub fn create(&self, made: Assembled, initramfs: &OwnedFd) -> Result<Created, Failed> {
        let (spec, around, tools, engine) = (self.spec, self.around, self.tools, self.engine);
        let group = place::group(&spec.resources, &spec.disks, &around.ledger)?;
        let parts = Parts {
            qemu: &tools.qemu,
            exe: &around.exe,
            ledger: &around.ledger,
            disk: None,
            group,
            initramfs,
            inherited: made.inherited,
        };
        let extras = made.extras;
        let describe = |descriptors| {
            let machine = tools.machine(engine, spec.resources.cpus, spec.resources.memory, descriptors);
            // Ours starts a kernel and nothing else.
            let firmware = machine.firmware.filter(|_| !extras.boots_disk);
            Machine { firmware, extras, ..machine }
        };
        let Started { carrier, link, .. } =
            machine::start(parts, describe).map_err(|error| not_started(&error))?;
        // Ends with the machine.
        let beats = made.beats;
        made.plug_control
            .map(|control| watch(control, beats))
            .transpose()
            .map_err(|error| not_started(&error))?;
        let stopped = made.layer_events.map(|events| layer::watch(events, carrier.pid())).transpose();
        Ok(Created {
            stopped: stopped.map_err(|error| not_started(&error))?.unwrap_or_default(),
            machine: carrier,
            link: Some(link),
            ports: made.ports,
            sessions: made.sessions,
            deadline: None,
        })
    }
}

impl Created {
    /// That it is there.
    pub(super) fn event(&self, engine: &'static str) -> Event {
        Event::Created { pid: self.machine.pid(), files: self.machine.files_pid(), engine }
    }

    /// Places the paused machine and checks what it was given.
    pub fn place(&mut self, spec: &PartitionSpec, tell: &mut dyn FnMut(Event)) -> Result<(), Failed> {
        let (pid, files) = (self.machine.pid(), self.machine.files_pid());
        let control = self.machine.control();
        place::place(&spec.resources, pid, files, control)?;
        let given = place::read_back(pid, files, control)?;
        sections::check_given(&spec.sections, control)?;
        let differences = place::differences(&spec.resources, &spec.disks, &given);
        tell(Event::Placed(Box::new(given)));
        if !differences.is_empty() {
            return Err(Failed::own(format!(
                "what was given is not what was asked: {}",
                in_words(&differences)
            )));
        }
        Ok(())
    }

    /// Lets its CPUs go.
    pub fn let_go(&mut self) -> Result<(), Failed> {
        self.machine.control().cont(CONTROL_TIMEOUT).map_err(Failed::own)
    }

    pub(super) fn converse(
        &mut self,
        streams: Streams,
        channel: (Sender<Happened>, Receiver<Happened>),
        boot: Duration,
        hub: Option<&Hub>,
        tell: &mut dyn FnMut(Event),
    ) -> Result<ProgramEnd, Failed> {
        let (Some(link), Some(ports)) = (self.link.take(), self.ports.take()) else {
            return Err(Failed::own("it has no ports"));
        };
        let deadline = self.deadline.unwrap_or_else(|| Instant::now() + boot);
        let beginning = Beginning { link, ports, streams, channel, deadline, boot, hub, tell };
        let session = MainSession::new(beginning).map_err(|error| Failed::own(error.to_string()))?;
        session.until_the_end()
    }

    /// Waits for the end of a machine of which nothing is known but that it runs.
    pub(super) fn watch(
        &mut self,
        orders: &Receiver<Happened>,
        tell: &mut dyn FnMut(Event),
    ) -> Result<ProgramEnd, Failed> {
        tell(Event::Started);
        let mut asked = false;
        loop {
            if let Some(how) = self.machine.how_it_ended() {
                return if self.machine.has_ended_well() {
                    Ok(ProgramEnd::Exit(0))
                } else {
                    Err(Failed::own(how))
                };
            }
            match orders.recv_timeout(LOOK) {
                Ok(Happened::Ordered(Order::Signal(number))) if is_ending(Order::Signal(number)) => {
                    if asked {
                        return Ok(ProgramEnd::Signal(number));
                    }
                    asked = true;
                    self.machine.control().power_button(CONTROL_TIMEOUT)?;
                }
                Ok(Happened::Ordered(Order::Kill)) => return Err(Failed::own("ended from outside")),
                _ => {}
            }
        }
    }

    /// Adds how the machine ended, if it has, and its last words.
    pub fn explain(&mut self, mut failed: Failed, spec: &PartitionSpec) -> Failed {
        if failed.interrupted.is_some() || failed.code != 125 {
            return failed;
        }
        let until = Instant::now() + LAST_BREATH;
        let mut how = self.machine.how_it_ended();
        while how.is_none() && failed.guest_ended && Instant::now() < until {
            std::thread::sleep(LOOK);
            how = self.machine.how_it_ended();
        }
        if let Some(how) = how {
            failed.reason = format!("{}: {how}", failed.reason);
        } else if failed.is_late
            && let Some(used) = self.machine.cpu_time()
        {
            // Much: it turns in circles. Little: it waits, or others have the CPUs.
            failed.reason = format!("{}; QEMU used {used} of CPU time", failed.reason);
        }
        self.machine.end();
        failed.console = self.machine.console_tail();
        if let Some(advice) = sections::advice(&spec.sections, &failed.console) {
            failed.reason = format!("{}; {advice}", failed.reason);
        }
        if let Content::Program(program) = &spec.content
            && let Some(layer) = &program.layer
        {
            // What else is said of the machine's end comes from that.
            if let Some(advice) = self.stopped.advice(&layer.folder) {
                failed.reason = advice;
            } else if let Some(advice) = layer::advice(&layer.folder, &failed.console) {
                failed.reason = format!("{}; {advice}", failed.reason);
            }
        }
        failed
    }
}

fn in_words(differences: &[Difference]) -> String {
    let words = differences.iter().map(|d| format!("{}: asked {}, given {}", d.what, d.asked, d.given));
    words.collect::<Vec<_>>().join("; ")
}
