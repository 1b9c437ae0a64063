//! A table of cells per CPU, over and over: in a cell its owner runs as soon as it is ready; what is left goes, where that is
//! wanted, round those at home on the CPU (the second level).
//!
//! ```text
//!  CPU 0 ├─ A.0 ─┼── B ──┼ idle ┤├─ A.0 ─┼ …    idle, or A.0 has nothing to do: the next one at home here, for one turn at
//!  CPU 1 ├── B ──┼─ A.0 ─┼──────┤├── B ──┼ …    most; A.0 has cells on two CPUs, moves with them, and is at home on neither
//! ```
//! Source: ARINC 653 (partition windows of a major frame); Vanga, Gujarati, Brandenburg, "Tableau: a high-throughput and
//! predictable VM scheduler for high-density workloads" (2018): a table on the first level, a second one for those that are
//! local and not capped. Tableau's second level hands out epochs of equal budgets; here it is round robin. Tables are written
//! down or planned (`model::scenario`). Not work-conserving: only who is at home gets what is left.

use std::collections::BTreeSet;

use super::timers::Timers;
use super::{Pick, Policy, Why};
use crate::host::{CpuId, VcpuId, View, VmId};
use crate::scenario::micros;
use crate::time::{Span, Time};
use model::scenario::{HostSpec, PolicySpec, Scenario, VmSpec, table};

/// A cell of a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell {
    /// Its beginning within the table.
    pub from: Span,
    /// Its end.
    pub to: Span,
    /// The VM that owns it.
    pub vm: VmId,
    /// The number of its owner within the VM; whoever is ready unless given.
    pub vcpu: Option<u32>,
}

/// A cell of an owner.
#[derive(Debug, Clone, Copy)]
struct Place {
    from: Span,
    to: Span,
    cpu: CpuId,
}

/// The policy.
#[derive(Debug, Clone)]
pub struct Table {
    length: Span,
    /// Turn of the second level; none: there is none.
    turn: Option<Span>,
    cpus: Vec<Vec<Cell>>,
    /// By VM, whether it gets nothing but its cells.
    capped: Vec<bool>,
    /// Cells of each virtual CPU, and those of its VM as a whole, by their beginnings.
    of_vcpu: Vec<Vec<Place>>,
    of_vm: Vec<Vec<Place>>,
    /// Where it gets what is left.
    home: Vec<Option<CpuId>>,
    /// Who waits: by virtual CPU, of VMs that own cells as a whole, and at home on each CPU; who ran longest ago first.
    waits: Vec<bool>,
    of_whole: Vec<BTreeSet<(u64, VcpuId)>>,
    at_home: Vec<BTreeSet<(u64, VcpuId)>>,
    ran: Vec<u64>,
    clock: u64,
    /// When a cell begins for whose owner somebody waits.
    timers: Timers<CpuId>,
}

impl Table {
    /// With the cells of each CPU, in order; `capped` says by VM who gets nothing else.
    pub fn new(length: Span, cpus: Vec<Vec<Cell>>, turn: Option<Span>, capped: Vec<bool>) -> Self {
        Self {
            length: length.max(Span::from_nanos(1)),
            turn,
            cpus,
            capped,
            of_vcpu: Vec::new(),
            of_vm: Vec::new(),
            home: Vec::new(),
            waits: Vec::new(),
            of_whole: Vec::new(),
            at_home: Vec::new(),
            ran: Vec::new(),
            clock: 0,
            timers: Timers::default(),
        }
    }

    /// The table that a scenario has or asks for; it was checked.
    pub(super) fn from_scenario(scenario: &Scenario) -> Self {
        let capped = |vm: &VmSpec| std::iter::repeat_n(vm.capped, vm.count as usize);
        let capped = scenario.vms.iter().flat_map(capped).collect();
        let of = |host: &HostSpec| {
            let PolicySpec::Table { second_level_us, .. } = host.policy else { return None };
            let turn = (second_level_us.get() > 0).then(|| micros(second_level_us));
            Some((table(host, &scenario.vms).ok().flatten()?, turn))
        };
        let Some((table, turn)) = scenario.host.as_ref().and_then(of) else {
            return Self::new(Span::ZERO, Vec::new(), None, capped);
        };
        let cell = |cell: &model::scenario::TableCell| {
            let vm = VmId(u32::try_from(cell.vm).unwrap_or(u32::MAX));
            Cell { from: cell.from.into(), to: cell.to.into(), vm, vcpu: cell.vcpu }
        };
        let cpus = table.cpus.iter().map(|cells| cells.iter().map(cell).collect()).collect();
        Self::new(table.length.into(), cpus, turn, capped)
    }

