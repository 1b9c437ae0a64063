//! Xen's credit2 scheduler as it is: CPUs in groups share a queue by credit, and load is moved between the queues.
//!
//! ```text
//!  CPUs 0–15   queue by credit ─► reset when nobody in it has any left: everybody 10 ms more, 10.5 ms at most
//!  CPUs 16–31  queue by credit       └─► then: the queue whose load of the last second differs most gets or gives one,
//!                                         or both swap one
//! ```
//! Source: `xen/common/sched/credit2.c` of Xen 4.21 in development, read for what it does. As there, the heaviest in a queue burns
//! a credit per nanosecond and others faster, by weight for each virtual CPU; who runs goes on until he has no more than the next,
//! 0.5 ms (and the rate limit of 1 ms) at least and a slice at most; who ran on another CPU of the group must have 0.5 ms more to
//! be fetched, and gets 50 µs; a queue that is idle fetches nothing by itself; who wakes goes to a core of which nobody uses any
//! thread, if there is one. Simplified: no soft affinity, a group is made of CPUs by their numbers, who yields waits like everybody
//! else; caps are exact, for all VMs at the same moment.

mod books;
mod exchange;
mod load;
mod runners;
mod tickle;

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::Slop;
use books::{Credit2Account, Group};
use exchange::{Member, exchange};
use load::Load;
use runners::Runners;

use super::caps::Caps;
use super::queues::RunQueues;
use crate::host::{CpuId, CpuSet, State, VcpuId, View};
use crate::policy::{Pick, Policy, Why};
use crate::time::{Span, Time};

/// What everybody has at the beginning and gets at a reset, and the most debt.
const CREDIT: i64 = 10_000_000;
/// More than nobody.
const IDLE: i64 = -CREDIT - 1;
/// What is kept beyond that at a reset.
const CARRIED: i64 = 500_000;
/// How much more credit it takes to be fetched from another CPU, and what that is worth.
const RESIST: i64 = 500_000;
const COMPENSATION: i64 = 50_000;
/// The shortest slice.
const LEAST: Span = Span::from_micros(500);
/// Who has just begun to run is left alone for so long, less the tolerance for others' clocks.
const RATE_LIMIT: Span = Span::from_millis(1);
const TOLERANCE: Span = Span::from_micros(50);
/// Caps hold for so long.
const PERIOD: Span = Span::from_millis(10);
/// Differences of load that are worth a move: where CPUs are left, and where not.
const WORTH: (f64, f64) = (1.0, 0.125);

/// The order of a queue.
type Key = (Reverse<i64>, u64);

/// The policy.
#[derive(Debug, Clone)]
pub struct Credit2 {
    slice: Span,
    width: u32,
    accounts: Vec<Credit2Account>,
    groups: Vec<Group>,
    /// By group: most credit first, then who came first.
    all: Option<RunQueues<Key>>,
    /// The same by the CPU where each ran last.
    own: Vec<BTreeSet<(Key, VcpuId)>>,
    line: u64,
    /// Who has just left each CPU, until that picks.
    left: Vec<Option<VcpuId>>,
    runners: Runners,
    /// Idle CPUs that were told of somebody and have not picked yet, where CPUs are threads of cores.
    told: CpuSet,
    caps: Caps,
    slop: Slop,
    /// CPUs that should pick anew once this event is done with: at any rate, and if they are idle then.
    later: Vec<CpuId>,
    idle: Vec<CpuId>,
    next: Time,
}

impl Credit2 {
    /// With this longest slice, and so many CPUs to a queue.
    pub fn new(slice: Span, width: u32) -> Self {
        Self {
            slice,
            width: width.max(1),
            accounts: Vec::new(),
            groups: Vec::new(),
            all: None,
            own: Vec::new(),
            line: 0,
            left: Vec::new(),
            runners: Runners::default(),
            told: CpuSet::default(),
            caps: Caps::default(),
            slop: Slop::new(true),
            later: Vec::new(),
            idle: Vec::new(),
            next: Time::NEVER,
        }
    }

    fn group_of(&self, cpu: CpuId) -> u32 {
        cpu.0 / self.width
    }

