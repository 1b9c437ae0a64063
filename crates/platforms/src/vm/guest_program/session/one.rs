//! One session: bytes between the port and a program's pipes, its terminal, or a socket, never more than was granted.

use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::poll::PollFlags;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::socket::{setsockopt, sockopt};
use nix::unistd::Pid;
use rustix::io::{Errno, read, write};

use super::super::inward::END_OF_INPUT;
use super::super::outward::{AFTER_THE_END, at_most_in};
use super::super::pty;
use super::super::start::{OurEnds, start, streams};
use super::super::starved::{Killed, StarvedWatch};
use super::Words;
use super::dial::{Dial, Dialled};
use crate::link::stream::is_ready;
use model::partition::session::{Further, GRANT_BYTES, SessionContent, SessionWord, WINDOW_BYTES};
use model::partition::{Program, ProgramEnd, Stream};
use units::Reason;

/// Bytes carried at once.
const CHUNK_BYTES: usize = 16 * 1024;
/// How often one whose program has ended is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// How long clients of a program that has ended are waited for: without a byte that is taken, and in all.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    idle: Duration,
    whole: Duration,
}

impl Patience {
    /// As a rule.
    pub const LONG: Self = Self { idle: Duration::from_secs(10), whole: Duration::from_secs(60) };
    /// When somebody had asked the program to end.
    pub const SHORT: Self = Self { idle: AFTER_THE_END, whole: Duration::from_secs(5) };
    /// When somebody asks after its end.
    pub const NONE: Self = Self { idle: Duration::ZERO, whole: Duration::ZERO };
}

/// What a session runs.
enum Kind {
    Program(Pid),
    Terminal(Pid, OwnedFd),
    /// One that nobody has taken yet.
    Dial(Dial),
    Connection(TcpStream),
}

/// A session.
pub struct One {
    kind: Kind,
    to: Option<OwnedFd>,
    waiting: Vec<u8>,
    /// Bytes it has taken and not granted anew.
    taken: usize,
    ends: bool,
    outs: [Out; 2],
    ended: Option<(ProgramEnd, Instant)>,
    /// Of a program.
    starved: Option<StarvedWatch>,
    /// The other end of a connection has cut it off.
    is_reset: bool,
    /// When bytes of an output were last carried.
    moved: Instant,
}

/// An output, and how many bytes of it may be sent.
struct Out {
    stream: Stream,
    from: Option<OwnedFd>,
    credit: usize,
    told: bool,
    /// Bytes that are still taken after the program's end, once its time is over: who goes on writing would never be found idle.
    last: Option<usize>,
}

impl One {
    /// Starts a program beside `own`, and `starved` says afterwards whether memory ran out meanwhile.
    pub fn run(own: &Program, further: &Further, starved: StarvedWatch) -> Result<Self, (u8, String)> {
        let mut program = own.clone();
        program.argv.clone_from(&further.argv);
        program.terminal = further.terminal;
        program.inherited = further.inherited.clone().unwrap_or(program.inherited);
        for (name, value) in &further.env {
            program.env.retain(|(known, _)| known != name);
            program.env.push((name.clone(), value.clone()));
        }
        program.workdir = further.workdir.clone().unwrap_or(program.workdir);
        program.user = further.user.clone().unwrap_or(program.user);
        let failed = |reason: Reason| (125, reason.into());
        let (ours, theirs) = streams(&program).map_err(failed)?;
        let pid = start(&program, theirs).map_err(|refusal| (refusal.code, refusal.reason))?;
        let one = match ours {
            OurEnds::Pipes { input, output, error } => {
                Self::new(Kind::Program(pid), Some(input), [Some(output), Some(error)])
            }
            OurEnds::Terminal(terminal) => {
                let copy = || terminal.master.try_clone().map_err(|error| failed(error.to_string().into()));
                Self::new(Kind::Terminal(pid, copy()?), Some(copy()?), [Some(copy()?), None])
            }
        };
        Ok(Self { starved: Some(starved), ..one })
    }

