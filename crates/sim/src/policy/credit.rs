//! Xen's credit scheduler: credits are handed out by weight and burnt by running. Who has some left is under its share
//! and comes before those who are over; who wakes while under is boosted and may take a CPU at once.
//!
//! ```text
//!               wakes while UNDER                 ┌─ every 10 ms: credits by weight, BOOST is over ─┐
//!  halted ────────────────────────► BOOST ────────┴──────────► UNDER ◄────────────────► OVER ◄──────┘
//!                                                               credits left            none left
//! ```
//! Source: the documentation of Xen's credit scheduler (wiki "Credit Scheduler"; xl manual, `sched-credit`: weight, cap,
//! slice of 30 ms, rate limit of 1 ms) and Cherkasova, Gupta, Vahdat (2007). Credits are burnt exactly, as in
//! Xen since samples were given up. All CPUs share one queue here, first come first served among those who are under; what a
//! VM cannot use of its credits is dealt out to the others. Caps are `limit_cpus` per accounting period of 30 ms. It knows no
//! reservations.
//!
//! Shares are by weight, as the manual says: savings and debts are bounded by ten slices and not by one as in Xen, and of those
//! who are over who is least so comes first. Xen as it is (`per_cpu/credit.rs`) gives less to who has to run more than half of
//! the time to have his share, because he waits in line with the others that are under and what he earns meanwhile is cut;
//! what that leaves goes to those who are over, one as much as the other. On 2 CPUs with A (1 virtual CPU, weight 8), B (2, 8)
//! and C (2, 1) all have 0.94, 0.94 and 0.12 here, and 0.90, 0.96 and 0.14 there; of the shares on 100 random hosts of endless
//! loops 99 % lie within 2 % of water-filling here, and some 60 % there (`tests/shares.rs`).

use std::cmp::Reverse;

use super::budgets::Budgets;
use super::lines::Lines;
use super::meetings::place_after;
use super::{CreditKeys, Pick, Policy, Why};
use crate::host::{CpuId, State, VcpuId, View, VmId};
use crate::time::{Span, Time};
use stats::water::{Claim, fill};

/// Credits are handed out this often.
const TICK: Span = Span::from_millis(10);
/// Ticks per accounting period, for caps.
const TICKS: u64 = 3;

/// Savings and debts are bounded by so many slices.
const BOUND: u64 = 10;

/// How soon somebody runs; less is sooner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Priority {
    Boost,
    Under,
    Over,
}

/// Who comes first: the priority; of those who are over, who is least so; then who has waited longer.
type Place = (Priority, i64, u64);

/// What the policy knows of a virtual CPU.
#[derive(Debug, Clone, Copy)]
struct Account {
    /// Nanoseconds it may still run; debt when negative.
    credit: i64,
    boosted: bool,
    /// Its place in line.
    line: u64,
    /// Since when it has had its CPU.
    began: Time,
    /// Whether it had something to do since credits were last handed out.
    active: bool,
}

impl Account {
    fn place(&self) -> Place {
        let priority = self.priority();
        (priority, if priority == Priority::Over { -self.credit } else { 0 }, self.line)
    }

    const fn priority(&self) -> Priority {
        match (self.boosted, self.credit > 0) {
            (true, _) => Priority::Boost,
            (false, true) => Priority::Under,
            (false, false) => Priority::Over,
        }
    }
}

/// What a tick is worth to each virtual CPU, kept for as long as as many of each VM have something to do.
#[derive(Debug, Clone, Default)]
struct Grants {
    active_of: Vec<u32>,
    of_each: Vec<i64>,
}

impl Grants {
    /// By weight, none to a VM beyond what it can use; `active_of` counts each VM's virtual CPUs that want to run.
    #[expect(clippy::cast_possible_truncation, reason = "a tick's worth of CPU time")]
    fn update(&mut self, active_of: Vec<u32>, per_vcpu: bool, view: &View) {
        if active_of == self.active_of {
            return;
        }
        let needs = view.vms.iter().zip(&active_of);
        let claims: Vec<Claim> = needs
            .map(|(vm, active)| {
                let need = f64::from(*active).min(vm.limit_cpus.unwrap_or(f64::INFINITY));
                let times = if per_vcpu { f64::from((*active).max(1)) } else { 1.0 };
                Claim { need, weight: vm.weight * times }
            })
            .collect();
        let cpus = fill(&claims, view.cpus.len() as f64).into_iter().zip(&active_of);
        let of_each =
            cpus.map(|(cpus, active)| (cpus * TICK.as_f64() / f64::from((*active).max(1))).round() as i64);
        self.of_each = of_each.collect();
        self.active_of = active_of;
    }
}

