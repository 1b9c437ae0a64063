//! A network with doubled links, a real guest in it, and what happens from outside when the switch in use dies or hangs.
//!
//! ```text
//!   guest ─┬─ eth0 ── switch 0 ─┐ trunk         the switch in use is killed or stopped; the prober hangs at the other one, so
//!          └─ eth1 ── switch 1 ─┘               what it sees is the guest's outage and nothing of its own
//! ```

use std::path::{Path, PathBuf};
use std::time::Duration;

use bulkhead::partition::network::switch::{SwitchOrder, Trunk};
use bulkhead::platforms::instance::AgentInstance;
use bulkhead::platforms::ledger::Ledger;
use bulkhead::platforms::vm::toolbox::Toolbox;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::prober::Prober;
use super::{Running, folder, guest, until};

/// Number of the partition.
const PARTITION: u8 = 7;

/// The network with its guest.
pub struct Doubled {
    orders: [SwitchOrder; 2],
    switches: Vec<Running>,
    /// The guest.
    pub guest: AgentInstance,
}

impl Doubled {
    /// Starts all of it in a folder of its own.
    pub fn start(tools: &Toolbox, ledger: &Ledger, dir: &Path) -> Self {
        let prefix = Some([2, 0x4b, 10, 77, 1]);
        let [a, b] = ["a", "b"].map(|name| folder(dir, name));
        let trunk = b.join("trunk");
        let orders = [
            SwitchOrder {
                folder: a,
                prefix,
                trunk: Some(Trunk::To(trunk.clone())),
                ..SwitchOrder::default()
            },
            SwitchOrder { folder: b, prefix, trunk: Some(Trunk::At(trunk)), ..SwitchOrder::default() },
        ];
        let switches = orders.iter().map(Running::start).collect();
        let links: Vec<PathBuf> = orders.iter().map(|order| order.folder.clone()).collect();
        let guest = guest::start(tools, ledger, PARTITION, &links);
        Self { orders, switches, guest }
    }

    /// Kills the switch of a link, which is in use, and returns the longest time without an answer; then starts it anew.
    pub fn outage(&mut self, link: usize) -> Duration {
        let longest = self.without(link, |switch| {
            switch.0.kill().expect("it runs");
            switch.0.wait().expect("a child of ours");
        });
        self.switches[link] = Running::start(&self.orders[link]);
        let back = &self.switches[link];
        until("its plugs are found again", || {
            back.state().plugs.get(&PARTITION).filter(|plug| plug.connected).copied()
        });
        longest
    }

    /// The same, but the switch only stands still for a while and goes on then.
    pub fn standstill(&mut self, link: usize) -> Duration {
        let pid = Pid::from_raw(i32::try_from(self.switches[link].0.id()).expect("a number"));
        let longest = self.without(link, |_| kill(pid, Signal::SIGSTOP).expect("it runs"));
        kill(pid, Signal::SIGCONT).expect("it stands still");
        longest
    }

    /// Ends the work of a switch in use, and returns the longest time without an answer through the other one.
    fn without(&mut self, link: usize, end: impl FnOnce(&mut Running)) -> Duration {
        let other = 1 - link;
        let mut prober = Prober::at(&self.orders[other].folder, PARTITION);
        prober.ask_until_answered();
        prober.ask_for(Duration::from_millis(500));
        let received = |switches: &[Running]| switches[other].state().plugs[&PARTITION].received_frames;
        let before = received(&self.switches);
        end(&mut self.switches[link]);
        prober.ask_for(Duration::from_secs(1));
        prober.ask_until_answered();
        until("the guest speaks through the other switch", || {
            (received(&self.switches) > before).then_some(())
        });
        prober.longest_gap()
    }

    /// Ends all of it; says whether the switches ended well.
    pub fn end(self) -> bool {
        drop(self.guest);
        self.switches.into_iter().all(Running::terminate)
    }
}
