//! A real guest with doubled links: what becomes of it when switches die and come back. Needs QEMU and a guest kernel.

use crate::switch_fixture;

use std::time::Duration;

use bulkhead::partition::network::switch::SwitchOrder;
use bulkhead::platforms::Instance;
use bulkhead::platforms::ledger::{self, Ledger};
use switch_fixture::doubled::Doubled;
use switch_fixture::prober::Prober;
use switch_fixture::{Running, folder, guest};

/// Within which a card leaves a switch that hangs, on a quiet machine.
const STATED: Duration = Duration::from_millis(700);

#[test]
fn a_guest_with_doubled_links_outlives_each_switch() {
    let Some(tools) = guest::tools() else { return };
    let dir = tempfile::tempdir().unwrap();
    let ledger = Ledger::open(dir.path()).unwrap();
    let mut network = Doubled::start(&tools, &ledger, dir.path());
    let nics = &network.guest.facts().nics;
    assert!(nics.iter().any(|nic| nic.starts_with("bond0 ")), "{nics:?}");
    // The guest uses the first link, then stays at the second until that one dies.
    for link in [0, 1, 0] {
        eprintln!("switch {link} dies: {:?} without an answer", network.outage(link));
    }
    // One that hangs is left as one that died, and taken again when it works on.
    let gap = network.standstill(1);
    eprintln!("switch 1 stands still: {gap:?} without an answer");
    assert!(gap < STATED * 10, "{gap:?}, where {STATED:?} are stated");
    eprintln!("switch 0 dies: {:?} without an answer", network.outage(0));
    assert!(network.end());
    let said = ledger::sweep(dir.path());
    assert!(said.is_empty(), "left behind: {said:?}");
}

#[test]
fn a_guest_with_one_link_is_there_again_with_its_switch() {
    let Some(tools) = guest::tools() else { return };
    let dir = tempfile::tempdir().unwrap();
    let ledger = Ledger::open(dir.path()).unwrap();
    let link = folder(dir.path(), "a");
    let order = SwitchOrder { folder: link.clone(), ..SwitchOrder::default() };
    let first = Running::start(&order);
    let mut guest = guest::start(&tools, &ledger, 7, std::slice::from_ref(&link));
    Prober::at(&link, 7).ask_until_answered();
    assert!(first.terminate());
    let second = Running::start(&order);
    Prober::at(&link, 7).ask_until_answered();
    guest.end();
    assert!(second.terminate());
}
