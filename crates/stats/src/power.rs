//! Power: which difference would have been found, had there been one?
//!
//! A difference is called when the mean of the pairs' logarithmic ratios lies more than t·e from zero (`pairs`; e is its standard
//! error of f degrees of freedom, t Student's two-sided quantile at the confidence asked for). The mean scatters by e itself, and e
//! scatters, too. So of true differences of
//!
//! ```text
//!  ( t · (1 − 1/4f)  +  z(power) · √(1 + t²/2f) ) · e        e = spread of one pair / √pairs
//! ```
//!
//! a share `power` is found: the noncentral t distribution as a normal one (Abramowitz & Stegun 26.7.10). With many pairs that
//! is (z(confidence) + z(power)) · spread / √pairs, as everybody knows it (Cohen 1988, *Statistical Power Analysis*; Lehr 1992).
//! Where pairs are hardly enough for the signed-rank test, that asks for more: nearly all of them must lie on one side, which they
//! do where the difference is so many spreads that a normal variable seldom comes below zero (binomial).
//!
//! Validity: 84 to 98 % of the differences that are to be found with 90 % are found, for normal pairs, 5 to 100 of them, at 95 and
//! 99.9 % confidence (`tests/stats_power.rs`). Where pairs scatter with heavy tails the trimmed spread says it, less exactly.

use super::distributions::{beta_cdf, bisect, normal_two_sided, student_two_sided, student_upper_tail};
use super::interval::DEPENDENCE_FROM;
use super::pairs::{MANY, MANY_PER_TRIMMED, VALUES_PER_COEFFICIENT};
use super::signed_rank;

/// Share of the true differences that are found.
pub const POWER: f64 = 0.9;
/// The normal distribution has this many degrees of freedom.
const MANY_FREEDOM: f64 = 1e7;
/// Beyond so many pairs the signed-rank test asks for less than Student's t at any confidence in use.
const RANKS_UP_TO: usize = 60;
/// Each of so few pairs lies on one side of zero then, whatever their number.
const MOST_SPREADS: f64 = 8.0;
/// Larger differences are not told apart: a hundred thousand times.
const MOST_LOG: f64 = 11.5;

/// How the logarithms of the ratios of pairs scatter about their centre.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scatter {
    /// Of one pair: the standard error of the centre times the root of their number.
    pub spread: f64,
    /// How many there are.
    pub pairs: usize,
    /// Degrees of freedom of the standard error.
    pub freedom: f64,
}

impl Scatter {
    /// Of so many pairs that are not yet there, if each scatters as earlier ones did and they do not depend on each other.
    pub fn foreseen(spread: f64, pairs: usize) -> Self {
        let kept = if pairs >= MANY { pairs - 2 * (pairs / MANY_PER_TRIMMED) } else { pairs };
        let freedom = kept.saturating_sub(1).max(1);
        let freedom =
            if pairs < DEPENDENCE_FROM { freedom } else { freedom.min(pairs / VALUES_PER_COEFFICIENT) };
        Self { spread, pairs, freedom: freedom as f64 }
    }

    /// Degrees of freedom where ranks may be too few to tell anything at this confidence: one less then, for the unknown shape.
    pub(super) fn freedom_at(&self, confidence: f64) -> f64 {
        let ranks_can_tell = signed_rank::fewest(self.pairs) <= 1.0 - confidence;
        if ranks_can_tell { self.freedom } else { (self.freedom - 1.0).max(1.0) }
    }

    /// Half the width of the interval of the logarithm at this confidence.
    pub fn half_width(&self, confidence: f64) -> f64 {
        student_two_sided(confidence, self.freedom_at(confidence)) * self.error()
    }

    fn error(&self) -> f64 {
        self.spread / (self.pairs as f64).sqrt()
    }

    /// The smallest difference, in percent of slower, of which a share [`POWER`] is called at this confidence; none without a
    /// scatter to speak of.
    pub fn detectable_percent(&self, confidence: f64) -> Option<f64> {
        let freedom = self.freedom_at(confidence);
        let reach = student_two_sided(confidence, freedom);
        let beyond = normal_two_sided(2.0 * POWER - 1.0) * (1.0 + reach * reach / (2.0 * freedom)).sqrt();
        let of_mean = (reach * (1.0 - 0.25 / freedom) + beyond) * self.error();
        let of_ranks = spreads_for_ranks(self.pairs, confidence).unwrap_or(0.0) * self.spread;
        let percent = of_mean.max(of_ranks).min(MOST_LOG).exp_m1() * 100.0;
        (self.pairs > 0 && percent.is_finite()).then_some(percent)
    }
}

/// How many spreads a difference must have so that the signed-rank test finds it with [`POWER`]; none where that test is not asked
/// or asks for less.
fn spreads_for_ranks(pairs: usize, confidence: f64) -> Option<f64> {
    if pairs > RANKS_UP_TO {
        return None;
    }
    let against = signed_rank::most_against(pairs, 1.0 - confidence)? as f64;
    // P(at most so many below zero), where each lies there with this chance.
    let found = |spreads: f64| {
        let below = student_upper_tail(spreads, MANY_FREEDOM);
        1.0 - beta_cdf(against + 1.0, pairs as f64 - against, below)
    };
    Some(bisect(0.0, MOST_SPREADS, |spreads| found(spreads) >= POWER))
}
