//! A host and its VMs, as written in a scenario.

use serde::{Deserialize, Serialize};

use super::locks::{InterruptSpec, LockSpec};
use super::program::ThreadSpec;
use super::queues::{QueuesSpec, WeightsSpec};
use super::table::CellSpec;
use super::{Impossible, bounded, bounded_f64, promises, servers};
use units::{Micros, Nanos};

/// Most CPUs of a host.
pub const MOST_CPUS: u32 = 1024;
/// Most virtual CPUs of all VMs.
pub const MOST_VCPUS: u32 = 1_000_000;
/// Longest time to fill a cache: a second.
const MOST_MIGRATE_NS: u64 = 1_000_000_000;
/// Longest slice: an hour.
pub(super) const HOUR_US: u64 = 3_600_000_000;

/// The host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct HostSpec {
    /// Its CPUs.
    pub cpus: u32,
    /// Clock rate, for waiting times in cycles.
    #[serde(default = "two_gigahertz")]
    pub mhz: u32,
    /// What it takes to bring another virtual CPU onto a CPU.
    #[serde(default)]
    pub switch_ns: Nanos,
    /// What it takes a virtual CPU to fill its caches anew on another CPU than the one it ran on last, before it gets on:
    /// its working set over the rate at which it is filled. On top of `switch_ns`; a VM's own `migrate_ns` comes first.
    #[serde(default)]
    pub migrate_ns: Nanos,
    /// CPUs that share a cache, in groups of so many from CPU 0 on; 1: each has its own.
    #[serde(default = "one")]
    pub cache_cpus: u32,
    /// What part of `migrate_ns` it takes between CPUs that share a cache, 0 to 1.
    #[serde(default)]
    pub migrate_near_share: f64,
    /// Who holds a lock at the end of its slice is left on for so long, once (delayed preemption); 0: never.
    #[serde(default)]
    pub grace_us: Micros,
    /// What is done for who spins in vain and says so.
    #[serde(default)]
    pub help: HelpSpec,
    /// Whether the CPUs' slices are out of step from the beginning, as those of real CPUs are, each of which has a timer
    /// of its own: virtual CPUs come up in random order, and the first slice on CPU i of n is cut to (i + 1)/n, as is the
    /// first period of limits and reservations of VM i of n. Unless given: true for `credit`, `credit2` and `eevdf`, which
    /// real hosts have, false for the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staggered: Option<bool>,
    /// Hardware threads per core: 1, or 2 that slow each other. CPUs 2i and 2i + 1 are then one core.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub smt: u32,
    /// The part of its speed that a hardware thread keeps while the other one of its core runs somebody; 1: all of it.
    #[serde(default = "unit_weight", skip_serializing_if = "is_whole")]
    pub smt_speed: f64,
    /// Bandwidth of each memory node, millions of bytes per second; unlimited unless given. Threads that want more together
    /// are slowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mb_s: Option<u64>,
    /// Memory nodes. The CPUs are dealt out to them evenly, in order, and use the bandwidth of their own.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub memory_nodes: u32,
    /// How CPUs are dealt out.
    pub policy: PolicySpec,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
const fn is_one(number: &u32) -> bool {
    *number == 1
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    clippy::float_cmp,
    reason = "serde asks by reference; 1 stands for nothing given"
)]
fn is_whole(part: &f64) -> bool {
    *part == 1.0
}

const fn yes() -> bool {
    true
}

const fn one_millisecond() -> Micros {
    Micros::from_micros(1_000)
}

const fn three_milliseconds() -> Micros {
    Micros::from_micros(3_000)
}

const fn ten_milliseconds() -> Micros {
    Micros::from_micros(10_000)
}

const fn thirty_milliseconds() -> Micros {
    Micros::from_micros(30_000)
}

const fn hundred_milliseconds() -> Micros {
    Micros::from_micros(100_000)
}

const fn sixteen() -> u32 {
    16
}

const fn two_gigahertz() -> u32 {
    2000
}

