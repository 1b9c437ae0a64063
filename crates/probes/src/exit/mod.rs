//! Cost of a trap to the hypervisor: `cpuid` between two reads of the cycle counter, against two reads with nothing
//! between them.
//!
//! Every hypervisor on x86 must handle `cpuid` itself (Intel SDM vol. 3, "Instructions That Cause VM Exits
//! Unconditionally"; AMD's is intercepted by all of them), and user space may execute it. aarch64 has no instruction that
//! user space may execute and that always leaves the guest, so the probe refuses there.

mod check;
pub mod detail;
mod metrics;
pub mod params;
mod pretend;
pub mod run;

use units::facts::MachineFacts;
use units::metric::Metric;

use self::detail::ExitDetail;
use self::params::ExitParams;
use crate::check::{Checked, because};
use crate::context::Context;
use crate::detail::Detail;
use crate::error::WorkError;
use crate::job::ProbeReport;
use crate::pretend::Maker;
use crate::probe::{About, Cost, OutOfBounds, Probe};

/// The probe.
#[derive(Debug, Clone, Copy)]
pub struct Exit;

impl Probe for Exit {
    type Params = ExitParams;
    type Detail = ExitDetail;

    const ABOUT: About = About::new(
        "Traps to the hypervisor",
        "An instruction that a hypervisor must handle itself, over and over. It shows what leaving the guest and coming back costs; on a machine without a hypervisor it is a slow instruction and nothing else.",
    );

    fn check_params(params: &ExitParams) -> Result<(), OutOfBounds> {
        params.check()
    }

    fn cost(params: &ExitParams, _facts: &MachineFacts) -> Cost {
        Cost::clock(params.duration_ms.to_duration())
    }

    fn run(params: &ExitParams, context: &Context<'_>) -> Result<ProbeReport, WorkError> {
        run::measure(params, context)
    }

    fn pretend(maker: &mut Maker, params: &ExitParams) -> Result<Detail, String> {
        pretend::pretend(maker, params)
    }

    fn saw_nothing(detail: &ExitDetail) -> Option<String> {
        because(detail.trap_ticks.is_empty() || detail.empty_ticks.is_empty(), "no instruction was timed")
    }

    fn check(detail: &ExitDetail) -> Checked {
        check::check(detail)
    }

    fn metrics(detail: &ExitDetail) -> Vec<Metric> {
        metrics::metrics(detail)
    }
}
