//! The switch's process: moves bytes between the plugs' sockets and [`Switch`], until it is told to end.
//!
//! ```text
//!  look for plugs, dial ─► poll ─► read plugs that may send ─► write plugs that may be written ─┐
//!        ▲                                                                                      │
//!        └───────────────── every FIND_PLUGS, and at once when somebody left ◄──────────────────┘
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::stat::{Mode, umask};

use super::cable::{PULL_SIGNAL, Pulled};
use super::core::{PlugNumber, Switch, TRUNK};
use super::dial::{check_folder, dial, listen, plugs};
use super::order::{SwitchOrder, Trunk};
use crate::network::heartbeat::{BEAT_EVERY, Beat, beat_file};
use model::partition::network::SwitchState;
use units::Reason;

/// Between two looks for plugs that nobody is in.
const FIND_PLUGS: Duration = BEAT_EVERY;
/// Between two writings of the state.
const WRITE_STATE: Duration = Duration::from_secs(1);
/// Between two turns at most, unless the switch stood still: half of what its watchers bear.
const STANDSTILL: Duration = BEAT_EVERY.saturating_mul(2);
/// Most bytes that are read from one plug before the next one's turn.
const TURN_BYTES: usize = 64 * 1024;

/// Serves a link until SIGTERM or SIGINT.
///
/// # Errors
/// When it cannot begin, or its folder goes.
pub fn serve(order: &SwitchOrder) -> Result<(), Reason> {
    check_folder(&order.folder)?;
    // What it makes, the trunk's socket and the books, is its caller's alone, whatever lies around the folder.
    umask(Mode::from_bits_truncate(0o177));
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGTERM);
    signals.add(Signal::SIGINT);
    signals.add(PULL_SIGNAL);
    let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
    let ends = signals.thread_block().and_then(|()| SignalFd::with_flags(&signals, flags));
    let ends = ends.map_err(|error| format!("signals: {error}"))?;
    let door = match &order.trunk {
        Some(Trunk::At(path)) => {
            Some(listen(path).map_err(|error| format!("the trunk's socket {}: {error}", path.display()))?)
        }
        _ => None,
    };
    let beat = Beat::begin(&order.folder)
        .map_err(|error| format!("the link's folder {}: {error}", order.folder.display()))?;
    let mut server = Server {
        order,
        beat,
        switch: Switch::default(),
        wires: BTreeMap::new(),
        pulled: Pulled::default(),
        door,
        begun: Instant::now(),
        find_at: Duration::ZERO,
        turned_at: Duration::ZERO,
        state: StateFile::default(),
        chunk: vec![0; TURN_BYTES],
    };
    let outcome = server.run(&ends);
    server.state.remove(order.state.as_deref());
    let _ = fs::remove_file(beat_file(&order.folder));
    if let Some(Trunk::At(path)) = &order.trunk {
        let _ = fs::remove_file(path);
    }
    outcome
}

struct Server<'a> {
    order: &'a SwitchOrder,
    beat: Beat,
    switch: Switch,
    /// One per plug with somebody in it.
    wires: BTreeMap<PlugNumber, UnixStream>,
    pulled: Pulled,
    door: Option<UnixListener>,
    begun: Instant,
    /// When plugs are to be looked for next.
    find_at: Duration,
    /// When it last had a turn.
    turned_at: Duration,
    state: StateFile,
    chunk: Vec<u8>,
}

/// What a poll found.
#[derive(Default)]
struct Found {
    end: bool,
    /// Somebody pulls cables.
    pull: bool,
    visitor: bool,
    wires: Vec<(PlugNumber, PollFlags)>,
}

