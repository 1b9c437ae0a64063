//! A session from its own end: our streams, orders, and how what it runs ended.
//!
//! ```text
//!  input ──► as many bytes as were granted ──► socket ──► output, error: a thread each, which grants what it has written
//!  orders ─► a signal that should end it was not passed on for a second? ── yes, and another one came ─► given up
//! ```
//! A connection's input is read before anybody has taken it: who cuts it off meanwhile waits for nobody.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::poll::PollFlags;
use nix::sys::socket::{Shutdown, shutdown};

use crate::run::{Event, Failed, Order, Orders, REACTION, Streams, is_ending};
use model::partition::session::{
    Ask, GRANT_BYTES, SessionContent, SessionWord, Unpacker, WINDOW_BYTES, pack,
};
use model::partition::{LONGEST_TEXT, ProgramEnd, Stream, Victim};
use platforms::console::harmless;
use platforms::host;
use platforms::link::stream::wait;
use units::Reason;

/// Bytes carried at once.
const CHUNK_BYTES: usize = 16 * 1024;

/// How long a guest may take to begin a program on an idle host.
const BEGINS_WITHIN: Duration = Duration::from_secs(60);

/// What our streams are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionKind {
    /// A program's, each for itself.
    Program,
    /// A connection: input and output are one socket, of which each half ends for itself.
    Connection,
}

/// Runs a session until it has ended. A connection may wait for long until somebody takes it; what else does not begin
/// in time has failed.
///
/// # Errors
/// Why there is no end of a program.
pub fn converse(
    socket: UnixStream,
    ask: Ask,
    kind: SessionKind,
    streams: Streams,
    orders: Orders,
    tell: &mut dyn FnMut(Event),
) -> Result<ProgramEnd, Failed> {
    let within = (kind == SessionKind::Program).then(|| BEGINS_WITHIN.mul_f64(host::crowding()));
    converse_within(socket, ask, (kind, within), streams, orders, tell)
}

fn converse_within(
    socket: UnixStream,
    ask: Ask,
    (kind, within): (SessionKind, Option<Duration>),
    streams: Streams,
    orders: Orders,
    tell: &mut dyn FnMut(Event),
) -> Result<ProgramEnd, Failed> {
    let failed = |error: io::Error| Failed::own(format!("the session: {error}"));
    let from = socket.try_clone().map_err(failed)?;
    let line = Arc::new(Line::new(socket));
    line.word(SessionWord::Open { ask })?;
    line.obey(orders).map_err(failed)?;
    let mut outputs = [
        Output::start(Stream::Output, kind, streams.output, &line).map_err(failed)?,
        Output::start(Stream::Error, kind, streams.error, &line).map_err(failed)?,
    ];
    let mut incoming = Incoming::new(from, within);
    let mut input = Some(streams.input);
    let mut begin = || {
        let Some(input) = input.take() else { return Ok(()) };
        let line = Arc::clone(&line);
        thread::Builder::new().name("input".to_owned()).spawn(move || line.feed(input, kind)).map(drop)
    };
    if kind == SessionKind::Connection {
        begin().map_err(failed)?;
    }
    let outcome = loop {
        match incoming.next() {
            Ok(SessionContent::Word(SessionWord::Started)) if incoming.has_begun => {
                break Err(not_believed("it started twice"));
            }
            Ok(SessionContent::Word(SessionWord::Started)) => {
                incoming.begins().and_then(|()| begin()).map_err(failed)?;
                tell(Event::Started);
            }
            Ok(SessionContent::Word(SessionWord::Ended { how })) => break Ok(how),
            Ok(content) => {
                if let Err(failed) = hear(content, &line, &mut outputs, tell) {
                    break Err(failed);
                }
            }
            Err(why) => break Err(line.given_up.get().cloned().unwrap_or(why)),
        }
    };
    line.grant(None);
    let is_cut_off = kind == SessionKind::Connection && outcome != Ok(ProgramEnd::Exit(0));
    line.is_cut_off.store(is_cut_off, Ordering::SeqCst);
    // Of what is given up nothing is waited for: who should read it may be what stands still.
    if line.given_up.get().is_none() {
        outputs.into_iter().for_each(Output::finish);
    }
    outcome
}

