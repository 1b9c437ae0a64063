//! Figures of the ftq probe.

use stats::spectrum::{Source, analyse, band_hz, missing};
use stats::summary::spread;
use units::metric::{Better, Figure, Metric, Unit};
use units::three_digits;

use crate::detail::FtqDetail;
use crate::figures::{figure, lower, metric};
use crate::probe::Definition;

/// What each figure is, and how it comes about.
pub(crate) const DEFINITIONS: &[Definition] = &[
    Definition {
        ids: "noise_share",
        words: "Work missing against the best quanta, over all quanta: time that others took.",
    },
    Definition { ids: "worst_quantum_share", words: "Work missing in the quantum that got least." },
    Definition { ids: "spread_share", words: "Standard deviation of the work per quantum over its mean." },
    Definition {
        ids: "periodic_hz",
        words: "Frequency of the strongest line in the spectrum of the missing work that stands out of the noise.",
    },
    Definition { ids: "periodic_share", words: "Time that the noise of this frequency takes." },
];

const NO_WORK: &str = "no work was done in nearly all quanta";

/// The whole band that was looked at is named: what lies outside may be there all the same.
fn nothing_periodic(detail: &FtqDetail) -> String {
    let (least, most) = band_hz(detail.work.len(), detail.quantum_ns.as_secs_f64());
    format!(
        "nothing periodic stands out of the noise between {} Hz and {} Hz",
        three_digits(least),
        three_digits(most)
    )
}

/// Fixed time quantum: time missing, and who takes it regularly.
pub(crate) fn metrics(detail: &FtqDetail) -> Vec<Metric> {
    let lost = missing(&detail.work).map(|(_, lost)| lost);
    // A quantum that did better than the best has nothing missing, and makes up for no other.
    let noise =
        lost.as_ref().map(|lost| lost.iter().map(|share| share.max(0.0)).sum::<f64>() / lost.len() as f64);
    let worst =
        lost.as_ref().and_then(|lost| lost.iter().copied().reduce(f64::max)).map(|worst| worst.max(0.0));
    let rounds: Vec<f64> = detail.work.iter().map(|rounds| f64::from(*rounds)).collect();
    let strongest = match analyse(&detail.work, detail.quantum_ns.as_secs_f64()) {
        Ok(noise) => noise.sources.first().copied().ok_or_else(|| nothing_periodic(detail)),
        Err(reason) => Err(reason.to_string()),
    };
    let of = |part: fn(&Source) -> f64| match &strongest {
        Ok(source) => figure(Some(part(source)), NO_WORK),
        Err(reason) => Figure::Unsupported(reason.clone()),
    };
    vec![
        lower("noise_share", "time taken away", Unit::Share, true, figure(noise, NO_WORK)),
        lower(
            "worst_quantum_share",
            "missing in the worst quantum",
            Unit::Share,
            true,
            figure(worst, NO_WORK),
        ),
        lower(
            "spread_share",
            "standard deviation over mean of the work",
            Unit::Share,
            false,
            figure(
                spread(&rounds).and_then(|spread| spread.variation),
                "fewer than two quanta, or no work at all",
            ),
        ),
        metric(
            "periodic_hz",
            "strongest periodic noise, frequency",
            Unit::Hertz,
            Better::Neither,
            false,
            of(|source| source.frequency_hz),
        ),
        lower(
            "periodic_share",
            "strongest periodic noise, time taken",
            Unit::Share,
            false,
            of(|source| source.share),
        ),
    ]
}
