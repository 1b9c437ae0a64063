//! Finds the frequency whose multiples stand out together. A train of short pulses has as many lines as fit below half
//! the rate of the quanta, all about equally high, so one line alone says little and their sum says much.
//!
//! ```text
//!  power   │    │    │    │    │        sum over 1, 2, 4 … 32 multiples of every frequency;
//!  ────────┴────┴────┴────┴────┴───►    under noise the sum of H bins is gamma(H) distributed
//!          f    2f   3f   4f   5f
//! ```
//!
//! Source: incoherent harmonic summing, Taylor and Huguenin 1969 (*Nature* 221:816); significance as in Ransom, Eikenberry
//! and Middleditch 2002, §3.

use std::f64::consts::PI;

use super::lines::{Lines, to_index};

/// Numbers of multiples that are summed.
const SUMMED: [usize; 6] = [1, 2, 4, 8, 16, 32];
/// Most multiples that are looked at when a frequency is sharpened and told from its multiples and parts.
const LOOKED_AT: usize = 64;
/// Factors by which a found frequency may be wrong.
const PRIMES: [usize; 11] = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31];
/// Lines between those of a coarser comb belong to a finer one when they have at least this share of their power.
const ON_PAR: f64 = 0.3;
/// A comb has lines only at multiples of a prime when these hold this share of its visible power …
const NEARLY_ALL: f64 = 0.8;
/// … or when the typical other line has less than this share of theirs.
const NEARLY_NONE: f64 = 0.1;
/// So many of the lowest lines are compared: towards half the rate of the quanta, images of faster lines mix in.
const COMPARED: usize = 8;
/// A line that noise reaches once in a thousand times.
const VISIBLE: f64 = 7.0;
/// Lines are real when noise adds up to as much less than once in a thousand times (its logarithm) …
const BY_CHANCE: f64 = -6.9;
/// … and half of them are twice as high as the median of noise.
const TWICE_NOISE: f64 = 2.0 * std::f64::consts::LN_2;
/// How often noise alone may look periodic, per measurement.
const FALSE_ALARMS: f64 = 1e-4;

/// What stands out of the noise, with what is already explained left out.
pub(super) struct Field {
    /// Power over floor; 0 where masked.
    standing_out: Vec<f64>,
    floor: Vec<f64>,
    first: usize,
    step_hz: f64,
    oversampling: f64,
}

/// A frequency, in bins, and how many of its multiples are known to stand out.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Comb {
    bin: f64,
    lines: usize,
}

/// A frequency found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Found {
    pub frequency_hz: f64,
    /// Power of its lines over that of the noise there, mean over the lines that decided.
    pub over_noise: f64,
    /// Whether its own place is masked: it is made up of another's lines.
    pub is_masked: bool,
    /// What was seen at first.
    seen: Comb,
}

impl Field {
    pub(super) fn of(lines: &Lines) -> Self {
        Self {
            standing_out: lines.standing_out(),
            floor: lines.floor.clone(),
            first: lines.first(),
            step_hz: lines.step_hz,
            oversampling: lines.oversampling,
        }
    }

    /// Leaves out the lines that were found, so that the next search finds others.
    pub(super) fn mask_found(&mut self, found: &Found) {
        for multiple in 1..=LOOKED_AT {
            self.mask(found.frequency_hz * multiple as f64);
        }
        for multiple in 1..=found.seen.lines {
            self.mask(found.seen.bin * self.step_hz * multiple as f64);
        }
    }

    /// Leaves out a line with its foot. Frequencies beyond half the rate of the quanta are folded back, as sampling does.
    ///
    /// Beyond its peak, the image of a line through a Hann window falls off as 1 / (π x³) in height, x in resolved
    /// frequencies: it reaches the noise at the sixth root of its power over π².
    pub(super) fn mask(&mut self, frequency_hz: f64) {
        let all = 2.0 * self.standing_out.len() as f64;
        let bin = (frequency_hz / self.step_hz).rem_euclid(all);
        let bin = bin.min(all - bin);
        let last = self.standing_out.len().saturating_sub(1);
        let around =
            |reach: f64| to_index((bin - reach).max(0.0)).min(last)..=to_index(bin + reach).min(last);
        let near = self.standing_out.get(around(self.oversampling)).unwrap_or_default();
        let height = near.iter().copied().fold(0.0, f64::max);
        let foot = 1.0 + (height / (PI * PI)).powf(1.0 / 6.0);
        if let Some(foot) = self.standing_out.get_mut(around(foot * self.oversampling)) {
            foot.fill(0.0);
        }
    }

    /// The strongest comb that noise does not explain, by its fundamental. Of several that noise does not explain the one
    /// that exceeds noise by most of its standard deviations counts: a comb with gaps is not better than one without.
    pub(super) fn strongest(&self) -> Option<Found> {
        let mut best: Option<(f64, Comb, f64)> = None;
        for summed in SUMMED {
            let threshold = sum_for(summed, self.chance_per_trial().ln());
            if let Some((sum, position)) = self.highest(summed)
                && sum > threshold
            {
                let lines = summed as f64;
                let deviations = (sum - lines) / lines.sqrt();
                let comb = Comb { bin: position as f64 / lines, lines: summed };
                if best.is_none_or(|(most, _, _)| deviations > most) {
                    best = Some((deviations, comb, sum / lines));
                }
            }
        }
        let (_, seen, over_noise) = best?;
        let comb = self.fundamental(self.sharpen(seen));
        Some(Found {
            frequency_hz: self.polish(comb) * self.step_hz,
            over_noise,
            is_masked: self.line(comb.bin, 1).is_none(),
            seen,
        })
    }

