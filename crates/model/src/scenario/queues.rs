//! Where virtual CPUs wait for a CPU, and whether CPUs are in step: what tells the schedulers of real hosts from policies on
//! paper.

use serde::{Deserialize, Serialize};

use super::host::{HostSpec, PolicySpec};

/// Where virtual CPUs wait.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum QueuesSpec {
    /// In one queue for all CPUs: the policy without what its queues add.
    #[default]
    Single,
    /// Each CPU has a queue of its own, and takes work from others as the real scheduler does.
    PerCpu,
}

/// What a weight counts for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum WeightsSpec {
    /// For a VM, however many virtual CPUs it has: as Xen's manual says, and as its credit scheduler did up to 4.0.
    #[default]
    PerVm,
    /// For each virtual CPU that wants to run: as Xen's credit scheduler does since 4.1.
    PerVcpu,
}

impl HostSpec {
    /// Whether its CPUs are out of step, given or not.
    pub fn is_staggered(&self) -> bool {
        self.staggered.unwrap_or(matches!(
            self.policy,
            PolicySpec::Credit { .. } | PolicySpec::Credit2 { .. } | PolicySpec::Eevdf { .. }
        ))
    }
}

impl PolicySpec {
    /// Whether each CPU, or group of CPUs, has a queue of its own.
    pub const fn is_per_cpu(&self) -> bool {
        match self {
            Self::Credit { queues, .. } | Self::Credit2 { queues, .. } | Self::Eevdf { queues, .. } => {
                matches!(queues, QueuesSpec::PerCpu)
            }
            _ => false,
        }
    }
}