    /// Credit that `vcpu` burns in a time.
    #[expect(clippy::cast_possible_truncation, reason = "saturating is right")]
    fn price(&self, vcpu: VcpuId, span: Span) -> i64 {
        let it = &self.accounts[vcpu.index()];
        (span.as_f64() * self.groups[it.queue as usize].heaviest() / it.weight) as i64
    }

    /// What it has now, if it has run since it was last looked at.
    fn credit(&self, vcpu: VcpuId, now: Time) -> i64 {
        let it = &self.accounts[vcpu.index()];
        it.credit.saturating_sub(self.price(vcpu, now.since(it.burnt))).max(-CREDIT)
    }

    fn burn(&mut self, vcpu: VcpuId, now: Time) {
        let credit = self.credit(vcpu, now);
        let it = &mut self.accounts[vcpu.index()];
        (it.credit, it.burnt) = (credit, now);
    }

    /// It has left its CPU.
    fn stop(&mut self, vcpu: VcpuId, view: &View) {
        self.burn(vcpu, view.now);
        if let Some(cpu) = view.vcpu(vcpu).last_cpu() {
            self.runners.end(cpu, vcpu);
        }
    }

    fn insert(&mut self, vcpu: VcpuId, view: &View) {
        self.line += 1;
        let it = &self.accounts[vcpu.index()];
        let key = (Reverse(it.credit), self.line);
        self.all.iter_mut().for_each(|all| all.push(it.queue, vcpu, key, view));
        self.own[it.home.index()].insert((key, vcpu));
    }

    /// Takes it out of its queue, if it waits in one.
    fn remove(&mut self, vcpu: VcpuId, view: &View) -> bool {
        let Some(all) = self.all.as_mut().filter(|all| all.holds(vcpu)) else { return false };
        self.own[self.accounts[vcpu.index()].home.index()].remove(&(all.key(vcpu), vcpu));
        all.remove(vcpu, view);
        true
    }

    /// `vcpu` belongs to a queue from now on; it waits in none.
    fn assign(&mut self, vcpu: VcpuId, queue: u32, view: &View) {
        let it = &mut self.accounts[vcpu.index()];
        let group = &mut self.groups[queue as usize];
        let mut may = group.cpus.clone();
        may.intersect(view.affinity(vcpu));
        it.home = CpuId(may.next_after(group.bias).unwrap_or(it.home.0));
        group.bias = it.home.0;
        (it.queue, it.place) = (queue, group.members.len());
        group.members.push(vcpu);
        *group.weights.entry(it.weight.to_bits()).or_default() += 1;
        group.load.expect(it.load.mean(view.now), view.now);
    }

    /// It does not any more.
    fn deassign(&mut self, vcpu: VcpuId, view: &View) {
        let it = self.accounts[vcpu.index()];
        let group = &mut self.groups[it.queue as usize];
        group.members.swap_remove(it.place);
        if let Some(moved) = group.members.get(it.place) {
            self.accounts[moved.index()].place = it.place;
        }
        if let Some(count) = group.weights.get_mut(&it.weight.to_bits()) {
            *count -= 1;
            if *count == 0 {
                group.weights.remove(&it.weight.to_bits());
            }
        }
        group.load.expect(-it.load.mean(view.now), view.now);
    }

    /// `vcpu`, which does not wait, has something to do from now on (1) or not any more (-1).
    fn count(&mut self, vcpu: VcpuId, by: f64, now: Time) {
        let it = &mut self.accounts[vcpu.index()];
        it.load.change(by, now);
        self.groups[it.queue as usize].load.change(by, now);
    }

    /// Moves `vcpu` to a queue: at once, or when it has left its CPU.
    fn migrate(&mut self, vcpu: VcpuId, queue: u32, view: &View) {
        if let State::Running(cpu) = view.vcpu(vcpu).state {
            self.accounts[vcpu.index()].moves = Some(queue);
            self.later.push(cpu);
            return;
        }
        if self.left.contains(&Some(vcpu)) {
            return;
        }
        let waits = self.remove(vcpu, view);
        self.rehome(vcpu, queue, view);
        if waits {
            self.insert(vcpu, view);
            let cpu = self.tickle(vcpu, view);
            self.later.extend(cpu);
        }
    }

