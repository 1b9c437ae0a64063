//! Outcomes of the probes that several instances make together: network, message passing, shares.

use serde::{Deserialize, Serialize};

use crate::histogram::Histogram;
use crate::params::{Exchange, Protocol};
use crate::units::{Bytes, Hertz, Nanos};

/// Direction of a stream as seen from the first instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum NetDirection {
    /// The first instance sends.
    Out,
    /// The first instance receives.
    In,
    /// There and back.
    Both,
}

/// One protocol, exchange, size and direction. Bytes and messages are those that arrived; of a round trip the answer
/// counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct NetPoint {
    /// Transport protocol.
    pub protocol: Protocol,
    /// What goes over it.
    pub exchange: Exchange,
    /// Direction.
    pub direction: NetDirection,
    /// Size of a message.
    pub message_bytes: u32,
    /// Why this point could not be measured; all below is empty then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsupported: Option<String>,
    /// How long it took: streams at the receiver from the first byte on, round trips at the first instance.
    pub elapsed_ns: Nanos,
    /// Messages sent; of a TCP stream those that the sender's kernel has taken, more than can have arrived.
    pub sent: u64,
    /// Messages that arrived (request-response: round trips completed).
    pub arrived: u64,
    /// Bytes that arrived.
    pub bytes: Bytes,
    /// Round trips in nanoseconds; empty for streams.
    pub round_trip_ns: Histogram,
    /// CPU time of the first instance's thread that moves the data; loads beside it are other threads.
    pub first_cpu_ns: Nanos,
    /// The same of the second instance.
    pub second_cpu_ns: Nanos,
    /// CPU time of the whole first instance, its kernel's interrupt work and any load included, in steps of 10 ms; only
    /// where the two instances have a kernel of their own each: in containers and on one kernel it is everybody's.
    pub first_system_ns: Option<Nanos>,
    /// The same of the second instance.
    pub second_system_ns: Option<Nanos>,
    /// From its begin to its end at the first instance; none where it was not measured, and in journals of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span: Option<NetSpan>,
    /// CPU time that the host's kernel counts meanwhile for everything that carries the first instance: its process, its
    /// container, its QEMU with all threads. Filled in by the host, none on the wire, and where the host cannot tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_host_ns: Option<Nanos>,
    /// The same of the second instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second_host_ns: Option<Nanos>,
}

/// When an exchange was made, `CLOCK_MONOTONIC` of the first instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct NetSpan {
    /// Its begin.
    pub began_ns: Nanos,
    /// Its end.
    pub ended_ns: Nanos,
}

impl NetPoint {
    /// A point without any figures.
    pub fn empty(
        protocol: Protocol,
        exchange: Exchange,
        direction: NetDirection,
        message_bytes: u32,
    ) -> Self {
        Self {
            protocol,
            exchange,
            direction,
            message_bytes,
            unsupported: None,
            elapsed_ns: Nanos::ZERO,
            sent: 0,
            arrived: 0,
            bytes: Bytes::from_bytes(0),
            round_trip_ns: Histogram::default(),
            first_cpu_ns: Nanos::ZERO,
            second_cpu_ns: Nanos::ZERO,
            first_system_ns: None,
            second_system_ns: None,
            span: None,
            first_host_ns: None,
            second_host_ns: None,
        }
    }
}

/// Outcome of the network probe, as the first instance of a pair tells it; the second, and one without a partner, have no
/// points. Instances 0 and 1, 2 and 3 and so on are pairs that measure at the same time.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct NetDetail {
    /// One entry per protocol, exchange, size and direction.
    pub points: Vec<NetPoint>,
    /// The outcomes of the other pairs, in order; filled in by the host, empty on the wire.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<NetDetail>,
}

/// Pattern of message passing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum MpiPattern {
    /// First and last rank send a message to and fro.
    PingPong,
    /// Every rank sends to every other one.
    AllToAll,
}

/// One pattern and size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MpiDetail {
    /// Ranks in all.
    pub ranks: u32,
    /// Ranks in each instance.
    pub ranks_per_instance: u32,
    /// One entry per pattern and size.
    pub points: Vec<MpiPoint>,
}

/// What one instance got in one phase of the share probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SharePhase {
    /// Threads of the first instance in this phase; 0 when it rested.
    pub first_threads: u32,
    /// Threads of each other instance in this phase; 0 when they rested.
    pub other_threads: u32,
    /// How long this instance worked.
    pub elapsed_ns: Nanos,
    /// CPU time its threads took, as its own kernel says.
    pub cpu_time_ns: Nanos,
    /// Rounds of the fixed loop its threads finished.
    pub rounds: u64,
    /// Stretches in which a thread did not run, in ticks, at least 50 µs long.
    pub away_ticks: Histogram,
    /// Stretches between those, in ticks: how long a thread runs at once.
    pub running_ticks: Histogram,
}

/// Outcome of the share probe in one instance. The curve needs those of all instances.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ShareDetail {
    /// Number of this instance in its layout.
    pub rank: u32,
    /// Instances in all.
    pub ranks: u32,
    /// CPUs this instance says it has.
    pub cpus: u32,
    /// Rate of the cycle counter.
    pub counter_hz: Hertz,
    /// The same phases in every instance, in order.
    pub phases: Vec<SharePhase>,
    /// The outcomes of the other instances, in order; filled in by the host, empty on the wire.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<ShareDetail>,
}
