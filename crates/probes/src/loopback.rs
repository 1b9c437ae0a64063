//! The loopback device: a fresh network namespace has one, but it is down until somebody brings it up.
//!
//! ```text
//!  a datagram to ourselves arrives ─► up
//!            │ does not
//!            └─► RTM_NEWLINK(index 1, IFF_UP) over netlink ─► kernel adds 127.0.0.1/8 ─► asked again
//! ```
//!
//! Whether it is up is tried, not read: `/sys` may show another namespace's devices. Netlink and not the older ioctl,
//! because a message is bytes and an ioctl takes a raw pointer. Source: rtnetlink(7), netlink(7); the loopback device
//! is number 1 in every namespace (`LOOPBACK_IFINDEX` in linux/net.h).

use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, setsockopt, socket, sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike};

use crate::error::WorkError;

/// Number of the loopback device.
const INDEX: i32 = 1;
/// How long a datagram to ourselves, or the kernel's answer, may take.
const PATIENCE: Duration = Duration::from_secs(1);

/// Makes sure that datagrams over the loopback device arrive.
///
/// # Errors
/// It is down and may not be brought up here; says what helps.
pub fn ensure_up() -> Result<(), WorkError> {
    let Err(before) = try_it() else { return Ok(()) };
    bring_up().map_err(|error| {
        WorkError::Unfit(format!(
            "the loopback device of this instance is down ({before}) and could not be brought up: {error}; \
             as root in the instance: ip link set lo up"
        ))
    })?;
    try_it().map_err(|after| {
        WorkError::Unfit(format!(
            "datagrams over the loopback device do not arrive even when it is up: {after}"
        ))
    })
}

/// Sends a datagram to ourselves.
fn try_it() -> io::Result<()> {
    let own = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    own.connect(own.local_addr()?)?;
    own.set_read_timeout(Some(PATIENCE))?;
    own.send(&[1])?;
    let mut byte = [0];
    own.recv(&mut byte).map(drop)
}

fn bring_up() -> io::Result<()> {
    let kernel =
        socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkRoute)?;
    setsockopt(&kernel, sockopt::ReceiveTimeout, &TimeVal::seconds(1))?;
    send(kernel.as_raw_fd(), &request(), MsgFlags::empty())?;
    let mut answer = [0; 256];
    let length = recv(kernel.as_raw_fd(), &mut answer, MsgFlags::empty())?;
    acknowledged(answer.get(..length).unwrap_or_default())
}

/// `struct nlmsghdr` and `struct ifinfomsg`, in the machine's byte order.
fn request() -> [u8; 32] {
    let up = u32::try_from(libc::IFF_UP).unwrap_or(1);
    let flags = u16::try_from(libc::NLM_F_REQUEST | libc::NLM_F_ACK).unwrap_or(5);
    let mut message = [0; 32];
    let fields: [(usize, &[u8]); 6] = [
        (0, &32_u32.to_ne_bytes()),
        (4, &libc::RTM_NEWLINK.to_ne_bytes()),
        (6, &flags.to_ne_bytes()),
        (20, &INDEX.to_ne_bytes()),
        (24, &up.to_ne_bytes()),
        // Which of the flags are meant.
        (28, &up.to_ne_bytes()),
    ];
    for (at, bytes) in fields {
        if let Some(place) = message.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }
    message
}

/// The kernel answers with `NLMSG_ERROR` and a negative error number, or zero.
fn acknowledged(answer: &[u8]) -> io::Result<()> {
    let kind = answer.get(4..6).and_then(|bytes| bytes.try_into().ok()).map(u16::from_ne_bytes);
    let code = answer.get(16..20).and_then(|bytes| bytes.try_into().ok()).map(i32::from_ne_bytes);
    match (kind.map(i32::from), code) {
        (Some(libc::NLMSG_ERROR), Some(0)) => Ok(()),
        (Some(libc::NLMSG_ERROR), Some(code)) => Err(io::Error::from_raw_os_error(code.saturating_neg())),
        _ => Err(io::Error::other("the kernel's answer to the netlink request is none")),
    }
}

#[cfg(test)]
mod tests {
    use nix::sched::{CloneFlags, unshare};
    use nix::unistd::geteuid;

    use super::*;

    #[test]
    fn it_is_brought_up_in_a_fresh_namespace() {
        if !geteuid().is_root() {
            return skips::skip(skips::Need::Root, "a network namespace of one's own needs root");
        }
        // A namespace belongs to the thread that made it.
        let outcome = std::thread::spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET).expect("a network namespace");
            assert!(try_it().is_err(), "a fresh one is down");
            ensure_up().map_err(|error| error.to_string())?;
            try_it().map_err(|error| error.to_string())
        });
        assert_eq!(outcome.join().expect("no panic"), Ok(()));
    }

    #[test]
    fn refusals_of_the_kernel_are_read() {
        let answer = |kind: u16, code: i32| {
            let mut bytes = [0; 36];
            bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
            bytes[16..20].copy_from_slice(&code.to_ne_bytes());
            bytes
        };
        assert!(acknowledged(&answer(2, 0)).is_ok());
        let refused = acknowledged(&answer(2, -libc::EPERM)).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(acknowledged(&answer(2, i32::MIN)).unwrap_err().raw_os_error(), Some(i32::MAX));
        assert!(acknowledged(&answer(3, 0)).is_err());
        assert!(acknowledged(&[]).is_err());
    }
}