/// The policy.
#[derive(Debug, Clone)]
pub struct Credit {
    keys: CreditKeys,
    accounts: Vec<Account>,
    /// Who waits, the next first.
    lines: Option<Lines<Place, Place>>,
    grants: Grants,
    budgets: Option<Budgets>,
    line: u64,
    ticks: u64,
    next: Time,
    /// When somebody who is boosted may take a CPU.
    later: Option<Time>,
}

impl Credit {
    /// With these keys.
    pub const fn new(keys: CreditKeys) -> Self {
        Self {
            keys,
            accounts: Vec::new(),
            lines: None,
            grants: Grants { active_of: Vec::new(), of_each: Vec::new() },
            budgets: None,
            line: 0,
            ticks: 0,
            next: Time::from_nanos(TICK.nanos()),
            later: None,
        }
    }

    fn priority(&self, vcpu: VcpuId) -> Priority {
        self.accounts[vcpu.index()].priority()
    }

    fn allows(&self, vcpu: VcpuId, view: &View) -> bool {
        self.budgets.as_ref().is_none_or(|budgets| budgets.allows(view.vm_of(vcpu)))
    }

    /// Lets it join its line or leave it, at its present priority.
    fn join(&mut self, vcpu: VcpuId, joins: bool, view: &View) {
        let it = &self.accounts[vcpu.index()];
        let place = it.place();
        let vm = view.vm_of(vcpu);
        if let Some(lines) = &mut self.lines {
            if lines.holds(vcpu) {
                lines.remove(vcpu, view);
            }
            if joins {
                lines.push(vcpu, place, (), view);
            }
        }
        self.queue(vm);
    }

    /// Brings a VM's lines to their places.
    fn queue(&mut self, vm: VmId) {
        let allowed = self.budgets.as_ref().is_none_or(|budgets| budgets.allows(vm));
        let accounts = &self.accounts;
        let place = |_: &_, head: VcpuId| {
            let it = &accounts[head.index()];
            allowed.then_some((it.place(), ()))
        };
        self.lines.iter_mut().for_each(|lines| lines.queue(vm, &|()| true, place));
    }

    /// The CPU whose virtual CPU has the least priority below `vcpu`'s; where only the rate limit protects it, that is
    /// looked at again when it is over.
    fn prey(&mut self, vcpu: VcpuId, view: &View, but: &[CpuId]) -> Option<CpuId> {
        let mine = self.priority(vcpu);
        let cpus = (0u32..).map(CpuId).zip(&view.cpus);
        let may = cpus.filter(|(cpu, _)| view.may_run(vcpu, *cpu) && !but.contains(cpu));
        let running = may.filter_map(|(cpu, place)| place.running.map(|other| (cpu, other)));
        let worse = running.filter(|(_, other)| self.priority(*other) > mine);
        let found = worse.map(|(cpu, other)| {
            let free = self.accounts[other.index()].began + self.keys.rate_limit;
            (free.max(view.now), Reverse(self.priority(other)), cpu)
        });
        let (free, _, cpu) = found.min()?;
        if free > view.now {
            self.later = Some(self.later.map_or(free, |later| later.min(free)));
            return None;
        }
        Some(cpu)
    }

    /// Hands out the credits of a tick.
    fn hand_out(&mut self, view: &View) {
        let most = self.keys.slice.max(TICK).nanos().saturating_mul(BOUND);
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let mut active_of = vec![0; view.vms.len()];
        for (it, vcpu) in self.accounts.iter().zip(&view.vcpus) {
            active_of[vcpu.vm.index()] += u32::from(it.active);
        }
        self.grants.update(active_of, self.keys.per_vcpu, view);
        let mut changed = Vec::new();
        for ((it, vcpu), number) in self.accounts.iter_mut().zip(&view.vcpus).zip(0..) {
            let before = it.place();
            if it.active {
                it.credit = (it.credit + self.grants.of_each[vcpu.vm.index()]).clamp(-most, most);
            }
            it.active = vcpu.state != State::Halted;
            it.boosted &= vcpu.state == State::Ready;
            let after = it.place();
            if after != before {
                changed.push(VcpuId(number));
            }
        }
        for vcpu in changed {
            if self.lines.as_ref().is_some_and(|lines| lines.holds(vcpu)) {
                self.join(vcpu, true, view);
            }
        }
    }
}

