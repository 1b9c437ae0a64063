//! The worst events of a probe, and what the scheduler counted around them: the raw material for who took that time.

use serde::{Deserialize, Serialize};
use units::Nanos;

/// How many of the worst events a probe keeps with their time stamps.
pub const WORST_KEPT: usize = 64;

/// A stretch of time that was taken away, or in which nothing moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Stretch {
    /// When it began, counted from the start of the probe.
    pub start_ns: Nanos,
    /// How long it lasted.
    pub length_ns: Nanos,
}

/// What the scheduler counted between two readings of its counters that enclose one stretch, and nothing else longer than
/// the readings are apart.
///
/// Other stretches lie between the same readings. What they could have taken at most is known, so what is beyond that is
/// certain: `waited_ns − others_ns` at least was the stretch's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Witnessed {
    /// The stretch, one of those kept as the longest.
    pub stretch: Stretch,
    /// Length of all other stretches between the two readings.
    pub others_ns: Nanos,
    /// CPU time of the thread between the two readings.
    pub ran_ns: Nanos,
    /// Time it was ready to run between the two readings, and waited for a CPU.
    pub waited_ns: Nanos,
}

impl Witnessed {
    /// So much of the stretch at least the thread waited for a CPU.
    #[must_use]
    pub fn waited_at_least(&self) -> Nanos {
        self.waited_ns.saturating_sub(self.others_ns).min(self.stretch.length_ns)
    }

    /// So much of the stretch at least the thread had its CPU.
    #[must_use]
    pub fn ran_at_least(&self) -> Nanos {
        self.ran_ns.saturating_sub(self.others_ns).min(self.stretch.length_ns)
    }

    /// So much of the stretch at least the thread neither had a CPU nor asked for one: it slept in the kernel.
    #[must_use]
    pub fn slept_at_least(&self) -> Nanos {
        self.stretch.length_ns.saturating_sub(self.ran_ns).saturating_sub(self.waited_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_no_other_stretch_can_have_taken_is_certain() {
        let ns = Nanos::from_nanos;
        let stretch = Stretch { start_ns: ns(5), length_ns: ns(100) };
        let seen = Witnessed { stretch, others_ns: ns(30), ran_ns: ns(40), waited_ns: ns(50) };
        let certain = (seen.ran_at_least().get(), seen.waited_at_least().get(), seen.slept_at_least().get());
        assert_eq!(certain, (10, 20, 10));
        let forged = Witnessed { others_ns: ns(0), ran_ns: ns(u64::MAX), waited_ns: ns(u64::MAX), ..seen };
        let certain =
            (forged.ran_at_least().get(), forged.waited_at_least().get(), forged.slept_at_least().get());
        assert_eq!(certain, (100, 100, 0));
    }
}
