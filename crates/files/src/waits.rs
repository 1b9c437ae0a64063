//! Who waits for a lock, and how a wait is taken back.
//!
//! A guest's kernel never says over virtio-fs that a signal is to end a request (`virtio_fs_wake_interrupt_and_unlock` of Linux), so PID 1
//! of the guest does, by two attributes that nobody has and only the guest's root may ask for:
//!
//! ```text
//!  SETLKW ─► begin ─► thread: taken back? ─ no ─► fcntl, flock ─► has it ──► answered
//!                        │        ▲                    └─ woken ──┐
//!                        │        └───────────────────────────────┘
//!                        └─ yes ─► EINTR
//!  trusted.bulkhead.waits         who has waited for a while; where nobody has, the answer waits until somebody does
//!  trusted.bulkhead.interrupt.N   takes wait N back, and wakes its thread until it is gone
//! ```
//! What the guest's kernel makes of EINTR (`fuse_setlk`) is right for a thread that a signal has reached, and for no other: that is
//! for whoever asks to know. Waits go by numbers of their own, because a thread may have got its lock and wait for the next one.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::libc::{c_int, c_void, siginfo_t};
use nix::sys::pthread::{Pthread, pthread_kill, pthread_self};
use nix::sys::signal::{SigSet, Signal};
use rustix::io::Errno;
use vmm_sys_util::signal::register_signal_handler;

use crate::message::{Body, Result};
use crate::server::Outcome;
use crate::xattrs::sized;

/// The attribute that says who waits.
pub const WAITS: &str = "trusted.bulkhead.waits";
/// What the attribute begins with that takes back the wait whose number follows.
pub const INTERRUPT: &str = "trusted.bulkhead.interrupt.";
/// Longest list of those who wait, in bytes.
pub const LONGEST_LIST: usize = MOST_WAITING * LISTED_BYTES;

/// Most that wait at once.
const MOST_WAITING: usize = 128;
/// Most that wait for the list at once: a guest has one.
const MOST_ASKING: usize = 4;
/// One in the list: the wait's number and the thread's, both as 64 bits.
const LISTED_BYTES: usize = 16;
/// Most locks come sooner, and nobody in the guest is to be woken for those.
const FOR_A_WHILE: Duration = Duration::from_millis(50);
/// After this the thread of a wait that was taken back is woken again: it may have been about to wait.
const WAKE_EVERY: Duration = Duration::from_millis(2);
/// For so long. A file system of the host's may be deaf to signals; who asked may ask again.
const WAKE_FOR: Duration = Duration::from_millis(100);
/// Interrupts what waits: nothing else in this process uses it.
const WAKE: Signal = Signal::SIGUSR1;

/// A wait as the list has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listed {
    /// The wait's number: another one has another.
    pub number: u64,
    /// Whose it is: a thread in the guest, by its number there.
    pub thread: u64,
}

/// The waits of a list, as far as they are whole.
pub fn listed(list: &[u8]) -> Vec<Listed> {
    let (each, _) = list.as_chunks::<LISTED_BYTES>();
    let long = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
    let one = |bytes: &[u8; LISTED_BYTES]| Listed { number: long(&bytes[..8]), thread: long(&bytes[8..]) };
    each.iter().map(one).collect()
}

/// All waits for locks.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    table: Mutex<Table>,
    /// Somebody waits, one that was taken back does not any more, or it is over.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Table {
    /// By their numbers, and so in the order in which they began.
    all: BTreeMap<u64, Entry>,
    last: u64,
    /// Whose the list is.
    asks: Option<u32>,
    asking: usize,
    /// Whether somebody who asks sleeps until anybody waits.
    is_awaited: bool,
    is_over: bool,
}

#[derive(Debug)]
struct Entry {
    /// In the guest.
    thread: u32,
    since: Instant,
    is_taken_back: bool,
    /// The thread here that waits in a system call, and lives as long as this entry.
    waits_in: Option<Pthread>,
}

/// One wait; it ends with this.
#[derive(Debug)]
pub(crate) struct Wait {
    waits: Arc<Waits>,
    number: u64,
}

/// One that asks for the list.
#[derive(Debug)]
struct Asking(Arc<Waits>);