    /// Neighbouring candidates see the same noise, so the independent ones are counted; the factor 2 is for what lies
    /// between them.
    fn chance_per_trial(&self) -> f64 {
        let frequencies = self.standing_out.len() as f64 / self.oversampling;
        FALSE_ALARMS / (2.0 * SUMMED.len() as f64 * frequencies.max(1.0))
    }

    /// The largest sum over so many multiples, and its place in parts of a bin.
    fn highest(&self, summed: usize) -> Option<(f64, usize)> {
        let mut best: Option<(f64, usize)> = None;
        for position in self.first * summed..self.standing_out.len() {
            // The bin of multiple m is m × position / summed, rounded.
            let mut twice = summed;
            let mut sum = 0.0;
            for _ in 0..summed {
                twice += 2 * position;
                sum += self.standing_out.get(twice / (2 * summed)).copied().unwrap_or(0.0);
            }
            if best.is_none_or(|(most, _)| sum > most) {
                best = Some((sum, position));
            }
        }
        best
    }

    /// How far the line at a multiple stands out; none beyond the end or where masked.
    fn line(&self, bin: f64, multiple: usize) -> Option<f64> {
        self.standing_out.get(to_index(bin * multiple as f64)).copied().filter(|height| *height > 0.0)
    }

    /// The comb that sums highest close by; with more and more lines as long as they are there, because the place of the
    /// tenth line says ten times as much as that of the first.
    fn sharpen(&self, comb: Comb) -> Comb {
        let mut comb = comb;
        loop {
            let sum =
                |bin: f64| (1..=comb.lines).filter_map(|multiple| self.line(bin, multiple)).sum::<f64>();
            let step = 1.0 / (8 * comb.lines) as f64;
            let bins = (-8..=8).map(|steps| comb.bin + step * f64::from(steps));
            let best = bins.map(|bin| (bin, sum(bin))).max_by(|(_, a), (_, b)| a.total_cmp(b));
            comb.bin = best.map_or(comb.bin, |(bin, _)| bin);
            let next: Vec<f64> = (comb.lines + 1..=2 * comb.lines)
                .filter_map(|multiple| self.line(comb.bin, multiple))
                .collect();
            if 2 * comb.lines > LOOKED_AT || next.is_empty() || !are_real(next) {
                return comb;
            }
            comb.lines *= 2;
        }
    }

    /// From the comb that was found to the one whose lines are all there.
    fn fundamental(&self, found: Comb) -> Comb {
        let mut comb = found;
        for _ in 0..PRIMES.len() {
            let Some(prime) = PRIMES.iter().find(|prime| self.has_only_multiples(comb.bin, **prime)) else {
                break;
            };
            let coarser = Comb { bin: comb.bin * *prime as f64, lines: (comb.lines / prime).max(1) };
            comb = self.sharpen(coarser);
        }
        for _ in 0..PRIMES.len() {
            let Some(prime) = PRIMES.iter().find(|prime| self.has_lines_between(comb.bin, **prime)) else {
                break;
            };
            let finer = Comb { bin: comb.bin / *prime as f64, lines: (comb.lines * prime).min(LOOKED_AT) };
            comb = self.sharpen(finer);
        }
        comb
    }

    /// Power of a line above the noise: zero when it does not stand out, none when it is masked, beyond the end, or when
    /// even one of the power `expected` would not stand out there.
    fn power(&self, bin: f64, multiple: usize, expected: f64) -> Option<f64> {
        let over = self.line(bin, multiple)?;
        let floor = self.floor.get(to_index(bin * multiple as f64))?;
        if over > VISIBLE {
            return Some((over - 1.0) * floor);
        }
        (ON_PAR * expected > VISIBLE * floor).then_some(0.0)
    }

    /// Whether nearly all that is visible of a comb are lines whose number `prime` divides.
    fn has_only_multiples(&self, bin: f64, prime: usize) -> bool {
        let all = || 1..=LOOKED_AT;
        let highest = all().filter_map(|multiple| self.power(bin, multiple, 0.0)).fold(0.0, f64::max);
        let powers = |wanted: bool| -> Vec<f64> {
            all()
                .filter(|multiple| multiple.is_multiple_of(prime) == wanted)
                .filter_map(|multiple| self.power(bin, multiple, highest))
                .collect()
        };
        let (divided, others) = (powers(true), powers(false));
        let (sum, other) = (divided.iter().sum::<f64>(), others.iter().sum::<f64>());
        let typical = |powers: Vec<f64>| median(powers.into_iter().take(COMPARED).collect()).unwrap_or(0.0);
        if others.is_empty() || sum <= 0.0 {
            return false;
        }
        let (divided, others) = (typical(divided), typical(others));
        sum > NEARLY_ALL * (sum + other) || divided > NEARLY_NONE * highest && others < NEARLY_NONE * divided
    }

