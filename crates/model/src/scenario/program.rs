//! What threads of a simulated guest do, as written in a scenario.

use serde::{Deserialize, Serialize};

use super::host::VmSpec;
use super::{Impossible, bounded, bounded_f64};
use units::{Micros, Millis, Nanos};

/// A year: the longest that work may take.
const YEAR_US: u64 = 365 * 24 * 3_600_000_000;

/// Threads that all do the same.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ThreadSpec {
    /// So many of them; as many as the VM has virtual CPUs unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// Higher ones are preferred by the guest's scheduler.
    #[serde(default)]
    pub priority: u8,
    /// The only one of the guest's virtual CPUs that they use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<u32>,
    /// Memory bandwidth that each of them wants at full speed, millions of bytes per second; for hosts with `memory_mb_s`.
    #[serde(default, skip_serializing_if = "is_none")]
    pub memory_mb_s: u64,
    /// What they do.
    pub run: ProgramSpec,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
const fn is_none(number: &u64) -> bool {
    *number == 0
}

/// A program. Each is described in the file of its name below `crates/sim/src/programs`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "program", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ProgramSpec {
    /// A loop without an end.
    Endless {},
    /// So much work, then the end.
    Fixed {
        /// CPU time.
        work_us: Micros,
    },
    /// Fixed work quantum, over and over.
    Fwq {
        /// CPU time of one.
        work_us: Micros,
        /// How many.
        samples: u32,
        /// Before each, untimed work of 0 to this long, so that samples do not lock to the host's rounds.
        jitter_us: Micros,
    },
    /// A loop that watches the clock and notes when it did not run, as the gap probe does.
    Gap {
        /// CPU time between two looks at the clock; what is away for less is not noticed.
        piece_us: Micros,
        /// How long it watches.
        duration_ms: Millis,
    },
    /// Fixed time quantum: how much work fits into each.
    Ftq {
        /// Length of a quantum.
        quantum_us: Micros,
        /// How many.
        samples: u32,
    },
    /// A real-time task: work that is due a deadline after each arrival. Samples are response times.
    Periodic(TaskSpec),
    /// Computes, waits for a device, computes. Samples are the times from the device's answer to the end of the
    /// computation.
    Io {
        /// CPU time between two waits.
        work_us: Micros,
        /// What the device takes; exponential with this mean when `random`.
        wait_us: Micros,
        /// Whether work and wait scatter exponentially around these means.
        #[serde(default)]
        random: bool,
        /// Rounds until it ends; 0: never.
        #[serde(default)]
        rounds: u32,
    },
    /// A compile job: mostly its own work, with entries into the kernel that take spinlocks for short.
    Compile {
        /// CPU time of its own and the kernel's code together, for each thread.
        work_us: Micros,
        /// Mean CPU time between two entries into the kernel; exponential.
        between_ns: Nanos,
        /// Mean time in the kernel outside locks per entry; exponential.
        kernel_ns: Nanos,
        /// Mean time a lock is held; exponential.
        hold_ns: Nanos,
        /// Locks that are taken per entry, one after the other.
        locks_per_entry: u32,
        /// Share of the acquisitions that go to lock 0, the one that everybody wants; the others are even.
        hot_share: f64,
    },
    /// Computes, and takes memory out of use now and then: a TLB shoot-down interrupts all other virtual CPUs of the VM that
    /// have a thread and waits until each has acknowledged. Samples are the times from the first interrupt to the last
    /// acknowledgement.
    Unmap {
        /// CPU time of its own, for each thread.
        work_us: Micros,
        /// Mean CPU time between two shoot-downs; exponential.
        between_ns: Nanos,
    },
}

/// A real-time task, periodic or sporadic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TaskSpec {
    /// Between arrivals; of a sporadic task, at least.
    pub period_us: Micros,
    /// CPU time of a job.
    pub work_us: Micros,
    /// After its arrival a job is late; the period unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_us: Option<Micros>,
    /// The first arrival.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub offset_us: Micros,
    /// A job is released so long after its arrival at most, evenly drawn. Its response counts from the arrival.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub jitter_us: Micros,
    /// What comes on top of the period between two arrivals on average, exponentially: a sporadic task.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub apart_us: Micros,
    /// Whether a job is aborted at its deadline; else it is finished late.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub abort: bool,
    /// Jobs until it ends.
    pub jobs: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
const fn is_nothing(time: &Micros) -> bool {
    time.get() == 0
}

