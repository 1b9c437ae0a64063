//! Reads of a connection that end at a moment, whatever comes: a server that drips bytes is not waited for byte by byte.

use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long is slept at most before it is seen whether all is over.
const SLICE: Duration = Duration::from_millis(100);

/// A connection that is read until then, or until all is over.
pub(super) struct Until<'a> {
    pub stream: &'a TcpStream,
    pub deadline: Instant,
    pub is_over: &'a AtomicBool,
}

impl Read for Until<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        loop {
            let left = self.deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || self.is_over.load(Ordering::SeqCst) {
                return Err(ErrorKind::TimedOut.into());
            }
            self.stream.set_read_timeout(Some(left.min(SLICE)))?;
            match self.stream.read(buffer) {
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                outcome => return outcome,
            }
        }
    }
}
