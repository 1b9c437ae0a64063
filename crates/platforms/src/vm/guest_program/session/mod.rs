//! Sessions in a guest: further programs, connections to the program's ports, and looks, while PID 1's own program runs.
//!
//! ```text
//!  port ══ packets ══► Sessions ─┬─ One: program ── pipes or terminal      (one.rs)
//!                                ├─ One: connection ── socket             (one.rs, dial.rs: until it is taken)
//!                                └─ a look, answered at once               (look.rs)
//! ```
//! No stream holds up another one: what a session may have on its way is limited, so the port is always read.

mod dial;
mod look;
mod one;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::poll::PollFlags;
use nix::unistd::Pid;

use self::one::One;
pub use self::one::Patience;
use super::super::pid1::{in_context, say};
use super::starved::StarvedWatch;
use crate::link::stream::{Heard, Sink, Source};
use model::partition::session::{Ask, MOST_SESSIONS, Packet, SessionContent, SessionWord, Unpacker, pack};
use model::partition::{Program, ProgramEnd, Stream};
use units::Reason;

/// All sessions of a guest.
pub struct Sessions<'a> {
    program: &'a Program,
    addresses: Vec<Ipv4Addr>,
    source: Source,
    sink: Sink,
    unpacker: Unpacker,
    all: BTreeMap<u32, One>,
    starved: StarvedWatch,
}

/// What a session has to tell the host.
type Words = Vec<SessionContent>;

impl<'a> Sessions<'a> {
    /// Over `port`, beside `program`, in a guest with these addresses whose memory is watched.
    pub fn new(
        port: OwnedFd,
        program: &'a Program,
        addresses: Vec<Ipv4Addr>,
        starved: StarvedWatch,
    ) -> Result<Self, Reason> {
        let failed = || in_context("the port of sessions");
        let read = port.try_clone().map_err(in_context("the port of sessions"))?;
        Ok(Self {
            program,
            addresses,
            source: Source::new(read).map_err(failed())?,
            sink: Sink::new(port).map_err(failed())?,
            unpacker: Unpacker::default(),
            all: BTreeMap::new(),
            starved,
        })
    }

    /// What to wait for.
    pub fn wanted(&self) -> Vec<(BorrowedFd<'_>, PollFlags)> {
        let mut wanted = vec![(self.source.as_fd(), PollFlags::POLLIN)];
        if !self.sink.is_drained() {
            wanted.push((self.sink.as_fd(), PollFlags::POLLOUT));
        }
        wanted.extend(self.all.values().flat_map(One::wanted));
        wanted
    }

    /// When to look again although nothing happens.
    pub fn patience(&self) -> Option<Duration> {
        self.all.values().filter_map(One::patience).min()
    }

    /// A child has ended.
    pub fn reaped(&mut self, pid: Pid, how: ProgramEnd) {
        self.all.values_mut().for_each(|one| one.reaped(pid, how));
    }

    /// Hears what the host says and carries what there is, without waiting; false when the host's end is gone.
    pub fn turn(&mut self, is_running: bool) -> Result<bool, Reason> {
        match self.source.read().map_err(in_context("the port of sessions"))? {
            Heard::Bytes(count) => self.unpacker.push(self.source.bytes(count)),
            Heard::Nothing => {}
            Heard::End => {
                self.all.values().for_each(One::end);
                return Ok(false);
            }
        }
        while let Some(packet) = self.unpacker.next_packet()? {
            self.hear(packet, is_running)?;
        }
        let numbers: Vec<u32> = self.all.keys().copied().collect();
        for number in numbers {
            let mut words = Words::new();
            let over = self.all.get_mut(&number).is_none_or(|one| one.pump(&mut words));
            if over {
                self.all.remove(&number);
            }
            self.tell(number, &words)?;
        }
        self.sink.write().map_err(in_context("the port of sessions")).map(|()| true)
    }

    /// Whether everything is with the host that the partition's own program, which ended at `ended`, sent over connections. They
    /// end with it, or when patience does.
    pub fn deliver(&mut self, ended: Instant, patience: Patience) -> Result<bool, Reason> {
        let over = |(number, one): (&u32, &One)| Some((*number, one.after_the_end(ended, patience)?));
        let over: Vec<(u32, SessionWord)> = self.all.iter().filter_map(over).collect();
        for (number, word) in over {
            self.all.remove(&number);
            self.tell(number, &[SessionContent::Word(word)])?;
        }
        self.sink.write().map_err(in_context("the port of sessions"))?;
        Ok(self.sink.is_drained() && !self.all.values().any(One::is_connection))
    }

    fn hear(&mut self, packet: Packet, is_running: bool) -> Result<(), Reason> {
        let number = packet.session;
        let mut words = Words::new();
        match (packet.content, self.all.get_mut(&number)) {
            (SessionContent::Word(SessionWord::Open { ask }), None) => {
                match self.open(&ask, is_running) {
                    Ok(Opened::Begun(one)) => {
                        if one.has_begun() {
                            words.push(SessionContent::Word(SessionWord::Started));
                        }
                        self.all.insert(number, *one);
                    }
                    Ok(Opened::Answered(yes)) => {
                        let how = ProgramEnd::Exit(u8::from(!yes));
                        words.push(SessionContent::Word(SessionWord::Started));
                        words.push(SessionContent::Word(SessionWord::Ended { how }));
                    }
                    Err((code, reason)) => {
                        words.push(SessionContent::Word(SessionWord::Refused { code, reason }));
                    }
                }
                return self.tell(number, &words);
            }
            (SessionContent::Word(SessionWord::Close), Some(one)) => {
                one.end();
                self.all.remove(&number);
            }
            (SessionContent::Word(word), Some(one)) => one.obey(&word, &mut words)?,
            (SessionContent::Bytes(Stream::Input, bytes), Some(one)) => {
                let fits = one.take(&bytes);
                if !fits {
                    say("a session was sent more than it had asked for, and is ended");
                    one.end();
                    self.all.remove(&number);
                }
            }
            // Of one that has ended meanwhile.
            _ => {}
        }
        self.tell(number, &words)
    }

    fn open(&self, ask: &Ask, is_running: bool) -> Result<Opened, (u8, String)> {
        if !is_running {
            return Err((125, "the partition's own program does not run".to_owned()));
        }
        if self.all.len() >= MOST_SESSIONS {
            let reason =
                format!("there are {MOST_SESSIONS} programs and connections already, which is the most");
            return Err((125, reason));
        }
        match ask {
            Ask::Look(look) => Ok(Opened::Answered(look::is_so(look))),
            Ask::Connect(port) => Ok(Opened::Begun(Box::new(One::connect(*port, &self.addresses)))),
            Ask::Run(further) => {
                let starved = self.starved.anew();
                One::run(self.program, further, starved).map(|one| Opened::Begun(Box::new(one)))
            }
        }
    }

    fn tell(&mut self, number: u32, words: &[SessionContent]) -> Result<(), Reason> {
        for word in words {
            self.sink.queue(&pack(number, word)?);
        }
        Ok(())
    }
}

/// What came of opening a session.
enum Opened {
    Begun(Box<One>),
    Answered(bool),
}

#[cfg(test)]
mod tests;
