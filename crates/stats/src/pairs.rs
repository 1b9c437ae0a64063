//! Ratios from interleaved pairs: is this platform slower than that one, and by how much?
//!
//! Each pair holds two measurements made next to each other, in random order, so whatever drifts over the run drifts for
//! both. When there is no difference, the logarithm of their ratio is symmetric about zero, whatever the distribution
//! of the measurements. Two things follow:
//!
//! * The interval is Student's t on the logarithms. From eight pairs on, a few that lie far out (more than `FAR_OUT`
//!   robust standard deviations from the median) are met with Yuen's (1974) trimmed mean and winsorised variance, so
//!   that one broken pair neither makes a difference nor hides one. From `MANY` pairs on a fifth is trimmed at each end, broken or not:
//!   that costs 4 % of the width where the noise is normal, and a doubling in a tenth of the pairs moves nothing.
//! * From [`DEPENDENCE_FROM`] pairs on, that neighbouring ones resemble each other is no longer excluded: the variance is the long-run
//!   variance of the winsorised logarithms in the order in which they were taken (`dependence`).
//! * A difference is called only if it also passes Wilcoxon's signed-rank test, which is exact for every symmetric
//!   distribution (`signed_rank`). Where so few pairs cannot pass it at the confidence asked for, Student's t gives up
//!   one degree of freedom for the unknown shape instead. Where they can, a pair far out on the wrong side counts as the
//!   largest rank: it may hide a difference, but never makes one.
//!
//! Validity: false differences in at most 5 % of A/A comparisons at 95 % confidence, for normal, log-normal, Cauchy-like,
//! bimodal and drifting data with 5 to 100 pairs (`tests/stats_pairs.rs`), and from 40 pairs on where neighbouring ones resemble each
//! other (first-order autoregression, 0.3; at 0.5 it is 7 %). With fewer it asks for pairs that are independent of each other; and
//! always for random order within the pair where drift is as strong as the scatter.

use units::metric::{Answer, Better, Comparison, Difference, Estimate};

use super::dependence::{FEWEST_COEFFICIENTS, freedom_of, long_run_with};
use super::distributions::sign_test;
use super::interval::{DEPENDENCE_FROM, quantile_of_sorted, unsupported};
use super::power::Scatter;
use super::signed_rank;

/// Beyond so many robust standard deviations from the median a pair is trimmed.
const FAR_OUT: f64 = 10.0;
/// A normal distribution's standard deviation per median absolute deviation.
const SIGMA_PER_MAD: f64 = 1.4826;
/// Fewer pairs than this have no scatter to speak of.
const FEWEST_PAIRS: usize = 3;
/// One pair in so many may be trimmed at each end.
const PAIRS_PER_TRIMMED: usize = 8;
/// From so many pairs on one in [`MANY_PER_TRIMMED`] is trimmed at each end.
pub(super) const MANY: usize = 20;
/// See there.
pub(super) const MANY_PER_TRIMMED: usize = 5;
/// So many values tell whether they depend on each other too far for a ratio; with fewer it may be chance, and the fewest coefficients
/// are taken.
const TELLING: usize = 100;
/// Of so many values the long-run variance takes one coefficient at most.
pub(super) const VALUES_PER_COEFFICIENT: usize = 4;

/// The confidence each of `comparisons` comparisons needs so that all of them together call a false difference with
/// probability at most `1 - confidence` (Bonferroni: holds however they depend on each other).
pub fn family_confidence(confidence: f64, comparisons: usize) -> f64 {
    1.0 - (1.0 - confidence) / comparisons.max(1) as f64
}

