//! The loop itself. A short gap costs one increment in a table with a slot per tick: exact count, exact sum. A long
//! one goes to a cold path that owns the histogram and the list of the worst.
//!
//! ```text
//!  read ─► gap < 2048 ticks? ──yes──► slot += 1 ─┐
//!   ▲          │no                               ├─► due? ──no──┐
//!   │          └─► sink.long(batch, start, gap) ─┘    │yes      │
//!   │                                                 ▼         │
//!   │                                       stay · next · leave │
//!   └───────────────────────────────────────────────┴───────────┘
//! ```
//!
//! Each gap begins at the read that ended the gap before it, so what the loop itself does (the cold path costs some
//! tens of nanoseconds) lies inside the following gap: no tick of the run is missing from the histogram.

use super::pace::{Pace, Turn};
use crate::clock::ticks;

/// Gaps shorter than this many ticks are counted in a table, exactly.
pub const SHORT_TICKS: usize = 2048;

/// Counts of the short gaps of one batch, one slot per tick.
pub type ShortGaps = [u64; SHORT_TICKS];

/// Takes the gaps that are too long for the table.
pub trait GapSink {
    /// A gap of `gap` ticks that began at counter value `start`, in batch number `batch`.
    fn long(&mut self, batch: usize, start: u64, gap: u64);
    /// The counter went backwards: the thread was moved, or the machine was.
    fn backward(&mut self);
}

/// What the loop saw of the counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Observed {
    /// First read.
    pub first: u64,
    /// Last read; `last − first` is the sum of all gaps.
    pub last: u64,
    /// Whether it ended before its last batch was complete, because the job was to end.
    pub cut_short: bool,
}

/// Reads the counter until every batch is full or the job is to end. Makes no system call and takes no memory.
#[inline(never)]
pub fn observe<P: Pace, S: GapSink>(mut pace: P, batches: &mut [ShortGaps], sink: &mut S) -> Observed {
    let first = ticks();
    let mut previous = first;
    pace.begin(first);
    for (number, short) in batches.iter_mut().enumerate() {
        loop {
            let now = ticks();
            let gap = now.wrapping_sub(previous);
            match usize::try_from(gap).ok().and_then(|gap| short.get_mut(gap)) {
                Some(slot) => {
                    *slot += 1;
                    previous = now;
                }
                None => previous = long(sink, short, number, previous, gap),
            }
            if pace.is_due(previous) {
                match pace.turn(previous) {
                    Turn::Stay => {}
                    Turn::Next => break,
                    Turn::Leave => return Observed { first, last: previous, cut_short: true },
                }
            }
        }
    }
    Observed { first, last: previous, cut_short: false }
}

/// Returns where the next gap begins. A step backwards counts as a gap of zero, and the time until the counter has
/// caught up as one more gap: the sum stays exact.
#[cold]
#[inline(never)]
fn long<S: GapSink>(sink: &mut S, short: &mut ShortGaps, batch: usize, start: u64, gap: u64) -> u64 {
    if gap > u64::MAX / 2 {
        sink.backward();
        if let Some(zero) = short.first_mut() {
            *zero += 1;
        }
        return start;
    }
    sink.long(batch, start, gap);
    start.wrapping_add(gap)
}
