//! Simulated time: whole nanoseconds, so that the same scenario gives the same bytes everywhere. No floating-point clock.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

use units::Nanos;

/// A moment: nanoseconds since the simulation began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(u64);

/// A length of time in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span(u64);

impl Time {
    /// The beginning.
    pub const ZERO: Self = Self(0);
    /// Later than everything: some 584 years.
    pub const NEVER: Self = Self(u64::MAX);

    /// So many nanoseconds after the beginning.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the beginning.
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// How long ago `earlier` is; nothing when it lies ahead.
    pub const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Span {
    /// No time.
    pub const ZERO: Self = Self(0);
    /// Longer than everything.
    pub const FOREVER: Self = Self(u64::MAX);

    /// So many nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// So many microseconds; the longest span where that is too much.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    /// So many milliseconds; the longest span where that is too much.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// So many seconds; the longest span where that is too much.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds.saturating_mul(1_000_000_000))
    }

    /// Its nanoseconds.
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// Its nanoseconds as a float, for statistics only: never for the clock.
    pub const fn as_f64(self) -> f64 {
        self.0 as f64
    }

    /// What is left of it after `part`; nothing when that is longer.
    #[must_use]
    pub const fn less(self, part: Self) -> Self {
        Self(self.0.saturating_sub(part.0))
    }

    /// Whether it is no time.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl From<Nanos> for Span {
    fn from(nanos: Nanos) -> Self {
        Self(nanos.get())
    }
}

impl From<Span> for Nanos {
    fn from(span: Span) -> Self {
        Self::from_nanos(span.0)
    }
}

/// What would lie beyond the last moment is that moment: such events never happen.
impl Add<Span> for Time {
    type Output = Self;

    fn add(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl Add for Span {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Span {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Span {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self.less(other)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Nanos::from_nanos(self.0))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Nanos::from_nanos(self.0))
    }
}