/// Compares `(this, other)` pairs; pairs with a value that is not a finite number are left out.
pub fn compare(pairs: &[(f64, f64)], better: Better, confidence: f64) -> Comparison {
    let usable: Vec<(f64, f64)> =
        pairs.iter().copied().filter(|(this, other)| this.is_finite() && other.is_finite()).collect();
    let count = u32::try_from(usable.len()).unwrap_or(u32::MAX);
    let unknown = |reason: String| Comparison {
        ratio: unsupported(reason),
        pairs: count,
        difference: Difference::Unknown,
        of_family: None,
        detectable_percent: None,
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
    let Some(centre) = Centre::of(&logs) else {
        return unknown(format!("{count} pairs depend on each other too far for a ratio; measure longer"));
    };
    let scatter = centre.scatter(logs.len());
    let half = scatter.half_width(confidence);
    let (mut low, mut high) = (centre.value - half, centre.value + half);
    let excludes_one = low > 0.0 || high < 0.0;
    let ranks_can_tell = signed_rank::fewest(logs.len()) <= 1.0 - confidence;
    if ranks_can_tell && excludes_one && signed_rank::likelihood(&logs) > 1.0 - confidence {
        (low, high) = (low.min(0.0), high.max(0.0));
    }
    let ratio = Estimate { value: centre.value.exp(), low: low.exp(), high: high.exp(), confidence };
    if !(ratio.low.is_finite() && ratio.high.is_finite() && ratio.low > 0.0) {
        return unknown(format!("{count} pairs scatter too widely for a ratio"));
    }
    let difference = difference_of(&ratio, better);
    Comparison {
        ratio: Answer::Estimate(ratio),
        pairs: count,
        difference,
        of_family: None,
        detectable_percent: None,
    }
}

/// How the logarithms of the ratios of `(this, other)` pairs scatter, and so which difference would have been called; none where there is
/// no ratio.
pub fn scatter(pairs: &[(f64, f64)]) -> Option<Scatter> {
    let is_usable = |(this, other): &(f64, f64)| [this, other].iter().all(|v| v.is_finite() && **v > 0.0);
    if pairs.len() < FEWEST_PAIRS || !pairs.iter().all(is_usable) {
        return None;
    }
    let logs: Vec<f64> = pairs.iter().map(|(this, other)| this.ln() - other.ln()).collect();
    Centre::of(&logs).map(|centre| centre.scatter(logs.len()))
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
    Comparison {
        ratio: unsupported(reason),
        pairs: count,
        difference,
        of_family: None,
        detectable_percent: None,
    }
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
    fn scatter(&self, pairs: usize) -> Scatter {
        Scatter { spread: self.error * (pairs as f64).sqrt(), pairs, freedom: self.freedom }
    }

    /// Of values in the order they were taken; none when they depend on each other too far.
    fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        // Where all that is kept is the same, its scatter would be none.
        let trimmed = Some(trim_count(&sorted)).filter(|trimmed| differ(&sorted, *trimmed)).unwrap_or(0);
        let kept = sorted.get(trimmed..sorted.len() - trimmed).unwrap_or(&sorted);
        let (first, last) = (*kept.first()?, *kept.last()?);
        let value = kept.iter().sum::<f64>() / kept.len() as f64;
        let (kept, all) = (kept.len() as f64, values.len() as f64);
        let winsorised: Vec<f64> = values.iter().map(|value| value.clamp(first, last)).collect();
        let (variance, freedom) = if values.len() < DEPENDENCE_FROM {
            let mean = winsorised.iter().sum::<f64>() / all;
            let squares: f64 = winsorised.iter().map(|value| (value - mean).powi(2)).sum();
            (squares / (all - 1.0), kept - 1.0)
        } else {
            // So few values may show less dependence than they have.
            let freedom = match freedom_of(&winsorised) {
                None if values.len() >= TELLING => return None,
                found => found.unwrap_or(0).clamp(FEWEST_COEFFICIENTS, values.len() / VALUES_PER_COEFFICIENT),
            };
            (long_run_with(&winsorised, freedom).variance, (freedom as f64).min(kept - 1.0))
        };
        let error = (variance * (all - 1.0) / (kept * (kept - 1.0))).sqrt();
        Some(Self { value, error, freedom })
    }
}

/// Whether those that are kept are not all the same.
fn differ(sorted: &[f64], trimmed: usize) -> bool {
    let kept = sorted.get(trimmed..sorted.len() - trimmed).unwrap_or(sorted);
    kept.first().zip(kept.last()).is_some_and(|(first, last)| first < last)
}

/// How many values to trim at each end: as many as lie far out, if they are few.
fn trim_count(sorted: &[f64]) -> usize {
    if sorted.len() >= MANY {
        return sorted.len() / MANY_PER_TRIMMED;
    }
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
