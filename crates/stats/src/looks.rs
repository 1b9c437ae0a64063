//! Who looks again and again, and stops when something is decided, must be surer each time.
//!
//! Of the chance α to be wrong each look spends a part: two thirds at the first, since most is decided then, a sixth at the second,
//! and from then on half of the one before, which adds up to α however many there are (alpha spending: Lan & `DeMets` 1983, here
//! with a schedule whose sum is finite, and Bonferroni's inequality instead of the looks' joint distribution, so that it holds for
//! every way in which they depend on each other). Where the data grow by half at least between looks there are few, and the price is
//! small: the first is at 96.7 % instead of 95 %, the fifth at 99.9 %, a bound about twice as long in coming where none was seen.
//!
//! Validity: one decision that is looked at repeatedly is wrong with α at most (`tests/stats_exceedance.rs`). Looks at which there
//! is nothing new do not count.

use crate::distributions::normal_two_sided;

/// Looks after which no further one is surer: there is no confidence beyond what a number can tell from 1.
const MOST: u32 = 40;

/// The confidence of the `look`-th look, from 1, of a decision that is to be right with `confidence`.
pub fn confidence_at(confidence: f64, look: u32) -> f64 {
    let share = match look {
        0 | 1 => 2.0 / 3.0,
        more => (1.0 - f64::from(more.min(MOST))).exp2() / 3.0,
    };
    1.0 - (1.0 - confidence) * share
}

/// How many times as much data the next look wants for an interval as narrow as at this one: as its normal quantiles squared.
pub fn more_for_the_next(confidence: f64, look: u32) -> f64 {
    let quantile = |look| normal_two_sided(confidence_at(confidence, look));
    (quantile(look.saturating_add(1)) / quantile(look)).powi(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_looks_together_spend_what_there_is() {
        let spent: f64 = (1..=MOST).map(|look| 1.0 - confidence_at(0.95, look)).sum();
        assert!((spent - 0.05).abs() < 1e-5 && spent <= 0.05 + 1e-12, "{spent}");
        assert!((confidence_at(0.95, 2) - (1.0 - 0.05 / 6.0)).abs() < 1e-12);
        assert!((confidence_at(0.95, 0) - confidence_at(0.95, 1)).abs() < 1e-12);
        assert!(confidence_at(0.95, u32::MAX) < 1.0);
        assert!((more_for_the_next(0.95, 1) - 1.54).abs() < 0.02);
        assert!((1..50).all(|look| (1.0..1.6).contains(&more_for_the_next(0.95, look))));
    }
}