/// What a host does for a virtual CPU that spins in vain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum HelpSpec {
    /// Nothing.
    #[default]
    None,
    /// Another one of its VM runs in its place, who was preempted in its kernel first.
    KernelFirst,
    /// Another one of its VM runs in its place, whoever has waited longest (pause-loop exiting).
    Anyone,
}

/// How CPUs are dealt out. Each is described, with its source, in the file of its name below `crates/sim/src/policy`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "name", rename_all = "kebab-case", deny_unknown_fields)]
pub enum PolicySpec {
    /// Equal per VM, or by weight.
    EqualPerVm {
        /// The turn.
        #[serde(default = "ten_milliseconds")]
        quantum_us: Micros,
    },
    /// In proportion to what each VM can use.
    Proportional {
        /// The turn.
        #[serde(default = "ten_milliseconds")]
        quantum_us: Micros,
    },
    /// Equal per virtual CPU.
    PerThread {
        /// The turn.
        #[serde(default = "ten_milliseconds")]
        quantum_us: Micros,
    },
    /// A fixed round of slots on every CPU, as in the research hypervisor rHype.
    Slots {
        /// Length of a slot.
        slot_us: Micros,
        /// Names of VMs, slot by slot; "" is a slot that nobody owns.
        round: Vec<String>,
        /// Whether a slot whose owner has nothing to do goes to the next one in the round who has.
        #[serde(default)]
        yield_when_idle: bool,
        /// A VM whose number of slots follows its load: after each round it has one more if it used all of its slots,
        /// one less if it left one unused. At least one, at most half of the round; what it takes, others give.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        dynamic: Option<String>,
    },
    /// Xen's credit scheduler.
    Credit {
        /// The slice; 30 ms in Xen, and unless given.
        #[serde(default = "thirty_milliseconds")]
        slice_us: Micros,
        /// Whether who wakes with credit left is preferred; as in Xen unless given.
        #[serde(default = "yes")]
        boost: bool,
        /// Who has just begun to run is left alone for so long; 1 ms in Xen, and unless given.
        #[serde(default = "one_millisecond")]
        ratelimit_us: Micros,
        /// Where virtual CPUs wait.
        #[serde(default)]
        queues: QueuesSpec,
        /// What a weight counts for.
        #[serde(default)]
        weights: WeightsSpec,
    },
    /// A scheduler like Xen's credit2: burns credit by weight, resets when the first has none left.
    Credit2 {
        /// Longest slice; 10 ms in Xen, and unless given.
        #[serde(default = "ten_milliseconds")]
        slice_us: Micros,
        /// Where virtual CPUs wait.
        #[serde(default)]
        queues: QueuesSpec,
        /// With `queues = "per-cpu"`: CPUs that share a queue; those of a socket but 16 at most in Xen, 16 unless given.
        #[serde(default = "sixteen")]
        queue_cpus: u32,
    },
    /// A scheduler like Xen's RTDS: every virtual CPU has a budget per period, the earliest deadline runs. `budget_us` and
    /// `period_us` stand at the VMs.
    Rtds {},
    /// A table of cells per CPU, over and over, as in ARINC 653 and Tableau: written down, or planned from `reserved_cpus` and
    /// `latency_us` of the VMs.
    Table {
        /// The table repeats after so long, where cells are given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        length_us: Option<Micros>,
        /// Its cells.
        #[serde(default, rename = "cell", skip_serializing_if = "Vec::is_empty")]
        cells: Vec<CellSpec>,
        /// What is left, and what its owner does not use, goes round the virtual CPUs of the CPU in turns of this length; 0:
        /// to nobody. Not to those with cells on several CPUs, nor to VMs that are `capped`.
        #[serde(default)]
        second_level_us: Micros,
    },
    /// Linux' `SCHED_DEADLINE`: a hard constant-bandwidth server for each virtual CPU of a VM with `budget_us` and `period_us`,
    /// the earliest deadline runs; VMs without them share by weight what is left.
    Deadline {
        /// Turn of those without a budget; 3 ms unless given.
        #[serde(default = "three_milliseconds")]
        slice_us: Micros,
    },
    /// EEVDF with group scheduling, as in Linux since 6.6: weights, quotas (`limit_cpus`) and reservations per VM.
    Eevdf {
        /// The slice that is asked for; 3 ms in Linux, and unless given.
        #[serde(default = "three_milliseconds")]
        slice_us: Micros,
        /// Period of the quotas; 100 ms in Linux, and unless given.
        #[serde(default = "hundred_milliseconds")]
        period_us: Micros,
        /// Where virtual CPUs wait.
        #[serde(default)]
        queues: QueuesSpec,
    },
    /// All virtual CPUs of a VM at once, or none (co-scheduling); VMs by their weights.
    Gang {
        /// The slice.
        #[serde(default = "thirty_milliseconds")]
        slice_us: Micros,
    },
}

