//! How often does it take longer than t? A share with an upper and a lower bound that also holds where few or none were seen.
//!
//! ```text
//!  parts (batches, rounds) ─► curve: per t the share beyond it, and how long one draw is ─► Share: upper, lower, what would decide
//! ```
//! What lies beyond t is counted in *draws*: stretches of the observed time of which each is beyond t or not, independent of the
//! others. Of n draws of which the share s was beyond, the bounds are those of Clopper & Pearson (1934), each at the whole confidence,
//! because whoever decides by them can be wrong on one side only. With none of n that is 1 − (1−c)^(1/n), the rule of three (Hanley
//! & Lippman-Hand 1983). How long a draw is decides everything, since one stall is one thing however many activations it delays:
//!
//! * From [`ENOUGH`] disturbances on, a draw is as long as makes n draws scatter like the parts do (Rao & Scott 1992): the larger of
//!   what rounds scatter among each other and of the long-run variance of the batches (`dependence`), and longer by (t/z)² for
//!   their degrees of freedom (Korn & Graubard 1998).
//! * With fewer it is at least as long as one disturbance: a batch, the longest that was seen, and what those longer than t last on
//!   average, 2 t (of which t makes activations late), or less where their tail index is at least 2. What scatters more than that,
//!   here or at times down to t / [`NEARBY`], makes it longer.
//!
//! Validity: each bound is wrong in at most 5 % of runs at 95 % (`tests/stats_exceedance.rs`: single stalls, exponential and Pareto
//! 2.5; rounds of different rate; batches that resemble their neighbours). It cannot know of what has shown itself neither at t nor
//! near it and lasts for much longer than 2 t: where stalls come three at once and two such bursts were to be expected, one run in
//! eight sees none, and its upper bound is too low; and nothing measured in a minute knows of an outage once an hour.

use std::collections::{BTreeMap, BTreeSet};

use units::histogram::{Bucket, Histogram};

use super::dependence::{freedom_of, long_run_with};
use super::distributions::{beta_cdf, bisect, normal_two_sided, student_two_sided};

/// So many disturbances tell their scatter.
pub const ENOUGH: f64 = 20.0;
/// Times down to this part of t belong to the same kind of disturbance.
const NEARBY: f64 = 4.0;
/// Gaps longer than t last this many times t on average.
const LASTS: f64 = 2.0;
/// Fewer rounds say nothing of their scatter.
pub const FEWEST_ROUNDS: usize = 3;
/// Times beyond which more than this share lies are no tail.
const MOST_SHARE: f64 = 0.5;
/// Beyond this many draws nothing gets more certain.
const MOST_DRAWS: f64 = 1e7;

/// What the values of a run are counted in.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Counted {
    /// Each as long as it lasts: gaps.
    Time,
    /// Each alike: lateness.
    Each {
        /// Time from one to the next, in the unit of the values.
        period: f64,
        /// How many there are at once: what delays one may delay all.
        at_once: f64,
    },
}

/// What is known of one time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// The time t.
    pub longer_than: f64,
    /// Share beyond it.
    pub share: f64,
    /// How long one draw is, in the unit of the values.
    pub draw: f64,
    /// Whether the disturbances tell their scatter, so that a draw need not be as long as one of them.
    pub is_many: bool,
}

/// All that is known of how often it takes longer.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// Time that was observed, in the unit of the values.
    pub observed: f64,
    /// The longest value.
    pub longest: f64,
    /// A draw is at least this many times t, where too few disturbances were seen to tell.
    pub draw_per_time: f64,
    /// Ascending; from where no more than half is beyond to where none is, nor near it.
    pub points: Vec<Point>,
}

/// A share of draws.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// The share, 0 … 1.
    pub value: f64,
    /// Of how many draws.
    pub draws: f64,
}

impl Share {
    /// It is at most this, with this confidence.
    pub fn upper(self, confidence: f64) -> f64 {
        let draws = self.draws.clamp(0.0, MOST_DRAWS);
        let seen = (self.value * draws).clamp(0.0, draws);
        // Where fewer than one draw was made, nothing is known.
        if draws < 1.0 || draws - seen <= 0.0 {
            return 1.0;
        }
        bisect(self.value, 1.0, |share| beta_cdf(seen + 1.0, draws - seen, share) >= confidence)
    }

