//! TCP streams: writes of whole messages as fast as they go, timed where they arrive.
//!
//! The receiver ends the stream: when its time is over it hangs up, so that what is still in the buffers of a slow way
//! need not be waited for, and the sender's next write fails.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::pair::{Moved, PairTask};
use crate::error::WorkError;
use crate::rendezvous::timed::{broken, gone, is_pause};

/// What is read at once: as much as iperf3 reads, and little enough to stay in a second-level cache.
pub const CHUNK: usize = 128 << 10;
/// A sender that nobody stops ends by itself this long after its time.
const LATE: Duration = Duration::from_secs(5);
/// The sender looks at the clock once per so many bytes, or messages.
const LOOK_BYTES: usize = 1 << 20;
const LOOK_MESSAGES: usize = 256;

/// Sends `message` over and over until the receiver hangs up; returns how many were sent whole.
///
/// # Errors
/// The network broke, or the job is to end.
pub fn send(mut stream: &TcpStream, message: &[u8], task: &PairTask<'_>) -> Result<Moved, WorkError> {
    let between = (LOOK_BYTES / message.len().max(1)).clamp(1, LOOK_MESSAGES);
    let began = Instant::now();
    let mut sent = 0u64;
    'stream: loop {
        for _ in 0..between {
            let mut rest = message;
            while !rest.is_empty() {
                match stream.write(rest) {
                    Ok(count) => rest = rest.get(count..).unwrap_or_default(),
                    Err(error) if is_pause(error.kind()) => {
                        task.check()?;
                        if began.elapsed() > task.duration * 2 + LATE {
                            break 'stream;
                        }
                    }
                    Err(error) if is_end(error.kind()) => break 'stream,
                    Err(error) => return Err(broken(&task.what, error)),
                }
            }
            sent += 1;
        }
        task.check()?;
        if began.elapsed() > task.duration * 2 + LATE {
            break;
        }
    }
    let elapsed = began.elapsed();
    // Fails when the receiver has hung up, which is the usual end.
    let _ = stream.shutdown(Shutdown::Write);
    Ok(Moved { elapsed, sent, ..Moved::default() })
}

/// Whether an error is the receiver's hanging up.
fn is_end(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted)
}

/// Reads for the task's duration, counted from the first byte, and at least one whole message; checks the last piece read.
///
/// The buffer is filled from its beginning to its end before it is used again, as programs do that read blocks. Reading
/// whatever has come into the whole buffer each time wakes the receiver for less, and costs a quarter of the throughput on loopback.
///
/// # Errors
/// The sender is gone, something else arrived than was sent, or the job is to end.
pub fn receive(mut stream: &TcpStream, buffer: &mut [u8], task: &PairTask<'_>) -> Result<Moved, WorkError> {
    let buffer = buffer.get_mut(..CHUNK).unwrap_or_default();
    wait_for_first(stream, task)?;
    let began = Instant::now();
    let (mut bytes, mut last, mut elapsed) = (0u64, 0..0, Duration::ZERO);
    while elapsed < task.duration || bytes < task.size as u64 {
        let from = if last.end < buffer.len() { last.end } else { 0 };
        match stream.read(buffer.get_mut(from..).unwrap_or_default()) {
            // The sender does not end by itself before that, so it died, or gave up.
            Ok(0) if bytes < task.size as u64 => return Err(gone(&task.what)),
            Ok(0) => break,
            Ok(count) => {
                bytes += count as u64;
                last = from..from + count;
                if task.is_stopped() {
                    task.check()?;
                }
            }
            Err(error) if is_pause(error.kind()) => task.check()?,
            Err(error) => return Err(broken(&task.what, error)),
        }
        elapsed = began.elapsed();
    }
    let before = bytes - last.len() as u64;
    let piece = buffer.get(last).unwrap_or_default();
    task.check_content(task.theirs.matches_in_row(piece, before, task.size))?;
    Ok(Moved { elapsed, arrived: bytes / task.size.max(1) as u64, bytes, sent: 0 })
}

fn wait_for_first(stream: &TcpStream, task: &PairTask<'_>) -> Result<(), WorkError> {
    loop {
        let mut watched = [PollFd::new(stream.as_fd(), PollFlags::POLLIN)];
        let nap = PollTimeout::try_from(task.patience.nap()).unwrap_or(PollTimeout::ZERO);
        if poll(&mut watched, nap).is_ok_and(|ready| ready > 0) {
            return Ok(());
        }
        task.check()?;
    }
}
