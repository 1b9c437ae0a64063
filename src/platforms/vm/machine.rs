//! A running virtual machine: QEMU, its sockets, its disk; the carrier of an agent.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::console::Tail;
use super::disk::DiskImage;
use super::process::{KeptProcess, describe};
use super::qemu::Machine;
use super::qmp::Qmp;
use crate::platforms::Carrier;
use crate::platforms::ledger::{Ledger, Thing, Ticket};

/// How long QEMU may take to stop or continue the CPUs.
const CONTROL_TIMEOUT: Duration = Duration::from_secs(10);

/// A virtual machine that runs.
pub struct RunningMachine {
    process: KeptProcess,
    control: Qmp,
    console: Tail,
    disk: Option<DiskImage>,
    ledger: Ledger,
    ticket: Option<Ticket>,
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
    /// Where the process is written down.
    pub ledger: &'a Ledger,
    /// The disk; goes with the machine.
    pub disk: Option<DiskImage>,
    /// The first file system.
    pub initramfs: &'a OwnedFd,
}

/// Starts QEMU. `describe_machine` gets the descriptors' numbers: initramfs, link, console, control.
pub fn start(parts: Parts<'_>, describe_machine: impl FnOnce([i32; 4]) -> Machine) -> io::Result<Started> {
    let (link, guest_link) = UnixStream::pair()?;
    let (console, guest_console) = UnixStream::pair()?;
    let (control, guest_control) = UnixStream::pair()?;
    // QEMU's own complaints go where the guest's console goes: both are needed to tell what happened.
    let complaints: OwnedFd = guest_console.try_clone()?.into();
    let initramfs = parts.initramfs.try_clone()?;
    let inherited: Vec<OwnedFd> =
        vec![initramfs, guest_link.into(), guest_console.into(), guest_control.into()];
    let numbers = [0, 1, 2, 3].map(|index| inherited.get(index).map_or(-1, AsRawFd::as_raw_fd));
    let machine = describe_machine(numbers);
    let mut command = Command::new(parts.qemu);
    command.args(machine.arguments()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(complaints);
    let console = Tail::follow(console.into())?;
    let at = Instant::now();
    let process = KeptProcess::start(command, inherited)?;
    // Until it is written down, the kernel ends it with us.
    let thing = Thing::process(process.pid().as_raw().cast_unsigned());
    let ticket = thing.map(|thing| parts.ledger.record(thing)).transpose()?;
    let ledger = parts.ledger.clone();
    let carrier =
        RunningMachine { process, control: Qmp::new(control), console, disk: parts.disk, ledger, ticket };
    Ok(Started { carrier, link, at })
}

impl Carrier for RunningMachine {
    fn console_tail(&self) -> Vec<String> {
        self.console.lines()
    }

    fn how_it_ended(&mut self) -> Option<String> {
        let status = self.process.ended()?;
        let how = describe("qemu", status);
        // The guest restarts on its own panic and after its agent's end, which ends QEMU with success.
        Some(match self.console.panic() {
            Some(panic) => format!("{how} after the guest's \"{panic}\""),
            None if status.success() => format!("{how}: the guest restarted or powered off"),
            None => how,
        })
    }

    fn pause(&mut self) -> Result<(), String> {
        self.control.stop(CONTROL_TIMEOUT)
    }

    fn resume(&mut self) -> Result<(), String> {
        self.control.cont(CONTROL_TIMEOUT)
    }

    fn end(&mut self) {
        self.process.kill();
        if let Some(ticket) = self.ticket.take() {
            self.ledger.undone(ticket);
        }
        self.disk = None;
    }
}

impl Drop for RunningMachine {
    fn drop(&mut self) {
        self.end();
    }
}
