//! Who has which address in a lab. Pure.
//!
//! ```text
//!  10.77.0.1 … 10.77.0.64     the hosts' bridges, 10.77.0.(1 + host)
//!  10.77.1.1 … 10.77.16.255   instances with an address of their own, counted through the whole lab
//!  10.78.… … 10.84.…          second to eighth network card of a VM, the last two numbers as on its first
//! ```
//! All prefixes are 16 bits. The range is private (RFC 1918) and exists inside the lab's namespaces only, so it cannot
//! collide with what the machine itself is connected to.

use std::fmt;
use std::net::Ipv4Addr;

/// Length of every prefix.
pub const PREFIX: u8 = 16;
/// Most instances of a lab with an address of their own.
pub const MOST_ADDRESSES: u32 = 0x0fff;
/// Most instances on one host that share its address.
pub const MOST_SHARING: u32 = 256;
/// Port at which a host drops what comes (RFC 863).
pub const DISCARD_PORT: u16 = 9;
/// Port of a host's clock.
pub const CLOCK_PORT: u16 = 6100;
/// First port of the first instance; the ports of all of them end below those that Linux gives to clients (32768).
pub const FIRST_PORT: u16 = 7000;
/// TCP and UDP ports of each instance.
pub const PORTS_EACH: u16 = 100;

const NETWORK: u32 = u32::from_be_bytes([10, 77, 0, 0]);
const FIRST_INSTANCES: u32 = u32::from_be_bytes([0, 0, 1, 0]);
/// From the network of one card to that of the next.
const NEXT_CARD: u32 = u32::from_be_bytes([0, 1, 0, 0]);

/// Address of a host's bridge.
pub const fn bridge(host: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(NETWORK + 1 + host)
}

/// Address of an instance, counted from 0; none beyond [`MOST_ADDRESSES`].
pub fn instance(number: u32) -> Option<Ipv4Addr> {
    (number < MOST_ADDRESSES).then(|| Ipv4Addr::from_bits(NETWORK + FIRST_INSTANCES + 1 + number))
}

/// Address of a VM's network card, counted from 0, when the first one has `first`.
pub fn of_card(first: Ipv4Addr, card: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(first.to_bits().wrapping_add(card.wrapping_mul(NEXT_CARD)))
}

/// First port of an instance that shares its host's address, counted from 0 on each host; none beyond
/// [`MOST_SHARING`].
pub fn first_port(number: u32) -> Option<u16> {
    let number = u16::try_from(number).ok().filter(|number| u32::from(*number) < MOST_SHARING)?;
    FIRST_PORT.checked_add(number.checked_mul(PORTS_EACH)?)
}

/// A hardware address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mac([u8; 6]);

impl Mac {
    /// That of the card with this address: as unique as the address, and the same at every start of an instance.
    pub const fn of(address: Ipv4Addr) -> Self {
        let [a, b, c, d] = address.octets();
        // Bit 2 of the first byte: administered locally, no vendor's (IEEE 802, section 8).
        Self([0x02, 0x4b, a, b, c, d])
    }

    /// Its bytes.
    pub const fn bytes(self) -> [u8; 6] {
        self.0
    }
}

impl fmt::Display for Mac {
    /// As Linux and QEMU write it: `02:4b:0a:4d:01:01`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, byte) in self.0.iter().enumerate() {
            write!(f, "{}{byte:02x}", if place == 0 { "" } else { ":" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use units::layout::{MAX_HOSTS, MAX_INSTANCES};

    #[test]
    fn nobody_has_the_address_of_another() {
        let hosts = (0..MAX_HOSTS).map(bridge);
        let instances = (0..MOST_ADDRESSES).map(|number| instance(number).unwrap());
        let cards = instances.flat_map(|first| (0..8).map(move |card| of_card(first, card)));
        let all: Vec<Ipv4Addr> = hosts.chain(cards).collect();
        let unique: BTreeSet<Ipv4Addr> = all.iter().copied().collect();
        assert_eq!(unique.len(), all.len());
        assert_eq!(instance(MOST_ADDRESSES), None);
        assert!(unique.iter().all(Ipv4Addr::is_private), "nothing outside the private ranges");
        assert_eq!(instance(0).unwrap().to_string(), "10.77.1.1");
        assert_eq!(instance(MOST_ADDRESSES - 1).unwrap().to_string(), "10.77.16.255");
        assert_eq!(of_card(instance(0).unwrap(), 7).to_string(), "10.84.1.1");
    }

    #[test]
    fn a_whole_layout_has_ports_below_those_of_clients() {
        let last = first_port(MAX_INSTANCES - 1).unwrap();
        assert!(u32::from(last) + u32::from(PORTS_EACH) <= 32_768);
        assert_eq!((first_port(0), first_port(1)), (Some(7000), Some(7100)));
        assert_eq!(first_port(MOST_SHARING), None);
        assert_ne!(CLOCK_PORT, FIRST_PORT);
    }

    #[test]
    fn hardware_addresses_are_local_and_for_one_card_only() {
        let mac = Mac::of(bridge(0));
        assert_eq!(mac.to_string(), "02:4b:0a:4d:00:01");
        assert_eq!(mac.bytes()[0] & 0b11, 0b10, "administered locally, for one");
    }
}
