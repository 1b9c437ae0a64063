//! The threads of one load: started, known to work, brought to rest, and their dose added up.
//!
//! ```text
//!                                      ┌─────── go_on ───────┐
//!                                      ▼                     │
//!  start ─► making ─► first round ─► working ──rest──► resting ─► Dose      dropped: all end
//!              │             │          │
//!              └── error ────┴──────────┴─────► the reason, kept for the job's reply
//! ```
//! Who rests keeps its arrays and files and sleeps without a timer: the next measurement beside it costs no setting up.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::hits::Hits;
use super::lock::SpinLock;
use super::outlet::Outlet;
use super::stressors::{Done, MOST_PARTS, Post, default_threads, make};
use crate::bounds::Bounds;
use crate::clock::thread_cpu_time;
use crate::error::WorkError;
use crate::job::{Dose, DosePart, Line, LoadSpec};
use crate::pin::granted_cpus;
use units::Nanos;
use units::names::LoadKind;

/// How often a waiting starter looks whether the job is to end.
const LOOK: Duration = Duration::from_millis(20);

/// What threads and starter share.
#[derive(Debug, Default)]
struct Shared {
    /// Whether the threads are to stop what they do: to rest, or to end.
    stop: AtomicBool,
    done: Tally,
    lock: Arc<SpinLock>,
    state: Mutex<State>,
    changed: Condvar,
}

/// What all threads together have done.
#[derive(Debug, Default)]
struct Tally {
    whole: AtomicU64,
    parts: [AtomicU64; MOST_PARTS],
}

impl Tally {
    fn add(&self, done: &Done) {
        self.whole.fetch_add(done.whole, Ordering::Relaxed);
        for (sum, part) in self.parts.iter().zip(done.parts).filter(|(_, part)| *part > 0) {
            sum.fetch_add(part, Ordering::Relaxed);
        }
    }

    fn read(&self) -> Done {
        let parts =
            std::array::from_fn(|part| self.parts.get(part).map_or(0, |sum| sum.load(Ordering::Relaxed)));
        Done { whole: self.whole.load(Ordering::Relaxed), parts }
    }
}

#[derive(Debug, Default)]
struct State {
    working: u32,
    /// Threads that rest, and those that have ended.
    still: u32,
    /// Whether who rests is to end.
    is_over: bool,
    cpu_time: Nanos,
    way: Option<String>,
    failure: Option<String>,
}

impl Shared {
    fn with<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let result = change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
        result
    }

    /// Rests until it is to go on (true) or to end.
    fn rest(&self) -> bool {
        self.with(|state| state.still += 1);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while self.stop.load(Ordering::Relaxed) && !state.is_over {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        !state.is_over
    }
}

/// Counts a thread as still once it has ended, however it did.
struct Presence<'a>(&'a Shared);

impl Drop for Presence<'_> {
    fn drop(&mut self) {
        self.0.with(|state| state.still += 1);
    }
}

/// A load. Dropping it ends it.
#[derive(Debug)]
pub struct Team {
    kind: LoadKind,
    threads: Vec<JoinHandle<()>>,
    shared: Arc<Shared>,
    outlet: Option<Arc<Outlet>>,
    began: Instant,
    before: Before,
}

/// What had been done when counting began.
#[derive(Debug, Clone, Copy, Default)]
struct Before {
    done: Done,
    /// Packets that the way out had sent.
    sent: Option<u64>,
    /// Interrupts for packets.
    hits: Hits,
}

