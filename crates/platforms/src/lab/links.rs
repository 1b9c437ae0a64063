//! Interfaces made and configured over rtnetlink (rtnetlink(7)), by the host for a lab and by a guest for its own
//! cards: one request, one acknowledgement.
//!
//! Only acknowledgements are read back, never the kernel's descriptions of interfaces, which grow with every release.

use std::io;
use std::marker::PhantomData;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use netlink_packet_core::{
    Emitable, NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REQUEST, NetlinkDeserializable, NetlinkHeader,
    NetlinkMessage, NetlinkPayload, NetlinkSerializable,
};
use netlink_packet_route::AddressFamily;
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{
    BondMode, BridgeStpState, InfoBond, InfoBridge, InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags,
    LinkInfo, LinkMessage,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use nix::net::if_::if_nametoindex;
use nix::sys::socket::sockopt::ReceiveTimeout;
use nix::sys::socket::{
    AddressFamily as SocketFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, setsockopt, socket,
};
use nix::sys::time::{TimeVal, TimeValLike};

use super::address::Mac;

/// Longest wait for an acknowledgement; the kernel answers before it returns from `send`.
const TIMEOUT_S: i64 = 10;
/// Longest datagram from the kernel that is read: an error repeats its request.
const BUFFER_BYTES: usize = 16 * 1024;
/// Most datagrams that are read for one acknowledgement.
const MOST_DATAGRAMS: u32 = 64;

/// The interfaces of the calling thread's network namespace. Cannot be given to another thread, which may be in
/// another namespace.
pub struct Links {
    socket: OwnedFd,
    sequence: u32,
    stays_here: PhantomData<*const ()>,
}

impl Links {
    /// Those of the calling thread's namespace.
    ///
    /// # Errors
    /// When there is no rtnetlink.
    pub fn here() -> io::Result<Self> {
        let kind = (SocketFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC);
        let socket = socket(kind.0, kind.1, kind.2, SockProtocol::NetlinkRoute)?;
        setsockopt(&socket, ReceiveTimeout, &TimeVal::seconds(TIMEOUT_S))?;
        Ok(Self { socket, sequence: 0, stays_here: PhantomData })
    }

    /// Makes a bridge that forwards from its first moment on and sends nothing by itself: no spanning tree, no
    /// listening to multicast groups. Its hardware address does not follow those of its ports.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn add_bridge(&mut self, name: &str, mac: Mac) -> io::Result<()> {
        let settings = vec![
            InfoBridge::StpState(BridgeStpState::Disabled),
            InfoBridge::ForwardDelay(0),
            InfoBridge::MulticastSnooping(false),
        ];
        let mut link = named(name);
        link.attributes.push(LinkAttribute::Address(mac.bytes().to_vec()));
        link.attributes.push(LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Bridge),
            LinkInfo::Data(InfoData::Bridge(settings)),
        ]));
        self.create(Request::NewLink(link), &format!("making the bridge {name}"))
    }

    /// Makes a virtual cable (veth(4)) from `near`, here, to `far` in another namespace.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn add_cable(&mut self, near: &str, far: &str, mac: Mac, there: &impl AsFd) -> io::Result<()> {
        let mut peer = named(far);
        peer.attributes.push(LinkAttribute::Address(mac.bytes().to_vec()));
        peer.attributes.push(LinkAttribute::NetNsFd(there.as_fd().as_raw_fd()));
        let mut link = named(near);
        link.attributes.push(LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Veth),
            LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer))),
        ]));
        self.create(Request::NewLink(link), &format!("making the cable {near}"))
    }

    /// Plugs an interface into a bridge and brings it up.
    ///
    /// # Errors
    /// When one of them is not there, or the kernel refuses.
    pub fn plug(&mut self, name: &str, bridge: &str) -> io::Result<()> {
        let mut link = up(existing(name)?);
        let bridge_index = index(bridge)?;
        link.attributes.push(LinkAttribute::Controller(bridge_index));
        let what = format!("plugging {name} into {bridge}");
        self.ask(Request::SetLink(link), 0).map_err(in_context(&what))
    }

    /// Makes a card of which others are part, one at a time: the next one takes over when the carrier of the one in
    /// use has gone, which is looked at every `monitor` (the kernel's `Documentation/networking/bonding.rst`,
    /// active-backup).
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn add_standby(&mut self, name: &str, monitor: Duration) -> io::Result<()> {
        let milliseconds = u32::try_from(monitor.as_millis()).unwrap_or(u32::MAX);
        let settings = vec![InfoBond::Mode(BondMode::ActiveBackup), InfoBond::MiiMon(milliseconds)];
        let mut link = named(name);
        link.attributes.push(LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Bond),
            LinkInfo::Data(InfoData::Bond(settings)),
        ]));
        self.create(Request::NewLink(link), &format!("making the bond {name}"))
    }

    /// Makes an interface, which must be down, part of a bond, which brings it up.
    ///
    /// # Errors
    /// When one of them is not there, or the kernel refuses.
    pub fn enslave(&mut self, name: &str, bond: &str) -> io::Result<()> {
        let mut link = existing(name)?;
        link.attributes.push(LinkAttribute::Controller(index(bond)?));
        let what = format!("making {name} part of {bond}");
        self.ask(Request::SetLink(link), 0).map_err(in_context(&what))
    }

    /// Brings an interface up.
    ///
    /// # Errors
    /// When it is not there, or the kernel refuses.
    pub fn raise(&mut self, name: &str) -> io::Result<()> {
        let link = up(existing(name)?);
        self.ask(Request::SetLink(link), 0).map_err(in_context(&format!("bringing {name} up")))
    }

    /// Gives an interface an address.
    ///
    /// # Errors
    /// When it is not there, or the kernel refuses.
    pub fn add_address(&mut self, name: &str, address: Ipv4Addr, prefix: u8) -> io::Result<()> {
        let mut message = AddressMessage::default();
        message.header.family = AddressFamily::Inet;
        message.header.prefix_len = prefix;
        message.header.index = index(name)?;
        message.attributes.push(AddressAttribute::Local(IpAddr::V4(address)));
        message.attributes.push(AddressAttribute::Address(IpAddr::V4(address)));
        let what = format!("giving {name} the address {address}/{prefix}");
        self.create(Request::NewAddress(message), &what)
    }

    /// Sends everything that is for no interface's own network to `router`.
    ///
    /// # Errors
    /// When no interface reaches the router, or the kernel refuses.
    pub fn add_default_route(&mut self, router: Ipv4Addr) -> io::Result<()> {
        let mut message = RouteMessage::default();
        message.header.address_family = AddressFamily::Inet;
        message.header.table = RouteHeader::RT_TABLE_MAIN;
        message.header.protocol = RouteProtocol::Static;
        message.header.scope = RouteScope::Universe;
        message.header.kind = RouteType::Unicast;
        message.attributes.push(RouteAttribute::Gateway(RouteAddress::Inet(router)));
        self.create(Request::NewRoute(message), &format!("making {router} the router"))
    }

    /// Removes an interface, and with it the other end of a cable.
    ///
    /// # Errors
    /// When it is not there, or the kernel refuses.
    pub fn remove(&mut self, name: &str) -> io::Result<()> {
        let link = existing(name)?;
        self.ask(Request::DeleteLink(link), 0).map_err(in_context(&format!("removing {name}")))
    }

    fn create(&mut self, request: Request, what: &str) -> io::Result<()> {
        self.ask(request, NLM_F_CREATE | NLM_F_EXCL).map_err(in_context(what))
    }

    /// Sends a request and waits for its acknowledgement.
    fn ask(&mut self, request: Request, flags: u16) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
        header.sequence_number = self.sequence;
        let mut request = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(request));
        request.finalize();
        let mut bytes = vec![0; request.buffer_len()];
        request.serialize(&mut bytes);
        send(self.socket.as_raw_fd(), &bytes, MsgFlags::empty())?;
        let mut buffer = vec![0; BUFFER_BYTES];
        for _ in 0..MOST_DATAGRAMS {
            let length = recv(self.socket.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
            if let Some(outcome) = outcome(buffer.get(..length).unwrap_or_default(), self.sequence)? {
                return outcome;
            }
        }
        Err(io::Error::other("rtnetlink answered without an acknowledgement"))
    }
}

