//! Cost of a process: fork, exec of a program that ends at once, wait. `fork` and not `posix_spawn`, because copying
//! the page tables is what a hypervisor makes dear. Source: Lourot's thesis (fork + exit + wait), with exec added.

mod metrics;
pub mod params;
pub mod run;

pub mod detail {
    //! Its outcome is that of all probes that count.
    pub use crate::rate::RateDetail;
}

use units::facts::MachineFacts;
use units::metric::Metric;

use self::detail::RateDetail;
use self::params::ForkParams;
use crate::check::Checked;
use crate::context::Context;
use crate::detail::Detail;
use crate::error::WorkError;
use crate::job::ProbeReport;
use crate::pretend::Maker;
use crate::probe::{About, Cost, OutOfBounds, Probe};
use crate::rate::{check_rate, rates};

/// The probe.
#[derive(Debug, Clone, Copy)]
pub struct Fork;

impl Probe for Fork {
    type Params = ForkParams;
    type Detail = RateDetail;

    const ABOUT: About = About {
        is_about_shares: true,
        ..About::new(
            "Starting processes",
            "Start a process, run a program in it, wait for its end. This exercises page tables and the kernel and is where virtualization tends to cost most. Longer bars are better.",
        )
    };

    fn check_params(params: &ForkParams) -> Result<(), OutOfBounds> {
        params.check()
    }

    fn cost(params: &ForkParams, facts: &MachineFacts) -> Cost {
        Cost::clock(params.duration_ms.to_duration() * params.max_threads.unwrap_or(facts.cpus.max(1)))
    }

    fn run(params: &ForkParams, context: &Context<'_>) -> Result<ProbeReport, WorkError> {
        run::measure(params, context)
    }

    fn pretend(maker: &mut Maker, params: &ForkParams) -> Result<Detail, String> {
        Ok(Detail::Fork(maker.rate(params.duration_ms, params.max_threads, 600_000.0)))
    }

    fn saw_nothing(detail: &RateDetail) -> Option<String> {
        rates(detail, "process")
    }

    fn check(detail: &RateDetail) -> Checked {
        check_rate(detail)
    }

    fn metrics(detail: &RateDetail) -> Vec<Metric> {
        metrics::metrics(detail)
    }
}
