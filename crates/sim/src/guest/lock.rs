//! Locks of a guest's kernel: who has one, who waits, and who is next. What a thread does meanwhile is in `kernel/locking.rs`.
//!
//! ```text
//!  test-and-set   free ─► whoever of the spinning ones runs just now gets it, at random; none: whoever looks first
//!  unfair-queued  free ─► the first of the queue that spins just now; nobody does: whoever comes or looks first
//!  ticket, mcs    handed to who has waited longest, whether its virtual CPU runs or not
//!  pv-ticket      the same; it is woken if it has halted
//!  pv-queued      free ─► the first of the queue if it spins; if it has halted it is woken, and who comes before it looks takes it.
//!                 While the first spins nobody comes before it, though it may be preempted then (Linux' pending bit)
//!  mutex          free ─► the first of those that spin, if it runs, else whoever looks first; the first that sleeps is woken.
//!                 Once it was woken and found it taken again, it is handed the lock the next time
//! ```
//! Sources: Linux before 2.6.25 (test-and-set) and in guests without paravirtual locks since 4.2 (`virt_spin_lock`);
//! Waiman Long's `CONFIG_PARAVIRT_UNFAIR_LOCKS`, proposed for Linux in 2014 and not taken: waiters try the more often the
//! further in front they are (unfair-queued; here the foremost is always the quickest); 2.6.25 to 4.1 (ticket;
//! `arch/x86/include/asm/spinlock.h`); `kernel/locking/qspinlock.c` since 4.2 (mcs: after Mellor-Crummey and Scott,
//! Algorithms for Scalable Synchronization on Shared-Memory Multiprocessors, 1991); `__ticket_lock_spinning` of 3.12 to
//! 4.1 (pv-ticket); `kernel/locking/qspinlock_paravirt.h` as of 4.5 (pv-queued: one try to steal when it comes; the mode
//! of 4.15, in which newcomers go on trying, is left out); `kernel/locking/mutex.c` since 4.10 (mutex). Read, not copied.

use std::collections::VecDeque;

use super::waits::Waits;
use crate::time::Span;

/// In which order waiting threads get a lock, and what they do meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockKind {
    /// In none: whoever looks first.
    TestAndSet,
    /// The foremost that spins just now, but whoever comes while it is free takes it.
    UnfairQueued,
    /// First come, first served; all poll one word.
    Ticket,
    /// First come, first served; each polls a word of its own.
    Mcs,
    /// As [`Self::Ticket`], and halts after so much spinning.
    PvTicket(Span),
    /// A queue whose waiters halt after so much spinning, and at once when the one before has.
    PvQueued(Span),
    /// Spins as long as the owner runs, then sleeps.
    Mutex,
}

impl LockKind {
    /// Whether all who wait poll the same cache line.
    pub(super) const fn shares_line(self) -> bool {
        matches!(self, Self::TestAndSet | Self::Ticket | Self::PvTicket(_))
    }

    /// How long a thread spins before it halts by itself.
    pub(super) const fn patience(self) -> Option<Span> {
        match self {
            Self::PvTicket(patience) | Self::PvQueued(patience) => Some(patience),
            _ => None,
        }
    }
}

/// What a virtual CPU does that has spun for long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnLongWait {
    /// It goes on spinning.
    Spin,
    /// After so much spinning it tells the host (a hypercall, or the CPU notices the pauses), and after as much again.
    Help(Span),
    /// After so much spinning it halts, and is woken when the lock is handed to it.
    Halt(Span),
}

/// What became of a lock.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LockReport {
    /// How often it was taken.
    pub taken: u64,
    /// How long those who did not get it at once waited, by the host's clock.
    pub waits: Waits,
    /// The longest of these waits.
    pub longest: Span,
    /// How long they spun: the same without the time in which they were preempted, halted or asleep.
    pub spins: Waits,
    /// How often somebody who had halted or slept was woken.
    pub kicks: u64,
}

/// What a thread that waits is doing at this moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waiting {
    /// It spins on a CPU.
    Spins,
    /// Its virtual CPU was preempted; it looks when that runs again.
    Preempted,
    /// It has halted its virtual CPU and has to be woken.
    Parked,
}

/// What giving a lock back leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Released {
    /// Whether the thread had it at all.
    pub(super) was_its: bool,
    /// Who is to look now.
    pub(super) tell: Option<u32>,
    /// Who sleeps and is to be woken.
    pub(super) wake: Option<u32>,
}

/// A lock; threads are numbers within its guest.
#[derive(Debug, Clone)]
pub(super) struct Lock {
    pub(super) kind: LockKind,
    pub(super) holder: Option<u32>,
    /// In the order in which they came; those of a mutex sleep, or were woken just now.
    waiting: VecDeque<u32>,
    /// Those that spin for a mutex, in the order in which they came; the first looks at the owner, the others at the one before.
    spinning: VecDeque<u32>,
    /// Nobody comes before the first one: it spins (pv-queued), or was woken in vain (mutex).
    is_reserved: bool,
    /// Until its next holder, to whom it was handed, sees that.
    pub(super) handover: Span,
    pub(super) report: LockReport,
}

impl Lock {
    pub(super) fn new(kind: LockKind) -> Self {
        Self {
            kind,
            holder: None,
            waiting: VecDeque::new(),
            spinning: VecDeque::new(),
            is_reserved: false,
            handover: Span::ZERO,
            report: LockReport::default(),
        }
    }

