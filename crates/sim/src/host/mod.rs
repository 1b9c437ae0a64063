//! The host: CPUs that are dealt out to virtual CPUs by a policy, which guests use or leave.
//!
//! ```text
//!            wake                      picked by the policy
//!  Halted ────────► Ready (steal) ◄──────────────────────────► Running (run)
//!     ▲                              its time is up, or yields     │
//!     └────────────────────────────────────────────────────────────┘ nothing to do
//! ```
//! Per CPU, always and exactly: run + switching + idle = wall. Per virtual CPU: run + steal + halted = wall, and the time
//! it was dispatched for is what it ran plus the switches at its expense.

mod cpus;
#[cfg(test)]
mod fluid;
mod machine;
mod report;
#[cfg(test)]
pub(crate) mod tests;
mod trace;
mod view;

pub use cpus::{CpuSet, MAX_CPUS};
pub use machine::{Done, Habits, Limits, Machine, Memory, Migration, Pause, Sharing, Speeds, Stopped, of_vm};
pub use report::{CpuReport, HostReport, VcpuReport};
pub use trace::{Mode, Stretch, Trace};
pub use view::{Cpu, CpuId, State, Vcpu, VcpuId, View, Vm, VmId};
