//! Measures: see the folder.

use std::time::Instant;

use crate::clock::monotonic_facts;
use crate::context::Context;
use crate::detail::{CpuDetail, CpuPoint, Detail};
use crate::error::WorkError;
use crate::job::ProbeReport;
use crate::params::CpuParams;
use crate::pin::granted_cpus;
use crate::quantum::{MIX_WORDS, arithmetic};
use crate::workers::{self, Muster};
use units::facts::OwnCost;
use units::{Bytes, Nanos};

/// Rounds between two looks at the job's limits: some milliseconds.
const ROUNDS_PER_LOOK: u64 = 1_000_000;

/// Measures every number of threads.
///
/// # Errors
/// The job was to end, or the threads could not be started.
pub fn measure(params: &CpuParams, context: &Context<'_>) -> Result<ProbeReport, WorkError> {
    let cpus = granted_cpus();
    let most = params.max_threads.unwrap_or_else(|| cpus.saturating_mul(2)).max(1);
    let mut cpu_time_ns = Nanos::ZERO;
    let mut points = Vec::new();
    for threads in 1..=most {
        let outcome = workers::run(threads, context.bounds, |_, muster| one_thread(params, context, muster))?;
        cpu_time_ns = cpu_time_ns.saturating_add(outcome.cpu_time);
        let elapsed_ns =
            (0..params.samples as usize).map(|sample| elapsed(&outcome.results, sample)).collect();
        points.push(CpuPoint { threads, elapsed_ns });
    }
    let clock = monotonic_facts();
    let cost = OwnCost {
        per_sample_ns: clock.read_ns,
        cpu_time_ns,
        memory_bytes: Bytes::from_bytes(u64::from(most) * (MIX_WORDS as u64) * 8),
    };
    let detail = CpuDetail { iterations: params.iterations, cpus, points };
    Ok(ProbeReport::new(clock, cost, Detail::Cpu(detail), Vec::new()))
}

/// Begin and end of each repetition in one thread.
fn one_thread(
    params: &CpuParams,
    context: &Context<'_>,
    muster: &Muster<'_>,
) -> Result<Vec<(Instant, Instant)>, WorkError> {
    let mut words = [1_u64; MIX_WORDS];
    // Warms caches and clock frequency, outside of what is timed.
    arithmetic(ROUNDS_PER_LOOK.min(params.iterations / 10), &mut words);
    let mut times = Vec::with_capacity(params.samples as usize);
    for _ in 0..params.samples {
        muster.wait()?;
        let begin = Instant::now();
        let mut left = params.iterations;
        while left > 0 {
            let rounds = left.min(ROUNDS_PER_LOOK);
            arithmetic(rounds, &mut words);
            left -= rounds;
            context.bounds.check()?;
        }
        times.push((begin, Instant::now()));
    }
    Ok(times)
}

/// From the first thread's begin to the last thread's end.
fn elapsed(threads: &[Vec<(Instant, Instant)>], sample: usize) -> Nanos {
    let times = || threads.iter().filter_map(|thread| thread.get(sample));
    let begin = times().map(|(begin, _)| *begin).min();
    let end = times().map(|(_, end)| *end).max();
    begin
        .zip(end)
        .map_or(Nanos::ZERO, |(begin, end)| Nanos::from_duration(end.saturating_duration_since(begin)))
}
