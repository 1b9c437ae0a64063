//! Measures: see the folder.

use std::ops::ControlFlow;

use crate::clock::{Anchor, counter_facts, thread_cpu_time, ticks};
use crate::context::Context;
use crate::detail::{Detail, FtqDetail};
use crate::error::WorkError;
use crate::job::ProbeReport;
use crate::params::FtqParams;
use crate::pin::pin_to_last_cpu;
use crate::quantum::empty_loop;
use crate::workers;
use units::facts::OwnCost;
use units::{Bytes, Hertz, Ticks};

/// Turns of the empty loop per round, as in the original: a round takes some tens of nanoseconds.
const TURNS_PER_ROUND: u64 = 32;

/// Measures the quanta.
///
/// # Errors
/// The job was to end, or the cycle counter cannot be used.
pub fn measure(params: &FtqParams, context: &Context<'_>) -> Result<ProbeReport, WorkError> {
    workers::run_one(context.bounds, || measure_here(params, context))
}

fn measure_here(params: &FtqParams, context: &Context<'_>) -> Result<ProbeReport, WorkError> {
    let pinned = pin_to_last_cpu();
    let rough = Anchor::take()?.rate_since()?;
    let quantum = ticks_in(params.quantum_us.get(), rough);
    let quanta = params.duration_ms.get().saturating_mul(1000) / params.quantum_us.get().max(1);
    // Ones, so that the pages are there before it begins.
    let mut work = vec![1_u32; usize::try_from(quanta).unwrap_or(0)];
    let left_us = u64::try_from(context.bounds.left().as_micros()).unwrap_or(u64::MAX);
    let cpu_before = thread_cpu_time()?;
    let anchor = Anchor::take()?;
    let first = ticks();
    let deadline = first.saturating_add(ticks_in(left_us, rough));
    let whole = count(round, first, quantum, &mut work, |now| context.bounds.is_stopped() || now >= deadline);
    if whole.is_break() {
        return Err(context.bounds.broken());
    }
    let cpu_time_ns = thread_cpu_time()?.saturating_sub(cpu_before);
    let rate = anchor.rate_since()?;
    let clock = counter_facts(rate);
    let cost = OwnCost {
        // The counter is read once a round, and a round is what is counted.
        per_sample_ns: clock.read_ns,
        cpu_time_ns,
        memory_bytes: Bytes::from_bytes(work.len() as u64 * 4),
    };
    let detail = FtqDetail { quantum_ns: Ticks::from_ticks(quantum).to_nanos(rate), cpu: pinned.cpu, work };
    Ok(ProbeReport::new(clock, cost, Detail::Ftq(detail), pinned.note.into_iter().collect()))
}

fn ticks_in(micros: u64, rate: Hertz) -> u64 {
    let ticks = u128::from(micros) * u128::from(rate.get()) / 1_000_000;
    u64::try_from(ticks).unwrap_or(u64::MAX).max(1)
}

/// One round of work; says when it ended.
#[inline]
fn round() -> u64 {
    // So few turns never ask whether to go on.
    let _ = empty_loop(TURNS_PER_ROUND, || ControlFlow::Continue(()));
    ticks()
}

/// Fills `work` with the rounds that end in each quantum of the grid that begins at `first`. `is_over` is asked once per
/// quantum, outside of what is counted.
#[inline(never)]
fn count(
    mut round: impl FnMut() -> u64,
    first: u64,
    quantum: u64,
    work: &mut [u32],
    mut is_over: impl FnMut(u64) -> bool,
) -> ControlFlow<()> {
    let mut quanta = work.iter_mut();
    let Some(mut current) = quanta.next() else { return ControlFlow::Continue(()) };
    let mut end = first.saturating_add(quantum);
    let mut rounds = 0_u32;
    loop {
        let now = round();
        if now < end {
            rounds = rounds.wrapping_add(1);
            continue;
        }
        *current = rounds;
        // The round that has just ended counts for the quantum it ended in; what lies before that was lost whole.
        rounds = 1;
        loop {
            let Some(next) = quanta.next() else { return ControlFlow::Continue(()) };
            current = next;
            end = end.saturating_add(quantum);
            if now < end {
                break;
            }
            *current = 0;
        }
        if is_over(now) {
            return ControlFlow::Break(());
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn counted(ends: &[u64], first: u64, quantum: u64, quanta: usize) -> Vec<u32> {
        let mut ends = ends.iter().copied().chain(std::iter::repeat(u64::MAX));
        let mut work = vec![1; quanta];
        let whole = count(|| ends.next().expect("endless"), first, quantum, &mut work, |_| false);
        assert!(whole.is_continue());
        work
    }

    #[test]
    fn a_quantum_that_is_lost_whole_has_no_work_and_moves_no_other() {
        // Rounds of 10 in quanta of 100; nothing ends between 150 and 420.
        let ends: Vec<u64> = (1..16).map(|n| n * 10).chain((42..52).map(|n| n * 10)).collect();
        assert_eq!(counted(&ends, 0, 100, 5), [9, 6, 0, 0, 8]);
    }

    #[test]
    fn it_leaves_when_told_to() {
        let mut work = vec![1; 5];
        let mut now = 0;
        let round = || {
            now += 7;
            now
        };
        assert!(count(round, 0, 100, &mut work, |now| now >= 200).is_break());
    }

    proptest! {
        #[test]
        fn every_round_is_in_the_quantum_it_ended_in(
            steps in prop::collection::vec(1u64..400, 1..300), first in 0u64..1000, quantum in 1u64..200, quanta in 1usize..60) {
            let ends: Vec<u64> = steps.iter().scan(first, |now, step| { *now += step; Some(*now) }).collect();
            let by_hand: Vec<u32> = (0..quanta as u64)
                .map(|k| {
                    let span = first + k * quantum..first + (k + 1) * quantum;
                    u32::try_from(ends.iter().filter(|end| span.contains(end)).count()).expect("few")
                })
                .collect();
            prop_assert_eq!(counted(&ends, first, quantum, quanta), by_hand);
        }
    }
}
