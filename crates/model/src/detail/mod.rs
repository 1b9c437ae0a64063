//! What each probe brings home: raw enough that every figure can be computed again from the journal.
//!
//! Agents send only these; metrics are computed from them on the host (`stats`), so a guest is not trusted with
//! arithmetic and an old run can be read with newer statistics.

mod alignment;
mod basic;
mod compute;
mod peers;
mod seen;
mod timing;
mod witnessed;

pub use alignment::*;
pub use basic::*;
pub use compute::*;
pub use peers::*;
pub use timing::*;
pub use witnessed::*;

use serde::{Deserialize, Serialize};

use super::names::ProbeKind;
use super::scheduling::Scheduling;

/// How many of the worst events a probe keeps with their time stamps.
pub const WORST_KEPT: usize = 64;

macro_rules! details {
    ($($(#[$meta:meta])* $variant:ident($detail:ident)),+ $(,)?) => {
        /// Raw outcome of a probe.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[cfg_attr(test, derive(schemars::JsonSchema))]
        #[serde(tag = "probe", rename_all = "kebab-case")]
        pub enum Detail {
            $($(#[$meta])* $variant($detail),)+
        }

        impl Detail {
            /// Which probe this comes from.
            pub const fn kind(&self) -> ProbeKind {
                match self { $(Self::$variant(_) => ProbeKind::$variant,)+ }
            }
        }
    };
}

impl Detail {
    /// How its threads were scheduled; none for probes that ask nothing of the scheduler.
    pub fn scheduling(&self) -> Option<Scheduling> {
        let Self::Wakeup(wakeup) = self else { return None };
        Some(wakeup.priority.map_or(Scheduling::Normal, |priority| Scheduling::Fifo { priority }))
    }
}

details! {
    /// Gap probe.
    Gap(GapDetail),
    /// Fixed work quantum.
    Fwq(FwqDetail),
    /// Fixed time quantum.
    Ftq(FtqDetail),
    /// Timer wake-up latency.
    Wakeup(WakeupDetail),
    /// Frames of an interactive program.
    Frames(FramesDetail),
    /// Threads versus time.
    Cpu(CpuDetail),
    /// System call cost.
    Syscall(RateDetail),
    /// fork + exec + wait.
    Fork(RateDetail),
    /// Trap to the hypervisor.
    Exit(ExitDetail),
    /// Spinlock waits.
    Lock(LockDetail),
    /// LU solve.
    Linpack(LinpackDetail),
    /// Compile job.
    Build(BuildDetail),
    /// Pointer chase.
    MemLatency(MemLatencyDetail),
    /// Memory throughput.
    MemBandwidth(MemBandwidthDetail),
    /// First touch of pages.
    Pages(PagesDetail),
    /// Disk throughput and stalls.
    Disk(DiskDetail),
    /// Network between two instances.
    Net(NetDetail),
    /// Message passing between instances.
    Mpi(MpiDetail),
    /// Shares of the CPUs.
    Share(ShareDetail),
}
