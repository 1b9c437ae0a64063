//! The loop of a guest with a program: messages of the host, bytes of the streams, ends of children.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::poll::PollFlags;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, sigprocmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;

use super::super::guest::GuestProgram;
use super::super::pid1::in_context;
use super::inward::Inward;
use super::outward::{AFTER_THE_END, Outward};
use super::session::{Patience, Sessions};
use super::start::{OurEnds, TheirEnds, ended_child, start, streams};
use super::starved::{Killed, StarvedWatch};
use super::{Kept, Ports, pty};
use crate::link::stream::{Heard, Sink, Source, wait};
use crate::link::{Decoder, LinkError, decode, encode};
use model::partition::{
    FromGuest, LONGEST_MESSAGE, PROGRAM_PROTOCOL, Program, ProgramEnd, Stream, ToGuest, asks_to_end,
};
use units::Reason;

/// How often it is looked whether a program that has ended is over.
const LOOK: Duration = Duration::from_millis(20);

/// Everything the loop looks at.
struct Server<'a> {
    program: &'a Program,
    source: Source,
    sink: Sink,
    decoder: Decoder,
    children: SignalFd,
    input: Inward,
    output: Outward,
    error: Outward,
    terminal: Option<OwnedFd>,
    sessions: Option<Sessions<'a>>,
    theirs: Option<TheirEnds>,
    pid: Option<Pid>,
    ended: Option<(ProgramEnd, Instant)>,
    /// For clients of its ports once it has ended.
    patience: Patience,
    /// That they are waited for was told, and what must last was written before.
    delivers: bool,
    starved: StarvedWatch,
    /// Which ends of outputs, and whether the program's, were told.
    told: [bool; 3],
    kept: Kept,
    unattended: bool,
    goodbye: bool,
}

/// Serves the host until it says goodbye or is gone; without a host, until the program has ended.
pub fn serve<'a>(
    ports: Ports,
    sessions: Option<Sessions<'a>>,
    guest: &'a GuestProgram,
    starved: StarvedWatch,
    kept: Kept,
) -> Result<(), Reason> {
    let mut server = Server::new(ports, &guest.program, starved, kept)?;
    server.sessions = sessions;
    server.unattended = guest.unattended;
    server.tell(&ready())?;
    if guest.unattended {
        server.obey(&ToGuest::InputEnds { bytes: 0 })?;
        server.obey(&ToGuest::Start)?;
    }
    while !server.goodbye {
        server.turn()?;
    }
    while guest.unattended && !server.sink.is_drained() {
        wait(&[(server.sink.as_fd(), PollFlags::POLLOUT)], None).map_err(in_context("waiting"))?;
        server.sink.write().map_err(in_context("the link"))?;
    }
    Ok(())
}

fn ready() -> FromGuest {
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let bytes = |key: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(key));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kib.unwrap_or(0).saturating_mul(1024)
    };
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    FromGuest::Ready {
        protocol: PROGRAM_PROTOCOL,
        cpus: u32::try_from(cpus).unwrap_or(u32::MAX),
        memory_bytes: bytes("MemTotal:"),
        free_bytes: bytes("MemAvailable:"),
    }
}

