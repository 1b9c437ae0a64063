//! What the net probe brings home: raw enough that every figure can be computed again.

use serde::{Deserialize, Serialize};
use units::histogram::Histogram;
use units::{Bytes, Nanos};

use crate::params::{Exchange, Protocol};

/// Direction of a stream as seen from the first instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NetDetail {
    /// One entry per protocol, exchange, size and direction.
    pub points: Vec<NetPoint>,
    /// The outcomes of the other pairs, in order; filled in by the host, empty on the wire.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<NetDetail>,
}
