//! Other work beside a bench: on every CPU bursts of arithmetic and pauses, half of its time in all.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Longest burst, and longest pause.
const LONGEST_BURST_MS: u64 = 100;

/// Other work; ends when it is dropped.
pub struct Busy {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Busy {
    /// Begins.
    pub fn start() -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let thread = |number: usize| {
            let is_over = is_over.clone();
            std::thread::spawn(move || bursts(number as u64, &is_over))
        };
        Self { threads: (0..cpus).map(thread).collect(), is_over }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // One that panicked has ended, too.
            let _ = thread.join();
        }
    }
}

fn bursts(seed: u64, is_over: &AtomicBool) {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut sum = 0.0_f64;
    while !is_over.load(Ordering::Relaxed) {
        let mut time = || Duration::from_millis(random.random_range(1..=LONGEST_BURST_MS));
        let (work, pause) = (time(), time());
        let began = Instant::now();
        while began.elapsed() < work {
            sum = std::hint::black_box((0..1000_u32).fold(sum, |sum, round| (sum + f64::from(round)).sqrt()));
        }
        std::thread::sleep(pause);
    }
}