    /// Moves one that does not wait; what it weighs on its queue goes with it.
    fn rehome(&mut self, vcpu: VcpuId, queue: u32, view: &View) {
        let is_active = f64::from(u8::from(view.vcpu(vcpu).state != State::Halted));
        let from = self.accounts[vcpu.index()].queue;
        self.groups[from as usize].load.change(-is_active, view.now);
        self.deassign(vcpu, view);
        self.assign(vcpu, queue, view);
        self.groups[queue as usize].load.change(is_active, view.now);
    }

    /// Everybody in a queue gets the same credit, twice as much where who is next has none to speak of.
    fn reset(&mut self, queue: u32, next: VcpuId, view: &View) {
        let more = if self.accounts[next.index()].credit <= -CREDIT { 2 * CREDIT } else { CREDIT };
        for vcpu in self.groups[queue as usize].members.clone() {
            if matches!(view.vcpu(vcpu).state, State::Running(_)) {
                self.burn(vcpu, view.now);
            }
            let it = &mut self.accounts[vcpu.index()];
            it.credit = (it.credit + more).min(CREDIT + CARRIED);
        }
        let waiting = self.all.as_ref().map(|all| all.all(queue)).unwrap_or_default();
        for vcpu in waiting {
            self.remove(vcpu, view);
            self.insert(vcpu, view);
        }
        self.runners.touch(queue);
    }

    /// Looks for the queue whose load differs most from this one's, and makes the difference less.
    fn balance(&mut self, queue: u32, view: &View) {
        let loads = self.groups.iter().map(|group| group.load.mean(view.now));
        let loads: Vec<f64> = loads.collect();
        let own = loads[queue as usize];
        let others = (0u32..).zip(&loads).filter(|(other, _)| *other != queue);
        let far = others.map(|(other, load)| ((load - own).abs(), other));
        let Some((difference, other)) =
            far.max_by(|one, two| one.0.total_cmp(&two.0).then(two.1.cmp(&one.1)))
        else {
            return;
        };
        let sizes = [queue, other].map(|at| self.groups[at as usize].cpus.len());
        let is_full = own.max(loads[other as usize]) >= f64::from(sizes[0].max(sizes[1]));
        if difference < if is_full { WORTH.1 } else { WORTH.0 } {
            return;
        }
        let movable = |from: u32, to: u32| {
            let to = &self.groups[to as usize].cpus;
            let all = self.groups[from as usize].members.iter();
            let may = all.filter(|vcpu| view.affinity(**vcpu).first_common(to).is_some());
            let is_free = may.filter(|vcpu| self.accounts[vcpu.index()].moves.is_none());
            is_free
                .map(|vcpu| Member { load: self.accounts[vcpu.index()].load.mean(view.now), vcpu: *vcpu })
                .collect()
        };
        let (push, pull) =
            exchange(own - loads[other as usize], movable(queue, other), movable(other, queue));
        for (vcpu, to) in push.map(|vcpu| (vcpu, other)).into_iter().chain(pull.map(|vcpu| (vcpu, queue))) {
            self.migrate(vcpu, to, view);
        }
    }

    /// Who comes next on `cpu`, beside who has just left it.
    fn candidate(&mut self, cpu: CpuId, left: Option<VcpuId>, view: &View) -> Option<VcpuId> {
        let of = |account: &Credit2Account| account.credit;
        let floor = left.map_or(IDLE, |vcpu| of(&self.accounts[vcpu.index()]));
        if let Some(vcpu) = left
            && view.now.since(self.accounts[vcpu.index()].began) < RATE_LIMIT
        {
            return left;
        }
        loop {
            let first = self.all.as_ref().and_then(|all| all.first_on(self.group_of(cpu), cpu, view));
            let is_worth = |vcpu: &VcpuId| {
                let it = &self.accounts[vcpu.index()];
                it.credit > floor && (it.home == cpu || left.is_none() || it.credit >= floor + RESIST)
            };
            let here = || self.own[cpu.index()].first().map(|(_, vcpu)| *vcpu);
            let found = first.filter(is_worth).or_else(|| here().filter(is_worth));
            let Some(vcpu) = found else { break };
            self.remove(vcpu, view);
            if !self.caps.parks(vcpu, view.vm_of(vcpu)) {
                return Some(vcpu);
            }
        }
        left
    }

