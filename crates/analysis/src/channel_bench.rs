//! Figures of a channel bench: from what workers saw in each round to medians with intervals, ratios and marks.
//!
//! A figure is the median over the rounds of each round's own quantile, with the interval of the median (`interval`);
//! ratios come from pairs of the same round (`pairs`). A round has a quantile only if at least ten of its values lie
//! beyond it.

use model::channel_bench::{
    AccessCost, ClockCost, FLAG_BYTES, Floor, Mapping, Mark, Quantity, Series, SeriesFailure, Taken, Way,
};
use model::channel_worker::{AccessTimes, MappingTimes, Seen, Totals};
use stats::interval::{median_interval, unsupported};
use stats::pairs::compare;
use stats::summary::{histogram_max, histogram_quantile};
use units::histogram::Histogram;
use units::metric::{Answer, Better};

/// Confidence of all intervals.
pub const CONFIDENCE: f64 = 0.95;
/// Values beyond a quantile, so that a round has one.
const BEYOND: f64 = 10.0;
/// A mapping whose dependent loads take so many times as long as those of ordinary memory is not cached: a cache
/// answers within two nanoseconds, memory within fifty at best.
const UNCACHED_FROM: f64 = 5.0;

/// What should be: quantity, size, this, other, whether at most, mark.
pub const MARKS: [(Quantity, u64, Way, Way, bool, f64); 6] = [
    (Quantity::RoundTrip, 8, Way::Channel, Way::OneGuest, true, 1.5),
    (Quantity::RoundTrip, 8, Way::Channel, Way::Host, true, 2.0),
    (Quantity::RoundTrip, 8, Way::Tcp, Way::Channel, false, 500.0),
    (Quantity::Bandwidth, 1 << 20, Way::Channel, Way::GuestCopy, false, 0.8),
    (Quantity::Bandwidth, 4 << 20, Way::Channel, Way::GuestCopy, false, 0.8),
    (Quantity::Bandwidth, 1 << 20, Way::Channel, Way::Tcp, false, 50.0),
];

/// What is held against a bare flag: this, other.
const FLOORS: [(Way, Way); 4] = [
    (Way::Channel, Way::Flag),
    (Way::Host, Way::HostFlag),
    (Way::Flag, Way::HostFlag),
    (Way::Tcp, Way::Flag),
];

/// One series for each way and size that was tried.
pub fn series(taken: &[Taken]) -> Vec<Series> {
    let mut keys: Vec<(Way, u64)> = taken.iter().map(|one| (one.way, one.bytes)).collect();
    keys.sort_unstable();
    keys.dedup();
    keys.into_iter().map(|(way, bytes)| one_series(taken, way, bytes)).collect()
}

fn one_series(taken: &[Taken], way: Way, bytes: u64) -> Series {
    let seen: Vec<&Seen> = rounds(taken, way, bytes).map(|(_, seen)| seen).collect();
    let over =
        |figure: &dyn Fn(&Seen) -> Option<f64>| over_rounds(seen.iter().filter_map(|seen| figure(seen)));
    let trips_ns = Histogram::merge_all(seen.iter().map(|seen| &seen.trips_ns));
    Series {
        way,
        size_bytes: bytes,
        rounds: u32::try_from(seen.len()).unwrap_or(u32::MAX),
        p999_ns: over(&|seen| quantile(&seen.trips_ns, 0.999)),
        p99_ns: over(&|seen| quantile(&seen.trips_ns, 0.99)),
        p50_ns: over(&|seen| quantile(&seen.trips_ns, 0.5)),
        max_ns: histogram_max(&trips_ns),
        batch_mean_ns: over(&|seen| seen.batch.each_ns()),
        bandwidth_bytes_per_s: over(&|seen| bandwidth(seen, bytes)),
        trips_ns,
    }
}

/// What was seen of a way at a size, with the round's number.
fn rounds(taken: &[Taken], way: Way, bytes: u64) -> impl Iterator<Item = (u32, &Seen)> {
    taken
        .iter()
        .filter(move |one| one.way == way && one.bytes == bytes)
        .filter_map(|one| Some((one.round, one.outcome.as_ref().ok()?)))
}

fn over_rounds(values: impl Iterator<Item = f64>) -> Answer {
    let values: Vec<f64> = values.collect();
    if values.is_empty() {
        return unsupported("no round has enough values");
    }
    median_interval(&values, CONFIDENCE, 0)
}

