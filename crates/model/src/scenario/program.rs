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
    /// What they do.
    pub run: ProgramSpec,
}

/// A program. Each is described in the file of its name below `crates/sim/src/programs`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "program", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ProgramSpec {
    /// A loop without an end.
    Endless,
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
    /// A periodic real-time task: work that is due a deadline after each release. Samples are response times.
    Periodic {
        /// Between releases.
        period_us: Micros,
        /// CPU time of a job.
        work_us: Micros,
        /// After its release a job is late; the period unless given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        deadline_us: Option<Micros>,
        /// Jobs until it ends.
        jobs: u32,
    },
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
}

impl ThreadSpec {
    pub(super) fn check(&self, at: &str, vm: &VmSpec) -> Result<(), Impossible> {
        let path = |key: &str| format!("{at}.{key}");
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
            ProgramSpec::Endless => Ok(()),
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
            ProgramSpec::Periodic { period_us, work_us, deadline_us, jobs } => {
                time("period_us", *period_us, 1)?;
                time("work_us", *work_us, 1)?;
                if let Some(deadline) = deadline_us {
                    time("deadline_us", *deadline, 1)?;
                }
                if work_us > period_us {
                    let problem =
                        format!("{work_us:?} of work in each {period_us:?}: the backlog grows without bound");
                    return Err(Impossible::new(path("run.work_us"), problem));
                }
                count("jobs", *jobs)
            }
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
        }
    }
}
