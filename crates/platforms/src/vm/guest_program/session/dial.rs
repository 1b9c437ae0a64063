//! A connection on its way to a port of the program. Where the program's queue is full it waits, as it would natively, and
//! nothing waits for it.
//!
//! ```text
//!  next address ─► connect, not waited for ─┬─ taken ───► Reached
//!      ▲   ▲                                ├─ refused ─► next address; after the last one Refused
//!      │   └─── the same one, AGAIN ◄───────┴─ no answer: the queue is full (listen(2))
//!  127.0.0.1, the cards' addresses, ::1, and then wherever else somebody listens at this port
//! ```

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use nix::poll::PollFlags;
use rustix::io::Errno;
use rustix::net::sockopt::set_tcp_nodelay;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};

use super::look;
use crate::link::stream::is_ready;

/// How long the program may take to take a connection: as long as the kernel would ask for it (`tcp_syn_retries` of tcp(7)).
const TAKEN_WITHIN: Duration = Duration::from_secs(120);
/// How soon a full queue is asked again. The kernel itself would let twice as long pass after each time, for what may be lost
/// on the way; here nothing is, and many that wait are to get in as soon as there is room.
const AGAIN: Duration = Duration::from_millis(500);

/// Somebody is called, and has not answered yet.
pub struct Dial {
    port: u16,
    ahead: VecDeque<SocketAddr>,
    tried: Vec<IpAddr>,
    has_looked: bool,
    attempt: Option<Attempt>,
    until: Instant,
    why: String,
}

/// What became of it.
pub enum Dialled {
    /// Nothing yet.
    Waits,
    /// Somebody took it; it does not block.
    Reached(TcpStream),
    /// Nobody did, and nobody will: why.
    Refused(String),
}

struct Attempt {
    address: SocketAddr,
    stream: TcpStream,
    begun: Instant,
}

impl Dial {
    /// To a port of the program, in a guest whose cards have these addresses. Nothing is done before [`Self::turn`].
    pub fn new(port: u16, own: &[Ipv4Addr]) -> Self {
        let own = own.iter().copied().map(IpAddr::from);
        let first = std::iter::once(IpAddr::from(Ipv4Addr::LOCALHOST)).chain(own);
        let ahead = first.chain(std::iter::once(IpAddr::from(Ipv6Addr::LOCALHOST)));
        Self {
            port,
            ahead: ahead.map(|address| SocketAddr::new(address, port)).collect(),
            tried: Vec::new(),
            has_looked: false,
            attempt: None,
            until: Instant::now() + TAKEN_WITHIN,
            why: "there is no address".to_owned(),
        }
    }

    /// What to wait for.
    pub fn wanted(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        self.attempt.as_ref().map(|attempt| (attempt.stream.as_fd(), PollFlags::POLLOUT))
    }

    /// When to look again although nothing happens.
    pub fn patience(&self) -> Duration {
        let rest = self.attempt.as_ref().map(|attempt| AGAIN.saturating_sub(attempt.begun.elapsed()));
        rest.unwrap_or(AGAIN).max(Duration::from_millis(1))
    }

    /// Goes on with it without waiting.
    pub fn turn(&mut self) -> Dialled {
        loop {
            let Some(attempt) = self.attempt.take() else {
                match self.next_address() {
                    Some(address) => self.call(address),
                    None => return Dialled::Refused(format!("port {}: {}", self.port, self.why)),
                }
                continue;
            };
            match attempt.outcome() {
                Some(Ok(())) => return Dialled::Reached(attempt.stream),
                Some(Err(error)) => self.why = error.to_string(),
                None if Instant::now() >= self.until => {
                    let (port, waited) = (self.port, TAKEN_WITHIN.as_secs());
                    return Dialled::Refused(format!("port {port}: the program took nobody for {waited} s"));
                }
                None if attempt.begun.elapsed() >= AGAIN => self.call(attempt.address),
                None => {
                    self.attempt = Some(attempt);
                    return Dialled::Waits;
                }
            }
        }
    }

    /// Whoever is seen to listen is asked, too: [`look::is_so`] says yes of all of them.
    fn next_address(&mut self) -> Option<SocketAddr> {
        if self.ahead.is_empty() && !std::mem::replace(&mut self.has_looked, true) {
            let others = look::who_listens(self.port).into_iter();
            self.ahead.extend(others.filter(|address| !self.tried.contains(&address.ip())));
        }
        let address = self.ahead.pop_front()?;
        self.tried.push(address.ip());
        Some(address)
    }

    fn call(&mut self, address: SocketAddr) {
        match Attempt::begin(address) {
            Ok(attempt) => self.attempt = Some(attempt),
            Err(error) => self.why = error.to_string(),
        }
    }
}

impl Attempt {
    fn begin(address: SocketAddr) -> io::Result<Self> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(family, SocketType::STREAM, flags, None)?;
        // What is small is to arrive at once, as it would without us.
        set_tcp_nodelay(&socket, true)?;
        match connect(&socket, &address) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(Self { address, stream: TcpStream::from(socket), begun: Instant::now() })
    }

    /// None while there is no answer.
    fn outcome(&self) -> Option<io::Result<()>> {
        if !is_ready(&[(self.stream.as_fd(), PollFlags::POLLOUT)]) {
            return None;
        }
        Some(match self.stream.take_error() {
            // Where nobody listens, a socket that was given the same port by chance has reached itself (RFC 9293, 3.5).
            Ok(None) if self.stream.local_addr().is_ok_and(|own| own == self.address) => {
                Err(io::ErrorKind::ConnectionRefused.into())
            }
            Ok(None) => Ok(()),
            Ok(Some(error)) | Err(error) => Err(error),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// Nagle's algorithm (RFC 896) would keep a second small request until the first was acknowledged, up to 40 ms later.
    #[test]
    fn what_is_small_does_not_wait_for_what_was_sent_before() {
        let server = TcpListener::bind("127.0.0.1:0").expect("a port");
        let attempt = Attempt::begin(server.local_addr().expect("an address")).expect("begun");
        assert!(attempt.stream.nodelay().expect("a socket"));
    }
}
