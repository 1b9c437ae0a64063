//! How long a client waits for its answers while nothing is made to fail.
//!
//! ```text
//!  asks ─► first answer ─► counts for a round ─► asks no more ─► waits for what is on its way ─► a histogram of the round
//!           └ of a later round: until it is known what became of the first request
//! ```
//! Rounds that each waited for an answer would see a server that refuses half of the time only while it answers.
//!
//! Requests go out when they are due, so what waits behind a slow one is slow as well (no coordinated omission). What is not answered in
//! time counts as having taken all of that time; the limits of requirements lie below it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use model::requirement::Client;
use model::verification::Responses;
use platforms::Cancel;
use units::histogram::Histogram;
use units::{Nanos, Reason};

use super::{Asking, wait};

/// How long a round is at least.
pub(super) const ROUND: Duration = Duration::from_secs(2);
/// Requests of a round at least.
const ROUND_REQUESTS: u32 = 20;
/// How long the first answer is waited for at least.
const FIRST_WITHIN: Duration = Duration::from_secs(5);

/// How long a round takes at most.
pub fn longest(client: &Client) -> Duration {
    first_within(client) + round(client) + client.answer_within_ms.to_duration()
}

pub(super) fn first_within(client: &Client) -> Duration {
    FIRST_WITHIN.max(client.answer_within_ms.to_duration())
}

fn round(client: &Client) -> Duration {
    ROUND.max(client.period_ms.to_duration() * ROUND_REQUESTS)
}

/// Asks for a round. The first one begins with an answer, and so does each of a client that has several addresses and must find who
/// answers; others begin whether they are answered or not.
///
/// # Errors
/// Nothing is answered, or the user interrupts.
pub fn responses(client: &Client, is_first: bool, cancel: &Cancel) -> Result<Responses, Reason> {
    let asking = Asking::start(client)?;
    if !is_first && client.at.all().len() == 1 {
        wait(first_within(client), cancel, || asking.first_is_known())?;
    } else if !wait(first_within(client), cancel, || asking.counts().1 > 0)? {
        return Err(format!(
            "none of {} requests to {} was answered within {} ms, in {} s",
            asking.counts().0,
            client.at,
            client.answer_within_ms.get(),
            first_within(client).as_secs()
        )
        .into());
    }
    let from = asking.shared.requests().len();
    wait(round(client), cancel, || false)?;
    asking.shared.asks_no_more.store(true, Ordering::SeqCst);
    wait(asking.within(), cancel, || asking.all_are_answered(from))?;
    Ok(asking.seen_from(from))
}

impl Asking {
    fn first_is_known(&self) -> bool {
        self.shared.requests().first().is_some_and(|first| !self.is_open(first))
    }

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
            clients: Vec::new(),
        }
    }
}
