//! Measures: see the folder.

use crate::alarm::{now_ns, sleep_until};
use crate::clock::{monotonic_facts, thread_cpu_time};
use crate::context::Context;
use crate::detail::{Detail, FramesDetail, due_times_passed};
use crate::error::WorkError;
use crate::job::ProbeReport;
use crate::params::FramesParams;
use crate::quantum::{MIX_WORDS, arithmetic};
use crate::workers;
use units::facts::OwnCost;
use units::{Bytes, Nanos};

/// Rounds between two looks at the job's limits: some milliseconds.
const ROUNDS_PER_LOOK: u64 = 1_000_000;

/// Measures the frames.
///
/// # Errors
/// The job was to end, or the kernel has no `CLOCK_MONOTONIC` to sleep on.
pub fn measure(params: &FramesParams, context: &Context<'_>) -> Result<ProbeReport, WorkError> {
    workers::run_one(context.bounds, || measure_here(params, context))
}

fn measure_here(params: &FramesParams, context: &Context<'_>) -> Result<ProbeReport, WorkError> {
    let period_ns = Nanos::from_nanos(1_000_000_000 / u64::from(params.rate_hz.max(1)));
    let room = params.frames as usize;
    let mut made = Made { frame_ns: touched(room), work_ns: touched(room), missed: 0 };
    let mut words = [1_u64; MIX_WORDS];
    // Warms caches and clock frequency, outside of what is timed.
    arithmetic(params.iterations.min(ROUNDS_PER_LOOK), &mut words);
    let cpu_before = thread_cpu_time()?;
    let mut due = now_ns()?.saturating_add(period_ns.get());
    let mut left = u64::from(params.frames);
    while left > 0 {
        sleep_until(due)?;
        let begin = now_ns()?;
        work(params.iterations, &mut words, context)?;
        let done = now_ns()?;
        let frame = Nanos::from_nanos(done.saturating_sub(due));
        let missed = due_times_passed(frame, period_ns).min(left - 1);
        made.frame_ns.push(frame);
        made.work_ns.push(Nanos::from_nanos(done.saturating_sub(begin)));
        made.missed += missed;
        left -= 1 + missed;
        due = due.saturating_add((1 + missed).saturating_mul(period_ns.get()));
    }
    let clock = monotonic_facts();
    let cost = OwnCost {
        // Two reads per frame besides its work.
        per_sample_ns: 2.0 * clock.read_ns,
        cpu_time_ns: thread_cpu_time()?.saturating_sub(cpu_before),
        memory_bytes: Bytes::from_bytes(room as u64 * 16 + MIX_WORDS as u64 * 8),
    };
    let detail = FramesDetail {
        period_ns,
        iterations: params.iterations,
        frame_ns: made.frame_ns,
        work_ns: made.work_ns,
        missed: made.missed,
    };
    Ok(ProbeReport::new(clock, cost, Detail::Frames(detail), Vec::new()))
}

struct Made {
    frame_ns: Vec<Nanos>,
    work_ns: Vec<Nanos>,
    missed: u64,
}

/// Empty, with room for so many, every page of it touched.
fn touched(room: usize) -> Vec<Nanos> {
    let mut times = vec![Nanos::from_nanos(1); room];
    times.clear();
    times
}

/// The work of one frame.
fn work(iterations: u64, words: &mut [u64; MIX_WORDS], context: &Context<'_>) -> Result<(), WorkError> {
    let mut left = iterations;
    while left > 0 {
        let rounds = left.min(ROUNDS_PER_LOOK);
        arithmetic(rounds, words);
        left -= rounds;
        context.bounds.check()?;
    }
    Ok(())
}
