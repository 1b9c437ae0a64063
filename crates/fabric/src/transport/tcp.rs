//! Ranks of other hosts: TCP. Each side dials for what it sends, and takes what it receives from the connection that the
//! other side dialled, so that two who call each other at once do not get into each other's way.
//!
//! ```text
//!  dialled:  connecting ──► greeting: our address, then the token of the called ──► messages
//!  accepted: greeting read and checked, within 10 s ──► messages          message = payload's length (8), header, payload
//! ```
//!
//! Nothing here waits: sockets are non-blocking, and what does not go through now is tried again.

use std::collections::HashMap;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, connect, setsockopt, socket, sockopt};

use super::Transport;
use crate::address::{ADDRESS, Address};
use crate::fault::Fault;
use crate::wire::{HEADER, MOST_PIECE};

const GREETING: usize = ADDRESS + 16;
const GREET_WITHIN: Duration = Duration::from_secs(10);
/// Callers that have not greeted yet; more are turned away.
const MOST_CALLERS: usize = 128;
/// What was sent and not acknowledged for so long ends the connection: the other host is gone.
const SILENT_MILLISECONDS: u32 = 20_000;
/// Bytes before a payload.
const HEAD: usize = 8 + HEADER;

/// Where ranks of other hosts call us.
#[derive(Debug)]
pub struct Hub {
    address: Address,
    listener: TcpListener,
    callers: Vec<Caller>,
    greeted: HashMap<u32, TcpStream>,
}

#[derive(Debug)]
struct Caller {
    stream: TcpStream,
    bytes: [u8; GREETING],
    filled: usize,
    since: Instant,
}

/// A hub, as all ways share it.
pub type SharedHub = Arc<Mutex<Hub>>;

impl Hub {
    /// Listens at an address of this machine; `address` gets the port.
    ///
    /// # Errors
    /// Says why that cannot be.
    pub fn open(at: Ipv4Addr, mut address: Address) -> Result<(SharedHub, Address), Fault> {
        let wrong = |error: io::Error| format!("listen at {at} (BULKHEAD_FABRIC_ADDRESS): {error}");
        let listener = TcpListener::bind((at, 0)).map_err(wrong)?;
        listener.set_nonblocking(true).map_err(wrong)?;
        let port = listener.local_addr().map_err(wrong)?.port();
        let mut random = std::fs::File::open("/dev/urandom").map_err(wrong)?;
        random.read_exact(&mut address.token).map_err(wrong)?;
        address.socket = Some((at, port));
        let hub = Self { address, listener, callers: Vec::new(), greeted: HashMap::new() };
        Ok((Arc::new(Mutex::new(hub)), address))
    }

    /// Takes calls, and reads greetings as far as they have come.
    fn pump(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            if self.callers.len() < MOST_CALLERS && prepare(&stream).is_ok() {
                let since = Instant::now();
                self.callers.push(Caller { stream, bytes: [0; GREETING], filled: 0, since });
            }
        }
        let mut waiting = Vec::new();
        for mut caller in std::mem::take(&mut self.callers) {
            let rest = caller.bytes.get_mut(caller.filled..).unwrap_or_default();
            match read_some(&mut caller.stream, &mut [IoSliceMut::new(rest)]) {
                Ok(Some(0)) | Err(_) => continue,
                Ok(Some(count)) => caller.filled += count,
                Ok(None) => {}
            }
            if caller.filled < GREETING {
                if caller.since.elapsed() < GREET_WITHIN {
                    waiting.push(caller);
                }
            } else if let Some(rank) = self.known(&caller.bytes) {
                self.greeted.entry(rank).or_insert(caller.stream);
            }
        }
        self.callers = waiting;
    }

    /// The rank that greets us rightly.
    fn known(&self, greeting: &[u8; GREETING]) -> Option<u32> {
        let (address, token) = greeting.split_first_chunk::<ADDRESS>()?;
        let caller = Address::decode(address).ok()?;
        (caller.run == self.address.run && token == self.address.token).then_some(caller.rank)
    }
}

fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    setsockopt(&stream.as_fd(), sockopt::KeepAlive, &true)?;
    setsockopt(&stream.as_fd(), sockopt::TcpUserTimeout, &SILENT_MILLISECONDS)?;
    Ok(())
}

/// What was read; none when nothing is there now.
fn read_some(stream: &mut TcpStream, into: &mut [IoSliceMut<'_>]) -> io::Result<Option<usize>> {
    match stream.read_vectored(into) {
        Ok(count) => Ok(Some(count)),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
        Err(error) => Err(error),
    }
}

#[derive(Debug)]
enum Out {
    Idle,
    Connecting(TcpStream),
    Greeting(TcpStream, usize),
    Up(TcpStream),
}

/// The way to one rank of another host.
#[derive(Debug)]
pub struct Tcp {
    hub: SharedHub,
    own: Address,
    peer: Address,
    out: Out,
    into: Option<TcpStream>,
    /// Bytes of the message being sent that are on their way.
    sent: usize,
    head: [u8; HEAD],
    head_filled: usize,
    payload: usize,
    taken: usize,
    calls: u32,
}

impl Tcp {
    /// A way that is not up yet. `peer` must have a socket.
    pub fn new(hub: &SharedHub, own: Address, peer: Address) -> Self {
        let hub = Arc::clone(hub);
        let (out, into, head) = (Out::Idle, None, [0; HEAD]);
        Self { hub, own, peer, out, into, sent: 0, head, head_filled: 0, payload: 0, taken: 0, calls: 0 }
    }

    fn fault(&self, doing: &str, error: &dyn std::fmt::Display) -> Fault {
        Fault::new(format!("{doing} its host ({:?}): {error}", self.peer.socket))
    }

    /// Begins to dial.
    fn dial(&self) -> io::Result<TcpStream> {
        let (ip, port) = self.peer.socket.ok_or_else(|| io::Error::other("it listens nowhere"))?;
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let stream = TcpStream::from(socket(AddressFamily::Inet, SockType::Stream, flags, None)?);
        prepare(&stream)?;
        match connect(stream.as_raw_fd(), &SockaddrIn::from(SocketAddrV4::new(ip, port))) {
            Ok(()) | Err(Errno::EINPROGRESS) => Ok(stream),
            Err(error) => Err(error.into()),
        }
    }

    fn hub(&self) -> std::sync::MutexGuard<'_, Hub> {
        self.hub.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks now and then whether the peer has called.
    fn answer(&mut self) {
        self.calls = self.calls.wrapping_add(1);
        if self.into.is_none() && self.calls.is_multiple_of(8) {
            let rank = self.peer.rank;
            let mut hub = self.hub();
            hub.pump();
            let called = hub.greeted.remove(&rank);
            drop(hub);
            self.into = called;
        }
    }

    fn greet(&mut self, mut stream: TcpStream, mut sent: usize) -> Result<bool, Fault> {
        let mut greeting = [0; GREETING];
        for (to, from) in greeting.iter_mut().zip(self.own.encode().iter().chain(&self.peer.token)) {
            *to = *from;
        }
        while sent < GREETING {
            match stream.write(greeting.get(sent..).unwrap_or_default()) {
                Ok(count) => sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.out = Out::Greeting(stream, sent);
                    return Ok(false);
                }
                Err(error) => return Err(self.fault("greet", &error)),
            }
        }
        self.out = Out::Up(stream);
        Ok(true)
    }
}

impl Transport for Tcp {
    fn connect(&mut self) -> Result<bool, Fault> {
        self.answer();
        match std::mem::replace(&mut self.out, Out::Idle) {
            Out::Idle => {
                self.out = Out::Connecting(self.dial().map_err(|error| self.fault("call", &error))?);
                Ok(false)
            }
            Out::Connecting(stream) => {
                if let Ok(Some(error)) | Err(error) = stream.take_error() {
                    return Err(self.fault("call", &error));
                }
                if stream.peer_addr().is_ok() {
                    return self.greet(stream, 0);
                }
                self.out = Out::Connecting(stream);
                Ok(false)
            }
            Out::Greeting(stream, sent) => self.greet(stream, sent),
            Out::Up(stream) => {
                self.out = Out::Up(stream);
                Ok(true)
            }
        }
    }

