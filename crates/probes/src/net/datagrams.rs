//! UDP: streams whose losses are counted, and questions whose answers may not come.
//!
//! ```text
//!  stream    datagrams … │ empty datagram, again every 5 ms until the receiver says enough
//!  question  number in the first 8 bytes ─► the same number back; nothing within 100 ms: lost, next number
//! ```
//!
//! An empty datagram marks the end, since messages have at least one byte. What arrives after a stream's first mark and
//! a short while of grace counts as lost.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use super::link::Link;
use super::pair::{Moved, PairTask};
use super::questions::{nanos, warm_up};
use crate::error::WorkError;
use crate::rendezvous::patience::LOOK;
use crate::rendezvous::timed::{broken, is_pause};
use units::histogram::DenseHistogram;

/// A question without an answer after this time is lost.
pub const LOST_AFTER: Duration = Duration::from_millis(100);
/// Bytes of a message that hold its number.
const NUMBER_BYTES: usize = 8;
/// How long a receiver waits beyond the duration for a stream that does not come, or does not end.
const LATE: Duration = Duration::from_secs(2);
/// How long datagrams that were overtaken by the mark are still taken.
const OVERTAKEN: Duration = Duration::from_millis(5);
/// Time between two marks.
const MARK_EVERY: Duration = Duration::from_millis(5);
/// Most datagrams that are thrown away before a phase.
const MOST_STALE: u32 = 1_000_000;

/// A socket between exactly these two addresses; nobody else's datagrams get in.
///
/// # Errors
/// The address is not this instance's, or taken.
pub fn open(own: SocketAddr, other: SocketAddr) -> Result<UdpSocket, WorkError> {
    let refused =
        |error| WorkError::system(format!("open a UDP socket at this instance's own address {own}"), error);
    let socket = UdpSocket::bind(own).map_err(refused)?;
    socket.connect(other).map_err(refused)?;
    set_timeout(&socket, LOOK)?;
    socket.set_write_timeout(Some(LOOK)).map_err(refused)?;
    Ok(socket)
}

/// How long a receive blocks.
fn set_timeout(socket: &UdpSocket, timeout: Duration) -> Result<(), WorkError> {
    socket
        .set_read_timeout(Some(timeout))
        .map_err(|error| WorkError::system("set the timeout of a UDP socket", error))
}

/// Throws away what an earlier phase, or a stranger before the socket was connected, has left.
///
/// # Errors
/// The system refused.
pub fn drain(socket: &UdpSocket, buffer: &mut [u8]) -> Result<(), WorkError> {
    let refused = |error| WorkError::system("empty a UDP socket", error);
    socket.set_nonblocking(true).map_err(refused)?;
    for _ in 0..MOST_STALE {
        match socket.recv(buffer) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            // A datagram, or the late news that an earlier one found nobody: both are of the past.
            Ok(_) | Err(_) => {}
        }
    }
    socket.set_nonblocking(false).map_err(refused)
}

/// Sends `message` over and over for the task's duration.
///
/// # Errors
/// The network broke, or the job is to end.
pub fn send(socket: &UdpSocket, message: &[u8], task: &PairTask<'_>) -> Result<Moved, WorkError> {
    let began = Instant::now();
    let (mut sent, mut elapsed) = (0u64, Duration::ZERO);
    while elapsed < task.duration {
        if put(socket, message, task)? {
            sent += 1;
        }
        elapsed = began.elapsed();
        if task.is_stopped() {
            task.check()?;
        }
    }
    Ok(Moved { elapsed, sent, ..Moved::default() })
}

/// Says that the stream has ended until the receiver has understood.
///
/// # Errors
/// The network broke, patience ran out, or the job is to end.
pub fn mark_end(socket: &UdpSocket, link: &Link<'_>, task: &PairTask<'_>) -> Result<(), WorkError> {
    while !link.has_news_within(MARK_EVERY) {
        task.check()?;
        put(socket, &[], task)?;
    }
    Ok(())
}

/// Hands one datagram to the system; false when it had no room for it.
fn put(socket: &UdpSocket, message: &[u8], task: &PairTask<'_>) -> Result<bool, WorkError> {
    match socket.send(message) {
        Ok(_) => Ok(true),
        Err(error) if is_pause(error.kind()) => task.check().map(|()| false),
        // The queue of the device is full: ENOBUFS.
        Err(error) if error.raw_os_error() == Some(nix::errno::Errno::ENOBUFS as i32) => Ok(false),
        Err(error) => Err(broken(&task.what, error)),
    }
}

