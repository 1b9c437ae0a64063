//! Both sides of a measurement: what an instance saw of its time, and what its host saw of the instance meanwhile.

use serde::{Deserialize, Serialize};

use probes::detail::Stretch;
use units::accounts::HostAccount;
use units::outside::OutsideTime;

/// Most slices of the host's account that results keep.
pub const SLICES_KEPT: usize = 1024;

/// One round of a gap probe, seen from the inside and from the outside. Of all rounds the one with the longest gap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BothSides {
    /// Number of the round, from 0.
    pub round: u32,
    /// The longest gaps of this round on the instance's clock, counted from the start of the probe.
    pub gaps: Vec<Stretch>,
    /// The span of the probe on both clocks: what puts the gaps on the host's clock.
    pub outside: OutsideTime,
    /// What the host saw; at most [`SLICES_KEPT`] slices.
    pub host: HostAccount,
}
