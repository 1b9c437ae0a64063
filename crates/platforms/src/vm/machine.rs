//! A running virtual machine: QEMU, its sockets, its disk; the carrier of an agent.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::time::ClockId;
use nix::unistd::Pid;

use super::disk::DiskImage;
use super::enclosure::enclose;
use super::files;
use super::guest_memory::{self, Whereabouts};
use super::inherit::inherit;
use super::qemu::Machine;
use super::qmp::Qmp;
use crate::cgroup::Groups;
use crate::console::Console;
use crate::ledger::{Ledger, Thing, Ticket};
use crate::spawn::{ending, enter_group};
use crate::{Carrier, wall};
use units::{Bytes, Nanos, Reason};

/// How long QEMU may take to stop or continue the CPUs.
const CONTROL_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the last words of an ended guest may take to arrive.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// What a Linux kernel begins its last words with.
const PANIC_MARK: &str = "Kernel panic";

/// A virtual machine that runs.
pub struct RunningMachine {
    child: Child,
    /// Serves its file trees.
    files: Option<Child>,
    files_ticket: Option<Ticket>,
    ended: Option<ExitStatus>,
    control: Qmp,
    console: Console,
    disk: Option<DiskImage>,
    group: Groups,
    ledger: Ledger,
    ticket: Option<Ticket>,
    /// Where the guest's memory is, once QEMU was asked.
    memory: Option<Whereabouts>,
}

/// A machine just started: the carrier, and the host's end of the link.
pub struct Started {
    /// To be given to the agent's instance.
    pub carrier: RunningMachine,
    /// Both directions of the link.
    pub link: UnixStream,
    /// When QEMU was started.
    pub at: Instant,
}

/// What a machine is started with, beside what [`Machine`] says.
pub struct Parts<'a> {
    /// QEMU.
    pub qemu: &'a Path,
    /// This program, which builds the wall around it.
    pub exe: &'a Path,
    /// Where the process is written down.
    pub ledger: &'a Ledger,
    /// The disk; goes with the machine.
    pub disk: Option<DiskImage>,
    /// Groups that QEMU begins its life in; they go with the machine.
    pub group: Groups,
    /// The first file system.
    pub initramfs: &'a OwnedFd,
    /// Tap devices and sockets of ports; QEMU finds them under the numbers they have here.
    pub inherited: Vec<OwnedFd>,
}

/// Starts QEMU. `describe_machine` gets the descriptors' numbers: initramfs, link, console, control.
pub fn start(parts: Parts<'_>, describe_machine: impl FnOnce([i32; 4]) -> Machine) -> io::Result<Started> {
    let (link, guest_link) = UnixStream::pair()?;
    let (console, guest_console) = UnixStream::pair()?;
    let (control, guest_control) = UnixStream::pair()?;
    // QEMU's own complaints go where the guest's console goes: both are needed to tell what happened.
    let complaints: OwnedFd = guest_console.try_clone()?.into();
    let initramfs = parts.initramfs.try_clone()?;
    let mut inherited: Vec<OwnedFd> =
        vec![initramfs, guest_link.into(), guest_console.into(), guest_control.into()];
    let numbers = [0, 1, 2, 3].map(|index| inherited.get(index).map_or(-1, AsRawFd::as_raw_fd));
    inherited.extend(parts.inherited);
    let mut machine = describe_machine(numbers);
    let entrances = parts.group.entrances()?;
    let around = files::Around {
        exe: parts.exe,
        ledger: parts.ledger,
        entrances: &entrances,
        complaints: complaints.try_clone()?,
    };
    let files = files::start(&mut machine.extras, around, &mut inherited)?;
    let files = EndsWithUs(files);
    let mut order = enclose(parts.qemu, &mut machine, &mut inherited)?;
    order.descriptors = inherited.iter().map(AsRawFd::as_raw_fd).collect();
    let mut command = wall::command(parts.exe, &order);
    command.stdin(Stdio::null()).stderr(complaints);
    parts.ledger.mark(&mut command);
    inherit(&mut command, &inherited);
    for procs in entrances {
        enter_group(&mut command, procs);
    }
    let console = Console::follow_for(console.into(), Some(PANIC_MARK))?;
    let at = Instant::now();
    let child = wall::start(command)?;
    drop(inherited);
    // Until it is written down, the kernel ends it with us.
    let thing = Thing::process(child.id());
    let control = Qmp::new(control);
    let ledger = parts.ledger.clone();
    let mut carrier = RunningMachine {
        child,
        files: files.keep(),
        files_ticket: None,
        ended: None,
        control,
        console,
        disk: parts.disk,
        group: parts.group,
        ledger,
        ticket: None,
        memory: None,
    };
    let served = carrier.files.as_ref().and_then(|files| Thing::process(files.id()));
    carrier.files_ticket = served.map(|thing| parts.ledger.record(thing)).transpose()?;
    carrier.ticket = thing.map(|thing| parts.ledger.record(thing)).transpose()?;
    carrier.files.as_ref().map(|server| files::end_together(server, &carrier.child)).transpose()?;
    Ok(Started { carrier, link, at })
}