    /// How long `vcpu` runs: until it has no more than the next one, or `flying`, who is about to wait.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "positive, and bounded below"
    )]
    fn span(&self, vcpu: VcpuId, flying: i64, least: Span) -> Span {
        let it = &self.accounts[vcpu.index()];
        let next = self.all.as_ref().and_then(|all| all.first(it.queue));
        let next = next.map_or(0, |next| self.accounts[next.index()].credit).max(flying).max(0);
        let more = it.credit.saturating_sub(next).max(0) as f64;
        let span = Span::from_nanos((more * it.weight / self.groups[it.queue as usize].heaviest()) as u64);
        if span < least { least } else { span.min(self.slice) }
    }

    fn free(&mut self, free: Vec<VcpuId>, view: &View) {
        for vcpu in free {
            self.insert(vcpu, view);
            // Nobody makes room for him: what that one gives back of his limit would free others, and so on.
            let cpu = self.tickle(vcpu, view);
            self.idle.extend(cpu);
        }
    }
}

impl Policy for Credit2 {
    fn begin(&mut self, view: &View) {
        let cpus = u32::try_from(view.cpus.len()).unwrap_or(u32::MAX);
        let of = |group: u32| {
            let cpus: CpuSet = (group * self.width..((group + 1) * self.width).min(cpus)).collect();
            Group { bias: cpus.iter().last().unwrap_or(0), cpus, ..Group::default() }
        };
        self.groups = (0..cpus.div_ceil(self.width)).map(of).collect();
        let account = |vcpu: &crate::host::Vcpu| Credit2Account {
            credit: CREDIT,
            weight: view.vms[vcpu.vm.index()].weight,
            burnt: Time::ZERO,
            began: Time::ZERO,
            home: CpuId(0),
            queue: 0,
            place: 0,
            load: Load::default(),
            moves: None,
        };
        self.accounts = view.vcpus.iter().map(account).collect();
        self.all = Some(RunQueues::new(self.groups.len(), view, (Reverse(0), 0)));
        self.own = vec![BTreeSet::new(); view.cpus.len()];
        self.left = vec![None; view.cpus.len()];
        self.runners = Runners::new(view.cpus.len(), self.groups.len(), self.width);
        self.caps = Caps::new(PERIOD, view);
        self.slop = Slop::new(view.in_step);
        self.next = self.caps.first_tick().unwrap_or(Time::NEVER);
        // Virtual CPUs that are made one after the other go where fewest are.
        for vcpu in (0u32..).map(VcpuId).take(view.vcpus.len()) {
            let may = (0u32..).zip(&self.groups);
            let may = may.filter(|(_, group)| group.cpus.first_common(view.affinity(vcpu)).is_some());
            let load = |group: &Group| group.members.len() as f64 / f64::from(group.cpus.len().max(1));
            let least =
                may.min_by(|one, two| load(one.1).total_cmp(&load(two.1))).map_or(0, |(group, _)| group);
            self.assign(vcpu, least, view);
        }
    }

    fn ready(&mut self, vcpu: VcpuId, why: Why, view: &View) -> Option<CpuId> {
        if why == Why::Woken {
            self.count(vcpu, 1.0, view.now);
            self.insert(vcpu, view);
            return self.tickle(vcpu, view);
        }
        self.stop(vcpu, view);
        let free = self.caps.back(vcpu, view.vm_of(vcpu), view);
        self.free(free, view);
        if let Some(queue) = self.accounts[vcpu.index()].moves.take() {
            self.rehome(vcpu, queue, view);
            self.insert(vcpu, view);
            return self.tickle(vcpu, view);
        }
        let last = view.vcpu(vcpu).last_cpu().filter(|_| why == Why::Preempted);
        match last {
            Some(cpu) => self.left[cpu.index()] = Some(vcpu),
            None => self.insert(vcpu, view),
        }
        None
    }

