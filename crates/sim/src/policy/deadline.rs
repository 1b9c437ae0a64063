//! Linux' `SCHED_DEADLINE`: every virtual CPU of a VM with a budget is a hard constant-bandwidth server, and of those that
//! have budget left the one with the earliest deadline runs (global earliest deadline first); who has no budget at all shares
//! by weight what they leave.
//!
//! ```text
//!  wakes, deadline over or budget > bandwidth × time to it:  deadline := now + D, budget := Q      else it keeps both
//!  budget used up ─► throttled ─► at its next period (deadline − D + P): deadline += P, budget += Q ─► runs again
//!  D < P: woken before its deadline with too much budget ─► budget := (deadline − now) · Q/D; after it ─► next period
//! ```
//! Source: Abeni and Buttazzo, "Integrating multimedia applications in hard real-time systems" (1998); Linux,
//! Documentation/scheduler/sched-deadline.rst and the rules of `kernel/sched/deadline.c` (`update_dl_entity`,
//! `replenish_dl_entity`, `dl_check_constrained_dl`). Budgets are enforced to the nanosecond, as with high-resolution timers;
//! budget that others leave is not reclaimed (`SCHED_FLAG_RECLAIM`, GRUB), and the server that keeps 5 % for the rest is not
//! modelled: admission keeps them (`model::scenario`). Not work-conserving: who is throttled waits, also beside idle CPUs.

use super::fair_queue::FairQueue;
use super::lines::Lines;
use super::timers::Timers;
use super::{Pick, Policy, Why};
use crate::host::{CpuId, CpuSet, State, VcpuId, View};
use crate::scenario::{Names, micros};
use crate::time::{Span, Time};
use model::scenario::Scenario;

/// What each virtual CPU of a VM is promised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reservation {
    /// So long it may run per period; above 0.
    pub budget: Span,
    /// Within so long of a period's beginning it has had that; at most the period.
    pub deadline: Span,
    /// The period.
    pub period: Span,
}

impl Reservation {
    const fn is_constrained(&self) -> bool {
        self.deadline.nanos() < self.period.nanos()
    }

    /// What its density gives in so long.
    fn part_of(&self, span: Span) -> i64 {
        let part = u128::from(span.nanos()) * u128::from(self.budget.nanos());
        i64::try_from(part / u128::from(self.deadline.nanos().max(1))).unwrap_or(i64::MAX)
    }
}

#[derive(Debug, Clone, Copy)]
struct Server {
    of: Reservation,
    /// Budget left, nanoseconds; what was overrun is below zero.
    left: i64,
    /// None before it has run for the first time.
    deadline: Option<Time>,
    /// It has to wait until then.
    throttled: Option<Time>,
}

impl Server {
    fn size(&self) -> i64 {
        i64::try_from(self.of.budget.nanos()).unwrap_or(i64::MAX)
    }

    fn renew(&mut self, now: Time) {
        (self.deadline, self.left) = (Some(now + self.of.deadline), self.size());
    }

    /// When the period after that of its deadline begins.
    fn next_period(&self, deadline: Time) -> Time {
        deadline + self.of.period.less(self.of.deadline)
    }

    /// It wakes.
    fn wake(&mut self, now: Time) {
        if self.throttled.is_some() {
            return;
        }
        let Some(deadline) = self.deadline else { return self.renew(now) };
        let next = self.next_period(deadline);
        if deadline < now && now < next {
            self.left = self.left.min(0);
            self.throttled = Some(next);
            return;
        }
        let laxity = deadline.since(now);
        let claims = i128::from(self.left) * i128::from(self.of.deadline.nanos());
        let has_too_much = claims > i128::from(laxity.nanos()) * i128::from(self.of.budget.nanos());
        if deadline < now || (has_too_much && !self.of.is_constrained()) {
            self.renew(now);
        } else if has_too_much {
            self.left = self.of.part_of(laxity);
            self.throttled = (self.left <= 0).then_some(next);
        }
    }

    /// It ran so long.
    fn pay(&mut self, span: Span) {
        self.left = self.left.saturating_sub_unsigned(span.nanos());
        if self.left <= 0
            && let Some(deadline) = self.deadline
        {
            self.throttled = Some(self.next_period(deadline));
        }
    }

    /// Its next period has begun.
    fn replenish(&mut self, now: Time) {
        self.throttled = None;
        let Some(mut deadline) = self.deadline else { return };
        while self.left <= 0 {
            deadline = deadline + self.of.period;
            self.left = self.left.saturating_add(self.size().max(1));
        }
        self.deadline = Some(deadline);
        if deadline < now {
            self.renew(now);
        }
    }

