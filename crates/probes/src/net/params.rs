//! What a user may set of the net probe, with defaults and bounds.

use serde::{Deserialize, Serialize};
use units::Millis;

use units::bounds::{HOUR_MS, OutOfBounds, within};

/// Transport protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// What goes over the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Exchange {
    /// One direction as fast as it goes, then the other.
    Stream,
    /// A message there, one of the same size back, over and over.
    RequestResponse,
}

/// Parameters of the network probe, made by pairs of instances of a layout: 0 and 1, 2 and 3 and so on, all at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct NetParams {
    /// Protocols, 1 to 2 of them.
    pub protocols: Vec<Protocol>,
    /// Kinds of exchange, 1 to 2 of them.
    pub exchanges: Vec<Exchange>,
    /// Message sizes, 1 B … 32 MiB each, 1 to 16 of them. UDP leaves out those above 65507 bytes, and says so.
    pub message_bytes: Vec<u32>,
    /// How long per protocol, exchange, size and direction, 10 ms … 1 h.
    pub duration_ms: Millis,
}

impl Default for NetParams {
    fn default() -> Self {
        Self {
            protocols: vec![Protocol::Tcp, Protocol::Udp],
            exchanges: vec![Exchange::Stream, Exchange::RequestResponse],
            message_bytes: vec![1, 1024, 65_536],
            duration_ms: Millis::from_millis(100),
        }
    }
}

impl NetParams {
    pub(crate) fn check(&self) -> Result<(), OutOfBounds> {
        within("number of probe.net.protocols", self.protocols.len() as u64, 1, 2)?;
        within("number of probe.net.exchanges", self.exchanges.len() as u64, 1, 2)?;
        within("number of probe.net.message_bytes", self.message_bytes.len() as u64, 1, 16)?;
        for size in &self.message_bytes {
            within("probe.net.message_bytes", (*size).into(), 1, 32 << 20)?;
        }
        within("probe.net.duration_ms", self.duration_ms.get(), 10, HOUR_MS)
    }
}
