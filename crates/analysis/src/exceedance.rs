//! How often does it take longer? From the rounds of a cell to what is known of it, and what can be said where a quantile has no
//! interval: an upper bound of it, or of the share beyond the longest that was seen.

use model::exceedance::{Exceedance, ExceedancePoint, Quantile};
use model::prediction::minutes;
use probes::probe::{Lengths, Whole};
use stats::exceedance::{Counted, Curve, Point, Share, curve};
use stats::interval::trimmed_percent;
use units::Nanos;
use units::histogram::Histogram;
use units::metric::{Estimate, Unit, saturate};
use units::three_digits;

/// Times that are looked at: ten per decade (preferred numbers, ISO 3), so that round deadlines are among them.
const PER_DECADE: [f64; 10] = [1.0, 1.25, 1.6, 2.0, 2.5, 3.15, 4.0, 5.0, 6.3, 8.0];
/// Decades from here on, nanoseconds.
const SHORTEST_NS: f64 = 1e3;
const DECADES: i32 = 9;
/// A larger share is told in per cent.
const OFTEN: f64 = 0.1;
/// So many times the time that was observed is more than anybody waits for.
pub const MOST_TIMES: f64 = 10_000.0;

/// What the rounds of a cell say together, each bound with this confidence; none when that is nothing.
pub fn of_rounds(rounds: &[Lengths], confidence: f64) -> Option<Exceedance> {
    let first = rounds.first()?;
    let mut units: Vec<f64> = rounds.iter().map(|round| round.unit_ns).collect();
    units.sort_by(f64::total_cmp);
    let unit_ns = units.get(units.len() / 2).copied().filter(|unit| *unit > 0.0 && unit.is_finite())?;
    let counted = match first.of {
        Whole::Time => Counted::Time,
        _ => Counted::Each { period: first.period_ns / unit_ns, at_once: first.at_once },
    };
    let decade = |decade: i32| PER_DECADE.iter().map(move |step| SHORTEST_NS * 10f64.powi(decade) * step);
    let times_ns: Vec<f64> = (0..DECADES).flat_map(decade).collect();
    let times: Vec<u64> = times_ns.iter().map(|time| saturate(time / unit_ns)).collect();
    let batches: Vec<Vec<Histogram>> = rounds.iter().map(|round| round.batches.clone()).collect();
    let known = curve(&batches, counted, &times, confidence)?;
    let nanos = |value: f64| Nanos::from_nanos(saturate(value * unit_ns));
    let exact = |at: f64| {
        let index = times.iter().position(|time| (*time as f64 - at).abs() < 0.5);
        index
            .and_then(|index| times_ns.get(index))
            .map_or_else(|| nanos(at), |ns| Nanos::from_nanos(saturate(*ns)))
    };
    let point = |point: &Point| ExceedancePoint {
        longer_than_ns: exact(point.longer_than),
        share: point.share,
        draw_ns: nanos(point.draw),
        is_from_scatter: point.is_many,
    };
    let quantile = |(metric, beyond_share): &(&str, f64)| Quantile {
        metric: (*metric).to_owned(),
        beyond_share: *beyond_share,
    };
    let period_ns = if first.of == Whole::Time { 0.0 } else { first.period_ns };
    Some(Exceedance {
        of: first.of,
        period_ns: Nanos::from_nanos(saturate(period_ns)),
        observed_ns: nanos(known.observed),
        longest_ns: nanos(known.longest),
        confidence,
        draw_per_time: known.draw_per_time,
        quantiles: first.quantiles.iter().map(quantile).collect(),
        points: known.points.iter().map(point).collect(),
    })
}

/// The shares beyond a time, nanoseconds: one for its upper and one for its lower bound.
pub fn beyond(known: &Exceedance, time_ns: f64) -> (Option<Share>, Option<Share>) {
    let point = |point: &ExceedancePoint| Point {
        longer_than: point.longer_than_ns.as_f64(),
        share: point.share,
        draw: point.draw_ns.as_f64(),
        is_many: point.is_from_scatter,
    };
    let curve = Curve {
        observed: known.observed_ns.as_f64(),
        longest: known.longest_ns.as_f64(),
        draw_per_time: known.draw_per_time,
        points: known.points.iter().map(point).collect(),
    };
    curve.beyond(time_ns)
}

/// The metric of probes with periods that is the share of those that were not done within one.
pub const MISSED: &str = "missed_share";

