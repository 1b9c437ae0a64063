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

use super::{Pick, Policy, Why};
use crate::host::{CpuId, State, VcpuId, View, VmId};
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
    /// Who lives on each CPU.
    tenants: Vec<Vec<VcpuId>>,
    /// When each was last brought on, as a count, for turns.
    turns: Vec<u64>,
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
        let (homes, tenants, turns) = (Vec::new(), Vec::new(), Vec::new());
        Self { slot, round, yields, dynamic, place: 0, end, homes, tenants, turns, turn: 0 }
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

    /// Who of `vm` comes next on `cpu`: those that live there take turns.
    fn next_of(&self, vm: VmId, cpu: CpuId, view: &View) -> Option<VcpuId> {
        let ready = self.tenants[cpu.index()]
            .iter()
            .filter(|vcpu| view.vm_of(**vcpu) == vm && view.vcpu(**vcpu).state == State::Ready);
        ready.copied().min_by_key(|vcpu| (self.turns[vcpu.index()], *vcpu))
    }

    /// Who runs on `cpu` now.
    fn next(&self, cpu: CpuId, view: &View) -> Option<VcpuId> {
        let owner = self.owner()?;
        let own = self.next_of(owner, cpu, view);
        if own.is_some() || !self.yields {
            return own;
        }
        let length = self.round.len();
        let places = (1..length).map(|step| (self.place + step) % length);
        places.filter_map(|place| self.round[place]).find_map(|vm| self.next_of(vm, cpu, view))
    }
}

impl Policy for Slots {
    fn begin(&mut self, view: &View) {
        self.homes = vec![CpuId(0); view.vcpus.len()];
        self.tenants = vec![Vec::new(); view.cpus.len()];
        self.turns = vec![0; view.vcpus.len()];
        for vm in &view.vms {
            for (vcpu, number) in vm.vcpus().zip(0usize..) {
                let cpus: Vec<u32> = view.affinity(vcpu).iter().collect();
                let home = CpuId(cpus[number % cpus.len().max(1)]);
                self.homes[vcpu.index()] = home;
                self.tenants[home.index()].push(vcpu);
            }
        }
        if let Some(vm) = self.dynamic.as_ref().map(|it| it.vm).filter(|vm| self.count(*vm) == 0) {
            self.grow(vm, 0);
        }
    }

    fn ready(&mut self, vcpu: VcpuId, why: Why, view: &View) -> Option<CpuId> {
        self.advance(view);
        let home = self.homes[vcpu.index()];
        let vm = view.vm_of(vcpu);
        match view.cpus[home.index()].running {
            _ if why != Why::Woken => None,
            None => Some(home),
            // The owner gets its slot back.
            Some(other) => (self.owner() == Some(vm) && view.vm_of(other) != vm).then_some(home),
        }
    }

    fn take(&mut self, vcpu: VcpuId, _: &View) {
        self.turn += 1;
        self.turns[vcpu.index()] = self.turn;
    }

    fn pick(&mut self, cpu: CpuId, view: &View) -> Pick {
        self.advance(view);
        let Some(vcpu) = self.next(cpu, view) else { return Pick::Idle };
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
        let vm = view.vm_of(spinner);
        let neighbours = self.tenants[cpu.index()].iter().copied().filter(|vcpu| {
            *vcpu != spinner && view.vm_of(*vcpu) == vm && view.vcpu(*vcpu).state == State::Ready
        });
        neighbours.min_by_key(|vcpu| (kernel_first && !view.vcpu(*vcpu).in_kernel, self.turns[vcpu.index()]))
    }
}
