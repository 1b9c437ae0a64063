//! Waiting times of a lock in log2 bins of cycles: counts and accumulated time.

use crate::time::Span;

/// Bin `b` holds waits of 2^b to 2^(b+1) − 1 cycles, bin 0 also those of none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waits {
    /// Number of waits per bin.
    pub counts: [u64; 64],
    /// Nanoseconds waited per bin.
    pub nanos: [u64; 64],
}

impl Default for Waits {
    fn default() -> Self {
        Self { counts: [0; 64], nanos: [0; 64] }
    }
}

impl Waits {
    /// Takes down a wait on a CPU of so many MHz.
    pub fn add(&mut self, wait: Span, mhz: u32) {
        let cycles = u128::from(wait.nanos()) * u128::from(mhz) / 1000;
        let bin = u64::try_from(cycles).unwrap_or(u64::MAX).checked_ilog2().unwrap_or(0) as usize;
        self.counts[bin] += 1;
        self.nanos[bin] = self.nanos[bin].saturating_add(wait.nanos());
    }

    /// Takes in the waits of another lock.
    pub fn merge(&mut self, other: &Self) {
        for bin in 0..64 {
            self.counts[bin] += other.counts[bin];
            self.nanos[bin] = self.nanos[bin].saturating_add(other.nanos[bin]);
        }
    }

    /// Number of waits.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}
