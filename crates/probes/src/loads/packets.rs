//! Sending and receiving without waiting, for loads that live of packets.

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, poll};

/// How long a round waits for a packet to come, or for room to send one, so that silence costs no CPU: 5 ms.
const WAIT_MS: u8 = 5;

/// What became of a packet that was to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// On its way.
    Gone,
    /// The socket's buffer is full.
    Full,
    /// Not sent, because an answer to an earlier one has come: nobody listens there.
    Refused,
}

/// Sends without waiting.
///
/// # Errors
/// As the system says; a full buffer and a refusal are none.
pub fn send(socket: &UdpSocket, packet: &[u8]) -> io::Result<Sent> {
    loop {
        match socket.send(packet) {
            Ok(_) => return Ok(Sent::Gone),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return Ok(Sent::Refused),
            Err(error)
                if error.kind() == io::ErrorKind::WouldBlock
                    || error.raw_os_error() == Some(libc::ENOBUFS) =>
            {
                return Ok(Sent::Full);
            }
            Err(error) => return Err(error),
        }
    }
}

/// Receives without waiting; none when nothing is there.
///
/// # Errors
/// As the system says.
pub fn receive(socket: &UdpSocket, packet: &mut [u8]) -> io::Result<Option<usize>> {
    loop {
        match socket.recv(packet) {
            Ok(length) => return Ok(Some(length)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        }
    }
}

/// Waits a little for something to be received.
///
/// # Errors
/// As the system says.
pub fn wait(socket: &UdpSocket) -> io::Result<()> {
    wait_for(socket, PollFlags::POLLIN)
}

/// Waits a little for room to send.
///
/// # Errors
/// As the system says.
pub fn wait_for_room(socket: &UdpSocket) -> io::Result<()> {
    wait_for(socket, PollFlags::POLLOUT)
}

fn wait_for(socket: &UdpSocket, what: PollFlags) -> io::Result<()> {
    let mut wanted = [PollFd::new(socket.as_fd(), what)];
    match poll(&mut wanted, WAIT_MS) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}