impl PolicySpec {
    /// Its name as written.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::EqualPerVm { .. } => "equal-per-vm",
            Self::Proportional { .. } => "proportional",
            Self::PerThread { .. } => "per-thread",
            Self::Slots { .. } => "slots",
            Self::Credit { .. } => "credit",
            Self::Credit2 { .. } => "credit2",
            Self::Rtds {} => "rtds",
            Self::Table { .. } => "table",
            Self::Deadline { .. } => "deadline",
            Self::Eevdf { .. } => "eevdf",
            Self::Gang { .. } => "gang",
        }
    }
}

/// A VM.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct VmSpec {
    /// Its name.
    pub name: String,
    /// So many VMs like this one, `NAME-1`, `NAME-2` and so on; just `NAME` for one.
    #[serde(default = "one")]
    pub count: u32,
    /// Its virtual CPUs.
    pub vcpus: u32,
    /// Its weight against others.
    #[serde(default = "unit_weight")]
    pub weight: f64,
    /// CPUs' worth of time that it gets whenever it wants it.
    #[serde(default)]
    pub reserved_cpus: f64,
    /// CPUs' worth of time that it never gets more of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_cpus: Option<f64>,
    /// What it takes its virtual CPUs to fill their caches on another CPU; the host's `migrate_ns` unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub migrate_ns: Option<Nanos>,
    /// Budget per virtual CPU and period, for `rtds` and `deadline`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_us: Option<Micros>,
    /// The period, for `rtds` and `deadline`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period_us: Option<Micros>,
    /// When its first period of a budget, a limit or a reservation is over; at the end of a whole one unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase_us: Option<Micros>,
    /// Within so long of a period's beginning the budget is there, for `deadline`; the period unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_us: Option<Micros>,
    /// Longest wait for a CPU while it has something to do, for `table`: with `reserved_cpus` it says what is planned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_us: Option<Micros>,
    /// Whether it is given nothing beyond its cells, for `table`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub capped: bool,
    /// The only CPUs it may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<Vec<u32>>,
    /// Whether its virtual CPU i stays on the i-th of these CPUs, or of all (round and round if there are fewer). Others
    /// keep away only if their `cpus` say so, or this VM is `dedicated`.
    #[serde(default)]
    pub pinned: bool,
    /// Whether nobody else may use its `cpus`.
    #[serde(default)]
    pub dedicated: bool,
    /// Turn of a thread in its own scheduler.
    #[serde(default = "four_milliseconds")]
    pub turn_us: Micros,
    /// Its kernel's locks.
    #[serde(default)]
    pub locks: LockSpec,
    /// Interrupts that its virtual CPUs send to each other.
    #[serde(default, skip_serializing_if = "InterruptSpec::is_default")]
    pub interrupts: InterruptSpec,
    /// Its threads.
    #[serde(rename = "thread")]
    pub threads: Vec<ThreadSpec>,
}

