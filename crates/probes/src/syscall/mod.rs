//! Cost of entering the kernel: `getppid` in a loop, made as a raw system call, since a C library may cache it.
//! Source: Lourot's thesis.

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
use self::params::SyscallParams;
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
pub struct Syscall;

impl Probe for Syscall {
    type Params = SyscallParams;
    type Detail = RateDetail;

    const ABOUT: About = About {
        is_about_shares: true,
        ..About::new(
            "System calls",
            "The cheapest system call, in a loop. It shows what entering the kernel costs, and what a platform puts in between. Longer bars are better.",
        )
    };

    fn check_params(params: &SyscallParams) -> Result<(), OutOfBounds> {
        params.check()
    }

    fn cost(params: &SyscallParams, facts: &MachineFacts) -> Cost {
        Cost::clock(params.duration_ms.to_duration() * params.max_threads.unwrap_or(facts.cpus.max(1)))
    }

    fn run(params: &SyscallParams, context: &Context<'_>) -> Result<ProbeReport, WorkError> {
        run::measure(params, context)
    }

    fn pretend(maker: &mut Maker, params: &SyscallParams) -> Result<Detail, String> {
        Ok(Detail::Syscall(maker.rate(params.duration_ms, params.max_threads, 120.0)))
    }

    fn saw_nothing(detail: &RateDetail) -> Option<String> {
        rates(detail, "system call")
    }

    fn check(detail: &RateDetail) -> Checked {
        check_rate(detail)
    }

    fn metrics(detail: &RateDetail) -> Vec<Metric> {
        metrics::metrics(detail)
    }
}
