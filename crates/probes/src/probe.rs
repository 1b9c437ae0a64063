//! What a probe is, for everybody who need not know which one it is. Each is a folder, which implements [`Probe`]; what it does
//! is asked of its files by their names (`list`):
//!
//! ```text
//!  params::…Params ─► .check()                           bounds of what a user may set
//!      ├► Probe: ABOUT, cost, memory, disk …             before it runs
//!      └► run::measure, or pretend::pretend ─► detail    in an instance, or made up
//!                                                ├► check::saw_nothing, check::check     what is believed of it
//!                                                └► metrics::metrics, the main one first what it means, metrics::DEFINITIONS
//! ```
//! One that saw nothing is a failure with a reason and never a rate of zero: a probe that a busy machine kept from its CPU says
//! nothing of the machine.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use units::Bytes;
use units::facts::MachineFacts;
use units::histogram::Histogram;
use units::names::fits;
use units::scheduling::Scheduling;

/// A measurement kernel.
pub trait Probe {
    /// What a user may set.
    type Params;
    /// What it brings home.
    type Detail;

    /// What is known of it before it is set up.
    const ABOUT: About;

    /// How long it takes in a process of the host.
    fn cost(params: &Self::Params, facts: &MachineFacts) -> Cost;

    /// Seconds that moving its data adds between so many instances, where work takes `slow` times as long as in a process;
    /// nothing is run at 0.
    fn transfer(_params: &Self::Params, _instances: f64, _slow: f64) -> f64 {
        0.0
    }

    /// What may come on top of all that at worst.
    fn at_worst(_params: &Self::Params) -> Duration {
        Duration::ZERO
    }

    /// Memory that it fills.
    fn memory(_params: &Self::Params, _facts: &MachineFacts) -> Bytes {
        Bytes::from_bytes(0)
    }

    /// Room that it takes on the disk.
    fn disk(_params: &Self::Params) -> Bytes {
        Bytes::from_bytes(0)
    }

    /// The same with so many percent more work in what it times, which its figures still take for the work that was asked for: a
    /// known slowdown. None for a probe whose figures are no times of work that it counts itself.
    fn with_more_work(_params: &Self::Params, _percent: f64) -> Option<Self::Params> {
        None
    }

    /// How its threads were scheduled, where its figures hang on it.
    fn scheduling(_detail: &Self::Detail) -> Option<Scheduling> {
        None
    }

    /// Of a metric that is a quantile of values whose rounds may be taken together: those values, and which quantile (0 … 1).
    fn tail(_detail: &Self::Detail, _metric: &str) -> Option<(Histogram, f64)> {
        None
    }

    /// How long things took, where it makes sense to ask how often they take longer than any time.
    fn lengths(_detail: &Self::Detail) -> Option<Lengths> {
        None
    }
}

/// What shares are shares of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Whole {
    /// Of the time: gaps count as long as they last.
    Time,
    /// Of the activations that were due.
    Activations,
    /// Of the frames that were due.
    Frames,
}

/// How long things took in one measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct Lengths {
    /// In the order they were taken; one where the outcome is not divided into any.
    pub batches: Vec<Histogram>,
    /// What is asked for a share of.
    pub of: Whole,
    /// Nanoseconds of a unit of the values.
    pub unit_ns: f64,
    /// Time from one to the next, nanoseconds, where each counts alike.
    pub period_ns: f64,
    /// How many there are at once.
    pub at_once: f64,
    /// Metrics that are quantiles of these values, each with the share that lies beyond it.
    pub quantiles: Vec<(&'static str, f64)>,
}

/// So many rounds and so many percent more.
pub fn more_rounds(rounds: u64, percent: f64) -> u64 {
    rounds.saturating_add(units::metric::saturate(rounds as f64 * percent / 100.0))
}

/// What is known of a probe before it is set up.
#[derive(Debug, Clone, Copy, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a property of its own")]
pub struct About {
    /// Heading of its section in the report.
    pub title: &'static str,
    /// What it measures and how to read it.
    pub explanation: &'static str,
    /// Whether several instances make it together; each of the others is made by one instance for itself.
    pub is_made_together: bool,
    /// Whether its main metric is a throughput or the time of fixed work, which several instances divide among them.
    pub is_about_shares: bool,
    /// Whether it is about memory, so that the host looks where the guest's lies.
    pub is_about_memory: bool,
    /// Whether it wants an instance that has just been started: it measures what only a fresh one shows.
    pub wants_fresh_instance: bool,
    /// Whether it asks again and again for what others are to do, and yields: among processes of one group each yield gives a
    /// busy neighbour the CPU for a turn.
    pub polls: bool,
    /// How many times as long its work takes in a guest as in a process.
    pub slowdown: Slowdown,
}

