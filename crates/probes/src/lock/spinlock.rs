//! The two spinlocks, as kernels had them: test-and-set, and the FIFO ticket lock that Linux took in 2008 (Corbet,
//! *Ticket spinlocks*, LWN.net 2008).
//!
//! ```text
//!  test-and-set:  swap(taken) ─was free─► mine          ticket:  my = next++ ─► serving == my ─► mine
//!                   ▲    │was taken                                 ▲               │no
//!                   └ pause while taken                             └──── pause ────┘
//! ```
//! A waiter looks now and then whether it is to give up. One that does closes the lock for all: a ticket that nobody
//! will use must not stand in the way of those behind it, so they leave as well.

use std::hint::spin_loop;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Pauses between two looks whether to give up: tens of microseconds.
const PAUSES_PER_LOOK: u32 = 1024;

/// A value with two cache lines of its own: the neighbouring line is often fetched with it.
#[repr(align(128))]
#[derive(Debug, Default)]
pub(super) struct Padded<T>(pub(super) T);

/// A lock that threads spin for.
pub(super) trait SpinLock: Sync {
    /// Waits for the lock. Breaks when `look` says so, or when another waiter gave up.
    fn acquire(&self, look: &dyn Fn() -> ControlFlow<()>) -> ControlFlow<()>;
    /// Gives it back; only who holds it may.
    fn release(&self);
}

/// Whoever comes at the right moment gets it.
#[derive(Debug, Default)]
pub(super) struct TestAndSet {
    taken: Padded<AtomicBool>,
    closed: Padded<AtomicBool>,
}

impl SpinLock for TestAndSet {
    #[inline]
    fn acquire(&self, look: &dyn Fn() -> ControlFlow<()>) -> ControlFlow<()> {
        while self.taken.0.swap(true, Ordering::Acquire) {
            // As Linux had it: wait with plain reads, which leave the cache line where it is.
            pause_until(|| !self.taken.0.load(Ordering::Relaxed), &self.closed.0, look)?;
        }
        ControlFlow::Continue(())
    }

    #[inline]
    fn release(&self) {
        self.taken.0.store(false, Ordering::Release);
    }
}

/// First come, first served.
#[derive(Debug, Default)]
pub(super) struct Ticket {
    next: Padded<AtomicU64>,
    serving: Padded<AtomicU64>,
    closed: Padded<AtomicBool>,
}

impl SpinLock for Ticket {
    #[inline]
    fn acquire(&self, look: &dyn Fn() -> ControlFlow<()>) -> ControlFlow<()> {
        let mine = self.next.0.fetch_add(1, Ordering::Relaxed);
        pause_until(|| self.serving.0.load(Ordering::Acquire) == mine, &self.closed.0, look)
    }

    #[inline]
    fn release(&self) {
        // Only the holder writes this.
        let served = self.serving.0.load(Ordering::Relaxed);
        self.serving.0.store(served + 1, Ordering::Release);
    }
}

#[inline]
fn pause_until(
    free: impl Fn() -> bool,
    closed: &AtomicBool,
    look: &dyn Fn() -> ControlFlow<()>,
) -> ControlFlow<()> {
    let mut pauses = 0;
    while !free() {
        spin_loop();
        pauses += 1;
        if pauses == PAUSES_PER_LOOK {
            pauses = 0;
            if closed.load(Ordering::Relaxed) {
                return ControlFlow::Break(());
            }
            if look().is_break() {
                closed.store(true, Ordering::Relaxed);
                return ControlFlow::Break(());
            }
        }
    }
    ControlFlow::Continue(())
}

#[cfg(test)]
mod tests {
    use std::sync::{Barrier, Mutex};
    use std::thread;

    use super::*;

    const THREADS: usize = 3;
    const TURNS: u64 = 500;

    /// Goes on, but lets the next in line run where there are more threads than CPUs.
    fn patient() -> ControlFlow<()> {
        thread::yield_now();
        ControlFlow::Continue(())
    }

    /// Turns taken, and how often two threads were inside at once.
    fn counted(lock: &dyn SpinLock) -> (u64, u64) {
        let (turns, inside, crowded) = (AtomicU64::new(0), AtomicBool::new(false), AtomicU64::new(0));
        let start = Barrier::new(THREADS);
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    start.wait();
                    for _ in 0..TURNS {
                        assert!(lock.acquire(&patient).is_continue());
                        crowded.fetch_add(u64::from(inside.swap(true, Ordering::Relaxed)), Ordering::Relaxed);
                        // Reading and writing apart: two threads at once would lose turns.
                        let before = turns.load(Ordering::Relaxed);
                        (0..20).for_each(|_| spin_loop());
                        turns.store(before + 1, Ordering::Relaxed);
                        inside.store(false, Ordering::Relaxed);
                        lock.release();
                    }
                });
            }
        });
        (turns.into_inner(), crowded.into_inner())
    }

    #[test]
    fn only_one_thread_is_inside() {
        assert_eq!(counted(&TestAndSet::default()), (THREADS as u64 * TURNS, 0));
        assert_eq!(counted(&Ticket::default()), (THREADS as u64 * TURNS, 0));
    }

    #[test]
    fn tickets_are_served_in_the_order_they_were_drawn() {
        let lock = Ticket::default();
        let served = Mutex::new(Vec::new());
        assert!(lock.acquire(&patient).is_continue());
        thread::scope(|scope| {
            for number in 0..6u64 {
                let (lock, served) = (&lock, &served);
                scope.spawn(move || {
                    assert!(lock.acquire(&patient).is_continue());
                    served.lock().unwrap().push(number);
                    lock.release();
                });
                // The next one may only come once this one has its ticket.
                while lock.next.0.load(Ordering::Relaxed) < number + 2 {
                    thread::yield_now();
                }
            }
            assert_eq!(*served.lock().unwrap(), Vec::<u64>::new(), "the lock is still taken");
            lock.release();
        });
        assert_eq!(served.into_inner().unwrap(), [0, 1, 2, 3, 4, 5]);
    }

    /// A holder that never comes back; one waiter gives up, and all others must leave with it.
    fn nobody_hangs(lock: &dyn SpinLock) {
        assert!(lock.acquire(&patient).is_continue());
        let stop = AtomicBool::new(false);
        let give_up =
            || if stop.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
        thread::scope(|scope| {
            let waiters: Vec<_> = (0..3)
                .map(|number| {
                    scope.spawn(
                        move || if number == 0 { lock.acquire(&give_up) } else { lock.acquire(&patient) },
                    )
                })
                .collect();
            stop.store(true, Ordering::Relaxed);
            for waiter in waiters {
                assert!(waiter.join().unwrap().is_break());
            }
        });
    }

    #[test]
    fn who_gives_up_leaves_nobody_behind() {
        nobody_hangs(&TestAndSet::default());
        nobody_hangs(&Ticket::default());
    }

    #[test]
    fn the_parts_of_a_lock_share_no_cache_line() {
        assert!(size_of::<Ticket>() >= 3 * 128 && align_of::<Ticket>() == 128);
    }
}
