//! Run queues, one per CPU or per group of CPUs. Those who may use the same CPUs stand in a tree of their own, so that who is
//! first of those that another CPU may take is found in logarithmic time.
//!
//! ```text
//!  queue 0 ─┬─ may use all CPUs   C.0 B.1 …
//!           └─ bound to CPU 0     D.0
//! ```
//! They are B-trees: who joins a queue of a hundred thousand near its end touches a few nodes, where a binary tree has twenty.

use std::collections::BTreeSet;

use crate::host::{CpuId, VcpuId, View};

/// What is known of a virtual CPU.
#[derive(Debug, Clone, Copy)]
struct Place<K> {
    key: K,
    queue: u32,
    waits: bool,
}

/// A set of CPUs by its number, and who waits that may use them, in order.
type Class<K> = (u32, BTreeSet<(K, VcpuId)>);

/// The queues; keys order everybody in one, then their numbers do.
#[derive(Debug, Clone)]
pub struct RunQueues<K> {
    places: Vec<Place<K>>,
    /// By queue.
    waiting: Vec<Vec<Class<K>>>,
    len: Vec<u32>,
}

impl<K: Ord + Copy> RunQueues<K> {
    /// So many, empty; any key will do.
    pub fn new(queues: usize, view: &View, key: K) -> Self {
        Self {
            places: vec![Place { key, queue: 0, waits: false }; view.vcpus.len()],
            waiting: vec![Vec::new(); queues],
            len: vec![0; queues],
        }
    }

    /// Whether it waits in any.
    pub fn holds(&self, vcpu: VcpuId) -> bool {
        self.places[vcpu.index()].waits
    }

    /// The key it has, or had last.
    pub fn key(&self, vcpu: VcpuId) -> K {
        self.places[vcpu.index()].key
    }

    /// The queue that it waits in, or waited in last.
    pub fn place(&self, vcpu: VcpuId) -> u32 {
        self.places[vcpu.index()].queue
    }

    /// How many wait in a queue.
    pub fn len(&self, queue: u32) -> u32 {
        self.len[queue as usize]
    }

    /// Takes in one that does not wait.
    pub fn push(&mut self, queue: u32, vcpu: VcpuId, key: K, view: &View) {
        let set = view.vcpu(vcpu).affinity;
        let waiting = &mut self.waiting[queue as usize];
        let at = waiting.iter().position(|(of, _)| *of == set).unwrap_or_else(|| {
            waiting.push((set, BTreeSet::new()));
            waiting.len() - 1
        });
        waiting[at].1.insert((key, vcpu));
        self.len[queue as usize] += 1;
        self.places[vcpu.index()] = Place { key, queue, waits: true };
    }

    /// Takes out one that waits.
    pub fn remove(&mut self, vcpu: VcpuId, view: &View) {
        let set = view.vcpu(vcpu).affinity;
        let Place { key, queue, waits } = &mut self.places[vcpu.index()];
        let waiting = &mut self.waiting[*queue as usize];
        let Some(at) = waiting.iter().position(|(of, _)| *of == set) else { return };
        waiting[at].1.remove(&(*key, vcpu));
        if waiting[at].1.is_empty() {
            waiting.swap_remove(at);
        }
        *waits = false;
        self.len[*queue as usize] -= 1;
    }

    /// Who comes first in a queue.
    pub fn first(&self, queue: u32) -> Option<VcpuId> {
        least(self.waiting[queue as usize].iter())
    }

    /// The same of those that may use a CPU.
    pub fn first_on(&self, queue: u32, cpu: CpuId, view: &View) -> Option<VcpuId> {
        let waiting = self.waiting[queue as usize].iter();
        least(waiting.filter(|(set, _)| view.affinities[*set as usize].contains(cpu.0)))
    }

    /// Everybody in a queue, in order.
    pub fn all(&self, queue: u32) -> Vec<VcpuId> {
        let sets = self.waiting[queue as usize].iter();
        let mut all: Vec<_> = sets.flat_map(|(_, set)| set.iter().copied()).collect();
        all.sort_unstable();
        all.into_iter().map(|(_, vcpu)| vcpu).collect()
    }
}

fn least<'a, K: Ord + Copy + 'a>(waiting: impl Iterator<Item = &'a Class<K>>) -> Option<VcpuId> {
    waiting.filter_map(|(_, set)| set.first()).min().map(|(_, vcpu)| *vcpu)
}