    const fn may_run(&self) -> bool {
        self.throttled.is_none() && self.left > 0
    }
}

/// The policy.
pub struct Deadline {
    reservations: Vec<Option<Reservation>>,
    /// By virtual CPU; none has no budget at all.
    servers: Vec<Option<Server>>,
    /// Servers that wait and may run, by deadline.
    lines: Option<Lines<Time, Time>>,
    /// When those that are throttled go on.
    timers: Timers<VcpuId>,
    quantum: Span,
    /// Those without a budget.
    rest: Option<FairQueue>,
}

impl Deadline {
    /// With what each VM's virtual CPUs are promised; those of VMs without share what is left, in turns of `quantum`.
    pub fn new(reservations: Vec<Option<Reservation>>, quantum: Span) -> Self {
        let (servers, timers) = (Vec::new(), Timers::default());
        Self { reservations, servers, lines: None, timers, quantum, rest: None }
    }

    /// With what a scenario says at its VMs.
    pub(super) fn from_scenario(quantum: Span, names: &Names, scenario: &Scenario) -> Self {
        let reservation = |vm: usize| {
            let spec = names.spec(scenario, vm)?;
            let (budget, period) = (micros(spec.budget_us?), micros(spec.period_us?));
            Some(Reservation { budget, period, deadline: spec.deadline_us.map_or(period, micros) })
        };
        Self::new((0..names.vms.len()).map(reservation).collect(), quantum)
    }

    fn server(&self, vcpu: VcpuId) -> Option<&Server> {
        self.servers.get(vcpu.index()).and_then(Option::as_ref)
    }

    fn server_mut(&mut self, vcpu: VcpuId) -> Option<&mut Server> {
        self.servers.get_mut(vcpu.index()).and_then(Option::as_mut)
    }

    /// The deadline of whoever runs there; none without a budget.
    fn deadline_on(&self, cpu: CpuId, view: &View) -> Option<Time> {
        let running = view.cpus[cpu.index()].running?;
        self.server(running).and_then(|server| server.deadline)
    }

    /// A CPU for a server that waits: an idle one, one where somebody without a budget runs, or the one with the latest deadline
    /// if that is later than its own.
    fn place(&self, vcpu: VcpuId, view: &View, but: &CpuSet) -> Option<CpuId> {
        let server = self.server(vcpu).filter(|server| server.may_run())?;
        let is_left = |cpu: &CpuId| !but.contains(cpu.0);
        let idle = || view.idle.common(view.affinity(vcpu)).map(CpuId).find(is_left);
        if let Some(cpu) = view.idle_cpu_for(vcpu).filter(is_left).or_else(idle) {
            return Some(cpu);
        }
        let may = view.affinity(vcpu).iter().map(CpuId).filter(is_left);
        // Without a budget is later than every deadline.
        let running = may.map(|cpu| (self.deadline_on(cpu, view).unwrap_or(Time::NEVER), cpu));
        let latest = running.max_by_key(|(deadline, cpu)| (*deadline, std::cmp::Reverse(*cpu)));
        latest.filter(|(deadline, _)| Some(*deadline) > server.deadline).map(|(_, cpu)| cpu)
    }

    /// Lets a server join its line if it may run and `joins`, and leave it otherwise.
    fn join(&mut self, vcpu: VcpuId, joins: bool, view: &View) {
        let deadline = self.server(vcpu).filter(|server| joins && server.may_run());
        let deadline = deadline.and_then(|server| server.deadline);
        let Some(lines) = &mut self.lines else { return };
        if lines.holds(vcpu) {
            lines.remove(vcpu, view);
        }
        if let Some(deadline) = deadline {
            lines.push(vcpu, deadline, (), view);
        }
        lines.queue(view.vm_of(vcpu), &|()| true, |lines, head| Some((lines.key(head), ())));
    }

    /// A timer for one that is throttled; one whose next period has begun already goes on at once.
    fn set_timer(&mut self, vcpu: VcpuId, now: Time) {
        let Some(at) = self.server(vcpu).and_then(|server| server.throttled) else { return };
        if at <= now {
            self.server_mut(vcpu).into_iter().for_each(|server| server.replenish(now));
        } else {
            self.timers.set(at, vcpu);
        }
    }

