//! Plateaus of a curve over array sizes: the caches are read off them.
//!
//! The logarithms of the levels are cut into pieces of equal level by dynamic programming over all cuts (Jackson et al.
//! 2005, "optimal partitioning"): the squared error plus a penalty per piece is smallest. The penalty grows with the
//! noise, which is estimated from the median step between neighbours. A piece is a plateau when it holds at least two
//! sizes that span a factor of two, and is level; the ramp between two caches gives short or sloping pieces, which are
//! dropped. Plateaus closer than `LEAST_STEP` are one.
//!
//! Validity: recovers staircases with steps of a factor 1.5 or more under noise of up to about 5 %. Cost grows with the
//! square of the number of sizes, which is limited to `MOST_POINTS`.

/// A stretch of sizes with one level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plateau {
    /// Smallest size on it.
    pub from_bytes: f64,
    /// Largest size on it.
    pub to_bytes: f64,
    /// Its median level, in the unit of the points.
    pub level: f64,
}

/// Levels that differ by less than this factor are one plateau.
const LEAST_STEP: f64 = 1.2;
/// Noise below this share is not believed.
const LEAST_NOISE: f64 = 0.02;
/// Noise above this share would hide every step.
const MOST_NOISE: f64 = 0.10;
/// More sizes than this are thinned out evenly.
const MOST_POINTS: usize = 512;

/// The plateaus of `(size, level)` points, by ascending size. Points that are not positive numbers are left out.
pub fn plateaus(points: &[(f64, f64)]) -> Vec<Plateau> {
    let mut usable: Vec<(f64, f64)> = points
        .iter()
        .copied()
        .filter(|(size, level)| size.is_finite() && level.is_finite() && *size > 0.0 && *level > 0.0)
        .collect();
    usable.sort_by(|a, b| a.0.total_cmp(&b.0));
    let usable: Vec<(f64, f64)> =
        usable.iter().copied().step_by(usable.len().div_ceil(MOST_POINTS).max(1)).collect();
    let levels: Vec<f64> = usable.iter().map(|(_, level)| level.ln()).collect();
    let noise = noise_of(&levels);
    let pieces = cut(&levels, 4.0 * noise * noise * (levels.len() as f64 + 2.0).ln());
    let mut found: Vec<Plateau> = Vec::new();
    for piece in pieces.iter().filter_map(|&(from, to)| usable.get(from..to)) {
        let Some(plateau) = plateau_of(piece, noise) else { continue };
        match found.last_mut().filter(|last| ratio(last.level, plateau.level) < LEAST_STEP) {
            Some(last) => last.to_bytes = plateau.to_bytes,
            None => found.push(plateau),
        }
    }
    found
}

/// The piece as a plateau, if it is long and level enough.
fn plateau_of(piece: &[(f64, f64)], noise: f64) -> Option<Plateau> {
    let (first, last) = (piece.first()?, piece.last()?);
    let levels: Vec<f64> = piece.iter().map(|(_, level)| *level).collect();
    let spread = super::summary::spread(&levels)?;
    let level_enough = ratio(spread.min, spread.max) <= LEAST_STEP.max((5.0 * noise).exp());
    // Sizes per doubling are rounded to whole lines, so a doubling may measure a little less.
    (last.0 / first.0 > 1.9 && level_enough).then_some(Plateau {
        from_bytes: first.0,
        to_bytes: last.0,
        level: spread.median,
    })
}

/// The larger of two positive numbers over the smaller.
fn ratio(a: f64, b: f64) -> f64 {
    (a / b).max(b / a)
}

/// Standard deviation of the noise, from the median step between neighbours.
fn noise_of(levels: &[f64]) -> f64 {
    let steps: Vec<f64> =
        levels.windows(2).map(|pair| if let [a, b] = pair { (b - a).abs() } else { 0.0 }).collect();
    // The median of |N(0, 2σ²)| is 0.954 σ.
    super::summary::median(&steps).map_or(LEAST_NOISE, |step| (step / 0.954).clamp(LEAST_NOISE, MOST_NOISE))
}

/// Cuts values into pieces so that squared error plus `penalty` per piece is smallest; half-open index ranges.
fn cut(values: &[f64], penalty: f64) -> Vec<(usize, usize)> {
    let mut sums = vec![(0.0, 0.0)];
    let (mut sum, mut squares) = (0.0, 0.0);
    for value in values {
        sum += value;
        squares += value * value;
        sums.push((sum, squares));
    }
    let error = |from: usize, to: usize| match (sums.get(from), sums.get(to)) {
        (Some(a), Some(b)) => (b.1 - a.1 - (b.0 - a.0).powi(2) / (to - from) as f64).max(0.0),
        _ => f64::INFINITY,
    };
    // Per end: smallest cost up to there, and where its last piece begins.
    let mut best: Vec<(f64, usize)> = vec![(0.0, 0)];
    for end in 1..=values.len() {
        let choice = best
            .iter()
            .enumerate()
            .map(|(start, (cost, _))| (cost + error(start, end) + penalty, start))
            .min_by(|a, b| a.0.total_cmp(&b.0));
        best.push(choice.unwrap_or((f64::INFINITY, 0)));
    }
    let mut pieces = Vec::new();
    let mut end = values.len();
    while let Some(&(_, start)) = best.get(end).filter(|_| end > 0) {
        pieces.push((start, end));
        end = start;
    }
    pieces.reverse();
    pieces
}
