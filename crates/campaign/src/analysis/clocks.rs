//! What the measurements of a run say about the clocks of each platform: drift, steps, and whether to believe them.

use std::cmp::Reverse;

use super::steps::{between, step_words};
use super::table::Row;
use analysis::outside::{ClockCheck, Gain, drift, level};
use model::clocks::{ClockLevel, ClockStep, ClockVerdict, Ppm, STEPS_KEPT, SteppedClock};
use model::journal::{Measurement, Outcome, PlatformState};
use units::metric::saturate;
use units::outside::{ClockTransport, OutsideSpan, OutsideTime};
use units::{Nanos, three_digits};

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
    measurement.outcomes().filter_map(outside_of)
}

/// When an instance measured, on both clocks.
pub(super) fn outside_of(outcome: &Outcome) -> Option<&OutsideTime> {
    match outcome {
        Outcome::Done(report) => report.outside.as_ref(),
        Outcome::Failed(_) => None,
    }
}

/// How long each measurement of a cell took, inside and outside, by round and instance.
pub(super) fn spans(row: &Row<'_>) -> Vec<OutsideSpan> {
    let whole = |nanos: f64| Nanos::from_nanos(saturate(nanos));
    let span = |round: u32, rank: u32, time: &OutsideTime| {
        let check = ClockCheck::of(time)?;
        Some(OutsideSpan {
            round,
            rank,
            transport: time.transport,
            inside_ns: whole(check.inside_ns),
            outside_ns: whole(check.outside_ns),
            error_ns: whole(check.error_ns),
        })
    };
    let measured = row.rounds.iter().flat_map(|round| {
        let ranked = (0..).zip(round.measurement.outcomes());
        ranked.filter_map(move |(rank, outcome)| span(round.number, rank, outside_of(outcome)?))
    });
    measured.collect()
}

fn verdict(label: &str, measurements: &[&Measurement]) -> ClockVerdict {
    let all: Vec<(&Measurement, &OutsideTime, ClockCheck)> = measurements
        .iter()
        .flat_map(|measurement| times(measurement).map(|time| (*measurement, time)))
        .filter_map(|(measurement, time)| Some((measurement, time, ClockCheck::of(time)?)))
        .collect();
    let against_host: Vec<Gain> = all.iter().map(|(_, _, check)| check.against_host).collect();
    let against_raw: Vec<Gain> = all.iter().map(|(_, _, check)| check.against_raw).collect();
    let drift_ppm = drift(&against_host);
    let during = all.iter().filter_map(|(measurement, _, check)| {
        let step = check.step?;
        Some(ClockStep {
            cell: measurement.cell.clone(),
            round: measurement.round,
            since: None,
            clock: SteppedClock::Realtime,
            step_ns: step.step_ns,
            error_ns: step.error_ns,
        })
    });
    let mut steps: Vec<ClockStep> = during.chain(between(measurements, drift_ppm.as_ref())).collect();
    steps.sort_by_key(|step| Reverse(step.step_ns.unsigned_abs()));
    let step_count = u32::try_from(steps.len()).unwrap_or(u32::MAX);
    let asked: Vec<&OutsideTime> = all.iter().map(|(_, time, _)| *time).collect();
    let sentence = format!("{}{}", sentence(label, drift_ppm.as_ref(), &steps), way_words(&asked));
    steps.truncate(STEPS_KEPT);
    let disagreement = |check: &ClockCheck| check.inside_ns - check.outside_ns;
    let largest = all
        .iter()
        .map(|(_, _, check)| check)
        .max_by(|a, b| disagreement(a).abs().total_cmp(&disagreement(b).abs()));
    let level = level(drift_ppm.as_ref(), step_count);
    ClockVerdict {
        platform: label.to_owned(),
        measurements: u32::try_from(all.len()).unwrap_or(u32::MAX),
        by_datagrams: count(all.iter().filter(|(_, time, _)| time.transport == ClockTransport::Udp)),
        level,
        sentence,
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

fn sentence(label: &str, drift: Option<&Ppm>, steps: &[ClockStep]) -> String {
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
    format!("{label}: {rate}{}", step_words(steps))
}

/// Which way the host's clock was asked, and how well it was known each time: `; asked over its link 12 times, ± 40 µs`.
fn way_words(times: &[&OutsideTime]) -> String {
    let ways = [(ClockTransport::Link, "over its link"), (ClockTransport::Udp, "by datagrams")];
    let told = ways.iter().filter_map(|(way, words)| {
        let trips: Vec<u64> = times
            .iter()
            .filter(|time| time.transport == *way)
            .flat_map(|time| [time.before.round_trip_ns.get(), time.after.round_trip_ns.get()])
            .collect();
        let count = trips.len();
        (count > 0)
            .then(|| format!("{words} {count} times, ± {}", Nanos::from_nanos(median(trips).div_ceil(2))))
    });
    let told: Vec<String> = told.collect();
    if told.is_empty() {
        String::new()
    } else {
        format!("; the host's clock was asked {}", told.join(", and "))
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use units::outside::ClockReading;

    fn time(transport: ClockTransport, round_trip: u64) -> OutsideTime {
        let reading = ClockReading {
            host_ns: Nanos::ZERO,
            monotonic_ns: Nanos::ZERO,
            raw_ns: Nanos::ZERO,
            realtime_ns: Nanos::ZERO,
            round_trip_ns: Nanos::from_nanos(round_trip),
            exchanges: 8,
        };
        OutsideTime {
            transport,
            before: reading,
            after: reading,
            began_ns: Nanos::ZERO,
            ended_ns: Nanos::ZERO,
        }
    }

    #[test]
    fn the_way_the_clock_took_is_told_with_its_error_bar() {
        let (link, udp) = (time(ClockTransport::Link, 80_000), time(ClockTransport::Udp, 30_000));
        assert_eq!(way_words(&[&link]), "; the host's clock was asked over its link 2 times, ± 40 µs");
        let both = way_words(&[&udp, &link, &udp]);
        let wanted =
            "; the host's clock was asked over its link 2 times, ± 40 µs, and by datagrams 4 times, ± 15 µs";
        assert_eq!(both, wanted);
        assert_eq!(way_words(&[]), "");
    }
}