    /// Begins to connect to a port of the program, in a guest whose cards have these addresses.
    pub fn connect(port: u16, own: &[Ipv4Addr]) -> Self {
        Self::new(Kind::Dial(Dial::new(port, own)), None, [None, None])
    }

    /// Somebody has taken it.
    fn reach(&mut self, stream: TcpStream) -> std::io::Result<()> {
        let (to, from) = (stream.try_clone()?.into(), stream.try_clone()?.into());
        self.to = Some(to);
        if let Some(out) = self.outs.iter_mut().find(|out| out.stream == Stream::Output) {
            (out.from, out.told) = (Some(from), false);
        }
        self.kind = Kind::Connection(stream);
        Ok(())
    }

    fn new(kind: Kind, to: Option<OwnedFd>, outs: [Option<OwnedFd>; 2]) -> Self {
        let [output, error] = outs;
        let out = |stream, from| Out { stream, from, credit: WINDOW_BYTES, told: false, last: None };
        Self {
            kind,
            to,
            waiting: Vec::new(),
            taken: 0,
            ends: false,
            outs: [out(Stream::Output, output), out(Stream::Error, error)],
            ended: None,
            starved: None,
            is_reset: false,
            moved: Instant::now(),
        }
    }

    /// What to wait for.
    pub fn wanted(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        let to = self.to.as_ref().filter(|_| !self.waiting.is_empty());
        let outs = self.outs.iter().filter(|out| out.credit > 0).filter_map(|out| out.from.as_ref());
        to.map(|to| (to.as_fd(), PollFlags::POLLOUT))
            .into_iter()
            .chain(outs.map(|from| (from.as_fd(), PollFlags::POLLIN)))
            .chain(self.dial().and_then(Dial::wanted))
    }

    /// When to look again although nothing happens: its program has ended, though perhaps not its streams; or nobody has
    /// taken it yet.
    pub fn patience(&self) -> Option<Duration> {
        self.dial().map(Dial::patience).or_else(|| self.ended.map(|_| LOOK))
    }

    /// Whether it runs; a connection: whether somebody has taken it.
    pub const fn has_begun(&self) -> bool {
        self.dial().is_none()
    }

    /// Whether it is one to a port of the partition's own program.
    pub const fn is_connection(&self) -> bool {
        self.pid().is_none()
    }

    const fn dial(&self) -> Option<&Dial> {
        match &self.kind {
            Kind::Dial(dial) => Some(dial),
            Kind::Program(_) | Kind::Terminal(..) | Kind::Connection(_) => None,
        }
    }

    /// A child has ended, perhaps this one.
    pub fn reaped(&mut self, pid: Pid, how: ProgramEnd) {
        if self.pid() == Some(pid) && self.ended.is_none() {
            self.ended = Some((how, Instant::now()));
            self.to = None;
        }
    }

    const fn pid(&self) -> Option<Pid> {
        match self.kind {
            Kind::Program(pid) | Kind::Terminal(pid, _) => Some(pid),
            Kind::Dial(_) | Kind::Connection(_) => None,
        }
    }

    /// Nobody wants it any more. Who is at the other end of a connection sees that it was cut off.
    pub fn end(&self) {
        if let Kind::Connection(socket) = &self.kind {
            let at_once = libc::linger { l_onoff: 1, l_linger: 0 };
            // It may be reset already.
            let _ = setsockopt(socket, sockopt::Linger, &at_once);
        }
        if let (Some(pid), None) = (self.pid(), self.ended) {
            // It may have ended meanwhile.
            let _ = killpg(pid, Signal::SIGKILL);
            let _ = kill(pid, Signal::SIGKILL);
        }
    }