impl Server<'_> {
    fn run(&mut self, signals: &SignalFd) -> Result<(), Reason> {
        loop {
            let now = self.begun.elapsed();
            if now >= self.find_at {
                self.find(now)?;
            }
            self.state.write(self.order.state.as_deref(), &self.switch, now)?;
            let found = self.wait(signals, now).map_err(|error| format!("poll: {error}"))?;
            if found.end {
                return Ok(());
            }
            let now = self.begun.elapsed();
            if found.pull {
                self.pull(now);
            }
            if now.saturating_sub(self.turned_at) > STANDSTILL {
                self.switch.stood_still(now);
            }
            self.turned_at = now;
            if found.visitor {
                self.let_in();
            }
            for (number, flags) in found.wires {
                self.turn(number, flags);
            }
            self.flush();
        }
    }

    fn wait(&self, signals: &SignalFd, now: Duration) -> Result<Found, Errno> {
        let mut polled = vec![PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
        // Whoever comes while there is a trunk waits until it has gone.
        let door = self.door.as_ref().filter(|_| !self.wires.contains_key(&TRUNK));
        polled.extend(door.map(|door| PollFd::new(door.as_fd(), PollFlags::POLLIN)));
        let first = polled.len();
        let mut patience = self.find_at.saturating_sub(now).min(self.state.due(now));
        for (number, wire) in &self.wires {
            let mut flags = PollFlags::empty();
            match self.switch.holds_back(*number, now) {
                Some(wait) => patience = patience.min(wait),
                None => flags |= PollFlags::POLLIN,
            }
            flags.set(PollFlags::POLLOUT, !self.switch.waiting(*number).is_empty());
            polled.push(PollFd::new(wire.as_fd(), flags));
        }
        // Rounded up: a wait of less than a millisecond is no reason to spin.
        let patience = u16::try_from(patience.as_micros().div_ceil(1000)).unwrap_or(u16::MAX);
        match poll(&mut polled, PollTimeout::from(patience)) {
            Err(Errno::EINTR) => return Ok(Found::default()),
            outcome => drop(outcome?),
        }
        let flags = |place: usize| polled.get(place).and_then(PollFd::revents).unwrap_or(PollFlags::empty());
        let wires = self.wires.keys().enumerate().map(|(place, number)| (*number, flags(first + place)));
        let (mut end, mut pull) = (false, false);
        if !flags(0).is_empty() {
            let told = signals.read_signal()?;
            pull = told.is_some_and(|told| told.ssi_signo == PULL_SIGNAL as u32);
            end = told.is_some() && !pull;
        }
        Ok(Found { end, pull, visitor: door.is_some() && !flags(1).is_empty(), wires: wires.collect() })
    }

    /// Dials every plug that nobody is in, and shows that this goes on.
    fn find(&mut self, now: Duration) -> Result<(), Reason> {
        self.find_at = now + FIND_PLUGS;
        self.beat.beat();
        let folder = &self.order.folder;
        let mut there =
            plugs(folder).map_err(|error| format!("the link's folder {}: {error}", folder.display()))?;
        if let Some(Trunk::To(path)) = &self.order.trunk {
            there.push((TRUNK, path.clone()));
        }
        for (number, path) in there {
            if !self.wires.contains_key(&number)
                && !self.pulled.is_out(number, now)
                && let Ok(wire) = dial(&path)
            {
                self.plug_in(number, wire);
            }
        }
        Ok(())
    }

    fn let_in(&mut self) {
        let visitor = self.door.as_ref().and_then(|door| door.accept().ok());
        if let Some((wire, _)) = visitor
            && wire.set_nonblocking(true).is_ok()
        {
            self.plug_in(TRUNK, wire);
        }
    }

    /// Hangs up on those whose cables are pulled out.
    fn pull(&mut self, now: Duration) {
        for number in self.pulled.look(&self.order.folder, now) {
            if self.wires.contains_key(&number) {
                self.unplug(number);
            }
        }
    }

    fn plug_in(&mut self, number: PlugNumber, wire: UnixStream) {
        self.switch.plug_in(number, self.order.rules(number));
        self.wires.insert(number, wire);
    }

    fn unplug(&mut self, number: PlugNumber) {
        self.switch.unplug(number);
        self.wires.remove(&number);
        // Its successor may be there already.
        self.find_at = Duration::ZERO;
    }

    /// One plug's turn: what it held back, or what it sends now.
    fn turn(&mut self, number: PlugNumber, flags: PollFlags) {
        let now = self.begun.elapsed();
        let outcome = if flags.contains(PollFlags::POLLIN) {
            self.read(number, now)
        } else if flags.intersects(PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL) {
            Err(io::ErrorKind::ConnectionReset.into())
        } else {
            self.switch.drained(number);
            self.switch.resume(number, now).map_err(io::Error::other)
        };
        if outcome.is_err() {
            self.unplug(number);
        }
    }

    fn read(&mut self, number: PlugNumber, now: Duration) -> io::Result<()> {
        let Some(wire) = self.wires.get_mut(&number) else { return Ok(()) };
        let read = match wire.read(&mut self.chunk) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => read,
            Err(error) if is_later(&error) => return Ok(()),
            Err(error) => return Err(error),
        };
        let bytes = self.chunk.get(..read).unwrap_or_default();
        self.switch.receive(number, bytes, now).map_err(io::Error::other)
    }

    /// Writes what waits, once for each plug; what a socket does not take waits for the next poll.
    fn flush(&mut self) {
        let mut gone = Vec::new();
        for (number, wire) in &mut self.wires {
            let waiting = self.switch.waiting(*number);
            if waiting.is_empty() {
                continue;
            }
            match wire.write(waiting) {
                Ok(sent) => self.switch.sent(*number, sent),
                Err(error) if is_later(&error) => {}
                Err(_) => gone.push(*number),
            }
        }
        for number in gone {
            self.unplug(number);
        }
    }
}

fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// The file in which others read what was counted.
#[derive(Default)]
struct StateFile {
    written: Option<SwitchState>,
    next: Duration,
}

impl StateFile {
    /// When it is to be written next at the earliest.
    fn due(&self, now: Duration) -> Duration {
        self.next.saturating_sub(now)
    }

    fn write(&mut self, path: Option<&Path>, switch: &Switch, now: Duration) -> Result<(), Reason> {
        if now < self.next {
            return Ok(());
        }
        self.next = now + WRITE_STATE;
        let Some(path) = path else { return Ok(()) };
        let state = SwitchState { pid: std::process::id(), plugs: switch.counts() };
        if self.written.as_ref() == Some(&state) {
            return Ok(());
        }
        let text = serde_json::to_vec(&state).map_err(|error| error.to_string())?;
        let beside = beside(path);
        let written = fs::write(&beside, text).and_then(|()| fs::rename(&beside, path));
        match written {
            // The first one tells that the switch is ready. After that, its network is worth more than its books.
            Err(error) if self.written.is_none() => {
                Err(format!("the state file {}: {error}", path.display()).into())
            }
            _ => {
                self.written = Some(state);
                Ok(())
            }
        }
    }

    fn remove(&self, path: Option<&Path>) {
        if let (Some(path), true) = (path, self.written.is_some()) {
            let _ = fs::remove_file(path);
        }
    }
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    name.into()
}
