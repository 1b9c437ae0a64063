//! Parameters of each probe: what a user may set in an experiment, with defaults and bounds.
//!
//! Every struct refuses unknown keys; [`Probes::check`] refuses values outside the bounds stated at each field. A new
//! probe is one line in the list below and a struct with `check`.

mod basic;
mod compute;
mod peers;
mod share;
mod timing;

pub use basic::*;
pub use compute::*;
pub use peers::*;
pub use share::*;
pub use timing::*;

use serde::{Deserialize, Serialize};

use super::names::ProbeKind;

macro_rules! probes {
    ($($(#[$meta:meta])* $field:ident: $variant:ident($params:ident)),+ $(,)?) => {
        /// The probes of an experiment: a probe is measured when its table is there, `[probe.gap]` for example.
        #[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
        #[cfg_attr(test, derive(schemars::JsonSchema))]
        #[serde(deny_unknown_fields, rename_all = "kebab-case")]
        pub struct Probes {
            $($(#[$meta])*
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub $field: Option<$params>,)+
        }

        /// One probe with its parameters, as it is sent to an agent.
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
        #[cfg_attr(test, derive(schemars::JsonSchema))]
        #[serde(tag = "probe", content = "params", rename_all = "kebab-case")]
        pub enum ProbeSpec {
            $($(#[$meta])* $variant($params),)+
        }

        impl ProbeSpec {
            /// Which probe this is.
            pub const fn kind(&self) -> ProbeKind {
                match self { $(Self::$variant(_) => ProbeKind::$variant,)+ }
            }

            /// The probe with its default parameters.
            pub fn default_of(kind: ProbeKind) -> Self {
                match kind { $(ProbeKind::$variant => Self::$variant($params::default()),)+ }
            }

            /// Checks every bound of its parameters.
            pub fn check(&self) -> Result<(), OutOfBounds> {
                match self { $(Self::$variant(params) => params.check(),)+ }
            }
        }

        impl Probes {
            /// The probes that are to be measured, in the order of [`ProbeKind::ALL`].
            pub fn specs(&self) -> Vec<ProbeSpec> {
                [$(self.$field.clone().map(ProbeSpec::$variant),)+].into_iter().flatten().collect()
            }

            /// Drops every probe that is not in `keep`.
            pub fn retain(&mut self, keep: &[ProbeKind]) {
                $(self.$field.take_if(|_| !keep.contains(&ProbeKind::$variant));)+
            }

            /// Adds a probe, or replaces its parameters.
            pub fn set(&mut self, spec: ProbeSpec) {
                match spec { $(ProbeSpec::$variant(params) => self.$field = Some(params),)+ }
            }
        }
    };
}

probes! {
    /// Gap probe.
    gap: Gap(GapParams),
    /// Fixed work quantum.
    fwq: Fwq(FwqParams),
    /// Fixed time quantum.
    ftq: Ftq(FtqParams),
    /// Timer wake-up latency.
    wakeup: Wakeup(WakeupParams),
    /// Frames of an interactive program.
    frames: Frames(FramesParams),
    /// Threads versus time.
    cpu: Cpu(CpuParams),
    /// System call cost.
    syscall: Syscall(SyscallParams),
    /// fork + exec + wait.
    fork: Fork(ForkParams),
    /// Trap to the hypervisor.
    exit: Exit(ExitParams),
    /// Spinlock waits.
    lock: Lock(LockParams),
    /// LU solve.
    linpack: Linpack(LinpackParams),
    /// Compile job.
    build: Build(BuildParams),
    /// Pointer chase.
    mem_latency: MemLatency(MemLatencyParams),
    /// Memory throughput.
    mem_bandwidth: MemBandwidth(MemBandwidthParams),
    /// First touch of pages.
    pages: Pages(PagesParams),
    /// Disk throughput and stalls.
    disk: Disk(DiskParams),
    /// Network between two instances.
    net: Net(NetParams),
    /// Message passing between instances.
    mpi: Mpi(MpiParams),
    /// Shares of the CPUs.
    share: Share(ShareParams),
}

impl ProbeSpec {
    /// Whether the probe is made by several instances together; the others are made by each instance for itself.
    pub const fn is_made_together(&self) -> bool {
        self.kind().is_made_together()
    }

    /// Whether the probe wants an instance that has just been started: it measures what only a fresh one shows.
    pub const fn wants_fresh_instance(&self) -> bool {
        matches!(self, Self::Pages(_))
    }
}

impl Probes {
    /// Checks every bound; the error names the key, what was written and what is allowed.
    pub fn check(&self) -> Result<(), OutOfBounds> {
        self.specs().iter().try_for_each(ProbeSpec::check)
    }
}

/// A parameter outside its bounds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key} = {got} is out of bounds; allowed is {least} to {most}")]
pub struct OutOfBounds {
    /// The key as it is written in an experiment.
    pub key: &'static str,
    /// The value written.
    pub got: u64,
    /// Smallest allowed value.
    pub least: u64,
    /// Largest allowed value.
    pub most: u64,
}

/// Checks one value against its bounds.
pub(crate) fn within(key: &'static str, got: u64, least: u64, most: u64) -> Result<(), OutOfBounds> {
    if (least..=most).contains(&got) { Ok(()) } else { Err(OutOfBounds { key, got, least, most }) }
}

/// An hour: the longest that a single duration may be.
const HOUR_MS: u64 = 3_600_000;