    /// What is told of a connection once the partition's own program has ended at `ended`: none while bytes that it sent are on
    /// their way. Others may hold its end open, and nobody take it, only so long.
    pub fn after_the_end(&self, ended: Instant, patience: Patience) -> Option<SessionWord> {
        let is_late = ended.elapsed() >= AFTER_THE_END.min(patience.whole);
        let socket = match &self.kind {
            Kind::Program(_) | Kind::Terminal(..) => return None,
            Kind::Dial(_) => {
                let reason = "the partition's own program has ended".to_owned();
                return is_late.then_some(SessionWord::Refused { code: 125, reason });
            }
            Kind::Connection(socket) => socket,
        };
        if self.outs.iter().all(|out| out.from.is_none()) {
            return Some(SessionWord::Ended { how: ProgramEnd::Exit(u8::from(self.is_reset)) });
        }
        // Its end comes after all that is before it: as long as bytes wait here, who has closed is not known.
        let wanted = PollFlags::POLLIN | PollFlags::from_bits_retain(libc::POLLRDHUP);
        let goes_on = is_ready(&[(socket.as_fd(), wanted)])
            && self.moved.max(ended).elapsed() < patience.idle
            && ended.elapsed() < patience.whole;
        if !is_late || goes_on {
            return None;
        }
        self.end();
        Some(SessionWord::Ended { how: ProgramEnd::Exit(1) })
    }

    /// Takes bytes for its input; false when they are more than it had granted.
    pub fn take(&mut self, bytes: &[u8]) -> bool {
        if self.to.is_none() && self.has_begun() {
            return true;
        }
        self.waiting.extend_from_slice(bytes);
        self.waiting.len() <= WINDOW_BYTES
    }

