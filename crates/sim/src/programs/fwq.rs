//! Fixed work quantum: the same work over and over. A sample is how long it took by the guest's clock.
//!
//! Samples back to back would lock to the phase of the host's rounds, so a pause of random length lies before each.

use super::samples::Samples;
use crate::guest::{Moment, Op, Program, Seen};
use crate::time::{Span, Time};

/// The program.
#[derive(Debug, Clone)]
pub struct Fwq {
    work: Span,
    count: u32,
    /// Pauses are work of 0 to this long that is not timed.
    jitter: Span,
    stage: Stage,
    samples: Samples,
}

#[derive(Debug, Clone, Copy)]
enum Stage {
    Pause,
    Work,
    Timed(Time),
}

impl Fwq {
    /// `count` times `work`, each after a pause of up to `jitter`.
    pub const fn new(work: Span, count: u32, jitter: Span, samples: Samples) -> Self {
        Self { work, count, jitter, stage: Stage::Pause, samples }
    }
}

impl Program for Fwq {
    fn next(&mut self, moment: Moment<'_>) -> Op {
        if let Stage::Timed(began) = self.stage {
            self.samples.push(moment.now.since(began));
            self.stage = Stage::Pause;
        }
        if self.samples.count() >= u64::from(self.count) {
            return Op::Finish;
        }
        match self.stage {
            Stage::Pause if !self.jitter.is_zero() => {
                self.stage = Stage::Work;
                Op::Work(Span::from_nanos(moment.random.stream().below(self.jitter.nanos())))
            }
            _ => {
                self.stage = Stage::Timed(moment.now);
                Op::Work(self.work)
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
