//! Power spectrum with its own noise floor: how much each frequency stands out of its neighbourhood.
//!
//! ```text
//!  missing share per quantum ─ mean ─► Hann window ─► zero padding ─► transform ─► power
//!                                                                                   │
//!                                   floor: lower tercile of the neighbourhood ◄─────┤
//!                                                                                   ▼
//!                                                   standing out = power / floor, about exponential(1) for noise
//! ```
//!
//! Power is scaled so that its root is a share of the time: regular short stalls that take a share s show as lines of
//! height s at their frequency and its multiples. Source of the normalisation by neighbours: pulsar searches (Ransom,
//! Eikenberry and Middleditch 2002, §2), with a lower quantile in place of the median because a pulse train's many lines
//! fill part of every neighbourhood.

use std::f64::consts::PI;

use super::fft::{Complex, transform};

/// Sum of squared window weights times their number over their squared sum: how much a Hann window raises the noise.
const HANN_NOISE: f64 = 1.5;
/// The floor is read at this quantile …
const QUANTILE: f64 = 1.0 / 3.0;
/// … which lies at −ln(1 − ⅓) times the mean of exponentially distributed values.
const QUANTILE_OVER_MEAN: f64 = 0.405_465_108_108_164_4;
/// Least and most width of a neighbourhood to either side, in resolved frequencies.
const NEIGHBOURS: (usize, usize) = (12, 400);
/// So many periods must fit into the measurement for a frequency to be looked at.
pub const LEAST_PERIODS: usize = 10;

/// Power at equal steps of frequency from zero up to half the rate of the quanta.
#[derive(Debug, Clone, PartialEq)]
pub struct Lines {
    /// Distance of two bins.
    pub step_hz: f64,
    /// Squared share per bin.
    pub power: Vec<f64>,
    /// Noise floor per bin, of the same kind.
    pub floor: Vec<f64>,
    /// Bins per resolved frequency (one over the time measured).
    pub(super) oversampling: f64,
}

impl Lines {
    /// Of a series of deviations, one each `quantum_s`. `least_variance` is what rounding to whole counts makes of a
    /// perfectly quiet series: the floor is never below it.
    pub(super) fn of(deviations: &[f64], quantum_s: f64, least_variance: f64) -> Self {
        let count = deviations.len();
        let padded = (2 * count).next_power_of_two();
        let mean = deviations.iter().sum::<f64>() / count.max(1) as f64;
        let mut values: Vec<Complex> = vec![(0.0, 0.0); padded];
        let mut weights = 0.0;
        for (index, (value, deviation)) in values.iter_mut().zip(deviations).enumerate() {
            let weight = (PI * (index as f64 + 0.5) / count as f64).sin().powi(2);
            weights += weight;
            value.0 = weight * (deviation - mean);
        }
        transform(&mut values);
        let scale = 1.0 / (weights * weights).max(f64::MIN_POSITIVE);
        let power: Vec<f64> =
            values.iter().take(padded / 2).map(|(re, im)| (re * re + im * im) * scale).collect();
        let oversampling = padded as f64 / count.max(1) as f64;
        let least = HANN_NOISE * least_variance / count.max(1) as f64;
        let floor = floor(&power, oversampling, least);
        Self { step_hz: 1.0 / (quantum_s * padded as f64), power, floor, oversampling }
    }

    /// First bin that is looked at; what lies below has too few periods in the measurement.
    pub fn first(&self) -> usize {
        to_index(LEAST_PERIODS as f64 * self.oversampling).min(self.power.len())
    }

    /// How far each bin stands out of the noise.
    pub(super) fn standing_out(&self) -> Vec<f64> {
        self.power.iter().zip(&self.floor).map(|(power, floor)| power / floor).collect()
    }
}

/// The noise floor of every bin: read at knots whose distance grows with the frequency, straight in between.
fn floor(power: &[f64], oversampling: f64, least: f64) -> Vec<f64> {
    let wide = |resolved: usize| to_index(resolved as f64 * oversampling);
    let (narrowest, widest) = (wide(NEIGHBOURS.0), wide(NEIGHBOURS.1));
    let lowest = wide(2);
    let mut knots: Vec<(usize, f64)> = Vec::new();
    let mut at = lowest;
    while at < power.len() {
        let half = (at / 2).clamp(narrowest, widest);
        let neighbours = power.get(at.saturating_sub(half).max(lowest)..(at + half).min(power.len()));
        knots.push((at, level(neighbours.unwrap_or_default()).max(least)));
        at += (half / 2).max(1);
    }
    between(&knots, power.len(), least.max(f64::MIN_POSITIVE))
}

/// Mean of the noise in a neighbourhood, read off a quantile that lines hardly move.
fn level(neighbours: &[f64]) -> f64 {
    let mut sorted = neighbours.to_vec();
    if sorted.is_empty() {
        return 0.0;
    }
    let index = to_index(QUANTILE * (sorted.len() - 1) as f64);
    let (_, middle, _) = sorted.select_nth_unstable_by(index, f64::total_cmp);
    *middle / QUANTILE_OVER_MEAN
}

/// Values between knots, straight; beyond the ends those of the ends.
fn between(knots: &[(usize, f64)], count: usize, without: f64) -> Vec<f64> {
    let mut values = Vec::with_capacity(count);
    values.resize(knots.first().map_or(0, |knot| knot.0).min(count), knots.first().map_or(without, |k| k.1));
    for pair in knots.windows(2) {
        if let [(from, low), (to, high)] = pair {
            let width = (to - from) as f64;
            values.extend((0..to - from).map(|step| low + (high - low) * step as f64 / width));
        }
    }
    values.resize(count, knots.last().map_or(without, |knot| knot.1));
    values
}

/// Rounds a small non-negative float to an index.
pub(super) fn to_index(value: f64) -> usize {
    usize::try_from(units::metric::saturate(value)).unwrap_or(usize::MAX)
}
