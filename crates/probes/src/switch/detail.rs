//! What the switch probe brings home: raw enough that every figure can be computed again.

use serde::{Deserialize, Serialize};
use units::Nanos;

/// Who hands the turn to whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SwitchBetween {
    /// Two processes: another address space.
    Processes,
    /// Two threads of one process.
    Threads,
}

/// Through what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SwitchThrough {
    /// A byte through a pipe each way.
    Pipe,
    /// A word of shared memory that who waits sleeps on.
    Futex,
}

/// Where they run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SwitchPlace {
    /// Both pinned to the same CPU: each pass is a switch.
    SameCpu,
    /// Pinned to a CPU each: each pass is a wake-up on another CPU.
    TwoCpus,
}

/// A kind of switch.
pub type SwitchKind = (SwitchBetween, SwitchThrough, SwitchPlace);

/// All kinds, in the order of importance.
pub const KINDS: [SwitchKind; 8] = {
    use SwitchBetween::{Processes, Threads};
    use SwitchPlace::{SameCpu, TwoCpus};
    use SwitchThrough::{Futex, Pipe};
    [
        (Processes, Pipe, SameCpu),
        (Processes, Pipe, TwoCpus),
        (Threads, Futex, SameCpu),
        (Threads, Futex, TwoCpus),
        (Processes, Futex, SameCpu),
        (Processes, Futex, TwoCpus),
        (Threads, Pipe, SameCpu),
        (Threads, Pipe, TwoCpus),
    ]
};

/// So many passes, timed together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SwitchBatch {
    /// How often the turn was handed over, both ways counted.
    pub passes: u64,
    /// How long that took.
    pub elapsed_ns: Nanos,
    /// How long the same calls took beside it, as often, where nobody waits.
    pub alone_ns: Nanos,
}

/// One kind of switch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SwitchPoint {
    /// Between whom.
    pub between: SwitchBetween,
    /// Through what.
    pub through: SwitchThrough,
    /// Where.
    pub place: SwitchPlace,
    /// Why it could not be measured; there are no batches then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsupported: Option<String>,
    /// Batches in order.
    pub batches: Vec<SwitchBatch>,
}

impl SwitchPoint {
    /// Which kind.
    pub const fn kind(&self) -> SwitchKind {
        (self.between, self.through, self.place)
    }
}

/// Outcome of the context-switch probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SwitchDetail {
    /// One entry per kind.
    pub points: Vec<SwitchPoint>,
}