/// A process that is ended when nobody keeps it.
struct EndsWithUs(Option<Child>);

impl EndsWithUs {
    fn keep(mut self) -> Option<Child> {
        self.0.take()
    }
}

impl Drop for EndsWithUs {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            // It has not been reaped, so its number is nobody else's.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl RunningMachine {
    /// The control channel.
    pub const fn control(&mut self) -> &mut Qmp {
        &mut self.control
    }

    /// QEMU's process number; nobody else can get it until the machine was ended.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// CPU time of QEMU, all its threads together; none of one that has ended.
    pub fn cpu_time(&self) -> Option<Nanos> {
        let clock = ClockId::pid_cpu_clock_id(Pid::from_raw(i32::try_from(self.pid()).ok()?)).ok()?;
        Some(Nanos::from_duration(clock.now().ok()?.into()))
    }

    /// The process that serves its files, where there is one; nobody else can get its number until the machine was ended.
    pub fn files_pid(&self) -> Option<u32> {
        self.files.as_ref().map(Child::id)
    }

    fn present_bytes(&mut self) -> Result<Vec<(u32, Bytes)>, Reason> {
        let memory = match self.memory {
            Some(memory) => memory,
            None => *self.memory.insert(guest_memory::whereabouts(&mut self.control)?),
        };
        let given = guest_memory::on_host(self.child.id(), memory)?;
        given
            .map(|given| given.present_bytes)
            .ok_or_else(|| "this host's kernel knows no memory nodes".into())
    }

    /// Whether it has ended because its guest powered off or restarted, and nothing had broken.
    pub fn has_ended_well(&mut self) -> bool {
        let is_broken = self.files_broke().is_some() || self.console.marked().is_some();
        self.ended.is_some_and(|status| status.success()) && !is_broken
    }

    /// How the process that serves its files ended, if not well.
    fn files_broke(&mut self) -> Option<ExitStatus> {
        let served = self.files.as_mut().and_then(|files| files.try_wait().ok().flatten());
        served.filter(|served| !served.success())
    }

    /// Writes what comes over the console from now on to `to`, too.
    pub fn copy_console(&self, to: OwnedFd) {
        self.console.copy_to(to);
    }
}

impl Carrier for RunningMachine {
    fn console_tail(&self) -> Vec<String> {
        self.console.tail()
    }

    fn how_it_ended(&mut self) -> Option<String> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().ok().flatten();
        }
        let status = self.ended?;
        self.console.settle(LAST_WORDS);
        let how = format!("qemu {}", ending(status));
        if let Some(served) = self.files_broke() {
            return Some(format!(
                "{how}: the process that serves its files had ended before it ({})",
                ending(served)
            ));
        }
        // The guest restarts on its own panic and after its agent's end, which ends QEMU with success.
        Some(match self.console.marked() {
            Some(panic) => format!("{how} after the guest's \"{panic}\""),
            None if status.success() => format!("{how}: the guest restarted or powered off"),
            None => how,
        })
    }

    fn pause(&mut self) -> Result<(), Reason> {
        self.control.stop(CONTROL_TIMEOUT)
    }

    fn resume(&mut self) -> Result<(), Reason> {
        self.control.cont(CONTROL_TIMEOUT)
    }

    fn processes(&self) -> Vec<u32> {
        if self.ended.is_none() { vec![self.child.id()] } else { Vec::new() }
    }

    fn memory_by_node(&mut self) -> Option<Result<Vec<(u32, Bytes)>, Reason>> {
        self.ended.is_none().then(|| self.present_bytes())
    }

    fn end(&mut self) {
        if self.ended.is_none() {
            // It cannot be gone, and its number cannot be another's: it has not been reaped.
            let _ = self.child.kill();
            self.ended = self.child.wait().ok();
            self.console.settle(LAST_WORDS);
        }
        // It ends with QEMU by itself; what it still had to write is with the host's kernel by then.
        drop(EndsWithUs(self.files.take()));
        for ticket in [self.ticket.take(), self.files_ticket.take()].into_iter().flatten() {
            self.ledger.undone(ticket);
        }
        self.disk = None;
        self.group = Groups::default();
    }
}

impl Drop for RunningMachine {
    fn drop(&mut self) {
        self.end();
    }
}
