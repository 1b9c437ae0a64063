//! Fixed work quantum: the same empty loop, timed over and over; what is longer than the shortest was taken away by
//! somebody. Source: Van Hensbergen 2005; Sottile and Minnich 2004 name the weakness (long samples hide which
//! disturbance it was), which the gap probe does not have.

pub mod detail;
mod metrics;
pub mod params;
mod pretend;
pub mod run;

use units::Bytes;
use units::facts::MachineFacts;
use units::metric::Metric;

use self::detail::FwqDetail;
use self::params::FwqParams;
use crate::check::{Checked, MOST_VALUES, at_most, because, no_time};
use crate::context::Context;
use crate::detail::Detail;
use crate::error::WorkError;
use crate::job::ProbeReport;
use crate::pretend::Maker;
use crate::probe::{About, Cost, OutOfBounds, Probe};

/// The probe.
#[derive(Debug, Clone, Copy)]
pub struct Fwq;

impl Probe for Fwq {
    type Params = FwqParams;
    type Detail = FwqDetail;

    const ABOUT: About = About {
        is_about_shares: true,
        ..About::new(
            "Same work, again and again",
            "A fixed piece of work is done over and over, and each time is noted. On an ideal machine all times are equal; what lies above the shortest is interference.",
        )
    };

    fn check_params(params: &FwqParams) -> Result<(), OutOfBounds> {
        params.check()
    }

    fn cost(params: &FwqParams, _facts: &MachineFacts) -> Cost {
        Cost::work(params.iterations as f64 * f64::from(params.samples), 0.5)
    }

    fn memory(params: &FwqParams, _facts: &MachineFacts) -> Bytes {
        Bytes::from_bytes(u64::from(params.samples) * 16)
    }

    fn run(params: &FwqParams, context: &Context<'_>) -> Result<ProbeReport, WorkError> {
        run::measure(params, context)
    }

    fn pretend(maker: &mut Maker, params: &FwqParams) -> Result<Detail, String> {
        Ok(Detail::Fwq(maker.fwq(params)))
    }

    fn saw_nothing(detail: &FwqDetail) -> Option<String> {
        because(no_time(&detail.samples_ns), "no fixed work was timed")
    }

    fn check(detail: &FwqDetail) -> Checked {
        at_most("fwq.samples_ns", detail.samples_ns.len(), MOST_VALUES)
    }

    fn metrics(detail: &FwqDetail) -> Vec<Metric> {
        metrics::metrics(detail)
    }
}
