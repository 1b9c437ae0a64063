//! Random small scenarios, by number: hosts of 1 to 6 CPUs with 1 to 5 VMs.

use std::collections::BTreeSet;

use crate::guest::{Guest, GuestPlan, LockKind, Moment, OnLongWait, Op, Program, Seen, ThreadPlan};
use crate::host::{CpuSet, Habits, MAX_CPUS, Machine, VcpuId, Vm, VmId};

use crate::policy::deadline::{Deadline, Reservation};
use crate::policy::rtds::Reserve;
use crate::policy::table::{Cell, Table};
use crate::policy::{
    Credit, Credit2, CreditKeys, Eevdf, Gang, PerCpuCredit, PerCpuEevdf, Policy, Rtds, Slots, equal_per_vm,
    per_thread, proportional,
};
use crate::programs::{Endless, Fixed, Fwq, Samples};
use crate::random::Stream;
use crate::time::Span;
use model::scenario::reserved::{ReservedDemand, allot, billionths};

/// All policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    EqualPerVm,
    Proportional,
    PerThread,
    Slots,
    Credit,
    Credit2,
    Rtds,
    Deadline,
    Table,
    Eevdf,
    Gang,
    CreditQueues,
    Credit2Queues,
    EevdfQueues,
}

impl Kind {
    pub(super) const ALL: [Self; 14] = [
        Self::EqualPerVm,
        Self::Proportional,
        Self::PerThread,
        Self::Slots,
        Self::Credit,
        Self::Credit2,
        Self::Rtds,
        Self::Deadline,
        Self::Table,
        Self::Eevdf,
        Self::Gang,
        Self::CreditQueues,
        Self::Credit2Queues,
        Self::EevdfQueues,
    ];

    /// Those that have a queue per CPU, or group of CPUs.
    pub(super) const PER_CPU: [Self; 3] = [Self::CreditQueues, Self::Credit2Queues, Self::EevdfQueues];

    pub(super) const fn knows_reservations(self) -> bool {
        matches!(self, Self::EqualPerVm | Self::Proportional | Self::PerThread | Self::Eevdf)
    }

    pub(super) const fn knows_limits(self) -> bool {
        !matches!(self, Self::Slots | Self::Rtds | Self::Deadline | Self::Table)
    }
}

/// What a thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Does {
    Endless,
    Fixed(Span),
    Fwq(Span, u32),
    /// Works and sleeps for random times up to these, so often.
    Naps(Span, Span, u32),
}

/// Works, sleeps, and so on.
#[derive(Debug)]
struct Naps {
    work: Span,
    sleep: Span,
    left: u32,
    slept: bool,
}

impl Program for Naps {
    fn next(&mut self, moment: Moment<'_>) -> Op {
        if self.left == 0 {
            return Op::Finish;
        }
        self.slept = !self.slept;
        let up_to = |most: Span| Span::from_nanos(moment.random.stream().below(most.nanos()));
        if self.slept {
            return Op::SleepUntil(moment.now + up_to(self.sleep));
        }
        self.left -= 1;
        Op::Work(up_to(self.work))
    }

    fn seen(&self) -> Seen {
        Seen::default()
    }

    fn is_finite(&self) -> bool {
        true
    }
}

impl Does {
    fn program(self) -> Box<dyn Program> {
        match self {
            Self::Endless => Box::new(Endless),
            Self::Fixed(work) => Box::new(Fixed::new(work)),
            Self::Fwq(work, count) => Box::new(Fwq::new(work, count, work, Samples::new(1000))),
            Self::Naps(work, sleep, left) => Box::new(Naps { work, sleep, left, slept: true }),
        }
    }
}

/// A VM.
#[derive(Debug, Clone)]
pub(super) struct VmCase {
    pub(super) vcpus: u32,
    pub(super) weight: f64,
    pub(super) reserved: f64,
    pub(super) limit: Option<f64>,
    /// CPUs of each virtual CPU.
    pub(super) places: Vec<Vec<u32>>,
    pub(super) threads: Vec<Does>,
}

/// A host.
#[derive(Debug, Clone)]
pub(super) struct Case {
    pub(super) kind: Kind,
    pub(super) cpus: u32,
    pub(super) slice: Span,
    pub(super) switch: Span,
    pub(super) vms: Vec<VmCase>,
    pub(super) seed: u64,
    /// CPUs and periods out of step.
    pub(super) staggered: bool,
    /// Weights of credit count for each virtual CPU.
    pub(super) per_vcpu: bool,
    /// CPUs to a queue of credit2.
    pub(super) width: u32,
}

