//! How a server answered so far, and how many requests may so wait for it: a client that spares whom it asks must not be the outage that
//! it measures. What is not asked is not missing.
//!
//! ```text
//!  never answered, or slower than four periods a moment ago ─► 4
//!  at once until then, and not any more: it is gone          ─► what it usually answers in half of the time that answers have
//! ```
//! Fewer, and the end of an outage would be known to less; more, and it could not get through them all when it is back.

use std::time::{Duration, Instant};

use model::requirement::Client;

/// Requests that a server is asked at once in any case, and periods that an answer takes when it is slow.
const AT_EASE: u32 = 4;
/// Weight of an answer in how long answers usually take, one of so many.
const OF_SO_MANY: u32 = 8;

/// What answers were like.
#[derive(Debug, Clone, Copy)]
pub(super) struct Heard {
    /// When the last one came.
    at: Instant,
    /// How long after its request.
    took: Duration,
    /// How long it usually is.
    usually: Duration,
}

impl Heard {
    /// With one more answer, which came now.
    pub(super) fn after(before: Option<Self>, now: Instant, took: Duration) -> Self {
        let usually = before.map_or(took, |heard| heard.usually);
        Self { at: now, took, usually: usually * (OF_SO_MANY - 1) / OF_SO_MANY + took / OF_SO_MANY }
    }
}

/// How many requests may be on their way.
pub(super) fn most_at_once(heard: Option<Heard>, client: &Client) -> usize {
    let at_ease = client.period_ms.to_duration() * AT_EASE;
    let within = client.answer_within_ms.to_duration();
    let is_slow = |heard: &Heard| heard.took > at_ease && heard.at.elapsed() <= within;
    let Some(heard) = heard.filter(|heard| !is_slow(heard)) else { return AT_EASE as usize };
    let answered = within.as_nanos() / (2 * heard.usually.as_nanos().max(1));
    usize::try_from(answered).unwrap_or(usize::MAX).max(AT_EASE as usize)
}