impl Waits {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A thread of the guest's begins to wait.
    pub fn begin(self: &Arc<Self>, thread: u32) -> Result<Wait> {
        let mut table = self.table();
        if table.all.len() >= MOST_WAITING {
            return Err(Errno::NOLCK);
        }
        table.last += 1;
        let number = table.last;
        let entry = Entry { thread, since: Instant::now(), is_taken_back: false, waits_in: None };
        table.all.insert(number, entry);
        if std::mem::take(&mut table.is_awaited) {
            self.changed.notify_all();
        }
        Ok(Wait { waits: Arc::clone(self), number })
    }

    /// Answers one of the two attributes, of which the guest takes so many bytes; none when it is another.
    pub fn answer(self: &Arc<Self>, name: &[u8], size: u32, thread: u32) -> Option<Result<Outcome>> {
        if name == WAITS.as_bytes() {
            return Some(self.answer_who(usize::try_from(size).unwrap_or(usize::MAX), thread));
        }
        let number = std::str::from_utf8(name.strip_prefix(INTERRUPT.as_bytes())?).ok();
        let Some(number) = number.and_then(|number| number.parse().ok()) else {
            return Some(Err(Errno::INVAL));
        };
        let waits = Arc::clone(self);
        Some(Ok(Outcome::Waits(Box::new(move || {
            waits.take_back(number);
            sized(Vec::new(), size)
        }))))
    }

    fn answer_who(self: &Arc<Self>, most: usize, thread: u32) -> Result<Outcome> {
        if most < LISTED_BYTES {
            return Err(Errno::RANGE);
        }
        let mut table = self.table();
        // PID 1's thread is the first that asks. A program that waited here could not be ended.
        if *table.asks.get_or_insert(thread) != thread {
            return Err(Errno::OPNOTSUPP);
        }
        if table.asking >= MOST_ASKING {
            return Err(Errno::BUSY);
        }
        table.asking += 1;
        let asking = Asking(Arc::clone(self));
        Ok(Outcome::Waits(Box::new(move || Ok(Body(asking.0.who(most))))))
    }

    /// Those who have waited for a while, as soon as somebody has; nobody when it is over.
    fn who(&self, most: usize) -> Vec<u8> {
        let mut table = self.table();
        loop {
            // Those after the first have waited no longer.
            let longest = table.all.values().next().map(|entry| entry.since.elapsed());
            table = match longest {
                _ if table.is_over => return Vec::new(),
                None => {
                    table.is_awaited = true;
                    self.changed.wait(table).unwrap_or_else(PoisonError::into_inner)
                }
                Some(age) if age < FOR_A_WHILE => self.sleep(table, FOR_A_WHILE.saturating_sub(age)),
                Some(_) => return table.list(most),
            }
        }
    }

    /// Ends a wait, unless it has the lock by then.
    fn take_back(&self, number: u64) {
        let until = Instant::now() + WAKE_FOR;
        let mut table = self.table();
        while let Some(entry) = table.all.get_mut(&number) {
            entry.is_taken_back = true;
            if let Some(thread) = entry.waits_in {
                // The thread takes its entry out, for which it needs the table, before it ends.
                let _ = pthread_kill(thread, WAKE);
            }
            if Instant::now() >= until {
                break;
            }
            table = self.sleep(table, WAKE_EVERY);
        }
    }

    fn sleep<'a>(&self, table: MutexGuard<'a, Table>, longest: Duration) -> MutexGuard<'a, Table> {
        self.changed.wait_timeout(table, longest).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Nobody will wait any more: whoever asks who does is told so.
    pub fn end(&self) {
        self.table().is_over = true;
        self.changed.notify_all();
    }
}

impl Table {
    fn list(&self, most: usize) -> Vec<u8> {
        let waits = self.all.iter().filter(|(_, entry)| entry.since.elapsed() >= FOR_A_WHILE);
        let one = |(number, entry): (&u64, &Entry)| {
            [number.to_le_bytes(), u64::from(entry.thread).to_le_bytes()].concat()
        };
        waits.take(most / LISTED_BYTES).flat_map(one).collect()
    }
}

impl Wait {
    /// Makes a system call that waits for a lock, again whenever it was interrupted, until it is done or this is taken back.
    pub fn by<T>(self, mut call: impl FnMut() -> Result<T>) -> Result<T> {
        if let Some(entry) = self.waits.table().all.get_mut(&self.number) {
            entry.waits_in = own_thread();
        }
        loop {
            self.go_on()?;
            match call() {
                Err(Errno::INTR) => {}
                done => return done,
            }
        }
    }