/// The share that took longer than a period, with its interval: of all rounds together, whose mean is `mean`. A median of rounds that
/// have few each would be zero for whatever is missed less often than once in two rounds. None where there is no period.
pub fn missed(known: &Exceedance, mean: f64) -> Option<Estimate> {
    let (above, below) = beyond(known, known.period_ns.as_f64());
    let above = above.filter(|_| known.period_ns > Nanos::ZERO)?;
    let side = f64::midpoint(1.0, known.confidence);
    let low = below.map_or(0.0, |below| below.lower(side)).min(mean);
    let high = above.upper(side).max(mean);
    Some(Estimate { value: mean, low, high, confidence: known.confidence })
}

/// The share beyond a metric that is a quantile of these times.
pub fn share_of(known: &Exceedance, metric: &str) -> Option<f64> {
    known.quantiles.iter().find(|quantile| quantile.metric == metric).map(|quantile| quantile.beyond_share)
}

/// What a metric without an interval is at most, nanoseconds; none where nothing can be said.
pub fn at_most(known: &Exceedance, metric: &str) -> Option<f64> {
    within(known, share_of(known, metric)?)
}

/// The shortest time that at most this share exceeds for sure, nanoseconds; none where that is not known of any.
pub fn within(known: &Exceedance, allowed: f64) -> Option<f64> {
    let is_below = |point: &&ExceedancePoint| {
        let (share, _) = beyond(known, point.longer_than_ns.as_f64());
        share.is_some_and(|share| share.upper(known.confidence) <= allowed)
    };
    known.points.iter().find(is_below).map(|point| point.longer_than_ns.as_f64())
}

/// `99.9 % needs about 38 s of measuring, 2.8 s were measured; with 95 % confidence at most 1.3 % of the time is in gaps
/// longer than 10 ms`: what can be said of a metric without an interval. None where nothing can be said.
pub fn in_words(known: &Exceedance, metric: &str) -> Option<String> {
    let allowed = share_of(known, metric)?;
    let percent = trimmed_percent(1.0 - allowed);
    let last = known.points.iter().find(|point| point.share <= 0.0).or_else(|| known.points.last())?;
    let (share, _) = beyond(known, last.longer_than_ns.as_f64());
    let share = share?;
    let measured = minutes(known.observed_ns);
    let times = share.decided_by(allowed, known.confidence, MOST_TIMES).filter(|times| *times > 1.0);
    let needs = times.map_or_else(String::new, |times| {
        let needed = minutes(Nanos::from_nanos(saturate(known.observed_ns.as_f64() * times)));
        format!("{percent} % needs about {needed} of measuring, {measured} were measured; ")
    });
    Some(format!("{needs}{}", at_most_words(known, last.longer_than_ns.as_f64(), share)))
}

/// `0.58 % of the time is in gaps longer than 10 ms, with 95 % confidence at most 3.3 %`; without the first part where none was
/// seen, and with the least where what was seen is beyond what is allowed.
pub fn seen_words(known: &Exceedance, time_ns: f64, share: Share, is_beyond: bool) -> String {
    if share.value <= 0.0 {
        return at_most_words(known, time_ns, share);
    }
    let (side, end, rounded) = if is_beyond {
        ("at least", share.lower(known.confidence), Rounded::Up)
    } else {
        ("at most", share.upper(known.confidence), Rounded::Down)
    };
    format!(
        "{}, with {} % confidence {side} {}",
        longer(known.of, share.value, Rounded::Nearest, time_ns),
        trimmed_percent(known.confidence),
        share_words(known.of, end, rounded)
    )
}

/// `with 95 % confidence at most 1 in 75 activations is later than 10 ms`.
fn at_most_words(known: &Exceedance, time_ns: f64, share: Share) -> String {
    let most = longer(known.of, share.upper(known.confidence), Rounded::Down, time_ns);
    format!("with {} % confidence at most {most}", trimmed_percent(known.confidence))
}

/// `at most 1 in 1000 may be`.
pub fn allowed_words(of: Whole, allowed: f64) -> String {
    format!("at most {} may be", share_words(of, allowed, Rounded::Nearest))
}

/// `1.3 % of the time is in gaps longer than 10 ms`, `1 in 75 activations is later than 10 ms`.
fn longer(of: Whole, share: f64, rounded: Rounded, time_ns: f64) -> String {
    let (share_words, time) = (share_words(of, share, rounded), Unit::Nanoseconds.format(time_ns));
    let what = match of {
        Whole::Time => return format!("{share_words} of the time is in gaps longer than {time}"),
        Whole::Activations => "activations",
        Whole::Frames => "frames",
    };
    if share > OFTEN {
        format!("{share_words} of the {what} are later than {time}")
    } else {
        format!("{share_words} {what} is later than {time}")
    }
}

