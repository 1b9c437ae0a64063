//! How much a mean really scatters when neighbouring samples resemble each other.
//!
//! The variance of the mean of a stationary series is its *long-run variance* / n. It is estimated by the equal-weighted
//! cosine transform: the mean square of the first B cosine coefficients, which behaves like a χ² with B degrees of
//! freedom, so that Student's t with B degrees applies (Lazarus, Lewis, Stock & Watson 2018, "HAR inference:
//! recommendations for practice"). With B = n−1 it is exactly the sample variance of independent data.
//!
//! B must be small enough for the spectrum to be flat over the frequencies used. It is chosen from the correlation of
//! neighbouring blocks of 1, 2, 4 … samples, each read as a first-order autoregression: the relative bias of the
//! estimate stays near [`BIAS_ALLOWED`]. Blocks of many lengths are looked at because a weak but long memory does not
//! show between single neighbours. Valid for stationary series; correlation that reaches over more than about a tenth
//! of the series is refused (`None`), not guessed.

use std::f64::consts::PI;

/// Relative bias of the long-run variance that the choice of B puts up with.
const BIAS_ALLOWED: f64 = 0.04;
/// More coefficients than this gain nothing: the quantile of Student's t is within 2 % of the normal's.
const MOST_COEFFICIENTS: usize = 63;
/// Fewer than this say too little.
pub const FEWEST_COEFFICIENTS: usize = 5;
/// Longer series are averaged to about this many blocks first, so that the cost stays linear.
const MOST_BLOCKS: usize = 4096;
/// Correlation is looked for only while there are at least this many blocks.
const FEWEST_BLOCKS: usize = 64;

/// Long-run variance of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LongRun {
    /// n × the variance of the mean.
    pub variance: f64,
    /// Degrees of freedom of that estimate.
    pub freedom: usize,
}

/// How many degrees of freedom the long-run variance of `series` can have; none when too few.
pub fn freedom_of(series: &[f64]) -> Option<usize> {
    let blocks = block_means(series, per_block(series.len()));
    let most = MOST_COEFFICIENTS.min(blocks.len().saturating_sub(1));
    Some(flat_coefficients(&blocks).min(most)).filter(|freedom| *freedom >= FEWEST_COEFFICIENTS)
}

/// The long-run variance with degrees of freedom that [`freedom_of`] found, for this series or one like it.
pub fn long_run_with(series: &[f64], freedom: usize) -> LongRun {
    let per_block = per_block(series.len());
    let blocks = block_means(series, per_block);
    let variance = if freedom + 1 == blocks.len() {
        variance_about_mean(&blocks)
    } else {
        cosine_variance(&blocks, freedom)
    };
    LongRun { variance: variance * per_block as f64, freedom }
}

/// Samples per block, so that there are at most [`MOST_BLOCKS`].
fn per_block(samples: usize) -> usize {
    samples.div_ceil(MOST_BLOCKS).max(1)
}

/// Means of consecutive blocks; a rest that fills no block is left out.
fn block_means(series: &[f64], per_block: usize) -> Vec<f64> {
    series.chunks_exact(per_block).map(|block| block.iter().sum::<f64>() / per_block as f64).collect()
}

/// Sample variance.
fn variance_about_mean(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0)
}

/// Over how many cosine coefficients the spectrum is flat enough.
fn flat_coefficients(blocks: &[f64]) -> usize {
    let mut level = blocks.to_vec();
    let mut fewest = usize::MAX;
    loop {
        let correlation = neighbour_correlation(&level);
        if correlation > 0.0 {
            let n = level.len() as f64;
            let flat = n / PI * (1.0 - correlation) * (3.0 * BIAS_ALLOWED / correlation).sqrt();
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "non-negative, saturates"
            )]
            let flat = flat as usize;
            fewest = fewest.min(flat);
        }
        if level.len() < 2 * FEWEST_BLOCKS {
            return fewest;
        }
        level = block_means(&level, 2);
    }
}

/// Correlation of neighbours, less what chance alone makes of independent data (one standard error).
fn neighbour_correlation(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let total: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    if total <= 0.0 || values.len() < 3 {
        return 0.0;
    }
    let product: f64 =
        values.windows(2).map(|pair| if let [a, b] = pair { (a - mean) * (b - mean) } else { 0.0 }).sum();
    let raw = product / total;
    let unbiased = raw + (1.0 + 3.0 * raw.max(0.0)) / n;
    (unbiased - 1.0 / n.sqrt()).clamp(0.0, 0.999)
}

/// Mean square of the first `count` cosine coefficients.
fn cosine_variance(values: &[f64], count: usize) -> f64 {
    let n = values.len() as f64;
    let total: f64 = (1..=count)
        .map(|order| {
            let angle = PI * order as f64 / n;
            // cos((k + 1/2)·angle) for k = 0, 1, 2 … by the Chebyshev recurrence.
            let twice = 2.0 * angle.cos();
            let (mut before, mut now) = ((angle * 0.5).cos(), (angle * 0.5).cos());
            let mut sum = 0.0;
            for value in values {
                sum += value * now;
                (before, now) = (now, twice * now - before);
            }
            sum * sum * 2.0 / n
        })
        .sum();
    total / count as f64
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    fn long_run(series: &[f64]) -> Option<LongRun> {
        freedom_of(series).map(|freedom| long_run_with(series, freedom))
    }

    fn autoregression(n: usize, phi: f64, seed: u64) -> Vec<f64> {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut state = 0.0;
        (0..n + 200)
            .map(|_| {
                state = phi * state + rng.random::<f64>() - 0.5;
                state
            })
            .skip(200)
            .collect()
    }

    #[test]
    fn all_coefficients_together_are_the_sample_variance() {
        let series = autoregression(40, 0.0, 1);
        let direct = variance_about_mean(&series);
        assert!((cosine_variance(&series, 39) / direct - 1.0).abs() < 1e-10);
    }

    #[test]
    fn the_long_run_variance_of_an_autoregression_is_found() {
        for phi in [0.0, 0.5, 0.9] {
            let want = 1.0 / 12.0 / (1.0f64 - phi).powi(2);
            let mean = (0..40)
                .map(|seed| long_run(&autoregression(4000, phi, seed)).expect("enough data").variance)
                .sum::<f64>()
                / 40.0;
            assert!((mean / want - 1.0).abs() < 0.15, "phi {phi}: {mean} instead of {want}");
        }
    }

    #[test]
    fn a_trend_over_the_whole_series_is_refused() {
        let series: Vec<f64> = (0..500).map(f64::from).collect();
        assert_eq!(long_run(&series), None);
    }

    #[test]
    fn constant_and_short_series_do_not_panic() {
        assert_eq!(long_run(&[]), None);
        assert_eq!(long_run(&[1.0; 5]), None);
        assert_eq!(long_run(&[1.0; 6]), Some(LongRun { variance: 0.0, freedom: 5 }));
    }
}
