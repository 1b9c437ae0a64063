//! Work of a fixed size that nothing but time away from the CPU can stretch: an empty loop, and an arithmetic mix.

#![expect(unsafe_code, reason = "only an assembly loop is the same on every platform and compiler")]

use std::hint::black_box;
use std::ops::ControlFlow;

/// Rounds between two looks at the job's limits: some tens of milliseconds.
const ROUNDS_PER_LOOK: u64 = 50_000_000;

/// Counts down from `rounds`: two instructions per round, no memory. A compiled loop would be removed, or would
/// carry the cost of whatever keeps it from being removed.
#[inline]
fn count_down(rounds: u64) {
    if rounds == 0 {
        return;
    }
    #[cfg(target_arch = "x86_64")]
    // SAFETY: changes one register it was given; the count is not zero, so the loop ends.
    unsafe {
        core::arch::asm!("2:", "dec {0}", "jnz 2b", inout(reg) rounds => _, options(nomem, nostack));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: changes one register it was given; the count is not zero, so the loop ends.
    unsafe {
        core::arch::asm!("2:", "sub {0}, {0}, #1", "cbnz {0}, 2b", inout(reg) rounds => _, options(nomem, nostack));
    }
}

/// The empty loop. `look` is asked every 50 million rounds whether to go on.
pub fn empty_loop(rounds: u64, mut look: impl FnMut() -> ControlFlow<()>) -> ControlFlow<()> {
    let mut left = rounds;
    while left > ROUNDS_PER_LOOK {
        count_down(ROUNDS_PER_LOOK);
        left -= ROUNDS_PER_LOOK;
        look()?;
    }
    count_down(left);
    ControlFlow::Continue(())
}

/// Words of the array of the arithmetic mix: 4 KiB, so it stays in every first-level cache.
pub const MIX_WORDS: usize = 512;

/// One chunk of the arithmetic mix: per round an integer multiply-add, a dependent load and store, and a floating
/// point multiply-add. Returns a value that depends on all of it.
#[inline(never)]
pub fn arithmetic(rounds: u64, words: &mut [u64; MIX_WORDS]) -> u64 {
    let mut integer = black_box(0x9e37_79b9_7f4a_7c15_u64);
    let mut float = black_box(1.0_f64);
    for round in 0..rounds {
        integer = integer.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(round);
        // The top nine bits of a multiply-add generator are its best ones, and always a valid index.
        let slot = (integer >> 55) as usize % MIX_WORDS;
        if let Some(word) = words.get_mut(slot) {
            *word = word.wrapping_add(integer);
            integer ^= *word;
        }
        float = float * 0.999_999 + 1.0;
    }
    black_box(integer ^ float.to_bits())
}