/// What comes from the partition, in packets.
struct Incoming {
    from: UnixStream,
    unpacker: Unpacker,
    chunk: Vec<u8>,
    has_begun: bool,
    /// Until when it is to begin, and how long that was.
    until: Option<(Instant, Duration)>,
}

impl Incoming {
    fn new(from: UnixStream, within: Option<Duration>) -> Self {
        let until = within.map(|within| (Instant::now() + within, within));
        let chunk = vec![0; 2 * CHUNK_BYTES];
        Self { from, unpacker: Unpacker::default(), chunk, has_begun: false, until }
    }

    fn begins(&mut self) -> io::Result<()> {
        (self.has_begun, self.until) = (true, None);
        self.from.set_read_timeout(None)
    }

    /// Waits for the next packet.
    fn next(&mut self) -> Result<SessionContent, Failed> {
        loop {
            match self.unpacker.next_packet() {
                Ok(Some(packet)) => return Ok(packet.content),
                Ok(None) => {}
                Err(why) => return Err(not_believed(&why.to_string())),
            }
            if let Some((until, within)) = self.until {
                let rest = until.saturating_duration_since(Instant::now());
                if rest.is_zero() {
                    return Err(Failed::own(format!(
                        "the partition did not answer for {} s: it did not begin what it was asked for; bulkhead ps \
                         shows whether it runs, bulkhead stop ends it",
                        within.as_secs()
                    )));
                }
                let set = self.from.set_read_timeout(Some(rest));
                set.map_err(|error| Failed::own(format!("the session: {error}")))?;
            }
            match self.from.read(&mut self.chunk) {
                Ok(count @ 1..) => self.unpacker.push(self.chunk.get(..count).unwrap_or_default()),
                Err(error) if is_for_now(&error) => {}
                Ok(_) | Err(_) => {
                    return Err(Failed::own("the partition has ended, or it was started again"));
                }
            }
        }
    }
}

