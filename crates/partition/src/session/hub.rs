//! Carries the packets of many sessions over the one port of a partition. The guest is not trusted: what comes for a
//! session is limited, and who sends what is no packet is not heard again.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{io, thread};

use model::partition::session::{
    MOST_SESSIONS, Packet, SessionContent, SessionWord, Unpacker, WINDOW_BYTES, pack,
};

/// How long a guest may take to take a packet.
const PATIENCE: Duration = Duration::from_secs(20);
/// Bytes read at once.
const CHUNK_BYTES: usize = 64 * 1024;
/// Bytes that may wait for a session's own end: what was granted of two streams, and as much again for words.
const MOST_WAITING: usize = 4 * WINDOW_BYTES;

/// All sessions of a partition. They end when this is dropped.
pub struct Hub {
    all: Arc<All>,
    alarms: Mutex<Vec<io::PipeWriter>>,
    /// Connections to the program's ports that have not ended.
    pub(super) connections: Arc<AtomicUsize>,
}

/// What the threads share.
pub struct All {
    port: Mutex<UnixStream>,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    seats: BTreeMap<u32, Seat>,
    last: u32,
    is_over: bool,
}

/// A session's own end.
struct Seat {
    socket: UnixStream,
    queue: Sender<Vec<u8>>,
    waiting: Arc<AtomicUsize>,
}

impl Hub {
    /// Begins to carry over `port`.
    ///
    /// # Errors
    /// There can be no more threads or files.
    pub fn new(port: UnixStream) -> io::Result<Self> {
        let from = port.try_clone()?;
        port.set_write_timeout(Some(PATIENCE))?;
        let all = Arc::new(All { port: Mutex::new(port), table: Mutex::default() });
        let theirs = Arc::clone(&all);
        thread::Builder::new().name("sessions".to_owned()).spawn(move || {
            theirs.hear(from);
            theirs.end();
        })?;
        Ok(Self { all, alarms: Mutex::default(), connections: Arc::default() })
    }

    /// How many connections to the program's ports have not ended.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Lets nobody in any more; who is there goes on.
    pub fn close(&self) {
        self.alarms.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Runs `accept` in a thread of its own until this is dropped, which its pipe tells.
    ///
    /// # Errors
    /// There can be no more threads or files.
    pub fn accept(&self, accept: impl FnOnce(Arc<All>, io::PipeReader) + Send + 'static) -> io::Result<()> {
        let (wake, alarm) = io::pipe()?;
        let all = Arc::clone(&self.all);
        thread::Builder::new().name("accept".to_owned()).spawn(move || accept(all, wake))?;
        self.alarms.lock().unwrap_or_else(PoisonError::into_inner).push(alarm);
        Ok(())
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.all.end();
    }
}

impl All {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nobody is heard any more.
    fn end(&self) {
        let mut table = self.table();
        table.is_over = true;
        for seat in std::mem::take(&mut table.seats).into_values() {
            let _ = seat.socket.shutdown(Shutdown::Both);
        }
        drop(table);
        let _ = self.port.lock().unwrap_or_else(PoisonError::into_inner).shutdown(Shutdown::Both);
    }

    /// Until the guest's end, or what is no packet.
    fn hear(&self, from: UnixStream) {
        take_packets(from, |packet| {
            self.route(packet);
            true
        });
    }

    fn route(&self, packet: &Packet) {
        let mut table = self.table();
        // It may have been closed meanwhile.
        let Some(seat) = table.seats.get(&packet.session) else { return };
        let Ok(bytes) = pack(0, &packet.content) else { return };
        let is_last = matches!(
            packet.content,
            SessionContent::Word(SessionWord::Ended { .. } | SessionWord::Refused { .. })
        );
        let waiting = seat.waiting.fetch_add(bytes.len(), Ordering::SeqCst);
        let is_too_much = waiting > MOST_WAITING;
        if is_too_much {
            let _ = seat.socket.shutdown(Shutdown::Both);
        } else {
            let _ = seat.queue.send(bytes);
        }
        if is_last || is_too_much {
            table.seats.remove(&packet.session);
        }
    }

    /// Serves a session until one of its ends is gone. Its first word is to be what it is opened for.
    ///
    /// # Errors
    /// There can be no more threads or files.
    pub fn serve(self: &Arc<Self>, socket: UnixStream) -> io::Result<()> {
        let (queue, packets) = channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let seat = Seat { socket: socket.try_clone()?, queue, waiting: Arc::clone(&waiting) };
        let to = socket.try_clone()?;
        thread::Builder::new().name("session".to_owned()).spawn(move || write_on(&packets, to, &waiting))?;
        let Some(number) = self.table().seat(seat) else { return Ok(()) };
        let all = Arc::clone(self);
        thread::Builder::new()
            .name("session".to_owned())
            .spawn(move || {
                all.read_on(number, socket);
                if all.table().seats.remove(&number).is_some() {
                    all.send(number, &SessionContent::Word(SessionWord::Close));
                }
            })
            .map(drop)
    }

    fn read_on(&self, number: u32, from: UnixStream) {
        take_packets(from, |packet| {
            let goes_on = packet.content != SessionContent::Word(SessionWord::Close);
            // What it runs is ended for it.
            if goes_on {
                self.send(number, &packet.content);
            }
            goes_on
        });
    }

    /// A guest that does not take a packet in time has no sessions any more: the rest of it would be taken for another.
    fn send(&self, number: u32, content: &SessionContent) {
        let Ok(bytes) = pack(number, content) else { return };
        let sent = self.port.lock().unwrap_or_else(PoisonError::into_inner).write_all(&bytes);
        if sent.is_err() {
            self.end();
        }
    }
}

impl Table {
    /// A number for a session; none when there are too many, which its own end is told.
    fn seat(&mut self, seat: Seat) -> Option<u32> {
        if self.is_over || self.seats.len() >= MOST_SESSIONS {
            let reason = if self.is_over {
                "the partition ends, or does not take any".to_owned()
            } else {
                format!("there are {MOST_SESSIONS} programs and connections already, which is the most")
            };
            if let Ok(bytes) = pack(0, &SessionContent::Word(SessionWord::Refused { code: 125, reason })) {
                let _ = seat.queue.send(bytes);
            }
            return None;
        }
        self.last = self.last.wrapping_add(1);
        self.seats.insert(self.last, seat);
        Some(self.last)
    }
}

/// Gives packets on as they come, until `give` says no, their end, or what is no packet.
fn take_packets(mut from: UnixStream, mut give: impl FnMut(&Packet) -> bool) {
    let (mut unpacker, mut chunk) = (Unpacker::default(), vec![0; CHUNK_BYTES]);
    loop {
        match from.read(&mut chunk) {
            Ok(count @ 1..) => unpacker.push(chunk.get(..count).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Ok(_) | Err(_) => return,
        }
        loop {
            match unpacker.next_packet() {
                Ok(None) => break,
                Ok(Some(packet)) if give(&packet) => {}
                Ok(Some(_)) | Err(_) => return,
            }
        }
    }
}

/// Until nothing more comes for it.
fn write_on(packets: &Receiver<Vec<u8>>, mut to: UnixStream, waiting: &AtomicUsize) {
    while let Ok(bytes) = packets.recv() {
        if to.write_all(&bytes).is_err() {
            break;
        }
        waiting.fetch_sub(bytes.len(), Ordering::SeqCst);
    }
    let _ = to.shutdown(Shutdown::Both);
}
