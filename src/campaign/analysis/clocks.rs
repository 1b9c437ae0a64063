//! What the measurements of a run say about the clocks of each platform: drift, steps, and whether to believe them.

use std::cmp::Reverse;

use crate::model::clocks::{ClockLevel, ClockStep, ClockVerdict, Ppm, STEPS_KEPT};
use crate::model::journal::{Measurement, Outcome, PlatformState};
use crate::model::metric::saturate;
use crate::model::outside::{ClockTransport, OutsideTime};
use crate::model::units::{Nanos, three_digits};
use crate::stats::outside::{ClockCheck, Gain, drift, level};

/// One verdict per platform that was measured, in the order of the platforms.
pub(super) fn clocks(platforms: &[PlatformState], measurements: &[Measurement]) -> Vec<ClockVerdict> {
    platforms
        .iter()
        .filter(|state| state.unavailable.is_none())
        .map(|state| {
            let of_it: Vec<&Measurement> =
                measurements.iter().filter(|measurement| measurement.cell.platform == state.label).collect();
            verdict(&state.label, &of_it)
        })
        .collect()
}

/// Outside times of a measurement, those of the other instances included.
fn times(measurement: &Measurement) -> impl Iterator<Item = &OutsideTime> {
    std::iter::once(&measurement.outcome).chain(&measurement.others).filter_map(|outcome| match outcome {
        Outcome::Done(report) => report.outside.as_ref(),
        Outcome::Failed(_) => None,
    })
}

fn verdict(label: &str, measurements: &[&Measurement]) -> ClockVerdict {
    let all: Vec<(&Measurement, &OutsideTime, ClockCheck)> = measurements
        .iter()
        .flat_map(|measurement| times(measurement).map(|time| (*measurement, time)))
        .filter_map(|(measurement, time)| Some((measurement, time, ClockCheck::of(time)?)))
        .collect();
    let against_host: Vec<Gain> = all.iter().map(|(_, _, check)| check.against_host).collect();
    let against_raw: Vec<Gain> = all.iter().map(|(_, _, check)| check.against_raw).collect();
    let mut steps: Vec<ClockStep> = all
        .iter()
        .filter_map(|(measurement, _, check)| {
            Some(ClockStep {
                cell: measurement.cell.clone(),
                round: measurement.round,
                step_ns: check.step_ns?,
                error_ns: saturate(check.error_ns),
            })
        })
        .collect();
    let step_count = u32::try_from(steps.len()).unwrap_or(u32::MAX);
    steps.sort_by_key(|step| Reverse(step.step_ns.unsigned_abs()));
    steps.truncate(STEPS_KEPT);
    let disagreement = |check: &ClockCheck| check.inside_ns - check.outside_ns;
    let largest = all
        .iter()
        .map(|(_, _, check)| check)
        .max_by(|a, b| disagreement(a).abs().total_cmp(&disagreement(b).abs()));
    let drift_ppm = drift(&against_host);
    let level = level(drift_ppm.as_ref(), step_count);
    ClockVerdict {
        platform: label.to_owned(),
        measurements: u32::try_from(all.len()).unwrap_or(u32::MAX),
        by_datagrams: count(all.iter().filter(|(_, time, _)| time.transport == ClockTransport::Udp)),
        level,
        sentence: sentence(label, drift_ppm.as_ref(), &steps, step_count),
        drift_ppm,
        slew_ppm: drift(&against_raw),
        largest_disagreement_ns: largest.map_or(0, |check| to_signed(disagreement(check))),
        disagreement_error_ns: largest.map_or(0, |check| saturate(check.error_ns)),
        round_trip_ns: median(all.iter().map(|(_, time, _)| time.after.round_trip_ns.get()).collect()),
        steps,
        step_count,
    }
}

fn count(items: impl Iterator) -> u32 {
    u32::try_from(items.count()).unwrap_or(u32::MAX)
}

fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values.get(values.len().saturating_sub(1) / 2).copied().unwrap_or(0)
}

#[expect(clippy::cast_possible_truncation, reason = "float to int casts saturate")]
fn to_signed(value: f64) -> i64 {
    value.round() as i64
}

fn sentence(label: &str, drift: Option<&Ppm>, steps: &[ClockStep], step_count: u32) -> String {
    // The steps have a clause of their own.
    let rate = match (level(drift, 0), drift) {
        (_, None) => "its clock was not compared with the host's for long enough to say".to_owned(),
        (ClockLevel::Agrees, Some(drift)) => {
            format!("its clock runs as the host's does: {}", ppm_words(drift))
        }
        (ClockLevel::Unknown, Some(drift)) => {
            format!("how its clock runs is not known well enough: {}", ppm_words(drift))
        }
        (ClockLevel::Drifts | ClockLevel::Lies, Some(drift)) => {
            let direction = if drift.value > 0.0 { "fast" } else { "slow" };
            let per_day = Nanos::from_nanos(saturate(drift.value.abs() / 1e6 * 86_400e9));
            format!("its clock runs {direction}: {}, that is {per_day} a day", ppm_words(drift))
        }
    };
    let set = steps.first().map(|largest| {
        let direction = if largest.step_ns > 0 { "forward" } else { "back" };
        let by = Nanos::from_nanos(largest.step_ns.unsigned_abs());
        let times = if step_count == 1 { "once".to_owned() } else { format!("{step_count} times") };
        format!("; its time of day was set {times} during measurements, at most {by} {direction}")
    });
    format!("{label}: {rate}{}", set.unwrap_or_default())
}

/// `+40 ppm [38 … 42]`.
fn ppm_words(ppm: &Ppm) -> String {
    let digits = |value: f64| {
        let text = three_digits(value.abs());
        if value < 0.0 { format!("-{text}") } else { text }
    };
    let sign = if ppm.value >= 0.0 { "+" } else { "" };
    format!("{sign}{} ppm [{} … {}]", digits(ppm.value), digits(ppm.low), digits(ppm.high))
}
