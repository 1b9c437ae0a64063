//! What both sides of a pair have, and how either plays its role in a phase.

use std::net::{TcpStream, UdpSocket};
use std::time::Duration;

use super::control::ExchangeTally;
use super::link::Link;
use super::plan::{Phase, Role};
use super::usage::Reading;
use super::{datagrams, questions, streams};
use crate::error::WorkError;
use crate::params::{Exchange, Protocol};
use crate::pattern::Pattern;
use crate::rendezvous::{Hello, HelloWord, Patience};
use units::histogram::DenseHistogram;
use units::{Bytes, Nanos};

/// What one side moved in a phase.
#[derive(Debug, Clone, Copy, Default)]
pub struct Moved {
    /// How long it took.
    pub elapsed: Duration,
    /// Messages sent.
    pub sent: u64,
    /// Messages that arrived.
    pub arrived: u64,
    /// Bytes that arrived.
    pub bytes: u64,
}

/// What is to be done in a phase, on either side.
#[derive(Debug)]
pub struct PairTask<'a> {
    /// For how long.
    pub duration: Duration,
    /// Size of a message.
    pub size: usize,
    /// What the other side fills its messages with.
    pub theirs: Pattern,
    /// How long anything may take.
    pub patience: &'a Patience<'a>,
    /// What it is, for errors.
    pub what: String,
}

impl PairTask<'_> {
    /// Whether the host asked to end; cheap enough for a measured loop.
    #[inline]
    pub fn is_stopped(&self) -> bool {
        self.patience.is_stopped()
    }

    /// Goes on, or ends with the reason.
    ///
    /// # Errors
    /// The host asked to end, or patience ran out.
    pub fn check(&self) -> Result<(), WorkError> {
        self.patience.check(|| self.what.clone())
    }

    /// Refuses a phase whose data was not what had been sent.
    ///
    /// # Errors
    /// It was not.
    pub fn check_content(&self, intact: bool) -> Result<(), WorkError> {
        if intact {
            Ok(())
        } else {
            Err(WorkError::Unfit(format!("{}: other bytes arrived than were sent", self.what)))
        }
    }
}

/// One side of a pair.
#[derive(Debug)]
pub struct Pair<'a> {
    /// The control connection.
    pub link: Link<'a>,
    /// What only members of the job know.
    pub word: HelloWord,
    /// Number of this instance.
    pub own: u32,
    /// Number of the other one.
    pub other: u32,
    /// The socket between the two, when UDP is asked for.
    pub datagrams: Option<UdpSocket>,
    /// A message of the largest size, filled.
    pub message: &'a mut [u8],
    /// Room for one, and for a chunk of a stream.
    pub buffer: &'a mut [u8],
    /// How long each phase takes.
    pub duration: Duration,
    /// Whether the kernel's totals are this instance's alone.
    pub whole: bool,
}

/// What an instance fills its messages with.
pub fn pattern(word: HelloWord, rank: u32) -> Pattern {
    Pattern::new(word.derive(u64::from(rank)))
}

impl Pair<'_> {
    /// What is said at the door for a phase's own connection.
    pub fn data_hello(&self, phase: &Phase, from: u32, to: u32) -> Hello {
        Hello { word: self.word, from, to, channel: u64::from(phase.number) + 1 }
    }

    /// Makes a fresh connection, or the socket, fit for a phase.
    ///
    /// # Errors
    /// The system refused.
    pub fn make_ready(&mut self, phase: &Phase, data: Option<&TcpStream>) -> Result<(), WorkError> {
        if let Some(stream) = data {
            stream
                .set_nodelay(phase.exchange == Exchange::RequestResponse)
                .map_err(|error| WorkError::system("set TCP_NODELAY", error))?;
        }
        match (&self.datagrams, phase.protocol) {
            (Some(socket), Protocol::Udp) => datagrams::drain(socket, self.buffer),
            _ => Ok(()),
        }
    }

    /// Plays the role; round trips are recorded by who asks.
    ///
    /// # Errors
    /// The network broke, the other side is gone, or the job is to end.
    pub fn play(
        &mut self,
        role: Role,
        phase: &Phase,
        data: Option<&TcpStream>,
        round_trips: &mut DenseHistogram,
    ) -> Result<ExchangeTally, WorkError> {
        let task = PairTask {
            duration: self.duration,
            size: phase.size(),
            theirs: pattern(self.word, self.other),
            patience: &self.link.patience,
            what: format!("{} with {}", phase.words(), self.link.other),
        };
        let message = self.message.get_mut(..phase.size()).unwrap_or_default();
        let reading = Reading::take(self.whole)?;
        let moved = match (data, &self.datagrams) {
            (Some(stream), _) => over_tcp(role, stream, message, self.buffer, &task, round_trips),
            (None, Some(socket)) => {
                over_udp(role, socket, message, self.buffer, &self.link, &task, round_trips)
            }
            (None, None) => Err(WorkError::Unfit(format!("{}: there is no connection", task.what))),
        }?;
        let (cpu_ns, system_ns) = reading.since()?;
        if let (Role::Send, None, Some(socket)) = (role, data, &self.datagrams) {
            datagrams::mark_end(socket, &self.link, &task)?;
        }
        // Questions carry numbers in their first bytes.
        pattern(self.word, self.own).fill(self.message.get_mut(..8).unwrap_or_default());
        Ok(ExchangeTally {
            elapsed_ns: Nanos::from_duration(moved.elapsed),
            sent: moved.sent,
            arrived: moved.arrived,
            bytes: Bytes::from_bytes(moved.bytes),
            cpu_ns,
            system_ns,
        })
    }
}

fn over_tcp(
    role: Role,
    stream: &TcpStream,
    message: &[u8],
    buffer: &mut [u8],
    task: &PairTask<'_>,
    round_trips: &mut DenseHistogram,
) -> Result<Moved, WorkError> {
    match role {
        Role::Send => streams::send(stream, message, task),
        Role::Receive => streams::receive(stream, buffer, task),
        Role::Ask => questions::ask(stream, message, sized(buffer, task), task, round_trips),
        Role::Answer => questions::answer(stream, message, sized(buffer, task), task),
    }
}

fn over_udp(
    role: Role,
    socket: &UdpSocket,
    message: &mut [u8],
    buffer: &mut [u8],
    link: &Link<'_>,
    task: &PairTask<'_>,
    round_trips: &mut DenseHistogram,
) -> Result<Moved, WorkError> {
    match role {
        Role::Send => datagrams::send(socket, message, task),
        Role::Receive => datagrams::receive(socket, buffer, task),
        Role::Ask => datagrams::ask(socket, message, buffer, task, round_trips),
        Role::Answer => datagrams::answer(socket, message, buffer, link, task),
    }
}

fn sized<'a>(buffer: &'a mut [u8], task: &PairTask<'_>) -> &'a mut [u8] {
    buffer.get_mut(..task.size).unwrap_or_default()
}
