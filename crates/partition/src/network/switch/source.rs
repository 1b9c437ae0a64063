//! Whose a frame says it is: the addresses inside it are held to the plug as the hardware address outside is.
//!
//! ```text
//!  prefix 02:4b:0a:4d:01, plug 7 ─► 02:4b:0a:4d:01:07   its hardware address
//!                                ─► 10.77.1.7           its last four bytes, see `platforms::lab::address`
//!                                ─► fe80::4b:aff:fe4d:107  the same as an interface identifier (RFC 4291, appendix A)
//!
//!  frame ─► tags (two at most) ─┬─ ARP, RARP   both addresses of the sender
//!                               ├─ IPv4        source; 0.0.0.0 to a group: who has no address yet asks for one
//!                               ├─ IPv6        source; :: to a group; neighbour discovery speaks for its own address only
//!                               ├─ a length    refused: some systems find IP behind it (RFC 1042)
//!                               └─ all else    passes: field buses and clocks are what networks of machines are for, and
//!                                              carry no address but the hardware's
//! ```
//! Sources: RFC 826, 903, 791, 4861, 8200; IEEE 802.1Q. No extension header hides a neighbour's word: those that may stand
//! before it are walked, and a fragment of one is refused by its receiver (RFC 6980).

use super::core::Loss;
use super::table::Address;

/// Where the first type stands, behind the two hardware addresses.
const TYPE_AT: usize = 12;
const IPV4: u16 = 0x0800;
const ARP: u16 = 0x0806;
const RARP: u16 = 0x8035;
const IPV6: u16 = 0x86dd;
/// Tags: of a VLAN or a priority, of a provider, and what was in use before there was a number for that.
const TAGS: [u16; 3] = [0x8100, 0x88a8, 0x9100];
/// Most tags of a frame.
const MOST_TAGS: usize = 2;
/// Below this it is no type but a length.
const FIRST_TYPE: u16 = 0x0600;
/// Ethernet and IPv4, six and four bytes, as an ARP packet begins.
const ARP_HEAD: [u8; 6] = [0, 1, 8, 0, 6, 4];
const NOBODY4: [u8; 4] = [0; 4];
const NOBODY6: [u8; 16] = [0; 16];
/// Most extension headers that are walked.
const MOST_HEADERS: usize = 8;

/// The addresses that a plug may speak as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Source {
    hardware: Address,
    ipv4: [u8; 4],
    ipv6: [u8; 16],
}

impl Source {
    /// Those that go with a hardware address of ours.
    pub const fn of(hardware: Address) -> Self {
        let [first, second, third, rest @ ..] = hardware;
        let [_, _, ipv4 @ ..] = hardware;
        let ipv6 =
            [0xfe, 0x80, 0, 0, 0, 0, 0, 0, first ^ 2, second, third, 0xff, 0xfe, rest[0], rest[1], rest[2]];
        Self { hardware, ipv4, ipv6 }
    }

    /// Refuses a frame from `hardware` that is another one's; `to_group` says that it is for several.
    pub(super) fn check(&self, hardware: Address, frame: &[u8], to_group: bool) -> Result<(), Loss> {
        own(hardware == self.hardware)?;
        let (kind, packet) = untagged(frame)?;
        match kind {
            IPV4 => self.check_ipv4(packet, to_group),
            ARP | RARP => self.check_arp(packet),
            IPV6 => self.check_ipv6(packet, to_group),
            0..FIRST_TYPE => Err(Loss::Foreign),
            _ => Ok(()),
        }
    }

    fn check_ipv4(&self, packet: &[u8], to_group: bool) -> Result<(), Loss> {
        let (head, _) = packet.split_first_chunk::<20>().ok_or(Loss::Invalid)?;
        let [first, _, _, _, _, _, _, _, _, _, _, _, source @ .., _, _, _, _] = head;
        if first >> 4 != 4 {
            return Err(Loss::Invalid);
        }
        own(*source == self.ipv4 || (*source == NOBODY4 && to_group))
    }

