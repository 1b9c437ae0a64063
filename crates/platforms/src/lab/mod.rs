//! Networks between instances of one machine.
//!
//! ```text
//!   namespace "host 0"                     namespace "host 1"            one network namespace per host of a layout
//!   ┌─ bridge 10.77.0.1/16 ─┐   cable     ┌─ bridge 10.77.0.2/16 ─┐
//!   │  │        │           └─────────────┘           │        │  │      host 0 is the middle of a star
//!   │ tap      veth                                  tap      veth │
//!   └──┼────────┼──────────┘              └───────────┼────────┼───┘
//!      VM     container   native: a process in the namespace itself
//! ```
//! Namespaces are held by descriptors only: when this process ends, however it ends, the kernel takes all of it away.
//! They have no route and no cable to the outside. [`address`] says who has which address.

pub mod address;
pub mod clock;
pub mod links;
mod namespace;
pub mod plug;
pub mod tap;

pub use namespace::inside;

use std::net::{IpAddr, SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::{fs, io};

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::RcvBuf;

use self::address::{CLOCK_PORT, DISCARD_PORT, FIRST_PORT, Mac, PREFIX};
use self::clock::Clock;
use self::links::Links;
use units::Reason;
use units::layout::MAX_HOSTS;

/// Name of every host's bridge, each in a namespace of its own.
const BRIDGE: &str = "bridge";

/// The network of a layout. Dropping it takes it down as soon as nobody is plugged in any more.
#[derive(Debug)]
pub struct Lab {
    hosts: Vec<Host>,
    /// Addresses given out so far.
    addresses: u32,
}

/// What stands in for one host.
#[derive(Debug)]
struct Host {
    namespace: Arc<OwnedFd>,
    /// Instances so far that share its address.
    sharing: u32,
    _clock: Clock,
    /// Takes floods: nobody reads it, so that what does not fit is dropped without an answer.
    _sink: UdpSocket,
}

/// Where an instance is plugged in. Clones name the same place.
#[derive(Debug, Clone)]
pub struct Port {
    /// Number of the host it is on.
    pub host: u32,
    /// The instance's own address (native instances of one host share the bridge's).
    pub address: IpAddr,
    /// Length of the network's prefix.
    pub prefix: u8,
    /// First of the hundred TCP and UDP ports that are the instance's own.
    pub first_port: u16,
    /// Where the host's clock answers datagrams.
    pub clock: SocketAddr,
    /// Where floods may go that are to leave the instance; none when everything it reaches is in its own namespace.
    pub sink: Option<SocketAddrV4>,
    /// The network namespace of its host.
    pub namespace: Arc<OwnedFd>,
}

impl Lab {
    /// Builds the network of `hosts` hosts, 1 … [`MAX_HOSTS`], and starts their clocks.
    ///
    /// # Errors
    /// What is missing or not allowed here, in words for the user.
    pub fn build(hosts: u32) -> Result<Self, Reason> {
        if !(1..=MAX_HOSTS).contains(&hosts) {
            return Err(format!("a network of 1 to {MAX_HOSTS} hosts was wanted, got {hosts}").into());
        }
        let hosts = (0..hosts).map(Host::build).collect::<io::Result<Vec<Host>>>();
        let lab = hosts.map(|hosts| Self { hosts, addresses: 0 });
        lab.and_then(|lab| lab.join().map(|()| lab)).map_err(|error| explain(&error).into())
    }

    /// Joins every other host to the first one.
    fn join(&self) -> io::Result<()> {
        let Some((middle, others)) = self.hosts.split_first() else { return Ok(()) };
        for (number, other) in (1_u32..).zip(others) {
            let cable = format!("cable{number}");
            // Both ends belong to bridges, whose own addresses the cards' only have to differ from.
            let mac = Mac::of(address::of_card(address::bridge(number), 1));
            inside(&middle.namespace, || {
                let mut links = Links::here()?;
                links.add_cable(&cable, "cable0", mac, &other.namespace)?;
                links.plug(&cable, BRIDGE)
            })?;
            inside(&other.namespace, || Links::here()?.plug("cable0", BRIDGE))?;
        }
        Ok(())
    }

    /// A place for one more instance on `host`. Native instances share their host's address, so `shares_address` is
    /// true for them; the others get one of their own.
    ///
    /// # Errors
    /// Why there is none.
    pub fn port(&mut self, host: u32, shares_address: bool) -> Result<Port, Reason> {
        let hosts = self.hosts.len();
        let place = usize::try_from(host).ok().and_then(|index| self.hosts.get_mut(index));
        let place = place.ok_or_else(|| format!("host {host} was wanted of a network of {hosts} hosts"))?;
        let bridge = address::bridge(host);
        let sink = if shares_address { other_host(host, hosts) } else { Some(host) };
        let full = || format!("the network has no room for another instance on host {host}");
        let (address, first_port) = if shares_address {
            let first_port = address::first_port(place.sharing).ok_or_else(full)?;
            place.sharing += 1;
            (bridge, first_port)
        } else {
            let address = address::instance(self.addresses).ok_or_else(full)?;
            self.addresses += 1;
            (address, FIRST_PORT)
        };
        Ok(Port {
            host,
            address: address.into(),
            prefix: PREFIX,
            first_port,
            clock: (bridge, CLOCK_PORT).into(),
            sink: sink.map(|host| SocketAddrV4::new(address::bridge(host), DISCARD_PORT)),
            namespace: place.namespace.clone(),
        })
    }
}

impl Host {
    fn build(number: u32) -> io::Result<Self> {
        let namespace = Arc::new(namespace::fresh()?);
        let address = address::bridge(number);
        let (socket, sink) = inside(&namespace, || {
            quiet();
            let mut links = Links::here()?;
            links.raise("lo")?;
            links.add_bridge(BRIDGE, Mac::of(address))?;
            links.add_address(BRIDGE, address, PREFIX)?;
            links.raise(BRIDGE)?;
            let sink = UdpSocket::bind((address, DISCARD_PORT))?;
            // The kernel makes it the smallest there is: what is kept is memory that nobody uses.
            setsockopt(&sink, RcvBuf, &0)?;
            Ok((UdpSocket::bind((address, CLOCK_PORT))?, sink))
        })?;
        Ok(Self { namespace, sharing: 0, _clock: Clock::start(socket)?, _sink: sink })
    }
}

/// The host after this one, if it is another.
fn other_host(host: u32, hosts: usize) -> Option<u32> {
    let next = (host + 1) % u32::try_from(hosts).ok()?.max(1);
    (next != host).then_some(next)
}

/// Switches IPv6 off in the calling thread's namespace: nobody here speaks it, and its searches for neighbours and
/// duplicates would be packets between those that are measured. Where that cannot be, they are.
pub fn quiet() {
    for scope in ["all", "default"] {
        let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{scope}/disable_ipv6"), "1");
    }
}

/// A name for an interface that no other of this process has or had: the one before may go only after the next came.
fn fresh_name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // At most 11 characters; Linux takes 15.
    format!("p{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

fn explain(error: &io::Error) -> String {
    let advice = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "it needs root (CAP_SYS_ADMIN and CAP_NET_ADMIN): run as root, or leave out what needs a network"
        }
        io::ErrorKind::Unsupported | io::ErrorKind::NotFound => {
            "it needs a Linux kernel with network namespaces, bridge and veth: modprobe bridge veth"
        }
        _ => "see `dmesg` for what the kernel says",
    };
    format!("no network can be built between instances on this machine: {error}; {advice}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_allowed_is_said_with_what_to_do() {
        let refused = explain(&io::Error::from(io::ErrorKind::PermissionDenied));
        assert!(refused.contains("run as root"), "{refused}");
        let error = Lab::build(0).unwrap_err();
        assert!(error.to_string().contains("1 to 64"), "{error}");
        let error = Lab::build(65).unwrap_err();
        assert!(error.to_string().contains("got 65"), "{error}");
    }

    #[test]
    fn names_are_short_and_never_the_same() {
        let (one, two) = (fresh_name(), fresh_name());
        assert_ne!(one, two);
        assert!(format!("p{}", u32::MAX).len() <= 15);
    }
}