impl VmSpec {
    /// Whether it has a period of its own that can begin at another moment than others'.
    pub fn has_period(&self, policy: &PolicySpec) -> bool {
        match policy {
            PolicySpec::Rtds {} => true,
            PolicySpec::EqualPerVm { .. }
            | PolicySpec::Proportional { .. }
            | PolicySpec::PerThread { .. }
            | PolicySpec::Eevdf { .. } => self.limit_cpus.is_some() || self.reserved_cpus > 0.0,
            PolicySpec::Gang { .. } => self.limit_cpus.is_some(),
            // All accounts are made up at once, or there are no periods.
            PolicySpec::Credit { .. }
            | PolicySpec::Credit2 { .. }
            | PolicySpec::Slots { .. }
            | PolicySpec::Deadline { .. }
            | PolicySpec::Table { .. } => false,
        }
    }

    /// CPUs that nobody else may use.
    pub fn dedicated_cpus(&self) -> &[u32] {
        self.cpus.as_deref().filter(|_| self.dedicated).unwrap_or_default()
    }

    /// CPUs of so many that its virtual CPUs may use: one list for all of them, or one CPU each where they are pinned.
    /// `dedicated` are those dedicated to any VM.
    pub fn places(&self, cpus: u32, dedicated: &[u32]) -> Vec<u32> {
        let mut allowed: Vec<u32> = self.cpus.clone().unwrap_or_else(|| (0..cpus).collect());
        if !self.dedicated {
            allowed.retain(|cpu| !dedicated.contains(cpu));
        }
        if self.pinned {
            allowed.iter().cycle().take(self.vcpus as usize).copied().collect()
        } else {
            allowed
        }
    }
}

const fn one() -> u32 {
    1
}

const fn unit_weight() -> f64 {
    1.0
}

const fn four_milliseconds() -> Micros {
    Micros::from_micros(4000)
}

/// Checks a host and its VMs.
pub(super) fn check(host: &HostSpec, vms: &[VmSpec]) -> Result<(), Impossible> {
    bounded("host.cpus".into(), host.cpus.into(), 1, MOST_CPUS.into())?;
    bounded("host.mhz".into(), host.mhz.into(), 1, 100_000)?;
    bounded("host.switch_ns".into(), host.switch_ns.get(), 0, 1_000_000_000)?;
    bounded("host.migrate_ns".into(), host.migrate_ns.get(), 0, MOST_MIGRATE_NS)?;
    bounded("host.cache_cpus".into(), host.cache_cpus.into(), 1, MOST_CPUS.into())?;
    bounded_f64("host.migrate_near_share".into(), host.migrate_near_share, 0.0, 1.0)?;
    bounded("host.grace_us".into(), host.grace_us.get(), 0, HOUR_US)?;
    bounded("host.smt".into(), host.smt.into(), 1, 2)?;
    bounded_f64("host.smt_speed".into(), host.smt_speed, 0.01, 1.0)?;
    bounded("host.memory_mb_s".into(), host.memory_mb_s.unwrap_or(1), 1, 1_000_000_000)?;
    bounded("host.memory_nodes".into(), host.memory_nodes.into(), 1, host.cpus.into())?;
    if vms.is_empty() {
        return Err(Impossible::new(
            "vm",
            "a host without VMs has nothing to simulate; wanted at least one [[vm]]",
        ));
    }
    check_policy(&host.policy, vms)?;
    vms.iter().enumerate().try_for_each(|(number, vm)| check_vm(number, vm, host, vms))?;
    let vcpus: u64 = vms.iter().map(|vm| u64::from(vm.vcpus) * u64::from(vm.count)).sum();
    if vcpus > u64::from(MOST_VCPUS) {
        return Err(Impossible::new("vm", format!("{vcpus} virtual CPUs in all; allowed are {MOST_VCPUS}")));
    }
    promises::check(host, vms)
}

