//! A fixed round of slots, the same on every CPU: each slot has an owner, and only the owner runs in it.
//!
//! ```text
//!  round A A A io     A     A     A     io    A     A     A     io          q: length of a slot
//!            CPU 0 ├─────┼─────┼─────┼─────┼─────┼─────┼─────┼─────┤
//!            runs    A.0   A.0   A.0   io    A.0   A.0   A.0   idle ◄── or the next in the round, with yielding
//! ```
//! Source: the research hypervisor rHype, as described in Van Hensbergen, "The Effect of Virtualization on OS Interference"
//! (2005): fixed
//! slots, by default of 20 ms, nine for the application and one for the I/O controller; as future work yielding when
//! idle, several slots for I/O, and a split between I/O and computing that follows the load. For a run of slots of length
//! S per round and G for the others, a work quantum w whose phase in its own slots is uniform takes at least
//! w + (⌈w/S⌉−1)·G, at most w + ⌈w/S⌉·G, on average w·(S+G)/S, with variance G²·f(1−f), f = frac(w/S).
//!
//! Virtual CPU i of a VM runs on CPU i modulo CPUs (of those that it may use); several on one CPU take turns, slot by
//! slot. A slot that nobody owns stays empty also where others yield.

use super::forest::{Forest, Set};
use super::{Pick, Policy, Why};
use crate::host::{CpuId, VcpuId, View, VmId};
use crate::scenario::Names;
use crate::time::{Span, Time};

/// The policy.
#[derive(Debug, Clone)]
pub struct Slots {
    slot: Span,
    round: Vec<Option<VmId>>,
    yields: bool,
    dynamic: Option<Dynamic>,
    /// The slot that is on, its place in the round, and when it is over.
    place: usize,
    end: Time,
    /// Where each virtual CPU runs.
    homes: Vec<CpuId>,
    /// Whose virtual CPUs live on each CPU, by VM, and those who wait: by when each was last brought on, as a count.
    tenants: Vec<Vec<(VmId, Set)>>,
    waiting: Option<Forest<u64>>,
    turn: u64,
}

/// A VM whose slots follow its load.
#[derive(Debug, Clone)]
struct Dynamic {
    vm: VmId,
    /// Slots of this round that it ran in up to their ends.
    used_up: usize,
    /// Slots of this round that it did not run in at all.
    unused: usize,
    /// Whether it has run in the slot that is on.
    touched: bool,
    /// Whom it took slots from, the last one last.
    owed: Vec<VmId>,
}

impl Slots {
    /// With this round; `dynamic` is the VM whose slots follow its load.
    pub fn new(slot: Span, round: Vec<Option<VmId>>, yields: bool, dynamic: Option<VmId>) -> Self {
        let dynamic =
            dynamic.map(|vm| Dynamic { vm, used_up: 0, unused: 0, touched: false, owed: Vec::new() });
        let end = Time::ZERO + slot;
        let (homes, tenants) = (Vec::new(), Vec::new());
        Self { slot, round, yields, dynamic, place: 0, end, homes, tenants, waiting: None, turn: 0 }
    }

    /// Names become VMs.
    pub(super) fn from_names(
        slot: Span,
        round: &[String],
        yields: bool,
        dynamic: Option<&String>,
        names: &Names,
    ) -> Self {
        let vm = |name: &String| {
            let at = names.vms.iter().position(|known| known == name)?;
            u32::try_from(at).ok().map(VmId)
        };
        Self::new(slot, round.iter().map(vm).collect(), yields, dynamic.and_then(vm))
    }

    fn owner(&self) -> Option<VmId> {
        self.round.get(self.place).copied().flatten()
    }

