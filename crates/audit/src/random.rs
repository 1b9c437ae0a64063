//! Random numbers for tests: the same ones every time.

use std::fmt::Debug;

/// `SplitMix64` (Steele et al., 2014).
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// Begins anew.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number from 0 on below `end`, which is 1 or more.
    pub fn below<T: TryInto<u64, Error: Debug> + TryFrom<u64, Error: Debug>>(&mut self, end: T) -> T {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let end: u64 = end.try_into().expect("an end of 1 or more");
        ((z ^ (z >> 31)) % end).try_into().expect("it is below the end")
    }
}
