//! The conversation with PID 1 of a partition, from its first word to the program's end. The guest is not trusted: every
//! wait has a deadline, every message is checked, and what does not fit ends the partition.
//!
//! ```text
//!  Booting ── Ready ──► Starting ── Started ──► Running ── Ended ──► Draining ── all bytes came ──► clients have theirs ──► end
//!     │                    │ Refused               │                    │                             └─ or time is over ─┘
//!     └── boot deadline ───┴──► failed             └── link lost ───────┴── no byte for too long ──► failed
//! ```

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use super::inbox::is_ending;
use super::relay::{Input, Output};
use super::{Event, Failed, Order, Streams};
use crate::session::Hub;
use model::partition::{
    FromGuest, LONGEST_MESSAGE, LONGEST_TEXT, PROGRAM_PROTOCOL, ProgramEnd, Stream, ToGuest, Victim,
};
use platforms::console::harmless;
use platforms::link::{Decoder, LinkError, decode, encode};

/// How long a guest may take for a small thing once it runs: taking a message, starting the program, bytes it announced.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// How long a guest may take to pass a signal on before the next one ends it.
pub const REACTION: Duration = Duration::from_secs(1);
/// Longest time nothing is looked at.
const SLICE: Duration = Duration::from_secs(1);
/// How often a guest is listened to about that its memory ran out.
const MOST_STARVED: u32 = 100;
/// How often it is looked whether connections have ended.
const LOOK: Duration = Duration::from_millis(5);
/// Bytes read from the link at once.
const CHUNK_BYTES: usize = 4096;

/// What the threads around a partition have to say.
#[derive(Debug)]
pub enum Happened {
    /// The guest said something.
    Said(FromGuest),
    /// It will say nothing more.
    LinkEnded(LinkError),
    /// Someone outside wants something.
    Ordered(Order),
    /// Our standard input has ended after so many bytes.
    InputEnded(u64),
    /// An output cannot be written any more.
    NobodyReads(Stream, io::Error),
    /// An output's thread has ended.
    Done(Stream),
}

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Booting,
    Starting,
    Running,
    Draining(ProgramEnd),
}

/// One conversation.
pub struct MainSession<'a> {
    link: UnixStream,
    happened: Receiver<Happened>,
    sender: Sender<Happened>,
    ports: [UnixStream; 3],
    streams: Option<Streams>,
    input: Option<Input>,
    /// Standard output and error, and which of them are done.
    outputs: Vec<Output>,
    done: [bool; 2],
    ends: [Option<u64>; 2],
    phase: Phase,
    deadline: Option<Instant>,
    boot: Duration,
    /// Bytes that had come when the deadline was set, while draining.
    seen: u64,
    /// Since when a signal that should end the program was not passed on.
    unanswered: Option<Instant>,
    /// How often it was told that memory ran out.
    starved: u32,
    /// Carries connections to the program's ports.
    hub: Option<&'a Hub>,
    /// Until when clients are waited for, once nothing else is.
    delivered_by: Option<Instant>,
    /// They are not: somebody asked for the end when the program had ended, or the guest has ended, too.
    is_cut_off: bool,
    tell: &'a mut dyn FnMut(Event),
}

/// What a conversation is begun with.
pub struct Beginning<'a> {
    /// Our end of the link.
    pub link: UnixStream,
    /// Our ends of the ports: input, output, error.
    pub ports: [UnixStream; 3],
    /// Our standard streams.
    pub streams: Streams,
    /// Both ends of the channel that everything around the partition reports to.
    pub channel: (Sender<Happened>, Receiver<Happened>),
    /// Until when the program must run.
    pub deadline: Instant,
    /// How long that was from the start of the machine.
    pub boot: Duration,
    /// Carries connections to its ports.
    pub hub: Option<&'a Hub>,
    /// Who is told.
    pub tell: &'a mut dyn FnMut(Event),
}

impl<'a> MainSession<'a> {
    /// Begins to listen.
    pub fn new(begin: Beginning<'a>) -> io::Result<Self> {
        let (sender, happened) = begin.channel;
        begin.link.set_write_timeout(Some(PATIENCE))?;
        let (from, to) = (begin.link.try_clone()?, sender.clone());
        thread::Builder::new().name("link".to_owned()).spawn(move || {
            let end = listen(from, &to);
            let _ = to.send(Happened::LinkEnded(end));
        })?;
        Ok(Self {
            link: begin.link,
            happened,
            sender,
            ports: begin.ports,
            streams: Some(begin.streams),
            input: None,
            outputs: Vec::new(),
            done: [false; 2],
            ends: [None; 2],
            phase: Phase::Booting,
            deadline: Some(begin.deadline),
            boot: begin.boot,
            seen: 0,
            unanswered: None,
            starved: 0,
            hub: begin.hub,
            delivered_by: None,
            is_cut_off: false,
            tell: begin.tell,
        })
    }

