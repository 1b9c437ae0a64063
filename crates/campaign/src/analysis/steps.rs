//! Clocks that were set between two measurements of the same instance: what nobody sees who looks at each measurement
//! alone.
//!
//! ```text
//!  instance 7   ├─ measurement ─┤ after ──── paused ──── before ├─ measurement ─┤
//!                                  └─── step, or a jump? ───┘
//! ```

use std::collections::BTreeMap;

use super::clocks::outside_of;
use analysis::outside::{Step, jump_between, set_between};
use model::clocks::{ClockStep, MeasurementName, Ppm, SteppedClock};
use model::journal::{InstanceLife, Measurement};
use units::Nanos;
use units::outside::OutsideTime;

/// A measurement as one of its instances saw it.
#[derive(Clone, Copy)]
struct Seen<'a> {
    measurement: &'a Measurement,
    life: InstanceLife,
    time: &'a OutsideTime,
}

/// Steps of both clocks between neighbouring measurements of each instance; `measurements` in the order they were made.
/// Without a known drift only those of the time of day.
pub(super) fn between(measurements: &[&Measurement], drift: Option<&Ppm>) -> Vec<ClockStep> {
    let mut last: BTreeMap<u32, Seen<'_>> = BTreeMap::new();
    let mut steps = Vec::new();
    for measurement in measurements {
        for (life, outcome) in measurement.instances.iter().zip(measurement.outcomes()) {
            let Some(time) = outside_of(outcome) else { continue };
            let seen = Seen { measurement, life: *life, time };
            if let Some(earlier) = last.insert(life.start, seen) {
                steps.extend(steps_of(earlier, seen, drift));
            }
        }
    }
    steps
}

fn steps_of<'a>(
    earlier: Seen<'a>,
    later: Seen<'a>,
    drift: Option<&Ppm>,
) -> impl Iterator<Item = ClockStep> + use<'a> {
    let (from, to) = (&earlier.time.after, &later.time.before);
    let since = |of: fn(&InstanceLife) -> Nanos| of(&later.life).as_f64() - of(&earlier.life).as_f64();
    let paused = (since(|life| life.paused_at_least_ns), since(|life| life.paused_at_most_ns));
    let told = move |clock: SteppedClock, step: Step| ClockStep {
        cell: later.measurement.cell.clone(),
        round: later.measurement.round,
        since: Some(MeasurementName {
            cell: earlier.measurement.cell.clone(),
            round: earlier.measurement.round,
        }),
        clock,
        step_ns: step.step_ns,
        error_ns: step.error_ns,
    };
    let set = set_between(from, to).map(|step| (SteppedClock::Realtime, step));
    let jumped = drift.and_then(|drift| jump_between(from, to, paused, drift));
    let all = [set, jumped.map(|step| (SteppedClock::Monotonic, step))];
    all.into_iter().flatten().map(move |(clock, step)| told(clock, step))
}

/// What the steps of a platform, the largest first, add to its sentence: a clause for each kind, or nothing.
pub(super) fn step_words(steps: &[ClockStep]) -> String {
    let kinds = [
        (SteppedClock::Realtime, false, "its time of day was set"),
        (SteppedClock::Realtime, true, "its time of day was set"),
        (SteppedClock::Monotonic, true, "its monotonic clock jumped against the host's"),
    ];
    let clauses = kinds.iter().filter_map(|(clock, between, what)| {
        let of_kind = steps.iter().filter(|step| step.clock == *clock && step.since.is_some() == *between);
        let largest = of_kind.clone().next()?;
        Some(format!("; {what} {}", clause(largest, of_kind.count())))
    });
    clauses.collect()
}

