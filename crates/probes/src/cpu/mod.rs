//! Threads versus time: T threads each do the same fixed work at once, T = 1 … 2 × CPUs. The time is flat until T
//! reaches the execution units really granted, then it grows in a line. Source: Lourot's thesis.

pub mod detail;
mod metrics;
pub mod params;
mod pretend;
pub mod run;

use units::facts::MachineFacts;
use units::metric::Metric;

use self::detail::CpuDetail;
use self::params::CpuParams;
use crate::check::{Checked, MOST_POINTS, MOST_VALUES, at_most, because, no_time};
use crate::context::Context;
use crate::detail::Detail;
use crate::error::WorkError;
use crate::job::ProbeReport;
use crate::pretend::Maker;
use crate::probe::{About, Cost, OutOfBounds, Probe};

/// The probe.
#[derive(Debug, Clone, Copy)]
pub struct Cpu;

impl Probe for Cpu {
    type Params = CpuParams;
    type Detail = CpuDetail;

    const ABOUT: About = About {
        is_about_shares: true,
        ..About::new(
            "Threads and time",
            "More and more threads each do the same work. The time stays flat while every thread has a CPU of its own and grows in proportion from there on. The bend (knee) shows how many CPUs the platform really grants.",
        )
    };

    fn check_params(params: &CpuParams) -> Result<(), OutOfBounds> {
        params.check()
    }

    fn cost(params: &CpuParams, facts: &MachineFacts) -> Cost {
        let cpus = facts.cpus.max(1);
        let most = params.max_threads.unwrap_or(cpus.saturating_mul(2));
        // T threads on E CPUs take max(1, T/E) times as long as one.
        let turns: f64 = (1..=most).map(|threads| f64::from(threads.div_ceil(cpus))).sum();
        Cost::work(params.iterations as f64 * f64::from(params.samples) * turns, 0.5)
    }

    fn run(params: &CpuParams, context: &Context<'_>) -> Result<ProbeReport, WorkError> {
        run::measure(params, context)
    }

    fn pretend(maker: &mut Maker, params: &CpuParams) -> Result<Detail, String> {
        Ok(Detail::Cpu(maker.cpu(params)))
    }

    fn saw_nothing(detail: &CpuDetail) -> Option<String> {
        because(
            detail.points.is_empty() || detail.points.iter().any(|point| no_time(&point.elapsed_ns)),
            "the work was timed with none, or not all, of the numbers of threads",
        )
    }

    fn check(detail: &CpuDetail) -> Checked {
        at_most("cpu.points", detail.points.len(), MOST_POINTS)?;
        detail
            .points
            .iter()
            .try_for_each(|point| at_most("cpu.elapsed_ns", point.elapsed_ns.len(), MOST_VALUES))
    }

    fn metrics(detail: &CpuDetail) -> Vec<Metric> {
        metrics::metrics(detail)
    }
}