    /// Until the program has ended and its last byte has come.
    pub fn until_the_end(mut self) -> Result<ProgramEnd, Failed> {
        loop {
            let longest = if self.delivered_by.is_some() { LOOK } else { SLICE };
            let slice =
                self.deadline.map_or(SLICE, |at| at.saturating_duration_since(Instant::now())).min(longest);
            match self.happened.recv_timeout(slice) {
                Ok(happened) => self.hear(happened)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(Failed::own("its threads are gone")),
            }
            if let (Phase::Draining(how), [true, true]) = (self.phase, self.done) {
                self.all_came()?;
                if !self.is_delivered() {
                    continue;
                }
                // Nobody waits for an answer: everything that had to be kept was written before the end was told.
                let _ = self.send(&ToGuest::Bye);
                return Ok(how);
            }
            self.look_at_the_clock()?;
        }
    }

    /// Whether clients of the program's ports have all that it sent before its end: the guest has told it, and may not make us
    /// wait for ever.
    fn is_delivered(&mut self) -> bool {
        let Some(hub) = self.hub else { return true };
        let until = *self.delivered_by.get_or_insert_with(|| {
            // Who comes now comes too late.
            hub.close();
            Instant::now() + PATIENCE
        });
        self.deadline = None;
        hub.connections() == 0 || self.is_cut_off || Instant::now() >= until
    }

    fn hear(&mut self, happened: Happened) -> Result<(), Failed> {
        match happened {
            Happened::Said(message) => self.answer(message),
            // The program has ended, and only its clients are waited for.
            Happened::LinkEnded(_) if self.delivered_by.is_some() => {
                self.is_cut_off = true;
                Ok(())
            }
            Happened::LinkEnded(LinkError::Closed) => Err(Failed::guest_ended()),
            Happened::LinkEnded(error) => {
                Err(Failed::own(format!("the guest's init is not believed: {error}")))
            }
            Happened::Ordered(order) => self.obey(order),
            Happened::InputEnded(bytes) => self.send(&ToGuest::InputEnds { bytes }),
            Happened::NobodyReads(stream, error) => {
                if error.kind() != io::ErrorKind::BrokenPipe {
                    (self.tell)(Event::Unwritable { stream, why: error.to_string() });
                }
                self.send(&ToGuest::NobodyReads { stream })
            }
            Happened::Done(stream) => {
                let index = usize::from(stream == Stream::Error);
                self.done[index] = true;
                if self.ends[index].is_none() {
                    return Err(Failed::guest_ended());
                }
                Ok(())
            }
        }
    }

    fn answer(&mut self, message: FromGuest) -> Result<(), Failed> {
        match (self.phase, message) {
            (Phase::Booting, FromGuest::Ready { protocol, cpus, memory_bytes, free_bytes }) => {
                if protocol != PROGRAM_PROTOCOL {
                    let wanted =
                        format!("the guest's init speaks version {protocol}, {PROGRAM_PROTOCOL} was wanted");
                    return Err(Failed::own(wanted));
                }
                (self.tell)(Event::Booted { cpus, memory_bytes, free_bytes });
                self.phase = Phase::Starting;
                self.send(&ToGuest::Start)
            }
            (Phase::Starting, FromGuest::Started) => self.begin(),
            (Phase::Starting, FromGuest::Refused { code, reason }) => Err(Failed::of(
                code.clamp(125, 127),
                harmless(reason.chars().take(LONGEST_TEXT).collect::<String>().as_bytes()),
            )),
            (Phase::Running | Phase::Draining(_), FromGuest::Passed { number }) => {
                self.unanswered = None;
                (self.tell)(Event::Passed { number });
                Ok(())
            }
            (Phase::Running, FromGuest::Delivers) if self.ends.iter().all(Option::is_some) => {
                (self.tell)(Event::Delivers);
                Ok(())
            }
            (Phase::Running, FromGuest::MemoryRanOut { .. }) if self.starved >= MOST_STARVED => Ok(()),
            (Phase::Running, FromGuest::MemoryRanOut { victim }) => {
                self.starved += 1;
                let name: String = victim.name.chars().take(LONGEST_TEXT).collect();
                (self.tell)(Event::MemoryRanOut(Victim { name: harmless(name.as_bytes()), ..victim }));
                Ok(())
            }
            (Phase::Running, FromGuest::InputUnread) => {
                self.input = None;
                Ok(())
            }
            (Phase::Running, FromGuest::OutputEnds { stream, bytes }) => self.end_output(stream, bytes),
            (Phase::Running, FromGuest::Ended { how }) if self.ends.iter().all(Option::is_some) => {
                self.input = None;
                self.phase = Phase::Draining(how);
                self.wait_for_bytes();
                Ok(())
            }
            (phase, message) => {
                let shown: String = format!("{message:?}").chars().take(100).collect();
                Err(Failed::own(format!("the guest's init is not believed: {shown} while {phase:?}")))
            }
        }
    }