    /// Whether it is still to be waited.
    ///
    /// # Errors
    /// EINTR where it was taken back.
    pub fn go_on(&self) -> Result<()> {
        let is_taken_back = self.waits.table().all.get(&self.number).is_some_and(|entry| entry.is_taken_back);
        if is_taken_back { Err(Errno::INTR) } else { Ok(()) }
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        let gone = self.waits.table().all.remove(&self.number);
        if gone.is_some_and(|entry| entry.is_taken_back) {
            self.waits.changed.notify_all();
        }
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.table().asking -= 1;
    }
}

/// The thread that calls; none where a signal could not wake it.
fn own_thread() -> Option<Pthread> {
    // Without `SA_RESTART`: what a signal has interrupted is not begun anew.
    static HANDLED: LazyLock<bool> =
        LazyLock::new(|| register_signal_handler(WAKE as c_int, do_nothing).is_ok());
    let mut wake = SigSet::empty();
    wake.add(WAKE);
    (*HANDLED && wake.thread_unblock().is_ok()).then(pthread_self)
}

extern "C" fn do_nothing(_: c_int, _: *mut siginfo_t, _: *mut c_void) {}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::thread::{scope, yield_now};

    use rustix::fs::{FlockOperation, flock};

    use super::*;

    /// Numbers that look random (`SplitMix64`), from a seed.
    fn random(state: &mut u64) -> u64 {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 17
    }

    /// Many who want one lock, and several who take back whichever they find: everybody has it alone or is told that it has not, nobody
    /// stays, and nothing stays locked.
    #[test]
    fn whoever_takes_back_whatever_somebody_has_the_lock_or_nobody() {
        const WAITERS: usize = 8;
        const ROUNDS: usize = 150;
        let file = tempfile::NamedTempFile::new().unwrap();
        let waits = Arc::new(Waits::default());
        let [had, given_up, inside, done] = [const { AtomicUsize::new(0) }; 4];
        let waiter = |seed: usize| {
            let mut state = u64::try_from(seed).unwrap();
            for _ in 0..ROUNDS {
                let own = File::open(file.path()).unwrap();
                let wait = waits.begin(u32::try_from(seed).unwrap()).unwrap();
                match wait.by(|| flock(&own, FlockOperation::LockExclusive)) {
                    Ok(()) => {
                        assert_eq!(inside.fetch_add(1, SeqCst), 0, "it is had alone");
                        std::thread::sleep(Duration::from_micros(random(&mut state) % 500));
                        inside.fetch_sub(1, SeqCst);
                        had.fetch_add(1, SeqCst);
                    }
                    Err(Errno::INTR) => _ = given_up.fetch_add(1, SeqCst),
                    Err(error) => panic!("{error}"),
                }
            }
            done.fetch_add(1, SeqCst);
        };
        let taker = |seed: u64| {
            let mut state = seed;
            while done.load(SeqCst) < WAITERS {
                let number = {
                    let table = waits.table();
                    let which = usize::try_from(random(&mut state)).unwrap() % (table.all.len() + 1);
                    table.all.keys().nth(which).copied()
                };
                match number {
                    Some(number) => waits.take_back(number),
                    None => yield_now(),
                }
                std::thread::sleep(Duration::from_micros(random(&mut state) % 300));
            }
        };
        scope(|scope| {
            (0..WAITERS).for_each(|seed| drop(scope.spawn(move || waiter(seed))));
            (0..3).for_each(|seed| drop(scope.spawn(move || taker(seed + 1000))));
        });
        assert!(had.into_inner() > 0 && given_up.into_inner() > 0);
        assert!(waits.table().all.is_empty());
        flock(file.as_file(), FlockOperation::NonBlockingLockExclusive).unwrap();
    }

    #[test]
    fn a_wait_that_was_taken_back_before_it_began_does_not_begin() {
        let waits = Arc::new(Waits::default());
        let wait = waits.begin(1).unwrap();
        // Nobody is there to be woken yet.
        waits.take_back(wait.number);
        assert_eq!(wait.by(|| -> Result<()> { panic!("it waits") }), Err(Errno::INTR));
        assert!(waits.table().all.is_empty());
    }

    #[test]
    fn a_list_that_was_cut_is_read_as_far_as_it_goes() {
        let list: Vec<u8> = (0..40).collect();
        let numbers = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        let first = Listed { number: numbers[0], thread: numbers[1] };
        assert_eq!((listed(&list)[0], listed(&list).len()), (first, 2));
        assert_eq!(listed(&list[..15]), []);
    }
}
