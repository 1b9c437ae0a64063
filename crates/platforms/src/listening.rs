//! Who listens for TCP on this machine, or in this guest, as the kernel's tables say (proc(5)): nobody is asked, so nobody sees it.

use std::fs;
use std::io::Read;
use std::net::{IpAddr, Ipv6Addr};

/// The kernel's tables of TCP sockets.
const TABLES: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];
/// The state of a socket that listens: `TCP_LISTEN` of the kernel's `net/tcp_states.h`.
const LISTENS: &str = "0A";
/// Longest table that is read.
const MOST_BYTES: u64 = 16 << 20;

/// A socket that listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listener {
    /// At which address; unspecified for all.
    pub address: IpAddr,
    /// At which port.
    pub port: u16,
    /// Number of the socket, as the links in `/proc/PID/fd` have it.
    pub inode: u64,
}

/// All of them.
pub fn listeners() -> Vec<Listener> {
    TABLES.iter().flat_map(|table| in_table(&text(table)).collect::<Vec<_>>()).collect()
}

/// A table's text; nothing where the kernel has no such table.
pub(crate) fn text(table: &str) -> String {
    let mut text = String::new();
    let read = fs::File::open(table).and_then(|file| file.take(MOST_BYTES).read_to_string(&mut text));
    read.map_or_else(|_| String::new(), |_| text)
}

fn in_table(table: &str) -> impl Iterator<Item = Listener> {
    let listener = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        let (local, state) = (words.next()?, words.nth(1)?);
        let (address, port) = local.rsplit_once(':')?;
        let (address, port) = (address_of(address)?, u16::from_str_radix(port, 16).ok()?);
        let inode = words.nth(5).and_then(|word| word.parse().ok()).unwrap_or(0);
        (state == LISTENS).then_some(Listener { address, port, inode })
    };
    table.lines().skip(1).filter_map(listener)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sockets_that_listen_count() {
        let table = "  sl  local_address rem_address   st tx_queue\n\
                     \x20  0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0\n\
                     \x20  1: 0100007F:0050 0100007F:D2F0 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0\n\
                     \nx\n";
        let all: Vec<(u16, u64)> = in_table(table).map(|one| (one.port, one.inode)).collect();
        assert_eq!(all, [(8080, 4711)]);
        assert_eq!(in_table("").count(), 0);
    }

    #[test]
    fn addresses_are_read_in_both_versions() {
        let table = "  sl\n 0: 0200007F:0050 0:0 0A\n 1: 000080FE000000005400FF5256341200:0050 0:0 0A\n\
                     2: 0000000000000000FFFF00000200007F:0050 0:0 0A\n 3: 0:0050 0:0 0A\n";
        let got: Vec<String> = in_table(table).map(|one| one.address.to_string()).collect();
        assert_eq!(got, ["127.0.0.2", "fe80::52ff:54:12:3456", "127.0.0.2"]);
    }
}
