//! A thread that wakes every 10 ms, as fio's main thread does to look whether its work is done. That keeps an idle CPU
//! warm and makes fio's figures better than those of a program that does nothing meanwhile, so where the probe is compared
//! with it, the probe has such a companion, too.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How often that main thread wakes.
const PERIOD: Duration = Duration::from_millis(10);

/// The thread; gone when this is dropped.
pub struct Companion {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Companion {
    /// Lets it begin; `place` is called in it first and may say where it runs.
    pub fn start(place: fn()) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            place();
            while !told.load(Ordering::Relaxed) {
                thread::sleep(PERIOD);
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Companion {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // It has nothing that could fail.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
