//! Who waits, in lines: virtual CPUs of a VM that may use the same CPUs stand in one line, and the lines of all VMs queue
//! for each set of CPUs. What changes for a VM (its time, its limit) moves its lines, not everybody in them.
//!
//! ```text
//!  CPU 3 ─┬─ set "all"    ─► line of A: A.2 A.0      a pick compares the first lines of the sets that its CPU is in
//!         │                  line of B: B.1
//!         └─ set "CPU 3"  ─► line of C: C.3
//! ```

use super::forest::{Forest, Measure, Set};
use crate::host::{CpuId, CpuSet, VcpuId, View, VmId};
use crate::time::Time;

#[derive(Debug, Clone, Copy)]
struct Line {
    vm: VmId,
    /// Number of the set of CPUs.
    set: u32,
    waiting: Set,
}

/// The lines. `K` orders virtual CPUs within a line, then their numbers do; `H` orders lines, then those of earlier VMs come
/// first; `M` is a measure of lines that queries bound.
#[derive(Debug, Clone)]
pub struct Lines<K, H, N = (), M = ()> {
    vcpus: Forest<K, N>,
    heads: Forest<H, M>,
    all: Vec<Line>,
    /// First line of each VM, and behind the last.
    first_of: Vec<u32>,
    /// Per set of CPUs, its queue of lines.
    queues: Vec<Set>,
    /// Per CPU, the sets it is in.
    sets_on: Vec<Vec<u32>>,
    /// VMs of which a CPU can serve several lines.
    mixed: Vec<VmId>,
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

impl<K: Ord + Copy, H: Ord + Copy, N: Measure, M: Measure> Lines<K, H, N, M> {
    /// Empty ones for the virtual CPUs there are, with any values for what is empty.
    pub fn new(view: &View, (key, within): (K, N), (head, measure): (H, M)) -> Self {
        let (mut lines, mut first_of, mut mixed) = (Vec::new(), vec![0], Vec::new());
        for (vm, of) in view.vms.iter().zip(0u32..) {
            let mut sets: Vec<u32> = Vec::new();
            for vcpu in vm.vcpus() {
                let set = view.vcpu(vcpu).affinity;
                if sets.last() != Some(&set) {
                    sets.push(set);
                }
            }
            sets.sort_unstable();
            sets.dedup();
            let cpus = || sets.iter().flat_map(|set| view.affinities[*set as usize].iter());
            if sets.len() > 1 && cpus().count() > cpus().collect::<CpuSet>().len() as usize {
                mixed.push(VmId(of));
            }
            lines.extend(sets.into_iter().map(|set| Line { vm: VmId(of), set, waiting: Set::EMPTY }));
            first_of.push(number(lines.len()));
        }
        let mut sets_on: Vec<Vec<u32>> = vec![Vec::new(); view.cpus.len()];
        for (set, number) in view.affinities.iter().zip(0u32..) {
            for cpu in set.iter() {
                if let Some(sets) = sets_on.get_mut(cpu as usize) {
                    sets.push(number);
                }
            }
        }
        Self {
            vcpus: Forest::new(view.vcpus.len(), key, within),
            heads: Forest::new(lines.len(), head, measure),
            queues: vec![Set::EMPTY; view.affinities.len()],
            all: lines,
            first_of,
            sets_on,
            mixed,
        }
    }

    /// Whether it waits.
    pub fn holds(&self, vcpu: VcpuId) -> bool {
        self.vcpus.holds(vcpu.0)
    }

    /// Its key, or the one that it had last.
    pub fn key(&self, vcpu: VcpuId) -> K {
        self.vcpus.key(vcpu.0)
    }

    /// Changes the key of one that does not wait.
    pub fn set_key(&mut self, vcpu: VcpuId, key: K) {
        self.vcpus.set_key(vcpu.0, key);
    }

    fn lines_of(&self, vm: VmId) -> std::ops::Range<u32> {
        self.first_of[vm.index()]..self.first_of[vm.index() + 1]
    }

    fn line_of(&self, vcpu: VcpuId, view: &View) -> usize {
        let it = view.vcpu(vcpu);
        let range = self.lines_of(it.vm);
        let first = range.start as usize;
        let lines = &self.all[first..range.end as usize];
        // Almost every VM has one.
        if lines.len() == 1 {
            return first;
        }
        first + lines.partition_point(|line| line.set < it.affinity)
    }

