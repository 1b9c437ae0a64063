//! Ratios from interleaved pairs: is this platform slower than that one, and by how much?
//!
//! Each pair holds two measurements made next to each other, in random order, so whatever drifts over the run drifts for
//! both. When there is no difference, the logarithm of their ratio is symmetric about zero, whatever the distribution
//! of the measurements. Two things follow:
//!
//! * The interval is Student's t on the logarithms. From eight pairs on, a few that lie far out (more than [`FAR_OUT`]
//!   robust standard deviations from the median) are met with Yuen's (1974) trimmed mean and winsorised variance, so
//!   that one broken pair neither makes a difference nor hides one.
//! * A difference is called only if it also passes Fisher's sign-flip test of the same t: the sign of each logarithm is
//!   flipped in every combination (drawn at random from 2^[`MOST_EXACT`] on), and few combinations may look as extreme.
//!   That test is exact for every symmetric distribution. Where so few pairs cannot pass it at the confidence asked
//!   for, Student's t gives up one degree of freedom for the unknown shape instead.
//!
//! Validity: false differences in at most 5 % of A/A comparisons at 95 % confidence, for normal, log-normal, Cauchy-like,
//! bimodal and drifting data with 5 to 12 pairs (`tests/stats_pairs.rs`). It asks for pairs that are independent of each
//! other, and for random order within the pair where drift is as strong as the scatter.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::model::metric::{Better, Estimate};
use crate::model::results::{Answer, Comparison, Difference};

use super::distributions::{sign_test, student_two_sided};
use super::interval::{quantile_of_sorted, unsupported};

/// Beyond so many robust standard deviations from the median a pair is trimmed.
const FAR_OUT: f64 = 10.0;
/// A normal distribution's standard deviation per median absolute deviation.
const SIGMA_PER_MAD: f64 = 1.4826;
/// Fewer pairs than this have no scatter to speak of.
const FEWEST_PAIRS: usize = 3;
/// One pair in so many may be trimmed at each end.
const PAIRS_PER_TRIMMED: usize = 8;
/// Up to this many pairs all sign flips are gone through.
const MOST_EXACT: usize = 13;
/// Sign flips drawn when there are more.
const DRAWN_FLIPS: u32 = 8191;

/// The confidence each of `comparisons` comparisons needs so that all of them together call a false difference with
/// probability at most `1 - confidence` (Bonferroni: holds however they depend on each other).
pub fn family_confidence(confidence: f64, comparisons: usize) -> f64 {
    1.0 - (1.0 - confidence) / comparisons.max(1) as f64
}

/// Compares `(this, other)` pairs; pairs with a value that is not a finite number are left out.
///
/// The seed is used only to draw sign flips when there are many pairs.
pub fn compare(pairs: &[(f64, f64)], better: Better, confidence: f64, seed: u64) -> Comparison {
    let usable: Vec<(f64, f64)> =
        pairs.iter().copied().filter(|(this, other)| this.is_finite() && other.is_finite()).collect();
    let count = u32::try_from(usable.len()).unwrap_or(u32::MAX);
    let unknown = |reason: String| Comparison {
        ratio: unsupported(reason),
        pairs: count,
        difference: Difference::Unknown,
    };
    if !(confidence > 0.0 && confidence < 1.0) {
        return unknown(format!("confidence {confidence} is not between 0 and 1"));
    }
    if usable.len() < FEWEST_PAIRS {
        return unknown(format!("{count} pairs; at least {FEWEST_PAIRS} are needed"));
    }
    if usable.iter().any(|(this, other)| *this < 0.0 || *other < 0.0) {
        return unknown("negative values have no ratio".to_owned());
    }
    if usable.iter().any(|(this, other)| *this == 0.0 || *other == 0.0) {
        return by_sign(&usable, count, better, confidence);
    }
    let logs: Vec<f64> = usable.iter().map(|(this, other)| this.ln() - other.ln()).collect();
    let flips_can_tell = fewest_flips(logs.len()) <= 1.0 - confidence;
    let centre = Centre::of(&logs);
    let freedom = if flips_can_tell { centre.freedom } else { (centre.freedom - 1.0).max(1.0) };
    let half = student_two_sided(confidence, freedom) * centre.error;
    let (mut low, mut high) = (centre.value - half, centre.value + half);
    if flips_can_tell && (low > 0.0 || high < 0.0) && flip_test(&logs, seed) > 1.0 - confidence {
        (low, high) = (low.min(0.0), high.max(0.0));
    }
    let ratio = Estimate { value: centre.value.exp(), low: low.exp(), high: high.exp(), confidence };
    if !(ratio.low.is_finite() && ratio.high.is_finite() && ratio.low > 0.0) {
        return unknown(format!("{count} pairs scatter too widely for a ratio"));
    }
    let difference = difference_of(&ratio, better);
    Comparison { ratio: Answer::Estimate(ratio), pairs: count, difference }
}