    /// How far the table is at a moment, and when it began.
    fn within(&self, now: Time) -> (Span, Time) {
        let within = now.nanos() % self.length.nanos();
        (Span::from_nanos(within), Time::from_nanos(now.nanos() - within))
    }

    /// The cell that is on, and when that changes.
    fn cell(&self, cpu: CpuId, now: Time) -> (Option<Cell>, Time) {
        let cells = self.cpus.get(cpu.index()).map_or(&[][..], Vec::as_slice);
        let (within, start) = self.within(now);
        let begun = cells.partition_point(|cell| cell.from <= within);
        if let Some(cell) =
            begun.checked_sub(1).and_then(|last| cells.get(last)).filter(|cell| cell.to > within)
        {
            return (Some(*cell), start + cell.to);
        }
        let next = cells.get(begun).map(|cell| start + cell.from);
        let again = || cells.first().map(|cell| start + self.length + cell.from);
        (None, next.or_else(again).unwrap_or(Time::NEVER))
    }

    fn owns(vcpu: VcpuId, cell: &Cell, view: &View) -> bool {
        let vm = view.vm_of(vcpu);
        vm == cell.vm && cell.vcpu.is_none_or(|own| view.vms[vm.index()].first.0 + own == vcpu.0)
    }

    fn places(&self, vcpu: VcpuId, view: &View) -> [&[Place]; 2] {
        [
            self.of_vcpu.get(vcpu.index()).map_or(&[], Vec::as_slice),
            self.of_vm.get(view.vm_of(vcpu).index()).map_or(&[], Vec::as_slice),
        ]
    }

    /// A CPU on which a cell of its own is on and which nobody uses who owns it, too.
    fn own_cpu(&self, vcpu: VcpuId, view: &View) -> Option<CpuId> {
        let (within, _) = self.within(view.now);
        let is_free = |place: &&Place| {
            let owns = |other: VcpuId| {
                let (cell, _) = self.cell(place.cpu, view.now);
                cell.is_some_and(|cell| Self::owns(other, &cell, view))
            };
            place.to > within
                && view.may_run(vcpu, place.cpu)
                && !view.cpus[place.cpu.index()].running.is_some_and(owns)
        };
        self.places(vcpu, view).into_iter().find_map(|places| {
            let begun = places.partition_point(|place| place.from <= within);
            // Cells of a VM on several CPUs may be on at once.
            let mut on = places[..begun].iter().rev().take(self.cpus.len());
            on.find(is_free).map(|place| place.cpu)
        })
    }

    /// Timers for where its next cells begin.
    fn set_timers(&mut self, vcpu: VcpuId, view: &View) {
        let (within, start) = self.within(view.now);
        let mut timers = Vec::new();
        for places in self.places(vcpu, view) {
            let begun = places.partition_point(|place| place.from <= within);
            let (next, start) = match places.get(begun..).filter(|rest| !rest.is_empty()) {
                Some(rest) => (rest, start),
                None => (places, start + self.length),
            };
            let Some(from) = next.first().map(|place| place.from) else { continue };
            let together = next.iter().take_while(|place| place.from == from);
            timers.extend(together.map(|place| (start + from, place.cpu)));
        }
        for (at, cpu) in timers {
            self.timers.set(at, cpu);
        }
    }

    /// Lets one wait, or not any more.
    fn join(&mut self, vcpu: VcpuId, joins: bool, view: &View) {
        let at = vcpu.index();
        let (vm, key) = (view.vm_of(vcpu).index(), (self.ran[at], vcpu));
        self.waits[at] = joins;
        let whole = self.of_vm.get(vm).is_some_and(|places| !places.is_empty()).then_some(vm);
        let whole = whole.and_then(|vm| self.of_whole.get_mut(vm));
        let home = self.home[at].and_then(|home| self.at_home.get_mut(home.index()));
        for waiting in [whole, home].into_iter().flatten() {
            if joins {
                waiting.insert(key);
            } else {
                waiting.remove(&key);
            }
        }
    }

    /// Who of those that wait owns this cell.
    fn owner(&self, cell: &Cell, cpu: CpuId, view: &View) -> Option<VcpuId> {
        let may = |vcpu: &VcpuId| self.waits[vcpu.index()] && view.may_run(*vcpu, cpu);
        match cell.vcpu {
            Some(vcpu) => Some(VcpuId(view.vms.get(cell.vm.index())?.first.0 + vcpu)).filter(may),
            None => self.of_whole.get(cell.vm.index())?.iter().map(|(_, vcpu)| *vcpu).find(may),
        }
    }