fn check_policy(policy: &PolicySpec, vms: &[VmSpec]) -> Result<(), Impossible> {
    let turn = |key: &str, length: Micros| bounded(format!("host.policy.{key}"), length.get(), 1, HOUR_US);
    match policy {
        PolicySpec::EqualPerVm { quantum_us }
        | PolicySpec::Proportional { quantum_us }
        | PolicySpec::PerThread { quantum_us } => turn("quantum_us", *quantum_us),
        PolicySpec::Credit { slice_us, ratelimit_us, .. } => {
            turn("slice_us", *slice_us)?;
            bounded("host.policy.ratelimit_us".into(), ratelimit_us.get(), 0, slice_us.get())
        }
        PolicySpec::Gang { slice_us } | PolicySpec::Deadline { slice_us } => turn("slice_us", *slice_us),
        PolicySpec::Credit2 { slice_us, queue_cpus, .. } => {
            bounded("host.policy.queue_cpus".into(), (*queue_cpus).into(), 1, MOST_CPUS.into())?;
            turn("slice_us", *slice_us)
        }
        PolicySpec::Eevdf { slice_us, period_us, .. } => {
            turn("slice_us", *slice_us)?;
            turn("period_us", *period_us)
        }
        PolicySpec::Slots { slot_us, round, dynamic, .. } => {
            turn("slot_us", *slot_us)?;
            bounded("host.policy.round".into(), round.len() as u64, 1, 10_000)?;
            for owner in round.iter().chain(dynamic).filter(|owner| !owner.is_empty()) {
                let is_known = vms.iter().any(|vm| vm.count == 1 && vm.name == *owner);
                if !is_known {
                    let problem = format!("there is no single VM named \"{owner}\"");
                    return Err(Impossible::new("host.policy.round", problem));
                }
            }
            Ok(())
        }
        PolicySpec::Table { second_level_us, .. } => {
            bounded("host.policy.second_level_us".into(), second_level_us.get(), 0, HOUR_US)
        }
        PolicySpec::Rtds {} => Ok(()),
    }
}

fn check_vm(number: usize, vm: &VmSpec, host: &HostSpec, vms: &[VmSpec]) -> Result<(), Impossible> {
    let path = |key: &str| format!("vm.{number}.{key}");
    let is_name = |text: &str| {
        (1..=60).contains(&text.len()) && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
    };
    if !is_name(&vm.name) {
        return Err(Impossible::new(path("name"), "wanted 1 to 60 letters, digits, - and _"));
    }
    if vms.iter().filter(|other| other.name == vm.name).count() > 1 {
        return Err(Impossible::new(path("name"), format!("there are several VMs named \"{}\"", vm.name)));
    }
    bounded(path("count"), vm.count.into(), 1, 100_000)?;
    bounded(path("vcpus"), vm.vcpus.into(), 1, 4096)?;
    bounded_f64(path("weight"), vm.weight, 1e-4, 1e6)?;
    bounded_f64(path("reserved_cpus"), vm.reserved_cpus, 0.0, f64::from(vm.vcpus))?;
    if let Some(limit) = vm.limit_cpus {
        bounded_f64(path("limit_cpus"), limit, 1e-3, f64::from(MOST_CPUS))?;
        if limit < vm.reserved_cpus {
            let problem = format!("{limit} CPUs are less than the {} that it reserves", vm.reserved_cpus);
            return Err(Impossible::new(path("limit_cpus"), problem));
        }
    }
    if let Some(cpus) = &vm.cpus {
        if cpus.is_empty() {
            return Err(Impossible::new(path("cpus"), "wanted at least one CPU, got none"));
        }
        if let Some(cpu) = cpus.iter().find(|cpu| **cpu >= host.cpus) {
            let problem = format!("there is no CPU {cpu}: the host has 0 to {}", host.cpus - 1);
            return Err(Impossible::new(path("cpus"), problem));
        }
    }
    if let Some(cost) = vm.migrate_ns {
        bounded(path("migrate_ns"), cost.get(), 0, MOST_MIGRATE_NS)?;
    }
    servers::check(number, vm, host)?;
    bounded(path("turn_us"), vm.turn_us.get(), 1, HOUR_US)?;
    vm.locks.check(&path)?;
    vm.interrupts.check(&path)?;
    bounded(path("thread"), vm.threads.len() as u64, 1, 1000)?;
    vm.threads
        .iter()
        .enumerate()
        .try_for_each(|(at, thread)| thread.check(&path(&format!("thread.{at}")), vm))
}
