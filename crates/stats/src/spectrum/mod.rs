//! Periodic noise: which frequencies take time away, and how much each.
//!
//! ```text
//!  work per quantum ──► missing share ──lines──► spectrum, floor ──comb──► fundamental ──source──► share, steady?
//!                            ▲                                                  │ named: its lines and
//!                            │                                                  │ their images are masked
//!                            └──────────────── the next one ◄───────────────────┘
//! ```
//!
//! Method of the fixed time quantum: Sottile and Minnich 2004, with the spectrum that van Hensbergen 2005 proposes.
//!
//! What it promises: noise without a beat is called periodic less than once in a hundred measurements; a source is found
//! when it keeps its beat for the whole measurement, at least ten periods of it fit, and its frequency is below half the
//! rate of the quanta. What it cannot tell: a source at an exact multiple of a stronger one's frequency counts as part of
//! that one; one that is fifty times weaker than another stays hidden; a faster one shows, weakened, at the difference
//! to a multiple of the rate of the quanta.

mod comb;
mod fft;
mod lines;
mod source;

use std::fmt;

use self::comb::{Field, Found};
use self::source::Folded;

use self::lines::LEAST_PERIODS;

pub use self::lines::Lines;

/// Best work per quantum: what one quantum in a hundred exceeds. The very largest count may owe something to its
/// neighbour.
const BEST: f64 = 0.99;
/// Most sources that are named.
const MOST_SOURCES: usize = 8;
/// Most candidates that are looked at, those that turn out not to be periodic included.
const MOST_CANDIDATES: usize = 16;
/// A source that is so many times weaker than another hides among that one's lines.
const HIDDEN: f64 = 50.0;
/// How much weaker than that its lines are masked.
const MARGIN: f64 = 0.3;
/// So many resolved frequencies around a source's lines are its own.
const NEAR: f64 = 4.0;
/// Multiples and parts of a named source's frequency up to this one are not named beside it.
const RELATED: u32 = 4;
/// Mixtures of two sources are so many times weaker than either, and made of multiples up to so many.
const MIXED: f64 = 4.0;
const MIXED_MULTIPLES: u32 = 8;
/// Most lines of a source that are masked.
const MOST_LINES: usize = 4096;
/// Fewest quanta that are looked at.
const LEAST_QUANTA: usize = 64;

/// A periodic source of noise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Source {
    /// Its frequency.
    pub frequency_hz: f64,
    /// Share of the time that it takes, 0 … 1.
    pub share: f64,
    /// Power of its lines over that of the noise around them.
    pub over_noise: f64,
}

/// What is known of the noise in a series of quanta.
#[derive(Debug, Clone, PartialEq)]
pub struct Noise {
    /// Rounds of work in an undisturbed quantum.
    pub best: f64,
    /// For each quantum in order: the share of it that is missing; a little below zero where one did better than the best.
    pub missing: Vec<f64>,
    /// The spectrum of what is missing.
    pub lines: Lines,
    /// Periodic sources, the one that takes most time first.
    pub sources: Vec<Source>,
}

/// Between these frequencies a source can be seen: at least ten periods of it fit into the measurement, and at least two
/// quanta into a period.
pub fn band_hz(quanta: usize, quantum_s: f64) -> (f64, f64) {
    (LEAST_PERIODS as f64 / (quantum_s * quanta as f64), 0.5 / quantum_s)
}

/// The share of every quantum that is missing, and the best work; none when no work was done.
pub fn missing(work: &[u32]) -> Option<(f64, Vec<f64>)> {
    let mut sorted = work.to_vec();
    sorted.sort_unstable();
    let index = lines::to_index((BEST * work.len().checked_sub(1)? as f64).floor());
    let best = f64::from(*sorted.get(index)?);
    (best > 0.0).then(|| (best, work.iter().map(|rounds| 1.0 - f64::from(*rounds) / best).collect()))
}

/// Why a series of quanta has no spectrum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoSpectrum {
    /// So many quanta, which are too few.
    TooFew(usize),
    /// The length of a quantum is none.
    NoLength,
    /// In nearly all quanta.
    NoWork,
}

impl fmt::Display for NoSpectrum {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooFew(count) => write!(to, "{count} quanta; at least {LEAST_QUANTA} are needed"),
            Self::NoLength => to.write_str("the length of a quantum is unknown"),
            Self::NoWork => to.write_str("no work was done in nearly all quanta"),
        }
    }
}

impl std::error::Error for NoSpectrum {}

