//! What runs in the partitions: work on every virtual CPU while it is told to, or wake-ups at given times and how late they end.
//!
//! Orders come through a folder that is open for writing: the file `now` says `all`, or who works alone.

use std::fs;
use std::hint::{black_box, spin_loop};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{available_parallelism, scope, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bulkhead::probes::realtime::become_real_time;

/// The word by which this program knows that it is in a guest.
pub const WORD: &str = "work-in-a-guest";
/// The file that says who works.
pub const NOW: &str = "now";
/// Of who has a deadline.
pub const PERIOD_US: u64 = 5000;
pub const RUNTIME_US: u64 = 300;
pub const ONE_MISSED_IN: usize = 100;
/// Of the thread that is woken up, as the probe's.
const PRIORITY: u32 = 80;
/// How often it is woken up for one figure: a share of so many is beyond.
const TIMES: usize = 3000;
/// Between two looks at orders.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// The words of a guest; none on the host.
pub fn words() -> Option<Vec<String>> {
    let mut words = std::env::args().skip(1);
    (words.next()? == WORD).then(|| words.collect())
}

/// The file in which a guest says which order it follows.
pub fn heard(name: &str) -> String {
    format!("{name}.heard")
}

/// Works until the guest ends.
pub fn run(words: &[String]) -> ExitCode {
    let [orders, name, rest @ ..] = words else { return ExitCode::from(2) };
    let orders = Path::new(orders);
    let now = || fs::read_to_string(orders.join(NOW)).unwrap_or_default();
    let is_meant = |now: &str| now == "all" || now == *name;
    let say = |file: String, said: String| {
        let next = orders.join(format!("{file}.new"));
        let _ = fs::write(&next, said).and_then(|()| fs::rename(next, orders.join(file)));
    };
    if rest.is_empty() {
        // Who reads orders is not who works: files of the host may be slow while all work.
        let is_told = AtomicBool::new(false);
        let threads = available_parallelism().map_or(1, std::num::NonZero::get);
        scope(|scope| {
            (0..threads).for_each(|_| drop(scope.spawn(|| spin(&is_told))));
            let mut before = String::new();
            loop {
                let now = now();
                is_told.store(is_meant(&now), Ordering::Relaxed);
                if now != before {
                    say(heard(name), now.clone());
                    before = now;
                }
                sleep(LOOK_AGAIN);
            }
        });
    }
    while !is_meant(&now()) {
        sleep(LOOK_AGAIN);
    }
    say(name.clone(), wake_ups().map_or_else(|error| format!("failed: {error:#}"), |us| us.to_string()));
    loop {
        sleep(LOOK_AGAIN);
    }
}

fn spin(is_told: &AtomicBool) -> ! {
    let mut sum = 0_u64;
    loop {
        if is_told.load(Ordering::Relaxed) {
            sum = (0..100_000).fold(sum, |sum, number| black_box(sum.wrapping_add(number)));
        } else {
            sleep(LOOK_AGAIN);
        }
    }
}

/// From when it should have begun until its work was done, the longest of all but a share, in µs: at the priority that the probe has.
fn wake_ups() -> Result<u64> {
    if let Some(note) = become_real_time(PRIORITY).note {
        bail!(note);
    }
    let (period, runtime) = (Duration::from_micros(PERIOD_US), Duration::from_micros(RUNTIME_US));
    let mut responses = Vec::new();
    let mut due = Instant::now() + period;
    for _ in 0..TIMES {
        sleep(due.saturating_duration_since(Instant::now()));
        let began = Instant::now();
        while began.elapsed() < runtime {
            spin_loop();
        }
        responses.push(due.elapsed());
        // Who is later than a period begins anew with the next one, as the probe does.
        while due <= Instant::now() {
            due += period;
        }
    }
    responses.sort_unstable();
    let beyond = responses.len() / ONE_MISSED_IN;
    let response = responses.iter().rev().nth(beyond).context("no wake-ups")?;
    Ok(response.as_micros().try_into()?)
}

/// What a guest has said of its wake-ups, in µs.
pub fn response_us(orders: &Path, name: &str, patience: Duration) -> Result<f64> {
    let began = Instant::now();
    while began.elapsed() < patience {
        if let Ok(said) = fs::read_to_string(orders.join(name)) {
            return said.parse().with_context(|| format!("{name}: {said}"));
        }
        sleep(LOOK_AGAIN);
    }
    bail!("{name} has said nothing within {} s", patience.as_secs())
}
