//! The threads of one load: started, known to work, stopped, and their dose added up.
//!
//! ```text
//!  start ─► making ─► first round done ─► working ──stop──► joined ─► Dose
//!              │             │                │
//!              └── error ────┴────────────────┴─────► the reason, kept for the job's reply
//! ```

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::stressors::{make, unit};
use crate::model::job::{Dose, LoadSpec};
use crate::model::names::LoadKind;
use crate::model::units::Nanos;
use crate::workloads::bounds::Bounds;
use crate::workloads::clock::thread_cpu_time;
use crate::workloads::error::WorkError;
use crate::workloads::pin::granted_cpus;

/// How often a waiting starter looks whether the job is to end.
const LOOK: Duration = Duration::from_millis(20);

/// What threads and starter share.
#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    done: AtomicU64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    working: u32,
    cpu_time: Nanos,
    failure: Option<String>,
}

impl Shared {
    fn with<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let result = change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
        result
    }
}

/// A running load. Dropping it stops it.
#[derive(Debug)]
pub struct Team {
    kind: LoadKind,
    threads: Vec<JoinHandle<()>>,
    shared: Arc<Shared>,
    began: Instant,
    done_before: u64,
}

impl Team {
    /// Starts the threads; [`Team::wait_until_working`] tells when they work.
    ///
    /// # Errors
    /// A thread could not be started.
    pub fn start(spec: &LoadSpec, scratch: Option<&Path>) -> Result<Self, WorkError> {
        let count = match spec.kind {
            LoadKind::Idle => 0,
            _ => spec.threads.unwrap_or_else(granted_cpus),
        };
        let shared = Arc::new(Shared::default());
        let mut team =
            Self { kind: spec.kind, threads: Vec::new(), shared, began: Instant::now(), done_before: 0 };
        for number in 0..count {
            let (shared, scratch, kind) =
                (Arc::clone(&team.shared), scratch.map(Path::to_path_buf), spec.kind);
            let thread = thread::Builder::new()
                .name(format!("{kind}-load-{number}"))
                .spawn(move || {
                    if let Err(error) = work(kind, number, count, scratch.as_deref(), &shared) {
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
        self.done_before = self.shared.done.load(Ordering::Relaxed);
        Ok(())
    }

    /// Why a thread has ended before it was asked to, if one has.
    pub fn failure(&self) -> Option<String> {
        let failure = self.shared.with(|state| state.failure.clone())?;
        Some(format!("the {} load broke off: {failure}", self.kind))
    }

    /// Stops the threads and adds up what they did.
    pub fn stop(mut self) -> Dose {
        let elapsed = self.began.elapsed();
        let done = self.shared.done.load(Ordering::Relaxed).saturating_sub(self.done_before);
        let threads = u32::try_from(self.threads.len()).unwrap_or(u32::MAX);
        self.join();
        Dose {
            kind: self.kind,
            threads,
            elapsed_ns: Nanos::from_duration(elapsed),
            rate_per_s: done as f64 / elapsed.as_secs_f64().max(1e-9),
            unit: unit(self.kind).to_owned(),
            cpu_time_ns: self.shared.with(|state| state.cpu_time),
        }
    }

    fn join(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A thread that panicked has left its share of the dose out; there is nothing more to learn from it.
            let _ = thread.join();
        }
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.join();
    }
}

fn work(
    kind: LoadKind,
    number: u32,
    threads: u32,
    scratch: Option<&Path>,
    shared: &Shared,
) -> Result<(), WorkError> {
    let Some(mut stressor) = make(kind, number, threads, scratch)? else { return Ok(()) };
    stressor.round()?;
    let before = thread_cpu_time()?;
    shared.with(|state| state.working += 1);
    let mut outcome = Ok(());
    while outcome.is_ok() && !shared.stop.load(Ordering::Relaxed) {
        outcome = stressor.round().map(|amount| {
            shared.done.fetch_add(amount, Ordering::Relaxed);
        });
    }
    let took = thread_cpu_time()?.saturating_sub(before);
    shared.with(|state| state.cpu_time = state.cpu_time.saturating_add(took));
    outcome
}
