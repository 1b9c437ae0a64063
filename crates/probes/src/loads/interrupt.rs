//! The interrupt load, like `ping -f -l`: packets that only kernels answer, many in flight, so that the work is done in
//! interrupts and soft interrupts and hardly any in programs. Source: Lourot's thesis (`ping -f -l 10000`).
//!
//! ```text
//!  ping socket ─► ICMP echo request ─► kernel ─► echo reply         where the system's ping_group_range allows it
//!  raw socket  ─► the same                                         where CAP_NET_RAW is there
//!  UDP socket  ─► datagram to a closed port ─► kernel ─► ICMP port unreachable ─► ECONNREFUSED at the socket
//! ```
//!
//! The packets go to the host, so that the answers come in through the instance's network card and interrupt it; where
//! there is no way out they go to the instance itself, over its loopback device, and there are soft interrupts only.
//!
//! The first way that is answered is taken. What counts is answers. Echo replies are exempt from the kernel's limits on
//! ICMP messages (`icmp_msgs_per_sec`, `icmp_ratelimit`), and the loopback device is exempt for all of them; refusals that
//! come from elsewhere are few. A raw socket hears all echoes to its address, so each thread knows its own by an identifier.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use nix::sys::socket::{
    AddressFamily, SockFlag, SockProtocol, SockType, SockaddrIn, bind, socket as open_socket,
};
use nix::unistd::gettid;

use super::outlet::Outlet;
use super::packets::{Sent, receive, send, wait};
use super::stressors::{Done, Stressor};
use crate::error::WorkError;
use crate::loopback;

/// Packets sent before answers are fetched.
const BURST: u32 = 64;
/// UDP sockets that are used in turn: each can tell of one answer at a time.
const SOCKETS: usize = 32;
/// ICMP header and 56 bytes, as ping sends.
const MESSAGE: usize = 64;
/// Longest packet that is read: an answer with its IP header and options.
const ANSWER: usize = 256;
/// How long the first answer may take before the next way is tried.
const PATIENCE: Duration = Duration::from_millis(500);
/// Types of ICMP messages.
const ECHO_REQUEST: u8 = 8;
const ECHO_REPLY: u8 = 0;

/// A flood of packets that kernels answer, one thread.
pub struct Pinging {
    way: Way,
    goes: String,
}

/// Both ends of the way of packets.
#[derive(Debug, Clone, Copy)]
struct Ends {
    own: Ipv4Addr,
    other: Ipv4Addr,
    /// A port at the other end at which nobody listens; at the instance itself one is sought.
    closed: Option<u16>,
}

/// How answers are had.
enum Way {
    PingSocket(UdpSocket),
    /// With the identifier of its echoes.
    RawSocket(UdpSocket, u16),
    ClosedPort(Vec<UdpSocket>),
}

type Open = fn(Ends) -> io::Result<Way>;

impl Way {
    const fn words(&self) -> &'static str {
        match self {
            Self::PingSocket(_) => "ICMP echo through a ping socket",
            Self::RawSocket(..) => "ICMP echo through a raw socket",
            Self::ClosedPort(_) => "UDP to a closed port, answered with ICMP port unreachable",
        }
    }
}

impl Pinging {
    /// Thread `number`, on this way out or over loopback; finds the first way that is answered.
    ///
    /// # Errors
    /// No way is; says why for each.
    pub fn new(number: u32, outlet: Option<&Outlet>) -> Result<Self, WorkError> {
        let (ends, goes) = if let Some(outlet) = outlet {
            (Ends::out(outlet), outlet.words())
        } else {
            loopback::ensure_up()?;
            (Ends::inside(number), "loopback".to_owned())
        };
        let has_card = outlet.is_some_and(|outlet| !outlet.card().is_empty());
        let goes = if has_card { goes } else { format!("{goes}: soft interrupts only") };
        let ways: [(&str, Open); 3] =
            [("ping socket", ping_socket), ("raw socket", raw_socket), ("closed UDP port", closed_port)];
        let mut refused = Vec::new();
        for (name, open) in ways {
            let tried = open(ends).map(|way| Self { way, goes: goes.clone() }).and_then(|mut ping| {
                let answered = ping.is_answered()?;
                if answered { Ok(ping) } else { Err(io::Error::other("no answer comes")) }
            });
            match tried {
                Ok(pinging) => return Ok(pinging),
                Err(error) => refused.push(format!("{name}: {error}")),
            }
        }
        Err(WorkError::Unfit(format!("no kernel answers packets here: {}", refused.join("; "))))
    }

