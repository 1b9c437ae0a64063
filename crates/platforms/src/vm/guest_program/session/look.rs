//! What can be seen of a program from beside it: whether it listens, and where, whether it has made a file.

use std::fs;
use std::io::Read;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

use model::partition::session::Look;

/// The kernel's tables of TCP sockets (proc(5)).
const TABLES: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];
/// Its table of IPv6 addresses: address, number of the card and more, in hexadecimal digits.
const ADDRESSES: &str = "/proc/net/if_inet6";
/// The state of a socket that listens: `TCP_LISTEN` of the kernel's `net/tcp_states.h`.
const LISTENS: &str = "0A";
/// Longest table that is read.
const MOST_BYTES: u64 = 16 << 20;

/// Whether it is so now. Nothing of it is seen by the program: nobody connects.
pub fn is_so(look: &Look) -> bool {
    match look {
        Look::File(path) => path.exists(),
        Look::Tcp(port) => TABLES.iter().any(|table| listening(&text(table), *port).next().is_some()),
    }
}

/// Where somebody listens at `port`: those that name an address of their own.
pub fn who_listens(port: u16) -> Vec<SocketAddr> {
    let tables = TABLES.map(text);
    let all = tables.iter().flat_map(|table| listening(table, port));
    let own = all.filter(|address| !address.is_unspecified());
    own.map(|address| match address {
        IpAddr::V4(_) => SocketAddr::new(address, port),
        IpAddr::V6(address) => SocketAddrV6::new(address, port, 0, card_of(&text(ADDRESSES), address)).into(),
    })
    .collect()
}

/// A table's text; nothing where the kernel has no such table.
fn text(table: &str) -> String {
    let mut text = String::new();
    let read = fs::File::open(table).and_then(|file| file.take(MOST_BYTES).read_to_string(&mut text));
    read.map_or_else(|_| String::new(), |_| text)
}

/// The addresses at which a table has sockets that listen at `port`.
fn listening(table: &str, port: u16) -> impl Iterator<Item = IpAddr> {
    let address_in = move |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        let (local, state) = (words.next()?, words.nth(1)?);
        let (address, number) = local.rsplit_once(':')?;
        let is_it = state == LISTENS && u16::from_str_radix(number, 16) == Ok(port);
        is_it.then(|| address_of(address)).flatten()
    };
    table.lines().skip(1).filter_map(address_in)
}

/// An address as these tables have it: words of 32 bits as the machine has them in memory.
fn address_of(digits: &str) -> Option<IpAddr> {
    let word = |at: usize| {
        let word = u32::from_str_radix(digits.get(8 * at..8 * at + 8)?, 16).ok()?;
        Some(word.to_ne_bytes())
    };
    match digits.len() {
        8 => word(0).map(IpAddr::from),
        32 => {
            let bytes: Vec<u8> = [word(0)?, word(1)?, word(2)?, word(3)?].concat();
            // One of version 4 that is written as one of version 6 is reached as the former.
            <[u8; 16]>::try_from(bytes).ok().map(|bytes| Ipv6Addr::from(bytes).to_canonical())
        }
        _ => None,
    }
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
    fn only_sockets_that_listen_count() {
        let table = "  sl  local_address rem_address   st tx_queue\n\
                     \x20  0: 0100007F:1F90 00000000:0000 0A 00000000:00000000\n\
                     \x20  1: 0100007F:0050 0100007F:D2F0 01 00000000:00000000\n\nx\n";
        let listens = |table, port| listening(table, port).next().is_some();
        assert!(listens(table, 8080));
        assert!(!listens(table, 80) && !listens(table, 0) && !listens("", 80));
    }

    #[test]
    fn where_somebody_listens_is_read_in_both_versions() {
        let table = "  sl\n 0: 0200007F:0050 0:0 0A\n 1: 000080FE000000005400FF5256341200:0050 0:0 0A\n\
                     2: 0000000000000000FFFF00000200007F:0050 0:0 0A\n 3: 0:0050 0:0 0A\n";
        let local: Ipv6Addr = "fe80::52ff:54:12:3456".parse().expect("an address");
        let got: Vec<String> = listening(table, 80).map(|address| address.to_string()).collect();
        assert_eq!(got, ["127.0.0.2".to_owned(), local.to_string(), "127.0.0.2".to_owned()]);
        let cards = "00000000000000000000000000000001 01 80 10 80 lo\n\
                     fe8000000000000052ff005400123456 0c 40 20 80 eth0\n";
        assert_eq!(
            (card_of(cards, local), card_of(cards, Ipv6Addr::LOCALHOST), card_of("", local)),
            (12, 0, 0)
        );
    }
}
