//! The border to libfabric: its structures, and the functions that it and programs call through them.
//!
//! Every function here turns what it was given into the [`crate::engine::Engine`]'s terms and its answer into an error
//! number. No panic crosses the border; what is not offered says so.

mod background;
pub mod domain;
pub mod endpoint;
pub mod entry;
pub mod info;
pub mod queue;
pub mod refusal;
pub mod tagged;
pub mod types;
pub mod vector;

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use channel::Section;
use libc::{c_int, ssize_t};

use crate::address::Address;
use crate::engine::Engine;
use crate::idle::Idle;
use crate::settings::Settings;
use crate::transport::tcp::SharedHub;

/// What all objects of one domain share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    state: Mutex<State>,
    /// Tells the thread in the background that something was left.
    left: Condvar,
}

/// What the lock guards.
pub(crate) struct State {
    pub(crate) engine: Engine,
    /// Ranks by libfabric's address; none for an address that was removed.
    pub(crate) ranks: Vec<Option<u32>>,
    /// Ours, while an endpoint is enabled.
    pub(crate) section: Option<Section>,
    /// Our address, then, and where ranks of other hosts call us.
    pub(crate) address: Option<Address>,
    pub(crate) hub: Option<SharedHub>,
    /// Ranks of other hosts to which there is a way.
    pub(crate) met: Vec<u32>,
    pub(crate) idle: Idle,
    /// How often the program has looked for completions.
    pub(crate) calls: u64,
    /// The thread in the background, while an endpoint is enabled, and whether it sleeps until it is woken.
    pub(crate) thread: Option<JoinHandle<()>>,
    pub(crate) sleeps: bool,
}

impl std::fmt::Debug for State {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("State").field("ranks", &self.ranks).finish_non_exhaustive()
    }
}

impl Shared {
    fn new(settings: Settings) -> Self {
        let engine = Engine::new(settings.rank, settings.run, Vec::new(), say);
        let idle = Idle::new(settings.local_size);
        let state = State {
            engine,
            ranks: Vec::new(),
            section: None,
            address: None,
            hub: None,
            met: Vec::new(),
            idle,
            calls: 0,
            thread: None,
            sleeps: false,
        };
        Self { settings, state: Mutex::new(state), left: Condvar::new() }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says what is done, where that was asked for.
    pub(crate) fn debug(&self, words: impl FnOnce() -> String) {
        if self.settings.debug {
            say(&format!("rank {}: {}", self.settings.rank, words()));
        }
    }
}

/// Tells people.
pub(crate) fn say(words: &str) {
    // Where standard error is closed nobody can be told.
    // In one piece: other ranks write there, too.
    let _told = std::io::stderr().write_all(format!("bulkhead-fi: {words}\n").as_bytes());
}

/// Runs a function of the border; a panic becomes an error.
fn guard(call: impl FnOnce() -> c_int) -> c_int {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or(-types::FI_EOTHER)
}

/// The same for functions that return a size.
fn guard_size(call: impl FnOnce() -> ssize_t) -> ssize_t {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or(-(types::FI_EOTHER as ssize_t))
}

/// An error number as functions return it that return a size.
fn size(number: c_int) -> ssize_t {
    number as ssize_t
}
