//! A link as a stream of bytes: `Read` and `Write`.

use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

use crate::endpoint::{Endpoint, left};
use crate::error::{Error, Gone};

/// Most bytes of one write that become one message.
const CHUNK: usize = 64 * 1024;

/// Bytes in order over a link. The stream ends when the peer drops its side; every call has a deadline.
///
/// What both sides write are plain messages, so both sides must use streams.
#[derive(Debug)]
pub struct Stream {
    endpoint: Endpoint,
    timeout: Duration,
    /// A message that was longer than the reader's buffer, from `read` on.
    rest: Vec<u8>,
    read: usize,
}

impl Stream {
    /// Every read and write waits for at most `timeout`, then fails with [`io::ErrorKind::TimedOut`].
    pub fn new(endpoint: Endpoint, timeout: Duration) -> Self {
        Self { endpoint, timeout, rest: Vec::new(), read: 0 }
    }

    /// Waits until the peer has read everything; to be called before dropping a stream whose section ends, too.
    pub fn finish(&mut self) -> Result<(), Error> {
        self.endpoint.sender().flush(self.timeout)
    }

    /// The link itself; nothing may be left to be read in part.
    pub fn into_inner(self) -> Endpoint {
        self.endpoint
    }

    fn take_rest(&mut self, buffer: &mut [u8]) -> usize {
        let rest = self.rest.get(self.read..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        for (to, from) in buffer.iter_mut().zip(rest) {
            *to = *from;
        }
        self.read += count;
        count
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let started = Instant::now();
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            let count = self.take_rest(buffer);
            if count > 0 {
                return Ok(count);
            }
            let remaining = left(started, self.timeout);
            match self.endpoint.receive(buffer, remaining) {
                // An empty message is not the end of the stream.
                Ok(0) if !remaining.is_zero() => {}
                Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
                Ok(count) => return Ok(count),
                Err(Error::BufferTooSmall { needed, .. }) => {
                    self.rest.resize(needed, 0);
                    self.read = needed;
                    let count = self.endpoint.receive(&mut self.rest, remaining)?;
                    self.rest.truncate(count);
                    self.read = 0;
                }
                Err(Error::PeerGone { how: Gone::Closed, .. }) => return Ok(0),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let chunk = bytes.get(..CHUNK).unwrap_or(bytes);
        if !chunk.is_empty() {
            self.endpoint.send(chunk, self.timeout)?;
        }
        Ok(chunk.len())
    }

    /// Everything written is visible to the peer already.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
