//! One periodic source: how much time it takes, and whether it was there all the time.
//!
//! Share: every quantum is laid onto the phases of the period that it covers (epoch folding, Leahy et al. 1983). Where
//! the mean profile stands out is the source; what lies under it and beside it is other noise and is taken off.
//!
//! ```text
//!  profile  ▂▂▂▂▂▂▂▃█▆▂▂▂▂▂▂▂     share = area above the level of the rest
//!                  └on┘
//! ```
//!
//! There all the time: the measurement is cut into up to 16 parts, and the shape seen in all of it must be seen in most
//! of them. A handful of long stalls always has some beat; it is there in a handful of parts.

use std::f64::consts::{PI, TAU};

use super::lines::to_index;

/// Least periods per quantum's length that a profile can resolve.
const RESOLVED: f64 = 4.0;
/// Most phases of a profile.
const MOST_PHASES: f64 = 400.0;
/// Parts into which a measurement is cut.
const PARTS: (usize, usize) = (4, 16);
/// Where other noise takes more than this, what is left says too little to be made up for.
const MOST_ELSEWHERE: f64 = 0.9;
/// Multiples whose shape is compared.
const SHAPE: usize = 8;
/// A part in which the shape reaches this share of its mean height has it …
const PRESENT: f64 = 0.3;
/// … and this share of the parts must have it.
const ENOUGH_PARTS: f64 = 0.7;

/// Deviations of a measurement and the length of a quantum in periods of the source.
pub(super) struct Folded<'a> {
    pub deviations: &'a [f64],
    /// Periods per quantum: frequency × length of a quantum.
    pub periods: f64,
}

impl Folded<'_> {
    /// Share of the time that the source takes. Where other noise takes the CPU (or slows it down) at the same time, the
    /// source's part of it cannot be seen: what is seen is made up for that.
    pub(super) fn share(&self) -> f64 {
        let (seen, elsewhere) = if self.periods * RESOLVED > 1.0 {
            // Too fast to tell pulse from pause: by the height of the line, made up for what a quantum averages away.
            let (re, im) = self.amplitude(1, 0..self.deviations.len());
            let averaged = (PI * self.periods).sin() / (PI * self.periods);
            let seen = re.hypot(im) / averaged;
            (seen, self.deviations.iter().sum::<f64>() / self.deviations.len().max(1) as f64 - seen)
        } else {
            let profile = self.profile();
            let (area, level) = area(&profile, to_index((self.periods * profile.len() as f64).ceil()));
            (area / profile.len() as f64, level)
        };
        seen / (1.0 - elsewhere.clamp(0.0, MOST_ELSEWHERE))
    }

    /// Mean deviation by phase.
    fn profile(&self) -> Vec<f64> {
        let phases = (2.0 / self.periods).round().clamp(8.0, MOST_PHASES);
        let count = to_index(phases);
        let (mut sums, mut weights) = (vec![0.0; count], vec![0.0; count]);
        let width = self.periods * phases;
        for (index, deviation) in self.deviations.iter().enumerate() {
            let begin = (index as f64 * self.periods).fract() * phases;
            let end = begin + width;
            let mut at = begin;
            while at < end {
                let next = (at.floor() + 1.0).min(end);
                let phase = to_index(at.floor()) % count;
                if let (Some(sum), Some(weight)) = (sums.get_mut(phase), weights.get_mut(phase)) {
                    *sum += deviation * (next - at);
                    *weight += next - at;
                }
                at = next;
            }
        }
        sums.iter()
            .zip(&weights)
            .map(|(sum, weight)| if *weight > 0.0 { sum / weight } else { 0.0 })
            .collect()
    }

    /// Whether most parts of the measurement have it.
    pub(super) fn is_steady(&self) -> bool {
        let count = self.deviations.len();
        let periods = self.periods * count as f64;
        let parts = to_index((periods / 2.0).floor()).min(PARTS.1);
        if parts < PARTS.0 {
            return false;
        }
        let whole = (periods / parts as f64).floor();
        let edge = |part: usize| to_index(part as f64 * whole / self.periods).min(count);
        let multiples = to_index((0.5 / self.periods).floor()).clamp(1, SHAPE);
        let mut heights = vec![0.0; parts];
        for multiple in 1..=multiples {
            let mean = self.amplitude(multiple, 0..edge(parts));
            for (part, height) in heights.iter_mut().enumerate() {
                let own = self.amplitude(multiple, edge(part)..edge(part + 1));
                *height += own.0 * mean.0 + own.1 * mean.1;
            }
        }
        let mean = heights.iter().sum::<f64>() / parts as f64;
        let present = heights.iter().filter(|height| **height > PRESENT * mean).count();
        mean > 0.0 && present as f64 >= ENOUGH_PARTS * parts as f64
    }

    /// Complex amplitude at a multiple of the frequency over a range of quanta, their mean taken off.
    fn amplitude(&self, multiple: usize, range: std::ops::Range<usize>) -> (f64, f64) {
        let begin = range.start;
        let deviations = self.deviations.get(range).unwrap_or_default();
        let count = deviations.len().max(1) as f64;
        let mean = deviations.iter().sum::<f64>() / count;
        let turn = self.periods * multiple as f64;
        let (re, im) = deviations.iter().enumerate().fold((0.0, 0.0), |(re, im), (index, deviation)| {
            let (sine, cosine) = (TAU * ((begin + index) as f64 * turn).fract()).sin_cos();
            (re + (deviation - mean) * cosine, im - (deviation - mean) * sine)
        });
        (re / count, im / count)
    }
}

/// Area of the stretch of phases that stands out most clearly, above the level of the rest, and that level. The stretch is
/// then made longer at either end by half its length, and by a quantum at least: its choice favours the steep part.
fn area(profile: &[f64], quantum: usize) -> (f64, f64) {
    let count = profile.len();
    let total: f64 = profile.iter().sum();
    let sums: Vec<f64> = std::iter::once(0.0)
        .chain(profile.iter().chain(profile).scan(0.0, |sum, value| {
            *sum += value;
            Some(*sum)
        }))
        .collect();
    let on = |start: usize, width: usize| {
        sums.get(start + width).zip(sums.get(start)).map_or(0.0, |(end, begin)| end - begin)
    };
    let level = |start: usize, width: usize| (total - on(start, width)) / (count - width).max(1) as f64;
    let above = |start: usize, width: usize| on(start, width) - level(start, width) * width as f64;
    let mut best = (f64::NEG_INFINITY, 0, 1);
    for width in 1..=count / 2 {
        let spread = (width as f64 * count as f64 / (count - width) as f64).sqrt();
        for start in 0..count {
            let clarity = above(start, width) / spread;
            if clarity > best.0 {
                best = (clarity, start, width);
            }
        }
    }
    let (_, start, width) = best;
    let tail = width.div_ceil(2).max(quantum).min((count - width).saturating_sub(1) / 2);
    let (start, width) = ((start + count - tail) % count, width + 2 * tail);
    (above(start, width), level(start, width))
}