    fn obstacle(&self) -> String {
        format!("its host does not answer at {:?}", self.peer.socket)
    }

    fn send(&mut self, header: &[u8; HEADER], payload: &[u8]) -> Result<bool, Fault> {
        let length = (payload.len() as u64).to_le_bytes();
        let total = HEAD + payload.len();
        while self.sent < total {
            let mut parts = [IoSlice::new(&length), IoSlice::new(header), IoSlice::new(payload)];
            let mut parts = &mut parts[..];
            IoSlice::advance_slices(&mut parts, self.sent);
            let Out::Up(stream) = &mut self.out else { return Err(Fault::new("not connected")) };
            match stream.write_vectored(parts) {
                Ok(count) => self.sent += count,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                    return Ok(false);
                }
                Err(error) => return Err(self.fault("send to", &error)),
            }
        }
        self.sent = 0;
        Ok(true)
    }

    fn next(&mut self) -> Result<Option<([u8; HEADER], usize)>, Fault> {
        self.answer();
        let Some(stream) = &mut self.into else { return Ok(None) };
        while self.head_filled < HEAD {
            let rest = self.head.get_mut(self.head_filled..).unwrap_or_default();
            match read_some(stream, &mut [IoSliceMut::new(rest)]) {
                Ok(None) => return Ok(None),
                Ok(Some(0)) => {
                    let words = "it closed the connection".to_owned();
                    return Err(Fault { words, orderly: self.head_filled == 0 });
                }
                Ok(Some(count)) => self.head_filled += count,
                Err(error) => return Err(self.fault("receive from", &error)),
            }
        }
        let (Some((length, rest)), 0) = (self.head.split_first_chunk::<8>(), self.taken) else {
            return Ok(None);
        };
        let length = u64::from_le_bytes(*length);
        let header = rest.first_chunk().copied().unwrap_or([0; HEADER]);
        self.payload =
            usize::try_from(length).ok().filter(|length| *length <= MOST_PIECE).ok_or_else(|| {
                Fault::new(format!("wanted at most {MOST_PIECE} bytes of payload, got {length}"))
            })?;
        Ok(Some((header, self.payload)))
    }

    fn take(&mut self, into: &mut [u8], rest: &mut [u8]) -> Result<bool, Fault> {
        while self.taken < self.payload {
            let begun = self.taken.saturating_sub(into.len());
            let here = into.get_mut(self.taken..).unwrap_or_default();
            let there = rest.get_mut(begun..).unwrap_or_default();
            let Some(stream) = &mut self.into else { return Err(Fault::new("not connected")) };
            match read_some(stream, &mut [IoSliceMut::new(here), IoSliceMut::new(there)]) {
                Ok(None) => return Ok(false),
                Ok(Some(0)) => return Err(Fault::new("it closed the connection within a message")),
                Ok(Some(count)) => self.taken += count,
                Err(error) => return Err(self.fault("receive from", &error)),
            }
        }
        (self.head_filled, self.payload, self.taken) = (0, 0, 0);
        Ok(true)
    }

    fn check(&mut self) -> Result<(), Fault> {
        // Nothing is ever said to us on the connection that we dialled: only its end can be read there.
        let Out::Up(stream) = &self.out else { return Ok(()) };
        match stream.peek(&mut [0]) {
            Ok(0) if self.into.is_none() => {
                Err(Fault { words: "it closed the connection".to_owned(), orderly: true })
            }
            Err(error) if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                Err(self.fault("hold the connection to", &error))
            }
            _ => Ok(()),
        }
    }
}
