//! The lock load: the threads of a team fight for one test-and-set spinlock.
//!
//! Plain test-and-set, without the polite read before each try: every try takes the cache line away from all others,
//! which is what makes a spinlock storm hurt neighbours. When the host takes the CPU from the one that holds the lock,
//! the others spin until it comes back (lock-holder preemption).

use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::stressors::{Done, Stressor};
use crate::error::WorkError;

/// Turns between two looks at the clock.
const TURNS: u64 = 64;
/// A round ends after this long.
const ROUND: Duration = Duration::from_millis(1);

/// A spinlock with what it protects, on cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct SpinLock {
    taken: AtomicBool,
    /// Only changed by who holds the lock: were the lock broken, turns would be lost here.
    turns: AtomicU64,
}

impl SpinLock {
    fn turn(&self) {
        while self.taken.swap(true, Ordering::Acquire) {
            spin_loop();
        }
        let turns = self.turns.load(Ordering::Relaxed);
        self.turns.store(turns.wrapping_add(1), Ordering::Relaxed);
        self.taken.store(false, Ordering::Release);
    }

    /// Turns taken so far by all threads.
    pub fn turns(&self) -> u64 {
        self.turns.load(Ordering::Acquire)
    }
}

/// One of the fighting threads.
pub struct Fighting {
    lock: Arc<SpinLock>,
}

impl Fighting {
    /// Fights for this lock.
    pub fn new(lock: &Arc<SpinLock>) -> Self {
        Self { lock: Arc::clone(lock) }
    }
}

impl Stressor for Fighting {
    fn round(&mut self) -> Result<Done, WorkError> {
        let end = Instant::now() + ROUND;
        let mut turns = 0;
        while turns == 0 || Instant::now() < end {
            (0..TURNS).for_each(|_| self.lock.turn());
            turns += TURNS;
        }
        Ok(Done::of(turns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_turn_is_lost_between_fighting_threads() {
        let lock = Arc::new(SpinLock::default());
        let counted: u64 = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    let mut fighting = Fighting::new(&lock);
                    scope.spawn(move || (0..20).map(|_| fighting.round().unwrap().whole).sum::<u64>())
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert!(counted >= 4 * 20 * TURNS);
        assert_eq!(lock.turns(), counted, "two held the lock at once");
    }
}
