//! Computes, and takes memory out of use now and then, of which all other virtual CPUs of the guest have to be told: a TLB
//! shoot-down. A sample is the time from the first interrupt to the last acknowledgement; what is done are shoot-downs.
//!
//! ```text
//!  own work ─► shoot-down: interrupts, waits for acknowledgements ─► own work ─► … until all work is done
//!  exponential └──────────────── sample ────────────────────────┘
//! ```
//! The shape is that of ebizzy (many threads of a process that allocate and free), which Linux' developers measured paravirtual
//! shoot-downs with. Lengths are exponential because only rates are known.

use super::exponential;
use super::samples::Samples;
use crate::guest::{Moment, Op, Program, Seen};
use crate::time::{Span, Time};

/// The program.
#[derive(Debug, Clone)]
pub struct Unmap {
    left: Span,
    between: Span,
    /// It waits since then.
    asked: Option<Time>,
    works: bool,
    samples: Samples,
}

impl Unmap {
    /// Works for so long in all, with a shoot-down after so much work on average.
    pub const fn new(work: Span, between: Span, samples: Samples) -> Self {
        Self { left: work, between, asked: None, works: false, samples }
    }
}

impl Program for Unmap {
    fn next(&mut self, moment: Moment<'_>) -> Op {
        if let Some(asked) = self.asked.take() {
            self.samples.push(moment.now.since(asked));
        }
        self.works = !self.works;
        match (self.works, self.left.is_zero()) {
            (_, true) => Op::Finish,
            (true, false) => {
                let piece = exponential(self.between, moment.random.stream()).min(self.left);
                self.left = self.left.less(piece);
                Op::Work(piece)
            }
            (false, false) => {
                self.asked = Some(moment.now);
                Op::ShootDown
            }
        }
    }

    fn seen(&self) -> Seen {
        self.samples.seen(self.samples.count(), 0)
    }

    fn is_finite(&self) -> bool {
        true
    }
}