impl Case {
    /// Case number `number` of a policy. With `endless` every VM can use all its virtual CPUs always, and all CPUs.
    pub(super) fn random(kind: Kind, number: u64, endless: bool) -> Self {
        let mut random = Stream::new(number, &[kind as u64, u64::from(endless)]);
        let mut up_to = |most: u32| 1 + u32::try_from(random.below(u64::from(most))).unwrap_or(0);
        let cpus = up_to(6);
        let affinities = !endless && up_to(3) == 1;
        let slice = Span::from_micros(u64::from(up_to(5)) * 500);
        let switch = Span::from_micros(if up_to(3) == 1 && !endless { 5 } else { 0 });
        let mut free = f64::from(cpus);
        let mut vms = Vec::new();
        for _ in 0..up_to(5) {
            let vcpus = up_to(4);
            let mut reserved = 0.0;
            if kind.knows_reservations() && !affinities && up_to(3) == 1 {
                reserved = (f64::from(up_to(10)) / 10.0 * f64::from(vcpus.min(cpus))).min(free * 0.95);
                free -= reserved;
            }
            let limited = kind.knows_limits() && !endless && up_to(3) == 1;
            let limit = limited.then(|| (f64::from(up_to(40)) / 20.0).max(reserved));
            let weight = [0.5, 1.0, 2.0, 3.0][up_to(4) as usize - 1];
            let places = (0..vcpus).map(|_| {
                let cpu = up_to(cpus) - 1;
                let more: Vec<u32> =
                    (0..cpus).filter(|other| !affinities || *other == cpu || up_to(3) == 1).collect();
                more
            });
            let places = places.collect();
            let count = if endless { vcpus } else { up_to(vcpus + 1) };
            let threads = (0..count).map(|_| {
                let time = |micros: u32| Span::from_micros(u64::from(micros));
                match if endless { 1 } else { up_to(5) } {
                    1 => Does::Endless,
                    2 => Does::Fixed(time(up_to(15_000))),
                    3 => Does::Fwq(time(up_to(500)), up_to(20)),
                    _ => Does::Naps(time(up_to(2_000)), time(up_to(4_000)), up_to(20)),
                }
            });
            let threads = threads.collect();
            vms.push(VmCase { vcpus, weight, reserved, limit, places, threads });
        }
        Self { kind, cpus, slice, switch, vms, seed: number, staggered: false, per_vcpu: false, width: 2 }
    }

    /// The same with endless loops on VMs that are free, kept to some CPUs, or pinned, and with as many reservations as can
    /// be kept at once, but for a twentieth.
    pub(super) fn bound(kind: Kind, number: u64) -> Self {
        let mut case = Self::random(kind, number, true);
        let mut random = Stream::new(number, &[kind as u64, 2]);
        let mut up_to = |most: u32| 1 + u32::try_from(random.below(u64::from(most))).unwrap_or(0);
        let mut demands: Vec<ReservedDemand> = Vec::new();
        for vm in &mut case.vms {
            let how = up_to(3);
            let own = up_to(case.cpus) - 1;
            let set: Vec<u32> =
                (0..case.cpus).filter(|cpu| how == 1 || *cpu == own || up_to(2) == 1).collect();
            vm.places = match how {
                3 => set.iter().cycle().take(vm.vcpus as usize).map(|cpu| vec![*cpu]).collect(),
                _ => vec![set; vm.vcpus as usize],
            };
            vm.reserved = 0.0;
            let cpus: BTreeSet<u32> = vm.places.iter().flatten().copied().collect();
            let most = vm.vcpus.min(u32::try_from(cpus.len()).unwrap_or(1));
            for _ in 0..3 {
                let wanted = f64::from(up_to(10)) / 10.0 * f64::from(most);
                demands.push(ReservedDemand { cpus: cpus.clone(), billionths: billionths(wanted) });
                if allot(&demands).is_ok() {
                    vm.reserved = wanted * 0.95;
                    break;
                }
                demands.pop();
            }
        }
        case
    }

