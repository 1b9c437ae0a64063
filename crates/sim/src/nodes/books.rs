//! Books of a program's steps, from which its figures are read.
//!
//! ```text
//!  leave ── work, noise ──► arrive (each for itself) ── barrier ──► leave
//!  │◄──────────────── step ─────────────────►│◄ cost ►│
//!  last leave                          last arrival   last leave
//! ```
//! A step lasts from the last node's leaving a barrier until the last one's leaving the next; so steps add up to the whole.

use crate::brake::Brake;
use crate::time::{Span, Time};
use model::scenario::LimitSpec;

/// No simulation goes on beyond: some 146 years, so that a step after it cannot leave the range of the clock unnoticed.
const LATEST: Span = Span::from_nanos(1 << 62);
/// Why it ended, when the brake was pulled.
const INTERRUPTED: &str = "interrupted";

/// Within which a program stays.
#[derive(Debug, Clone, Copy)]
pub struct Bounds<'a> {
    /// Its steps.
    pub steps: u32,
    /// Steps of nodes and messages that one of them takes.
    pub each: u64,
    /// When it is stopped.
    pub limits: &'a LimitSpec,
    /// Who wants to stop it pulls this.
    pub brake: &'a Brake,
}

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
    /// The stated time is over then.
    until: Time,
    /// Messages sent.
    pub messages: u64,
    /// Steps of nodes, and messages.
    pub events: u64,
    /// Why it ended early, and who still waited.
    pub trouble: Option<String>,
}

/// When the nodes came to a barrier, or left it: the last of them, and all added up.
#[derive(Debug, Clone, Copy)]
pub struct Moments {
    /// The last.
    pub last: Time,
    /// The sum, in nanoseconds.
    pub sum: u128,
    /// The first of the nodes that came last.
    who: u32,
    /// How many came after the stated time.
    late: u32,
    until: Time,
}

impl Moments {
    /// Of nobody yet.
    const fn until(until: Time) -> Self {
        Self { last: Time::ZERO, sum: 0, who: 0, late: 0, until }
    }

    /// Of node `who`.
    #[inline]
    pub fn add(&mut self, who: u32, at: Time) {
        if at > self.last {
            (self.last, self.who) = (at, who);
        }
        self.late += u32::from(at > self.until);
        self.sum += u128::from(at.nanos());
    }

    /// Of so many nodes at once.
    pub fn add_all(&mut self, nodes: u32, at: Time) {
        self.last = self.last.max(at);
        self.late += if at > self.until { nodes } else { 0 };
        self.sum += u128::from(at.nanos()) * u128::from(nodes);
    }
}

impl Books {
    /// Empty ones of so many nodes.
    pub fn new(begin: Time, nodes: u32, limits: &LimitSpec) -> Self {
        Self {
            begin,
            last: begin,
            longest: Span::ZERO,
            cost: Span::ZERO,
            waited: 0,
            nodes,
            steps: 0,
            until: begin + Span::from_secs(limits.simulated_s).min(LATEST),
            messages: 0,
            events: 0,
            trouble: None,
        }
    }

    /// The last moment so far.
    pub const fn now(&self) -> Time {
        self.last
    }

    /// Steps so far.
    pub const fn steps(&self) -> u32 {
        self.steps
    }

    /// For the arrivals, or the leavings, of a step.
    pub const fn moments(&self) -> Moments {
        Moments::until(self.until)
    }

    /// A step is over, with so many messages. One that ends after the stated time is not entered.
    pub fn step(&mut self, bounds: &Bounds<'_>, arrived: Moments, left: Moments, messages: u64) {
        if bounds.brake.is_pulled() {
            // It may be half a step: nothing of it is known.
            return;
        }
        if left.last > self.until {
            self.trouble = Some(self.out_of_time(bounds, &arrived));
            return;
        }
        self.longest = self.longest.max(left.last.since(self.last));
        self.cost += left.last.since(arrived.last);
        self.waited += left.sum.saturating_sub(arrived.sum);
        self.last = left.last;
        self.steps += 1;
        self.messages = self.messages.saturating_add(messages);
        self.events = self.events.saturating_add(bounds.each);
    }

    /// Whether another step may begin.
    pub fn may_go_on(&mut self, bounds: &Bounds<'_>) -> bool {
        if self.steps >= bounds.steps || self.trouble.is_some() {
            return false;
        }
        let why = if bounds.brake.is_pulled() {
            INTERRUPTED.to_owned()
        } else if self.events.saturating_add(bounds.each) > bounds.limits.events {
            format!(
                "the stated number of events (limits.events = {}) does not suffice for another step, which takes {}",
                bounds.limits.events, bounds.each
            )
        } else {
            return true;
        };
        let (nodes, at) = (self.nodes, self.whole());
        let trouble = format!(
            "{why}; at {at}, after {} of {} steps: {nodes} nodes have their next step before them",
            self.steps, bounds.steps
        );
        self.trouble = Some(trouble);
        false
    }

    /// Who waits for whom when the stated time is over.
    fn out_of_time(&self, bounds: &Bounds<'_>, arrived: &Moments) -> String {
        let Self { nodes, steps, until, .. } = self;
        let waiting = if arrived.late == 0 {
            format!("all {nodes} nodes wait in its barrier for messages")
        } else {
            let later = arrived.last.since(*until);
            let waiting = nodes - arrived.late.min(*nodes);
            format!(
                "{waiting} of {nodes} nodes wait at its barrier, the last to come is node {}, {later} later",
                arrived.who
            )
        };
        format!(
            "the stated time (limits.simulated_s) was over in step {} of {}; at {}: {waiting}",
            steps + 1,
            bounds.steps,
            until.since(self.begin)
        )
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
