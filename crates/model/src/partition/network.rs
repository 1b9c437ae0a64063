//! What a network's switch says of itself, in a file beside its sockets, and who has which address.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

/// A partition's name with one of its addresses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamedAddress {
    /// Where it is.
    pub address: Ipv4Addr,
    /// How it is called.
    pub name: String,
}

/// State of a switch.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SwitchState {
    /// Its process.
    pub pid: u32,
    /// By number of the plug; 0 is the trunk to the other switch.
    pub plugs: BTreeMap<u8, PlugCounts>,
}

/// What was counted at a plug since the switch began. Received is what came from the partition, sent what went to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PlugCounts {
    /// Whether somebody is in it.
    pub connected: bool,
    /// How often somebody came.
    pub connections: u64,
    /// Frames that came.
    pub received_frames: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Frames that went, or wait to go.
    pub sent_frames: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Frames for it that were lost because it did not read, and those of it that waited while its switch stood still.
    pub lost_frames: u64,
    /// Frames of it that were none, or are never forwarded.
    pub invalid_frames: u64,
    /// Frames of it with another one's address as their source: hardware, IPv4, IPv6, or in what ARP and neighbour
    /// discovery say.
    pub foreign_frames: u64,
}