    fn is_answered(&mut self) -> io::Result<bool> {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            if self.burst()? > 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Sends a burst; returns how many answers have come.
    fn burst(&self) -> io::Result<u64> {
        match &self.way {
            // The kernel gives each ping socket an identifier of its own, and hands it those echoes only.
            Way::PingSocket(socket) => echo(socket, 0, |message| is_reply(message, None)),
            Way::RawSocket(socket, own) => {
                echo(socket, *own, |packet| is_reply(behind_ip(packet), Some(*own)))
            }
            Way::ClosedPort(sockets) => knock(sockets),
        }
    }
}

impl Stressor for Pinging {
    fn round(&mut self) -> Result<Done, WorkError> {
        let answers = self.burst().map_err(|error| {
            WorkError::system(format!("send packets that kernels answer ({})", self.way.words()), error)
        })?;
        Ok(Done::of(answers))
    }

    fn way(&self) -> Option<String> {
        Some(format!("{} over {}", self.way.words(), self.goes))
    }
}

impl Ends {
    const fn out(outlet: &Outlet) -> Self {
        let (ip, port) = (*outlet.sink().ip(), outlet.sink().port());
        Self { own: outlet.own(), other: ip, closed: port.checked_add(1) }
    }

    fn inside(number: u32) -> Self {
        Self { own: own_address(number), other: own_address(number), closed: None }
    }
}

/// An address of the loopback network for each thread: a raw socket hears every echo to its address.
fn own_address(number: u32) -> Ipv4Addr {
    let [_, _, high, low] = (number % 65_000 + 1).to_be_bytes();
    Ipv4Addr::new(127, 66, high, low)
}

fn ping_socket(ends: Ends) -> io::Result<Way> {
    icmp_socket(SockType::Datagram, ends).map(Way::PingSocket)
}

/// The number of a thread tells its echoes from those of all others on this kernel.
fn raw_socket(ends: Ends) -> io::Result<Way> {
    let [.., high, low] = gettid().as_raw().to_be_bytes();
    Ok(Way::RawSocket(icmp_socket(SockType::Raw, ends)?, u16::from_be_bytes([high, low])))
}

/// A socket that sends to, and hears from, the other end only. The standard library's socket type does for any
/// protocol what is needed here.
fn icmp_socket(kind: SockType, ends: Ends) -> io::Result<UdpSocket> {
    let opened = open_socket(AddressFamily::Inet, kind, SockFlag::SOCK_CLOEXEC, SockProtocol::Icmp)?;
    bind(opened.as_raw_fd(), &SockaddrIn::from(SocketAddrV4::new(ends.own, 0)))?;
    let socket = UdpSocket::from(opened);
    socket.connect((ends.other, 0))?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// At the instance itself a port that was free a moment ago; it is given back only when the senders have ports of their
/// own.
fn closed_port(ends: Ends) -> io::Result<Way> {
    let free = if ends.closed.is_none() { Some(UdpSocket::bind((ends.own, 0))?) } else { None };
    let freed = free.as_ref().map(UdpSocket::local_addr).transpose()?.map(|address| address.port());
    let port = ends.closed.or(freed).unwrap_or(0);
    let sockets = (0..SOCKETS).map(|_| {
        let socket = UdpSocket::bind((ends.own, 0))?;
        socket.connect((ends.other, port))?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    });
    sockets.collect::<io::Result<Vec<_>>>().map(Way::ClosedPort)
}

/// An echo request. The sequence number stays: the kernel answers each one alike. Checksum after RFC 1071, of the header
/// and zeros.
const fn request(identifier: u16) -> [u8; MESSAGE] {
    let mut message = [0; MESSAGE];
    message[0] = ECHO_REQUEST;
    let (sum, carried) = ((ECHO_REQUEST as u16) << 8).overflowing_add(identifier);
    [message[2], message[3]] = (!(sum.wrapping_add(carried as u16))).to_be_bytes();
    [message[4], message[5]] = identifier.to_be_bytes();
    message
}

fn echo(socket: &UdpSocket, identifier: u16, is_answer: impl Fn(&[u8]) -> bool) -> io::Result<u64> {
    let request = request(identifier);
    for _ in 0..BURST {
        if send(socket, &request)? != Sent::Gone {
            break;
        }
    }
    let (mut answers, mut read) = (0, 0);
    let mut packet = [0; ANSWER];
    while read < 4 * BURST
        && let Some(length) = receive(socket, &mut packet)?
    {
        read += 1;
        answers += u64::from(packet.get(..length).is_some_and(&is_answer));
    }
    if read == 0 {
        wait(socket)?;
    }
    Ok(answers)
}

/// Whether this is a reply, and to the one with this identifier if it matters.
fn is_reply(message: &[u8], identifier: Option<u16>) -> bool {
    let is_ours = |own: u16| message.get(4..6).is_some_and(|got| got == own.to_be_bytes());
    message.first() == Some(&ECHO_REPLY) && identifier.is_none_or(is_ours)
}

/// A raw socket gets the IP header, too; its length is in its first byte, in words of four bytes.
fn behind_ip(packet: &[u8]) -> &[u8] {
    let words = packet.first().map_or(0, |first| usize::from(first & 0x0f));
    packet.get(words * 4..).unwrap_or_default()
}

/// One datagram per socket, then one question per socket whether the answer has come.
fn knock(sockets: &[UdpSocket]) -> io::Result<u64> {
    let mut answers = 0;
    for socket in sockets {
        // Refused means that the answer to the one before came after it was asked for.
        answers += u64::from(send(socket, &[0; MESSAGE])? == Sent::Refused);
    }
    for socket in sockets {
        match socket.take_error()? {
            None => {}
            Some(error) if error.kind() == io::ErrorKind::ConnectionRefused => answers += 1,
            Some(error) => return Err(error),
        }
    }
    if answers == 0
        && let Some(first) = sockets.first()
    {
        wait(first)?;
    }
    Ok(answers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thread_has_an_address_of_its_own_in_the_loopback_network() {
        let all: std::collections::BTreeSet<_> = (0..1000).map(own_address).collect();
        assert_eq!(all.len(), 1000);
        assert!(all.iter().all(std::net::Ipv4Addr::is_loopback));
    }

    #[test]
    fn the_checksum_of_the_request_is_right() {
        let words = request(0xfff3)
            .chunks(2)
            .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
            .sum::<u32>();
        assert_eq!((words & 0xffff) + (words >> 16), 0xffff);
    }

    #[test]
    fn a_closed_port_answers_once_per_datagram() {
        loopback::ensure_up().unwrap();
        let way = closed_port(Ends::inside(900)).unwrap();
        let mut pinging = Pinging { way, goes: "loopback".to_owned() };
        let answers: u64 = (0..50).map(|_| pinging.round().unwrap().whole).sum();
        assert!(answers > 0 && answers <= 50 * SOCKETS as u64, "{answers}");
        assert!(pinging.way().unwrap().contains("closed port"));
    }

    #[test]
    fn an_open_port_does_not_answer() {
        let address = own_address(901);
        let open = UdpSocket::bind((address, 0)).unwrap();
        let sender = UdpSocket::bind((address, 0)).unwrap();
        sender.connect(open.local_addr().unwrap()).unwrap();
        sender.set_nonblocking(true).unwrap();
        assert_eq!(knock(&[sender]).unwrap(), 0);
    }

    #[test]
    fn echoes_of_other_threads_are_no_answers() {
        let mut packet = [0; 28];
        packet[0] = 0x45;
        packet[24..26].copy_from_slice(&[0x12, 0x34]);
        assert!(is_reply(behind_ip(&packet), Some(0x1234)) && is_reply(behind_ip(&packet), None));
        assert!(!is_reply(behind_ip(&packet), Some(0x1235)));
        packet[20] = ECHO_REQUEST;
        assert!(!is_reply(behind_ip(&packet), Some(0x1234)));
        assert!(!is_reply(behind_ip(&[0x4f]), None) && !is_reply(behind_ip(&[]), None));
    }

    #[test]
    fn requests_seen_by_a_raw_socket_are_no_answers() {
        let Ok(way) = raw_socket(Ends::inside(902)) else {
            return skips::skip(skips::Need::Network, "no raw sockets without CAP_NET_RAW");
        };
        let mut pinging = Pinging { way, goes: String::new() };
        let answers: u64 = (0..20).map(|_| pinging.round().unwrap().whole).sum();
        assert!(answers > 0 && answers <= 20 * u64::from(BURST), "{answers} answers to 20 bursts");
    }
}