fn clause(largest: &ClockStep, count: usize) -> String {
    let direction = if largest.step_ns > 0 { "forward" } else { "back" };
    let by = Nanos::from_nanos(largest.step_ns.unsigned_abs());
    let error = Nanos::from_nanos(largest.error_ns);
    let times = if count == 1 { "once".to_owned() } else { format!("{count} times") };
    match &largest.since {
        None => format!("{times} during measurements, at most {by} {direction} (± {error})"),
        Some(since) => format!(
            "{times} between measurements, at most {by} {direction} (± {error}), after {} of round {} and before {} of \
             round {}",
            since.cell.probe_words(),
            since.round.saturating_add(1),
            largest.cell.probe_words(),
            largest.round.saturating_add(1)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::journal::{Cell, Outcome};
    use probes::ProbeKind;
    use probes::detail::{Detail, FwqDetail};
    use probes::job::ProbeReport;
    use units::Bytes;
    use units::facts::{ClockFacts, OwnCost};
    use units::outside::{ClockReading, ClockTransport};

    const MS: u64 = 1_000_000;

    fn reading(host_ms: u64, inside_ms: u64, ahead_ms: u64) -> ClockReading {
        let nanos = |ms: u64| Nanos::from_nanos(ms * MS);
        ClockReading {
            host_ns: nanos(host_ms),
            monotonic_ns: nanos(inside_ms),
            raw_ns: nanos(inside_ms),
            realtime_ns: nanos(1_700_000_000_000 + inside_ms + ahead_ms),
            round_trip_ns: Nanos::from_nanos(30_000),
            exchanges: 8,
        }
    }

    /// A second measured in an instance; its clocks at the begin, and how many of the milliseconds before it was paused.
    fn measured(round: u32, start: u32, paused_ms: u64, clocks: (u64, u64, u64)) -> Measurement {
        let (host, inside, ahead) = clocks;
        let (before, after) = (reading(host, inside, ahead), reading(host + 1000, inside + 1000, ahead));
        let outside = OutsideTime {
            transport: ClockTransport::Link,
            before,
            after,
            began_ns: before.monotonic_ns,
            ended_ns: after.monotonic_ns,
        };
        let detail = Detail::Fwq(FwqDetail { iterations: 1, cpu: None, samples_ns: Vec::new() });
        let clock = ClockFacts { name: String::new(), read_ns: 1.0, resolution_ns: 1.0 };
        let memory_bytes = Bytes::from_bytes(0);
        let cost = OwnCost { per_sample_ns: 1.0, cpu_time_ns: Nanos::ZERO, memory_bytes };
        let report =
            ProbeReport { outside: Some(outside), ..ProbeReport::new(clock, cost, detail, Vec::new()) };
        let paused = Nanos::from_nanos(paused_ms * MS);
        let life = InstanceLife { start, paused_at_least_ns: paused, paused_at_most_ns: paused };
        Measurement {
            cell: Cell { probe: ProbeKind::Fwq, neighbour: None, platform: "vm".to_owned(), layout: None },
            round,
            started_unix_ns: Nanos::ZERO,
            duration_ns: Nanos::ZERO,
            doses: Vec::new(),
            outcome: Outcome::Done(Box::new(report)),
            others: Vec::new(),
            start_skew_ns: None,
            host: None,
            instances: vec![life],
        }
    }

    fn found(all: &[Measurement]) -> Vec<(u32, u32, SteppedClock, i64)> {
        let agrees = Ppm { value: 0.0, low: -5.0, high: 5.0 };
        let all: Vec<&Measurement> = all.iter().collect();
        let told = between(&all, Some(&agrees)).into_iter();
        told.map(|step| {
            (step.since.map_or(99, |since| since.round), step.round, step.clock, step.step_ns / 1_000_000)
        })
        .collect()
    }

    #[test]
    fn pauses_are_no_steps_and_steps_are_found_through_pauses() {
        let quiet = [
            measured(0, 4, 0, (10_000, 500, 7)),
            measured(1, 4, 5_000, (16_010, 1_510, 7)),
            measured(2, 4, 8_000, (20_020, 5_520, 7)),
        ];
        assert_eq!(found(&quiet), [], "it stood still in the first pause and ran on in the second");
        let set = [quiet[0].clone(), measured(1, 4, 5_000, (16_010, 1_510, 250)), quiet[2].clone()];
        assert_eq!(found(&set), [(0, 1, SteppedClock::Realtime, 243), (1, 2, SteppedClock::Realtime, -243)]);
        let jumped = [quiet[0].clone(), measured(1, 4, 5_000, (16_010, 4_510, 7))];
        assert!(matches!(found(&jumped)[..], [(0, 1, SteppedClock::Monotonic, _)]), "{:?}", found(&jumped));
    }

    #[test]
    fn only_measurements_of_the_same_instance_are_compared() {
        let first = measured(0, 4, 0, (10_000, 500, 7));
        let restarted = measured(1, 5, 0, (12_000, 300, 9_000));
        assert_eq!(found(&[first.clone(), restarted]), []);
        let unnumbered = Measurement { instances: Vec::new(), ..measured(1, 4, 0, (12_000, 300, 9_000)) };
        assert_eq!(
            found(&[first.clone(), unnumbered]),
            [],
            "journals of older versions do not say which it was"
        );
        // One that broke in between does not end the watch.
        let broke = Measurement {
            outcome: Outcome::Failed(model::journal::Failure {
                kind: model::journal::FailureKind::Refused,
                reason: String::new(),
                console: Vec::new(),
            }),
            ..measured(1, 4, 0, (11_100, 1_600, 7))
        };
        let later = measured(2, 4, 0, (12_000, 2_500, 1_007));
        assert_eq!(found(&[first, broke, later]), [(0, 2, SteppedClock::Realtime, 1000)]);
    }
}
