//! Reads of a connection that say when what they read arrived, by the kernel's own time: whoever reads may have been without a CPU, and
//! an answer that was in time must not seem late for that.

use std::io::{self, IoSliceMut, Read};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant, SystemTime};

use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};
use nix::sys::time::TimeSpec;

/// A connection that is read.
pub(super) struct Arrivals<'a> {
    stream: &'a TcpStream,
    /// When the last of what was read last arrived; of what waits together the kernel keeps the last one's time.
    pub at: Instant,
}

impl<'a> Arrivals<'a> {
    pub(super) fn new(stream: &'a TcpStream) -> Self {
        // Where it is refused, things arrive when they are read.
        let _ = setsockopt(stream, sockopt::ReceiveTimestampns, &true);
        Self { stream, at: Instant::now() }
    }

    pub(super) fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        self.stream.set_read_timeout(Some(timeout))
    }
}

impl Read for Arrivals<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut parts = [IoSliceMut::new(buffer)];
        let mut more = nix::cmsg_space!(TimeSpec);
        let message = recvmsg::<()>(self.stream.as_raw_fd(), &mut parts, Some(&mut more), MsgFlags::empty())?;
        let arrived = message.cmsgs()?.find_map(|one| match one {
            ControlMessageOwned::ScmTimestampns(at) => Some(Duration::from(at)),
            _ => None,
        });
        self.at = arrived.map_or_else(Instant::now, |at| since(SystemTime::UNIX_EPOCH + at));
        Ok(message.bytes)
    }
}

/// The moment that the clock of the day told so; now, where it has been set back since.
fn since(moment: SystemTime) -> Instant {
    let now = Instant::now();
    now.checked_sub(moment.elapsed().unwrap_or_default()).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;

    use super::*;

    /// Longer than a machine is late, and what is asked is which came first, not how long it took.
    const LATE: Duration = Duration::from_millis(300);

    #[test]
    fn what_was_read_late_arrived_when_it_was_sent() {
        let server = TcpListener::bind("127.0.0.1:0").expect("a port");
        let stream = TcpStream::connect(server.local_addr().expect("an address")).expect("a connection");
        let (mut sends, _) = server.accept().expect("a connection");
        let mut arrivals = Arrivals::new(&stream);
        let mut read = || {
            let mut bytes = [0; 4];
            arrivals.read_exact(&mut bytes).expect("what was sent");
            (bytes, arrivals.at)
        };
        // The kernel may begin to take times a moment after it was asked to.
        for text in [b"one ", b"two "] {
            let before = Instant::now();
            sends.write_all(text).expect("sent");
            std::thread::sleep(LATE);
            let late = Instant::now();
            let (bytes, at) = read();
            assert_eq!(&bytes, text);
            let is_first = text == b"one ";
            assert!(is_first || (before < at && at < late), "{:?} of {LATE:?} before it was read", late - at);
        }
    }

    #[test]
    fn a_clock_that_was_set_back_makes_nothing_arrive_in_the_future() {
        let now = Instant::now();
        assert!(since(SystemTime::now() + Duration::from_secs(3600)) >= now);
        assert!(since(SystemTime::now() + Duration::from_secs(3600)) <= Instant::now());
        assert!(since(SystemTime::UNIX_EPOCH) <= Instant::now());
    }
}
