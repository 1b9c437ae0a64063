//! Computes, waits for a device, computes. A sample is the time from the device's answer to the end of the computation
//! that follows.
//!
//! ```text
//!  compute ─► wait for the device ─► answer ─► (wake-up, perhaps steal) ─► compute ─► wait …
//!                                      └────────────── sample ───────────────┘
//! ```

use super::exponential;
use super::samples::Samples;
use crate::guest::{Moment, Op, Program, Seen};
use crate::random::Draw;
use crate::time::{Span, Time};

/// The program.
#[derive(Debug, Clone)]
pub struct Io {
    work: Span,
    wait: Span,
    random: bool,
    /// 0: without an end.
    rounds: u32,
    stage: Stage,
    samples: Samples,
}

#[derive(Debug, Clone, Copy)]
enum Stage {
    Begins,
    /// It computes for the first time.
    First,
    /// It waits for the answer at that moment.
    Waits(Time),
    /// It computes since that answer.
    Works(Time),
}

impl Io {
    /// Works and waits so long, exponentially around these means when `random`; for ever if `rounds` is 0.
    pub const fn new(work: Span, wait: Span, random: bool, rounds: u32, samples: Samples) -> Self {
        Self { work, wait, random, rounds, stage: Stage::Begins, samples }
    }

    fn length(&self, mean: Span, random: Draw<'_>) -> Span {
        if self.random { exponential(mean, random.stream()) } else { mean }
    }
}

impl Program for Io {
    fn next(&mut self, moment: Moment<'_>) -> Op {
        match self.stage {
            Stage::Begins => {
                self.stage = Stage::First;
                return Op::Work(self.length(self.work, moment.random));
            }
            Stage::Waits(answer) => {
                self.stage = Stage::Works(answer);
                return Op::Work(self.length(self.work, moment.random));
            }
            Stage::Works(answer) => self.samples.push(moment.now.since(answer)),
            Stage::First => {}
        }
        if self.rounds > 0 && self.samples.count() >= u64::from(self.rounds) {
            return Op::Finish;
        }
        let answer = moment.now + self.length(self.wait, moment.random);
        self.stage = Stage::Waits(answer);
        Op::SleepUntil(answer)
    }

    fn seen(&self) -> Seen {
        self.samples.seen(self.samples.count(), 0)
    }

    fn is_finite(&self) -> bool {
        self.rounds > 0
    }
}
