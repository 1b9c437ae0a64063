//! Interval of `bound_p`, the time-weighted quantile, from batches of equal time.
//!
//! For each candidate edge t the question is whether gaps longer than t can make up the share 1 − p of all time. Per
//! batch, the excess `d = S(t) − (1−p)·T` (S: time in gaps longer than t, T: all time) must average zero; that is a
//! ratio tested as Fieller (1954) does, so neither moments of the gaps nor a density are needed. The share is compared
//! on a logarithmic scale, because sums of heavy-tailed gaps are skewed to the right and their logarithms hardly are.
//! The scatter of d comes from the batches and respects dependence between them (see `super::dependence`); dependence
//! inside a batch needs no model. The interval holds every bucket edge that is not rejected.
//!
//! ```text
//!  share beyond t
//!   1 ┤▄▄▄▄
//!     │    ▀▄        rejected: share too large
//! 1−p ┼──────▀▄──────────────────────────────
//!     │     ↑  ▀▄▄▄ ↑  rejected: share too small
//!   0 ┼─────low─────high───────► t
//! ```
//!
//! Validity: coverage of 95 % intervals is 93–97 % on the gaps of `tests/stats_coverage.rs` (Pareto from α = 2.5,
//! mixtures, modulated and periodic interruptions). The ends are bucket edges, so a very narrow interval covers more.
//! When few batches hold most of the lost time, or too few gaps lie beyond the upper end to say that more time is not
//! lost there, there is no interval: time-weighted figures of a tail with α ≤ 2 have no usable scatter. The refusal is not
//! perfect: for Pareto 1.8 about half the runs still get an interval, and 84 % of those hold the truth (1.5: one run in
//! seventy gets one, always too low).

use units::histogram::Histogram;
use units::metric::{Answer, Estimate};

use super::dependence::{freedom_of, long_run_with};
use super::distributions::student_two_sided;
use super::influence;
use super::interval::{trimmed_percent, unsupported};

/// Fewer batches say nothing of their scatter.
const FEWEST_BATCHES: usize = 8;
/// More batches are joined with their neighbours.
const MOST_BATCHES: usize = 256;
/// The time that decides the bound must be spread as evenly as over this share of the batches.
const LEAST_SPREAD: f64 = 0.4;
/// This many gaps beyond the upper end support it whatever their length.
const ENOUGH_GAPS: u64 = 10;
/// Gaps not seen are taken to be up to this often as long as the longest seen.
const LONGER_THAN_SEEN: f64 = 5.0;

/// The interval of `bound_p` in ticks, or why the batches cannot support one. Batches are in the order they were taken.
///
/// The method draws no random numbers: the same batches give the same answer for every seed.
pub fn bound_interval(batches: &[Histogram], p: f64, confidence: f64, _seed: u64) -> Answer {
    if !(p > 0.0 && p < 1.0 && confidence > 0.0 && confidence < 1.0) {
        return unsupported("p or confidence are outside 0 … 1");
    }
    let joined: Vec<Histogram> = batches
        .chunks(batches.len().div_ceil(MOST_BATCHES).max(1))
        .map(Histogram::merge_all)
        .filter(|batch| batch.sum() > 0)
        .collect();
    if joined.len() < FEWEST_BATCHES {
        return unsupported(format!(
            "{} batches with gaps; at least {FEWEST_BATCHES} are needed",
            joined.len()
        ));
    }
    Scan::new(&joined, p, confidence).answer()
}

/// Time per batch beyond each edge.
struct Scan {
    /// All batches together.
    pooled: Histogram,
    /// Upper edges, ascending.
    edges: Vec<u64>,
    /// Gaps longer than each edge, all batches together.
    gaps_beyond: Vec<u64>,
    /// Row per edge, column per batch: time in gaps longer than the edge, in units of a batch's mean time.
    beyond: Vec<Vec<f64>>,
    /// Time of each batch in units of their mean.
    total: Vec<f64>,
    /// 1 − p.
    share: f64,
    /// Confidence of the interval.
    confidence: f64,
}

/// What the test says of an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// More time than the share lies beyond: `bound_p` is larger.
    TooLow,
    /// It may be `bound_p`.
    Possible,
    /// Less time than the share lies beyond: `bound_p` is not larger.
    HighEnough,
}

