//! Linux' fair scheduler as it is: a queue per CPU, in which VMs compete by EEVDF with the part of their weight that belongs there,
//! and within each its virtual CPUs; idle CPUs pull, busy ones even out their loads now and then.
//!
//! ```text
//!  CPU 0  A 8              ─┐ weight of a VM on a CPU: its weight × virtual CPUs that want to run there / everywhere
//!  CPU 1  B.0 4  C.0 0.5    ├─ a wake-up goes to an idle CPU, else stays
//!  CPU 2  B.1 4  C.1 0.5   ─┘ idle: pulls one from the CPU with the highest load; busy: evens out every 16 ms × CPUs
//!                             core idle: after four times in vain fetches one of two who run on another core
//! ```
//! Source: Linux' documentation (scheduler/sched-eevdf.rst, sched-domains.rst, sched-bwc.rst; admin-guide/cgroup-v2.rst), and
//! Lozi and others, "The Linux scheduler: a decade of wasted cores" (2016), which describes queues, loads of groups and balancing
//! step by step; EEVDF after Stoica and Abdel-Wahab (1995). Intervals, the 117 % of difference that are borne, and that each balancing
//! in vain doubles the load that may move, are those of 6.6 as they are known; the kernel's source was not compared. Simplified: loads are those of the
//! moment and do not decay; all CPUs are one domain, as wide as 64 at most for intervals; nobody is cache-hot; who runs is stopped
//! when his request is done, and not at the next tick. It knows no reservations, as Linux does not.

mod balance;
mod books;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use books::{Group, Local, Member};

use super::Slop;
use super::caps::Caps;
use super::queues::RunQueues;
use crate::host::{CpuId, VcpuId, View, VmId};
use crate::policy::entity::{Entity, Origin, SHORTEST, Sum};
use crate::policy::forest::{Forest, Set};
use crate::policy::{Pick, Policy, Why};
use crate::queue::Queue;
use crate::time::{Span, Time};

/// The policy.
#[derive(Debug, Clone)]
pub struct PerCpuEevdf {
    slice: Span,
    period: Span,
    members: Vec<Member>,
    groups: Vec<Group>,
    group_of: BTreeMap<(CpuId, VmId), u32>,
    cpus: Vec<Local>,
    /// How many of each VM want to run.
    active_of: Vec<u32>,
    /// Groups, and virtual CPUs within each, by deadline with v.
    group_forest: Forest<i128, i128>,
    vcpu_forest: Forest<i128, i128>,
    /// Who waits where, longest first.
    waiting: Option<RunQueues<u64>>,
    line: u64,
    /// CPUs at which somebody waits, by load.
    busy: Forest<Reverse<i128>>,
    busiest: Set,
    caps: Caps,
    renewal: Time,
    clock: Queue<CpuId>,
    slop: Slop,
    /// CPUs that should pick anew once this event is done with, if they are idle then.
    later: Vec<CpuId>,
    /// When a CPU that has become idle evens out, if that is sooner than was said.
    sooner: Option<Time>,
    /// Who was sent to an idle CPU that has not picked yet.
    sent: Option<VcpuId>,
}

impl PerCpuEevdf {
    /// With this slice, and this period of quotas.
    pub fn new(slice: Span, period: Span) -> Self {
        Self {
            slice,
            period,
            members: Vec::new(),
            groups: Vec::new(),
            group_of: BTreeMap::new(),
            cpus: Vec::new(),
            active_of: Vec::new(),
            group_forest: Forest::new(0, 0, 0),
            vcpu_forest: Forest::new(0, 0, 0),
            waiting: None,
            line: 0,
            busy: Forest::new(0, Reverse(0), ()),
            busiest: Set::EMPTY,
            caps: Caps::default(),
            renewal: Time::NEVER,
            clock: Queue::default(),
            slop: Slop::new(true),
            later: Vec::new(),
            sooner: None,
            sent: None,
        }
    }

    /// The group of a VM on a CPU; a new one if it never was there.
    fn group(&mut self, cpu: CpuId, vm: VmId) -> u32 {
        let groups = &mut self.groups;
        *self.group_of.entry((cpu, vm)).or_insert_with(|| {
            groups.push(Group { vm, cpu, entity: Entity::new(1.0), count: 0, v: 0, waiting: Set::EMPTY });
            self.group_forest.grow(0, 0);
            u32::try_from(groups.len() - 1).unwrap_or(u32::MAX)
        })
    }

