//! Threads that do the same at once: common start, common end, nobody waits for a mate that has given up.
//!
//! ```text
//!   started ──muster──► working ──muster──► working … ──► done (result, CPU time)
//!      │                   │
//!      └────── a mate fails, stop, deadline ──────► everybody leaves with the reason
//! ```

use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::accounts::{SchedulerStatistics, bank};
use crate::bounds::Bounds;
use crate::clock::thread_cpu_time;
use crate::error::WorkError;
use units::Nanos;

/// How often a waiting thread looks whether the job is to end.
const LOOK: Duration = Duration::from_millis(20);

#[derive(Debug, Default)]
struct Count {
    arrived: u32,
    round: u64,
    given_up: bool,
}

/// The point where threads wait for each other. Unlike a plain barrier it can be left.
#[derive(Debug)]
pub struct Muster<'a> {
    threads: u32,
    bounds: Bounds<'a>,
    count: Mutex<Count>,
    changed: Condvar,
}

impl<'a> Muster<'a> {
    fn new(threads: u32, bounds: Bounds<'a>) -> Self {
        Self { threads, bounds, count: Mutex::default(), changed: Condvar::new() }
    }

    /// Waits until every thread of the workers is here.
    ///
    /// # Errors
    /// The job is to end, or a mate has given up.
    pub fn wait(&self) -> Result<(), WorkError> {
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        let round = count.round;
        count.arrived += 1;
        if count.arrived == self.threads {
            count.arrived = 0;
            count.round += 1;
            self.changed.notify_all();
            return Ok(());
        }
        while count.round == round {
            if count.given_up {
                return Err(WorkError::MateGaveUp);
            }
            self.bounds.check()?;
            let waited = self.changed.wait_timeout(count, LOOK);
            count = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }

    fn give_up(&self) {
        self.count.lock().unwrap_or_else(PoisonError::into_inner).given_up = true;
        self.changed.notify_all();
    }
}

/// What workers bring home.
#[derive(Debug)]
pub struct WorkersOutcome<R> {
    /// One result per thread, in order.
    pub results: Vec<R>,
    /// CPU time of all its threads.
    pub cpu_time: Nanos,
}

/// What one thread brings home.
struct Mate<R> {
    result: R,
    cpu_time: Nanos,
    statistics: SchedulerStatistics,
}

/// Runs `work` in `threads` threads at once; it gets its number and the muster point.
///
/// # Errors
/// The first error of any thread, or that a thread could not be started.
pub fn run<R: Send>(
    threads: u32,
    bounds: Bounds<'_>,
    work: impl Fn(u32, &Muster<'_>) -> Result<R, WorkError> + Sync,
) -> Result<WorkersOutcome<R>, WorkError> {
    let muster = Muster::new(threads, bounds);
    let one = |number: u32| {
        let before = SchedulerStatistics::of_this_thread();
        let outcome = work(number, &muster).and_then(|result| {
            let cpu_time = thread_cpu_time()?;
            Ok(Mate { result, cpu_time, statistics: SchedulerStatistics::of_this_thread().since(&before) })
        });
        outcome.inspect_err(|_| muster.give_up())
    };
    let one = &one;
    let joined: Vec<Result<Mate<R>, WorkError>> = thread::scope(|scope| {
        let started: Vec<_> = (0..threads)
            .map(|number| {
                thread::Builder::new()
                    .name(format!("probe-{number}"))
                    .spawn_scoped(scope, move || one(number))
                    .inspect_err(|_| muster.give_up())
            })
            .collect();
        started
            .into_iter()
            .map(|thread| match thread {
                Ok(thread) => {
                    thread.join().unwrap_or_else(|_| Err(WorkError::Unfit("a probe thread panicked".into())))
                }
                Err(error) => Err(WorkError::system(format!("start {threads} threads for the probe"), error)),
            })
            .collect()
    });
    gather(joined)
}

/// Runs `work` in one thread of its own, so that whatever it pins or raises ends with it.
///
/// # Errors
/// Its error, or that the thread could not be started.
pub fn run_one<R: Send>(
    bounds: Bounds<'_>,
    work: impl Fn() -> Result<R, WorkError> + Sync,
) -> Result<R, WorkError> {
    let outcome = run(1, bounds, |_, _| work())?;
    let mut results = outcome.results.into_iter();
    results.next().ok_or_else(|| WorkError::Unfit("the probe's thread was not there".into()))
}

/// The results, or the error that explains the others: a mate's giving up is only a consequence.
fn gather<R>(joined: Vec<Result<Mate<R>, WorkError>>) -> Result<WorkersOutcome<R>, WorkError> {
    let mut outcome = WorkersOutcome { results: Vec::with_capacity(joined.len()), cpu_time: Nanos::ZERO };
    let mut consequence = None;
    for one in joined {
        match one {
            Ok(mate) => {
                outcome.results.push(mate.result);
                outcome.cpu_time = outcome.cpu_time.saturating_add(mate.cpu_time);
                bank(&mate.statistics);
            }
            Err(error @ WorkError::MateGaveUp) => consequence = Some(error),
            Err(error) => return Err(error),
        }
    }
    consequence.map_or(Ok(outcome), Err)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

    use super::*;
    use units::Millis;

    const LONG: Millis = Millis::from_millis(60_000);

    #[test]
    fn nobody_passes_before_everybody_arrived() {
        let stop = AtomicBool::new(false);
        let arrived = AtomicU32::new(0);
        let seen = run(4, Bounds::starting_now(&stop, LONG), |_, muster| {
            arrived.fetch_add(1, Ordering::SeqCst);
            muster.wait()?;
            let first = arrived.load(Ordering::SeqCst);
            muster.wait()?;
            Ok(first)
        })
        .unwrap();
        assert_eq!(seen.results, [4, 4, 4, 4]);
    }

    #[test]
    fn a_failing_mate_frees_the_waiting_and_its_reason_is_kept() {
        let stop = AtomicBool::new(false);
        let outcome = run(3, Bounds::starting_now(&stop, LONG), |number, muster| {
            if number == 1 {
                return Err(WorkError::Unfit("could not do my part".into()));
            }
            muster.wait()
        });
        assert_eq!(outcome.unwrap_err().to_string(), "could not do my part");
    }

    #[test]
    fn stop_frees_the_waiting() {
        let stop = AtomicBool::new(true);
        let outcome = run(2, Bounds::starting_now(&stop, LONG), |number, muster| {
            if number == 0 { muster.wait() } else { Err(WorkError::Stopped) }
        });
        assert_eq!(outcome.unwrap_err().to_string(), "stopped");
    }
}
