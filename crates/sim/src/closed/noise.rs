//! Expected time that noise takes from a step of a bulk-synchronous program: the expectation of the maximum over nodes.
//!
//! Sources: the maximum of n exponential times is the sum of n independent ones with rates n, n−1 … 1 (Rényi 1953), so
//! its mean is the harmonic number; of Pareto times it follows from the beta function (Arnold, *Pareto distributions*
//! 1983); of rare hits from the complement; the work between interruptions at fixed intervals as in the slot model of
//! the thesis on OS interference (fixed round robin). Log-gamma by Stirling's series (Abramowitz & Stegun 6.1.41) after shifting the argument
//! up with Γ(x+1) = xΓ(x); relative error below 1e-14.

use crate::time::Span;

/// Euler's constant.
const EULER: f64 = 0.577_215_664_901_532_9;
/// Up to here a harmonic number is summed up; beyond, its asymptotic series errs by less than 1e-16.
const SUMMED: u64 = 256;

/// H(n) = 1 + 1/2 + … + 1/n.
pub fn harmonic(n: u64) -> f64 {
    if n <= SUMMED {
        // The small ones first, so that they are not lost.
        return (1..=n).rev().map(|k| 1.0 / k as f64).sum();
    }
    let n = n as f64;
    n.ln() + EULER + 1.0 / (2.0 * n) - 1.0 / (12.0 * n * n)
}

/// ln Γ(x) for x > 0.
pub fn ln_gamma(x: f64) -> f64 {
    let (mut x, mut shifted) = (x, 0.0);
    while x < 12.0 {
        shifted -= x.ln();
        x += 1.0;
    }
    let square = x * x;
    let series = (1.0 / 12.0
        - (1.0 / 360.0 - (1.0 / 1260.0 - (1.0 / 1680.0 - (1.0 / 1188.0) / square) / square) / square)
            / square)
        / x;
    shifted + (x - 0.5) * x.ln() - x + 0.5 * (2.0 * std::f64::consts::PI).ln() + series
}

/// Expected maximum of `nodes` exponential times with this mean.
pub fn exponential_maximum(nodes: u64, mean: Span) -> f64 {
    mean.as_f64() * harmonic(nodes)
}

/// Expected maximum of `nodes` Pareto times with this least value and shape; it exists above a shape of 1.
pub fn pareto_maximum(nodes: u64, least: Span, shape: f64) -> Option<f64> {
    let n = nodes as f64;
    let inverse = 1.0 / shape;
    let log = || ln_gamma(n + 1.0) + ln_gamma(1.0 - inverse) - ln_gamma(n + 1.0 - inverse);
    (shape > 1.0 && nodes > 0).then(|| least.as_f64() * log().exp())
}

/// Expected maximum where each of `nodes` is hit with this probability, for so long.
pub fn rare_maximum(nodes: u64, probability: f64, length: Span) -> f64 {
    // 1 − (1−p)^n without cancellation.
    let missed = (nodes as f64 * (-probability).ln_1p()).exp_m1();
    length.as_f64() * if probability >= 1.0 { 1.0 } else { -missed }
}

/// Expected time of one node's `work` beside interruptions of this length at fixed intervals, when it begins at a
/// uniformly random moment; interruptions shorter than the interval.
pub fn periodic_single(work: Span, period: Span, length: Span) -> f64 {
    let (w, p, d) = (work.as_f64(), period.as_f64(), length.as_f64());
    let slot = p - d;
    // Begun between interruptions, the mean is w·p/slot. Begun within one (share d/p), it first waits for half of it,
    // on average, and then begins with a whole slot.
    let within = d / 2.0 + w + ((w / slot).ceil() - 1.0).max(0.0) * d;
    slot / p * (w * p / slot) + d / p * within
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(got: f64, wanted: f64) {
        assert!((got - wanted).abs() <= 1e-12 * wanted.abs().max(1.0), "{got} instead of {wanted}");
    }

    #[test]
    fn log_gamma_knows_factorials_and_the_half() {
        near(ln_gamma(1.0), 0.0);
        near(ln_gamma(0.5), std::f64::consts::PI.sqrt().ln());
        near(ln_gamma(6.0), 120f64.ln());
        let factorial: f64 = (1..=100).map(|k| f64::from(k).ln()).sum();
        near(ln_gamma(101.0), factorial);
    }

    #[test]
    fn harmonic_numbers_meet_where_the_series_takes_over() {
        near(harmonic(1), 1.0);
        near(harmonic(4), 25.0 / 12.0);
        near(harmonic(SUMMED + 1), harmonic(SUMMED) + 1.0 / (SUMMED + 1) as f64);
        // The figure of the methodology, to its digits.
        assert!((harmonic(1_000_000) - 14.393).abs() < 5e-4);
    }

    #[test]
    fn one_node_has_the_mean_and_two_have_what_integration_says() {
        let span = Span::from_nanos(1000);
        near(exponential_maximum(1, span), 1000.0);
        near(pareto_maximum(1, span, 4.0).unwrap(), 4000.0 / 3.0);
        // E max of two is 2·mean − E min, and the minimum of two Pareto times has twice the shape.
        near(pareto_maximum(2, span, 4.0).unwrap(), 2.0 * 4000.0 / 3.0 - 8000.0 / 7.0);
        assert_eq!(pareto_maximum(2, span, 1.0), None);
        near(rare_maximum(1, 0.25, span), 250.0);
        near(rare_maximum(2, 0.25, span), 437.5);
        near(rare_maximum(3, 1.0, span), 1000.0);
        near(rare_maximum(3, 0.0, span), 0.0);
    }

    #[test]
    fn periodic_interruptions_meet_brute_force() {
        for (work, period, length) in
            [(5, 10, 3), (7, 10, 3), (8, 10, 3), (25, 10, 3), (14, 10, 3), (1, 4, 1)]
        {
            // The mean over all phases in quarter nanoseconds, from the middle of each.
            let scale = 4;
            let (w, p, d) = (work * scale, period * scale, length * scale);
            let time = |phase: u64| {
                // Twice as fine, so that the middle of a quarter is a whole number.
                let (mut at, mut left, start) = (2 * phase + 1, 2 * w, 2 * phase + 1);
                while left > 0 {
                    if at % (2 * p) >= 2 * d {
                        left -= 1;
                    }
                    at += 1;
                }
                (at - start) as f64 / 2.0
            };
            let mean = (0..p).map(time).sum::<f64>() / p as f64 / scale as f64;
            let closed =
                periodic_single(Span::from_nanos(work), Span::from_nanos(period), Span::from_nanos(length));
            assert!((mean - closed).abs() < 0.01 * closed, "{work} {period} {length}: {mean} {closed}");
        }
    }
}
