//! A thread that goes on with what the program's calls have left: ways to other ranks, and sends that are not all on their way.
//! So a rank that computes, or waits for something else, holds up nobody who waits for what it has sent.
//!
//! ```text
//!  enabled ─► something left? ── no ──► sleeps until a call leaves something ─┐
//!                 ▲   └─ yes ─► naps, then one round, unless the program calls ┤
//!                 └───────────────────────────────────────────────────────────┘      closed ─► ends
//! ```

use std::sync::{Arc, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::{Shared, State};

/// Between two rounds at first, and at most where nothing moves.
const NAP: Duration = Duration::from_millis(1);
/// See [`NAP`].
const LONGEST_NAP: Duration = Duration::from_millis(20);

/// Starts the thread; it ends when the endpoint has no section any more.
pub(super) fn start(shared: &Arc<Shared>) -> std::io::Result<JoinHandle<()>> {
    let shared = Arc::clone(shared);
    thread::Builder::new().name("fabric-progress".to_owned()).spawn(move || run(&shared))
}

fn run(shared: &Shared) {
    let mut state = shared.lock();
    let (mut nap, mut calls) = (NAP, state.calls);
    while state.section.is_some() {
        if state.engine.has_left() {
            state = rest(shared, state, nap);
            let is_away = state.calls == calls;
            nap = if is_away && state.engine.go_on() { NAP } else { LONGEST_NAP.min(nap * 2) };
        } else {
            state.sleeps = true;
            state = shared.left.wait(state).unwrap_or_else(PoisonError::into_inner);
            nap = NAP;
        }
        calls = state.calls;
    }
}

fn rest<'a>(shared: &'a Shared, state: MutexGuard<'a, State>, nap: Duration) -> MutexGuard<'a, State> {
    let rested = shared.left.wait_timeout(state, nap);
    rested.unwrap_or_else(PoisonError::into_inner).0
}

impl Shared {
    /// After a send to this rank: wakes the thread when something was left.
    #[inline]
    pub(super) fn after_send(&self, state: &mut State, peer: u32) {
        if state.sleeps && state.engine.has_left_for(peer) {
            self.wake(state);
        }
    }

    /// Wakes the thread, so that it looks what there is to do.
    pub(super) fn wake(&self, state: &mut State) {
        state.sleeps = false;
        self.left.notify_all();
    }
}
