//! What can be seen of a program from beside it: whether it listens, and where, whether it has made a file.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

use crate::listening::{self, listeners};
use model::partition::session::Look;

/// The kernel's table of IPv6 addresses: address, number of the card and more, in hexadecimal digits.
const ADDRESSES: &str = "/proc/net/if_inet6";

/// Whether it is so now. Nothing of it is seen by the program: nobody connects.
pub fn is_so(look: &Look) -> bool {
    match look {
        Look::File(path) => path.exists(),
        Look::Tcp(port) => listeners().iter().any(|one| one.port == *port),
    }
}

/// Where somebody listens at `port`: those that name an address of their own.
pub fn who_listens(port: u16) -> Vec<SocketAddr> {
    let at_port = listeners().into_iter().filter(|one| one.port == port).map(|one| one.address);
    let own = at_port.filter(|address| !address.is_unspecified());
    own.map(|address| match address {
        IpAddr::V4(_) => SocketAddr::new(address, port),
        IpAddr::V6(address) => {
            let card = card_of(&listening::text(ADDRESSES), address);
            SocketAddrV6::new(address, port, 0, card).into()
        }
    })
    .collect()
}

/// The number of the card that has this address, without which one that holds on its link only cannot be reached.
fn card_of(table: &str, address: Ipv6Addr) -> u32 {
    let digits = format!("{:032x}", address.to_bits());
    let line = table.lines().find_map(|line| line.strip_prefix(&digits));
    let number = line.and_then(|rest| u32::from_str_radix(rest.split_whitespace().next()?, 16).ok());
    number.filter(|_| address.is_unicast_link_local()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_a_link_is_reached_over_its_card() {
        let local: Ipv6Addr = "fe80::52ff:54:12:3456".parse().expect("an address");
        let cards = "00000000000000000000000000000001 01 80 10 80 lo\n\
                     fe8000000000000052ff005400123456 0c 40 20 80 eth0\n";
        assert_eq!(
            (card_of(cards, local), card_of(cards, Ipv6Addr::LOCALHOST), card_of("", local)),
            (12, 0, 0)
        );
    }
}