    /// It is at least this, with this confidence.
    pub fn lower(self, confidence: f64) -> f64 {
        let draws = self.draws.clamp(0.0, MOST_DRAWS);
        let seen = (self.value * draws).clamp(0.0, draws);
        if seen <= 0.0 || draws < 1.0 {
            return 0.0;
        }
        bisect(0.0, self.value, |share| beta_cdf(seen, draws - seen + 1.0, share) >= 1.0 - confidence)
    }

    /// Whether it is at most `allowed`; none when that is not decided.
    pub fn is_at_most(self, allowed: f64, confidence: f64) -> Option<bool> {
        if self.upper(confidence) <= allowed {
            Some(true)
        } else if self.lower(confidence) > allowed {
            Some(false)
        } else {
            None
        }
    }

    /// How many times as many draws would decide whether it is at most `allowed`, if the share stayed what it is; none when
    /// `most` times as many would not.
    pub fn decided_by(self, allowed: f64, confidence: f64, most: f64) -> Option<f64> {
        let decides =
            |times: f64| Self { draws: self.draws * times, ..self }.is_at_most(allowed, confidence).is_some();
        if self.draws <= 0.0 || !decides(most) {
            return None;
        }
        Some(if decides(1.0) { 1.0 } else { bisect(1.0, most, decides) })
    }
}

impl Curve {
    /// The share beyond `t` for an upper bound, then the one for a lower bound: what is known of the nearest times on either side.
    pub fn beyond(&self, t: f64) -> (Option<Share>, Option<Share>) {
        let share = |point: &Point| {
            let draw = if point.is_many { point.draw } else { point.draw.max(self.draw_per_time * t) };
            Share { value: point.share, draws: self.observed / draw.max(f64::MIN_POSITIVE) }
        };
        let from_below = self.points.iter().rfind(|point| point.longer_than <= t).map(share);
        let from_above = self.points.iter().find(|point| point.longer_than >= t).map(share);
        // Beyond the last point there is nothing.
        (from_below, from_above.or_else(|| from_below.map(|share| Share { value: 0.0, ..share })))
    }
}

/// The curve at these times, ascending. `rounds` holds the values of each round in batches, in the order they were taken, and
/// `confidence` is that of the bounds that are made of it. None when too little was observed to say anything.
pub fn curve(rounds: &[Vec<Histogram>], counted: Counted, times: &[u64], confidence: f64) -> Option<Curve> {
    let of_round = |(round, batches): (usize, &Vec<Histogram>)| {
        batches.iter().filter_map(|batch| Part::of(round, batch, counted, times)).collect::<Vec<_>>()
    };
    let parts: Vec<Part> = rounds.iter().enumerate().flat_map(of_round).collect();
    let held: BTreeSet<usize> = parts.iter().map(|part| part.round).collect();
    if held.len() < FEWEST_ROUNDS || !(confidence > 0.5 && confidence < 1.0) {
        return None;
    }
    let observed: f64 = parts.iter().map(|part| part.of).sum();
    let last = rounds.iter().flatten().filter_map(|batch| batch.buckets().last());
    let longest = last.map(Bucket::upper).max().unwrap_or(0) as f64;
    let batch = observed / parts.len() as f64;
    let known: Vec<Known> = times
        .iter()
        .enumerate()
        .map(|(index, time)| {
            let t = *time as f64;
            let disturbance = counted.disturbance(t, longest, batch);
            Known::of(&parts, index, t, disturbance, confidence)
        })
        .collect();
    let first = known.iter().position(|known| known.share <= MOST_SHARE)?;
    let is_near = |known: &&Known| known.share > 0.0 || known.t <= NEARBY * longest;
    let end = known.iter().take_while(is_near).count() + 1;
    let points = known.iter().take(end).skip(first).map(|own| own.point(&known)).collect();
    Some(Curve { observed, longest, draw_per_time: counted.per_time(), points })
}

