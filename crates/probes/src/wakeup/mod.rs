//! Timer wake-up latency: a thread sleeps until each of a row of due times; how late does it run? What `cyclictest` of
//! the rt-tests measures, and besides it the activations that came due while the thread could not run.

pub mod activations;
mod check;
pub mod detail;
mod metrics;
pub mod params;
mod pretend;
pub mod run;

use units::facts::MachineFacts;
use units::metric::Metric;
use units::scheduling::Scheduling;

use self::detail::WakeupDetail;
use self::params::WakeupParams;
use crate::check::{Checked, because};
use crate::context::Context;
use crate::detail::Detail;
use crate::error::WorkError;
use crate::job::ProbeReport;
use crate::pretend::Maker;
use crate::probe::{About, Cost, OutOfBounds, Probe};

/// The probe.
#[derive(Debug, Clone, Copy)]
pub struct Wakeup;

impl Probe for Wakeup {
    type Params = WakeupParams;
    type Detail = WakeupDetail;

    const ABOUT: About = About::new(
        "Waking up on time",
        "A thread sleeps until the next due time, over and over. The response time counts from each due time until the thread runs, also for those that passed while it could not: nothing is left out because it was late.",
    );

    fn check_params(params: &WakeupParams) -> Result<(), OutOfBounds> {
        params.check()
    }

    fn cost(params: &WakeupParams, _facts: &MachineFacts) -> Cost {
        Cost::clock(params.duration_ms.to_duration())
    }

    fn scheduling(detail: &WakeupDetail) -> Option<Scheduling> {
        Some(detail.priority.map_or(Scheduling::Normal, |priority| Scheduling::Fifo { priority }))
    }

    fn run(params: &WakeupParams, context: &Context<'_>) -> Result<ProbeReport, WorkError> {
        run::measure(params, context)
    }

    fn pretend(maker: &mut Maker, params: &WakeupParams) -> Result<Detail, String> {
        pretend::pretend(maker, params)
    }

    fn saw_nothing(detail: &WakeupDetail) -> Option<String> {
        because(
            detail.threads.is_empty() || detail.threads.iter().any(|thread| thread.due == 0),
            "no activation came due on one of the CPUs",
        )
    }

    fn check(detail: &WakeupDetail) -> Checked {
        check::check(detail)
    }

    fn metrics(detail: &WakeupDetail) -> Vec<Metric> {
        metrics::metrics(detail)
    }
}
