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
        let fine = (span.nanos() as i128) << FINE;
        // The same, and quicker: weight 1 is a power of two, and almost everybody has it.
        if self.weight.count_ones() == 1 { fine >> self.weight.trailing_zeros() } else { fine / self.weight }
    }

    /// It asks for a slice if the last one is over.
    pub const fn request(&mut self, slice: Span) {
        if self.v >= self.deadline {
            self.deadline = self.v + self.by_weight(slice);
        }
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
        let most = self.by_weight(slice);
        self.lag = mean.map_or(0, |mean| (mean - self.v).clamp(-most, most));
    }

    /// It competes with those whose mean this is.
    pub fn wake(&mut self, mean: Option<i128>, slice: Span) {
        if let Some(mean) = mean {
            self.v = mean - self.lag;
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
}

impl std::iter::Sum for Sum {
    fn sum<I: Iterator<Item = Self>>(sums: I) -> Self {
        sums.fold(Self::default(), |all, one| Self {
            weight: all.weight + one.weight,
            by_weight: all.by_weight + one.by_weight,
        })
    }
}
