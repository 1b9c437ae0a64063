//! Figures of the gap probe.

use stats::influence::{bound, influence};
use stats::summary::{histogram_max, histogram_quantile};
use units::Ticks;
use units::histogram::Histogram;
use units::metric::{Better, Figure, Metric, Unit};

use crate::detail::GapDetail;
use crate::figures::{figure, metric, time};
use crate::probe::{Definition, Lengths, Whole};

/// What each figure is, and how it comes about.
pub(crate) const DEFINITIONS: &[Definition] = &[
    Definition {
        ids: "bound_*_ns",
        words: "bound_p: draw a moment at random; with probability p it falls into a gap no longer than this. Gaps are sorted by length and their lengths added up until share p of the time is reached (Lourot 2010).",
    },
    Definition { ids: "lost_share", words: "Time in gaps longer than 1 µs, over the time observed." },
    Definition { ids: "max_gap_ns", words: "The longest time between two reads of the counter." },
    Definition { ids: "gaps_over_1us_per_s", words: "Gaps longer than 1 µs, per second observed." },
    Definition {
        ids: "read_ns",
        words: "Median gap: what one turn of the loop takes when nobody interferes.",
    },
];

/// Shares and names of the bounds; the first is the main metric.
const BOUNDS: [(f64, &str, &str); 6] = [
    (0.95, "bound_95_ns", "95 % of the time is in gaps up to"),
    (0.90, "bound_90_ns", "90 % of the time is in gaps up to"),
    (0.99, "bound_99_ns", "99 % of the time is in gaps up to"),
    (0.999, "bound_99_9_ns", "99.9 % of the time is in gaps up to"),
    (0.9999, "bound_99_99_ns", "99.99 % of the time is in gaps up to"),
    (0.99999, "bound_99_999_ns", "99.999 % of the time is in gaps up to"),
];

/// So many gaps make a bound believable whatever their length.
const ENOUGH_GAPS: u64 = 10;

/// Gaps that make up so much of the time cannot be hidden.
const NEVER_HIDDEN: f64 = 0.05;

const NO_GAPS: &str = "no gaps were recorded, or the counter's rate is unknown";

pub(crate) fn metrics(detail: &GapDetail) -> Vec<Metric> {
    let gaps = Histogram::merge_all(&detail.batches);
    let hz = detail.counter_hz.as_f64();
    let ns = |ticks: Option<f64>| ticks.map(|ticks| ticks * 1e9 / hz);
    let mut bounds = BOUNDS.iter().enumerate().map(|(index, (p, id, title))| {
        let value = bound_figure(&gaps, *p, hz);
        time(id, title, index == 0, value)
    });
    let mut all: Vec<Metric> = bounds.next().into_iter().collect();
    let microsecond = Ticks::from_ticks(detail.counter_hz.get() / 1_000_000);
    let known = !gaps.is_empty() && detail.counter_hz.get() > 0;
    all.push(metric(
        "lost_share",
        "time lost in gaps > 1 µs",
        Unit::Share,
        Better::Lower,
        true,
        figure(known.then(|| influence(&gaps, microsecond)), NO_GAPS),
    ));
    let listed = detail.worst.iter().map(|worst| worst.length_ns.as_f64()).reduce(f64::max);
    let counted = ns(histogram_max(&gaps).map(|ticks| ticks as f64));
    all.push(time("max_gap_ns", "longest gap", true, figure(listed.or(counted), NO_GAPS)));
    all.extend(bounds);
    all.push(metric(
        "gaps_over_1us_per_s",
        "gaps > 1 µs per second",
        Unit::PerSecond,
        Better::Lower,
        false,
        figure(known.then(|| per_second(&gaps, microsecond, detail)), "the observed time is unknown"),
    ));
    all.push(time(
        "read_ns",
        "median turn of the loop",
        false,
        figure(ns(histogram_quantile(&gaps, 0.5)), NO_GAPS),
    ));
    all
}

/// Gaps, in ticks of the counter.
pub(crate) fn lengths(detail: &GapDetail) -> Option<Lengths> {
    let hz = detail.counter_hz.as_f64();
    (hz > 0.0).then(|| Lengths {
        batches: detail.batches.clone(),
        of: Whole::Time,
        unit_ns: 1e9 / hz,
        period_ns: 0.0,
        at_once: 1.0,
        quantiles: BOUNDS.iter().map(|(p, id, _)| (*id, 1.0 - p)).collect(),
    })
}

/// Gaps longer than `than` per second of observation.
fn per_second(gaps: &Histogram, than: Ticks, detail: &GapDetail) -> f64 {
    let longer = gaps.buckets().iter().filter(|bucket| bucket.upper() > than.get());
    longer.map(|bucket| bucket.count as f64).sum::<f64>() / detail.observed_ns.as_secs_f64()
}

/// `bound_p` in nanoseconds, if the gaps support it.
fn bound_figure(gaps: &Histogram, p: f64, hz: f64) -> Figure {
    let Some(value) = bound(gaps, p) else { return Figure::Unsupported(NO_GAPS.to_owned()) };
    let deciding = gaps.buckets().iter().filter(|bucket| bucket.upper() >= value.get());
    let (count, sum) = deciding.fold((0u64, 0u128), |all, bucket| {
        (all.0.saturating_add(bucket.count), all.1 + u128::from(bucket.sum))
    });
    let share = sum as f64 / gaps.sum() as f64;
    if count < ENOUGH_GAPS && share < NEVER_HIDDEN {
        return Figure::Unsupported(format!(
            "only {count} gaps are so long; at least {ENOUGH_GAPS} are needed, so measure longer"
        ));
    }
    figure(Some(value.as_f64() * 1e9 / hz), NO_GAPS)
}
