//! A node's CPU that is interrupted: when is a piece of work done that begins now?
//!
//! ```text
//!  trace position  0 ─────[start, end)──────[start, end)─── length = 0 …
//!  node            └ began at a random position, goes round and round; `Place` is the next interruption it will meet
//! ```
//! Work that ends at the very moment an interruption begins is done; what begins then waits until its end. A node only
//! asks ahead in time, so most questions are answered by one comparison with the next interruption. The rest need a
//! search in the sums of free and of lost time, however many interruptions lie between: exact, and never a loop over them.

use super::trace::NoiseTrace;
use crate::time::{Span, Time};

/// Interruptions that are passed one by one before they are searched.
const ONE_BY_ONE: u32 = 4;

/// Something that work can run on.
pub trait NodeCpu {
    /// When `work` that begins at `from` is done; `place` is the node's own, and `from` never goes back.
    fn run(&self, place: &mut Place, from: Time, work: Span) -> Time;
}

/// A CPU that nobody interrupts.
#[derive(Debug, Clone, Copy)]
pub struct Quiet;

impl NodeCpu for Quiet {
    #[inline]
    fn run(&self, _place: &mut Place, from: Time, work: Span) -> Time {
        from + work
    }
}

/// The next interruption that a node meets.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    next: Time,
    number: u32,
}

impl Place {
    /// Of a node that meets none.
    pub const NOWHERE: Self = Self { next: Time::NEVER, number: 0 };
}

/// Interruptions of one round of the trace, with sums. In nanoseconds from the beginning of the trace.
#[derive(Debug, Clone)]
pub struct Interruptions {
    start: Vec<u64>,
    end: Vec<u64>,
    /// Free time before each.
    free: Vec<u64>,
    length: u64,
    free_in_all: u64,
}

impl Interruptions {
    /// Those of a trace.
    pub fn of(trace: &NoiseTrace) -> Self {
        let (mut start, mut end, mut free, mut lost) = (Vec::new(), Vec::new(), Vec::new(), 0);
        for one in trace.interruptions() {
            start.push(one.start.nanos());
            end.push(one.end().nanos());
            free.push(one.start.nanos() - lost);
            lost += one.length.nanos();
        }
        let length = trace.length().nanos();
        Self { start, end, free, length, free_in_all: length - lost }
    }

    /// How long a round is.
    pub const fn round(&self) -> Span {
        Span::from_nanos(self.length)
    }

    /// The place of a node that is `offset` into the trace at the moment `now`, which is not before `offset`.
    pub fn place(&self, offset: Span, now: Time) -> Place {
        if self.start.is_empty() {
            return Place::NOWHERE;
        }
        let at = offset.nanos();
        let (round, number) = self.wrapped(0, self.end.partition_point(|end| *end <= at));
        let next = i128::from(now.nanos()) + self.moment(round, number) - i128::from(at);
        Place { next: moment(next), number: short(number) }
    }

    /// A place in the list that may lie behind its end.
    const fn wrapped(&self, round: u64, number: usize) -> (u64, usize) {
        if number < self.start.len() { (round, number) } else { (round + 1, 0) }
    }

    /// When an interruption begins, from the beginning of the trace's first round.
    fn moment(&self, round: u64, number: usize) -> i128 {
        i128::from(round) * i128::from(self.length) + i128::from(self.start[number])
    }

    /// Moves the place on to an interruption that lies ahead.
    fn move_on(&self, place: &mut Place, round: u64, number: usize) {
        let ahead = self.moment(round, number) - self.moment(0, place.number as usize);
        *place = Place { next: moment(i128::from(place.next.nanos()) + ahead), number: short(number) };
    }

    /// When the node runs that wants to at `from`: then its next interruption lies ahead.
    fn free_from(&self, place: &mut Place, mut from: Time) -> Time {
        let mut passed = 0;
        while place.next <= from && place.next < Time::NEVER {
            let number = place.number as usize;
            if passed == ONE_BY_ONE {
                let at = u128::from(self.start[number]) + u128::from(from.since(place.next).nanos());
                let round = u64::try_from(at / u128::from(self.length)).unwrap_or(u64::MAX);
                let rest = u64::try_from(at % u128::from(self.length)).unwrap_or(0);
                let (round, number) = self.wrapped(round, self.end.partition_point(|end| *end <= rest));
                self.move_on(place, round, number);
                passed = 0;
                if place.next > from {
                    break;
                }
                continue;
            }
            from = from.max(place.next + Span::from_nanos(self.end[number] - self.start[number]));
            let (round, next) = self.wrapped(0, number + 1);
            self.move_on(place, round, next);
            passed += 1;
        }
        from
    }

