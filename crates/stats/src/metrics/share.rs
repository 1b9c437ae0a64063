//! Figures of the share probe: what the first instance got of the CPUs when it needed some and the others wanted all.

use super::super::shares::{cpus_of, observations};
use super::entry::{figure, metric};
use model::detail::{ShareDetail, SharePhase};
use model::metric::{Better, Metric, Unit};

const NOT_MEASURED: &str = "there is no phase with these numbers of threads";

pub(super) fn share(detail: &ShareDetail) -> Vec<Metric> {
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
