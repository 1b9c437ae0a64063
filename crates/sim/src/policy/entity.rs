//! Who competes by EEVDF, a VM (on all CPUs, or on one of them) or a virtual CPU within it, and the mean of those that compete.
//!
//! ```text
//!  v ──●────────┤ deadline = v + slice / weight      lag = V - v: what it is owed, kept over sleep and a change of weight
//!        ▲ V: mean of v by weight
//! ```
//! Source: Stoica and Abdel-Wahab, "Earliest Eligible Virtual Deadline First" (1995), section 3 for joining and changing weights.

use crate::time::Span;

/// Weight 1 in whole units.
const UNIT: f64 = 16_777_216.0;
/// Bits by which v is finer than nanoseconds of weight 1, which is 24 bits itself.
const FINE: u32 = 44;

/// Nobody is given a CPU for less, however little is left of his request.
pub const SHORTEST: Span = Span::from_micros(50);
/// What somebody is owed, or owes, over sleep is at most so many slices, as in Linux.
const LAG: i128 = 2;

/// Where it competed before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// With the same, or some of them.
    Here,
    /// On another CPU, where v was another.
    Elsewhere,
}

/// One of them.
#[derive(Debug, Clone, Copy)]
pub struct Entity {
    /// In whole units.
    pub weight: i128,
    /// Service by weight.
    pub v: i128,
    /// When its present request is due, in the same measure.
    pub deadline: i128,
    /// What it was owed when it went to sleep.
    lag: i128,
}

#[expect(clippy::cast_possible_truncation, reason = "weights are at most a million")]
fn units(weight: f64) -> i128 {
    ((weight * UNIT).round() as i128).max(1)
}

impl Entity {
    /// One of this weight that has had nothing.
    pub fn new(weight: f64) -> Self {
        Self { weight: units(weight), v: 0, deadline: 0, lag: 0 }
    }

    /// A span in its measure.
    pub const fn by_weight(&self, span: Span) -> i128 {
        self.by_nanos(span.nanos() as i128)
    }

    /// Nanoseconds, of which there may be less than none, in its measure.
    pub const fn by_nanos(&self, nanos: i128) -> i128 {
        let fine = nanos << FINE;
        // The same, and quicker: weight 1 is a power of two, and almost everybody has it.
        if self.weight.count_ones() == 1 { fine >> self.weight.trailing_zeros() } else { fine / self.weight }
    }

    /// It asks for a slice if the last one is over.
    pub const fn request(&mut self, slice: Span) {
        if self.v >= self.deadline {
            self.deadline = self.v + self.by_weight(slice);
        }
    }

    /// What is left of its request.
    pub fn rest(&self) -> Span {
        let nanos = ((self.deadline - self.v) * self.weight) >> FINE;
        Span::from_nanos(u64::try_from(nanos).unwrap_or(0))
    }

    /// It ran so long.
    pub const fn charge(&mut self, span: Span) {
        self.v += self.by_weight(span);
    }

    /// So much of what it was charged it did not use.
    pub const fn pay_back(&mut self, span: Span) {
        self.v -= self.by_weight(span);
    }

    /// It does not compete any more with those whose mean this is.
    pub fn sleep(&mut self, mean: Option<i128>, slice: Span) {
        let most = LAG * self.by_weight(slice);
        self.lag = mean.map_or(0, |mean| (mean - self.v).clamp(-most, most));
    }

    /// It competes with these, and is owed as much as when it went: as its coming moves their mean, it comes that much further
    /// off. Who owes something, and does not come from elsewhere, is where it was until the others have come on as far: Linux
    /// leaves him in the queue until then (`DELAY_DEQUEUE`, since 6.12).
    pub fn wake(&mut self, others: Sum, slice: Span, comes: Origin) {
        if let Some(mean) = others.mean() {
            let off = self.lag + self.lag * self.weight / others.weight;
            let owes = comes == Origin::Here && off < 0;
            if owes && self.v > mean && self.v <= mean - off {
                return self.request(slice);
            }
            self.v = if owes && self.v <= mean { mean } else { mean - off };
        }
        self.deadline = self.v;
        self.request(slice);
    }

    /// While it does not compete it has another weight.
    pub fn set_weight(&mut self, weight: f64) {
        let weight = units(weight);
        self.lag = self.lag * self.weight / weight;
        self.weight = weight;
    }

    /// While it competes with those whose mean this is: what it is owed, and what it has asked for, stay what they are in time.
    pub fn reweigh(&mut self, weight: f64, mean: i128) {
        let weight = units(weight);
        if weight == self.weight {
            return;
        }
        let rest = (self.deadline - self.v) * self.weight / weight;
        self.v = mean - (mean - self.v) * self.weight / weight;
        self.deadline = self.v + rest;
        self.weight = weight;
    }
}

/// All that compete.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sum {
    /// Of their weights: the load.
    pub weight: i128,
    by_weight: i128,
}

impl Sum {
    /// So many of one weight, whose v add up to `v`.
    pub const fn of_equals(count: i128, v: i128, one: &Entity) -> Self {
        Self { weight: count * one.weight, by_weight: v * one.weight }
    }

    /// One comes.
    pub const fn add(&mut self, entity: &Entity) {
        self.weight += entity.weight;
        self.by_weight += entity.v * entity.weight;
    }

    /// One goes.
    pub const fn remove(&mut self, entity: &Entity) {
        self.weight -= entity.weight;
        self.by_weight -= entity.v * entity.weight;
    }

    /// V, if there are any.
    pub const fn mean(&self) -> Option<i128> {
        if self.weight > 0 { Some(self.by_weight.div_euclid(self.weight)) } else { None }
    }

    /// The sum without so many nanoseconds, which some of them were charged and have not used.
    #[must_use]
    pub const fn without(self, nanos: i128) -> Self {
        Self { weight: self.weight, by_weight: self.by_weight - (nanos << FINE) }
    }
}

impl std::iter::Sum for Sum {
    fn sum<I: Iterator<Item = Self>>(sums: I) -> Self {
        sums.fold(Self::default(), |all, one| Self {
            weight: all.weight + one.weight,
            by_weight: all.by_weight + one.by_weight,
        })
    }
}