    fn check_arp(&self, packet: &[u8]) -> Result<(), Loss> {
        let (packet, _) = packet.split_first_chunk::<28>().ok_or(Loss::Invalid)?;
        let (head, rest) = packet.split_first_chunk::<6>().ok_or(Loss::Invalid)?;
        let (_operation, rest) = rest.split_first_chunk::<2>().ok_or(Loss::Invalid)?;
        let (hardware, rest) = rest.split_first_chunk::<6>().ok_or(Loss::Invalid)?;
        let (address, _) = rest.split_first_chunk::<4>().ok_or(Loss::Invalid)?;
        if *head != ARP_HEAD {
            return Err(Loss::Invalid);
        }
        // Nobody's address: whoever is to have one looks whether it is free (RFC 5227).
        own(*hardware == self.hardware && (*address == self.ipv4 || *address == NOBODY4))
    }

    fn check_ipv6(&self, packet: &[u8], to_group: bool) -> Result<(), Loss> {
        let (head, rest) = packet.split_first_chunk::<40>().ok_or(Loss::Invalid)?;
        let (start, addresses) = head.split_first_chunk::<8>().ok_or(Loss::Invalid)?;
        let (source, _) = addresses.split_first_chunk::<16>().ok_or(Loss::Invalid)?;
        let [first, _, _, _, _, _, next, _] = start;
        if first >> 4 != 6 {
            return Err(Loss::Invalid);
        }
        own(*source == self.ipv6 || (*source == NOBODY6 && to_group))?;
        match message(*next, rest)? {
            Some(message) => self.check_neighbour(message, *source == NOBODY6),
            None => Ok(()),
        }
    }

    /// What neighbours say of addresses (RFC 4861): nobody here is a router, and nobody speaks for another one.
    fn check_neighbour(&self, message: &[u8], from_nobody: bool) -> Result<(), Loss> {
        const ROUTER: u8 = 134;
        const ASKS: u8 = 135;
        const SAYS: u8 = 136;
        const REDIRECT: u8 = 137;
        match message.first().ok_or(Loss::Invalid)? {
            &ROUTER | &REDIRECT => Err(Loss::Foreign),
            &SAYS => own(message.get(8..24).ok_or(Loss::Invalid)? == self.ipv6),
            // Whoever asks from nobody's address is about to take the one it asks for.
            &ASKS if from_nobody => own(message.get(8..24).ok_or(Loss::Invalid)? == self.ipv6),
            _ => Ok(()),
        }
    }
}

const fn own(is_own: bool) -> Result<(), Loss> {
    if is_own { Ok(()) } else { Err(Loss::Foreign) }
}

/// Type and packet behind the tags of a frame.
fn untagged(frame: &[u8]) -> Result<(u16, &[u8]), Loss> {
    let mut rest = frame.get(TYPE_AT..).ok_or(Loss::Invalid)?;
    for _ in 0..=MOST_TAGS {
        let (kind, packet) = rest.split_first_chunk::<2>().ok_or(Loss::Invalid)?;
        let kind = u16::from_be_bytes(*kind);
        if !TAGS.contains(&kind) {
            return Ok((kind, packet));
        }
        rest = packet.get(2..).ok_or(Loss::Invalid)?;
    }
    Err(Loss::Foreign)
}

/// The `ICMPv6` message of a packet whose first header is of this kind; none when it has none.
fn message(mut next: u8, mut rest: &[u8]) -> Result<Option<&[u8]>, Loss> {
    const EACH_HOP: u8 = 0;
    const ROUTING: u8 = 43;
    const AUTHENTICATION: u8 = 51;
    const ICMP: u8 = 58;
    const DESTINATION: u8 = 60;
    for _ in 0..=MOST_HEADERS {
        let words = match next {
            ICMP => return Ok(Some(rest)),
            EACH_HOP | ROUTING | DESTINATION => 8,
            AUTHENTICATION => 4,
            _ => return Ok(None),
        };
        let [following, length, ..] = *rest else { return Err(Loss::Invalid) };
        let bytes = if words == 8 { 8 + usize::from(length) * 8 } else { 8 + usize::from(length) * 4 };
        rest = rest.get(bytes..).ok_or(Loss::Invalid)?;
        next = following;
    }
    Err(Loss::Foreign)
}
