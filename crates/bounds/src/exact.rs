//! Whole numbers that neither overflow nor run forever: wide times, sums of fractions that are compared exactly, and steps
//! that are counted.

use std::cmp::Ordering;

use units::Nanos;

use crate::answer::{Miss, NoBound};
use crate::task::Task;

/// A time or an amount of work in nanoseconds, wide enough for sums and products of those that are given.
pub type Time = u128;

/// The longest time that is given or answered.
pub const HORIZON: Time = u64::MAX as Time;

/// Most steps of one question: a step looks at one task once, or at one gap of a table. Seconds, not minutes.
pub const MOST_STEPS: u64 = 50_000_000;

/// Counts the steps of one question.
#[derive(Debug)]
pub struct Steps(u64);

impl Steps {
    pub const fn new() -> Self {
        Self(MOST_STEPS)
    }

    /// Takes as many steps.
    ///
    /// # Errors
    /// There are none left.
    pub fn take(&mut self, many: usize) -> Result<(), NoBound> {
        let left = u64::try_from(many.max(1)).ok().and_then(|many| self.0.checked_sub(many));
        self.0 = left.ok_or(NoBound::TooLong)?;
        Ok(())
    }
}

/// As a quantity; saturates.
pub fn nanos(time: Time) -> Nanos {
    Nanos::from_nanos(u64::try_from(time).unwrap_or(u64::MAX))
}

/// With a sign; saturates.
pub fn signed(time: Time) -> i128 {
    i128::try_from(time).unwrap_or(i128::MAX)
}

pub const fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The least common multiple; none where it is longer than [`HORIZON`]. Neither may be zero.
pub fn lcm(a: Time, b: Time) -> Option<Time> {
    (a / gcd(a, b)).checked_mul(b).filter(|multiple| *multiple <= HORIZON)
}

/// CPU time per time, in the long run: an exact fraction between 0 and 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// So much …
    pub work: u64,
    /// … in so long, at least 1.
    pub time: u64,
}

/// Bits after the point of fixed-point numbers.
const POINT: u32 = 64;

/// A fraction between two fixed-point numbers.
#[derive(Debug, Clone, Copy)]
pub struct Enclosed {
    /// Not more than it; saturates.
    pub least: u128,
    /// Not less than it; saturates.
    pub most: u128,
}

/// `work / time` in fixed point.
const fn enclose(work: Time, time: Time) -> Enclosed {
    let shifted = work << POINT;
    Enclosed { least: shifted / time, most: shifted.div_ceil(time) }
}

impl Rate {
    pub(crate) const fn enclosed(self) -> Enclosed {
        enclose(self.work as Time, self.time as Time)
    }
}

/// Work of all these tasks per time.
pub fn utilization<'a>(tasks: impl Iterator<Item = &'a Task>) -> Enclosed {
    tasks.map(|task| enclose(task.c(), task.t())).fold(Enclosed { least: 0, most: 0 }, |sum, one| Enclosed {
        least: sum.least.saturating_add(one.least),
        most: sum.most.saturating_add(one.most),
    })
}

/// How what tasks ask for in the long run compares with what is supplied; none where numbers are too large to tell.
pub fn against<'a>(tasks: impl Iterator<Item = &'a Task> + Clone, rate: Rate) -> Option<Ordering> {
    let (asked, given) = (utilization(tasks.clone()), rate.enclosed());
    if asked.most < given.least {
        return Some(Ordering::Less);
    }
    if asked.least > given.most {
        return Some(Ordering::Greater);
    }
    let (mut numerator, mut denominator): (u128, u128) = (0, 1);
    for task in tasks {
        let common = gcd(denominator, task.t());
        let added = task.c().checked_mul(denominator / common)?;
        numerator = numerator.checked_mul(task.t() / common)?.checked_add(added)?;
        denominator = denominator.checked_mul(task.t() / common)?;
        let common = gcd(numerator, denominator);
        (numerator, denominator) = (numerator / common, denominator / common);
    }
    let left = numerator.checked_mul(u128::from(rate.time))?;
    Some(left.cmp(&u128::from(rate.work).checked_mul(denominator)?))
}

/// Millionths, rounded up.
fn ppm(fixed: u128) -> u64 {
    let (whole, rest) = (fixed >> POINT, fixed & HORIZON);
    let millionths = whole.saturating_mul(1_000_000).saturating_add((rest * 1_000_000).div_ceil(1 << POINT));
    u64::try_from(millionths).unwrap_or(u64::MAX)
}

/// What is asked for, rounded up, and supplied, rounded down, in millionths of a CPU.
fn shares<'a>(tasks: impl Iterator<Item = &'a Task>, rate: Rate) -> (u64, u64) {
    let gives = u128::from(rate.work) * 1_000_000 / u128::from(rate.time.max(1));
    (ppm(utilization(tasks).most), u64::try_from(gives).unwrap_or(u64::MAX))
}

/// That too much is asked for.
pub fn overload<'a>(tasks: impl Iterator<Item = &'a Task>, rate: Rate) -> NoBound {
    let (needs_ppm, gives_ppm) = shares(tasks, rate);
    NoBound::Overload { needs_ppm, gives_ppm }
}

/// The same, as what is missed.
pub fn overload_miss<'a>(tasks: impl Iterator<Item = &'a Task>, rate: Rate) -> Miss {
    let (needs_ppm, gives_ppm) = shares(tasks, rate);
    Miss::Overload { needs_ppm, gives_ppm }
}

/// After so long releases and supply repeat; none where that is longer than [`HORIZON`].
pub fn hyperperiod<'a>(mut tasks: impl Iterator<Item = &'a Task>, cycle: Time) -> Option<Time> {
    tasks.try_fold(cycle, |multiple, task| lcm(multiple, task.t()))
}