impl Counted {
    /// How long one disturbance longer than `t` is taken to be at least.
    fn disturbance(self, t: f64, longest: f64, batch: f64) -> f64 {
        match self {
            Self::Time => (self.per_time() * t).max(longest).max(batch),
            Self::Each { period, at_once } => {
                (self.per_time() * t).max((longest - t).max(period) * at_once.max(1.0))
            }
        }
    }

    /// How many times `t` it lasts on average.
    const fn per_time(self) -> f64 {
        match self {
            Self::Time => LASTS,
            Self::Each { at_once, .. } => (LASTS - 1.0) * at_once.max(1.0),
        }
    }
}

/// A batch, or a round that is not divided into any.
struct Part {
    round: usize,
    /// Time it stands for.
    of: f64,
    /// How much of it lies beyond each of the times.
    beyond: Vec<f64>,
}

impl Part {
    fn of(round: usize, values: &Histogram, counted: Counted, times: &[u64]) -> Option<Self> {
        let weight = |bucket: &Bucket| match counted {
            Counted::Time => bucket.sum as f64,
            Counted::Each { period, .. } => bucket.count as f64 * period,
        };
        let mut beyond = vec![0.0; times.len()];
        let mut left = values.buckets().iter().rev().peekable();
        let mut sum = 0.0;
        for (time, beyond) in times.iter().zip(&mut beyond).rev() {
            while let Some(bucket) = left.next_if(|bucket| bucket.upper() > *time) {
                sum += weight(bucket);
            }
            *beyond = sum;
        }
        let of = sum + left.map(weight).sum::<f64>();
        (of > 0.0).then_some(Self { round, of, beyond })
    }
}

/// What the parts say of one time.
struct Known {
    t: f64,
    share: f64,
    /// Length of one disturbance at least.
    disturbance: f64,
    /// How many there were at least.
    number: f64,
    /// How long a draw is by the scatter of the parts; none where too little was seen to tell.
    scatter: Option<f64>,
}

impl Known {
    fn of(parts: &[Part], index: usize, t: f64, disturbance: f64, confidence: f64) -> Self {
        let at = |part: &Part| part.beyond.get(index).copied().unwrap_or(0.0);
        let observed: f64 = parts.iter().map(|part| part.of).sum();
        let beyond: f64 = parts.iter().map(at).sum();
        let hit = parts.iter().filter(|part| at(part) > 0.0).count() as f64;
        let (share, number) = (beyond / observed, hit.max(beyond / disturbance));
        let excess: Vec<f64> = parts.iter().map(|part| at(part) - share * part.of).collect();
        let independent = observed * share * (1.0 - share);
        let scatter = (number >= 2.0 && independent > 0.0).then(|| {
            let of_rounds = rounds_scatter(parts, &excess, confidence);
            of_rounds.max(batches_scatter(&excess, confidence)) / independent
        });
        Self { t, share, disturbance, number, scatter }
    }

    fn point(&self, all: &[Self]) -> Point {
        let is_many = self.number >= ENOUGH;
        let nearby = all.iter().filter(|other| other.t <= self.t && other.t * NEARBY >= self.t);
        let scattered = nearby.filter_map(|near| near.scatter).reduce(f64::max);
        let draw = match self.scatter {
            Some(own) if is_many => own,
            _ => self.disturbance.max(scattered.unwrap_or(0.0)),
        };
        Point { longer_than: self.t, share: self.share, draw, is_many }
    }
}

/// Variance of the sum over all rounds, by how much these differ from each other.
fn rounds_scatter(parts: &[Part], excess: &[f64], confidence: f64) -> f64 {
    let mut rounds: BTreeMap<usize, f64> = BTreeMap::new();
    for (part, excess) in parts.iter().zip(excess) {
        *rounds.entry(part.round).or_default() += excess;
    }
    let number = rounds.len() as f64;
    let squares: f64 = rounds.values().map(|sum| sum * sum).sum();
    squares * number / (number - 1.0) * for_freedom(confidence, number - 1.0)
}

