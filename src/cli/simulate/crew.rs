//! Threads that do a study's jobs, one after the other, whoever is free takes the next; a bar tells how far they are.
//! Outcomes are put together by number, so nothing depends on who did what when.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::cli::output;
use crate::platforms::Cancel;
use crate::sim::scenario::{Replication, Study};

/// What takes no longer needs no bar.
const BAR_AFTER: Duration = Duration::from_secs(2);
/// How often it is looked whether somebody interrupted.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How a crew ended.
pub(super) enum End {
    /// All jobs are done; their outcomes in the order of the jobs.
    Done(Vec<Replication>),
    /// Somebody interrupted.
    Interrupted,
    /// The job with this number never came back.
    Broke(usize),
}

/// As many threads as there are CPUs for this process.
pub(super) fn all_cores() -> usize {
    thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Does all jobs with at most so many threads; `watched` is the outcome of the watched one where that is done. A simulation
/// cannot be interrupted, but this wait can: the process ends, and its threads with it.
pub(super) fn run(study: &Arc<Study>, watched: Option<Replication>, threads: usize, cancel: &Cancel) -> End {
    let count = study.jobs().len();
    let next = Arc::new(AtomicUsize::new(0));
    let done = watched.as_ref().map(|_| study.watched());
    let (send, receive) = mpsc::channel();
    for _ in 0..threads.clamp(1, count.max(1)) {
        let (study, next, send) = (Arc::clone(study), Arc::clone(&next), send.clone());
        thread::spawn(move || {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if done == Some(number) {
                    continue;
                }
                // Nobody listens any more after an interruption.
                if number >= study.jobs().len() || send.send((number, study.run(number))).is_err() {
                    break;
                }
            }
        });
    }
    drop(send);
    let mut outcomes: Vec<Option<Replication>> = vec![None; count];
    let mut bar = Bar::new(count);
    if let (Some(place), Some(watched)) = (outcomes.get_mut(study.watched()), watched) {
        *place = Some(watched);
        bar.advance();
    }
    loop {
        match receive.recv_timeout(LOOK_EVERY) {
            Ok((number, replication)) => {
                if let Some(place) = outcomes.get_mut(number) {
                    *place = Some(replication);
                }
                bar.advance();
            }
            Err(RecvTimeoutError::Timeout) => bar.look(),
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if cancel.is_cancelled() {
            bar.clear();
            return End::Interrupted;
        }
    }
    bar.clear();
    if let Some(number) = outcomes.iter().position(Option::is_none) {
        return End::Broke(number);
    }
    End::Done(outcomes.into_iter().flatten().collect())
}

/// A bar on a terminal, once it is worth one.
struct Bar {
    shown: Option<ProgressBar>,
    began: Instant,
    done: usize,
    count: usize,
}

impl Bar {
    fn new(count: usize) -> Self {
        Self { shown: None, began: Instant::now(), done: 0, count }
    }

    fn advance(&mut self) {
        self.done += 1;
        self.look();
    }

    fn look(&mut self) {
        if self.shown.is_none() && self.began.elapsed() >= BAR_AFTER && output::stderr_is_terminal() {
            let bar = ProgressBar::new(self.count as u64);
            let style =
                ProgressStyle::with_template("{bar:24} {pos}/{len} simulations, {elapsed} so far{msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
            bar.enable_steady_tick(Duration::from_millis(500));
            self.shown = Some(bar);
        }
        if let Some(bar) = &self.shown {
            bar.set_position(self.done as u64);
        }
    }

    fn clear(&self) {
        if let Some(bar) = &self.shown {
            bar.finish_and_clear();
        }
    }
}