    /// Where each virtual CPU is at home: where all of its cells are, or if it has none in turn where it may run.
    fn find_homes(&mut self, view: &View) {
        let mut homeless = 0usize;
        let home = |vcpu: VcpuId| {
            let vm = view.vm_of(vcpu);
            if self.turn.is_none() || self.capped.get(vm.index()).copied().unwrap_or(false) {
                return None;
            }
            let mut cpus = self.places(vcpu, view).into_iter().flatten().map(|place| place.cpu);
            if let Some(first) = cpus.next() {
                return cpus.all(|cpu| cpu == first).then_some(first);
            }
            homeless += 1;
            let set = view.affinity(vcpu);
            set.iter().nth((homeless - 1) % set.len().max(1) as usize).map(CpuId)
        };
        let home = (0u32..).take(view.vcpus.len()).map(VcpuId).map(home).collect();
        self.home = home;
    }
}

impl Policy for Table {
    fn begin(&mut self, view: &View) {
        self.of_vcpu = vec![Vec::new(); view.vcpus.len()];
        self.of_vm = vec![Vec::new(); view.vms.len()];
        for (cells, cpu) in self.cpus.iter().zip((0u32..).map(CpuId)) {
            for cell in cells {
                let place = Place { from: cell.from, to: cell.to, cpu };
                let vm = &view.vms[cell.vm.index()];
                match cell.vcpu {
                    Some(vcpu) => self.of_vcpu[(vm.first.0 + vcpu) as usize].push(place),
                    None => self.of_vm[cell.vm.index()].push(place),
                }
            }
        }
        for places in self.of_vcpu.iter_mut().chain(&mut self.of_vm) {
            places.sort_by_key(|place| (place.from, place.cpu));
        }
        self.waits = vec![false; view.vcpus.len()];
        self.ran = vec![0; view.vcpus.len()];
        self.of_whole = vec![BTreeSet::new(); view.vms.len()];
        self.at_home = vec![BTreeSet::new(); view.cpus.len()];
        self.find_homes(view);
    }

    fn ready(&mut self, vcpu: VcpuId, _: Why, view: &View) -> Option<CpuId> {
        self.join(vcpu, true, view);
        self.set_timers(vcpu, view);
        let home = || self.home[vcpu.index()].filter(|home| view.idle.contains(home.0));
        self.own_cpu(vcpu, view).or_else(home)
    }

    fn take(&mut self, vcpu: VcpuId, view: &View) {
        self.join(vcpu, false, view);
        self.clock += 1;
        self.ran[vcpu.index()] = self.clock;
    }

    fn pick(&mut self, cpu: CpuId, view: &View) -> Pick {
        let (cell, change) = self.cell(cpu, view.now);
        if let Some(owner) = cell.and_then(|cell| self.owner(&cell, cpu, view)) {
            self.take(owner, view);
            return Pick::Run(owner, change);
        }
        let next = self.at_home.get(cpu.index()).and_then(|waiting| waiting.first());
        let (Some((_, vcpu)), Some(turn)) = (next.copied(), self.turn) else { return Pick::Idle };
        self.take(vcpu, view);
        Pick::Run(vcpu, change.min(view.now + turn))
    }

    fn ran(&mut self, _: VcpuId, _: CpuId, _: Span, _: &View) {}

    /// Cells begin: their owners take their CPUs.
    fn tick(&mut self, view: &View, again: &mut Vec<CpuId>) -> Option<Time> {
        self.timers.ticked(view.now);
        while let Some(cpu) = self.timers.due(view.now) {
            let Some(cell) = self.cell(cpu, view.now).0 else { continue };
            let Some(owner) = self.owner(&cell, cpu, view) else { continue };
            // Others of its VM may wait for the cells after this one.
            if cell.vcpu.is_none() {
                self.set_timers(owner, view);
            }
            let running = view.cpus[cpu.index()].running;
            if !running.is_some_and(|other| Self::owns(other, &cell, view)) {
                again.push(cpu);
            }
        }
        None
    }

    fn extra_tick(&mut self) -> Option<Time> {
        self.timers.ask()
    }

    fn reads_all_books(&self) -> bool {
        false
    }

    fn is_work_conserving(&self) -> bool {
        false
    }

    /// Who owns the cell that is on, where the spinner does; else who is at home there.
    fn may_stand_in(&self, vcpu: VcpuId, spinner: VcpuId, cpu: CpuId, view: &View) -> bool {
        match self.cell(cpu, view.now).0.filter(|cell| Self::owns(spinner, cell, view)) {
            Some(cell) => Self::owns(vcpu, &cell, view),
            None => self.home[vcpu.index()] == Some(cpu),
        }
    }
}
