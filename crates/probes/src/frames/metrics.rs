//! Figures of the frames probe.

use stats::interval::quantile_of_sorted;
use stats::summary::median;
use units::Nanos;
use units::histogram::Histogram;
use units::metric::{Metric, Unit};

use crate::detail::{FramesDetail, due_times_passed};
use crate::figures::{figure, lower, time, too_few_beyond};
use crate::probe::{Definition, Lengths, Whole};

/// What each figure is, and how it comes about.
pub(crate) const DEFINITIONS: &[Definition] = &[
    Definition {
        ids: "frame_p*_ns",
        words: "From when a frame was due until it is done; this share of the frames stays within. A missed frame waits for the next one made.",
    },
    Definition {
        ids: "missed_share",
        words: "Frames that came due before the one ahead was done, over all that were due.",
    },
    Definition { ids: "frame_max_ns", words: "The longest that a frame took from when it was due." },
    Definition { ids: "work_p50_ns", words: "Median time of a frame's own work." },
];

const NO_FRAMES: &str = "no frame was made";

/// Most missed frames that are counted out; a probe has no more due times.
const MOST_FRAMES: u64 = 1_000_000;

/// Quantiles of the waits for frames, each with the share beyond it.
const DELAYS: [(&str, f64); 2] = [("frame_p95_ns", 0.05), ("frame_p99_ns", 0.01)];

/// The times of which a metric is a quantile, and which one.
pub(crate) fn tail(detail: &FramesDetail, metric: &str) -> Option<(Histogram, f64)> {
    let (_, beyond) = DELAYS.iter().find(|(id, _)| *id == metric)?;
    Some((Histogram::from_values(delays(detail).into_iter().map(Nanos::get)), 1.0 - beyond))
}

/// How long each frame that was due was waited for.
pub(crate) fn lengths(detail: &FramesDetail) -> Lengths {
    Lengths {
        batches: vec![Histogram::from_values(delays(detail).into_iter().map(Nanos::get))],
        of: Whole::Frames,
        unit_ns: 1.0,
        period_ns: detail.period_ns.as_f64(),
        at_once: 1.0,
        quantiles: DELAYS.to_vec(),
    }
}

/// Frames: from each due time until the picture changes.
pub(crate) fn metrics(detail: &FramesDetail) -> Vec<Metric> {
    let mut delays: Vec<f64> = delays(detail).into_iter().map(Nanos::as_f64).collect();
    delays.sort_by(f64::total_cmp);
    let quantile = |q: f64| {
        too_few_beyond(delays.len() as f64, q, "frames were due").unwrap_or_else(|| {
            figure((!delays.is_empty()).then(|| quantile_of_sorted(&delays, q)), NO_FRAMES)
        })
    };
    let made = detail.frame_ns.len() as f64;
    let share = (made > 0.0).then(|| detail.missed as f64 / (made + detail.missed as f64));
    let work: Vec<f64> = detail.work_ns.iter().map(|work| work.as_f64()).collect();
    vec![
        time("frame_p95_ns", "frame done after its due time, 95 % of frames", true, quantile(0.95)),
        lower("missed_share", "frames missed", Unit::Share, true, figure(share, NO_FRAMES)),
        time("frame_max_ns", "longest wait for a frame", true, figure(delays.last().copied(), NO_FRAMES)),
        time(
            "frame_p50_ns",
            "frame done after its due time, median",
            false,
            figure(median(&delays), NO_FRAMES),
        ),
        time("frame_p99_ns", "frame done after its due time, 99 % of frames", false, quantile(0.99)),
        time("work_p50_ns", "work of a frame, median", false, figure(median(&work), NO_FRAMES)),
    ]
}

/// Time from each due time until a frame was done; a missed one waits for the frame in whose time it fell.
fn delays(detail: &FramesDetail) -> Vec<Nanos> {
    let mut left = detail.missed.min(MOST_FRAMES);
    let mut delays = Vec::with_capacity(detail.frame_ns.len());
    for frame in &detail.frame_ns {
        let passed = due_times_passed(*frame, detail.period_ns).min(left);
        left -= passed;
        let waited = |missed: u64| {
            frame.saturating_sub(Nanos::from_nanos(missed.saturating_mul(detail.period_ns.get())))
        };
        delays.extend((0..=passed).map(waited));
    }
    delays
}