    /// A server is ready: woken, or taken off its CPU.
    fn server_ready(&mut self, vcpu: VcpuId, why: Why, view: &View) -> Option<CpuId> {
        if why == Why::Woken {
            self.server_mut(vcpu).into_iter().for_each(|server| server.wake(view.now));
            self.set_timer(vcpu, view.now);
        }
        self.join(vcpu, true, view);
        let last = view.vcpu(vcpu).last_cpu().filter(|_| why != Why::Woken);
        // The CPU that it has just left picks anew anyway.
        let stays = last.is_some_and(|last| self.first_on(last) == Some(vcpu));
        if stays { None } else { self.place(vcpu, view, &last.iter().map(|last| last.0).collect()) }
    }

    fn first_on(&self, cpu: CpuId) -> Option<VcpuId> {
        self.lines.as_ref().and_then(|lines| lines.first(cpu))
    }
}

impl Policy for Deadline {
    fn begin(&mut self, view: &View) {
        let server = |vcpu: &crate::host::Vcpu| {
            let of = self.reservations.get(vcpu.vm.index()).copied().flatten()?;
            Some(Server { of, left: 0, deadline: None, throttled: None })
        };
        self.servers = view.vcpus.iter().map(server).collect();
        self.lines = Some(Lines::new(view, (Time::ZERO, ()), (Time::ZERO, ())));
        self.rest = Some(FairQueue::new(self.quantum, view, |vm| view.vms[vm].weight));
    }

    fn ready(&mut self, vcpu: VcpuId, why: Why, view: &View) -> Option<CpuId> {
        if self.server(vcpu).is_some() {
            return self.server_ready(vcpu, why, view);
        }
        self.rest.as_mut().and_then(|rest| rest.ready(vcpu, why, view))
    }

    fn take(&mut self, vcpu: VcpuId, view: &View) {
        if self.server(vcpu).is_some() {
            self.join(vcpu, false, view);
        } else if let Some(rest) = &mut self.rest {
            rest.take(vcpu, view);
        }
    }

    fn pick(&mut self, cpu: CpuId, view: &View) -> Pick {
        if let Some(vcpu) = self.first_on(cpu) {
            self.join(vcpu, false, view);
            let left = self.server(vcpu).map_or(0, |server| server.left);
            return Pick::Run(vcpu, view.now + Span::from_nanos(u64::try_from(left).unwrap_or(0)));
        }
        self.rest.as_mut().map_or(Pick::Idle, |rest| rest.pick(cpu, view))
    }

    fn ran(&mut self, vcpu: VcpuId, cpu: CpuId, span: Span, view: &View) {
        if let Some(server) = self.server_mut(vcpu) {
            let was_throttled = server.throttled.is_some();
            server.pay(span);
            if !was_throttled {
                self.set_timer(vcpu, view.now);
            }
        } else if let Some(rest) = &mut self.rest {
            rest.ran(vcpu, cpu, span, view);
        }
    }

    fn halted(&mut self, vcpu: VcpuId, view: &View) {
        if self.server(vcpu).is_none()
            && let Some(rest) = &mut self.rest
        {
            rest.halted(vcpu, view);
        }
    }

    /// Periods have begun: whoever was throttled may run again, the earliest deadline first.
    fn tick(&mut self, view: &View, again: &mut Vec<CpuId>) -> Option<Time> {
        self.timers.ticked(view.now);
        let mut back = Vec::new();
        while let Some(vcpu) = self.timers.due(view.now) {
            self.server_mut(vcpu).into_iter().for_each(|server| server.replenish(view.now));
            if view.vcpu(vcpu).state == State::Ready {
                self.join(vcpu, true, view);
                back.push((self.server(vcpu).and_then(|server| server.deadline), vcpu));
            }
        }
        back.sort_unstable();
        let (mut but, mut failed) = (CpuSet::default(), vec![false; view.affinities.len()]);
        for (_, vcpu) in back {
            // Whose deadline is later gets none either.
            let failed = &mut failed[view.vcpu(vcpu).affinity as usize];
            let cpu = if *failed { None } else { self.place(vcpu, view, &but) };
            *failed = cpu.is_none();
            if let Some(cpu) = cpu {
                but.insert(cpu.0);
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
        self.reservations.iter().all(Option::is_none)
    }

    fn may_stand_in(&self, vcpu: VcpuId, _: VcpuId, _: CpuId, _: &View) -> bool {
        self.server(vcpu).is_none_or(Server::may_run)
    }
}
