//! Figures of the share probe.

use units::metric::{Better, Metric, Unit};

use crate::detail::{ShareDetail, SharePhase};
use crate::figures::{figure, metric};
use crate::probe::Definition;

/// What each figure is, and how it comes about.
pub(crate) const DEFINITIONS: &[Definition] = &[
    Definition {
        ids: "one_needed_cpus",
        words: "CPU time over time of the first instance with one busy thread, while each other one has as many as CPUs.",
    },
    Definition {
        ids: "all_needed_cpus",
        words: "The same where the first has as many busy threads as CPUs.",
    },
    Definition { ids: "alone_cpus", words: "The same where the others rest." },
    Definition {
        ids: "overcommitted_cpus",
        words: "The same where the first has twice as many threads as CPUs.",
    },
    Definition {
        ids: "total_cpus",
        words: "CPU time of all instances together over time, where all want every CPU.",
    },
];

const NOT_MEASURED: &str = "there is no phase with these numbers of threads";

pub(crate) fn metrics(detail: &ShareDetail) -> Vec<Metric> {
    let cpus = detail.cpus;
    let got = |first: u32, other: u32| {
        let wanted = |phase: &&SharePhase| (phase.first_threads, phase.other_threads) == (first, other);
        detail.phases.iter().find(wanted).map(|phase| cpus_of(phase, detail))
    };
    let count = |id: &str, title: &str, headline: bool, value: Option<f64>| {
        metric(id, title, Unit::Count, Better::Higher, headline, figure(value, NOT_MEASURED))
    };
    let all = observations(detail);
    let total = all
        .iter()
        .filter(|seen| seen.first_threads >= cpus && seen.other_threads >= cpus)
        .map(|seen| seen.first + f64::from(seen.instances.saturating_sub(1)) * seen.other);
    vec![
        count("one_needed_cpus", "CPUs it got when it needed one", true, got(1, cpus)),
        count("all_needed_cpus", "CPUs it got when it needed all", true, got(cpus, cpus)),
        count("alone_cpus", "CPUs it got when the others rested", true, got(cpus, 0)),
        count("overcommitted_cpus", "CPUs it got with twice the threads", false, got(cpus * 2, cpus)),
        count("total_cpus", "CPUs that all instances got together", false, total.reduce(f64::max)),
    ]
}

/// What was measured in one phase with all instances.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observation {
    /// Instances in all.
    pub instances: u32,
    /// Threads of the first instance.
    pub first_threads: u32,
    /// Threads of each other instance.
    pub other_threads: u32,
    /// CPUs an instance has.
    pub cpus: u32,
    /// CPUs the first instance got.
    pub first: f64,
    /// CPUs each other instance got, on average.
    pub other: f64,
}

/// CPUs that an instance had in a phase: the time its threads ran over the length of the phase.
pub fn cpus_of(phase: &SharePhase, detail: &ShareDetail) -> f64 {
    let window = phase.elapsed_ns.as_f64() * detail.counter_hz.as_f64() / 1e9;
    if window > 0.0 { phase.running_ticks.sum() as f64 / window } else { 0.0 }
}

/// One observation per phase of a joint measurement; phases that an instance does not tell of are left out.
pub fn observations(detail: &ShareDetail) -> Vec<Observation> {
    let others = |index: usize, phase: &SharePhase| -> Option<Vec<f64>> {
        detail
            .others
            .iter()
            .map(|other| {
                let same = other.phases.get(index).filter(|there| {
                    (there.first_threads, there.other_threads) == (phase.first_threads, phase.other_threads)
                });
                same.map(|there| cpus_of(there, other))
            })
            .collect()
    };
    let mut seen = Vec::new();
    for (index, phase) in detail.phases.iter().enumerate() {
        let Some(others) = others(index, phase).filter(|others| !others.is_empty()) else { continue };
        seen.push(Observation {
            instances: u32::try_from(others.len()).unwrap_or(u32::MAX).saturating_add(1),
            first_threads: phase.first_threads,
            other_threads: phase.other_threads,
            cpus: detail.cpus,
            first: cpus_of(phase, detail),
            other: others.iter().sum::<f64>() / others.len() as f64,
        });
    }
    seen
}
