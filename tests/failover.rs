//! A real guest with doubled links: what becomes of it when switches die and come back. Needs QEMU and a guest kernel;
//! says so and skips without.

mod switch_kit;

use std::path::Path;
use std::time::Duration;

use bulkhead::partition::network::switch::{Order, Trunk};
use bulkhead::platforms::Instance;
use bulkhead::platforms::ledger::{self, Ledger};
use switch_kit::prober::Prober;
use switch_kit::{Running, folder, guest, until};

/// The switches of a doubled network.
fn orders(dir: &Path) -> [Order; 2] {
    let prefix = Some([2, 0x4b, 10, 77, 1]);
    let [a, b] = ["a", "b"].map(|name| folder(dir, name));
    let trunk = b.join("trunk");
    [
        Order { folder: a, prefix, trunk: Some(Trunk::To(trunk.clone())), ..Order::default() },
        Order { folder: b, prefix, trunk: Some(Trunk::At(trunk)), ..Order::default() },
    ]
}

#[test]
fn a_guest_with_doubled_links_outlives_each_switch() {
    let Some(tools) = guest::tools() else { return };
    let dir = tempfile::tempdir().unwrap();
    let ledger = Ledger::open(dir.path()).unwrap();
    let orders = orders(dir.path());
    let mut first = Running::start(&orders[0]);
    let second = Running::start(&orders[1]);
    let links = orders.each_ref().map(|order| order.folder.clone());
    let mut guest = guest::start(&tools, &ledger, 7, &links);
    assert!(guest.facts().nics.iter().any(|nic| nic.starts_with("bond0 ")), "{:?}", guest.facts().nics);

    // The prober hangs at the switch that stays; the guest talks through the other one, which dies.
    let mut prober = Prober::at(&links[1], 7);
    for round in 0..2 {
        prober.ask_until_answered();
        prober.ask_for(Duration::from_millis(500));
        first.0.kill().unwrap();
        first.0.wait().unwrap();
        prober.ask_for(Duration::from_secs(2));
        prober.ask_until_answered();
        let counts = second.state().plugs[&7];
        assert!(
            counts.connected && counts.received_frames > 0,
            "round {round}: through the standby: {counts:?}"
        );
        first = Running::start(&orders[0]);
        until("its plugs are found again", || {
            first.state().plugs.get(&7).filter(|plug| plug.connected).copied()
        });
    }
    eprintln!("longest time without an answer: {:?}", prober.longest_gap());
    guest.end();
    drop(guest);
    assert!(first.terminate() && second.terminate());
    let said = ledger::sweep(dir.path());
    assert!(said.is_empty(), "left behind: {said:?}");
}

#[test]
fn a_guest_with_one_link_is_there_again_with_its_switch() {
    let Some(tools) = guest::tools() else { return };
    let dir = tempfile::tempdir().unwrap();
    let ledger = Ledger::open(dir.path()).unwrap();
    let link = folder(dir.path(), "a");
    let order = Order { folder: link.clone(), ..Order::default() };
    let first = Running::start(&order);
    let mut guest = guest::start(&tools, &ledger, 7, std::slice::from_ref(&link));
    Prober::at(&link, 7).ask_until_answered();
    assert!(first.terminate());
    let second = Running::start(&order);
    Prober::at(&link, 7).ask_until_answered();
    guest.end();
    assert!(second.terminate());
}
