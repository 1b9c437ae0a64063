//! Books of a program's steps, from which its figures are read.
//!
//! ```text
//!  leave ── work, noise ──► arrive (each for itself) ── barrier ──► leave
//!  │◄──────────────── step ─────────────────►│◄ cost ►│
//!  last leave                          last arrival   last leave
//! ```
//! A step lasts from the last node's leaving a barrier until the last one's leaving the next; so steps add up to the whole.

use crate::model::scenario::LimitSpec;
use crate::sim::time::{Span, Time};

/// No simulation goes on beyond: some 146 years, so that a step after it cannot leave the range of the clock unnoticed.
const LATEST: Span = Span::from_nanos(1 << 62);

/// The books.
#[derive(Debug, Clone)]
pub struct Books {
    begin: Time,
    last: Time,
    longest: Span,
    /// From the last arrival until the last leaving, added up.
    cost: Span,
    /// From each node's arrival until its leaving, added up.
    waited: u128,
    nodes: u32,
    steps: u32,
    /// Messages sent.
    pub messages: u64,
    /// Steps of nodes, and messages.
    pub events: u64,
    /// Why it ended early.
    pub trouble: Option<String>,
}

/// When the nodes came to a barrier, or left it: the last of them, and all added up.
#[derive(Debug, Clone, Copy, Default)]
pub struct Moments {
    /// The last.
    pub last: Time,
    /// The sum, in nanoseconds.
    pub sum: u128,
}

impl Moments {
    /// One more.
    #[inline]
    pub fn add(&mut self, at: Time) {
        self.last = self.last.max(at);
        self.sum += u128::from(at.nanos());
    }
}

impl Books {
    /// Empty ones of so many nodes.
    pub const fn new(begin: Time, nodes: u32) -> Self {
        Self {
            begin,
            last: begin,
            longest: Span::ZERO,
            cost: Span::ZERO,
            waited: 0,
            nodes,
            steps: 0,
            messages: 0,
            events: 0,
            trouble: None,
        }
    }

    /// When the last node left the last barrier.
    pub const fn now(&self) -> Time {
        self.last
    }

    /// Steps so far.
    pub const fn steps(&self) -> u32 {
        self.steps
    }

    /// A step is over, with so many messages.
    pub fn step(&mut self, arrived: Moments, left: Moments, messages: u64) {
        self.longest = self.longest.max(left.last.since(self.last));
        self.cost += left.last.since(arrived.last);
        self.waited += left.sum.saturating_sub(arrived.sum);
        self.last = left.last;
        self.steps += 1;
        self.messages = self.messages.saturating_add(messages);
        self.events = self.events.saturating_add(messages).saturating_add(self.nodes.into());
    }

    /// Whether another step may begin.
    pub fn may_go_on(&mut self, limits: &LimitSpec, steps: u32) -> bool {
        if self.steps >= steps {
            return false;
        }
        let simulated = Span::from_secs(limits.simulated_s).min(LATEST);
        let why = if self.whole() > simulated {
            format!("more than {simulated} of simulated time was over")
        } else if self.events > limits.events {
            format!("more than {} steps of nodes and messages were handled", limits.events)
        } else {
            return true;
        };
        self.trouble = Some(format!("{why} after {} of {steps} steps", self.steps));
        false
    }

    /// Time of all steps.
    pub const fn whole(&self) -> Span {
        self.last.since(self.begin)
    }

    /// The longest step.
    pub const fn longest(&self) -> Span {
        self.longest
    }

    /// Mean per step; 0 without steps.
    pub fn mean_step(&self) -> f64 {
        self.per_step(self.whole())
    }

    /// Mean cost of a barrier, from the last arrival until the last leaving.
    pub fn mean_cost(&self) -> f64 {
        self.per_step(self.cost)
    }

    /// Mean time that a node spends in a barrier.
    pub fn mean_wait(&self) -> f64 {
        self.waited as f64 / (f64::from(self.steps.max(1)) * f64::from(self.nodes.max(1)))
    }

    fn per_step(&self, span: Span) -> f64 {
        span.as_f64() / f64::from(self.steps.max(1))
    }
}