/// `1.3 %` of the time, `1 in 75` of what is counted.
fn share_words(of: Whole, share: f64, rounded: Rounded) -> String {
    if of == Whole::Time || share > OFTEN {
        return Unit::Share.format(share);
    }
    let number = 1.0 / share.max(1e-12);
    let step = 10f64.powf((number.log10() - 2.0).floor()).max(1.0);
    let steps = match rounded {
        Rounded::Down => (number / step).floor(),
        Rounded::Nearest => (number / step).round(),
        Rounded::Up => (number / step).ceil(),
    };
    format!("1 in {}", three_digits(steps * step))
}

/// How the number of which one is late is rounded, so that what is said of it stays true.
#[derive(Clone, Copy)]
enum Rounded {
    Down,
    Nearest,
    Up,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Twenty rounds of a hundred gaps of 1 ms, and as many of the last one as are said.
    fn gaps(late: usize) -> Exceedance {
        let round = |late: usize| Lengths {
            batches: vec![Histogram::from_values([vec![1_000_000; 100], vec![12_000_000; late]].concat())],
            of: Whole::Time,
            unit_ns: 1.0,
            period_ns: 0.0,
            at_once: 1.0,
            quantiles: vec![("bound_99_9_ns", 0.001), ("bound_90_ns", 0.1)],
        };
        let rounds: Vec<Lengths> = (0..20).map(|number| round(if number == 0 { late } else { 0 })).collect();
        of_rounds(&rounds, 0.95).expect("enough rounds")
    }

    #[test]
    fn where_none_was_seen_the_rule_of_three_bounds_the_share() {
        // 2 s in draws of a batch, 100 ms: 20, of which 1 − 0.05^(1/20) = 13.9 %.
        let known = gaps(0);
        let (most, least) = beyond(&known, 1e7);
        assert!((most.unwrap().upper(0.95) - 0.139).abs() < 0.001, "{most:?}");
        assert!(least.unwrap().lower(0.95) <= 0.0);
        assert_eq!(
            in_words(&known, "bound_99_9_ns").unwrap(),
            "99.9 % needs about 5 min of measuring, 2.0 s were measured; with 95 % confidence at most 13.9 % of the time is in \
             gaps longer than 1.25 ms"
        );
        assert_eq!((at_most(&known, "bound_90_ns"), in_words(&known, "lost_share")), (None, None));
        assert!(within(&known, 0.15).is_some_and(|time| (1e6..2e6).contains(&time)));
    }

    #[test]
    fn what_was_seen_is_told_with_the_side_that_matters() {
        let known = gaps(1);
        let (Some(most), Some(least)) = beyond(&known, 1e7) else { panic!("a point on each side") };
        assert!((most.value - 0.012 / 2.012).abs() < 1e-6 && (least.value - most.value).abs() < 1e-9);
        let words = seen_words(&known, 1e7, most, false);
        assert!(
            words.starts_with(
                "0.596 % of the time is in gaps longer than 10 ms, with 95 % confidence at most"
            ),
            "{words}"
        );
        assert!(seen_words(&known, 1e7, most, true).contains("confidence at least 0.0"));
        let share = Share { value: 0.0, draws: 300.0 };
        let of = |of: Whole| at_most_words(&Exceedance { of, ..known.clone() }, 2e6, share);
        assert_eq!(
            of(Whole::Activations),
            "with 95 % confidence at most 1 in 100 activations is later than 2 ms"
        );
        assert!(of(Whole::Frames).ends_with("1 in 100 frames is later than 2 ms"));
        assert_eq!(allowed_words(Whole::Activations, 1e-3), "at most 1 in 1000 may be");
        assert_eq!(allowed_words(Whole::Time, 1e-3), "at most 0.100 % may be");
    }

    #[test]
    fn too_few_rounds_and_nonsense_say_nothing() {
        assert_eq!(of_rounds(&[], 0.95), None);
        let round = Lengths {
            batches: vec![Histogram::default()],
            of: Whole::Frames,
            unit_ns: f64::NAN,
            period_ns: 0.0,
            at_once: 0.0,
            quantiles: Vec::new(),
        };
        assert_eq!(of_rounds(&vec![round.clone(); 9], 0.95), None);
        assert_eq!(of_rounds(&vec![Lengths { unit_ns: 1.0, ..round }; 9], 0.95), None);
    }
}
