//! Reading and writing whole pieces on a connection, without waiting longer than patience allows.
//!
//! Sockets stay blocking; their timeouts make every call return now and then, so that a stop is seen.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use super::patience::{LOOK, Patience};
use crate::error::WorkError;

/// Makes a connection as everything here wants it: blocking, with short timeouts.
///
/// # Errors
/// The system refused.
pub fn prepare(stream: &TcpStream) -> Result<(), WorkError> {
    stream
        .set_nonblocking(false)
        .and_then(|()| stream.set_read_timeout(Some(LOOK)))
        .and_then(|()| stream.set_write_timeout(Some(LOOK)))
        .map_err(|error| WorkError::system("set the timeouts of a connection", error))
}

/// Whether a call may simply be made again.
pub fn is_pause(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// Fills `buffer`. `what` names what is read, for an error.
///
/// # Errors
/// The other side hung up, the system refused, or patience ran out.
pub fn read_all(
    mut stream: &TcpStream,
    buffer: &mut [u8],
    patience: &Patience<'_>,
    what: &str,
) -> Result<(), WorkError> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match stream.read(rest) {
            Ok(0) => return Err(gone(what)),
            Ok(count) => filled += count,
            Err(error) if is_pause(error.kind()) => patience.check(|| what.to_owned())?,
            Err(error) => return Err(broken(what, error)),
        }
    }
    Ok(())
}

/// Sends all of `bytes`.
///
/// # Errors
/// The other side hung up, the system refused, or patience ran out.
pub fn write_all(
    mut stream: &TcpStream,
    bytes: &[u8],
    patience: &Patience<'_>,
    what: &str,
) -> Result<(), WorkError> {
    let mut sent = 0;
    while let Some(rest) = bytes.get(sent..).filter(|rest| !rest.is_empty()) {
        match stream.write(rest) {
            Ok(count) => sent += count,
            Err(error) if is_pause(error.kind()) => patience.check(|| what.to_owned())?,
            Err(error) => return Err(broken(what, error)),
        }
    }
    Ok(())
}

/// The other side hung up.
pub fn gone(what: &str) -> WorkError {
    WorkError::Unfit(format!(
        "the connection was closed while waiting for {what}; the other instance ended or gave up, its own report says why"
    ))
}

/// The connection broke.
pub fn broken(what: &str, error: std::io::Error) -> WorkError {
    WorkError::system(format!("go on with {what} (the other instance ended, or the network broke)"), error)
}
