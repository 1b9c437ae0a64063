//! What can be seen of a program from beside it: whether it listens, whether it has made a file.

use std::fs;
use std::io::Read;

use crate::model::partition::session::Look;

/// The kernel's tables of TCP sockets (proc(5)).
const TABLES: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];
/// The state of a socket that listens: `TCP_LISTEN` of the kernel's `net/tcp_states.h`.
const LISTENS: &str = "0A";
/// Longest table that is read.
const MOST_BYTES: u64 = 16 << 20;

/// Whether it is so now. Nothing of it is seen by the program: nobody connects.
pub fn is_so(look: &Look) -> bool {
    match look {
        Look::File(path) => path.exists(),
        Look::Tcp(port) => TABLES.iter().any(|table| {
            let mut text = String::new();
            let read = fs::File::open(table).and_then(|file| file.take(MOST_BYTES).read_to_string(&mut text));
            read.is_ok() && listens(&text, *port)
        }),
    }
}

/// Whether a table has a socket that listens at `port`.
fn listens(table: &str, port: u16) -> bool {
    let is_it = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        let (local, state) = (words.next()?, words.nth(1)?);
        let (_, number) = local.rsplit_once(':')?;
        Some(state == LISTENS && u16::from_str_radix(number, 16) == Ok(port))
    };
    table.lines().skip(1).any(|line| is_it(line).unwrap_or(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sockets_that_listen_count() {
        let table = "  sl  local_address rem_address   st tx_queue\n\
                     \x20  0: 0100007F:1F90 00000000:0000 0A 00000000:00000000\n\
                     \x20  1: 0100007F:0050 0100007F:D2F0 01 00000000:00000000\n\nx\n";
        assert!(listens(table, 8080));
        assert!(!listens(table, 80) && !listens(table, 0) && !listens("", 80));
    }
}
