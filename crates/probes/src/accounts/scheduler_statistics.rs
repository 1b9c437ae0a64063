//! What the scheduler took from the probe's own threads. A thread's figures are gone when it ends, so workers bank them
//! with the thread that started it, which is the thread of the job.

use std::cell::RefCell;
use std::path::Path;

use nix::sys::resource::{UsageWho, getrusage};
use nix::unistd::gettid;

use super::files;
use super::steal::USER_TICK_NS;
use units::Nanos;

/// Most threads whose numbers are kept.
const MOST_THREADS: usize = 4096;

/// What the scheduler took from one thread, or from several.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SchedulerStatistics {
    /// Time they could have run but waited; none when the kernel does not say.
    pub run_delay: Option<Nanos>,
    /// How often they were made to give up their CPU.
    pub involuntary: Option<u64>,
    /// Time they waited for a block device; none when the kernel does not say.
    pub block_delay: Option<Nanos>,
    /// Their numbers.
    pub threads: Vec<i32>,
}

thread_local! {
    static BANKED: RefCell<SchedulerStatistics> = RefCell::default();
}

impl SchedulerStatistics {
    /// Of the calling thread since it began.
    pub fn of_this_thread() -> Self {
        let schedstat = files::read(Path::new("/proc/thread-self/schedstat"));
        let usage = getrusage(UsageWho::RUSAGE_THREAD);
        Self {
            run_delay: schedstat.ok().as_deref().and_then(run_delay),
            involuntary: usage
                .ok()
                .and_then(|usage| u64::try_from(usage.involuntary_context_switches()).ok()),
            block_delay: files::read(Path::new("/proc/thread-self/stat"))
                .ok()
                .as_deref()
                .and_then(block_delay),
            threads: vec![gettid().as_raw()],
        }
    }

    /// Of the calling thread and of all threads whose statistics it banked.
    pub fn so_far() -> Self {
        let mut all = Self::of_this_thread();
        BANKED.with_borrow(|banked| all.add(banked));
        all
    }

    /// What was added since `before`.
    #[must_use]
    pub fn since(self, before: &Self) -> Self {
        Self {
            run_delay: self.run_delay.zip(before.run_delay).map(|(now, then)| now.saturating_sub(then)),
            involuntary: self.involuntary.zip(before.involuntary).map(|(now, then)| now.saturating_sub(then)),
            block_delay: self.block_delay.zip(before.block_delay).map(|(now, then)| now.saturating_sub(then)),
            threads: self.threads,
        }
    }

    fn add(&mut self, other: &Self) {
        self.run_delay = either_or_sum(self.run_delay, other.run_delay, Nanos::saturating_add);
        self.involuntary = either_or_sum(self.involuntary, other.involuntary, u64::saturating_add);
        self.block_delay = either_or_sum(self.block_delay, other.block_delay, Nanos::saturating_add);
        let room = MOST_THREADS.saturating_sub(self.threads.len());
        self.threads.extend(other.threads.iter().take(room));
    }
}

/// The sum, or the one that is known.
fn either_or_sum<T: Copy>(mine: Option<T>, its: Option<T>, sum: fn(T, T) -> T) -> Option<T> {
    match (mine, its) {
        (Some(mine), Some(its)) => Some(sum(mine, its)),
        (mine, its) => mine.or(its),
    }
}

/// Adds the statistics of a thread that has ended to what the calling thread banked.
pub fn bank(statistics: &SchedulerStatistics) {
    BANKED.with_borrow_mut(|banked| banked.add(statistics));
}

/// Waiting time from the text of a `schedstat` file: `running waiting slices`, nanoseconds.
pub fn run_delay(text: &str) -> Option<Nanos> {
    text.split_ascii_whitespace().nth(1)?.parse().ok().map(Nanos::from_nanos)
}

/// Time a thread waited for a block device, from the text of its `stat` file: field 42 of proc(5), in ticks of user space.
fn block_delay(text: &str) -> Option<Nanos> {
    // The name in parentheses may contain anything; the fields behind the last one cannot.
    let ticks: u64 = text.rsplit_once(')')?.1.split_ascii_whitespace().nth(39)?.parse().ok()?;
    Some(Nanos::from_nanos(ticks.saturating_mul(USER_TICK_NS)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_42_of_a_thread_is_its_wait_for_devices() {
        let numbers: Vec<String> = (4..=52).map(|field| field.to_string()).collect();
        let text = format!("7 (odd ) name) S {}\n", numbers.join(" "));
        assert_eq!(block_delay(&text), Some(Nanos::from_nanos(420_000_000)));
        assert_eq!(["", "7 (x)", "7 (x) S 1 2 3"].map(block_delay), [None; 3]);
    }

    #[test]
    fn the_second_figure_is_the_wait() {
        assert_eq!(run_delay("0 36074 1\n"), Some(Nanos::from_nanos(36_074)));
        assert_eq!(["", "7", "1 x 2", "1 -2 3"].map(run_delay), [None; 4]);
    }

    #[test]
    fn what_a_workers_paid_stays_with_the_thread_that_started_it() {
        let statistics = |delay, switches| SchedulerStatistics {
            run_delay: Some(Nanos::from_nanos(delay)),
            involuntary: Some(switches),
            block_delay: None,
            threads: vec![1],
        };
        std::thread::spawn(move || {
            let before = SchedulerStatistics::so_far();
            bank(&statistics(1 << 40, 1 << 30));
            bank(&statistics(1 << 41, 5));
            let paid = SchedulerStatistics::so_far().since(&before);
            assert!(paid.run_delay.unwrap().get() >= 3 << 40);
            assert!(paid.involuntary.unwrap() >= (1 << 30) + 5);
            assert_eq!(paid.threads.len(), 3);
        })
        .join()
        .unwrap();
        assert!(
            SchedulerStatistics::so_far().run_delay.unwrap().get() < 1 << 40,
            "another thread banked nothing"
        );
    }
}
