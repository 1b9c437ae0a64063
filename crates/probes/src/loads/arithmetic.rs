//! The cpu load: arithmetic without memory.

use super::stressors::{Done, Stressor};
use crate::error::WorkError;
use crate::quantum::{MIX_WORDS, arithmetic};

/// Rounds of arithmetic between two looks at the stop flag: under a millisecond.
const ROUNDS: u64 = 100_000;

/// Arithmetic, one thread.
pub struct Arithmetic {
    words: [u64; MIX_WORDS],
}

impl Arithmetic {
    /// Ready to begin.
    pub const fn new() -> Self {
        Self { words: [1; MIX_WORDS] }
    }
}

impl Default for Arithmetic {
    fn default() -> Self {
        Self::new()
    }
}

impl Stressor for Arithmetic {
    fn round(&mut self) -> Result<Done, WorkError> {
        arithmetic(ROUNDS, &mut self.words);
        Ok(Done::of(ROUNDS))
    }
}