    /// The program runs: its streams flow.
    fn begin(&mut self) -> Result<(), Failed> {
        let failed = |error: io::Error| Failed::own(format!("carrying the streams: {error}"));
        let Some(streams) = self.streams.take() else { return Err(Failed::own("it was started twice")) };
        (self.phase, self.deadline) = (Phase::Running, None);
        let [input, output, error] = &self.ports;
        self.input = Some(Input::start(streams.input, input, self.sender.clone()).map_err(failed)?);
        for (stream, port, to) in
            [(Stream::Output, output, streams.output), (Stream::Error, error, streams.error)]
        {
            self.outputs.push(Output::start(stream, port, to, self.sender.clone()).map_err(failed)?);
        }
        (self.tell)(Event::Started);
        Ok(())
    }

    fn end_output(&mut self, stream: Stream, bytes: u64) -> Result<(), Failed> {
        let index = match stream {
            Stream::Output => 0,
            Stream::Error => 1,
            Stream::Input => {
                return Err(Failed::own("the guest's init is not believed: its input is no output"));
            }
        };
        if self.ends[index].replace(bytes).is_some() {
            return Err(Failed::own("the guest's init is not believed: an output ended twice"));
        }
        if let Some(output) = self.outputs.get(index) {
            output.end_at(bytes);
        }
        Ok(())
    }

    /// What was announced must have come, and no more.
    fn all_came(&self) -> Result<(), Failed> {
        for (output, end) in self.outputs.iter().zip(self.ends) {
            if Some(output.count()) != end {
                let (got, wanted) = (output.count(), end.unwrap_or_default());
                return Err(Failed::own(format!(
                    "the guest announced {wanted} bytes of an output, {got} came"
                )));
            }
        }
        Ok(())
    }

    fn obey(&mut self, order: Order) -> Result<(), Failed> {
        match order {
            Order::Kill => Err(Failed::own("ended from outside")),
            Order::Signal(number) if matches!(self.phase, Phase::Booting | Phase::Starting) => {
                if is_ending(order) {
                    return Err(Failed::interrupted(number));
                }
                Ok(())
            }
            // The guest has done its part.
            Order::Signal(_) if is_ending(order) && self.delivered_by.is_some() => {
                self.is_cut_off = true;
                Ok(())
            }
            Order::Signal(_) if is_ending(order) && self.does_not_react() => {
                Err(Failed::own("the guest did not react to a signal and was ended by the next one"))
            }
            Order::Signal(number) => {
                if is_ending(order) {
                    self.is_cut_off |= matches!(self.phase, Phase::Draining(_));
                    self.unanswered.get_or_insert_with(Instant::now);
                }
                self.send(&ToGuest::Signal { number })
            }
            Order::Resize(size) => self.send(&ToGuest::Resize { size }),
        }
    }

    /// Whether the guest had the time to pass a signal on and did not; the next one may come at once (`kill -INT`, `kill -TERM`).
    fn does_not_react(&self) -> bool {
        self.unanswered.is_some_and(|since| since.elapsed() >= REACTION)
    }

    fn send(&mut self, message: &ToGuest) -> Result<(), Failed> {
        let frame = encode(message, LONGEST_MESSAGE).map_err(|error| Failed::own(error.to_string()))?;
        // Why it cannot be written is told by the reading side.
        match self.link.write_all(&frame) {
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                Err(Failed::own(format!("the guest took no message for {} s", PATIENCE.as_secs())))
            }
            _ => Ok(()),
        }
    }

    fn wait_for_bytes(&mut self) {
        self.seen = self.outputs.iter().map(Output::count).sum();
        self.deadline = Some(Instant::now() + PATIENCE);
    }

    fn look_at_the_clock(&mut self) -> Result<(), Failed> {
        if self.deadline.is_none_or(|at| Instant::now() < at) {
            return Ok(());
        }
        match self.phase {
            Phase::Booting => Err(Failed::late("boot", self.boot)),
            Phase::Starting => Err(Failed::late("start the program", self.boot)),
            Phase::Running => Ok(()),
            Phase::Draining(_) => {
                let moved = self.outputs.iter().map(Output::count).sum::<u64>() > self.seen;
                if moved || self.outputs.iter().any(Output::is_writing) {
                    self.wait_for_bytes();
                    return Ok(());
                }
                Err(Failed::own(format!(
                    "the guest announced bytes that did not come for {} s",
                    PATIENCE.as_secs()
                )))
            }
        }
    }
}

/// Hands on every message until there are no more; why.
fn listen(mut from: UnixStream, to: &Sender<Happened>) -> LinkError {
    let mut decoder = Decoder::new(LONGEST_MESSAGE);
    let mut chunk = [0; CHUNK_BYTES];
    loop {
        match from.read(&mut chunk) {
            Ok(0) => return LinkError::Closed,
            Ok(count) => decoder.push(chunk.get(..count).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return LinkError::Closed,
            Err(error) => return LinkError::Broke(error.to_string()),
        }
        loop {
            let message = match decoder.next_frame() {
                Ok(None) => break,
                Ok(Some(frame)) => decode::<FromGuest>(&frame),
                Err(error) => Err(error),
            };
            match message {
                Ok(message) => {
                    if to.send(Happened::Said(message)).is_err() {
                        return LinkError::Closed;
                    }
                }
                Err(error) => return error,
            }
        }
    }
}

#[cfg(test)]
mod tests;