/// What a figure of a probe is, in a sentence that names how it comes about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Definition {
    /// Id of the metric; `*` in it stands for any text, so that metrics that differ in a number are defined once.
    pub ids: &'static str,
    /// The sentence.
    pub words: &'static str,
}

impl Definition {
    /// The first of these that defines a metric of this id.
    pub fn of(all: &'static [Self], id: &str) -> Option<&'static Self> {
        all.iter().find(|definition| fits(definition.ids, id))
    }
}

/// How many times as long work takes as in a process, typically.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slowdown {
    /// In a guest whose code runs on the CPU.
    pub virtualized: f64,
    /// In a guest whose code is translated.
    pub translated: f64,
}

impl About {
    /// A probe that one instance makes for itself, of work that is slowed down as most is.
    pub const fn new(title: &'static str, explanation: &'static str) -> Self {
        Self {
            title,
            explanation,
            is_made_together: false,
            is_about_shares: false,
            is_about_memory: false,
            wants_fresh_instance: false,
            polls: false,
            slowdown: Slowdown { virtualized: 1.15, translated: 8.0 },
        }
    }
}

/// Seconds in a process of the host.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Cost {
    /// Time that it is told: the same everywhere.
    pub by_clock: f64,
    /// Time for its work, which depends on the machine.
    pub by_work: f64,
}

impl Cost {
    /// A time that it is told.
    pub fn clock(time: Duration) -> Self {
        Self { by_clock: time.as_secs_f64(), by_work: 0.0 }
    }

    /// So many pieces of work of this length each.
    pub fn work(count: f64, nanos_each: f64) -> Self {
        Self { by_clock: 0.0, by_work: count * nanos_each / 1e9 }
    }

    /// So many exchanges of this time each: connecting and agreeing on them is work.
    pub fn exchanges(each: Duration, count: u32) -> Self {
        Self { by_work: f64::from(count) * 0.006, ..Self::clock(each.saturating_mul(count)) }
    }
}

/// Time per byte of a message between two processes of a host, once it is large.
const MESSAGE_BYTE_NS: f64 = 1.0;

/// Seconds that a message takes where work takes `slow` times as long.
pub fn message_time(bytes: u32, slow: f64) -> f64 {
    f64::from(bytes) * MESSAGE_BYTE_NS / 1e9 * slow
}

/// Seconds of so many whole messages, or exchanges, of this length each as fill this time: none ends in its middle.
pub fn whole_messages(time: f64, each: f64) -> f64 {
    if each > 0.0 { (time / each).ceil() * each } else { time }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::{FwqParams, ProbeKind, ProbeSpec};

    #[test]
    fn only_probes_that_count_their_work_themselves_can_be_given_more_and_it_is_that_much_more() {
        let more =
            ProbeKind::ALL.iter().filter(|kind| ProbeSpec::default_of(**kind).with_more_work(5.0).is_some());
        let more: Vec<&str> = more.map(|kind| kind.as_str()).collect();
        assert_eq!(more, ["fwq", "frames", "cpu"], "what docs, errors and reports name");
        let fwq = |iterations| ProbeSpec::Fwq(FwqParams { iterations, samples: 200 });
        assert_eq!(fwq(50_000).with_more_work(5.0), Some(fwq(52_500)));
        assert_eq!(fwq(1001).with_more_work(0.1), Some(fwq(1002)));
        assert_eq!(fwq(u64::MAX).with_more_work(100.0), Some(fwq(u64::MAX)));
    }

    #[test]
    fn the_first_that_fits_defines() {
        const ALL: &[Definition] = &[
            Definition { ids: "*_trip_p*_ns", words: "two" },
            Definition { ids: "bound_*_ns", words: "one" },
            Definition { ids: "read_ns", words: "none" },
        ];
        let words = |id: &str| Definition::of(ALL, id).map(|known| known.words);
        assert_eq!(words("tcp_trip_p99_ns"), Some("two"));
        assert_eq!(words("bound_99_9_ns"), Some("one"));
        assert_eq!(words("read_ns"), Some("none"));
        for id in ["tcp_trip_max_ns", "bound_ns", "read", "unbound_9_ns"] {
            assert_eq!(words(id), None, "{id}");
        }
    }
}
