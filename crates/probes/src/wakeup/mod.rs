//! Timer wake-up latency: a thread sleeps until each of a row of due times; how late does it run? What `cyclictest` of
//! the rt-tests measures, and besides it the activations that came due while the thread could not run.

pub mod activations;
pub(crate) mod check;
pub mod detail;
pub(crate) mod metrics;
pub mod params;
pub(crate) mod pretend;
pub mod run;

use units::facts::MachineFacts;
use units::histogram::Histogram;
use units::scheduling::Scheduling;

use self::detail::WakeupDetail;
use self::params::WakeupParams;
use crate::probe::{About, Cost, Lengths, Probe};

/// The probe.
#[derive(Debug, Clone, Copy)]
pub struct Wakeup;

impl Probe for Wakeup {
    type Params = WakeupParams;
    type Detail = WakeupDetail;

    const ABOUT: About = About::new(
        "Waking up on time",
        "A thread sleeps until the next due time, over and over. The response time counts from each due time until \
         the thread runs, also for those that passed while it could not: nothing is left out because it was late.",
    );

    fn cost(params: &WakeupParams, _facts: &MachineFacts) -> Cost {
        Cost::clock(params.duration_ms.to_duration())
    }

    fn scheduling(detail: &WakeupDetail) -> Option<Scheduling> {
        Some(detail.priority.map_or(Scheduling::Normal, |priority| Scheduling::Fifo { priority }))
    }

    fn tail(detail: &WakeupDetail, metric: &str) -> Option<(Histogram, f64)> {
        metrics::tail(detail, metric)
    }

    fn lengths(detail: &WakeupDetail) -> Option<Lengths> {
        Some(metrics::lengths(detail))
    }
}