/// What is asked of the kernel. The library's own type for all of rtnetlink would bring its parsers for everything
/// into a program that is copied into every guest.
enum Request {
    NewLink(LinkMessage),
    SetLink(LinkMessage),
    DeleteLink(LinkMessage),
    NewAddress(AddressMessage),
    NewRoute(RouteMessage),
}

impl NetlinkSerializable for Request {
    fn message_type(&self) -> u16 {
        match self {
            Self::NewLink(_) => libc::RTM_NEWLINK,
            Self::SetLink(_) => libc::RTM_SETLINK,
            Self::DeleteLink(_) => libc::RTM_DELLINK,
            Self::NewAddress(_) => libc::RTM_NEWADDR,
            Self::NewRoute(_) => libc::RTM_NEWROUTE,
        }
    }

    fn buffer_len(&self) -> usize {
        match self {
            Self::NewLink(link) | Self::SetLink(link) | Self::DeleteLink(link) => link.buffer_len(),
            Self::NewAddress(address) => address.buffer_len(),
            Self::NewRoute(route) => route.buffer_len(),
        }
    }

    fn serialize(&self, buffer: &mut [u8]) {
        match self {
            Self::NewLink(link) | Self::SetLink(link) | Self::DeleteLink(link) => link.emit(buffer),
            Self::NewAddress(address) => address.emit(buffer),
            Self::NewRoute(route) => route.emit(buffer),
        }
    }
}

/// Any message that is no acknowledgement; left unread.
struct Other;

impl NetlinkDeserializable for Other {
    type Error = std::convert::Infallible;

    fn deserialize(_: &NetlinkHeader, _: &[u8]) -> Result<Self, Self::Error> {
        Ok(Self)
    }
}

/// What a datagram from the kernel says of request `sequence`, if anything.
fn outcome(bytes: &[u8], sequence: u32) -> io::Result<Option<io::Result<()>>> {
    let message = NetlinkMessage::<Other>::deserialize(bytes)
        .map_err(|error| io::Error::other(format!("rtnetlink: {error}")))?;
    Ok(match message.payload {
        NetlinkPayload::Error(error) if message.header.sequence_number == sequence => {
            Some(if error.code.is_none() { Ok(()) } else { Err(error.to_io()) })
        }
        _ => None,
    })
}

fn index(name: &str) -> io::Result<u32> {
    if_nametoindex(name).map_err(|errno| in_context(&format!("interface {name}"))(errno.into()))
}

fn existing(name: &str) -> io::Result<LinkMessage> {
    let mut link = LinkMessage::default();
    link.header.index = index(name)?;
    Ok(link)
}

fn named(name: &str) -> LinkMessage {
    let mut link = LinkMessage::default();
    link.attributes.push(LinkAttribute::IfName(name.to_owned()));
    link
}

fn up(mut link: LinkMessage) -> LinkMessage {
    link.header.flags = LinkFlags::Up;
    link.header.change_mask = LinkFlags::Up;
    link
}

/// Says what was tried; the kind of the error stays.
fn in_context(what: &str) -> impl FnOnce(io::Error) -> io::Error {
    let what = what.to_owned();
    move |error| io::Error::new(error.kind(), format!("{what}: {error}"))
}
