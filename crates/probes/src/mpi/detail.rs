//! What the mpi probe brings home: raw enough that every figure can be computed again.

use serde::{Deserialize, Serialize};
use units::Nanos;
use units::histogram::Histogram;

/// Pattern of message passing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum MpiPattern {
    /// First and last rank send a message to and fro.
    PingPong,
    /// Every rank sends to every other one.
    AllToAll,
}

/// One pattern and size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MpiPoint {
    /// Pattern.
    pub pattern: MpiPattern,
    /// Size of each message.
    pub message_bytes: u32,
    /// Iterations.
    pub iterations: u64,
    /// How long they took together.
    pub elapsed_ns: Nanos,
    /// Time of each iteration in nanoseconds, at the first rank: ping-pong there and back, all-to-all until the last
    /// message has arrived.
    pub iteration_ns: Histogram,
}

/// Outcome of the message-passing probe, as the first rank tells it; the other instances have no points.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MpiDetail {
    /// Ranks in all.
    pub ranks: u32,
    /// Ranks in each instance.
    pub ranks_per_instance: u32,
    /// One entry per pattern and size.
    pub points: Vec<MpiPoint>,
}
