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
mod check;
pub mod detail;
mod metrics;
pub mod params;
mod pretend;
pub mod run;
mod spinlock;

use units::facts::MachineFacts;
use units::metric::Metric;

use self::detail::LockDetail;
use self::params::LockParams;
use crate::check::{Checked, because};
use crate::context::Context;
use crate::detail::Detail;
use crate::error::WorkError;
use crate::job::ProbeReport;
use crate::pretend::Maker;
use crate::probe::{About, Cost, OutOfBounds, Probe};

/// The probe.
#[derive(Debug, Clone, Copy)]
pub struct Lock;

impl Probe for Lock {
    type Params = LockParams;
    type Detail = LockDetail;

    const ABOUT: About = About::new(
        "Waiting for locks",
        "Threads fight for one spinlock. When a hypervisor takes the CPU from the thread that holds it, the others wait for a whole time slice: a second hump far to the right.",
    );

    fn check_params(params: &LockParams) -> Result<(), OutOfBounds> {
        params.check()
    }

    fn cost(params: &LockParams, _facts: &MachineFacts) -> Cost {
        Cost::clock(params.duration_ms.to_duration() * 2)
    }

    fn run(params: &LockParams, context: &Context<'_>) -> Result<ProbeReport, WorkError> {
        run::measure(params, context)
    }

    fn pretend(maker: &mut Maker, params: &LockParams) -> Result<Detail, String> {
        pretend::pretend(maker, params)
    }

    fn saw_nothing(detail: &LockDetail) -> Option<String> {
        because(
            detail.points.is_empty() || detail.points.iter().any(|point| point.turns.iter().all(|n| *n == 0)),
            "nobody got one of the locks",
        )
    }

    fn check(detail: &LockDetail) -> Checked {
        check::check(detail)
    }

    fn metrics(detail: &LockDetail) -> Vec<Metric> {
        metrics::metrics(detail)
    }
}
