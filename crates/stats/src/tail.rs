//! A quantile far out of values that come in rounds, and resemble each other within one: how late 99.9 % of activations are.
//!
//! For each edge t the question is whether more than the share 1 − q of all values can lie beyond it. They are counted, which needs
//! neither moments nor a density and answers also where none was seen: with none of 3700 independent values beyond t, fewer than one
//! in a thousand is (2.5 % on that side). Values of a round are not independent: one stall delays many. So the count
//! is taken as if made of as many independent values as would scatter like the rounds do (Rao & Scott 1992), fewer still for the
//! few rounds that tell so, and gets the interval of Clopper & Pearson (Korn & Graubard 1998). Where the tail holds too
//! few values to tell their scatter, the worst found in it counts.
//!
//! Validity: at most 5 % of runs get a 95 % interval that does not hold the truth (`tests/stats_tail.rs`: independent, rounds of
//! different scale, stalls that delay many, Pareto); mostly it is less than 1 %, because whole values are counted and never less scatter
//! than independent ones have. Without an upper end there is no interval: something longer than all that was seen may be frequent
//! enough. So where rounds differ much in scale there seldom is one; the medians of rounds long enough for a quantile of their own
//! say more there.

use units::histogram::Histogram;
use units::metric::{Answer, Estimate};

use super::distributions::{beta_cdf, normal_two_sided, student_two_sided};
use super::interval::{trimmed_percent, unsupported};
use super::summary::histogram_quantile;

/// Fewer rounds say nothing of their scatter.
const FEWEST_ROUNDS: usize = 3;
/// Up to so many times the share that is asked for an edge belongs to the tail.
const TAIL: f64 = 4.0;

/// An edge and what lies beyond it.
struct Edge {
    at: u64,
    /// Share of all values.
    beyond: f64,
    /// How many times as much as that of independent values the variance of that share is.
    effect: f64,
}

/// The `q`-quantile of all values of `rounds` with its interval, or why there is none; in the unit of the values.
pub fn pooled_quantile(rounds: &[Histogram], q: f64, confidence: f64) -> Answer {
    if !(q > 0.0 && q < 1.0 && confidence > 0.0 && confidence < 1.0) {
        return unsupported("q or confidence are outside 0 … 1");
    }
    let rounds: Vec<&Histogram> = rounds.iter().filter(|round| round.count() > 0).collect();
    if rounds.len() < FEWEST_ROUNDS {
        return unsupported(format!(
            "{} rounds with values; at least {FEWEST_ROUNDS} are needed",
            rounds.len()
        ));
    }
    let pooled = Histogram::merge_all(rounds.iter().copied());
    let share = 1.0 - q;
    let edges = edges(&pooled, &rounds);
    let tail = |edge: &&Edge| edge.beyond > 0.0 && edge.beyond <= TAIL * share;
    let worst = edges.iter().filter(tail).map(|edge| edge.effect).reduce(f64::max);
    let worst = worst.or_else(|| edges.iter().rfind(|edge| edge.beyond > 0.0).map(|edge| edge.effect));
    let few =
        (normal_two_sided(confidence) / student_two_sided(confidence, rounds.len() as f64 - 1.0)).powi(2);
    let count = pooled.count() as f64;
    let worth = |edge: &Edge| {
        let in_tail = if edge.beyond <= TAIL * share { worst.unwrap_or(1.0) } else { 1.0 };
        count * few / edge.effect.max(in_tail)
    };
    let doubt = (1.0 - confidence) / 2.0;
    let is_high_enough = |edge: &&Edge| {
        let (worth, seen) = (worth(edge), worth(edge) * edge.beyond);
        1.0 - beta_cdf(seen + 1.0, worth - seen, share) <= doubt
    };
    let is_too_low = |edge: &&Edge| {
        let (worth, seen) = (worth(edge), worth(edge) * edge.beyond);
        edge.beyond > 0.0 && beta_cdf(seen, worth - seen + 1.0, share) <= doubt
    };
    // An edge is believed only with all above it.
    let Some(high) = edges.iter().rev().take_while(is_high_enough).last() else {
        let least = worst.map_or(count * few, |worst| count * few / worst);
        return unsupported(format!(
            "{count:.0} values of {} rounds, worth {least:.0} independent ones, do not support the {} % quantile at {} % confidence",
            rounds.len(),
            trimmed_percent(q),
            trimmed_percent(confidence)
        ));
    };
    let low = edges
        .iter()
        .rfind(is_too_low)
        .map_or_else(|| pooled.buckets().first().map_or(0, units::histogram::Bucket::lower), |edge| edge.at);
    let (low, high) = (low as f64, high.at as f64);
    let value = histogram_quantile(&pooled, q).unwrap_or(high).clamp(low.min(high), high);
    Answer::Estimate(Estimate { value, low: low.min(value), high, confidence })
}

