//! Comparisons in words, for verdicts.

use model::journal::{Cell, Neighbour};
use probes::ProbeKind;
use units::metric::{Better, Estimate, Unit};
use units::names::LoadPlace;
use units::three_digits;

/// `1.12 × [1.08 … 1.16]`.
pub(super) fn ratio(estimate: &Estimate) -> String {
    format!("{} × {}", three_digits(estimate.value), estimate.interval_text())
}

/// ` beside a cpu load in a second instance`; empty without a neighbour.
pub(super) fn beside(neighbour: Option<Neighbour>) -> String {
    let Some(Neighbour { kind, place }) = neighbour else { return String::new() };
    let place = match place {
        LoadPlace::Same => "in the same instance",
        LoadPlace::Second => "in a second instance",
        LoadPlace::Host => "on the host",
    };
    format!(" beside a load \"{kind}\" {place}")
}

/// A difference as a clause: `fork takes 1.12 × [1.08 … 1.16] as long`.
pub(super) fn clause(cell: &Cell, title: &str, unit: Unit, better: Better, estimate: &Estimate) -> String {
    let (probe, ratio) = (cell.probe_words(), ratio(estimate));
    let beside = beside(cell.neighbour);
    let takes_time = !matches!(cell.probe, ProbeKind::Gap | ProbeKind::Disk);
    match (unit, better) {
        (Unit::Nanoseconds, Better::Lower) if takes_time => format!("{probe}{beside} takes {ratio} as long"),
        (Unit::PerSecond | Unit::BytesPerSecond, Better::Higher) => {
            format!("{probe}{beside} does {ratio} as much per second ({title})")
        }
        _ => format!("{probe}{beside}: {title} is {ratio} as large"),
    }
}

/// A figure behind a verdict: `cpu: time per thread 1.34 × native [1.31 … 1.38]`.
pub(super) fn figure(cell: &Cell, title: &str, baseline: &str, estimate: &Estimate) -> String {
    format!(
        "{}{}: {title} {} × {baseline} {}",
        cell.probe_words(),
        beside(cell.neighbour),
        three_digits(estimate.value),
        estimate.interval_text()
    )
}
