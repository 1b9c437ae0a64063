//! Where packets of a load go: out of the instance over one of its interfaces, or nowhere beyond its loopback device.
//!
//! ```text
//!  Job.line ─► which own address does the system take to get there? ─► which interface has it? ─► Outlet
//!  none ─────► loopback
//! ```
//! What the interface itself counts as sent is the proof that packets left: a load's dose is what its threads sent, as far
//! as that count confirms it. Sources: getifaddrs(3); `/proc/net/dev`, proc(5), which belongs to the network namespace of
//! who reads it, as `/sys` need not.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4, UdpSocket};
use std::path::Path;

use nix::ifaddrs::getifaddrs;

use crate::accounts::read_bounded;
use crate::error::WorkError;
use crate::job::Line;

/// What is said where nothing leaves the instance.
pub const LOOPBACK: &str = "loopback, nothing leaves the instance";
/// Longest name of an interface that is shown.
const NAME_CHARS: usize = 40;
/// Column of `/proc/net/dev` that counts packets sent, after the interface's name.
const SENT_PACKETS: usize = 9;

/// A way out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outlet {
    line: Line,
    own: Ipv4Addr,
    interface: String,
    /// Under which names the kernel counts the interrupts of its network card; empty when it is none.
    card: Vec<String>,
}

impl Outlet {
    /// The interface over which the other end of `line` is reached from here.
    ///
    /// # Errors
    /// There is none.
    pub fn find(line: &Line) -> Result<Self, WorkError> {
        let refused = |error| WorkError::system(format!("find the way to {}", line.sink), error);
        // Connecting sends nothing: it only asks the system which address of its own it would use.
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).map_err(refused)?;
        socket.connect(line.sink).map_err(refused)?;
        let IpAddr::V4(own) = socket.local_addr().map_err(refused)?.ip() else {
            return Err(WorkError::Unfit(format!("no IPv4 address of this instance leads to {}", line.sink)));
        };
        let interface = interface_of(own).map_err(refused)?.ok_or_else(|| {
            WorkError::Unfit(format!("no interface of this instance has its own address {own}"))
        })?;
        let card = if line.has_card { card_names(&interface) } else { Vec::new() };
        Ok(Self { line: line.clone(), own, interface, card })
    }

    /// Where datagrams are taken or dropped.
    pub const fn sink(&self) -> SocketAddrV4 {
        self.line.sink
    }

    /// Own address on this way.
    pub const fn own(&self) -> Ipv4Addr {
        self.own
    }

    /// Under which names the kernel counts the interrupts of its network card; empty when it is none.
    pub fn card(&self) -> &[String] {
        &self.card
    }

    /// In words: `veth to the host (eth0)`.
    pub fn words(&self) -> String {
        format!("{} ({})", self.line.way, self.interface)
    }

    /// Packets that the interface has sent so far; none where the kernel does not say.
    pub fn sent(&self) -> Option<u64> {
        sent_by(&read_bounded(Path::new("/proc/net/dev")).ok()?, &self.interface)
    }
}

/// Where packets go, in words.
pub fn words(outlet: Option<&Outlet>) -> String {
    outlet.map_or_else(|| LOOPBACK.to_owned(), Outlet::words)
}

fn interface_of(address: Ipv4Addr) -> std::io::Result<Option<String>> {
    let has_it = |storage: nix::sys::socket::SockaddrStorage| {
        storage.as_sockaddr_in().is_some_and(|here| here.ip() == address)
    };
    let mut all = getifaddrs()?;
    let found = all.find(|interface| interface.address.is_some_and(has_it));
    Ok(found.map(|interface| interface.interface_name.chars().take(NAME_CHARS).collect()))
}

/// The interface's name, under which most drivers ask for interrupts, and that of its device (`virtio1`), under which
/// paravirtual ones do. A virtual interface has no device.
fn card_names(interface: &str) -> Vec<String> {
    let folder = Path::new("/sys/class/net").join(interface).join("device");
    let Ok(device) = fs::read_link(folder) else { return Vec::new() };
    let device = device.file_name().map(|name| name.to_string_lossy().into_owned());
    std::iter::once(interface.to_owned()).chain(device).collect()
}

/// Packets sent, out of the text of `/proc/net/dev`: `eth0: bytes packets errs drop fifo frame compressed multicast`,
/// received, and the same sent.
fn sent_by(text: &str, interface: &str) -> Option<u64> {
    let (_, counts) =
        text.lines().filter_map(|line| line.split_once(':')).find(|(name, _)| name.trim() == interface)?;
    counts.split_ascii_whitespace().nth(SENT_PACKETS)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(sink: SocketAddrV4) -> Line {
        Line { sink, way: "a way".to_owned(), has_card: false }
    }

    #[test]
    fn the_kernels_table_is_read_by_name() {
        let text = "Inter-|   Receive                                                |  Transmit\n \
                    face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs\n    \
                    lo: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n eth0:100 200 0 0 0 0 0 0 300 400 0 0 0 0 0 0\n";
        assert_eq!((sent_by(text, "lo"), sent_by(text, "eth0")), (Some(10), Some(400)));
        assert_eq!(
            (sent_by(text, "eth"), sent_by("eth0: 1 2", "eth0"), sent_by("", "lo")),
            (None, None, None)
        );
    }

    #[test]
    fn the_interface_is_found_by_the_way_the_system_takes() {
        crate::loopback::ensure_up().unwrap();
        let outlet = Outlet::find(&line(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 9))).unwrap();
        assert_eq!((outlet.interface.as_str(), outlet.words().as_str()), ("lo", "a way (lo)"));
        let card = Line { has_card: true, ..line(outlet.sink()) };
        assert!(Outlet::find(&card).unwrap().card().is_empty(), "the loopback device is no card");
        let before = outlet.sent().unwrap();
        UdpSocket::bind((outlet.own(), 0)).unwrap().send_to(&[1], outlet.sink()).unwrap();
        assert!(outlet.sent().unwrap() > before);
        assert!(words(None).contains("nothing leaves"));
    }
}
