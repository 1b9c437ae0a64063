//! Failures that are made: a part is killed or stands still, a client outside waits until it is answered again, and what does not come
//! back by itself is started again.
//!
//! ```text
//!  client: answered 20 times in a row ─► the part fails ─► … missing … ─► answered for good ─┐
//!                                            └► all parts run as before, or nobody starts them ─┴► Outage ─► we do
//! ```
//! A stopped switch is let go when the outage has ended; where we are killed before, its supervisor gives it up after some seconds and
//! starts another one. A full disk, a cable that is out and a clock service that stands still last as long as we say so; partitions that
//! nobody starts again a guard does. So nothing stays broken, whatever becomes of us.

mod agent;
mod armed;
mod guard;
mod held;
mod parts;
mod told;

use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

use model::requirement::{Client, InjectedFailure, OneOrMore};
use model::verification::Outage;
use partition::set::root::state_root;
use partition::set::supervisor::GOOD_RUN;
use platforms::Cancel;
use units::{Nanos, Reason};

pub use agent::{FAIL_VERB, fail_here};
pub use armed::Armed;
pub use guard::{MEND_VERB, mend};

use crate::client::{self, Answering, Asking};
use guard::Guard;
use parts::Parts;

/// How often it is looked how far everything is.
const LOOK: Duration = Duration::from_millis(10);
/// Answers in a row before anything is broken.
const STEADY: usize = 20;
/// How long they are waited for.
const STEADY_WITHIN: Duration = Duration::from_secs(60);
/// How long all parts may take to run again once the outage is over.
const RESTORED_WITHIN: Duration = Duration::from_secs(120);
/// How long a disk stays full and a clock service stands still at least: both are noticed late, if at all.
const STAYS: Duration = Duration::from_secs(5);
/// What nobody has begun to start again after this time nobody will.
const NOBODY_DOES: Duration = Duration::from_secs(2);

/// How long all that is not the outage takes at most, until it is steady before and after, armed, settled, and restored: as long as that
/// loads must last beside it.
pub const LONGEST_BESIDES: Duration = STEADY_WITHIN
    .saturating_mul(2)
    .saturating_add(armed::WITHIN)
    .saturating_add(GOOD_RUN)
    .saturating_add(RESTORED_WITHIN);

/// How long the end of an outage is waited for.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// Longer than anybody asks.
    pub longest: Duration,
    /// As long as decides, where a part is gone that nobody starts again.
    pub shortest: Duration,
    /// As long as decides, where nobody outside misses anything: a lease or a cache may last for a while.
    pub unnoticed: Duration,
    /// So long after it began at least, where answers may come late or twice.
    pub settles: Duration,
}

/// Makes parts fail at once, measures the outage, and puts everything back. What we start again ourselves is no end of it.
///
/// # Errors
/// The set did not answer before, the part cannot be made to fail, or something does not run again.
pub fn make(
    set: &str,
    failure: &OneOrMore<InjectedFailure>,
    client: &Client,
    patience: Patience,
    exe: &Path,
    cancel: &Cancel,
) -> Result<Outage, Reason> {
    let failure = failure.all();
    let mut parts = Parts::of(&state_root(), set)?;
    let before = parts.settle(failure, exe, cancel)?;
    if !before.is_empty() {
        parts = Parts::of(&state_root(), set)?;
    }
    if !parts.all_run() {
        return Err(
            format!("set \"{set}\" does not run as a whole before: {}", parts.missing().join(", ")).into()
        );
    }
    parts.arm(failure, exe)?;
    let asking = Asking::sparing(client)?;
    steady(&asking, client, cancel)?;
    let guard = Guard::start(exe, &state_root(), set, &parts.partitions())?;
    let failed = parts.fail(failure);
    let least = if failure.iter().any(InjectedFailure::stays) { STAYS } else { Duration::ZERO };
    let outcome = failed.and_then(|failed_at| {
        let lasts = least..patience.longest.max(least);
        wait(&parts, &asking, failed_at, lasts, patience, cancel)
            .map(|restored| (failed_at, restored, Instant::now()))
    });
    // Whatever came of it.
    let undone = parts.undo(failure, exe, RESTORED_WITHIN, cancel);
    if undone.is_ok() {
        guard.all_is_back();
    }
    let (failed_at, restored, until) = outcome?;
    let mut undone = undone?;
    if failure.iter().any(InjectedFailure::is_held) {
        undone.push_str(&answered_again(&asking, until, cancel)?);
    }
    let mut outage = asking.finish(failed_at, until);
    outage.restored_ns = restored.map(|at| Nanos::from_duration(at.saturating_duration_since(failed_at)));
    outage.undone = [before, vec![undone]].concat().join(", ");
    Ok(outage)
}

/// Waits until what was taken back disturbs nobody any more; in words, whether it did.
fn answered_again(asking: &Asking, since: Instant, cancel: &Cancel) -> Result<String, Reason> {
    let least = Instant::now() + asking.patience();
    let is_good = || Instant::now() >= least && asking.answered_in_a_row() >= STEADY;
    if !client::wait(STEADY_WITHIN, cancel, is_good)? {
        return Ok(format!(
            ", but the client is not answered within {} s after that",
            STEADY_WITHIN.as_secs()
        ));
    }
    Ok(match asking.missing_since(since) {
        0 => String::new(),
        missing => format!(", which took {missing} more answers"),
    })
}

/// Waits until the client is answered again and again.
fn steady(asking: &Asking, asked_of: &Client, cancel: &Cancel) -> Result<(), Reason> {
    if client::wait(STEADY_WITHIN, cancel, || asking.answered_in_a_row() >= STEADY)? {
        return Ok(());
    }
    let (asked, answered) = asking.counts();
    Err(format!(
        "before anything failed, {STEADY} answers in a row were wanted from {}: of {asked} requests {answered} were answered \
         within {} ms; where it is asked more often than it can answer, a longer period_ms helps",
        asked_of.at,
        asked_of.answer_within_ms.get()
    )
    .into())
}

/// Until the client is answered for good and all parts run, or nobody will start them, or the time is over; since when all parts run
/// again.
fn wait(
    parts: &Parts,
    asking: &Asking,
    failed_at: Instant,
    lasts: Range<Duration>,
    patience: Patience,
    cancel: &Cancel,
) -> Result<Option<Instant>, Reason> {
    let (mut restored, mut was_seen) = (None, false);
    let without_part = patience.shortest.max(lasts.start);
    let unnoticed = patience.unnoticed.max(asking.patience());
    while failed_at.elapsed() < lasts.end {
        if cancel.is_cancelled() {
            return Err("interrupted".into());
        }
        let runs = parts.run_again();
        was_seen |= !runs;
        match (runs, was_seen) {
            (true, true) => restored = restored.or_else(|| Some(Instant::now())),
            (false, _) => restored = None,
            (true, false) => {}
        }
        let stays_gone = failed_at.elapsed() >= NOBODY_DOES && parts.nobody_starts_one();
        let seen = asking.since(failed_at);
        let is_over = match seen {
            Answering::AnsweredForGood => failed_at.elapsed() >= patience.settles,
            Answering::NothingMissing => failed_at.elapsed() >= unnoticed,
            Answering::Missing => false,
        };
        let is_settled = runs || restored.is_some() || stays_gone;
        if is_over && failed_at.elapsed() >= lasts.start && is_settled {
            return Ok(restored);
        }
        if stays_gone && failed_at.elapsed() >= without_part {
            return Ok(None);
        }
        std::thread::sleep(LOOK);
    }
    Ok(restored)
}