    /// Brings a group to its place after a change, and its CPU to its own.
    fn place(&mut self, id: u32) {
        let group = self.groups[id as usize];
        let local = &mut self.cpus[group.cpu.index()];
        if self.group_forest.holds(id) {
            self.group_forest.remove(&mut local.waiting, id);
        }
        if !group.waiting.is_empty() {
            self.group_forest.insert(&mut local.waiting, id, group.entity.deadline, group.entity.v);
        }
        let (waits, load) = (!local.waiting.is_empty(), Reverse(local.sum.weight));
        if self.busy.holds(group.cpu.0) {
            self.busy.remove(&mut self.busiest, group.cpu.0);
        }
        if waits {
            self.busy.insert(&mut self.busiest, group.cpu.0, load, ());
        }
    }

    /// Gives a group that wants to run the part of its VM's weight that belongs to it.
    fn weigh(&mut self, id: u32, view: &View) {
        let group = &mut self.groups[id as usize];
        let all = self.active_of[group.vm.index()].max(1);
        let weight = view.vms[group.vm.index()].weight * f64::from(group.count) / f64::from(all);
        let sum = &mut self.cpus[group.cpu.index()].sum;
        let mean = sum.mean();
        sum.remove(&group.entity);
        group.entity.reweigh(weight, mean.unwrap_or(group.entity.v));
        sum.add(&group.entity);
    }

    /// Charges who runs on `cpu` until now, as Linux does before anybody comes or goes there.
    fn update(&mut self, cpu: CpuId, view: &View) {
        if let Some(running) = view.cpus[cpu.index()].running {
            self.charge(running, view);
        }
    }

    /// Charges `vcpu`, which runs, for what it was not yet.
    fn charge(&mut self, vcpu: VcpuId, view: &View) {
        let member = &mut self.members[vcpu.index()];
        let span = view.now.since(std::mem::replace(&mut member.charged, view.now));
        let Some(id) = member.group.filter(|_| !span.is_zero()) else { return };
        let group = &mut self.groups[id as usize];
        let sum = &mut self.cpus[group.cpu.index()].sum;
        group.v -= member.entity.v;
        member.entity.charge(span);
        member.entity.request(self.slice);
        group.v += member.entity.v;
        sum.remove(&group.entity);
        group.entity.charge(span);
        group.entity.request(self.slice);
        sum.add(&group.entity);
        self.weigh(id, view);
        self.place(id);
    }

    /// `vcpu` wants to run at its home from now on.
    fn enqueue(&mut self, vcpu: VcpuId, comes: Origin, view: &View) {
        let (vm, home) = (view.vm_of(vcpu), self.members[vcpu.index()].home);
        self.update(home, view);
        let id = self.group(home, vm);
        self.active_of[vm.index()] += 1;
        let group = &mut self.groups[id as usize];
        let sum = &mut self.cpus[home.index()].sum;
        if group.count == 0 {
            let weight = view.vms[vm.index()].weight / f64::from(self.active_of[vm.index()]);
            group.entity.set_weight(weight);
            group.entity.wake(*sum, self.slice, Origin::Here);
            sum.add(&group.entity);
        }
        let member = &mut self.members[vcpu.index()];
        member.entity.wake(Sum::of_equals(group.count.into(), group.v, &member.entity), self.slice, comes);
        member.group = Some(id);
        group.count += 1;
        group.v += member.entity.v;
        self.weigh(id, view);
    }

    /// `vcpu`, which does not wait, does not want to run there any more.
    fn dequeue(&mut self, vcpu: VcpuId, view: &View) {
        let member = &mut self.members[vcpu.index()];
        let Some(id) = member.group.take() else { return };
        let group = &mut self.groups[id as usize];
        // Alone it has nobody to be owed by.
        member.entity.sleep((group.count > 1).then(|| group.mean()), self.slice);
        group.count -= 1;
        group.v -= member.entity.v;
        self.active_of[group.vm.index()] -= 1;
        if group.count == 0 {
            let sum = &mut self.cpus[group.cpu.index()].sum;
            let mean = sum.mean();
            sum.remove(&group.entity);
            group.entity.sleep(mean, self.slice);
        } else {
            self.weigh(id, view);
        }
        self.place(id);
    }

    /// `vcpu`, which wants to run, waits.
    fn wait(&mut self, vcpu: VcpuId, view: &View) {
        let member = &mut self.members[vcpu.index()];
        let Some(id) = member.group else { return };
        member.entity.request(self.slice);
        let waiting = &mut self.groups[id as usize].waiting;
        self.vcpu_forest.insert(waiting, vcpu.0, member.entity.deadline, member.entity.v);
        self.line += 1;
        self.waiting.iter_mut().for_each(|waiting| waiting.push(member.home.0, vcpu, self.line, view));
        self.place(id);
    }