/// What the interval of a ratio allows to say.
fn difference_of(ratio: &Estimate, better: Better) -> Difference {
    if ratio.low > 1.0 {
        direction(true, better)
    } else if ratio.high < 1.0 {
        direction(false, better)
    } else {
        Difference::NotFound
    }
}

/// The name of a difference that was found.
const fn direction(larger: bool, better: Better) -> Difference {
    match (better, larger) {
        (Better::Neither, _) => Difference::Different,
        (Better::Higher, true) | (Better::Lower, false) => Difference::Better,
        (Better::Higher, false) | (Better::Lower, true) => Difference::Worse,
    }
}

/// Zeros have no ratio, but which side is larger can still be counted.
fn by_sign(pairs: &[(f64, f64)], count: u32, better: Better, confidence: f64) -> Comparison {
    let larger = pairs.iter().filter(|(this, other)| this > other).count();
    let smaller = pairs.iter().filter(|(this, other)| this < other).count();
    let as_u32 = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let likelihood = sign_test(as_u32(larger.min(smaller)), as_u32(larger + smaller));
    let difference = if likelihood <= 1.0 - confidence {
        direction(larger > smaller, better)
    } else if larger + smaller > 0 && sign_test(0, count) > 1.0 - confidence {
        Difference::Unknown
    } else {
        Difference::NotFound
    };
    let zeros = pairs.iter().filter(|(this, other)| *this == 0.0 || *other == 0.0).count();
    let reason = format!("{zeros} of {count} pairs hold a zero, which has no ratio");
    Comparison { ratio: unsupported(reason), pairs: count, difference }
}

/// Typical value, trimmed where values lie far out.
struct Centre {
    /// Mean of what was kept.
    value: f64,
    /// Its standard error.
    error: f64,
    /// Degrees of freedom of that.
    freedom: f64,
}

impl Centre {
    fn of(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let trimmed = trim_count(&sorted);
        let kept = sorted.get(trimmed..sorted.len() - trimmed).unwrap_or(&sorted);
        let (Some(&first), Some(&last)) = (kept.first(), kept.last()) else {
            return Self { value: 0.0, error: f64::INFINITY, freedom: 1.0 };
        };
        let value = kept.iter().sum::<f64>() / kept.len() as f64;
        let (kept, all) = (kept.len() as f64, sorted.len() as f64);
        let winsorised = || sorted.iter().map(|value| value.clamp(first, last));
        let mean = winsorised().sum::<f64>() / all;
        let squares: f64 = winsorised().map(|value| (value - mean).powi(2)).sum();
        Self { value, error: (squares / (kept * (kept - 1.0))).sqrt(), freedom: kept - 1.0 }
    }

    /// How extreme it is, in standard errors.
    fn extremeness(&self) -> f64 {
        if self.value == 0.0 { 0.0 } else { (self.value / self.error).abs() }
    }
}

/// The smallest likelihood the sign-flip test can give for so many pairs.
fn fewest_flips(pairs: usize) -> f64 {
    if pairs <= MOST_EXACT { 0.5f64.powf(pairs as f64 - 1.0) } else { f64::from(DRAWN_FLIPS + 1).recip() }
}

/// The share of sign flips that look at least as extreme as the values do.
fn flip_test(values: &[f64], seed: u64) -> f64 {
    let observed = Centre::of(values).extremeness() * (1.0 - 1e-9);
    let extreme = |flip: &dyn Fn(usize) -> bool| {
        let flipped: Vec<f64> = values
            .iter()
            .enumerate()
            .map(|(index, value)| if flip(index) { -value } else { *value })
            .collect();
        Centre::of(&flipped).extremeness() >= observed
    };
    if values.len() <= MOST_EXACT {
        // Flipping all signs changes nothing, so the last one may stay.
        let combinations = 1u32 << (values.len() - 1);
        let found = (0..combinations).filter(|bits| extreme(&|index| bits >> index & 1 == 1)).count();
        return found as f64 / f64::from(combinations);
    }
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let found = (0..DRAWN_FLIPS)
        .filter(|_| {
            let signs: Vec<bool> = values.iter().map(|_| rng.random()).collect();
            extreme(&|index| signs.get(index).copied().unwrap_or(false))
        })
        .count();
    (found as f64 + 1.0) / (f64::from(DRAWN_FLIPS) + 1.0)
}

/// How many values to trim at each end: as many as lie far out, if they are few.
fn trim_count(sorted: &[f64]) -> usize {
    let most = sorted.len() / PAIRS_PER_TRIMMED;
    if most == 0 {
        return 0;
    }
    let median = quantile_of_sorted(sorted, 0.5);
    let mut distances: Vec<f64> = sorted.iter().map(|value| (value - median).abs()).collect();
    distances.sort_by(f64::total_cmp);
    let reach = FAR_OUT * SIGMA_PER_MAD * quantile_of_sorted(&distances, 0.5);
    let far_out = distances.iter().filter(|distance| **distance > reach).count();
    if reach > 0.0 && far_out <= most { far_out } else { 0 }
}