/// A round's quantile, if enough values lie beyond it.
fn quantile(histogram: &Histogram, q: f64) -> Option<f64> {
    let beyond = histogram.count() as f64 * (1.0 - q);
    let needed = if q > 0.5 { BEYOND } else { 1.0 };
    // A thousandth of 10 000 is not quite 10 in binary.
    if beyond + 1e-6 >= needed { histogram_quantile(histogram, q) } else { None }
}

fn bandwidth(seen: &Seen, bytes: u64) -> Option<f64> {
    seen.stream.each_ns().map(|each| bytes as f64 / each * 1e9)
}

/// All marks whose ways and sizes were tried.
pub fn marks(taken: &[Taken]) -> Vec<Mark> {
    let asked = MARKS
        .iter()
        .filter(|(_, bytes, this, other, ..)| tried(taken, *this, *bytes) && tried(taken, *other, *bytes));
    asked.map(|mark| held(taken, *mark)).collect()
}

fn tried(taken: &[Taken], way: Way, bytes: u64) -> bool {
    taken.iter().any(|one| one.way == way && one.bytes == bytes)
}

/// Everything that was tried beside a bare flag.
pub fn floors(taken: &[Taken]) -> Vec<Floor> {
    let size_bytes = FLAG_BYTES;
    let asked = FLOORS
        .into_iter()
        .filter(|(this, other)| tried(taken, *this, size_bytes) && tried(taken, *other, size_bytes));
    let floor = |(this, other)| Floor {
        size_bytes,
        this,
        other,
        ratio: ratio(taken, Quantity::RoundTrip, size_bytes, this, other),
    };
    asked.map(floor).collect()
}

fn held(taken: &[Taken], mark: (Quantity, u64, Way, Way, bool, f64)) -> Mark {
    let (quantity, size_bytes, this, other, at_most, wanted) = mark;
    let ratio = ratio(taken, quantity, size_bytes, this, other);
    let keeps = |value: f64| if at_most { value <= wanted } else { value >= wanted };
    let estimate = ratio.estimate().copied();
    let reached = estimate.map(|estimate| keeps(estimate.value));
    let certain = estimate.is_some_and(|estimate| keeps(estimate.low) == keeps(estimate.high));
    Mark { quantity, size_bytes, this, other, at_most, wanted, ratio, reached, certain }
}

/// The ratio of two ways, from pairs of the same round.
pub fn ratio(taken: &[Taken], quantity: Quantity, bytes: u64, this: Way, other: Way) -> Answer {
    let value = |seen: &Seen| match quantity {
        Quantity::RoundTrip => quantile(&seen.trips_ns, 0.5),
        Quantity::Bandwidth => bandwidth(seen, bytes),
    };
    let pairs: Vec<(f64, f64)> = rounds(taken, this, bytes)
        .filter_map(|(round, seen)| {
            let (_, beside) = rounds(taken, other, bytes).find(|(number, _)| *number == round)?;
            Some((value(seen)?, value(beside)?))
        })
        .collect();
    compare(&pairs, Better::Neither, CONFIDENCE).ratio
}

/// Everything that failed.
pub fn failures(taken: &[Taken]) -> Vec<SeriesFailure> {
    let failure = |one: &Taken| {
        let reason = one.outcome.as_ref().err()?.clone();
        Some(SeriesFailure {
            way: one.way,
            size_bytes: Some(one.bytes),
            round: one.round,
            reason: reason.into(),
        })
    };
    taken.iter().filter_map(failure).collect()
}

/// What a read of the clock costs, by way.
pub fn clocks(taken: &[Taken]) -> Vec<ClockCost> {
    let of = |way: Way| -> Option<ClockCost> {
        let ours = taken.iter().filter(|one| one.way == way);
        let reads: Vec<f64> = ours.filter_map(|one| one.outcome.as_ref().ok()?.clock.each_ns()).collect();
        (!reads.is_empty()).then(|| ClockCost { way, read_ns: median_interval(&reads, CONFIDENCE, 0) })
    };
    [Way::OneGuest, Way::Host].into_iter().filter_map(of).collect()
}