    /// It does not wait any more; whether it did.
    fn leave(&mut self, vcpu: VcpuId, view: &View) -> bool {
        let Some(id) = self.members[vcpu.index()].group else { return false };
        if !self.vcpu_forest.holds(vcpu.0) {
            return false;
        }
        self.vcpu_forest.remove(&mut self.groups[id as usize].waiting, vcpu.0);
        self.waiting.iter_mut().for_each(|waiting| waiting.remove(vcpu, view));
        self.sent = self.sent.filter(|sent| *sent != vcpu);
        self.place(id);
        true
    }

    /// It has something to do and is let in, or set aside.
    fn come(&mut self, vcpu: VcpuId, view: &View) -> Option<CpuId> {
        if self.caps.parks(vcpu, view.vm_of(vcpu)) {
            return None;
        }
        let home = self.members[vcpu.index()].home;
        let idle = balance::idle_cpu(vcpu, home, view);
        let comes = if idle.is_some_and(|idle| idle != home) { Origin::Elsewhere } else { Origin::Here };
        self.members[vcpu.index()].home = idle.unwrap_or(home);
        self.enqueue(vcpu, comes, view);
        self.wait(vcpu, view);
        idle.or_else(|| self.is_due_before(vcpu, view).then_some(home))
    }

    /// Whether `vcpu` takes the CPU at its home from who runs there.
    fn is_due_before(&self, vcpu: VcpuId, view: &View) -> bool {
        let it = &self.members[vcpu.index()];
        let running = view.cpus[it.home.index()].running.map(|running| &self.members[running.index()]);
        let Some((running, theirs)) = running.and_then(|running| Some((running, running.group?))) else {
            return false;
        };
        let Some(mine) = it.group else { return false };
        let (group, other) = (&self.groups[mine as usize], &self.groups[theirs as usize]);
        // Who runs and has had too much comes after all that have not.
        let is_first = |mine: &Entity, theirs: &Entity, mean: i128| {
            mine.v <= mean && (theirs.v > mean || mine.deadline < theirs.deadline)
        };
        if mine == theirs {
            return is_first(&it.entity, &running.entity, group.mean());
        }
        let mean = self.cpus[it.home.index()].sum.mean();
        mean.is_some_and(|mean| is_first(&group.entity, &other.entity, mean))
    }

    /// Who comes next of those that wait at `cpu`.
    fn best(&self, cpu: CpuId) -> Option<VcpuId> {
        let local = &self.cpus[cpu.index()];
        let mean = local.sum.mean()?;
        let group = self.group_forest.first_within(local.waiting, &|v| v <= mean);
        let group = &self.groups[group.or_else(|| local.waiting.first())? as usize];
        let mean = group.mean();
        let next = self.vcpu_forest.first_within(group.waiting, &|v| v <= mean);
        next.or_else(|| group.waiting.first()).map(VcpuId)
    }

    /// Moves one that waits to a CPU.
    fn migrate(&mut self, vcpu: VcpuId, cpu: CpuId, view: &View) {
        self.update(self.members[vcpu.index()].home, view);
        self.leave(vcpu, view);
        self.dequeue(vcpu, view);
        self.members[vcpu.index()].home = cpu;
        self.enqueue(vcpu, Origin::Elsewhere, view);
        self.wait(vcpu, view);
    }

    fn free(&mut self, free: Vec<VcpuId>, view: &View) {
        for vcpu in free {
            let cpu = self.come(vcpu, view);
            self.later.extend(cpu);
        }
    }
}

impl Policy for PerCpuEevdf {
    fn begin(&mut self, view: &View) {
        let home = super::homes(view);
        let member =
            |home| Member { entity: Entity::new(1.0), home, group: None, charged: Time::ZERO, moves: None };
        self.members = home.into_iter().map(member).collect();
        self.cpus = vec![Local::default(); view.cpus.len()];
        self.active_of = vec![0; view.vms.len()];
        self.vcpu_forest = Forest::new(view.vcpus.len(), 0, 0);
        self.busy = Forest::new(view.cpus.len(), Reverse(0), ());
        self.waiting = Some(RunQueues::new(view.cpus.len(), view, 0));
        self.caps = Caps::new(self.period, view);
        self.renewal = self.caps.first_tick().unwrap_or(Time::NEVER);
        self.slop = Slop::new(view.in_step);
        let count = view.cpus.len() as u64;
        for cpu in (0..u32::try_from(count).unwrap_or(u32::MAX)).map(CpuId).filter(|_| count > 1) {
            // Not all at once, even where CPUs are in step.
            let first = balance::BUSY.nanos() * count.min(balance::WIDEST) * (u64::from(cpu.0) + 1) / count;
            self.set_clock(cpu, Time::ZERO + Span::from_nanos(first));
        }
    }