/// Spectrum and periodic sources of a series of quanta of this length; or why there are none to be had.
///
/// # Errors
/// Fewer than 64 quanta, no work in nearly all of them, or a quantum without a length.
pub fn analyse(work: &[u32], quantum_s: f64) -> Result<Noise, NoSpectrum> {
    if work.len() < LEAST_QUANTA {
        return Err(NoSpectrum::TooFew(work.len()));
    }
    if !(quantum_s > 0.0 && quantum_s.is_finite()) {
        return Err(NoSpectrum::NoLength);
    }
    let (best, missing) = missing(work).ok_or(NoSpectrum::NoWork)?;
    // Counting whole rounds is rounding: a twelfth of a round squared.
    let rounding = 1.0 / (12.0 * best * best);
    let lines = Lines::of(&missing, quantum_s, rounding);
    let sources = sources(&missing, &lines, quantum_s);
    Ok(Noise { best, missing, lines, sources })
}

fn sources(missing: &[f64], lines: &Lines, quantum_s: f64) -> Vec<Source> {
    let mut field = Field::of(lines);
    let resolved_hz = 1.0 / (quantum_s * missing.len() as f64);
    let mut sources: Vec<Source> = Vec::new();
    for _ in 0..MOST_CANDIDATES {
        let Some(found) = field.strongest() else { break };
        let folded = Folded { deviations: missing, periods: found.frequency_hz * quantum_s };
        let share = folded.share();
        let explained = found.is_masked
            || sources.iter().any(|other| {
                share * HIDDEN < other.share
                    || are_related(found.frequency_hz, other.frequency_hz, resolved_hz)
            })
            || is_mixture(found.frequency_hz, share, &sources, resolved_hz);
        field.mask_found(&found);
        if share > 0.0 && !explained && folded.is_steady() {
            sources.push(Source { frequency_hz: found.frequency_hz, share, over_noise: found.over_noise });
            mask_lines(&mut field, lines, &found, share, quantum_s);
        }
        if sources.len() == MOST_SOURCES {
            break;
        }
    }
    let half_rate_hz = 0.5 / quantum_s;
    let all = sources.clone();
    sources.retain(|source| !all.iter().any(|other| is_image(source, other, half_rate_hz, resolved_hz)));
    sources.sort_by(|a, b| b.share.total_cmp(&a.share));
    sources
}

/// Whether a fast source is the image of another's line from beyond half the rate of the quanta. Images just below that
/// are nearly as high as the lines themselves, and may be found first where slow noise covers those.
fn is_image(source: &Source, other: &Source, half_rate_hz: f64, resolved_hz: f64) -> bool {
    let line_hz = 2.0 * half_rate_hz - source.frequency_hz;
    let multiple = (line_hz / other.frequency_hz).round();
    multiple >= 2.0
        && source.frequency_hz > other.frequency_hz.max(half_rate_hz / 2.0)
        && (multiple * other.frequency_hz - line_hz).abs() < resolved_hz
}

/// Whether a weak candidate is what two sources make together: where pulses of one cover those of the other, lines appear
/// at sums and differences of their multiples.
fn is_mixture(frequency_hz: f64, share: f64, sources: &[Source], resolved_hz: f64) -> bool {
    sources.iter().enumerate().any(|(index, one)| {
        let others = sources.iter().enumerate().filter(|(other, _)| *other != index).map(|(_, two)| two);
        others.filter(|two| share * MIXED < one.share.min(two.share)).any(|two| {
            (1..=MIXED_MULTIPLES).any(|multiple| {
                let apart = (frequency_hz - f64::from(multiple) * one.frequency_hz).abs();
                let other = (apart / two.frequency_hz).round();
                (1.0..=f64::from(MIXED_MULTIPLES)).contains(&other)
                    && (apart - other * two.frequency_hz).abs() < resolved_hz
            })
        })
    })
}

/// Leaves out every line that a train of pulses of this share has, as far as it could be mistaken for another source:
/// its multiples, and their images beyond half the rate of the quanta.
fn mask_lines(field: &mut Field, lines: &Lines, found: &Found, share: f64, quantum_s: f64) {
    // A pulse that takes the whole CPU is as long as its share of the period; lines fall off beyond one over its length,
    // and again beyond one over the length of a quantum.
    let falls = |cycles: f64| (1.0 / (std::f64::consts::PI * cycles)).min(1.0);
    let quietest = lines.floor.iter().copied().fold(f64::INFINITY, f64::min);
    for multiple in 1..=MOST_LINES {
        let frequency_hz = found.frequency_hz * multiple as f64;
        let relative = falls(multiple as f64 * share) * falls(frequency_hz * quantum_s);
        let height = share * relative;
        if relative * HIDDEN < MARGIN || height * height < quietest {
            break;
        }
        field.mask(frequency_hz);
    }
}

/// Whether a frequency is another's, a small multiple or part of it, as far as the measurement tells them apart. Pulses of
/// uneven length, or at uneven distances, have lines close to those of their period, which look like a second source.
fn are_related(one_hz: f64, other_hz: f64, resolved_hz: f64) -> bool {
    (1..=RELATED).any(|a| {
        (1..=RELATED).any(|b| (one_hz * f64::from(a) - other_hz * f64::from(b)).abs() < NEAR * resolved_hz)
    })
}
