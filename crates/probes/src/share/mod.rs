//! Shares of the CPUs: the first instance runs more and more threads while the others want all CPUs, in phases that
//! every instance goes through at the same time. What each one got shows by which policy the CPUs are shared
//! (Lourot 2010; closed forms in `analysis::policy`).
//!
//! ```text
//!  start ─ lead ─┬─ settle ─┬─ phase 0 ─┬ pause ┬─ settle ─┬─ phase 1 ─┬ pause ┬ …   the same clock grid in every instance
//!                │ first alone: works,  │       │ others alone         │       │ both, more and more threads
//!                           └ and counts
//! ```
//!
//! A working thread does small pieces of arithmetic and reads the cycle counter after each. A piece that takes 50 µs or
//! more too long was a stretch away from the CPU; what lies between two of them is a stretch of running. So the figure
//! rests on the counter alone, not on what a guest's kernel believes it was given.

pub(crate) mod check;
pub mod detail;
pub mod metrics;
pub mod params;
pub(crate) mod pretend;
pub mod run;

use units::facts::MachineFacts;

use self::detail::ShareDetail;
use self::params::ShareParams;
use crate::probe::{About, Cost, Probe};

/// The probe.
#[derive(Debug, Clone, Copy)]
pub struct Share;

impl Probe for Share {
    type Params = ShareParams;
    type Detail = ShareDetail;

    const ABOUT: About = About {
        is_made_together: true,
        ..About::new(
            "Shares of the CPUs",
            "One instance needs some of the CPUs, the others want all of them. What it gets shows by which policy the \
             CPUs are shared.",
        )
    };

    fn cost(params: &ShareParams, facts: &MachineFacts) -> Cost {
        Cost::clock(params.takes(facts.cpus.max(1)))
    }
}
