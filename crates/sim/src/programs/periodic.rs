//! A periodic real-time task. A sample is the response time of a job, from its release to its end; missed are jobs that
//! ended after their deadline.
//!
//! ```text
//!  release   0        P        2P       3P        on a grid from the beginning on, however late a job is
//!            ▼        ▼        ▼        ▼
//!            ██░      ░░░░██   ░░░░░░░░░░██ ██    the next job begins at its release, or when the last one is over
//! ```
//! The task model of Liu and Layland (1973), with deadlines of their own.

use super::samples::Samples;
use crate::guest::{Moment, Op, Program, Seen};
use crate::time::{Span, Time};

/// The program.
#[derive(Debug, Clone)]
pub struct Periodic {
    period: Span,
    work: Span,
    deadline: Span,
    jobs: u32,
    stage: Stage,
    /// Release of the current job.
    release: Time,
    responses: Samples,
    missed: u64,
}

#[derive(Debug, Clone, Copy)]
enum Stage {
    Waits,
    Works,
}

impl Periodic {
    /// So many jobs.
    pub const fn new(period: Span, work: Span, deadline: Span, jobs: u32, responses: Samples) -> Self {
        Self { period, work, deadline, jobs, stage: Stage::Waits, release: Time::ZERO, responses, missed: 0 }
    }
}

impl Program for Periodic {
    fn next(&mut self, moment: Moment<'_>) -> Op {
        if matches!(self.stage, Stage::Works) {
            let response = moment.now.since(self.release);
            self.missed += u64::from(response > self.deadline);
            self.responses.push(response);
            self.release = self.release + self.period;
            self.stage = Stage::Waits;
        }
        if self.responses.count() >= u64::from(self.jobs) {
            return Op::Finish;
        }
        if moment.now < self.release {
            return Op::SleepUntil(self.release);
        }
        self.stage = Stage::Works;
        Op::Work(self.work)
    }

    fn seen(&self) -> Seen {
        self.responses.seen(self.responses.count(), self.missed)
    }

    fn is_finite(&self) -> bool {
        true
    }
}