/// The same by how much batches differ, and resemble those before and after them; 0 where they are too few to tell.
fn batches_scatter(excess: &[f64], confidence: f64) -> f64 {
    let Some(freedom) = freedom_of(excess) else { return 0.0 };
    let variance = long_run_with(excess, freedom).variance * excess.len() as f64;
    variance * for_freedom(confidence, freedom as f64)
}

/// By how much a variance is to be taken larger that was estimated with so many degrees of freedom.
fn for_freedom(confidence: f64, freedom: f64) -> f64 {
    let both = 2.0 * confidence - 1.0;
    (student_two_sided(both, freedom) / normal_two_sided(both)).powi(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(got: f64, want: f64) {
        assert!((got / want - 1.0).abs() < 1e-3, "got {got}, want {want}");
    }

    #[test]
    fn bounds_of_whole_counts_are_those_of_clopper_and_pearson() {
        let of = |seen: f64, draws: f64| Share { value: seen / draws, draws };
        near(of(0.0, 600.0).upper(0.95), 1.0 - 0.05f64.powf(1.0 / 600.0));
        // One-sided 95 % limits of 1 and 3 of 10, as printed in tables.
        near(of(1.0, 10.0).upper(0.95), 0.3942);
        near(of(1.0, 10.0).lower(0.95), 0.005_116);
        near(of(3.0, 10.0).upper(0.95), 0.6066);
        near(of(3.0, 10.0).lower(0.95), 0.087_26);
        assert!(of(0.0, 600.0).lower(0.95) <= 0.0 && of(10.0, 10.0).upper(0.95) >= 1.0);
        assert!(of(0.0, 0.5).upper(0.95) >= 1.0, "less than one draw says nothing");
    }

    #[test]
    fn it_is_said_how_many_draws_would_decide() {
        let none = Share { value: 0.0, draws: 300.0 };
        near(none.decided_by(0.001, 0.95, 1e4).unwrap(), 2994.2 / 300.0);
        let some = Share { value: 0.01, draws: 300.0 };
        let times = some.decided_by(0.005, 0.95, 1e4).unwrap();
        let then = Share { draws: 300.0 * times, ..some };
        assert!(times > 1.0 && (then.lower(0.95) / 0.005 - 1.0).abs() < 1e-3, "{times}");
        assert_eq!(some.decided_by(0.01, 0.95, 1e4), None, "on the bound");
        assert_eq!(some.decided_by(0.5, 0.95, 1e4), Some(1.0));
    }

    #[test]
    fn one_stall_is_one_thing_however_many_it_delays() {
        let round = |late: u64| {
            vec![Histogram::from_values(
                (0..1000).map(move |n| if n < late { 2_000_000 } else { 1000 + n % 7 }),
            )]
        };
        let counted = Counted::Each { period: 1e5, at_once: 1.0 };
        let lower = |rounds: &[Vec<Histogram>]| {
            let curve = curve(rounds, counted, &[1_000_000], 0.95).unwrap();
            curve.beyond(1e6).1.unwrap().lower(0.95)
        };
        let once = [vec![round(20)], vec![round(0); 19]].concat();
        let spread = vec![round(1); 20];
        assert!(lower(&spread) > 5.0 * lower(&once), "{} {}", lower(&spread), lower(&once));
    }

    #[test]
    fn nothing_and_nonsense_do_not_panic() {
        let one = Histogram::from_values([5]);
        for rounds in
            [vec![], vec![vec![]; 9], vec![vec![Histogram::default()]; 9], vec![vec![one.clone()]; 2]]
        {
            assert_eq!(curve(&rounds, Counted::Time, &[1, 10], 0.95), None);
        }
        let rounds = vec![vec![one]; 9];
        assert_eq!(curve(&rounds, Counted::Time, &[1, 10], f64::NAN), None);
        assert_eq!(curve(&rounds, Counted::Each { period: 0.0, at_once: 1.0 }, &[1, 10], 0.95), None);
        assert!(curve(&rounds, Counted::Time, &[], 0.95).is_none_or(|curve| curve.points.is_empty()));
        assert!(curve(&rounds, Counted::Time, &[10], 0.95).is_some());
    }
}
