//! The host's end of a link: sends and receives with a deadline, and looks whether the user interrupted.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::poll::PollFlags;

use super::check::check_message;
use super::frame::{Decoder, LinkError, TO_AGENT_LIMIT, TO_HOST_LIMIT, decode, encode};
use super::stream::{Heard, Sink, Source, wait};
use crate::Cancel;
use model::wire::{ToAgent, ToHost};

/// Longest time nobody looks at the cancel token.
const SLICE: Duration = Duration::from_millis(100);

/// The host's end of a link to one agent. The agent is not trusted: whatever it sends is bounded and checked.
#[derive(Debug)]
pub struct HostEnd {
    source: Result<Source, LinkError>,
    sink: Result<Sink, LinkError>,
    decoder: Decoder,
}

impl HostEnd {
    /// Talks over `read` and `write`, which may be two descriptors of one socket. Both become non-blocking.
    pub fn new(read: OwnedFd, write: OwnedFd) -> Self {
        Self { source: Source::new(read), sink: Sink::new(write), decoder: Decoder::new(TO_HOST_LIMIT) }
    }

    /// Sends one message. When it fails half-way the link is of no use any more.
    ///
    /// # Errors
    /// When the deadline passes, the user interrupts, or the agent is gone.
    pub fn send(&mut self, message: &ToAgent, deadline: Instant, cancel: &Cancel) -> Result<(), LinkError> {
        let sink = self.sink.as_mut().map_err(|error| error.clone())?;
        sink.queue(&encode(message, TO_AGENT_LIMIT)?);
        loop {
            sink.write()?;
            if sink.is_drained() {
                return Ok(());
            }
            let slice = slice_before(deadline, cancel)?;
            wait(&[(sink.as_fd(), PollFlags::POLLOUT)], Some(slice))?;
        }
    }

    /// Waits for one message and checks it.
    ///
    /// # Errors
    /// When the deadline passes, the user interrupts, the agent is gone, or what it sends is not believed.
    pub fn receive(&mut self, deadline: Instant, cancel: &Cancel) -> Result<ToHost, LinkError> {
        loop {
            if cancel.is_cancelled() {
                return Err(LinkError::Cancelled);
            }
            if let Some(frame) = self.decoder.next_frame()? {
                let message: ToHost = decode(&frame)?;
                check_message(&message).map_err(|got| LinkError::Garbage {
                    wanted: "a message within its bounds".to_owned(),
                    got: got.into(),
                })?;
                return Ok(message);
            }
            let source = self.source.as_mut().map_err(|error| error.clone())?;
            match source.read()? {
                Heard::Bytes(count) => {
                    self.decoder.push(source.bytes(count));
                    // A frame that trickles in for ever never leaves room for the wait below.
                    if Instant::now() >= deadline && !self.decoder.is_whole() {
                        return Err(LinkError::Deadline);
                    }
                }
                Heard::End => return Err(LinkError::Closed),
                Heard::Nothing => {
                    let slice = slice_before(deadline, cancel)?;
                    wait(&[(source.as_fd(), PollFlags::POLLIN)], Some(slice))?;
                }
            }
        }
    }
}

/// How long to wait before looking around again.
fn slice_before(deadline: Instant, cancel: &Cancel) -> Result<Duration, LinkError> {
    if cancel.is_cancelled() {
        return Err(LinkError::Cancelled);
    }
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(LinkError::Deadline) } else { Ok(left.min(SLICE)) }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_millis(150)
    }

    fn end_and_peer() -> (HostEnd, std::os::unix::net::UnixStream) {
        let (ours, peer) = std::os::unix::net::UnixStream::pair().expect("a socket pair");
        let write = ours.try_clone().expect("a second descriptor");
        (HostEnd::new(ours.into(), write.into()), peer)
    }

    #[test]
    fn silence_ends_at_the_deadline_and_a_gone_peer_at_once() {
        let (mut end, peer) = end_and_peer();
        assert_eq!(end.receive(soon(), &Cancel::new()), Err(LinkError::Deadline));
        drop(peer);
        let never = Instant::now() + Duration::from_secs(3600);
        assert_eq!(end.receive(never, &Cancel::new()), Err(LinkError::Closed));
        assert_eq!(end.send(&ToAgent::Bye, never, &Cancel::new()), Err(LinkError::Closed));
    }

    #[test]
    fn a_peer_that_does_not_read_is_a_deadline() {
        let (mut end, _peer) = end_and_peer();
        let deadline = soon();
        let outcome =
            std::iter::repeat_with(|| end.send(&ToAgent::Bye, deadline, &Cancel::new())).find(Result::is_err);
        assert_eq!(outcome, Some(Err(LinkError::Deadline)));
    }

    #[test]
    fn cancelling_ends_the_wait() {
        let (mut end, _peer) = end_and_peer();
        let cancel = Cancel::new();
        let canceller = cancel.clone();
        let never = Instant::now() + Duration::from_secs(3600);
        let outcome = std::thread::scope(|scope| {
            scope.spawn(move || canceller.cancel());
            end.receive(never, &cancel)
        });
        assert_eq!(outcome, Err(LinkError::Cancelled));
    }

    #[test]
    fn messages_that_arrive_together_are_all_received() {
        let (mut end, mut peer) = end_and_peer();
        let sent: Vec<ToHost> = (0..50).map(|id| ToHost::Heartbeat { id }).collect();
        let bytes: Vec<u8> = sent.iter().flat_map(|m| encode(m, TO_HOST_LIMIT).expect("small")).collect();
        peer.write_all(&bytes).expect("room in the socket");
        drop(peer);
        let cancel = Cancel::new();
        let got: Vec<ToHost> = (0..50).map(|_| end.receive(soon(), &cancel).expect("a message")).collect();
        assert_eq!(got, sent);
        assert_eq!(end.receive(soon(), &cancel), Err(LinkError::Closed));
    }
}