    /// Begins the slots that have begun by now. Called first by everything, so that whoever runs when a slot is over is
    /// still there to be seen.
    fn advance(&mut self, view: &View) {
        while self.end <= view.now {
            let owner = self.owner();
            if let Some(it) = self.dynamic.as_mut().filter(|it| Some(it.vm) == owner) {
                let mut running = view.cpus.iter().filter_map(|cpu| cpu.running);
                it.used_up += usize::from(running.any(|vcpu| view.vm_of(vcpu) == it.vm));
                it.unused += usize::from(!it.touched);
            }
            self.place += 1;
            if self.place >= self.round.len() {
                self.place = 0;
                self.split();
            }
            if let Some(it) = &mut self.dynamic {
                it.touched = false;
            }
            self.end = self.end + self.slot;
        }
    }

    /// How many slots of the round a VM has.
    fn count(&self, vm: VmId) -> usize {
        self.round.iter().filter(|owner| **owner == Some(vm)).count()
    }

    /// After a round: the dynamic VM has one slot more or one less.
    fn split(&mut self) {
        let Some(it) = &mut self.dynamic else { return };
        let (vm, used_up, unused) = (it.vm, it.used_up, it.unused);
        (it.used_up, it.unused) = (0, 0);
        let slots = self.count(vm);
        if used_up == slots && slots < self.round.len() / 2 {
            self.grow(vm, slots);
        } else if unused > 0 && slots > 1 {
            self.shrink(vm);
        }
    }

    /// The one with the most slots, if it keeps one, gives the first after the last of the dynamic VM's.
    fn grow(&mut self, vm: VmId, slots: usize) {
        let others = self.round.iter().flatten().filter(|other| **other != vm);
        let Some(giver) = others.copied().max_by_key(|other| (self.count(*other), std::cmp::Reverse(*other)))
        else {
            return;
        };
        if self.count(giver) < 2 && slots > 0 {
            return;
        }
        let last = self.round.iter().rposition(|owner| *owner == Some(vm)).unwrap_or(0);
        let length = self.round.len();
        let mut after = (1..=length).map(|step| (last + step) % length);
        if let Some(place) = after.find(|place| self.round[*place] == Some(giver)) {
            self.round[place] = Some(vm);
            self.dynamic.iter_mut().for_each(|it| it.owed.push(giver));
        }
    }

    /// Its last slot goes back to whom it came from, or to who has the most.
    fn shrink(&mut self, vm: VmId) {
        let owed = self.dynamic.as_mut().and_then(|it| it.owed.pop());
        let others = self.round.iter().flatten().filter(|other| **other != vm);
        let most = others.copied().max_by_key(|other| (self.count(*other), std::cmp::Reverse(*other)));
        let place = self.round.iter().rposition(|owner| *owner == Some(vm));
        if let (Some(place), Some(taker)) = (place, owed.or(most)) {
            self.round[place] = Some(taker);
        }
    }

    /// Who of `vm` waits on `cpu`.
    fn set(&self, vm: VmId, cpu: CpuId) -> Set {
        let tenants = &self.tenants[cpu.index()];
        tenants.binary_search_by_key(&vm, |(vm, _)| *vm).map_or(Set::EMPTY, |at| tenants[at].1)
    }

    /// Who of `vm` comes next on `cpu`: those that live there take turns.
    fn next_of(&self, vm: VmId, cpu: CpuId) -> Option<VcpuId> {
        self.set(vm, cpu).first().map(VcpuId)
    }

    /// Lets it wait at home, or not any more.
    fn join(&mut self, vcpu: VcpuId, joins: bool, view: &View) {
        let tenants = &mut self.tenants[self.homes[vcpu.index()].index()];
        let at = tenants.binary_search_by_key(&view.vm_of(vcpu), |(vm, _)| *vm);
        let set = at.ok().and_then(|at| tenants.get_mut(at)).map(|(_, set)| set);
        if let (Some(waiting), Some(set)) = (&mut self.waiting, set) {
            if waiting.holds(vcpu.0) {
                waiting.remove(set, vcpu.0);
            }
            if joins {
                waiting.insert(set, vcpu.0, waiting.key(vcpu.0), ());
            }
        }
    }

