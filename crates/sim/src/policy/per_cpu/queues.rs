//! Run queues, one per CPU or per group of CPUs. Those who may use the same CPUs stand in a tree of their own, so that who is
//! first of those that another CPU may take is found in logarithmic time.
//!
//! ```text
//!  queue 0 ─┬─ may use all CPUs   C.0 B.1 …
//!           └─ bound to CPU 0     D.0
//! ```

use crate::host::{CpuId, VcpuId, View};
use crate::policy::forest::{Forest, Set};

/// The queues; keys order everybody in one, and no two in it have the same.
#[derive(Debug, Clone)]
pub struct RunQueues<K> {
    forest: Forest<K>,
    /// By queue, sets of CPUs and who waits that may use them.
    waiting: Vec<Vec<(u32, Set)>>,
    len: Vec<u32>,
    /// Which queue each stands in.
    place: Vec<u32>,
}

impl<K: Ord + Copy> RunQueues<K> {
    /// So many, empty; any key will do.
    pub fn new(queues: usize, view: &View, key: K) -> Self {
        Self {
            forest: Forest::new(view.vcpus.len(), key, ()),
            waiting: vec![Vec::new(); queues],
            len: vec![0; queues],
            place: vec![0; view.vcpus.len()],
        }
    }

    /// Whether it waits in any.
    pub fn holds(&self, vcpu: VcpuId) -> bool {
        self.forest.holds(vcpu.0)
    }

    /// The key it has, or had last.
    pub fn key(&self, vcpu: VcpuId) -> K {
        self.forest.key(vcpu.0)
    }

    /// The queue that it waits in, or waited in last.
    pub fn place(&self, vcpu: VcpuId) -> u32 {
        self.place[vcpu.index()]
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
            waiting.push((set, Set::EMPTY));
            waiting.len() - 1
        });
        self.forest.insert(&mut waiting[at].1, vcpu.0, key, ());
        self.len[queue as usize] += 1;
        self.place[vcpu.index()] = queue;
    }

    /// Takes out one that waits.
    pub fn remove(&mut self, vcpu: VcpuId, view: &View) {
        let (set, queue) = (view.vcpu(vcpu).affinity, self.place(vcpu));
        let waiting = &mut self.waiting[queue as usize];
        let Some(at) = waiting.iter().position(|(of, _)| *of == set) else { return };
        self.forest.remove(&mut waiting[at].1, vcpu.0);
        if waiting[at].1.is_empty() {
            waiting.swap_remove(at);
        }
        self.len[queue as usize] -= 1;
    }

    /// Who comes first in a queue.
    pub fn first(&self, queue: u32) -> Option<VcpuId> {
        self.least(self.waiting[queue as usize].iter())
    }

    /// The same of those that may use a CPU.
    pub fn first_on(&self, queue: u32, cpu: CpuId, view: &View) -> Option<VcpuId> {
        let waiting = self.waiting[queue as usize].iter();
        self.least(waiting.filter(|(set, _)| view.affinities[*set as usize].contains(cpu.0)))
    }

    fn least<'a>(&self, waiting: impl Iterator<Item = &'a (u32, Set)>) -> Option<VcpuId> {
        let firsts = waiting.filter_map(|(_, set)| set.first());
        firsts.min_by_key(|vcpu| (self.forest.key(*vcpu), *vcpu)).map(VcpuId)
    }

    /// Everybody in a queue, in order.
    pub fn all(&self, queue: u32) -> Vec<VcpuId> {
        let mut all = Vec::new();
        for (_, set) in &self.waiting[queue as usize] {
            self.forest.walk(*set, &mut |vcpu| {
                all.push(VcpuId(vcpu));
                true
            });
        }
        all.sort_unstable_by_key(|vcpu| (self.key(*vcpu), *vcpu));
        all
    }
}