    /// Gives it to `thread` if it may have it, else lets it wait: spinning.
    pub(super) fn acquire(&mut self, thread: u32) -> bool {
        let is_kept = matches!(self.kind, LockKind::PvQueued(_)) && self.is_reserved;
        if !is_kept && self.try_take(thread) {
            return true;
        }
        match self.kind {
            LockKind::Mutex => self.spinning.push_back(thread),
            _ => self.waiting.push_back(thread),
        }
        false
    }

    /// Whether a waiting thread has it by now: it was handed over, or is free and this one looks first.
    pub(super) fn look(&mut self, thread: u32) -> bool {
        if self.holder == Some(thread) {
            return true;
        }
        let is_first = self.first() == Some(thread);
        let may = match self.kind {
            LockKind::PvQueued(_) => is_first,
            _ => true,
        };
        let got = may && self.try_take(thread);
        if got {
            self.forget(thread);
        } else if is_first && matches!(self.kind, LockKind::PvQueued(_) | LockKind::Mutex) {
            self.is_reserved = true;
        }
        got
    }

    /// Takes who has got it out of the queues, and what was kept for it.
    fn forget(&mut self, thread: u32) {
        if self.first() == Some(thread) {
            self.is_reserved = false;
            self.waiting.pop_front();
            return;
        }
        self.waiting.retain(|waiting| *waiting != thread);
        self.spinning.retain(|waiting| *waiting != thread);
    }

    fn try_take(&mut self, thread: u32) -> bool {
        let free = self.holder.is_none();
        if free {
            self.holder = Some(thread);
            self.report.taken += 1;
        }
        free
    }

    /// `thread` gives it back. Says whom to tell: who has it next, or who is to be woken to look; nothing happens when it
    /// was not that thread's. `doing` tells what a waiting thread does, `any` picks one of so many.
    pub(super) fn release(
        &mut self,
        thread: u32,
        doing: impl Fn(u32) -> Waiting,
        any: impl FnOnce(usize) -> usize,
    ) -> Released {
        if self.holder != Some(thread) {
            return Released::default();
        }
        self.holder = None;
        let was_reserved = self.is_reserved;
        let next = match self.kind {
            LockKind::Ticket | LockKind::Mcs | LockKind::PvTicket(_) => self.first(),
            LockKind::TestAndSet => {
                let spins = |place: &usize| doing(self.waiting[*place]) == Waiting::Spins;
                let spinning: Vec<usize> = (0..self.waiting.len()).filter(spins).collect();
                let place = spinning.get(if spinning.len() > 1 { any(spinning.len()) } else { 0 });
                place.map(|place| self.waiting[*place])
            }
            LockKind::UnfairQueued => {
                self.waiting.iter().copied().find(|waiting| doing(*waiting) == Waiting::Spins)
            }
            LockKind::PvQueued(_) => self.first().filter(|first| doing(*first) == Waiting::Spins),
            LockKind::Mutex if was_reserved => self.first(),
            LockKind::Mutex => self.spinning.front().copied().filter(|first| doing(*first) == Waiting::Spins),
        };
        if let Some(next) = next {
            self.forget(next);
            self.holder = Some(next);
            self.report.taken += 1;
        }
        if self.kind == LockKind::Mutex {
            // The first that sleeps is woken though another one spins: else nobody would ever know that it starves.
            let wake = if was_reserved { next } else { self.first() };
            return Released { was_its: true, tell: next, wake };
        }
        let parked = || {
            let mut queue = self.waiting.iter().copied();
            match self.kind {
                LockKind::TestAndSet | LockKind::UnfairQueued => {
                    queue.find(|waiting| doing(*waiting) == Waiting::Parked)
                }
                _ => queue.next().filter(|first| doing(*first) == Waiting::Parked),
            }
        };
        Released { was_its: true, tell: next.or_else(parked), wake: None }
    }

    /// The first of the queue.
    pub(super) fn first(&self) -> Option<u32> {
        self.waiting.front().copied()
    }

    /// Whether nobody comes before the first one.
    pub(super) const fn is_reserved(&self) -> bool {
        self.is_reserved
    }

    /// Who waits in front of a thread, and who behind it: in the queue, or among those that spin for a mutex.
    pub(super) fn neighbours(&self, thread: u32) -> (Option<u32>, Option<u32>) {
        let queue = if self.kind == LockKind::Mutex { &self.spinning } else { &self.waiting };
        let Some(place) = queue.iter().position(|waiting| *waiting == thread) else { return (None, None) };
        let before = place.checked_sub(1).and_then(|place| queue.get(place));
        (before.copied(), queue.get(place + 1).copied())
    }

    /// A thread halts: if it is the first, others may come before it until it looks again.
    pub(super) fn gives_way(&mut self, thread: u32) {
        if self.first() == Some(thread) && matches!(self.kind, LockKind::PvQueued(_)) {
            self.is_reserved = false;
        }
    }

    /// A thread that has spun for a mutex goes to sleep.
    pub(super) fn sleeps(&mut self, thread: u32) {
        self.spinning.retain(|spinning| *spinning != thread);
        if !self.waiting.contains(&thread) {
            self.waiting.push_back(thread);
        }
    }

    /// Threads that wait for it.
    pub(super) fn waiting(&self) -> impl Iterator<Item = u32> + '_ {
        self.waiting.iter().chain(&self.spinning).copied()
    }
}
