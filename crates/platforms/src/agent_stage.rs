//! The host as seen from a job of the agent: the job's thread asks, the link's thread talks.
//!
//! ```text
//!  job's thread              link's thread                      host
//!   running() ──Running───────► write ──────────────────────────►
//!   ask_clock ──Ask───────────► read clocks, write ─────────────►
//!             ◄──Clock───────── read, read clocks ◄──────────────
//!   await_start ◄──Start─────── read ◄───────────────────────────
//! ```
//! The clocks are read by the thread that writes and reads, so that waking the other one is no part of the exchange.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};

use units::Nanos;
use units::exchange::{Exchange, Moment, quickest};
use units::outside::ClockReading;
use units::stage::{Stage, Start};

/// How long one question may go unanswered.
const ANSWER_GRACE: Duration = Duration::from_secs(2);
/// An exchange is quick enough once it takes at most this many times as long as the quickest there ever was on this link: further
/// ones would hardly make the error bar narrower, and each costs a guest that is translated a millisecond.
const QUICK: f64 = 1.25;
/// How often a job that waits for its start looks whether it is to end. Every message wakes it at once.
const LOOK: Duration = Duration::from_millis(50);

/// What the thread of a job wants the link's thread to do.
pub(super) enum Request {
    /// Tell the host that the loads are up.
    Running,
    /// Ask the host's clock once.
    Ask,
}

/// What the link's thread has heard for the thread of a job.
pub(super) enum Reply {
    /// An answer of the host's clock.
    Clock(Exchange),
    /// When to begin.
    Start(Nanos),
}

/// Reads the clocks in a row.
pub(super) fn read_clocks() -> Moment {
    let before_ns = read(ClockId::CLOCK_MONOTONIC);
    let raw_ns = read(ClockId::CLOCK_MONOTONIC_RAW);
    let realtime_ns = read(ClockId::CLOCK_REALTIME);
    Moment { before_ns, raw_ns, realtime_ns, after_ns: read(ClockId::CLOCK_MONOTONIC) }
}

/// A clock that the kernel does not have stands at zero, which is seen as one that does not run.
fn read(clock: ClockId) -> u64 {
    let Ok(time) = clock_gettime(clock) else { return 0 };
    let seconds = u64::try_from(time.tv_sec()).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(time.tv_nsec()).unwrap_or(0))
}

/// The stage of one job.
pub(super) struct Teller<'a> {
    request: &'a dyn Fn(Request),
    replies: Receiver<Reply>,
    stop: &'a AtomicBool,
    deadline: Instant,
    /// The quickest exchange of all jobs so far, in nanoseconds; 0 before the first one.
    quickest_ns: &'a AtomicU64,
    /// A start that came while something else was waited for.
    start: Option<Nanos>,
}

impl<'a> Teller<'a> {
    pub(super) fn new(
        request: &'a dyn Fn(Request),
        replies: Receiver<Reply>,
        stop: &'a AtomicBool,
        deadline: Instant,
        quickest_ns: &'a AtomicU64,
    ) -> Self {
        Self { request, replies, stop, deadline, quickest_ns, start: None }
    }

    /// The next word before `until`; none when the job is to end meanwhile, or nothing came.
    fn hear(&self, until: Instant) -> Option<Reply> {
        let until = until.min(self.deadline);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || self.stop.load(Ordering::SeqCst) {
                return None;
            }
            match self.replies.recv_timeout(left.min(LOOK)) {
                Ok(word) => return Some(word),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    fn ask_once(&mut self) -> Option<Exchange> {
        (self.request)(Request::Ask);
        let until = Instant::now() + ANSWER_GRACE;
        loop {
            match self.hear(until)? {
                Reply::Clock(exchange) => return Some(exchange),
                Reply::Start(at) => self.start = Some(at),
            }
        }
    }
}

impl Stage for Teller<'_> {
    fn running(&mut self) {
        (self.request)(Request::Running);
    }

    fn await_start(&mut self) -> Start {
        loop {
            if let Some(at) = self.start.take() {
                return Start::At(at);
            }
            match self.hear(self.deadline) {
                Some(Reply::Start(at)) => return Start::At(at),
                Some(Reply::Clock(_)) => {}
                None => return Start::Never,
            }
        }
    }

    fn ask_clock(&mut self, exchanges: u32) -> Option<ClockReading> {
        let before = self.quickest_ns.load(Ordering::Relaxed);
        let mut made = Vec::new();
        for _ in 0..exchanges {
            // Who does not answer once would only cost the same time again.
            let Some(exchange) = self.ask_once() else { break };
            made.push(exchange);
            if exchange.round_trip() as f64 <= before as f64 * QUICK {
                break;
            }
        }
        if let Some(best) = made.iter().map(Exchange::round_trip).min() {
            let best = if before == 0 { best } else { best.min(before) };
            self.quickest_ns.store(best, Ordering::Relaxed);
        }
        quickest(&made)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_start_that_comes_amid_the_answers_is_kept() {
        let (replies, heard) = channel();
        let asked = Cell::new(0);
        let exchange = Exchange { asked: read_clocks(), received_ns: 5, sent_ns: 6, answered: read_clocks() };
        let request = |request: Request| {
            if matches!(request, Request::Ask) {
                asked.set(asked.get() + 1);
                replies.send(Reply::Start(Nanos::from_nanos(77))).expect("somebody listens");
                replies.send(Reply::Clock(exchange)).expect("somebody listens");
            }
        };
        let stop = AtomicBool::new(false);
        let deadline = Instant::now() + Duration::from_secs(60);
        let quickest_ns = AtomicU64::new(0);
        let mut teller = Teller::new(&request, heard, &stop, deadline, &quickest_ns);
        assert_eq!(teller.ask_clock(3).map(|reading| reading.exchanges), Some(3));
        assert_eq!((asked.get(), quickest_ns.load(Ordering::SeqCst)), (3, exchange.round_trip()));
        assert_eq!(teller.ask_clock(3).map(|reading| reading.exchanges), Some(1), "as quick as the quickest");
        quickest_ns.store(exchange.round_trip() / 2, Ordering::SeqCst);
        assert_eq!(teller.ask_clock(3).map(|reading| reading.exchanges), Some(3), "none was quick");
        assert_eq!(teller.await_start(), Start::At(Nanos::from_nanos(77)));
        stop.store(true, Ordering::SeqCst);
        assert_eq!(teller.await_start(), Start::Never, "it is to end");
    }

    #[test]
    fn clocks_are_read_in_order_and_run() {
        let (first, second) = (read_clocks(), read_clocks());
        assert!(first.before_ns <= first.after_ns && first.after_ns <= second.before_ns);
        assert!(first.raw_ns > 0 && second.raw_ns > first.raw_ns && first.realtime_ns > 0);
    }
}
