//! What the lock probe brings home: raw enough that every figure can be computed again.

use serde::{Deserialize, Serialize};
use units::{Hertz, Nanos};

/// A kind of spinlock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum LockKind {
    /// Plain test-and-set: whoever comes at the right moment.
    TestAndSet,
    /// FIFO ticket: first come, first served.
    Ticket,
}

/// Waits for one kind of lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LockPoint {
    /// Which kind.
    pub kind: LockKind,
    /// How long the threads fought, from the first one's begin to the last one's end.
    pub elapsed_ns: Nanos,
    /// The time from each thread's begin to its end, added up over all threads: what the waiting is a share of.
    pub thread_time_ns: Nanos,
    /// Waits whose length in ticks has its highest bit at this place: entry b counts `[2^b, 2^(b+1))`, 0 and 1 in the
    /// first. At most [`MOST_WAIT_BINS`] entries.
    pub waits: Vec<u64>,
    /// Ticks waited in each of those bins.
    pub wait_ticks: Vec<u64>,
    /// Turns of each thread.
    pub turns: Vec<u64>,
    /// Longest wait, ticks.
    pub longest_ticks: u64,
}

/// Outcome of the lock probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LockDetail {
    /// Rate of the cycle counter.
    pub counter_hz: Hertz,
    /// Threads that fought.
    pub threads: u32,
    /// CPUs the instance says it has.
    pub cpus: u32,
    /// One entry per kind of lock.
    pub points: Vec<LockPoint>,
}

/// Most bins of lock waits: one per bit of the counter.
pub const MOST_WAIT_BINS: usize = 64;
