//! Threads versus time: T threads each do the same fixed work at once, T = 1 … 2 × CPUs. The time is flat until T
//! reaches the execution units really granted, then it grows in a line. Source: Lourot's thesis.

pub(crate) mod check;
pub mod detail;
pub(crate) mod metrics;
pub mod params;
pub(crate) mod pretend;
pub mod run;

use units::facts::MachineFacts;

use self::detail::CpuDetail;
use self::params::CpuParams;
use crate::probe::{About, Cost, Probe, more_rounds};

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
            "More and more threads each do the same work. The time stays flat while every thread has a CPU of its own and \
             grows in proportion from there on. The bend (knee) shows how many CPUs the platform really grants.",
        )
    };

    fn with_more_work(params: &CpuParams, percent: f64) -> Option<CpuParams> {
        Some(CpuParams { iterations: more_rounds(params.iterations, percent), ..params.clone() })
    }

    fn cost(params: &CpuParams, facts: &MachineFacts) -> Cost {
        let cpus = facts.cpus.max(1);
        let most = params.max_threads.unwrap_or(cpus.saturating_mul(2));
        // T threads on E CPUs take max(1, T/E) times as long as one.
        let turns: f64 = (1..=most).map(|threads| f64::from(threads.div_ceil(cpus))).sum();
        Cost::work(params.iterations as f64 * f64::from(params.samples) * turns, 0.5)
    }
}