impl<'a> Server<'a> {
    fn new(ports: Ports, program: &'a Program, starved: StarvedWatch, kept: Kept) -> Result<Self, Reason> {
        let mut mask = SigSet::empty();
        mask.add(Signal::SIGCHLD);
        sigprocmask(SigmaskHow::SIG_BLOCK, Some(&mask), None).map_err(in_context("blocking signals"))?;
        let children = SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)
            .map_err(in_context("a descriptor for signals"))?;
        let (ours, theirs) = streams(program)?;
        let mut copy = None;
        let (input, output, error) = match ours {
            OurEnds::Pipes { input, output, error } => (
                Inward::new(ports.input, input, false),
                Outward::new(Some(output), ports.output, true),
                Outward::new(Some(error), ports.error, true),
            ),
            OurEnds::Terminal(terminal) => {
                let second = || terminal.master.try_clone().map_err(in_context("the terminal"));
                copy = Some(second()?);
                (
                    Inward::new(ports.input, second()?, true),
                    Outward::new(Some(second()?), ports.output, false),
                    Outward::new(None, ports.error, false),
                )
            }
        };
        let read = ports.link.try_clone().map_err(in_context("the link"))?;
        Ok(Self {
            program,
            source: Source::new(read).map_err(in_context("the link"))?,
            sink: Sink::new(ports.link).map_err(in_context("the link"))?,
            decoder: Decoder::new(LONGEST_MESSAGE),
            children,
            input,
            output,
            error,
            terminal: copy,
            sessions: None,
            theirs: Some(theirs),
            pid: None,
            ended: None,
            patience: Patience::LONG,
            delivers: false,
            starved,
            told: [false; 3],
            kept,
            unattended: false,
            goodbye: false,
        })
    }

    /// Waits until something is to be done, and does it.
    fn turn(&mut self) -> Result<(), Reason> {
        let mut wanted =
            vec![(self.source.as_fd(), PollFlags::POLLIN), (self.children.as_fd(), PollFlags::POLLIN)];
        if !self.sink.is_drained() {
            wanted.push((self.sink.as_fd(), PollFlags::POLLOUT));
        }
        if self.pid.is_some() {
            wanted.extend(self.input.wanted());
            wanted.extend(self.output.wanted());
            wanted.extend(self.error.wanted());
        }
        wanted.extend(self.sessions.iter().flat_map(Sessions::wanted));
        let is_running = self.pid.is_some() && self.ended.is_none();
        if is_running {
            wanted.extend(self.starved.wanted());
        }
        wait(&wanted, self.patience()).map_err(in_context("waiting"))?;
        drop(wanted);
        self.listen()?;
        self.sink.write().map_err(in_context("the link"))?;
        self.reap()?;
        if self.pid.is_some() {
            self.pump()?;
        }
        if is_running && let Killed::Largest(victim) = self.starved.look_at_news() {
            self.tell(&FromGuest::MemoryRanOut { victim })?;
        }
        let is_running = self.pid.is_some() && self.ended.is_none();
        if let Some(sessions) = &mut self.sessions
            && !sessions.turn(is_running)?
        {
            self.sessions = None;
        }
        self.tell_the_end()
    }

    /// When to look again although nothing happens: others may hold the outputs open after the program's end.
    fn patience(&self) -> Option<Duration> {
        let own = self.ended.filter(|_| !self.told[2]);
        let own = own.map(|(_, at)| AFTER_THE_END.saturating_sub(at.elapsed()).max(LOOK));
        own.into_iter().chain(self.sessions.as_ref().and_then(Sessions::patience)).min()
    }

    fn listen(&mut self) -> Result<(), Reason> {
        match self.source.read().map_err(in_context("the link"))? {
            Heard::Nothing => return Ok(()),
            Heard::End => self.goodbye = true,
            Heard::Bytes(count) => self.decoder.push(self.source.bytes(count)),
        }
        let failed = |error: LinkError| format!("the link: {error}");
        while let Some(frame) = self.decoder.next_frame().map_err(failed)? {
            let message: ToGuest = decode(&frame).map_err(failed)?;
            self.obey(&message)?;
        }
        Ok(())
    }

    fn obey(&mut self, message: &ToGuest) -> Result<(), Reason> {
        match message {
            ToGuest::Start => self.start(),
            ToGuest::Signal { number } => {
                self.pass_on(*number);
                if asks_to_end(*number) {
                    self.patience = if self.ended.is_some() { Patience::NONE } else { Patience::SHORT };
                }
                self.tell(&FromGuest::Passed { number: *number })
            }
            ToGuest::Resize { size } => {
                self.terminal.as_ref().map_or(Ok(()), |master| pty::resize(master, *size))
            }
            ToGuest::InputEnds { bytes } => {
                self.input.end_at(*bytes);
                Ok(())
            }
            ToGuest::NobodyReads { stream } => {
                match stream {
                    Stream::Output => self.output.close(),
                    Stream::Error => self.error.close(),
                    Stream::Input => {}
                }
                Ok(())
            }
            ToGuest::Bye => {
                self.goodbye = true;
                Ok(())
            }
        }
    }

    fn start(&mut self) -> Result<(), Reason> {
        let Some(theirs) = self.theirs.take() else { return Ok(()) };
        match start(self.program, theirs) {
            Ok(pid) => {
                self.pid = Some(pid);
                self.tell(&FromGuest::Started)
            }
            Err(refusal) => self.tell(&FromGuest::Refused { code: refusal.code, reason: refusal.reason }),
        }
    }

    fn pass_on(&self, number: i32) {
        let (Some(pid), None, Ok(signal)) = (self.pid, self.ended, Signal::try_from(number)) else { return };
        super::start::pass_on(pid, signal);
    }

    fn reap(&mut self) -> Result<(), Reason> {
        while self.children.read_signal().map_err(in_context("a signal"))?.is_some() {}
        while let Some((pid, how)) = ended_child() {
            if Some(pid) == self.pid {
                self.ended = Some((how, Instant::now()));
                self.input.close();
            }
            self.sessions.iter_mut().for_each(|sessions| sessions.reaped(pid, how));
        }
        Ok(())
    }

    fn pump(&mut self) -> Result<(), Reason> {
        if self.input.pump()? {
            self.tell(&FromGuest::InputUnread)?;
        }
        let ended = self.ended.map(|(_, at)| at);
        for (index, stream) in [Stream::Output, Stream::Error].into_iter().enumerate() {
            let outward = if index == 0 { &mut self.output } else { &mut self.error };
            outward.pump(ended)?;
            let bytes = outward.sent();
            if outward.has_ended() && !std::mem::replace(&mut self.told[index], true) {
                self.tell(&FromGuest::OutputEnds { stream, bytes })?;
            }
        }
        Ok(())
    }

    /// Tells how the program ended once all it wrote and sent is on its way.
    fn tell_the_end(&mut self) -> Result<(), Reason> {
        if let (Some((how, at)), [true, true, false]) = (self.ended, self.told) {
            if !self.has_delivered(at)? {
                if !std::mem::replace(&mut self.delivers, true) {
                    self.kept.sync()?;
                    self.tell(&FromGuest::Delivers)?;
                }
                return Ok(());
            }
            self.told[2] = true;
            self.kept.sync()?;
            if let Some(victim) = self.starved.victim() {
                self.tell(&FromGuest::MemoryRanOut { victim })?;
            }
            self.tell(&FromGuest::Ended { how })?;
        }
        Ok(())
    }

    /// Whether clients of its ports have what the program sent before its end.
    fn has_delivered(&mut self, ended: Instant) -> Result<bool, Reason> {
        let patience = self.patience;
        self.sessions.as_mut().map_or(Ok(true), |sessions| sessions.deliver(ended, patience))
    }

    fn tell(&mut self, message: &FromGuest) -> Result<(), Reason> {
        if self.unattended {
            self.goodbye |= matches!(message, FromGuest::Refused { .. } | FromGuest::Ended { .. });
            let mut line = serde_json::to_vec(message).map_err(in_context("the link"))?;
            line.push(b'\n');
            self.sink.queue(&line);
            return self.sink.write().map_err(in_context("the link"));
        }
        let frame = encode(message, LONGEST_MESSAGE).map_err(in_context("the link"))?;
        self.sink.queue(&frame);
        self.sink.write().map_err(in_context("the link"))
    }
}
