//! Read, write and copy through memory, compiled three times: for the baseline of the architecture, for AVX2 and for
//! AVX-512; the widest one this CPU has is chosen when the program runs.

#![expect(unsafe_code, reason = "code for newer instructions may only be called where they exist")]

use std::hint::black_box;

/// Independent sums, so that additions do not wait for each other: 64 words are eight of the widest registers.
const LANES: usize = 64;

/// Which code is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Width(Instructions);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Instructions {
    Baseline,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Width {
    /// The widest this CPU has.
    pub fn widest() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f") {
                return Self(Instructions::Avx512);
            }
            if is_x86_feature_detected!("avx2") {
                return Self(Instructions::Avx2);
            }
        }
        Self(Instructions::Baseline)
    }

    /// Its name, for the notes of a report.
    pub const fn name(self) -> &'static str {
        match self.0 {
            Instructions::Baseline => "baseline",
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => "AVX2",
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 => "AVX-512",
        }
    }

    /// Sums all words.
    pub fn read(self, words: &[u64]) {
        let words = black_box(words);
        black_box(match self.0 {
            Instructions::Baseline => sum(words),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: chosen only where the CPU has AVX2.
            Instructions::Avx2 => unsafe { sum_avx2(words) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: chosen only where the CPU has AVX-512F.
            Instructions::Avx512 => unsafe { sum_avx512(words) },
        });
    }

    /// Stores `value` to all words.
    pub fn write(self, words: &mut [u64], value: u64) {
        let words = black_box(words);
        match self.0 {
            Instructions::Baseline => store(words, value),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: chosen only where the CPU has AVX2.
            Instructions::Avx2 => unsafe { store_avx2(words, value) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: chosen only where the CPU has AVX-512F.
            Instructions::Avx512 => unsafe { store_avx512(words, value) },
        }
        black_box(words);
    }

    /// Copies `from` to `to`; the C library's `memcpy` already chooses by CPU.
    pub fn copy(self, from: &[u64], to: &mut [u64]) {
        let (from, to) = (black_box(from), black_box(to));
        let common = from.len().min(to.len());
        if let (Some(from), Some(to)) = (from.get(..common), to.get_mut(..common)) {
            to.copy_from_slice(from);
        }
        black_box(to);
    }
}

#[inline(always)]
#[expect(clippy::inline_always, reason = "must be compiled anew inside each of its callers")]
fn sum(words: &[u64]) -> u64 {
    let mut lanes = [0_u64; LANES];
    let (rows, rest) = words.as_chunks::<LANES>();
    for row in rows {
        for (lane, word) in lanes.iter_mut().zip(row) {
            *lane = lane.wrapping_add(*word);
        }
    }
    lanes.iter().chain(rest).fold(0, |all, one| all.wrapping_add(*one))
}

#[inline(always)]
#[expect(clippy::inline_always, reason = "must be compiled anew inside each of its callers")]
fn store(words: &mut [u64], value: u64) {
    let (rows, rest) = words.as_chunks_mut::<LANES>();
    for row in rows {
        *row = [value; LANES];
    }
    rest.fill(value);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn sum_avx2(words: &[u64]) -> u64 {
    sum(words)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn sum_avx512(words: &[u64]) -> u64 {
    sum(words)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn store_avx2(words: &mut [u64], value: u64) {
    store(words, value);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn store_avx512(words: &mut [u64], value: u64) {
    store(words, value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_width_writes_and_copies_all_words_and_reads_the_same_sum() {
        let words: Vec<u64> = (0..1003).collect();
        let truth: u64 = words.iter().sum();
        assert_eq!(sum(&words), truth);
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            // SAFETY: AVX2 was just found.
            assert_eq!(unsafe { sum_avx2(&words) }, truth);
        } else {
            skips::skip(skips::Need::Cpu, "in part: no AVX2");
        }
        let width = Width::widest();
        width.read(&words);
        let mut target = vec![0; 1003];
        width.copy(&words, &mut target);
        assert_eq!(target, words);
        width.write(&mut target, 9);
        assert!(target.iter().all(|word| *word == 9));
    }
}
