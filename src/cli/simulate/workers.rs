//! Threads that do a study's jobs, one after the other, whoever is free takes the next; a bar tells how far they are.
//! Outcomes are put together by number, so nothing depends on who did what when.
//!
//! ```text
//!  jobs ─► threads ─► outcomes ─► all of them
//!             ▲ brake    └─ interrupted: what was still waiting, told within a second, and the outcomes of what was done; who has not
//!                           answered by then is left
//!             └─ pulled by an interruption
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::cli::output;
use platforms::Cancel;
use sim::brake::Brake;
use sim::scenario::{Replication, Study};

/// What takes no longer needs no bar.
const BAR_AFTER: Duration = Duration::from_secs(2);
/// How often it is looked whether somebody interrupted.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How long an interruption waits for those under way to say what they were waiting for.
const LAST_WORDS: Duration = Duration::from_millis(800);
/// Simulations under way that an interruption names.
const NAMED: usize = 4;

/// How the workers ended.
pub(super) enum End {
    /// All jobs are done; their outcomes in the order of the jobs.
    Done(Vec<Replication>),
    /// Somebody interrupted: how far it was, and what was still waiting; outcomes of the jobs that were done.
    Interrupted(Vec<String>, Vec<Option<Replication>>),
    /// The job with this number never came back.
    Broke(usize),
}

/// As many threads as there are CPUs for this process.
pub(super) fn all_cores() -> usize {
    thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Jobs that are being done.
struct Workers {
    study: Arc<Study>,
    brake: Brake,
    /// The first job that nobody has taken.
    next: Arc<AtomicUsize>,
    receive: Receiver<(usize, Replication)>,
    outcomes: Vec<Option<Replication>>,
}

/// Does all jobs with at most so many threads; `watched` is the outcome of the watched one where that is done.
pub(super) fn run(study: &Arc<Study>, watched: Option<Replication>, threads: usize, cancel: &Cancel) -> End {
    let mut workers = Workers::begin(study, watched.is_some().then(|| study.watched()), threads);
    let mut bar = Bar::new(workers.outcomes.len());
    if let Some(watched) = watched {
        workers.enter(study.watched(), watched);
        bar.advance();
    }
    loop {
        match workers.receive.recv_timeout(LOOK_EVERY) {
            Ok((number, replication)) => {
                workers.enter(number, replication);
                bar.advance();
            }
            Err(RecvTimeoutError::Timeout) => bar.look(),
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if cancel.is_cancelled() {
            bar.clear();
            let words = workers.last_words();
            return End::Interrupted(words, workers.outcomes);
        }
    }
    bar.clear();
    if let Some(number) = workers.outcomes.iter().position(Option::is_none) {
        return End::Broke(number);
    }
    End::Done(workers.outcomes.into_iter().flatten().collect())
}

impl Workers {
    /// Starts the threads; job `done` is done.
    fn begin(study: &Arc<Study>, done: Option<usize>, threads: usize) -> Self {
        let count = study.jobs().len();
        let (next, brake) = (Arc::new(AtomicUsize::new(0)), Brake::default());
        let (send, receive) = mpsc::channel();
        for _ in 0..threads.clamp(1, count.max(1)) {
            let (study, next, send, brake) =
                (Arc::clone(study), Arc::clone(&next), send.clone(), brake.clone());
            thread::spawn(move || {
                // Who comes too late for an interruption still takes one, and says that it has not begun.
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= study.jobs().len() {
                        break;
                    }
                    let is_done = done == Some(number);
                    if !is_done && send.send((number, study.run_until(number, &brake))).is_err() {
                        break;
                    }
                    if brake.is_pulled() {
                        break;
                    }
                }
            });
        }
        Self { study: Arc::clone(study), brake, next, receive, outcomes: vec![None; count] }
    }

    fn enter(&mut self, number: usize, replication: Replication) {
        if let Some(place) = self.outcomes.get_mut(number) {
            *place = Some(replication);
        }
    }

    /// Stops everybody and says how far they were, and who waited for what.
    fn last_words(&mut self) -> Vec<String> {
        self.brake.pull();
        let began = Instant::now();
        while let Some(left) = LAST_WORDS.checked_sub(began.elapsed()) {
            let Ok((number, replication)) = self.receive.recv_timeout(left) else { break };
            self.enter(number, replication);
        }
        let count = self.outcomes.len();
        let taken = self.next.load(Ordering::Relaxed).min(count);
        let under_way = (0..taken).filter_map(|number| {
            let words = match self.outcomes.get(number)? {
                Some(replication) if replication.interrupted => replication.trouble.clone()?,
                Some(_) => return None,
                None => "does not answer".to_owned(),
            };
            Some(format!("{}: {words}", self.study.job_name(number)))
        });
        let mut under_way: Vec<String> = under_way.collect();
        let done = self.outcomes.iter().flatten().filter(|replication| !replication.interrupted).count();
        let more = under_way.len().saturating_sub(NAMED);
        under_way.truncate(NAMED);
        under_way.insert(0, format!("{done} of {count} simulations were done"));
        if more > 0 {
            under_way.push(format!("{more} more were under way"));
        }
        under_way
    }
}

/// Does something long that touches nothing outside, on a thread of its own: none if somebody interrupts before it is done.
pub(super) fn unless_interrupted<T: Send + 'static>(
    cancel: &Cancel,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (send, receive) = mpsc::channel();
    let worker = thread::spawn(move || send.send(work()));
    loop {
        match receive.recv_timeout(LOOK_EVERY) {
            Ok(done) => return Some(done).filter(|_| !cancel.is_cancelled()),
            Err(RecvTimeoutError::Timeout) if cancel.is_cancelled() => return None,
            Err(RecvTimeoutError::Timeout) => {}
            // It panicked: so does who waits for it.
            Err(RecvTimeoutError::Disconnected) => match worker.join() {
                Err(panic) => std::panic::resume_unwind(panic),
                Ok(_) => return None,
            },
        }
    }
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