    /// Does what the host says.
    pub fn obey(&mut self, word: &SessionWord, words: &mut Words) -> Result<(), Reason> {
        match word {
            SessionWord::Signal { number } => {
                self.pass_on(*number);
                words.push(SessionContent::Word(SessionWord::Passed { number: *number }));
            }
            SessionWord::Resize { size } => {
                if let Kind::Terminal(_, master) = &self.kind {
                    pty::resize(master, *size)?;
                }
            }
            SessionWord::Credit { stream, bytes } => {
                for out in self.outs.iter_mut().filter(|out| out.stream == *stream) {
                    let bytes = usize::try_from(*bytes).unwrap_or(usize::MAX);
                    out.credit = out.credit.saturating_add(bytes).min(WINDOW_BYTES);
                }
            }
            SessionWord::End { stream: Stream::Input } => self.ends = true,
            SessionWord::End { stream } => {
                for out in self.outs.iter_mut().filter(|out| out.stream == *stream) {
                    out.from = None;
                }
                if let Kind::Connection(socket) = &self.kind {
                    // Already closed is as good.
                    let _ = socket.shutdown(Shutdown::Read);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// As with the partition's own program: what a terminal sends goes to all of the group.
    fn pass_on(&self, number: i32) {
        let (Some(pid), None, Ok(signal)) = (self.pid(), self.ended, Signal::try_from(number)) else {
            return;
        };
        super::super::start::pass_on(pid, signal);
    }

    /// Carries what there is without waiting; true when nothing more will come of it.
    pub fn pump(&mut self, words: &mut Words) -> bool {
        if let Kind::Dial(dial) = &mut self.kind {
            let refused = match dial.turn() {
                Dialled::Waits => return false,
                Dialled::Reached(stream) => self.reach(stream).err().map(|error| error.to_string()),
                Dialled::Refused(reason) => Some(reason),
            };
            if let Some(reason) = refused {
                words.push(SessionContent::Word(SessionWord::Refused { code: 125, reason }));
                return true;
            }
            words.push(SessionContent::Word(SessionWord::Started));
        }
        self.feed(words);
        let ended = self.ended;
        let before = words.len();
        let is_connection = self.is_connection();
        for out in &mut self.outs {
            let is_reset = out.pump(ended.map(|(_, at)| at), is_connection, self.is_reset, words);
            self.is_reset |= is_reset;
        }
        if words.len() > before {
            self.moved = Instant::now();
        }
        if self.is_reset {
            self.to = None;
        }
        if self.outs.iter().any(|out| out.from.is_some()) {
            return false;
        }
        let how = match (&self.kind, ended, &self.to) {
            (Kind::Connection(_), _, None) => ProgramEnd::Exit(u8::from(self.is_reset)),
            (_, Some((how, _)), _) => how,
            _ => return false,
        };
        match self.starved.as_mut().map_or(Killed::Nobody, StarvedWatch::look) {
            Killed::Nobody => {}
            Killed::NotWritten => return false,
            Killed::Largest(victim) => words.push(SessionContent::Word(SessionWord::MemoryRanOut { victim })),
        }
        words.push(SessionContent::Word(SessionWord::Ended { how }));
        true
    }

    fn feed(&mut self, words: &mut Words) {
        let mut written = 0;
        while let (Some(to), true) = (&self.to, written < self.waiting.len()) {
            match write(to, self.waiting.get(written..).unwrap_or_default()) {
                Ok(count) => written += count,
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(_) => {
                    self.to = None;
                    self.is_reset = matches!(self.kind, Kind::Connection(_));
                    words.push(SessionContent::Word(SessionWord::End { stream: Stream::Input }));
                }
            }
        }
        if self.to.is_none() {
            self.waiting = Vec::new();
            return;
        }
        self.waiting.drain(..written);
        self.taken += written;
        if self.taken >= GRANT_BYTES {
            let bytes = u32::try_from(std::mem::take(&mut self.taken)).unwrap_or(u32::MAX);
            words.push(SessionContent::Word(SessionWord::Credit { stream: Stream::Input, bytes }));
        }
        if self.ends && self.waiting.is_empty() {
            match &self.kind {
                // Its terminal stays open, as one whose user has typed the end.
                Kind::Terminal(..) => {
                    let _ = self.to.as_ref().map(|to| write(to, &[END_OF_INPUT]));
                }
                Kind::Connection(socket) => {
                    let _ = socket.shutdown(Shutdown::Write);
                }
                Kind::Program(_) | Kind::Dial(_) => {}
            }
            self.to = None;
        }
    }
}

impl Out {
    /// True when a connection was cut off, which may have been seen before, by who wrote to it.
    fn pump(
        &mut self,
        ended: Option<Instant>,
        is_connection: bool,
        was_reset: bool,
        words: &mut Words,
    ) -> bool {
        let (mut buffer, mut is_reset) = ([MaybeUninit::uninit(); CHUNK_BYTES], was_reset);
        if self.last.is_none() && ended.is_some_and(|at| at.elapsed() >= AFTER_THE_END) {
            self.last = self.from.as_ref().map(at_most_in);
        }
        while let (Some(from), true) = (&self.from, self.credit > 0) {
            let most = self.credit.min(buffer.len());
            match read(from, buffer.get_mut(..most).unwrap_or_default()) {
                Ok((bytes, _)) if !bytes.is_empty() => {
                    self.credit -= bytes.len();
                    self.last = self.last.map(|last| last.saturating_sub(bytes.len()));
                    words.push(SessionContent::Bytes(self.stream, bytes.to_vec()));
                    if self.last == Some(0) {
                        self.from = None;
                    }
                }
                Err(Errno::INTR) => {}
                // Others may hold it open after the program's end, but not for long.
                Err(Errno::AGAIN) if self.last.is_none() => return false,
                // A terminal without a program answers with EIO.
                other => {
                    is_reset |= is_connection && other.is_err();
                    self.from = None;
                }
            }
        }
        // Of what is reset only that is told: an end of its own would look like all there was.
        if self.from.is_none() && !std::mem::replace(&mut self.told, true) && !is_reset {
            words.push(SessionContent::Word(SessionWord::End { stream: self.stream }));
        }
        is_reset
    }
}