impl TaskSpec {
    /// After its arrival a job is late.
    pub fn deadline_us(&self) -> Micros {
        self.deadline_us.unwrap_or(self.period_us)
    }

    /// CPUs that it wants on average, as long as it cannot be aborted.
    pub fn wanted_cpus(&self) -> f64 {
        let apart = self.period_us.get().saturating_add(self.apart_us.get()).max(1);
        if self.abort { 0.0 } else { self.work_us.get() as f64 / apart as f64 }
    }

    fn check(&self, path: &dyn Fn(&str) -> String) -> Result<(), Impossible> {
        let time = |key: &str, value: Micros, least: u64| bounded(path(key), value.get(), least, YEAR_US);
        time("run.period_us", self.period_us, 1)?;
        time("run.work_us", self.work_us, 1)?;
        time("run.deadline_us", self.deadline_us(), 1)?;
        time("run.offset_us", self.offset_us, 0)?;
        time("run.jitter_us", self.jitter_us, 0)?;
        time("run.apart_us", self.apart_us, 0)?;
        if self.wanted_cpus() > 1.0 {
            let (work, period) = (self.work_us, self.period_us);
            let problem = format!("{work:?} of work in each {period:?}: the backlog grows without bound");
            return Err(Impossible::new(path("run.work_us"), problem));
        }
        bounded(path("run.jobs"), self.jobs.into(), 1, 10_000_000)
    }
}

impl ThreadSpec {
    pub(super) fn check(&self, at: &str, vm: &VmSpec) -> Result<(), Impossible> {
        let path = |key: &str| format!("{at}.{key}");
        bounded(path("memory_mb_s"), self.memory_mb_s, 0, 1_000_000_000)?;
        if let Some(count) = self.count {
            bounded(path("count"), count.into(), 1, 100_000)?;
        }
        if let Some(bound) = self.bound {
            bounded(path("bound"), bound.into(), 0, u64::from(vm.vcpus) - 1)?;
        }
        let time = |key: &str, value: Micros, least: u64| {
            bounded(path(&format!("run.{key}")), value.get(), least, YEAR_US)
        };
        let count = |key: &str, value: u32| bounded(path(&format!("run.{key}")), value.into(), 1, 10_000_000);
        match &self.run {
            ProgramSpec::Endless {} => Ok(()),
            ProgramSpec::Fixed { work_us } => time("work_us", *work_us, 1),
            ProgramSpec::Fwq { work_us, samples, jitter_us } => {
                time("work_us", *work_us, 1)?;
                time("jitter_us", *jitter_us, 0)?;
                count("samples", *samples)
            }
            ProgramSpec::Gap { piece_us, duration_ms } => {
                time("piece_us", *piece_us, 1)?;
                bounded(path("run.duration_ms"), duration_ms.get(), 1, 3_600_000)
            }
            ProgramSpec::Ftq { quantum_us, samples } => {
                time("quantum_us", *quantum_us, 1)?;
                count("samples", *samples)
            }
            ProgramSpec::Periodic(task) => task.check(&path),
            ProgramSpec::Io { work_us, wait_us, rounds, .. } => {
                time("work_us", *work_us, 1)?;
                time("wait_us", *wait_us, 1)?;
                bounded(path("run.rounds"), (*rounds).into(), 0, 100_000_000)
            }
            ProgramSpec::Compile { work_us, between_ns, kernel_ns, hold_ns, locks_per_entry, hot_share } => {
                time("work_us", *work_us, 1)?;
                bounded(path("run.between_ns"), between_ns.get(), 100, 1_000_000_000_000)?;
                bounded(path("run.kernel_ns"), kernel_ns.get(), 0, 1_000_000_000)?;
                bounded(path("run.hold_ns"), hold_ns.get(), 0, 1_000_000_000)?;
                bounded(path("run.locks_per_entry"), (*locks_per_entry).into(), 0, 1000)?;
                bounded_f64(path("run.hot_share"), *hot_share, 0.0, 1.0)?;
                if *locks_per_entry > 0 && vm.locks.count == 0 {
                    let problem = "it takes locks, but the VM has none: wanted locks.count of 1 or more";
                    return Err(Impossible::new(path("run.locks_per_entry"), problem));
                }
                Ok(())
            }
            ProgramSpec::Unmap { work_us, between_ns } => {
                time("work_us", *work_us, 1)?;
                bounded(path("run.between_ns"), between_ns.get(), 100, 1_000_000_000_000)
            }
        }
    }
}