/// A mapping from repeated looks at it.
pub fn mapping(place: String, times: &[MappingTimes]) -> Mapping {
    let cost = |kind: &dyn Fn(&AccessTimes) -> Totals| {
        let pairs: Vec<(f64, f64)> = times
            .iter()
            .filter_map(|one| Some((kind(&one.mapping).each_ns()?, kind(&one.ordinary).each_ns()?)))
            .collect();
        AccessCost {
            mapping_ns: over_rounds(pairs.iter().map(|pair| pair.0)),
            ordinary_ns: over_rounds(pairs.iter().map(|pair| pair.1)),
            ratio: compare(&pairs, Better::Neither, CONFIDENCE).ratio,
        }
    };
    let (dependent_load, sequential_load) = (cost(&|times| times.dependent), cost(&|times| times.loads));
    let is_written = times.iter().any(|one| one.mapping.stores.count > 0);
    let store = is_written.then(|| cost(&|times| times.stores));
    let cached = dependent_load.ratio.estimate().and_then(|ratio| {
        let cached = ratio.value < UNCACHED_FROM;
        // The interval has to say the same.
        ((ratio.high < UNCACHED_FROM) == cached && (ratio.low < UNCACHED_FROM) == cached).then_some(cached)
    });
    Mapping { place, dependent_load, sequential_load, store, cached }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(round: u32, way: Way, trip_ns: u64, stream_ns: u64) -> Taken {
        let seen = Seen {
            trips_ns: Histogram::from_values((0..2000).map(|step| trip_ns + step % 3)),
            stream: Totals { count: 100, ns: stream_ns },
            ..Seen::default()
        };
        Taken { round, way, bytes: 8, outcome: Ok(seen) }
    }

    #[test]
    fn a_mark_is_reached_missed_or_not_told() {
        let run = |channel: u64| -> Mark {
            let rounds = (0..8).flat_map(|round| {
                let jitter = u64::from(round % 3);
                [
                    taken(round, Way::Channel, channel + jitter, 500),
                    taken(round, Way::OneGuest, 1000 + jitter, 500),
                ]
            });
            marks(&rounds.collect::<Vec<_>>()).remove(0)
        };
        assert_eq!((run(1200).reached, run(1200).certain), (Some(true), true));
        assert_eq!((run(1700).reached, run(1700).certain), (Some(false), true));
    }

    #[test]
    fn a_failure_is_recorded_and_is_no_zero() {
        let mut all: Vec<Taken> = (0..4).map(|round| taken(round, Way::Channel, 700, 500)).collect();
        all.push(Taken { round: 4, way: Way::Channel, bytes: 8, outcome: Err("peer gone".into()) });
        all.push(Taken { round: 0, way: Way::OneGuest, bytes: 8, outcome: Err("none".into()) });
        assert_eq!(failures(&all).len(), 2);
        let series = series(&all);
        assert_eq!((series[0].rounds, series[1].rounds), (4, 0));
        let p50 = series[0].p50_ns.estimate().unwrap();
        assert!((699.0..704.0).contains(&p50.value) && p50.low >= 699.0, "{p50:?}");
        assert!(series[1].p50_ns.estimate().is_none() && series[1].max_ns.is_none());
        let mark = &marks(&all)[0];
        assert!(mark.reached.is_none() && !mark.certain);
    }

    #[test]
    fn tails_need_values_beyond_them() {
        let thousand = Histogram::from_values(0..1000);
        assert!(quantile(&thousand, 0.999).is_none());
        assert!(quantile(&thousand, 0.99).is_some());
        assert!(quantile(&Histogram::from_values(0..10_000), 0.999).is_some());
    }

    #[test]
    fn bandwidth_is_bytes_by_time() {
        let all: Vec<Taken> = (0..4).map(|round| taken(round, Way::Channel, 700, 800)).collect();
        let value = series(&all)[0].bandwidth_bytes_per_s.estimate().unwrap().value;
        assert!((value - 1e9).abs() < 1.0, "{value}");
    }

    #[test]
    fn a_mapping_is_cached_or_not_or_it_is_not_told() {
        let look = |ns: u64| {
            let access = |ns: u64| {
                let each = Totals { count: 100, ns };
                AccessTimes { dependent: each, loads: each, stores: Totals::default() }
            };
            let times = (0..9).map(|step| MappingTimes { mapping: access(ns + step), ordinary: access(200) });
            mapping("here".to_owned(), &times.collect::<Vec<_>>())
        };
        assert_eq!(look(210).cached, Some(true));
        assert_eq!(look(40_000).cached, Some(false));
        assert_eq!(look(998).cached, None);
        assert!(look(210).store.is_none());
    }
}
