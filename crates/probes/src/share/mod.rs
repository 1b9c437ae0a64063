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

mod check;
pub mod detail;
pub mod metrics;
pub mod params;
mod pretend;
pub mod run;

use units::facts::MachineFacts;
use units::metric::Metric;

use self::detail::ShareDetail;
use self::params::ShareParams;
use crate::check::{Checked, because};
use crate::context::Context;
use crate::detail::Detail;
use crate::error::WorkError;
use crate::job::ProbeReport;
use crate::pretend::Maker;
use crate::probe::{About, Cost, OutOfBounds, Probe};

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
            "One instance needs some of the CPUs, the others want all of them. What it gets shows by which policy the CPUs are shared.",
        )
    };

    fn check_params(params: &ShareParams) -> Result<(), OutOfBounds> {
        params.check()
    }

    fn cost(params: &ShareParams, facts: &MachineFacts) -> Cost {
        Cost::clock(params.takes(facts.cpus.max(1)))
    }

    fn run(params: &ShareParams, context: &Context<'_>) -> Result<ProbeReport, WorkError> {
        run::measure(params, context)
    }

    fn pretend(maker: &mut Maker, params: &ShareParams) -> Result<Detail, String> {
        Ok(pretend::pretend(maker, params))
    }

    fn saw_nothing(detail: &ShareDetail) -> Option<String> {
        because(detail.phases.iter().all(|phase| phase.rounds == 0), "no round of work was done")
    }

    fn check(detail: &ShareDetail) -> Checked {
        check::check(detail)
    }

    fn metrics(detail: &ShareDetail) -> Vec<Metric> {
        metrics::metrics(detail)
    }
}
