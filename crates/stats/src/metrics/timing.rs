//! Figures of the probes of predictability: fixed time quantum, timer wake-up, frames.
//!
//! Wake-ups and frames are judged by what is felt at every due time, those included that passed unused; see
//! [`model::detail::WakeupThread`].

use model::detail::{FramesDetail, FtqDetail, WakeupDetail, due_times_passed};
use model::histogram::Histogram;
use model::metric::{Better, Figure, Metric, Unit};
use model::units::{Nanos, three_digits};

use super::super::interval::quantile_of_sorted;
use super::super::spectrum::{Source, analyse, band_hz, missing};
use super::super::summary::{histogram_max, histogram_quantile, median, spread};
use super::entry::{figure, metric, time, too_few_beyond};

const NO_WORK: &str = "no work was done in nearly all quanta";
const NO_ACTIVATIONS: &str = "no activation was due";
const NO_FRAMES: &str = "no frame was made";
/// Most missed frames that are counted out; a probe has no more due times.
const MOST_FRAMES: u64 = 1_000_000;

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
pub(super) fn ftq(detail: &FtqDetail) -> Vec<Metric> {
    let lost = missing(&detail.work).map(|(_, lost)| lost);
    // A quantum that did better than the best has nothing missing, and makes up for no other.
    let noise =
        lost.as_ref().map(|lost| lost.iter().map(|share| share.max(0.0)).sum::<f64>() / lost.len() as f64);
    let worst =
        lost.as_ref().and_then(|lost| lost.iter().copied().reduce(f64::max)).map(|worst| worst.max(0.0));
    let rounds: Vec<f64> = detail.work.iter().map(|rounds| f64::from(*rounds)).collect();
    let strongest = match analyse(&detail.work, detail.quantum_ns.as_secs_f64()) {
        Ok(noise) => noise.sources.first().copied().ok_or_else(|| nothing_periodic(detail)),
        Err(reason) => Err(reason),
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

/// Timer wake-up: response of every activation, service of those that were slept for.
pub(super) fn wakeup(detail: &WakeupDetail) -> Vec<Metric> {
    let service = Histogram::merge_all(detail.threads.iter().map(|thread| &thread.service_ns));
    let response = Histogram::merge_all(detail.threads.iter().map(|thread| &thread.response_ns));
    let due = response.count();
    let missed = due.saturating_sub(service.count());
    let quantile = |histogram: &Histogram, q: f64| {
        too_few_beyond(histogram.count() as f64, q, "activations")
            .unwrap_or_else(|| figure(histogram_quantile(histogram, q), NO_ACTIVATIONS))
    };
    // The list holds the exact value; a histogram only its bucket.
    let listed =
        detail.threads.iter().filter_map(|thread| thread.worst.first()).map(|worst| worst.length_ns.as_f64());
    let longest = listed.reduce(f64::max).or_else(|| histogram_max(&response).map(|most| most as f64));
    let share = (due > 0).then(|| missed as f64 / due as f64);
    vec![
        time("response_p99_ns", "late, 99 % of activations", true, quantile(&response, 0.99)),
        time("response_max_ns", "latest activation", true, figure(longest, NO_ACTIVATIONS)),
        lower("missed_share", "activations missed", Unit::Share, true, figure(share, NO_ACTIVATIONS)),
        time("response_p99_9_ns", "late, 99.9 % of activations", false, quantile(&response, 0.999)),
        time("response_p99_99_ns", "late, 99.99 % of activations", false, quantile(&response, 0.9999)),
        time("service_p99_ns", "late, 99 % of wake-ups that happened", false, quantile(&service, 0.99)),
        time(
            "service_p50_ns",
            "late, median of wake-ups that happened",
            false,
            figure(histogram_quantile(&service, 0.5), NO_ACTIVATIONS),
        ),
    ]
}

/// Frames: from each due time until the picture changes.
pub(super) fn frames(detail: &FramesDetail) -> Vec<Metric> {
    let mut delays = delays(detail);
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
fn delays(detail: &FramesDetail) -> Vec<f64> {
    let mut left = detail.missed.min(MOST_FRAMES);
    let mut delays = Vec::with_capacity(detail.frame_ns.len());
    for frame in &detail.frame_ns {
        let passed = due_times_passed(*frame, detail.period_ns).min(left);
        left -= passed;
        let waited = |missed: u64| {
            frame.saturating_sub(Nanos::from_nanos(missed.saturating_mul(detail.period_ns.get()))).as_f64()
        };
        delays.extend((0..=passed).map(waited));
    }
    delays
}

/// A figure for which small is good.
fn lower(id: &str, title: &str, unit: Unit, headline: bool, figure: Figure) -> Metric {
    metric(id, title, unit, Better::Lower, headline, figure)
}
