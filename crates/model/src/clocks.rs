//! What a run says of the clocks of its platforms: summarised from the outside times of its measurements.

use serde::{Deserialize, Serialize};

use super::journal::Cell;

/// Most steps of one platform that are listed; the rest is counted.
pub const STEPS_KEPT: usize = 32;

/// Whether a platform's clock can be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ClockLevel {
    /// It runs as the host's does, within 100 ppm, which is what crystals differ by.
    Agrees,
    /// It runs up to 500 ppm faster or slower, which is what a time daemon may do to it.
    Drifts,
    /// It runs further off than any time daemon would make it, or it was set during measurements or between them.
    Lies,
    /// It was not compared, or not long enough.
    Unknown,
}

/// A rate in parts per million with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Ppm {
    /// Estimate; above 0 when the platform's clock is the faster one.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// A clock that was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SteppedClock {
    /// `CLOCK_REALTIME`, against the instance's own `CLOCK_MONOTONIC`: somebody set the time of day.
    #[default]
    Realtime,
    /// `CLOCK_MONOTONIC`, against the host's: nobody can set it, but who carries the instance can make it jump.
    Monotonic,
}

/// One measurement of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MeasurementName {
    /// What was measured.
    pub cell: Cell,
    /// In which round.
    pub round: u32,
}

/// A step of one of an instance's clocks, during a measurement or between two that the same instance made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClockStep {
    /// During which measurement; with `since`, before which one.
    pub cell: Cell,
    /// Of which round.
    pub round: u32,
    /// The instance's measurement before, where the clock was set between the two; none for a step during a measurement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<MeasurementName>,
    /// Which clock.
    #[serde(default)]
    pub clock: SteppedClock,
    /// How far, nanoseconds; above 0 when the clock was set forward.
    pub step_ns: i64,
    /// Error bar, nanoseconds.
    pub error_ns: u64,
}

/// What is known of one platform's clock.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClockVerdict {
    /// Label of the platform.
    pub platform: String,
    /// Measurements with outside time.
    pub measurements: u32,
    /// Of these, how many asked the host's clock by datagrams; the others asked over the link.
    pub by_datagrams: u32,
    /// Whether it can be believed.
    pub level: ClockLevel,
    /// That in a sentence.
    pub sentence: String,
    /// Its `CLOCK_MONOTONIC` against the host's; none without measurements that are long enough to say.
    pub drift_ppm: Option<Ppm>,
    /// Its `CLOCK_MONOTONIC` against its own `CLOCK_MONOTONIC_RAW`: what its kernel does to its clock on purpose.
    pub slew_ppm: Option<Ppm>,
    /// Largest disagreement about the length of one measurement, nanoseconds: its own length less the outside one.
    pub largest_disagreement_ns: i64,
    /// Error bar of that, nanoseconds.
    pub disagreement_error_ns: u64,
    /// Median round trip to the host's clock, nanoseconds.
    pub round_trip_ns: u64,
    /// Steps of its clocks, the largest first, at most [`STEPS_KEPT`].
    pub steps: Vec<ClockStep>,
    /// Steps in all.
    pub step_count: u32,
}
