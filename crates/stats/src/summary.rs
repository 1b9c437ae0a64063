//! Plain summaries of samples and histograms: descriptions of what was seen, without claims beyond it.
//!
//! Coefficient of variation with the n−1 standard deviation; MAD is the raw median absolute deviation. A histogram's
//! quantile is the mean of the bucket that holds it: its relative error is below
//! [`units::histogram::RELATIVE_ERROR`], and it is exact below 128.

use units::histogram::Histogram;

use super::distributions::student_two_sided;
use super::interval::quantile_of_sorted;

/// Location and spread of samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// Number of samples.
    pub count: usize,
    /// Smallest sample.
    pub min: f64,
    /// Largest sample.
    pub max: f64,
    /// Mean.
    pub mean: f64,
    /// Median.
    pub median: f64,
    /// Standard deviation over mean; none for fewer than two samples or a mean of zero.
    pub variation: Option<f64>,
    /// Median distance from the median.
    pub median_deviation: f64,
}

/// Summary of samples; none when there are none or one is not a finite number.
pub fn spread(samples: &[f64]) -> Option<Spread> {
    if samples.is_empty() || samples.iter().any(|sample| !sample.is_finite()) {
        return None;
    }
    let count = samples.len();
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let median = quantile_of_sorted(&sorted, 0.5);
    let mut distances: Vec<f64> = sorted.iter().map(|sample| (sample - median).abs()).collect();
    distances.sort_by(f64::total_cmp);
    let mean = sorted.iter().map(|sample| sample / count as f64).sum::<f64>();
    let squares: f64 = sorted.iter().map(|sample| (sample - mean).powi(2)).sum();
    let deviation = (squares / (count as f64 - 1.0)).sqrt();
    Some(Spread {
        count,
        min: sorted.first().copied()?,
        max: sorted.last().copied()?,
        mean,
        median,
        variation: Some(deviation / mean).filter(|variation| variation.is_finite()),
        median_deviation: quantile_of_sorted(&distances, 0.5),
    })
}

/// Mean of independent samples and half the width of its interval, Student's t; no width for fewer than two. None when
/// there are none or one is not a finite number.
pub fn mean_with_half_width(samples: &[f64], confidence: f64) -> Option<(f64, Option<f64>)> {
    if samples.is_empty() || samples.iter().any(|sample| !sample.is_finite()) {
        return None;
    }
    let count = samples.len() as f64;
    // Around the first one, so that equal samples have exactly their value as mean, and small differences keep digits.
    let first = samples.first().copied()?;
    let mean = first + samples.iter().map(|sample| sample - first).sum::<f64>() / count;
    let squares: f64 = samples.iter().map(|sample| (sample - mean).powi(2)).sum();
    let half = (samples.len() > 1)
        .then(|| student_two_sided(confidence, count - 1.0) * (squares / (count - 1.0) / count).sqrt());
    Some((mean, half))
}

/// The median of samples; none when there are none or one is not a finite number.
pub fn median(samples: &[f64]) -> Option<f64> {
    spread(samples).map(|spread| spread.median)
}

/// The `q`-quantile of a histogram's values; none when it is empty or `q` is not in 0 … 1.
pub fn histogram_quantile(histogram: &Histogram, q: f64) -> Option<f64> {
    if !(0.0..=1.0).contains(&q) {
        return None;
    }
    let wanted = q * histogram.count() as f64;
    let mut seen = 0.0;
    histogram
        .buckets()
        .iter()
        .find(|bucket| {
            seen += bucket.count as f64;
            seen >= wanted && bucket.count > 0
        })
        .map(|bucket| bucket.sum as f64 / bucket.count as f64)
}

/// The largest value of a histogram: exact when its bucket holds one value, otherwise the bucket's upper edge.
pub fn histogram_max(histogram: &Histogram) -> Option<u64> {
    histogram.buckets().last().map(|bucket| if bucket.count == 1 { bucket.sum } else { bucket.upper() })
}

#[cfg(test)]
mod tests {
    use super::mean_with_half_width;

    #[test]
    fn a_mean_has_students_interval_from_two_samples_on() {
        let (mean, half) = mean_with_half_width(&[1.0, 2.0, 3.0], 0.95).unwrap();
        // t of two degrees of freedom is 4.3027, the standard error 1/√3.
        assert!(
            (mean - 2.0).abs() < 1e-12 && (half.unwrap() - 4.302_65 / 3f64.sqrt()).abs() < 1e-4,
            "{half:?}"
        );
        assert_eq!(mean_with_half_width(&[0.1; 3], 0.95), Some((0.1, Some(0.0))));
        assert_eq!(mean_with_half_width(&[5.0], 0.95), Some((5.0, None)));
        assert_eq!(mean_with_half_width(&[], 0.95), None);
        assert_eq!(mean_with_half_width(&[1.0, f64::NAN], 0.95), None);
    }
}
