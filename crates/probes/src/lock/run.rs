//! The lock probe around its locks: one thread per CPU, each pinned to its own, and the books of their waits.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::bins::Waits;
use super::spinlock::{Padded, SpinLock, TestAndSet, Ticket};
use crate::clock::{Anchor, counter_facts, ticks};
use crate::context::Context;
use crate::detail::{Detail, LockDetail, LockKind, LockPoint};
use crate::error::WorkError;
use crate::job::ProbeReport;
use crate::params::LockParams;
use crate::pin::{granted_cpus, pin_by_turn};
use crate::quantum::{MIX_WORDS, arithmetic};
use crate::workers::{self, Muster};
use units::facts::OwnCost;
use units::{Bytes, Hertz, Nanos};

/// Looks at the job's limits per second.
const LOOKS_PER_S: u64 = 500;
/// Rounds of arithmetic that warm the caches of a thread.
const WARM_UP: u64 = 100_000;

/// Measures both kinds of lock.
///
/// # Errors
/// The job was to end, the threads could not be started, or the cycle counter cannot be used.
pub fn measure(params: &LockParams, context: &Context<'_>) -> Result<ProbeReport, WorkError> {
    let cpus = granted_cpus();
    let threads = params.threads.unwrap_or(cpus).max(1);
    let fight = Fight { params, context, rate: Anchor::take()?.rate_since()?, threads };
    let anchor = Anchor::take()?;
    let mut cpu_time_ns = Nanos::ZERO;
    let mut points = Vec::new();
    let mut notes = Vec::new();
    for kind in [LockKind::TestAndSet, LockKind::Ticket] {
        let (point, cpu_time) = match kind {
            LockKind::TestAndSet => fight.over(kind, &TestAndSet::default(), &mut notes)?,
            LockKind::Ticket => fight.over(kind, &Ticket::default(), &mut notes)?,
        };
        cpu_time_ns = cpu_time_ns.saturating_add(cpu_time);
        points.push(point);
    }
    notes.sort();
    notes.dedup();
    if threads < 2 {
        notes.push("one thread alone never waits for another; this probe wants at least two CPUs".to_owned());
    }
    let rate = anchor.rate_since()?;
    let clock = counter_facts(rate);
    let cost = OwnCost {
        // Two reads of the counter around each wait, of which one lies inside.
        per_sample_ns: clock.read_ns,
        cpu_time_ns,
        memory_bytes: Bytes::from_bytes(u64::from(threads) * (size_of::<Waits>() + MIX_WORDS * 8) as u64),
    };
    let detail = LockDetail { counter_hz: rate, threads, cpus, points };
    Ok(ProbeReport::new(clock, cost, Detail::Lock(detail), notes))
}

/// What all fights have in common.
struct Fight<'a> {
    params: &'a LockParams,
    context: &'a Context<'a>,
    rate: Hertz,
    threads: u32,
}

/// What one thread brings home.
struct Fighter {
    waits: Waits,
    turns: u64,
    began: Instant,
    ended: Instant,
    note: Option<String>,
}

impl Fight<'_> {
    /// Lets all threads fight for one lock; returns what they waited and the CPU time they took.
    fn over<L: SpinLock>(
        &self,
        kind: LockKind,
        lock: &L,
        notes: &mut Vec<String>,
    ) -> Result<(LockPoint, Nanos), WorkError> {
        // What the lock guards: turns that are counted by reading and writing, so that a lock that lets two in loses some.
        let guarded = Padded(AtomicU64::new(0));
        let outcome = workers::run(self.threads, self.context.bounds, |number, muster| {
            self.one_thread(number, lock, &guarded.0, muster)
        })?;
        let fighters = outcome.results;
        let turns: Vec<u64> = fighters.iter().map(|fighter| fighter.turns).collect();
        let (inside, counted) = (turns.iter().sum::<u64>(), guarded.0.into_inner());
        if inside != counted {
            return Err(WorkError::Unfit(format!(
                "the lock let two threads in at once: {inside} turns were taken, {counted} were counted under it"
            )));
        }
        let mut all = Waits::new();
        for fighter in &fighters {
            all.add(&fighter.waits);
        }
        let (waits, wait_ticks, longest_ticks) = all.to_parts();
        let times = fighters.iter().map(|fighter| fighter.ended.saturating_duration_since(fighter.began));
        let thread_time_ns =
            times.fold(Nanos::ZERO, |sum, time| sum.saturating_add(Nanos::from_duration(time)));
        notes.extend(fighters.iter().filter_map(|fighter| fighter.note.clone()).take(8));
        let point = LockPoint {
            kind,
            elapsed_ns: elapsed(&fighters),
            thread_time_ns,
            waits,
            wait_ticks,
            turns,
            longest_ticks,
        };
        Ok((point, outcome.cpu_time))
    }

    fn one_thread<L: SpinLock>(
        &self,
        number: u32,
        lock: &L,
        guarded: &AtomicU64,
        muster: &Muster<'_>,
    ) -> Result<Fighter, WorkError> {
        let note = pin_by_turn(number).note;
        let mut words = [1_u64; MIX_WORDS];
        let mut waits = Waits::new();
        arithmetic(WARM_UP, &mut words);
        let span = u128::from(self.params.duration_ms.get()) * u128::from(self.rate.get()) / 1000;
        let span = u64::try_from(span).unwrap_or(u64::MAX);
        let (free, held) = (u64::from(self.params.free_iterations), u64::from(self.params.held_iterations));
        let between_looks = (self.rate.get() / LOOKS_PER_S).max(1);
        let mut turns = 0;
        muster.wait()?;
        let (began, first) = (Instant::now(), ticks());
        let mut next_look = first.saturating_add(between_looks);
        loop {
            arithmetic(free, &mut words);
            let asked = ticks();
            if asked.saturating_sub(first) >= span {
                break;
            }
            if lock.acquire(&|| self.look()).is_break() {
                return Err(self.context.bounds.broken());
            }
            let got = ticks();
            guarded.store(guarded.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            arithmetic(held, &mut words);
            lock.release();
            waits.record(got.saturating_sub(asked));
            turns += 1;
            // Without the lock: who gives up here stands in nobody's way.
            if got >= next_look {
                next_look = got.saturating_add(between_looks);
                self.context.bounds.check()?;
            }
        }
        Ok(Fighter { waits, turns, began, ended: Instant::now(), note })
    }

    fn look(&self) -> ControlFlow<()> {
        if self.context.bounds.check().is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}

/// From the first thread's begin to the last one's end.
fn elapsed(fighters: &[Fighter]) -> Nanos {
    let began = fighters.iter().map(|fighter| fighter.began).min();
    let ended = fighters.iter().map(|fighter| fighter.ended).max();
    began
        .zip(ended)
        .map_or(Nanos::ZERO, |(began, ended)| Nanos::from_duration(ended.saturating_duration_since(began)))
}
