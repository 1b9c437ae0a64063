//! How long a client waits for its answers while nothing is made to fail.
//!
//! ```text
//!  asks ─► first answer ─► counts for a round ─► asks no more ─► waits for what is on its way ─► a histogram of the round
//! ```
//! Requests go out when they are due, so what waits behind a slow one is slow as well (no coordinated omission). What is not answered in
//! time counts as having taken all of that time; the limits of requirements lie below it.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use model::requirement::Client;
use model::verification::Responses;
use platforms::{Broken, Cancel};
use units::Nanos;
use units::histogram::Histogram;

use super::Asking;

/// How long a round is at least.
const ROUND: Duration = Duration::from_secs(2);
/// Requests of a round at least.
const ROUND_REQUESTS: u32 = 20;
/// How long the first answer is waited for at least.
const FIRST_WITHIN: Duration = Duration::from_secs(5);
/// How often it is looked how far everything is.
const LOOK: Duration = Duration::from_millis(10);

/// Asks for a round. The outer error is the user's interruption, the inner one why there is nothing to count.
pub fn responses(client: &Client, cancel: &Cancel) -> Result<Result<Responses, units::Reason>, Broken> {
    let asking = match Asking::start(client) {
        Ok(asking) => asking,
        Err(reason) => return Ok(Err(reason)),
    };
    let first_within = FIRST_WITHIN.max(asking.within());
    if !wait(first_within, cancel, || asking.counts().1 > 0)? {
        let words = format!(
            "none of {} requests to {} was answered within {} ms, in {} s",
            asking.counts().0,
            client.at,
            client.answer_within_ms.get(),
            first_within.as_secs()
        );
        return Ok(Err(words.into()));
    }
    let from = asking.shared.requests().len();
    let round = ROUND.max(client.period_ms.to_duration() * ROUND_REQUESTS);
    wait(round, cancel, || false)?;
    asking.shared.asks_no_more.store(true, Ordering::SeqCst);
    wait(asking.within(), cancel, || asking.all_are_answered(from))?;
    Ok(Ok(asking.seen_from(from)))
}

/// Waits until something is so; false if it never was.
fn wait(limit: Duration, cancel: &Cancel, is_so: impl Fn() -> bool) -> Result<bool, Broken> {
    let until = Instant::now() + limit;
    while !is_so() {
        if cancel.is_cancelled() {
            return Err(Broken::Interrupted);
        }
        if Instant::now() >= until {
            return Ok(false);
        }
        std::thread::sleep(LOOK);
    }
    Ok(true)
}

impl Asking {
    fn all_are_answered(&self, from: usize) -> bool {
        self.shared.requests().iter().skip(from).all(|one| one.answered.is_some())
    }

    /// What became of the requests from this one on.
    fn seen_from(&self, from: usize) -> Responses {
        let all = self.shared.requests();
        let counted = all.get(from..).unwrap_or_default();
        let within = Nanos::from_duration(self.within());
        let took = counted.iter().map(|one| {
            let took = one.answered.map(|at| Nanos::from_duration(at.saturating_duration_since(one.at)));
            took.unwrap_or(within).get()
        });
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        Responses {
            response_ns: Histogram::from_values(took),
            asked: count(counted.len()),
            missing: count(counted.iter().filter(|one| !self.in_time(one)).count()),
        }
    }
}