impl Scan {
    fn new(batches: &[Histogram], p: f64, confidence: f64) -> Self {
        let pooled = Histogram::merge_all(batches);
        let mean = pooled.sum() as f64 / batches.len() as f64;
        let mut beyond = vec![vec![0.0; batches.len()]; pooled.buckets().len()];
        for (column, batch) in batches.iter().enumerate() {
            let mut own = batch.buckets().iter().rev().peekable();
            let mut sum = 0u128;
            for (row, bucket) in beyond.iter_mut().zip(pooled.buckets()).rev() {
                if let Some(slot) = row.get_mut(column) {
                    *slot = sum as f64 / mean;
                }
                if let Some(found) = own.next_if(|own| own.index == bucket.index) {
                    sum += u128::from(found.sum);
                }
            }
        }
        let mut left = pooled.count();
        let gaps_beyond = pooled
            .buckets()
            .iter()
            .map(|bucket| {
                left = left.saturating_sub(bucket.count);
                left
            })
            .collect();
        Self {
            edges: pooled.buckets().iter().map(units::histogram::Bucket::upper).collect(),
            gaps_beyond,
            beyond,
            total: batches.iter().map(|batch| batch.sum() as f64 / mean).collect(),
            share: 1.0 - p,
            confidence,
            pooled,
        }
    }

    fn answer(&self) -> Answer {
        let Some(value) = influence::bound(&self.pooled, 1.0 - self.share) else {
            return unsupported("no time was recorded");
        };
        let Some(at) = self.edges.iter().position(|edge| *edge == value.get()) else {
            return unsupported("no time was recorded");
        };
        let p = trimmed_percent(1.0 - self.share);
        let spread = self.spread_beyond(at);
        if spread < LEAST_SPREAD * self.total.len() as f64 {
            return unsupported(format!(
                "the gaps that decide {p} % lie in about {spread:.0} of {} stretches of time; measure longer",
                self.total.len()
            ));
        }
        let Some(freedom) = freedom_of(&self.excess(at)) else {
            return unsupported(format!(
                "{} stretches of time resemble their neighbours too far for an interval of {p} %; measure longer",
                self.total.len()
            ));
        };
        let critical = student_two_sided(self.confidence, freedom as f64);
        let verdict = |edge: usize| self.verdict(edge, freedom, critical);
        let low = (0..at).rev().find(|&edge| verdict(edge) == Verdict::TooLow).map_or(0, |edge| edge + 1);
        let Some(high) = (at..self.edges.len()).find(|&edge| verdict(edge) == Verdict::HighEnough) else {
            return unsupported(format!(
                "the longest gaps seen do not reach the upper end of {p} %; measure longer"
            ));
        };
        if !self.supports(high) {
            return unsupported(format!(
                "{} gaps beyond the upper end of {p} % are too few; measure longer",
                self.gaps_beyond.get(high).copied().unwrap_or(0)
            ));
        }
        let edge = |index: usize| self.edges.get(index).map_or(f64::NAN, |edge| *edge as f64);
        Answer::Estimate(Estimate {
            value: value.as_f64(),
            low: edge(low),
            high: edge(high),
            confidence: self.confidence,
        })
    }

    /// Per batch: time beyond an edge less the share of all time.
    fn excess(&self, edge: usize) -> Vec<f64> {
        let beyond = self.beyond.get(edge).into_iter().flatten();
        beyond.zip(&self.total).map(|(beyond, total)| beyond - self.share * total).collect()
    }

    fn verdict(&self, edge: usize, freedom: usize, critical: f64) -> Verdict {
        let n = self.total.len() as f64;
        let found = self.beyond.get(edge).map_or(0.0, |beyond| beyond.iter().sum::<f64>()) / n;
        if found <= 0.0 {
            return Verdict::HighEnough;
        }
        let scatter = (long_run_with(&self.excess(edge), freedom).variance / n).sqrt();
        // On the logarithmic scale, with the error carried over by its derivative.
        let distance = (found / self.share).ln();
        let reach = critical * scatter / found;
        if distance > reach {
            Verdict::TooLow
        } else if distance < -reach || (reach <= 0.0 && distance <= 0.0) {
            Verdict::HighEnough
        } else {
            Verdict::Possible
        }
    }

    /// By how many equal batches the time would be held that lies beyond the edge below `at`.
    fn spread_beyond(&self, at: usize) -> f64 {
        let column = at.checked_sub(1).and_then(|below| self.beyond.get(below)).unwrap_or(&self.total);
        let sum: f64 = column.iter().sum();
        let squares: f64 = column.iter().map(|value| value * value).sum();
        if squares > 0.0 { sum * sum / squares } else { 0.0 }
    }

    /// Whether the gaps beyond an edge are enough to say that no more than the share is lost there: there are many, or
    /// even the most that chance allows, each several times as long as the longest seen, would not reach the share.
    fn supports(&self, edge: usize) -> bool {
        let gaps = self.gaps_beyond.get(edge).copied().unwrap_or(0);
        if gaps >= ENOUGH_GAPS {
            return true;
        }
        // Upper 97.5 % limit of a Poisson mean after so many events, rounded up: 3.7 for none, 18.4 for ten.
        let most = gaps as f64 + 3.7 + 2.2 * (gaps as f64).sqrt();
        let longest = self.edges.last().map_or(0.0, |edge| *edge as f64);
        most * LONGER_THAN_SEEN * longest <= self.share * self.pooled.sum() as f64
    }
}
