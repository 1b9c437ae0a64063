//! By which policy are the CPUs shared? What the curves of the share probe say.

use serde::{Deserialize, Serialize};

use units::Nanos;
use units::layout::Layout;
use units::metric::Estimate;

/// How a scheduler divides CPUs among instances.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SharingPolicy {
    /// Every runnable thread gets the same, whoever owns it.
    EqualPerThread,
    /// Every instance gets the same, as far as it needs it.
    EqualPerInstance,
    /// Every instance gets a share in proportion to the CPUs it needs.
    ProportionalToNeed,
    /// Instances have weights; the parameter is the first one's weight over another one's.
    Weighted,
    /// No instance gets more than so many CPUs, even when the others rest; the parameter says how many.
    Capped,
    /// The first instance has so many CPUs for itself when it needs them; the rest is shared per thread.
    Reserved,
}

/// How well a policy explains what was measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PolicyFit {
    /// The policy.
    pub policy: SharingPolicy,
    /// Its parameter where it has one, as fitted.
    pub parameter: Option<f64>,
    /// How far it is off on average, as a share of what all instances got together; of a cap, as a share of all CPUs.
    pub misfit_share: f64,
}

/// One point of a curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SharePoint {
    /// Layout it was measured in.
    pub layout: Layout,
    /// Threads of the first instance.
    pub first_threads: u32,
    /// Threads of each other instance.
    pub other_threads: u32,
    /// CPUs the first instance got, median over the rounds.
    pub first_cpus: f64,
    /// CPUs each other instance got on average, median over the rounds.
    pub other_cpus: f64,
    /// What the named policy says the first one gets; none when none was named.
    pub predicted_first_cpus: Option<f64>,
}

/// A length at which a thread is often away at once: a time slice of somebody else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Hump {
    /// Typical length.
    pub length_ns: Nanos,
    /// Share of the time away that lies in stretches of about this length, per mille.
    pub share_per_mille: u32,
}

/// What an instance is sure to get beside others that want all.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Guarantee {
    /// Instances in all.
    pub instances: u32,
    /// CPUs it needs.
    pub needed_cpus: u32,
    /// CPUs it gets.
    pub guaranteed_cpus: f64,
}

/// By which policy a platform shares the CPUs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PolicyVerdict {
    /// Label of the platform.
    pub platform: String,
    /// The policy; none when none of those known explains the measurement, or two explain it as well.
    pub policy: Option<SharingPolicy>,
    /// The sentence.
    pub sentence: String,
    /// Its parameter with a 95 % interval, where it has one; none in older files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameter: Option<Estimate>,
    /// Every candidate, best first.
    pub fits: Vec<PolicyFit>,
    /// The curves.
    pub points: Vec<SharePoint>,
    /// Lengths of the time slices, most time first, at most 4.
    pub humps: Vec<Hump>,
    /// What an instance is sure to get; empty when no policy was named.
    pub guarantees: Vec<Guarantee>,
    /// Joint measurements that it rests on; 0 in older files.
    #[serde(default)]
    pub measurements: u32,
    /// Those of them that name this policy by themselves; 0 when none was named, and in older files.
    #[serde(default)]
    pub agreeing: u32,
}