    /// Whether there is a finer comb, `prime` lines for one of the comb at `bin`. Two combs with a common part look
    /// like a finer one at first sight, but lack the lines whose number neither of them divides.
    fn has_lines_between(&self, bin: f64, prime: usize) -> bool {
        let finer = bin / prime as f64;
        finer >= self.first as f64
            && PRIMES.iter().all(|other| {
                let wanted = || {
                    (1..=LOOKED_AT).filter(|multiple| {
                        !multiple.is_multiple_of(prime) && !multiple.is_multiple_of(*other)
                    })
                };
                let on_par = wanted().filter_map(|multiple| self.on_par(finer, prime, multiple));
                are_real(wanted().filter_map(|multiple| self.line(finer, multiple)).collect())
                    && median(on_par.take(COMPARED).collect()).is_none_or(|on_par| on_par >= ON_PAR)
            })
    }

    /// Power of a line against that of its neighbours whose number `prime` divides; none where that cannot be seen.
    fn on_par(&self, bin: f64, prime: usize, multiple: usize) -> Option<f64> {
        let below = multiple / prime * prime;
        let high = self.power(bin, below + prime, 0.0)?;
        // Below the first line there is none to compare with: its upper neighbour counts alone.
        let low = if below == 0 { high } else { self.power(bin, below, 0.0)? };
        let expected = f64::midpoint(low, high);
        Some(self.power(bin, multiple, expected)? / expected)
    }

    /// The place of the fundamental from the peaks of its visible lines, each counting by its height and its number
    /// squared.
    fn polish(&self, comb: Comb) -> f64 {
        let (mut sum, mut weights) = (0.0, 0.0);
        for multiple in 1..=comb.lines {
            let Some((place, height)) = self.peak(comb.bin * multiple as f64) else { continue };
            if height > VISIBLE {
                let weight = height * (multiple * multiple) as f64;
                sum += weight * place / multiple as f64;
                weights += weight;
            }
        }
        if weights > 0.0 { sum / weights } else { comb.bin }
    }

    /// Place and height of the peak within half a resolved frequency of `around`; a parabola through the logarithms of
    /// three bins.
    fn peak(&self, around: f64) -> Option<(f64, f64)> {
        let reach = self.oversampling / 2.0;
        let (from, to) = (to_index((around - reach).max(1.0)), to_index(around + reach));
        let window = self.standing_out.get(from..=to)?;
        let (offset, height) = window.iter().copied().enumerate().max_by(|(_, a), (_, b)| a.total_cmp(b))?;
        let top = from + offset;
        let log =
            |bin: usize| self.standing_out.get(bin).filter(|value| **value > 0.0).map(|value| value.ln());
        let (before, middle, after) = (log(top.checked_sub(1)?)?, log(top)?, log(top + 1)?);
        let bend = before - 2.0 * middle + after;
        let shift = if bend < 0.0 { ((before - after) / (2.0 * bend)).clamp(-1.0, 1.0) } else { 0.0 };
        Some((top as f64 + shift, height))
    }
}

/// Whether lines stand out together more than noise does.
fn are_real(lines: Vec<f64>) -> bool {
    let surprising = ln_upper_gamma(lines.len(), lines.iter().sum()) < BY_CHANCE;
    surprising && median(lines).is_some_and(|line| line > TWICE_NOISE)
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// Logarithm of the chance that `count` exponential(1) variables add up to more than `sum`: e^(−s) Σ s^k / k!.
fn ln_upper_gamma(count: usize, sum: f64) -> f64 {
    let (mut term, mut ln_scale, mut total) = (1.0_f64, 0.0, 1.0_f64);
    for k in 1..count {
        term *= sum / k as f64;
        total += term;
        if total > 1e200 {
            term /= 1e200;
            total /= 1e200;
            ln_scale += 200.0 * std::f64::consts::LN_10;
        }
    }
    (total.ln() + ln_scale - sum).min(0.0)
}

/// The sum that `count` exponential(1) variables exceed with this chance.
fn sum_for(count: usize, ln_chance: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1e4);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if ln_upper_gamma(count, middle) > ln_chance {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chance_of_a_sum_is_that_of_printed_tables() {
        // Chi-squared with 2 H degrees of freedom, 5 % points (Abramowitz & Stegun table 26.8), halved.
        for (count, twice) in [(1, 5.991), (2, 9.488), (4, 15.507), (8, 26.296), (16, 46.194)] {
            let ln_chance = ln_upper_gamma(count, twice / 2.0);
            assert!((ln_chance.exp() - 0.05).abs() < 1e-4, "{count}: {}", ln_chance.exp());
            assert!((sum_for(count, 0.05_f64.ln()) - twice / 2.0).abs() < 1e-3);
        }
        assert!(ln_upper_gamma(32, 1e6) < -9e5, "far tails neither overflow nor vanish");
    }
}
