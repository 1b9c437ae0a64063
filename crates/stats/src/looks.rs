//! Who looks again and again, and stops when something is decided, must be surer each time.
//!
//! Of the chance α to be wrong each look spends a part: α / (k (k + 1)) at the k-th, which adds up to α however many there are
//! (alpha spending: Lan & `DeMets` 1983, here with a schedule whose sum is finite, and Bonferroni's inequality instead of the looks'
//! joint distribution, so that it holds for every way in which they depend on each other). Where the data grow by half at least
//! between looks there are few, and the price is small: the sixth look is at 99.9 % instead of 95 %, a bound about twice as long in
//! coming where none was seen.
//!
//! Validity: one decision that is looked at repeatedly is wrong with α at most (`tests/stats_exceedance.rs`). Looks at which there
//! is nothing new do not count.

/// The confidence of the `look`-th look, from 1, of a decision that is to be right with `confidence`.
pub fn confidence_at(confidence: f64, look: u32) -> f64 {
    let look = f64::from(look.max(1));
    1.0 - (1.0 - confidence) / (look * (look + 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_looks_together_spend_what_there_is() {
        let spent: f64 = (1..100_000).map(|look| 1.0 - confidence_at(0.95, look)).sum();
        assert!((spent - 0.05).abs() < 1e-5 && spent <= 0.05, "{spent}");
        assert!((confidence_at(0.95, 1) - 0.975).abs() < 1e-12);
        assert!((confidence_at(0.95, 0) - confidence_at(0.95, 1)).abs() < 1e-12);
    }
}
