//! Who took the time: lost time shared out among sources, each with its evidence, and a rest that nobody owns to.

use serde::{Deserialize, Serialize};

use units::Nanos;

/// Time that one source took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AttributedSource {
    /// Who: `timer tick`, `hypervisor (steal)`, or the name a tracer gives.
    pub name: String,
    /// How much of the lost time it took.
    pub lost_ns: Nanos,
    /// The same as a share of the lost time, 0 … 1.
    pub share: f64,
    /// Why this is believed, in one sentence.
    pub evidence: String,
}

/// Lost time and who took it. The sources and the rest add up to what was lost, never to more.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Attribution {
    /// What was lost. Gap probe: time in gaps longer than 1 µs, the same time as the metric `lost_share` counts. Wake-ups
    /// and disk operations: of those that took several times as long as the quickest quarter, what lies beyond that.
    pub lost_ns: Nanos,
    /// Who took it, most first; none that took nothing.
    pub sources: Vec<AttributedSource>,
    /// What nobody owns to.
    pub unattributed_ns: Nanos,
    /// What could not be asked, and why: the rest may be its.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
}