fn edges(pooled: &Histogram, rounds: &[&Histogram]) -> Vec<Edge> {
    let counts: Vec<f64> = rounds.iter().map(|round| round.count() as f64).collect();
    let count: f64 = counts.iter().sum();
    let mut left = counts.clone();
    let mut next: Vec<_> = rounds.iter().map(|round| round.buckets().iter().peekable()).collect();
    let edge = |bucket: &units::histogram::Bucket| {
        for (left, next) in left.iter_mut().zip(&mut next) {
            if let Some(own) = next.next_if(|own| own.index == bucket.index) {
                *left -= own.count as f64;
            }
        }
        let beyond = left.iter().sum::<f64>() / count;
        let squares: f64 = left.iter().zip(&counts).map(|(own, of)| (own - beyond * of).powi(2)).sum();
        let rounds = counts.len() as f64;
        let independent = count * beyond * (1.0 - beyond);
        let effect = if independent > 0.0 { squares * rounds / (rounds - 1.0) / independent } else { 1.0 };
        Edge { at: bucket.upper(), beyond, effect: effect.max(1.0) }
    };
    pooled.buckets().iter().map(edge).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn none_beyond_is_at_most_three_in_as_many() {
        // 20 rounds of 500 values: 10000, of which few rounds leave (1.96 / 2.09)² = 0.877.
        let rounds: Vec<Histogram> =
            (0..20).map(|_| Histogram::from_values((0..500).map(|n| 100 + n % 7))).collect();
        let Answer::Estimate(estimate) = pooled_quantile(&rounds, 0.999, 0.95) else { panic!("none") };
        assert!(estimate.low >= 99.0 && estimate.high <= 107.0, "{estimate:?}");
        let Answer::Unsupported(reason) = pooled_quantile(&rounds, 0.9999, 0.95) else { panic!("answered") };
        assert!(reason.contains("10000 values of 20 rounds, worth 8"), "{reason}");
    }

    #[test]
    fn one_stall_is_one_thing_however_many_it_delays() {
        let round = |late: u64| {
            Histogram::from_values((0..1000).map(move |n| if n < late { 1_000_000 } else { 100 + n % 7 }))
        };
        let once = [vec![round(4)], vec![round(0); 7]].concat();
        let spread = [vec![round(1); 4], vec![round(0); 4]].concat();
        let high = |rounds: &[Histogram]| {
            pooled_quantile(rounds, 0.998, 0.95).estimate().map(|estimate| estimate.high)
        };
        assert!(high(&spread).is_some_and(|high| high < 200.0), "{:?}", high(&spread));
        assert!(high(&once).is_none_or(|high| high >= 1e6), "{:?}", high(&once));
    }

    #[test]
    fn nothing_and_nonsense_do_not_panic() {
        let one = Histogram::from_values([5]);
        for rounds in [vec![], vec![Histogram::default(); 9], vec![one.clone()], vec![one; 5]] {
            assert!(pooled_quantile(&rounds, 0.99, 0.95).estimate().is_none());
        }
        assert!(pooled_quantile(&[], f64::NAN, 0.95).estimate().is_none());
    }
}