    /// Lets one that does not wait join its line; [`Self::queue`] has to follow.
    pub fn push(&mut self, vcpu: VcpuId, key: K, within: N, view: &View) {
        let line = self.line_of(vcpu, view);
        self.vcpus.insert(&mut self.all[line].waiting, vcpu.0, key, within);
    }

    /// Takes one that waits out of its line; [`Self::queue`] has to follow.
    pub fn remove(&mut self, vcpu: VcpuId, view: &View) {
        let line = self.line_of(vcpu, view);
        self.vcpus.remove(&mut self.all[line].waiting, vcpu.0);
    }

    /// Brings the lines of a VM to their places: `place` says, of who is next in each line, what its line's is; none where
    /// the VM may not run.
    pub fn queue(
        &mut self,
        vm: VmId,
        meets: &impl Fn(N) -> bool,
        place: impl Fn(&Self, VcpuId) -> Option<(H, M)>,
    ) where
        M: PartialEq,
    {
        for number in self.lines_of(vm) {
            let next = self.head(number, meets).and_then(|head| place(self, head));
            let queue = &mut self.queues[self.all[number as usize].set as usize];
            if self.heads.holds(number) {
                if next == Some((self.heads.key(number), self.heads.own(number))) {
                    continue;
                }
                self.heads.remove(queue, number);
            }
            if let Some((key, own)) = next {
                self.heads.insert(queue, number, key, own);
            }
        }
    }

    /// VMs of which a CPU can serve several lines: who of them is next there, no line alone says.
    pub fn mixed(&self) -> impl Iterator<Item = VmId> + '_ {
        self.mixed.iter().copied()
    }

    /// Since when who is next of a VM's line waits, for who looks for those that starve; never where no line alone says it,
    /// and where nobody starves.
    pub fn since(&self, vm: VmId, head: VcpuId, is_free: bool, view: &View) -> Time {
        let says = !is_free && self.mixed.binary_search(&vm).is_err();
        if says { view.vcpu(head).since } else { Time::NEVER }
    }

    /// Of each set that a CPU is in, the VM of the first line whose measure meets a bound.
    pub fn firsts<'a>(
        &'a self,
        cpu: CpuId,
        meets: &'a impl Fn(M) -> bool,
    ) -> impl Iterator<Item = VmId> + 'a {
        let sets = self.sets_on[cpu.index()].iter();
        let first = |set: &u32| self.heads.first_within(self.queues[*set as usize], meets);
        sets.filter_map(first).map(|line| self.all[line as usize].vm)
    }

    /// Who is next in a line: the first whose measure meets a bound, or else the first.
    pub fn head(&self, line: u32, meets: &impl Fn(N) -> bool) -> Option<VcpuId> {
        let waiting = self.all[line as usize].waiting;
        self.vcpus.first_within(waiting, meets).or_else(|| waiting.first()).map(VcpuId)
    }

    /// Lines of a VM in which somebody waits who may use a CPU.
    pub fn of_vm_on(&self, vm: VmId, cpu: CpuId) -> impl Iterator<Item = u32> + '_ {
        let sets = &self.sets_on[cpu.index()];
        let may = |line: &u32| sets.binary_search(&self.all[*line as usize].set).is_ok();
        self.lines_of(vm).filter(move |line| !self.all[*line as usize].waiting.is_empty() && may(line))
    }

    /// Calls `each` with who waits where his VM may run, set by set and line by line, until that says no of a line.
    pub fn walk(&self, each: &mut impl FnMut(VcpuId, K) -> bool) {
        for queue in &self.queues {
            self.heads.walk(*queue, &mut |line| {
                let mut any = false;
                self.vcpus.walk(self.all[line as usize].waiting, &mut |vcpu| {
                    let goes_on = each(VcpuId(vcpu), self.vcpus.key(vcpu));
                    any |= goes_on;
                    goes_on
                });
                any
            });
        }
    }
}

impl<P: Ord + Copy> Lines<P, P> {
    /// Who is next on a CPU, where places in line are places among lines: least key, then least number.
    pub fn first(&self, cpu: CpuId) -> Option<VcpuId> {
        let sets = self.sets_on[cpu.index()].iter();
        let lines = sets.filter_map(|set| self.queues[*set as usize].first());
        let heads = lines.filter_map(|line| self.head(line, &|()| true));
        heads.min_by_key(|vcpu| (self.key(*vcpu), *vcpu))
    }
}
