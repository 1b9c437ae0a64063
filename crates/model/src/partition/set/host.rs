//! What a set needs of a host, held against what the host has: never more memory than there is.

use super::{Fault, Faults, PartitionSet};
use crate::partition::NumberList;
use units::{Bytes, Mebibytes};

/// Memory that QEMU itself takes for a guest, beside the guest's own: a round figure above what is seen for small
/// machines.
pub const OVERHEAD: Mebibytes = Mebibytes::from_mib(48);

/// What a host has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostSize {
    /// CPUs that are online and that we may use.
    pub cpus: NumberList,
    /// Memory in all.
    pub memory: Bytes,
    /// Its memory nodes; empty where it does not say.
    pub nodes: Vec<HostNode>,
}

/// A memory node of a host.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostNode {
    /// Its number.
    pub number: u32,
    /// Memory in all.
    pub memory: Bytes,
}

impl PartitionSet {
    /// All keys that ask for what a host does not have.
    pub fn check_on(&self, host: &HostSize) -> Vec<Fault> {
        let online = host.cpus.numbers();
        let mut faults = Faults::default();
        for (name, entry) in &self.partitions {
            let mut fault = |key: &str, problem: String| faults.add(&["partition", name, key], problem);
            let missing = entry.pin.iter().flat_map(NumberList::numbers).find(|cpu| !online.contains(cpu));
            if let Some(cpu) = missing {
                fault("pin", format!("CPU {cpu} is not there, or not ours: there are {}", host.cpus));
            }
            if entry.cpus as usize > online.len() {
                fault("cpus", format!("{} CPUs are more than the {} there are", entry.cpus, online.len()));
            }
            if let Some(node) = entry.node
                && !host.nodes.iter().any(|there| there.number == node)
                && !(node == 0 && host.nodes.is_empty())
            {
                let there = NumberList::of(host.nodes.iter().map(|node| node.number));
                fault("node", format!("there is no memory node {node}: there are {there}"));
            }
        }
        // Without the partitions the channels are not asked about.
        let whole = self.fits(host.memory, "this host has", |_| true);
        faults.note(whole.and_then(|()| self.channels_fit(host.memory)));
        for node in &host.nodes {
            let words = format!("memory node {} has", node.number);
            faults.note(self.fits(node.memory, &words, |wanted| wanted == Some(node.number)));
        }
        faults.into()
    }

    /// The memory of channels comes on top of that of all partitions.
    fn channels_fit(&self, there: Bytes) -> Result<(), Fault> {
        let partitions = self.partitions.values().map(|entry| entry.memory_mib.get() + OVERHEAD.get());
        let mut sum = partitions.fold(0, u64::saturating_add);
        for (name, channel) in &self.channels {
            sum = sum.saturating_add(channel.size_mib.get());
            let wanted = Mebibytes::from_mib(sum).to_bytes();
            if wanted > there {
                let problem = format!(
                    "up to and with this channel the set needs {wanted}, this host has {there}; memory is never promised twice"
                );
                return Err(Fault::new(&["channel", name, "size_mib"], problem));
            }
        }
        Ok(())
    }

    /// The fault is the partition with which it becomes too much.
    fn fits(&self, there: Bytes, words: &str, counts: impl Fn(Option<u32>) -> bool) -> Result<(), Fault> {
        let mut sum: u64 = 0;
        for (name, entry) in self.partitions.iter().filter(|(_, entry)| counts(entry.node)) {
            let one = entry.memory_mib.to_bytes().get().saturating_add(OVERHEAD.to_bytes().get());
            sum = sum.saturating_add(one);
            if sum > there.get() {
                let problem = format!(
                    "up to and with this partition the set needs {} ({OVERHEAD} MiB of QEMU's own each), {words} {there}; \
                     memory is never promised twice",
                    Bytes::from_bytes(sum),
                    OVERHEAD = OVERHEAD.get()
                );
                return Err(Fault::new(&["partition", name, "memory_mib"], problem));
            }
        }
        Ok(())
    }
}
