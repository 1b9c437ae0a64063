//! Reads of a connection that end at a moment, whatever comes: a server that drips bytes is not waited for byte by byte, and one that never
//! stops is not heard to its end.

use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::arrival::Arrivals;

/// How long is slept at most before it is seen whether all is over.
const SLICE: Duration = Duration::from_millis(100);

/// A connection that is read until then, or until all is over.
pub(super) struct Until<'a> {
    arrivals: Arrivals<'a>,
    deadline: Instant,
    is_over: &'a AtomicBool,
}

impl<'a> Until<'a> {
    pub(super) fn new(stream: &'a TcpStream, deadline: Instant, is_over: &'a AtomicBool) -> Self {
        Self { arrivals: Arrivals::new(stream), deadline, is_over }
    }

    /// When what was read last arrived.
    pub(super) fn arrived_at(&self) -> Instant {
        self.arrivals.at
    }
}

impl Read for Until<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        loop {
            let left = self.deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || self.is_over.load(Ordering::SeqCst) {
                return Err(ErrorKind::TimedOut.into());
            }
            self.arrivals.set_timeout(left.min(SLICE))?;
            match self.arrivals.read(buffer) {
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                outcome => return outcome,
            }
        }
    }
}

/// A connection that is read until its end, or until a moment after all is over.
pub(super) struct UntilOver<'a> {
    arrivals: Arrivals<'a>,
    is_over: &'a AtomicBool,
    moment: Duration,
    over: Option<Instant>,
}

impl<'a> UntilOver<'a> {
    pub(super) fn new(stream: &'a TcpStream, is_over: &'a AtomicBool, moment: Duration) -> Self {
        Self { arrivals: Arrivals::new(stream), is_over, moment, over: None }
    }

    /// When what was read last arrived.
    pub(super) fn arrived_at(&self) -> Instant {
        self.arrivals.at
    }
}

impl Read for UntilOver<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.is_over.load(Ordering::SeqCst) {
            let since = *self.over.get_or_insert_with(Instant::now);
            if since.elapsed() >= self.moment {
                return Ok(0);
            }
        }
        self.arrivals.read(buffer)
    }
}
