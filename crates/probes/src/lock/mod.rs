//! How long threads wait for a spinlock: what a hypervisor that takes the CPU from the holder of a lock costs all others.
//!
//! Source: Friebel and Biemueller 2008, *How to Deal with Lock Holder Preemption* (Xen, 16 virtual CPUs): nearly all
//! waits end within 2^16 cycles; a second hump at the hypervisor's time slice appears when the host is overcommitted,
//! and a lock that is first come, first served suffers most, since the next in line may not run either.
//!
//! ```text
//!  each thread:  free work ─► wait (timed) ─► held work ─► free work …     until the time is over
//! ```

mod bins;
pub(crate) mod check;
pub mod detail;
pub(crate) mod metrics;
pub mod params;
pub(crate) mod pretend;
pub mod run;
mod spinlock;

use units::facts::MachineFacts;

use self::detail::LockDetail;
use self::params::LockParams;
use crate::probe::{About, Cost, Probe};

/// The probe.
#[derive(Debug, Clone, Copy)]
pub struct Lock;

impl Probe for Lock {
    type Params = LockParams;
    type Detail = LockDetail;

    const ABOUT: About = About::new(
        "Waiting for locks",
        "Threads fight for one spinlock. When a hypervisor takes the CPU from the thread that holds it, the others \
         wait for a whole time slice: a second hump far to the right.",
    );

    fn cost(params: &LockParams, _facts: &MachineFacts) -> Cost {
        Cost::clock(params.duration_ms.to_duration() * 2)
    }
}
