//! Fixed time quantum: how much work fits into each quantum of the guest's clock. A sample is the work done in a quantum;
//! missed are quanta in which none was.
//!
//! ```text
//!  quantum     |·····|··  |  ···|     |·    work in small units; a unit counts where it ends
//!  sample        5     2     3     0
//! ```
//! After Sottile and Minnich's FTQ (2004), as the methodology's probe of the same name does it.

use super::samples::Samples;
use crate::guest::{Moment, Op, Program, Seen};
use crate::time::{Span, Time};

/// A quantum holds so many units of work, unless that makes them shorter than a nanosecond.
const UNITS: u64 = 1000;

/// The program.
#[derive(Debug, Clone)]
pub struct Ftq {
    quantum: Span,
    count: u32,
    unit: Span,
    /// End of the current quantum, once it has begun.
    end: Option<Time>,
    /// Work that was done in it.
    here: Span,
    samples: Samples,
    missed: u64,
}

impl Ftq {
    /// `count` quanta.
    pub fn new(quantum: Span, count: u32, samples: Samples) -> Self {
        let quantum = quantum.max(Span::from_nanos(1));
        let unit = Span::from_nanos((quantum.nanos() / UNITS).max(1));
        Self { quantum, count, unit, end: None, here: Span::ZERO, samples, missed: 0 }
    }

    fn is_over(&self) -> bool {
        self.samples.count() >= u64::from(self.count)
    }

    /// Closes the current quantum.
    fn close(&mut self, end: Time) {
        let here = std::mem::take(&mut self.here);
        self.missed += u64::from(here.is_zero());
        self.samples.push(here);
        self.end = Some(end + self.quantum);
    }
}

impl Program for Ftq {
    fn next(&mut self, moment: Moment<'_>) -> Op {
        let Some(mut end) = self.end else {
            self.end = Some(moment.now + self.quantum);
            return Op::Work(self.unit);
        };
        // The unit that has just ended counts in the quantum in which it did; ends belong to what they end.
        while moment.now > end && !self.is_over() {
            self.close(end);
            end = end + self.quantum;
        }
        self.here += self.unit;
        if moment.now == end && !self.is_over() {
            self.close(end);
        }
        if self.is_over() { Op::Finish } else { Op::Work(self.unit) }
    }

    fn seen(&self) -> Seen {
        self.samples.seen(self.samples.count(), self.missed)
    }

    fn is_finite(&self) -> bool {
        true
    }
}