    #[cold]
    fn search(&self, place: &mut Place, from: Time, work: Span) -> Time {
        let from = self.free_from(place, from);
        let before = place.next.since(from);
        if work <= before {
            return from + work;
        }
        let number = place.number as usize;
        let rest = (work - before).nanos();
        // Free time from the beginning of the round until the work is done: at least 1.
        let target = self.free[number].saturating_add(rest);
        let round = (target - 1) / self.free_in_all;
        let within = target - round * self.free_in_all;
        let (round, next) = self.wrapped(round, self.free.partition_point(|free| *free < within));
        let met = place.next;
        // Everything between the two interruptions that is not free is lost.
        let between = self.moment(round, next) - self.moment(0, number);
        let free = i128::from(round) * i128::from(self.free_in_all) + i128::from(self.free[next])
            - i128::from(self.free[number]);
        self.move_on(place, round, next);
        moment(i128::from(met.nanos()) + i128::from(rest) + between - free)
    }
}

impl NodeCpu for Interruptions {
    #[inline]
    fn run(&self, place: &mut Place, from: Time, work: Span) -> Time {
        let end = from + work;
        if from < place.next && end <= place.next { end } else { self.search(place, from, work) }
    }
}

/// What lies beyond the last moment is that moment.
fn moment(nanos: i128) -> Time {
    Time::from_nanos(u64::try_from(nanos.max(0)).unwrap_or(u64::MAX))
}

/// Traces are bounded far below this.
fn short(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::trace::Interruption;
    use super::*;

    /// The same, nanosecond by nanosecond.
    fn by_hand(trace: &NoiseTrace, offset: u64, from: u64, work: u64) -> u64 {
        let is_lost = |at: u64| {
            let at = Span::from_nanos((at + offset) % trace.length().nanos());
            trace.interruptions().iter().any(|one| (one.start..one.end()).contains(&at))
        };
        let (mut at, mut left) = (from, work);
        loop {
            if left == 0 && (work > 0 || !is_lost(at)) {
                return at;
            }
            left -= u64::from(left > 0 && !is_lost(at));
            at += 1;
        }
    }

    fn trace() -> impl Strategy<Value = NoiseTrace> {
        (prop::collection::vec((0u64..12, 1u64..8), 0..6), 0u64..9).prop_filter_map(
            "free",
            |(gaps, after)| {
                let (mut at, mut all) = (0, Vec::new());
                for (gap, length) in gaps {
                    all.push(Interruption {
                        start: Span::from_nanos(at + gap),
                        length: Span::from_nanos(length),
                    });
                    at += gap + length;
                }
                NoiseTrace::new(all, Span::from_nanos(at + after)).ok()
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn work_ends_when_counting_nanoseconds_says(
            trace in trace(), offset in 0u64..100, pieces in prop::collection::vec((0u64..90, 0u64..60), 1..8)
        ) {
            let offset = offset % trace.length().nanos();
            let noise = Interruptions::of(&trace);
            let begin = trace.length().nanos();
            let mut place = noise.place(Span::from_nanos(offset), Time::from_nanos(begin));
            let mut at = 0;
            for (pause, work) in pieces {
                at += pause;
                let end = noise.run(&mut place, Time::from_nanos(begin + at), Span::from_nanos(work));
                let wanted = by_hand(&trace, offset, at, work);
                prop_assert_eq!(end.nanos() - begin, wanted, "{:?} from {} work {}", trace, at, work);
                at = wanted;
            }
        }
    }

    #[test]
    fn what_never_ends_ends_at_the_last_moment() {
        let one = Interruption { start: Span::ZERO, length: Span::from_nanos((1 << 60) - 1) };
        let noise = Interruptions::of(&NoiseTrace::new(vec![one], Span::from_nanos(1 << 60)).unwrap());
        let mut place = noise.place(Span::ZERO, Time::ZERO);
        let end = noise.run(&mut place, Time::ZERO, Span::from_nanos(1 << 62));
        assert_eq!(end, Time::NEVER);
        assert_eq!(noise.run(&mut place, end, Span::from_nanos(1)), Time::NEVER);
    }
}
