//! A real-time task: jobs of the same work, periodic or sporadic. A sample is the response time of a job, from its arrival to its end;
//! missed are jobs that ended after their deadline or were aborted at it.
//!
//! ```text
//!  arrival  offset      + P        + 2 P       + 3 P      on a grid, however late a job is; sporadic: P and more apart
//!             ▼ jitter    ▼          ▼           ▼
//!             ··██░       ░░░░██     ░░░░░░░░░░░░██ ██    the next job begins at its release, or when the last one is over
//! ```
//! The task model of Liu and Layland (1973), with deadlines of their own; sporadic tasks: Mok (1983); release jitter: Audsley et al. (1993).

use super::exponential;
use super::samples::Samples;
use crate::guest::{Moment, Op, Program, Seen};
use crate::random::Stream;
use crate::time::{Span, Time};

/// When jobs come, what they are, and how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Task {
    /// Between arrivals, at least.
    pub period: Span,
    /// What comes on top of it on average, exponentially; nothing for a periodic task.
    pub apart: Span,
    /// The first arrival.
    pub offset: Span,
    /// A job is released so long after its arrival at most, evenly.
    pub jitter: Span,
    /// CPU time of a job.
    pub work: Span,
    /// From its arrival.
    pub deadline: Span,
    /// Whether a job is aborted at its deadline.
    pub is_aborted: bool,
    /// Jobs until it ends.
    pub jobs: u64,
}

/// The program.
#[derive(Debug, Clone)]
pub struct Periodic {
    task: Task,
    job: Job,
    responses: Samples,
    missed: u64,
    aborted: u64,
}

/// The job that is next, or under way.
#[derive(Debug, Clone, Copy)]
enum Job {
    /// None has come yet.
    None,
    Waits(Arrival),
    /// The thread's CPU time when it began.
    Works(Arrival, Span),
}

#[derive(Debug, Clone, Copy)]
struct Arrival {
    at: Time,
    release: Time,
}

impl Periodic {
    /// Of this task.
    pub const fn new(task: Task, responses: Samples) -> Self {
        Self { task, job: Job::None, responses, missed: 0, aborted: 0 }
    }

    /// `random` is there where the task has any.
    fn arrival(&self, at: Time, random: Option<&mut Stream>) -> Arrival {
        let late = random.map_or(0, |random| random.below(self.task.jitter.nanos().saturating_add(1)));
        Arrival { at, release: at + Span::from_nanos(late) }
    }

    fn after(&self, last: Arrival, mut random: Option<&mut Stream>) -> Arrival {
        let apart = random.as_deref_mut().filter(|_| !self.task.apart.is_zero());
        let apart = apart.map_or(Span::ZERO, |random| exponential(self.task.apart, random));
        self.arrival(last.at + self.task.period + apart, random)
    }

    /// A job is over: done, or aborted.
    fn end(&mut self, arrival: Arrival, now: Time, is_done: bool) {
        let response = now.since(arrival.at);
        if is_done {
            self.missed += u64::from(response > self.task.deadline);
            self.responses.push(response);
        } else {
            self.missed += 1;
            self.aborted += 1;
        }
    }

    fn aborted_at(&self, arrival: Arrival) -> Option<Time> {
        self.task.is_aborted.then(|| arrival.at + self.task.deadline)
    }
}

impl Program for Periodic {
    fn next(&mut self, moment: Moment<'_>) -> Op {
        let draws = !(self.task.jitter.is_zero() && self.task.apart.is_zero());
        let mut random = draws.then(|| moment.random.stream());
        let mut arrival = match self.job {
            Job::None => self.arrival(Time::ZERO + self.task.offset, random.as_deref_mut()),
            Job::Waits(arrival) => arrival,
            Job::Works(arrival, before) => {
                self.end(arrival, moment.now, moment.cpu.less(before) >= self.task.work);
                self.after(arrival, random.as_deref_mut())
            }
        };
        while self.responses.count() + self.aborted < self.task.jobs {
            if moment.now < arrival.release {
                self.job = Job::Waits(arrival);
                return Op::SleepUntil(arrival.release);
            }
            if self.aborted_at(arrival).is_none_or(|end| moment.now < end) {
                self.job = Job::Works(arrival, moment.cpu);
                return Op::Work(self.task.work);
            }
            self.end(arrival, moment.now, false);
            arrival = self.after(arrival, random.as_deref_mut());
        }
        Op::Finish
    }

    fn aborts_at(&self) -> Option<Time> {
        match self.job {
            Job::Works(arrival, _) => self.aborted_at(arrival),
            Job::None | Job::Waits(_) => None,
        }
    }

    fn seen(&self) -> Seen {
        let seen = self.responses.seen(self.responses.count(), self.missed);
        Seen { aborted: self.aborted, ..seen }
    }

    fn is_finite(&self) -> bool {
        true
    }
}