    fn ready(&mut self, vcpu: VcpuId, why: Why, view: &View) -> Option<CpuId> {
        if why == Why::Woken {
            return self.come(vcpu, view);
        }
        let free = self.caps.back(vcpu, view.vm_of(vcpu), view);
        self.free(free, view);
        let moves = self.members[vcpu.index()].moves.take();
        if self.caps.parks(vcpu, view.vm_of(vcpu)) {
            self.dequeue(vcpu, view);
            return None;
        }
        if let Some(to) = moves {
            self.dequeue(vcpu, view);
            self.members[vcpu.index()].home = to;
            self.enqueue(vcpu, Origin::Elsewhere, view);
            self.sent = Some(vcpu);
        }
        self.wait(vcpu, view);
        moves
    }

    fn take(&mut self, vcpu: VcpuId, view: &View) {
        self.members[vcpu.index()].charged = view.now;
        if !self.leave(vcpu, view) && self.caps.take(vcpu, view.vm_of(vcpu)) {
            self.enqueue(vcpu, Origin::Here, view);
        }
    }

    fn pick(&mut self, cpu: CpuId, view: &View) -> Pick {
        loop {
            let Some(vcpu) = self.best(cpu) else {
                if self.pull(cpu, view) {
                    continue;
                }
                self.hasten(cpu, view);
                return Pick::Idle;
            };
            self.leave(vcpu, view);
            let vm = view.vm_of(vcpu);
            if self.caps.parks(vcpu, vm) {
                self.dequeue(vcpu, view);
                continue;
            }
            self.members[vcpu.index()].charged = view.now;
            let member = self.members[vcpu.index()];
            let group = member.group.map_or(self.slice, |id| self.groups[id as usize].entity.rest());
            let span = group.min(member.entity.rest()).max(SHORTEST) + self.slop.draw();
            return Pick::Run(vcpu, view.now + self.caps.grant(vcpu, vm, cpu, span));
        }
    }

    fn ran(&mut self, vcpu: VcpuId, _: CpuId, span: Span, view: &View) {
        self.caps.ran(vcpu, view.vm_of(vcpu), span);
        self.charge(vcpu, view);
    }

    fn halted(&mut self, vcpu: VcpuId, view: &View) {
        let free = self.caps.back(vcpu, view.vm_of(vcpu), view);
        self.members[vcpu.index()].moves = None;
        self.dequeue(vcpu, view);
        self.free(free, view);
    }

    fn first_tick(&self) -> Option<Time> {
        self.clock.next_at().into_iter().chain(self.caps.first_tick()).min()
    }

    fn tick(&mut self, view: &View, again: &mut Vec<CpuId>) -> Option<Time> {
        let mut is_moved = false;
        while self.clock.next_at().is_some_and(|at| at <= view.now) {
            let due = self.clock.pop().filter(|(at, cpu)| self.cpus[cpu.index()].due == *at);
            if let Some((_, cpu)) = due {
                self.even_out(cpu, view);
                // One at a time: the next one sees what has become of it.
                let from = if is_moved { None } else { self.relieve(cpu, view) };
                is_moved |= from.is_some();
                again.extend(from);
                let next = view.now + self.interval(cpu, view);
                self.set_clock(cpu, next);
            }
        }
        if view.now >= self.renewal {
            let (free, next) = self.caps.renew(view);
            self.renewal = next;
            self.free(free, view);
        }
        // Nobody makes room for who is freed: what that one gives back of his limit would free others, and so on.
        again.extend(self.later.drain(..).filter(|cpu| view.idle.contains(cpu.0)));
        let next = self.clock.next_at().into_iter().chain([self.renewal]).min();
        next.filter(|at| *at < Time::NEVER)
    }

    fn extra_tick(&mut self) -> Option<Time> {
        (!self.later.is_empty()).then_some(Time::ZERO).or(self.sooner.take())
    }

    fn reads_all_books(&self) -> bool {
        false
    }

    fn is_work_conserving(&self) -> bool {
        !self.caps.any()
    }
}