impl Team {
    /// Starts the threads; [`Team::wait_until_working`] tells when they work. Packets go out on `line`.
    ///
    /// # Errors
    /// A thread could not be started, or there is no interface on that line.
    pub fn start(spec: &LoadSpec, scratch: Option<&Path>, line: Option<&Line>) -> Result<Self, WorkError> {
        let count = match spec.kind {
            LoadKind::Idle => 0,
            kind => spec.threads.unwrap_or_else(|| default_threads(kind, granted_cpus())),
        };
        let shared = Arc::new(Shared::default());
        let outlet = line.filter(|_| spec.kind.sends_packets()).map(Outlet::find).transpose()?.map(Arc::new);
        let (began, before) = (Instant::now(), Before::default());
        let mut team = Self { kind: spec.kind, threads: Vec::new(), shared, outlet, began, before };
        for number in 0..count {
            let (shared, scratch, kind) =
                (Arc::clone(&team.shared), scratch.map(Path::to_path_buf), spec.kind);
            let outlet = team.outlet.clone();
            let thread = thread::Builder::new()
                .name(format!("{kind}-load-{number}"))
                .spawn(move || {
                    let _presence = Presence(&shared);
                    let (lock, outlet) = (&shared.lock, outlet.as_deref());
                    let post = Post { number, threads: count, scratch: scratch.as_deref(), lock, outlet };
                    if let Err(error) = work(kind, &post, &shared) {
                        shared.with(|state| state.failure.get_or_insert(error.to_string()).len());
                    }
                })
                .map_err(|error| {
                    WorkError::system(format!("start thread {number} of the {kind} load"), error)
                })?;
            team.threads.push(thread);
        }
        Ok(team)
    }

