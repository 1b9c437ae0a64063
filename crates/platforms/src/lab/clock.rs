//! The host's clock, asked by datagrams: one thread per host of a lab, on the address of its bridge, so inside a
//! namespace of our own. It answers whole questions, each with one datagram of the same length, and nothing else.
//!
//! ```text
//!  poll ──► datagram: CLOCK_MONOTONIC, decode, CLOCK_MONOTONIC, answer ──► poll
//!    └────► the other end of the pipe is closed: end
//! ```

use std::io::{self, PipeWriter};
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::thread::JoinHandle;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::time::{ClockId, clock_gettime};

use units::Nanos;
use units::clock_wire::{ClockAnswer, ClockQuestion, LENGTH};

/// A running clock. Dropping it ends it.
#[derive(Debug)]
pub struct Clock {
    /// Closing it wakes the thread, which then ends.
    alive: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

impl Clock {
    /// Answers questions that arrive on `socket`.
    ///
    /// # Errors
    /// When the socket does not obey or no thread can be started.
    pub fn start(socket: UdpSocket) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let (end, alive) = io::pipe()?;
        let thread = std::thread::Builder::new().name("clock".to_owned()).spawn(move || {
            while is_asked(&socket, &end) {
                answer(&socket);
            }
        })?;
        Ok(Self { alive: Some(alive), thread: Some(thread) })
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        drop(self.alive.take());
        if let Some(thread) = self.thread.take() {
            // A clock that panicked has ended as well.
            let _ = thread.join();
        }
    }
}

/// Waits until a datagram is there (true) or the clock is to end (false).
fn is_asked(socket: &UdpSocket, end: &impl AsFd) -> bool {
    loop {
        let mut wanted =
            [PollFd::new(socket.as_fd(), PollFlags::POLLIN), PollFd::new(end.as_fd(), PollFlags::POLLIN)];
        match poll(&mut wanted, PollTimeout::NONE) {
            Ok(_) => {}
            Err(Errno::EINTR) => continue,
            Err(_) => return false,
        }
        let [socket, end] = wanted;
        if end.any().unwrap_or(true) {
            return false;
        }
        if socket.any().unwrap_or(true) {
            return true;
        }
    }
}

/// Answers one datagram if it is a question. Errors concern one asker, who then goes without an answer.
fn answer(socket: &UdpSocket) {
    // One byte more than a question has: longer datagrams show.
    let mut bytes = [0; LENGTH + 1];
    let Ok((length, asker)) = socket.recv_from(&mut bytes) else { return };
    let received = monotonic();
    let question = bytes.get(..length).and_then(ClockQuestion::decode);
    if let (Some(question), Some(received), Some(sent)) = (question, received, monotonic()) {
        let _ = socket.send_to(&ClockAnswer::to(&question, received, sent).encode(), asker);
    }
}

/// The host's `CLOCK_MONOTONIC`.
fn monotonic() -> Option<Nanos> {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).ok()?;
    Some(Nanos::from_duration(now.into()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn asker(clock: &UdpSocket) -> UdpSocket {
        let asker = UdpSocket::bind("127.0.0.1:0").unwrap();
        asker.connect(clock.local_addr().unwrap()).unwrap();
        asker.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        asker
    }

    #[test]
    fn questions_are_answered_with_the_time_and_garbage_is_not() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let asker = asker(&socket);
        let clock = Clock::start(socket).unwrap();
        let question = ClockQuestion { nonce: 7, number: 1 };
        let garbage = [&question.encode()[..], b"x"].concat();
        for bytes in [&b""[..], b"BHCK", &garbage, &[0; 2000]] {
            asker.send(bytes).unwrap();
        }
        let before = monotonic().unwrap();
        asker.send(&question.encode()).unwrap();
        let mut bytes = [0; 100];
        let length = asker.recv(&mut bytes).unwrap();
        let after = monotonic().unwrap();
        // The first answer is that to the question: what came before got none.
        let answer = ClockAnswer::decode(&bytes[..length]).unwrap();
        assert!(question.is_answered_by(&answer));
        assert!(
            before <= answer.received_ns && answer.received_ns <= answer.sent_ns && answer.sent_ns <= after
        );
        drop(clock);
        asker.set_nonblocking(true).unwrap();
        assert!(asker.recv(&mut bytes).is_err(), "one question, one answer");
    }

    #[test]
    fn it_ends_when_dropped() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let asker = asker(&socket);
        drop(Clock::start(socket).unwrap());
        // The socket went with its thread, so the kernel refuses for it.
        asker.send(&ClockQuestion { nonce: 1, number: 1 }.encode()).ok();
        let refused = asker.recv(&mut [0; 100]).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    }
}
