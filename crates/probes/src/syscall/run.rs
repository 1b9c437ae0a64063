//! Measures: see the folder.

#![expect(unsafe_code, reason = "a raw system call is what is measured")]

use std::time::Instant;

use crate::batches::{BatchTally, Spans};
use crate::clock::monotonic_facts;
use crate::context::Context;
use crate::detail::{Detail, RateDetail};
use crate::error::WorkError;
use crate::job::ProbeReport;
use crate::params::SyscallParams;
use crate::pin::granted_cpus;
use crate::workers::{self, Muster};
use units::facts::OwnCost;
use units::histogram::Histogram;
use units::{Bytes, Nanos};

/// Calls between two reads of the clock: its cost then is under 1 % of theirs.
const CALLS_PER_READ: u32 = 64;
/// Reads of the clock between two looks at the job's limits: some milliseconds.
const READS_PER_LOOK: u64 = 256;
/// Spans of time per number of threads.
const SPANS: u32 = 16;

/// Measures every number of threads.
///
/// # Errors
/// The job was to end, or the threads could not be started.
pub fn measure(params: &SyscallParams, context: &Context<'_>) -> Result<ProbeReport, WorkError> {
    let most = params.max_threads.unwrap_or_else(granted_cpus).max(1);
    let spans = Spans::over(params.duration_ms, SPANS);
    let mut cpu_time_ns = Nanos::ZERO;
    let mut points = Vec::new();
    for threads in 1..=most {
        let outcome = workers::run(threads, context.bounds, |_, muster| one_thread(spans, context, muster))?;
        cpu_time_ns = cpu_time_ns.saturating_add(outcome.cpu_time);
        points.push(spans.point(&outcome.results));
    }
    let clock = monotonic_facts();
    let cost = OwnCost {
        per_sample_ns: clock.read_ns / f64::from(CALLS_PER_READ),
        cpu_time_ns,
        memory_bytes: Bytes::from_bytes(u64::from(most) * u64::from(SPANS) * 8),
    };
    let detail = Detail::Syscall(RateDetail { points, latency_ns: Histogram::default() });
    Ok(ProbeReport::new(clock, cost, detail, Vec::new()))
}

fn one_thread(spans: Spans, context: &Context<'_>, muster: &Muster<'_>) -> Result<BatchTally, WorkError> {
    call_some();
    muster.wait()?;
    let mut tally = spans.tally();
    for reading in 1_u64.. {
        call_some();
        if !tally.count(Instant::now(), u64::from(CALLS_PER_READ)) {
            break;
        }
        if reading % READS_PER_LOOK == 0 {
            context.bounds.check()?;
        }
    }
    Ok(tally)
}

#[inline(never)]
fn call_some() {
    for _ in 0..CALLS_PER_READ {
        // SAFETY: getppid takes no arguments and changes nothing.
        std::hint::black_box(unsafe { libc::syscall(libc::SYS_getppid) });
    }
}