    /// Waits until each thread has done its first work; the dose counts from then on.
    ///
    /// # Errors
    /// A thread failed, or the job was to end.
    pub fn wait_until_working(&mut self, bounds: Bounds<'_>) -> Result<(), WorkError> {
        let mut state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        while (state.working as usize) < self.threads.len() {
            if let Some(failure) = &state.failure {
                return Err(WorkError::Unfit(format!("the {} load could not begin: {failure}", self.kind)));
            }
            bounds.check()?;
            let waited = self.shared.changed.wait_timeout(state, LOOK);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(state);
        self.began = Instant::now();
        self.before = Before { done: self.shared.done.read(), sent: self.sent(), hits: self.hits() };
        Ok(())
    }

    /// Why a thread has ended before it was asked to, if one has.
    pub fn failure(&self) -> Option<String> {
        let failure = self.shared.with(|state| state.failure.clone())?;
        Some(format!("the {} load broke off: {failure}", self.kind))
    }

    /// Packets that the way out has sent so far.
    fn sent(&self) -> Option<u64> {
        self.outlet.as_ref().and_then(|outlet| outlet.sent())
    }

    /// Interrupts so far, for loads that send packets.
    fn hits(&self) -> Hits {
        if self.kind.sends_packets() { Hits::so_far(self.outlet.as_deref()) } else { Hits::default() }
    }

    /// What was done since counting began: of packets no more than the way out has sent meanwhile.
    fn done_since(&self) -> Done {
        let (now, before) = (self.shared.done.read(), self.before.done);
        let parts = std::array::from_fn(|part| {
            let [now, before] = [now, before].map(|done| done.parts.get(part).copied().unwrap_or(0));
            now.saturating_sub(before)
        });
        let done = Done { whole: now.whole.saturating_sub(before.whole), parts };
        match self.sent().zip(self.before.sent) {
            Some((now, before)) => confirmed(self.kind, done, now.saturating_sub(before)),
            None => done,
        }
    }

    /// Brings the threads to rest and adds up what they did until now. When no round has ended yet, the rounds that were
    /// going on count with all their time.
    pub fn rest(&mut self) -> Dose {
        let (mut elapsed, mut done) = (self.began.elapsed(), self.done_since());
        let mut hits = self.hits();
        self.wait_until_still();
        if done.whole == 0 {
            (elapsed, done) = (self.began.elapsed(), self.done_since());
            hits = self.hits();
        }
        let hits = hits.since(self.before.hits);
        let per_second = |count: u64| count as f64 / elapsed.as_secs_f64().max(1e-9);
        let parts = self.kind.parts().iter().zip(done.parts).map(|((kind, unit), count)| DosePart {
            kind: *kind,
            rate_per_s: per_second(count),
            unit: (*unit).to_owned(),
        });
        Dose {
            kind: self.kind,
            threads: u32::try_from(self.threads.len()).unwrap_or(u32::MAX),
            elapsed_ns: Nanos::from_duration(elapsed),
            rate_per_s: per_second(done.whole),
            unit: self.kind.unit().to_owned(),
            cpu_time_ns: self.shared.with(|state| state.cpu_time),
            way: self.shared.with(|state| state.way.clone()),
            interrupts_per_s: hits.of_card.map(per_second),
            soft_interrupts_per_s: hits.soft.map(per_second),
            parts: parts.collect(),
        }
    }

    fn wait_until_still(&self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        let mut state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        while (state.still as usize) < self.threads.len() {
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Lets the threads go on that rest; [`Team::wait_until_working`] tells when they work.
    pub fn go_on(&mut self) {
        self.shared.with(|state| {
            (state.working, state.still, state.cpu_time) = (0, 0, Nanos::ZERO);
            self.shared.stop.store(false, Ordering::Relaxed);
        });
    }

    /// Whether all threads are there to go on once they rest.
    pub fn is_whole(&self) -> bool {
        self.threads.iter().all(|thread| !thread.is_finished()) && self.failure().is_none()
    }

    fn end(&mut self) {
        self.shared.with(|state| {
            state.is_over = true;
            self.shared.stop.store(true, Ordering::Relaxed);
        });
        for thread in self.threads.drain(..) {
            // A thread that panicked has left its share of the dose out; there is nothing more to learn from it.
            let _ = thread.join();
        }
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.end();
    }
}

/// Packets that a network load counts, and the bytes in them, as far as `sent` packets allow; a mixed load's network part
/// likewise. What an interrupt load counts are answers, which are confirmed by themselves.
fn confirmed(kind: LoadKind, mut done: Done, sent: u64) -> Done {
    let reduced = |count: u64, packets: u64| {
        let whole = u128::from(count) * u128::from(sent.min(packets)) / u128::from(packets.max(1));
        u64::try_from(whole).unwrap_or(u64::MAX)
    };
    if kind == LoadKind::Network {
        done.parts = done.parts.map(|count| reduced(count, done.whole));
        done.whole = done.whole.min(sent);
    }
    if kind == LoadKind::Mixed {
        let network = kind.parts().iter().position(|(part, _)| *part == LoadKind::Network);
        if let Some(packets) = network.and_then(|at| done.parts.get_mut(at)) {
            *packets = sent.min(*packets);
        }
    }
    done
}

fn work(kind: LoadKind, post: &Post<'_>, shared: &Shared) -> Result<(), WorkError> {
    let Some(mut stressor) = make(kind, post)? else { return Ok(()) };
    loop {
        stressor.round()?;
        let before = thread_cpu_time()?.saturating_add(stressor.children_cpu_time());
        shared.with(|state| {
            state.working += 1;
            state.way = state.way.take().or(stressor.way());
        });
        let mut outcome = Ok(());
        while outcome.is_ok() && !shared.stop.load(Ordering::Relaxed) {
            outcome = stressor.round().map(|done| shared.done.add(&done));
        }
        let took = thread_cpu_time()?.saturating_add(stressor.children_cpu_time()).saturating_sub(before);
        shared.with(|state| state.cpu_time = state.cpu_time.saturating_add(took));
        outcome?;
        if !shared.rest() {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_that_the_way_out_did_not_send_do_not_count() {
        let done = Done { whole: 1000, parts: [1_400_000, 0, 0, 0] };
        assert_eq!(confirmed(LoadKind::Network, done, 250), Done { whole: 250, parts: [350_000, 0, 0, 0] });
        assert_eq!(confirmed(LoadKind::Network, done, 5000), done);
        assert_eq!(confirmed(LoadKind::Network, done, 0), Done::default());
        assert_eq!(confirmed(LoadKind::Network, Done::default(), 5), Done::default());
        assert_eq!(confirmed(LoadKind::Interrupt, done, 0), done, "answers are confirmed by themselves");
        let mixed = Done { whole: 9, parts: [5, 6, 7, 80] };
        assert_eq!(confirmed(LoadKind::Mixed, mixed, 3), Done { whole: 9, parts: [5, 6, 7, 3] });
    }
}
