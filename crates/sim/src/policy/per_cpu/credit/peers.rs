//! Which CPUs have somebody waiting whom another CPU may take, by how urgent they are: a thief looks at a few words of bits, not at
//! all queues.

use std::collections::BTreeMap;

use crate::host::{CpuId, CpuSet, View};

/// Those of one urgency who may use the same CPUs.
#[derive(Debug, Clone, Default)]
struct Waiting {
    /// CPUs in whose queues some wait.
    at: CpuSet,
    count: BTreeMap<u32, u32>,
}

/// The index; urgencies are small numbers, less is sooner.
#[derive(Debug, Clone, Default)]
pub struct Peers {
    waiting: BTreeMap<(u32, u8), Waiting>,
    /// Per CPU, sets of several CPUs that it is in.
    sets_on: Vec<Vec<u32>>,
}

impl Peers {
    /// Nobody waits yet.
    pub fn new(view: &View) -> Self {
        let mut sets_on = vec![Vec::new(); view.cpus.len()];
        for (set, number) in view.affinities.iter().zip(0u32..).filter(|(set, _)| set.len() > 1) {
            for cpu in set.iter() {
                if let Some(sets) = sets_on.get_mut(cpu as usize) {
                    sets.push(number);
                }
            }
        }
        Self { waiting: BTreeMap::new(), sets_on }
    }

    /// One of this urgency who may use this set waits at a CPU.
    pub fn add(&mut self, set: u32, urgency: u8, at: CpuId) {
        let waiting = self.waiting.entry((set, urgency)).or_default();
        waiting.at.insert(at.0);
        *waiting.count.entry(at.0).or_default() += 1;
    }

    /// One does not any more.
    pub fn take(&mut self, set: u32, urgency: u8, at: CpuId) {
        let Some(waiting) = self.waiting.get_mut(&(set, urgency)) else { return };
        let Some(count) = waiting.count.get_mut(&at.0) else { return };
        *count -= 1;
        if *count == 0 {
            waiting.count.remove(&at.0);
            waiting.at.remove(at.0);
        }
    }

    /// CPUs at which somebody waits whom this CPU may take, less urgent than `bound` left out.
    pub fn below(&self, bound: u8, cpu: CpuId) -> CpuSet {
        let mut at = CpuSet::default();
        for set in &self.sets_on[cpu.index()] {
            for (_, waiting) in self.waiting.range((*set, 0)..(*set, bound)) {
                at.unite(&waiting.at);
            }
        }
        at.remove(cpu.0);
        at
    }
}
