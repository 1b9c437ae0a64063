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
    use std::sync::Mutex;
    use std::thread;

    use super::*;

    const THREADS: u64 = 4;
    const TURNS: u64 = 3_000;

    const fn patient() -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    /// Adds without an atomic addition: two threads at once would lose turns.
    fn add_one(counter: &AtomicU64) {
        counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    fn counted(lock: &dyn SpinLock) -> u64 {
        let counter = AtomicU64::new(0);
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for _ in 0..TURNS {
                        assert!(lock.acquire(&patient).is_continue());
                        add_one(&counter);
                        lock.release();
                    }
                });
            }
        });
        counter.into_inner()
    }

    #[test]
    fn only_one_thread_is_inside() {
        assert_eq!(counted(&TestAndSet::default()), THREADS * TURNS);
        assert_eq!(counted(&Ticket::default()), THREADS * TURNS);
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
            lock.release();
        });
        assert_eq!(served.into_inner().unwrap(), [0, 1, 2, 3, 4, 5]);
    }

    /// A holder that never comes back; one waiter gives up, and all others must leave with it.
    fn nobody_hangs(lock: &dyn SpinLock) {
        assert!(lock.acquire(&patient).is_continue());
        let stop = AtomicBool::new(false);
        let look =
            || if stop.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
        thread::scope(|scope| {
            let waiters: Vec<_> = (0..3)
                .map(|number| {
                    scope
                        .spawn(move || if number == 0 { lock.acquire(&look) } else { lock.acquire(&patient) })
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