    /// Who runs on `cpu` now.
    fn next(&self, cpu: CpuId) -> Option<VcpuId> {
        let owner = self.owner()?;
        let own = self.next_of(owner, cpu);
        if own.is_some() || !self.yields {
            return own;
        }
        let length = self.round.len();
        let places = (1..length).map(|step| (self.place + step) % length);
        places.filter_map(|place| self.round[place]).find_map(|vm| self.next_of(vm, cpu))
    }
}

impl Policy for Slots {
    fn begin(&mut self, view: &View) {
        self.homes = vec![CpuId(0); view.vcpus.len()];
        self.tenants = vec![Vec::new(); view.cpus.len()];
        self.waiting = Some(Forest::new(view.vcpus.len(), 0, ()));
        let places: Vec<Vec<u32>> = view.affinities.iter().map(|set| set.iter().collect()).collect();
        for (vm, of) in view.vms.iter().zip((0u32..).map(VmId)) {
            for (vcpu, number) in vm.vcpus().zip(0usize..) {
                let cpus = &places[view.vcpu(vcpu).affinity as usize];
                let home = CpuId(cpus[number % cpus.len().max(1)]);
                self.homes[vcpu.index()] = home;
                let tenants = &mut self.tenants[home.index()];
                if tenants.last().is_none_or(|(last, _)| *last != of) {
                    tenants.push((of, Set::EMPTY));
                }
            }
        }
        if let Some(vm) = self.dynamic.as_ref().map(|it| it.vm).filter(|vm| self.count(*vm) == 0) {
            self.grow(vm, 0);
        }
    }

    fn ready(&mut self, vcpu: VcpuId, why: Why, view: &View) -> Option<CpuId> {
        self.advance(view);
        self.join(vcpu, true, view);
        let home = self.homes[vcpu.index()];
        let vm = view.vm_of(vcpu);
        match view.cpus[home.index()].running {
            _ if why != Why::Woken => None,
            None => Some(home),
            // The owner gets its slot back.
            Some(other) => (self.owner() == Some(vm) && view.vm_of(other) != vm).then_some(home),
        }
    }

    fn take(&mut self, vcpu: VcpuId, view: &View) {
        self.turn += 1;
        self.join(vcpu, false, view);
        let turn = self.turn;
        self.waiting.iter_mut().for_each(|waiting| waiting.set_key(vcpu.0, turn));
    }

    fn pick(&mut self, cpu: CpuId, view: &View) -> Pick {
        self.advance(view);
        let Some(vcpu) = self.next(cpu) else { return Pick::Idle };
        self.take(vcpu, view);
        let (vm, owner) = (view.vm_of(vcpu), self.owner());
        if let Some(it) = self.dynamic.as_mut().filter(|it| it.vm == vm && owner == Some(vm)) {
            it.touched = true;
        }
        Pick::Run(vcpu, self.end)
    }

    fn ran(&mut self, _: VcpuId, _: CpuId, _: Span, view: &View) {
        self.advance(view);
    }

    fn first_tick(&self) -> Option<Time> {
        Some(self.end)
    }

    /// A slot begins: who idles looks again, who runs is at the end of its time anyway.
    fn tick(&mut self, view: &View, again: &mut Vec<CpuId>) -> Option<Time> {
        self.advance(view);
        again.extend(view.idle.iter().map(CpuId));
        Some(self.end)
    }

    fn is_work_conserving(&self) -> bool {
        false
    }

    /// Only who lives there may run on a CPU.
    fn help(&mut self, spinner: VcpuId, cpu: CpuId, kernel_first: bool, view: &View) -> Option<VcpuId> {
        let waiting = self.waiting.as_ref()?;
        let (mut first, mut in_kernel) = (None, None);
        waiting.walk(self.set(view.vm_of(spinner), cpu), &mut |vcpu| {
            first = first.or(Some(VcpuId(vcpu)));
            in_kernel = Some(VcpuId(vcpu)).filter(|vcpu| view.vcpu(*vcpu).in_kernel);
            kernel_first && in_kernel.is_none()
        });
        in_kernel.filter(|_| kernel_first).or(first)
    }
}