    /// Its policy.
    pub(super) fn policy(&self) -> Box<dyn Policy> {
        let slice = self.slice;
        let half = Span::from_nanos(slice.nanos() / 2);
        let vms = || (0u32..).map(VmId).take(self.vms.len());
        let credit = CreditKeys {
            slice,
            boost: self.seed.is_multiple_of(2),
            rate_limit: half,
            per_vcpu: self.per_vcpu,
        };
        match self.kind {
            Kind::EqualPerVm => Box::new(equal_per_vm(slice)),
            Kind::Proportional => Box::new(proportional(slice)),
            Kind::PerThread => Box::new(per_thread(slice)),
            Kind::Slots => {
                let round = vms().map(Some).chain([None, Some(VmId(0))]).collect();
                let dynamic = self.seed.is_multiple_of(3).then_some(VmId(0));
                Box::new(Slots::new(slice, round, self.seed.is_multiple_of(2), dynamic))
            }
            Kind::Credit => Box::new(Credit::new(credit)),
            Kind::CreditQueues => Box::new(PerCpuCredit::new(credit)),
            Kind::Credit2 => Box::new(Credit2::new(slice, MAX_CPUS)),
            Kind::Credit2Queues => Box::new(Credit2::new(slice, self.width)),
            Kind::Rtds => {
                let reserve = |vm: VmId| {
                    let period = Span::from_millis(5 + 3 * u64::from(vm.0));
                    Reserve { budget: slice, period }
                };
                Box::new(Rtds::new(vms().map(reserve).collect()))
            }
            Kind::Deadline => {
                let reservation = |vm: VmId| {
                    let period = Span::from_millis(5 + 3 * u64::from(vm.0));
                    let deadline = if self.seed.is_multiple_of(3) { Span::from_millis(4) } else { period };
                    // Every third VM has no budget and shares what is left.
                    (vm.0 % 3 < 2).then_some(Reservation { budget: slice, deadline, period })
                };
                Box::new(Deadline::new(vms().map(reservation).collect(), slice))
            }
            Kind::Table => Box::new(self.table()),
            Kind::Eevdf => Box::new(Eevdf::new(slice, Span::from_millis(100))),
            Kind::EevdfQueues => Box::new(PerCpuEevdf::new(slice, Span::from_millis(100))),
            Kind::Gang => Box::new(Gang::new(slice)),
        }
    }

    /// Cells of a slice for virtual CPUs in turn, none in two places at once, and a second level.
    fn table(&self) -> Table {
        let all = (0u32..)
            .zip(&self.vms)
            .flat_map(|(vm, of)| (0u32..).zip(&of.places).map(move |(vcpu, cpus)| (vm, vcpu, cpus)));
        let all: Vec<(u32, u32, &Vec<u32>)> = all.collect();
        let slots = 2 * all.len() as u64;
        let mut cpus: Vec<Vec<Cell>> = vec![Vec::new(); self.cpus as usize];
        for slot in 0..slots {
            let mut used = BTreeSet::new();
            for (cpu, cells) in (0u32..).zip(&mut cpus) {
                let mut turn = all.iter().cycle().skip(usize::try_from(slot).unwrap_or(0)).take(all.len());
                let found =
                    turn.find(|(vm, vcpu, cpus)| cpus.contains(&cpu) && !used.contains(&(*vm, *vcpu)));
                // Every fifth cell nobody owns.
                if let Some((vm, vcpu, _)) = found.filter(|_| (slot + u64::from(cpu)) % 5 != 4) {
                    used.insert((*vm, *vcpu));
                    let at = |slot: u64| Span::from_nanos(self.slice.nanos() * slot);
                    cells.push(Cell { from: at(slot), to: at(slot + 1), vm: VmId(*vm), vcpu: Some(*vcpu) });
                }
            }
        }
        Table::new(Span::from_nanos(self.slice.nanos() * slots), cpus, Some(self.slice), Vec::new())
    }

    /// The machine, before its first event.
    pub(super) fn machine(&self) -> Machine {
        let (mut vms, mut guests, mut affinities) = (Vec::new(), Vec::new(), Vec::new());
        let mut first = 0;
        for (vm, number) in self.vms.iter().zip(0u32..) {
            affinities.extend(vm.places.iter().map(|cpus| cpus.iter().copied().collect::<CpuSet>()));
            vms.push(Vm {
                first: VcpuId(first),
                count: vm.vcpus,
                weight: vm.weight,
                reserved_cpus: vm.reserved,
                limit_cpus: vm.limit,
                phase: None,
            });
            let plan = |does: &Does| ThreadPlan { program: does.program(), priority: 0, bound: None };
            guests.push(Guest::new(GuestPlan {
                vm: VmId(number),
                first: VcpuId(first),
                vcpus: vm.vcpus,
                quantum: Span::from_millis(1),
                threads: vm.threads.iter().map(plan).collect(),
                locks: 0,
                lock_kind: LockKind::Ticket,
                on_long_wait: OnLongWait::Spin,
                mhz: 1000,
                seed: self.seed,
            }));
            first += vm.vcpus;
        }
        // Equal sets are one, as in machines from scenarios.
        let mut sets: Vec<CpuSet> = Vec::new();
        let affinity_of: Vec<u32> = affinities
            .into_iter()
            .map(|set| {
                let at = sets.iter().position(|known| *known == set).unwrap_or_else(|| {
                    sets.push(set);
                    sets.len() - 1
                });
                u32::try_from(at).unwrap_or(0)
            })
            .collect();
        let staggered = self.staggered.then_some(self.seed);
        let habits = Habits { switch: self.switch, staggered, ..Habits::default() };
        Machine::new(self.cpus, vms, sets, &affinity_of, guests, self.policy(), habits)
    }
}
