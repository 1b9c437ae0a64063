//! Interrupts that packets cause, as the kernel counts them: those of the network card a load uses, and the soft ones in
//! which the kernel handles packets.
//!
//! One interrupt may stand for many packets: under load the kernel masks a card's interrupts and polls. So the two are
//! told apart, and neither is computed from packets. Sources: `/proc/interrupts`, `/proc/softirqs`, proc(5); NAPI in the
//! kernel's `Documentation/networking/napi.rst`. A container sees those of its whole host.

use std::path::Path;

use super::outlet::Outlet;
use crate::accounts::read_bounded;
use crate::accounts::table::{Row, rows_of_all};

/// The kinds of soft interrupts in which packets are handled.
const OF_PACKETS: [&str; 2] = ["NET_RX", "NET_TX"];

/// Counts so far, or between two moments; none where the kernel does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Hits {
    /// Of the network card.
    pub of_card: Option<u64>,
    /// Soft ones.
    pub soft: Option<u64>,
}

impl Hits {
    /// Counts so far; those of a card only on a way out that begins at one.
    pub fn so_far(outlet: Option<&Outlet>) -> Self {
        let table = |name: &str| Some(rows_of_all(&read_bounded(&Path::new("/proc").join(name)).ok()?));
        let card = outlet.map(Outlet::card).filter(|names| !names.is_empty());
        Self {
            of_card: card.and_then(|names| sum(&table("interrupts")?, |row| is_of(row, names))),
            soft: table("softirqs")
                .and_then(|rows| sum(&rows, |row| OF_PACKETS.contains(&row.name.as_str()))),
        }
    }

    /// What was added since `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        let added = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        Self { of_card: added(self.of_card, before.of_card), soft: added(self.soft, before.soft) }
    }
}

/// None when no row fits: then the kernel calls it otherwise, which is not the same as nothing.
fn sum(rows: &[Row], is_wanted: impl Fn(&Row) -> bool) -> Option<u64> {
    let mut wanted = rows.iter().filter(|row| is_wanted(row)).map(Row::total).peekable();
    wanted.peek()?;
    Some(wanted.fold(0, u64::saturating_add))
}

/// Whether a row is one of a card's: drivers ask for interrupts under its name, or that and a queue's: `eth0`,
/// `eth0-TxRx-1`, `virtio1-input.0`.
fn is_of(row: &Row, names: &[String]) -> bool {
    let words = row.about.split(|c: char| c.is_whitespace() || c == ',');
    let is_name = |word: &str, name: &str| {
        word.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', ':', '.', '@']))
    };
    words.into_iter().any(|word| names.iter().any(|name| is_name(word, name)))
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, UdpSocket};

    use super::*;

    const TEXT: &str = "CPU0 CPU1\n 10: 1 2 IO-APIC 10-fasteoi virtio1, eth0\n 11: 5 5 IO-APIC 11-fasteoi eth01\n \
                        24: 0 7 PCI-MSI 1-edge virtio2-input.0\n 25: 9 9 PCI-MSI 2-edge virtio22-input.0\nLOC: 3 3 Local timer\n";

    #[test]
    fn rows_of_a_card_are_those_with_its_name_or_its_devices() {
        let rows = rows_of_all(TEXT);
        let of = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            sum(&rows, |row| is_of(row, &names))
        };
        assert_eq!((of(&["eth0"]), of(&["eth1", "virtio2"])), (Some(3), Some(7)));
        assert_eq!(of(&["eth5"]), None, "a card that is not named is not one without interrupts");
    }

    #[test]
    fn packets_over_the_loopback_device_are_soft_interrupts_only() {
        crate::loopback::ensure_up().unwrap();
        let before = Hits::so_far(None);
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let to = socket.local_addr().unwrap();
        for _ in 0..100 {
            socket.send_to(&[1], to).unwrap();
        }
        let hits = Hits::so_far(None).since(before);
        assert_eq!(hits.of_card, None);
        assert!(hits.soft.unwrap() > 0);
        assert_eq!(Hits::default().since(before), Hits::default());
    }
}