impl Policy for Credit {
    fn begin(&mut self, view: &View) {
        let began = Time::ZERO;
        self.accounts =
            vec![Account { credit: 0, boosted: false, line: 0, began, active: false }; view.vcpus.len()];
        let period = Span::from_nanos(TICK.nanos() * TICKS);
        // Xen's credit accounts for everybody at once.
        self.budgets = Some(Budgets::in_step(period, view)).filter(Budgets::has_limits);
        self.lines = Some(Lines::new(view, ((Priority::Over, 0, 0), ()), ((Priority::Over, 0, 0), ())));
    }

    fn ready(&mut self, vcpu: VcpuId, why: Why, view: &View) -> Option<CpuId> {
        if why != Why::Woken
            && let Some(budgets) = &mut self.budgets
        {
            budgets.back(vcpu, view.vm_of(vcpu));
        }
        let boosts = self.keys.boost && why == Why::Woken && view.now > Time::ZERO;
        self.line += 1;
        let it = &mut self.accounts[vcpu.index()];
        // A boost is over when it has had its turn.
        it.boosted = boosts && it.credit > 0;
        it.active = true;
        it.line = self.line;
        self.join(vcpu, true, view);
        let idle = if why == Why::Woken { view.idle_cpu_for(vcpu) } else { place_after(vcpu, view) };
        if let Some(idle) = idle {
            return Some(idle);
        }
        if why == Why::Woken && self.allows(vcpu, view) { self.prey(vcpu, view, &[]) } else { None }
    }

    fn take(&mut self, vcpu: VcpuId, view: &View) {
        self.join(vcpu, false, view);
        self.accounts[vcpu.index()].began = view.now;
    }

    fn pick(&mut self, cpu: CpuId, view: &View) -> Pick {
        let first = self.lines.as_ref().and_then(|lines| lines.first(cpu));
        first.map_or(Pick::Idle, |vcpu| {
            self.take(vcpu, view);
            let vm = view.vm_of(vcpu);
            let slice = self.keys.slice;
            let span = self.budgets.as_mut().map_or(slice, |budgets| budgets.grant(vcpu, vm, cpu, slice));
            self.queue(vm);
            Pick::Run(vcpu, view.now + span)
        })
    }

    fn ran(&mut self, vcpu: VcpuId, _: CpuId, span: Span, view: &View) {
        let it = &mut self.accounts[vcpu.index()];
        it.credit = it.credit.saturating_sub_unsigned(span.nanos());
        if let Some(budgets) = &mut self.budgets {
            budgets.ran(vcpu, view.vm_of(vcpu), span);
            self.queue(view.vm_of(vcpu));
        }
    }

    fn halted(&mut self, vcpu: VcpuId, view: &View) {
        self.accounts[vcpu.index()].boosted = false;
        if let Some(budgets) = &mut self.budgets {
            budgets.back(vcpu, view.vm_of(vcpu));
            self.queue(view.vm_of(vcpu));
        }
    }

    fn first_tick(&self) -> Option<Time> {
        Some(self.next)
    }

    fn tick(&mut self, view: &View, again: &mut Vec<CpuId>) -> Option<Time> {
        if view.now >= self.next {
            self.next = view.now + TICK;
            self.ticks += 1;
            self.hand_out(view);
            if let Some(budgets) = self.budgets.as_mut().filter(|_| self.ticks.is_multiple_of(TICKS)) {
                budgets.renew(view, again);
                let counted = budgets.counted();
                for vm in counted {
                    self.queue(vm);
                }
            }
        } else {
            // Somebody who is boosted waited for the end of a rate limit.
            let mut boosted: Vec<VcpuId> = Vec::new();
            if let Some(lines) = &self.lines {
                lines.walk(&mut |vcpu, (priority, ..)| {
                    boosted.extend((priority == Priority::Boost).then_some(vcpu));
                    priority == Priority::Boost
                });
            }
            boosted.sort_unstable();
            for vcpu in boosted {
                let prey = self.prey(vcpu, view, again);
                again.extend(prey);
            }
        }
        Some(self.next)
    }

    fn extra_tick(&mut self) -> Option<Time> {
        self.later.take()
    }

    fn is_work_conserving(&self) -> bool {
        self.budgets.is_none()
    }
}
