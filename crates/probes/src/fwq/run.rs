//! Measures: see the folder.

use crate::clock::{Anchor, counter_facts, thread_cpu_time, ticks};
use crate::context::Context;
use crate::detail::{Detail, FwqDetail};
use crate::error::WorkError;
use crate::job::ProbeReport;
use crate::params::FwqParams;
use crate::pin::pin_to_last_cpu;
use crate::quantum::empty_loop;
use crate::workers;
use std::ops::ControlFlow;
use units::facts::OwnCost;
use units::{Bytes, Ticks};

/// Measures the quanta.
///
/// # Errors
/// The job was to end, or the cycle counter cannot be used.
pub fn measure(params: &FwqParams, context: &Context<'_>) -> Result<ProbeReport, WorkError> {
    workers::run_one(context.bounds, || measure_here(params, context))
}

fn measure_here(params: &FwqParams, context: &Context<'_>) -> Result<ProbeReport, WorkError> {
    let pinned = pin_to_last_cpu();
    let mut quanta = vec![1_u64; params.samples as usize];
    let cpu_before = thread_cpu_time()?;
    let anchor = Anchor::take()?;
    for quantum in &mut quanta {
        let before = ticks();
        let whole = empty_loop(params.iterations, || look(context));
        *quantum = ticks().saturating_sub(before);
        // Between two quanta nothing is measured, so the clock may be looked at.
        if whole.is_break() || look(context).is_break() {
            return Err(context.bounds.broken());
        }
    }
    context.bounds.check()?;
    let cpu_time_ns = thread_cpu_time()?.saturating_sub(cpu_before);
    let rate = anchor.rate_since()?;
    let clock = counter_facts(rate);
    let cost = OwnCost {
        // Two reads per sample, of which one lies inside.
        per_sample_ns: clock.read_ns,
        cpu_time_ns,
        memory_bytes: Bytes::from_bytes(quanta.len() as u64 * 8),
    };
    let detail = FwqDetail {
        iterations: params.iterations,
        cpu: pinned.cpu,
        samples_ns: quanta.into_iter().map(|quantum| Ticks::from_ticks(quantum).to_nanos(rate)).collect(),
    };
    Ok(ProbeReport::new(clock, cost, Detail::Fwq(detail), pinned.note.into_iter().collect()))
}

fn look(context: &Context<'_>) -> ControlFlow<()> {
    if context.bounds.check().is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
}