    fn take(&mut self, vcpu: VcpuId, view: &View) {
        if !self.remove(vcpu, view) && !self.caps.take(vcpu, view.vm_of(vcpu)) {
            self.left.iter_mut().filter(|left| **left == Some(vcpu)).for_each(|left| *left = None);
        }
        let it = &mut self.accounts[vcpu.index()];
        (it.began, it.burnt) = (view.now, view.now);
        self.runners.take(vcpu);
    }

    fn pick(&mut self, cpu: CpuId, view: &View) -> Pick {
        self.told.remove(cpu.0);
        let left = self.left[cpu.index()].take();
        let left = left.filter(|vcpu| !self.caps.parks(*vcpu, view.vm_of(*vcpu)));
        let next = self.candidate(cpu, left, view);
        let waits = left.filter(|left| next != Some(*left));
        let Some(vcpu) = next else { return Pick::Idle };
        let queue = self.group_of(cpu);
        let first = self.all.as_ref().and_then(|all| all.first(queue));
        let most = first.into_iter().chain([vcpu]).map(|vcpu| self.accounts[vcpu.index()].credit).max();
        if most.is_some_and(|most| most <= 0) {
            self.reset(queue, vcpu, view);
            self.balance(queue, view);
        }
        let flying = waits.map_or(0, |waits| self.accounts[waits.index()].credit);
        let began = self.accounts[vcpu.index()].began;
        let stays = left == Some(vcpu);
        let rate_limit =
            if stays { (began + RATE_LIMIT).since(view.now.min(began + RATE_LIMIT)) } else { RATE_LIMIT };
        let it = &mut self.accounts[vcpu.index()];
        if it.home != cpu {
            it.credit += COMPENSATION;
            it.home = cpu;
        }
        it.burnt = view.now;
        if !stays {
            it.began = view.now;
        }
        let span = self.span(vcpu, flying, LEAST.max(rate_limit)) + self.slop.draw();
        if let Some(waits) = waits {
            self.insert(waits, view);
            if view.smt > 1 {
                // It is idle no more.
                self.told.insert(cpu.0);
            }
            let other = self.tickle(waits, view).filter(|other| *other != cpu);
            self.later.extend(other);
            self.told.remove(cpu.0);
        }
        self.runners.begin(cpu, self.accounts[vcpu.index()].began);
        let span = self.caps.grant(vcpu, view.vm_of(vcpu), cpu, span);
        Pick::Run(vcpu, view.now + span)
    }

    fn ran(&mut self, vcpu: VcpuId, cpu: CpuId, span: Span, view: &View) {
        // Who runs in another's place runs on another's CPU.
        self.accounts[vcpu.index()].home = cpu;
        let queue = self.group_of(cpu);
        if self.accounts[vcpu.index()].queue != queue {
            self.rehome(vcpu, queue, view);
            self.accounts[vcpu.index()].home = cpu;
        }
        self.caps.ran(vcpu, view.vm_of(vcpu), span);
    }

    fn halted(&mut self, vcpu: VcpuId, view: &View) {
        self.stop(vcpu, view);
        self.count(vcpu, -1.0, view.now);
        self.accounts[vcpu.index()].moves = None;
        let free = self.caps.back(vcpu, view.vm_of(vcpu), view);
        self.free(free, view);
    }

    fn first_tick(&self) -> Option<Time> {
        self.caps.first_tick()
    }

    fn tick(&mut self, view: &View, again: &mut Vec<CpuId>) -> Option<Time> {
        if view.now >= self.next {
            let (free, next) = self.caps.renew(view);
            self.next = next;
            self.free(free, view);
            // At the beginning of a period they may take a CPU.
            self.later.append(&mut self.idle);
        }
        again.append(&mut self.later);
        again.extend(self.idle.drain(..).filter(|cpu| view.idle.contains(cpu.0)));
        Some(self.next)
    }

    fn extra_tick(&mut self) -> Option<Time> {
        (!self.later.is_empty() || !self.idle.is_empty()).then_some(Time::ZERO)
    }

    fn reads_all_books(&self) -> bool {
        false
    }

    fn is_work_conserving(&self) -> bool {
        self.groups.len() == 1 && !self.caps.any()
    }
}
