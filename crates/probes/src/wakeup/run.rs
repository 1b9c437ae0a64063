//! The wake-up probe around its loop: one thread per CPU asked for, real-time where that is allowed, memory in place.
//!
//! The loop does between two sleeps what `cyclictest` does (read the clock, count in a histogram), so that its service
//! times can be held against that program's; besides, after the clock was read, it looks at the scheduler's counters now
//! and then ([`Witness`]), so that late wake-ups have somebody to blame. Unlike that program the
//! probe leaves the CPU's sleep states alone: what a tenant gets is what is measured; `cyclictest --laptop` does the same.

use std::time::Duration;

use super::activations::Activations;
use crate::accounts::Witness;
use crate::alarm::{now_ns, sleep_until};
use crate::clock::monotonic_facts;
use crate::context::Context;
use crate::detail::{Detail, WakeupDetail, WakeupThread};
use crate::error::WorkError;
use crate::job::ProbeReport;
use crate::params::WakeupParams;
use crate::pin::{granted_cpus, pin_by_turn};
use crate::realtime::{Granted, Locked, Throttle, become_real_time};
use crate::workers::{self, Muster};
use units::facts::OwnCost;
use units::{Bytes, Nanos};

/// Memory of one thread: two histograms with counts and sums.
const MEMORY_PER_THREAD: u64 = 2 * 2 * 8 * units::histogram::BUCKETS as u64;

/// What one thread brings home.
struct Woken {
    thread: WakeupThread,
    granted: Granted,
    pin_note: Option<String>,
}

/// Measures the wake-ups.
///
/// # Errors
/// The job was to end, or the kernel has no `CLOCK_MONOTONIC` to sleep on.
pub fn measure(params: &WakeupParams, context: &Context<'_>) -> Result<ProbeReport, WorkError> {
    let outcome = workers::run(params.threads, context.bounds, |number, muster| {
        one_thread(params, context, number, muster)
    })?;
    let notes = notes(params, &outcome.results);
    // All threads have the same rights; one that was refused decides for all.
    let priorities: Vec<Option<u32>> = outcome.results.iter().map(|woken| woken.granted.priority).collect();
    let clock = monotonic_facts();
    let cost = OwnCost {
        per_sample_ns: clock.read_ns,
        cpu_time_ns: outcome.cpu_time,
        memory_bytes: Bytes::from_bytes(u64::from(params.threads) * MEMORY_PER_THREAD),
    };
    let detail = WakeupDetail {
        period_ns: period(params),
        priority: priorities.iter().copied().reduce(Option::min).flatten(),
        threads: outcome.results.into_iter().map(|woken| woken.thread).collect(),
    };
    Ok(ProbeReport::new(clock, cost, Detail::Wakeup(detail), notes))
}

const fn period(params: &WakeupParams) -> Nanos {
    Nanos::from_nanos(params.period_us.get().saturating_mul(1000))
}

fn one_thread(
    params: &WakeupParams,
    context: &Context<'_>,
    number: u32,
    muster: &Muster<'_>,
) -> Result<Woken, WorkError> {
    let pinned = pin_by_turn(number);
    let period = period(params);
    let due = params.duration_ms.get().saturating_mul(1_000_000) / period.get().max(1);
    let mut activations = Activations::new(0, period, due.max(1));
    let mut witness = Witness::of_this_thread();
    let locked = Locked::now();
    muster.wait()?;
    let granted = become_real_time(params.priority);
    let start = now_ns()?;
    activations.begin_at(start);
    witness.begin(start);
    let left = u64::try_from(context.bounds.left().as_nanos()).unwrap_or(u64::MAX);
    let deadline = start.saturating_add(left);
    while let Some(next) = activations.next_due() {
        sleep_until(next)?;
        let now = now_ns()?;
        if let Some((stretch, is_among_latest)) = activations.woke(now) {
            witness.ended(now, stretch, is_among_latest);
        }
        if context.bounds.is_stopped() || now >= deadline {
            return Err(context.bounds.broken());
        }
    }
    drop(locked);
    let thread = activations.finish(pinned.cpu, |worst| witness.finish(worst));
    Ok(Woken { thread, granted, pin_note: pinned.note })
}

fn notes(params: &WakeupParams, all: &[Woken]) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    let mut say = |note: String| {
        if !notes.contains(&note) {
            notes.push(note);
        }
    };
    for woken in all {
        woken.pin_note.iter().chain(&woken.granted.note).cloned().for_each(&mut say);
    }
    let cpus = granted_cpus();
    if params.threads > cpus {
        say(format!("{} threads share {cpus} CPUs: they also wait for each other", params.threads));
    }
    let latest = all.iter().filter_map(|woken| woken.thread.worst.first()).map(|worst| worst.length_ns).max();
    if all.iter().any(|woken| woken.granted.priority.is_some())
        && let (Some(latest), Some(throttle)) = (latest, Throttle::read())
        && latest.to_duration() >= throttle.pause()
    {
        say(throttle_note(latest, throttle));
    }
    notes
}

fn throttle_note(latest: Nanos, throttle: Throttle) -> String {
    let millis = |time: Duration| time.as_millis();
    format!(
        "a wake-up came {latest} late, and the kernel may hold the real-time threads of a CPU back for {} of every {} ms when \
         they use up the rest (sched_rt_runtime_us): real-time threads of somebody else may have made it do so",
        millis(throttle.pause()),
        millis(throttle.period)
    )
}