/// Counts what arrives until the end is marked, and checks the last datagram.
///
/// # Errors
/// The network broke, something else arrived than was sent, or the job is to end.
pub fn receive(socket: &UdpSocket, buffer: &mut [u8], task: &PairTask<'_>) -> Result<Moved, WorkError> {
    let opened = Instant::now();
    let (mut first, mut last, mut end) = (None, Duration::ZERO, None::<Duration>);
    let (mut arrived, mut whole) = (0u64, true);
    loop {
        let got = socket.recv(buffer);
        let now = opened.elapsed();
        match got {
            // A mark before any datagram is one of an earlier phase.
            Ok(0) if end.is_none() && first.is_some() => {
                end = Some(now + OVERTAKEN);
                set_timeout(socket, Duration::from_millis(1))?;
            }
            Ok(0) => {}
            Ok(length) if length == task.size => {
                arrived += 1;
                first.get_or_insert(now);
                last = now;
            }
            Ok(_) => whole = false,
            Err(error) if is_pause(error.kind()) => task.check()?,
            Err(error) => return Err(broken(&task.what, error)),
        }
        let limit = first.unwrap_or(Duration::ZERO) + task.duration * 2 + LATE;
        if now > end.unwrap_or(limit) {
            break;
        }
        if task.is_stopped() {
            task.check()?;
        }
    }
    set_timeout(socket, LOOK)?;
    let content = buffer.get(..task.size).unwrap_or_default();
    task.check_content(whole && (arrived == 0 || task.theirs.matches(content, 0)))?;
    // Nothing arrived: then it took all the time that was waited.
    let elapsed = first.map_or(opened.elapsed(), |first| last.saturating_sub(first));
    Ok(Moved { elapsed, sent: 0, arrived, bytes: arrived * task.size as u64 })
}

/// Asks for the task's duration and records every round trip after the warm-up.
///
/// # Errors
/// The other side is gone, something else came back than it should send, or the job is to end.
pub fn ask(
    socket: &UdpSocket,
    message: &mut [u8],
    buffer: &mut [u8],
    task: &PairTask<'_>,
    round_trips: &mut DenseHistogram,
) -> Result<Moved, WorkError> {
    set_timeout(socket, LOST_AFTER)?;
    let mut number = 0u64;
    let warm_up = warm_up(task.duration);
    let began = Instant::now();
    while began.elapsed() < warm_up {
        number += 1;
        round_trip(socket, message, buffer, number, task)?;
    }
    let (mut sent, mut arrived) = (0u64, 0u64);
    let began = Instant::now();
    let mut last = Duration::ZERO;
    while last < task.duration {
        number += 1;
        sent += 1;
        let answered = round_trip(socket, message, buffer, number, task)?;
        let now = began.elapsed();
        if answered {
            round_trips.record(nanos(now.saturating_sub(last)));
            arrived += 1;
        }
        last = now;
    }
    // One mark is enough: the other side also looks at the control connection.
    put(socket, &[], task)?;
    set_timeout(socket, LOOK)?;
    task.check_content(arrived == 0 || behind_number(buffer, task))?;
    Ok(Moved { elapsed: last, sent, arrived, bytes: arrived * task.size as u64 })
}

/// Whether everything but the number is as it was sent.
fn behind_number(buffer: &[u8], task: &PairTask<'_>) -> bool {
    let content = buffer.get(NUMBER_BYTES.min(task.size)..task.size).unwrap_or_default();
    task.theirs.matches(content, NUMBER_BYTES)
}

/// One question with its answer; false when it is lost.
fn round_trip(
    socket: &UdpSocket,
    message: &mut [u8],
    buffer: &mut [u8],
    number: u64,
    task: &PairTask<'_>,
) -> Result<bool, WorkError> {
    let stamp = number.to_le_bytes();
    message.iter_mut().zip(stamp).for_each(|(slot, byte)| *slot = byte);
    if task.is_stopped() {
        task.check()?;
    }
    put(socket, message, task)?;
    let mut late = None;
    loop {
        match socket.recv(buffer) {
            Ok(length) if length == task.size && starts_with(buffer, stamp, length) => return Ok(true),
            // The answer to a question that was given up; there is a limit to how many of them are read.
            Ok(_) => {
                let until = late.get_or_insert_with(|| Instant::now() + LOST_AFTER);
                if Instant::now() > *until {
                    return Ok(false);
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if is_pause(error.kind()) => {
                task.check()?;
                return Ok(false);
            }
            Err(error) => return Err(broken(&task.what, error)),
        }
    }
}

fn starts_with(buffer: &[u8], stamp: [u8; NUMBER_BYTES], length: usize) -> bool {
    buffer.iter().zip(stamp).take(length).all(|(a, b)| *a == b)
}

/// Answers until the end is marked, or the other side says so on the control connection.
///
/// # Errors
/// The network broke, something else arrived than was sent, or the job is to end.
pub fn answer(
    socket: &UdpSocket,
    message: &mut [u8],
    buffer: &mut [u8],
    link: &Link<'_>,
    task: &PairTask<'_>,
) -> Result<Moved, WorkError> {
    let began = Instant::now();
    let (mut arrived, mut whole) = (0u64, true);
    loop {
        match socket.recv(buffer) {
            // Without news it is a mark of an earlier phase.
            Ok(0) if link.has_news_within(LOOK) => break,
            Ok(0) => {}
            Ok(length) if length == task.size => {
                message.iter_mut().zip(buffer.iter()).take(NUMBER_BYTES).for_each(|(to, from)| *to = *from);
                put(socket, message, task)?;
                arrived += 1;
            }
            Ok(_) => whole = false,
            Err(error) if is_pause(error.kind()) => {
                task.check()?;
                if link.has_news_within(Duration::ZERO) {
                    break;
                }
            }
            Err(error) => return Err(broken(&task.what, error)),
        }
        if task.is_stopped() {
            task.check()?;
        }
    }
    task.check_content(whole && (arrived == 0 || behind_number(buffer, task)))?;
    Ok(Moved { elapsed: began.elapsed(), sent: arrived, arrived, bytes: arrived * task.size as u64 })
}
