//! By which policy each platform shares the CPUs, from all its measurements of the share probe without a neighbour.

use analysis::shares::verdict;
use model::journal::{Measurement, Outcome};
use model::policy::PolicyVerdict;
use probes::ProbeKind;
use probes::detail::{Detail, ShareDetail};
use units::layout::Layout;

/// One verdict per platform that was measured, in the order of `platforms`; `host_cpus` says how many CPUs the machine has
/// that carries a platform.
pub(super) fn policies(
    platforms: &[String],
    measurements: &[Measurement],
    host_cpus: &dyn Fn(&str) -> u32,
) -> Vec<PolicyVerdict> {
    platforms
        .iter()
        .filter_map(|platform| {
            let joint: Vec<(Layout, ShareDetail)> = measurements
                .iter()
                .filter(|measurement| {
                    let cell = &measurement.cell;
                    cell.probe == ProbeKind::Share && cell.neighbour.is_none() && cell.platform == *platform
                })
                .filter_map(|measurement| Some((measurement.cell.layout?, joined(measurement)?)))
                .collect();
            let measured: Vec<(Layout, &ShareDetail)> =
                joint.iter().map(|(layout, detail)| (*layout, detail)).collect();
            (!measured.is_empty()).then(|| verdict(platform, &measured, host_cpus(platform)))
        })
        .collect()
}

/// The outcome of the first instance with those of the others beside it.
fn joined(measurement: &Measurement) -> Option<ShareDetail> {
    let share = |outcome: &Outcome| match outcome {
        Outcome::Done(report) => match &report.detail {
            Detail::Share(detail) => Some(detail.clone()),
            _ => None,
        },
        Outcome::Failed(_) => None,
    };
    let others: Option<Vec<ShareDetail>> = measurement.others.iter().map(share).collect();
    Some(ShareDetail { others: others?, ..share(&measurement.outcome)? })
}
