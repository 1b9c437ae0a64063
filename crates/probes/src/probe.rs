//! What a probe is, for everybody who need not know which one it is: each has a folder with one implementation of [`Probe`].
//!
//! ```text
//!  params ─► check_params ─► cost, memory, disk           before it runs
//!         └► run, or pretend ─► Detail                    in an instance
//!                                 ├► saw_nothing, check   what is believed of it
//!                                 └► metrics              what it means
//! ```

use std::time::Duration;

use units::Bytes;
use units::facts::MachineFacts;
use units::metric::Metric;
use units::scheduling::Scheduling;

use crate::check::Checked;
use crate::context::Context;
use crate::detail::Detail;
use crate::error::WorkError;
use crate::job::ProbeReport;
use crate::pretend::Maker;

/// An hour: the longest that a single duration may be.
pub const HOUR_MS: u64 = 3_600_000;

/// A measurement kernel.
pub trait Probe {
    /// What a user may set.
    type Params;
    /// What it brings home.
    type Detail;

    /// What is known of it before it is set up.
    const ABOUT: About;

    /// Checks every bound of the parameters.
    ///
    /// # Errors
    /// The first key outside its bounds.
    fn check_params(params: &Self::Params) -> Result<(), OutOfBounds>;

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

    /// Measures.
    ///
    /// # Errors
    /// Why it could not be measured.
    fn run(params: &Self::Params, context: &Context<'_>) -> Result<ProbeReport, WorkError>;

    /// Makes an outcome up, for the fake platform.
    ///
    /// # Errors
    /// What a real machine of this size would refuse.
    fn pretend(maker: &mut Maker, params: &Self::Params) -> Result<Detail, String>;

    /// Why a measurement saw nothing; none when it saw something. One that did not is a failure with a reason and never a rate
    /// of zero: a probe that a busy machine kept from its CPU says nothing of the machine.
    fn saw_nothing(detail: &Self::Detail) -> Option<String>;

    /// How its threads were scheduled, where its figures hang on it.
    fn scheduling(_detail: &Self::Detail) -> Option<Scheduling> {
        None
    }

    /// What is believed of an outcome beyond its shape.
    ///
    /// # Errors
    /// The first broken rule, in words.
    fn check(detail: &Self::Detail) -> Checked;

    /// Its figures, the main one first.
    fn metrics(detail: &Self::Detail) -> Vec<Metric>;
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

/// A parameter outside its bounds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key} = {got} is out of bounds; allowed is {least} to {most}")]
pub struct OutOfBounds {
    /// The key as it is written in an experiment.
    pub key: &'static str,
    /// The value written.
    pub got: u64,
    /// Smallest allowed value.
    pub least: u64,
    /// Largest allowed value.
    pub most: u64,
}

/// Checks one value against its bounds.
///
/// # Errors
/// It lies outside.
pub fn within(key: &'static str, got: u64, least: u64, most: u64) -> Result<(), OutOfBounds> {
    if (least..=most).contains(&got) { Ok(()) } else { Err(OutOfBounds { key, got, least, most }) }
}