/// Whether reading may succeed later.
fn is_for_now(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

fn hear(
    content: SessionContent,
    line: &Line,
    outputs: &mut [Output; 2],
    tell: &mut dyn FnMut(Event),
) -> Result<(), Failed> {
    let place = |stream| usize::from(stream == Stream::Error);
    match content {
        SessionContent::Bytes(stream @ (Stream::Output | Stream::Error), bytes) => {
            let output = outputs.get_mut(place(stream));
            if output.is_some_and(|output| !output.take(bytes)) {
                return Err(not_believed("it sent more than it was granted"));
            }
        }
        SessionContent::Word(SessionWord::End { stream: Stream::Input }) => line.grant(None),
        SessionContent::Word(SessionWord::End { stream }) => {
            if let Some(output) = outputs.get_mut(place(stream)) {
                output.end();
            }
        }
        SessionContent::Word(SessionWord::Credit { stream: Stream::Input, bytes }) => line.grant(Some(bytes)),
        SessionContent::Word(SessionWord::Passed { number }) => {
            line.reacts();
            tell(Event::Passed { number });
        }
        SessionContent::Word(SessionWord::MemoryRanOut { victim }) => {
            let name: String = victim.name.chars().take(LONGEST_TEXT).collect();
            tell(Event::MemoryRanOut(Victim { name: harmless(name.as_bytes()), ..victim }));
        }
        SessionContent::Word(SessionWord::Refused { code, reason }) => {
            let reason: String = reason.chars().take(LONGEST_TEXT).collect();
            return Err(Failed::of(code.clamp(125, 127), harmless(reason.as_bytes())));
        }
        other => {
            let shown: String = format!("{other:?}").chars().take(100).collect();
            return Err(not_believed(&shown));
        }
    }
    Ok(())
}

fn not_believed(why: &str) -> Failed {
    Failed::own(format!("the guest's init is not believed: {why}"))
}

/// The socket, how much of the input may be sent, and whether the guest passes on what it is told to.
struct Line {
    socket: UnixStream,
    /// Held by whoever writes to it.
    writes: Mutex<()>,
    granted: Mutex<Granted>,
    changed: Condvar,
    /// Since when a signal that should end the program was not passed on.
    unanswered: Mutex<Option<Instant>>,
    /// Why nothing more is waited for.
    given_up: OnceLock<Failed>,
    /// A connection that is cut off: what was not taken of it is not to be.
    is_cut_off: AtomicBool,
}

struct Granted {
    bytes: usize,
    is_over: bool,
}

impl Default for Granted {
    fn default() -> Self {
        Self { bytes: WINDOW_BYTES, is_over: false }
    }
}

impl Line {
    fn new(socket: UnixStream) -> Self {
        Self {
            socket,
            writes: Mutex::default(),
            granted: Mutex::default(),
            changed: Condvar::new(),
            unanswered: Mutex::default(),
            given_up: OnceLock::new(),
            is_cut_off: AtomicBool::new(false),
        }
    }

    fn send(&self, content: &SessionContent) -> Result<(), Reason> {
        let bytes = pack(0, content)?;
        let writes = self.writes.lock().unwrap_or_else(PoisonError::into_inner);
        // Why it cannot be written is told by the reading side.
        let _ = (&self.socket).write_all(&bytes);
        drop(writes);
        Ok(())
    }

    fn word(&self, word: SessionWord) -> Result<(), Reason> {
        self.send(&SessionContent::Word(word))
    }

    /// So many more bytes may be sent; none at all any more.
    fn grant(&self, bytes: Option<u32>) {
        let mut granted = self.granted.lock().unwrap_or_else(PoisonError::into_inner);
        match bytes {
            Some(bytes) => {
                let more = usize::try_from(bytes).unwrap_or(usize::MAX);
                granted.bytes = granted.bytes.saturating_add(more).min(WINDOW_BYTES);
            }
            None => granted.is_over = true,
        }
        drop(granted);
        self.changed.notify_all();
    }

    /// Waits until something may be sent: how much; none when nothing is wanted any more.
    fn room(&self) -> Option<usize> {
        let granted = self.granted.lock().unwrap_or_else(PoisonError::into_inner);
        let waits = |granted: &mut Granted| granted.bytes == 0 && !granted.is_over;
        let granted = self.changed.wait_while(granted, waits).unwrap_or_else(PoisonError::into_inner);
        (!granted.is_over).then_some(granted.bytes)
    }

    /// Until the end of `from`, or nobody wants more of it.
    fn feed(&self, from: OwnedFd, kind: SessionKind) {
        let (mut from, mut chunk) = (File::from(from), vec![0; CHUNK_BYTES]);
        while let Some(room) = self.room() {
            // A terminal is read only when something was typed: reading it from the background would stop us.
            if wait(&[(from.as_fd(), PollFlags::POLLIN)], None).is_err() {
                return;
            }
            let most = room.min(chunk.len());
            let count = match from.read(chunk.get_mut(..most).unwrap_or_default()) {
                Ok(count) => count,
                Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {
                    continue;
                }
                // It was reset, and is to be reset inside.
                Err(_) if kind == SessionKind::Connection => {
                    let _ = self.word(SessionWord::Close);
                    return;
                }
                // A folder, or a terminal that is gone: for the program it is the end.
                Err(_) => 0,
            };
            if count == 0 {
                let _ = self.word(SessionWord::End { stream: Stream::Input });
                return;
            }
            let mut granted = self.granted.lock().unwrap_or_else(PoisonError::into_inner);
            granted.bytes = granted.bytes.saturating_sub(count);
            drop(granted);
            let bytes = chunk.get(..count).unwrap_or_default().to_vec();
            let _ = self.send(&SessionContent::Bytes(Stream::Input, bytes));
        }
    }

    /// Begins to pass on what is ordered from outside, as long as it is worth it. Who hears the orders never waits for a
    /// partition that takes no word.
    fn obey(self: &Arc<Self>, orders: Orders) -> io::Result<()> {
        let (to, words) = channel();
        let (hears, says) = (Arc::clone(self), Arc::clone(self));
        thread::Builder::new().name("words".to_owned()).spawn(move || {
            while let Ok(word) = words.recv() {
                let _ = says.word(word);
            }
        })?;
        thread::Builder::new().name("orders".to_owned()).spawn(move || hears.give(&orders, &to)).map(drop)
    }

    fn give(&self, orders: &Orders, to: &Sender<SessionWord>) {
        while let Ok(order) = orders.recv() {
            if is_ending(order) && self.does_not_react() {
                return self.give_up();
            }
            // Nobody hears them any more after the end.
            let _ = to.send(match order {
                Order::Signal(number) => SessionWord::Signal { number },
                Order::Resize(size) => SessionWord::Resize { size },
                Order::Kill => SessionWord::Close,
            });
        }
    }

    /// Whether the guest had the time to pass a signal on and did not. Else it has it from now on.
    fn does_not_react(&self) -> bool {
        let mut unanswered = self.unanswered.lock().unwrap_or_else(PoisonError::into_inner);
        unanswered.get_or_insert_with(Instant::now).elapsed() >= REACTION
    }

    fn reacts(&self) {
        *self.unanswered.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn give_up(&self) {
        let why = "the partition did not answer: it did not pass a signal on for a second, and the next one ended this \
                   command; the program there ends once the partition answers (bulkhead stop ends all of it)";
        // It is the only one.
        let _ = self.given_up.set(Failed::own(why));
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
    }
}

/// An output on its way to us.
struct Output {
    queue: Option<Sender<Vec<u8>>>,
    waiting: Arc<AtomicUsize>,
    writer: JoinHandle<()>,
}

impl Output {
    fn start(stream: Stream, kind: SessionKind, to: OwnedFd, line: &Arc<Line>) -> io::Result<Self> {
        let (queue, pieces) = channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let (line, count) = (Arc::clone(line), Arc::clone(&waiting));
        let writer = thread::Builder::new()
            .name("output".to_owned())
            .spawn(move || write_on(stream, kind, to, &pieces, &line, &count))?;
        Ok(Self { queue: Some(queue), waiting, writer })
    }

    /// False when it is more than was granted.
    fn take(&self, bytes: Vec<u8>) -> bool {
        let waiting = self.waiting.fetch_add(bytes.len(), Ordering::SeqCst) + bytes.len();
        // Nobody is at its end when nothing can be written any more.
        let _ = self.queue.as_ref().map(|queue| queue.send(bytes));
        waiting <= WINDOW_BYTES
    }

    /// Its end was told, and is passed on.
    fn end(&mut self) {
        let _ = self.queue.take().map(|queue| queue.send(Vec::new()));
    }

    /// Waits until all that came is written.
    fn finish(self) {
        drop(self.queue);
        let _ = self.writer.join();
    }
}

fn write_on(
    stream: Stream,
    kind: SessionKind,
    to: OwnedFd,
    pieces: &Receiver<Vec<u8>>,
    line: &Line,
    waiting: &AtomicUsize,
) {
    let (mut to, mut taken) = (File::from(to), 0);
    while let Ok(bytes) = pieces.recv() {
        // No bytes are the end. Where none was told, there is none: what was cut off must not look whole.
        if bytes.is_empty() && kind == SessionKind::Connection {
            // Already closed is as good.
            let _ = shutdown(to.as_raw_fd(), Shutdown::Write);
        }
        if write_whole(&mut to, &bytes, kind, line).is_err() {
            let _ = line.word(match kind {
                SessionKind::Program => SessionWord::End { stream },
                // Nobody closes half of a connection against who writes: it was reset.
                SessionKind::Connection => SessionWord::Close,
            });
            return;
        }
        waiting.fetch_sub(bytes.len(), Ordering::SeqCst);
        taken += bytes.len();
        if taken >= GRANT_BYTES {
            let bytes = u32::try_from(std::mem::take(&mut taken)).unwrap_or(u32::MAX);
            let _ = line.word(SessionWord::Credit { stream, bytes });
        }
    }
}

/// A client that takes its time is waited for until its connection is cut off.
fn write_whole(to: &mut File, mut bytes: &[u8], kind: SessionKind, line: &Line) -> io::Result<()> {
    let goes_on = || kind == SessionKind::Connection && !line.is_cut_off.load(Ordering::SeqCst);
    while !bytes.is_empty() {
        match to.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::Interrupted || (is_for_now(&error) && goes_on()) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
