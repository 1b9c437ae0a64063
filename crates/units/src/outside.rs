//! Time as seen from outside: a guest's clock may lie, so every measurement is also timed by the host's clock.
//!
//! ```text
//!  agent   local₁ ──ask──►            ──► local₂        one exchange; the quickest of several counts
//!  host                 host₁ answer host₂              host time at the middle, ± half the round trip
//! ```
//! Source of the method: Mills, RFC 5905 section 8 (on-wire protocol); of the demand: Danciu 2010.

use serde::{Deserialize, Serialize};

use super::quantity::Nanos;

/// How the host's clock was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ClockTransport {
    /// Datagrams to the host's clock.
    Udp,
    /// Messages over the agent's link.
    Link,
}

/// The host's clock and the instance's clocks at the same moment, from the quickest of several exchanges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClockReading {
    /// Host: `CLOCK_MONOTONIC` in the middle of the exchange.
    pub host_ns: Nanos,
    /// Instance: `CLOCK_MONOTONIC` in the middle of the exchange.
    pub monotonic_ns: Nanos,
    /// Instance: `CLOCK_MONOTONIC_RAW` at the same time.
    pub raw_ns: Nanos,
    /// Instance: `CLOCK_REALTIME` at the same time, since 1970.
    pub realtime_ns: Nanos,
    /// Round trip of the exchange, without the time the host needed to answer; half of it is the error bar.
    pub round_trip_ns: Nanos,
    /// Exchanges that were answered.
    pub exchanges: u32,
}

/// A measurement between two readings of the host's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OutsideTime {
    /// How the host's clock was asked.
    pub transport: ClockTransport,
    /// Before the probe.
    pub before: ClockReading,
    /// After the probe.
    pub after: ClockReading,
    /// When the probe began, `CLOCK_MONOTONIC` of the instance.
    pub began_ns: Nanos,
    /// When the probe ended, `CLOCK_MONOTONIC` of the instance.
    pub ended_ns: Nanos,
}

/// How long a probe took in one instance, by the instance's clock and by the host's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OutsideSpan {
    /// Number of the round, from 0.
    pub round: u32,
    /// Number of the instance in its layout; 0 for one that measured alone.
    pub rank: u32,
    /// How the host's clock was asked.
    pub transport: ClockTransport,
    /// Length of the probe on the instance's `CLOCK_MONOTONIC`.
    pub inside_ns: Nanos,
    /// The same on the host's clock.
    pub outside_ns: Nanos,
    /// Error bar of that: half of both round trips.
    pub error_ns: Nanos,
}

impl OutsideSpan {
    /// Length inside over length outside: above 1 when the instance's clock ran faster. None for a probe of no length.
    pub fn ratio(&self) -> Option<f64> {
        (self.outside_ns > Nanos::ZERO).then(|| self.inside_ns.as_f64() / self.outside_ns.as_f64())
    }
}
