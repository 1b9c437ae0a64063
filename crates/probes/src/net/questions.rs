//! Question and answer over TCP: a message there, one of the same size back. Calls block, as those of sockperf's
//! ping-pong do; one clock read per round trip.

use std::net::{Shutdown, TcpStream};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv};

use super::pair::{Moved, PairTask};
use crate::error::WorkError;
use crate::rendezvous::timed::{broken, gone, write_all};
use units::histogram::DenseHistogram;

/// Longest time of round trips that are made before any is recorded; it is a tenth of the duration otherwise.
const LONGEST_WARM_UP: Duration = Duration::from_millis(500);

/// How long round trips are made before any is recorded.
pub fn warm_up(duration: Duration) -> Duration {
    (duration / 10).min(LONGEST_WARM_UP)
}

/// Asks for the task's duration and records every round trip after the warm-up.
///
/// # Errors
/// The other side is gone, something else came back than it should send, or the job is to end.
pub fn ask(
    stream: &TcpStream,
    message: &[u8],
    buffer: &mut [u8],
    task: &PairTask<'_>,
    round_trips: &mut DenseHistogram,
) -> Result<Moved, WorkError> {
    let warm_up = warm_up(task.duration);
    let began = Instant::now();
    while began.elapsed() < warm_up {
        round_trip(stream, message, buffer, task)?;
    }
    let mut arrived = 0u64;
    let began = Instant::now();
    let mut last = Duration::ZERO;
    while last < task.duration {
        round_trip(stream, message, buffer, task)?;
        let now = began.elapsed();
        round_trips.record(nanos(now.saturating_sub(last)));
        arrived += 1;
        last = now;
    }
    // Fails when the other side is gone already; the control connection will tell.
    let _ = stream.shutdown(Shutdown::Write);
    task.check_content(task.theirs.matches(buffer, 0))?;
    Ok(Moved { elapsed: last, sent: arrived, arrived, bytes: arrived * task.size as u64 })
}

/// A duration in whole nanoseconds.
pub fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn round_trip(
    stream: &TcpStream,
    message: &[u8],
    buffer: &mut [u8],
    task: &PairTask<'_>,
) -> Result<(), WorkError> {
    if task.is_stopped() {
        task.check()?;
    }
    write_all(stream, message, task.patience, &task.what)?;
    if read_whole(stream, buffer, task)? { Ok(()) } else { Err(gone(&task.what)) }
}

/// Answers until the other side has no more questions.
///
/// # Errors
/// The other side is gone in the middle of a question, or asked something it should not, or the job is to end.
pub fn answer(
    stream: &TcpStream,
    message: &[u8],
    buffer: &mut [u8],
    task: &PairTask<'_>,
) -> Result<Moved, WorkError> {
    let began = Instant::now();
    let mut arrived = 0u64;
    while read_whole(stream, buffer, task)? {
        write_all(stream, message, task.patience, &task.what)?;
        arrived += 1;
    }
    task.check_content(arrived == 0 || task.theirs.matches(buffer, 0))?;
    Ok(Moved { elapsed: began.elapsed(), sent: arrived, arrived, bytes: arrived * task.size as u64 })
}

/// Fills the buffer; false when the other side hung up before its first byte.
fn read_whole(stream: &TcpStream, buffer: &mut [u8], task: &PairTask<'_>) -> Result<bool, WorkError> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        // Large messages are waited for as a whole: one wake-up instead of one per segment.
        match recv(stream.as_raw_fd(), rest, MsgFlags::MSG_WAITALL) {
            Ok(0) if filled == 0 => return Ok(false),
            Ok(0) => return Err(gone(&task.what)),
            Ok(count) => filled += count,
            Err(Errno::EAGAIN | Errno::EINTR) => task.check()?,
            Err(errno) => return Err(broken(&task.what, errno.into())),
        }
    }
    Ok(true)
}
