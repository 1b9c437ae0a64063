//! Speeds of CPUs that slow each other: how much work a stretch of CPU time does, and how long work takes. Whole nanoseconds,
//! and what a nanosecond leaves over is carried on, so nothing is lost however often a speed changes.

use crate::time::Span;

/// A CPU to itself, in billionths.
const WHOLE: u64 = 1_000_000_000;

/// What part of a CPU of its own somebody runs at just now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Speed {
    /// Billionths; above 0, at most all of them.
    billionths: u64,
    /// Billionths of a nanosecond of work that are done already.
    rest: u64,
}

impl Speed {
    /// That of a CPU to itself.
    pub const FULL: Self = Self { billionths: WHOLE, rest: 0 };

    /// So many billionths, brought to within 1 and all of them.
    pub fn of(billionths: u64) -> Self {
        Self { billionths: billionths.clamp(1, WHOLE), rest: 0 }
    }

    /// Its billionths.
    pub const fn billionths(self) -> u64 {
        self.billionths
    }

    /// Another speed from now on; what is done already stays done.
    pub fn turn(&mut self, billionths: u64) {
        self.billionths = billionths.clamp(1, WHOLE);
    }

    /// The work that so much CPU time does.
    pub fn work(&mut self, span: Span) -> Span {
        let done = u128::from(span.nanos()) * u128::from(self.billionths) + u128::from(self.rest);
        self.rest = u64::try_from(done % u128::from(WHOLE)).unwrap_or(0);
        Span::from_nanos(u64::try_from(done / u128::from(WHOLE)).unwrap_or(u64::MAX))
    }

    /// The CPU time that so much work takes: the shortest in which all of it is done.
    pub fn time_for(self, work: Span) -> Span {
        if self.billionths == WHOLE || work == Span::FOREVER {
            return work;
        }
        let wanted = (u128::from(work.nanos()) * u128::from(WHOLE)).saturating_sub(self.rest.into());
        let time = wanted.div_ceil(u128::from(self.billionths));
        Span::from_nanos(u64::try_from(time).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn work_takes_as_long_as_it_is_said_to_however_often_it_is_looked_at(
            billionths in 1_000_000u64..=1_000_000_000, nanos in 1u64..1_000_000_000, cuts in prop::collection::vec(0u64..1_000_000, 0..9),
        ) {
            let mut speed = Speed::of(billionths);
            let mut left = Span::from_nanos(nanos);
            for cut in cuts {
                let cut = Span::from_nanos(cut).min(speed.time_for(left));
                left = left.less(speed.work(cut));
            }
            let end = speed.time_for(left);
            let mut short = speed;
            prop_assert!(left.is_zero() || short.work(end.less(Span::from_nanos(1))) < left);
            prop_assert!(speed.work(end) >= left);
        }
    }

    #[test]
    fn thirds_add_up() {
        let mut speed = Speed::of(333_333_333);
        let done: u64 = (0..3_000_000).map(|_| speed.work(Span::from_nanos(1)).nanos()).sum();
        assert_eq!(done, 999_999);
        assert_eq!(Speed::of(620_000_000).time_for(Span::from_nanos(62)), Span::from_nanos(100));
    }
}
