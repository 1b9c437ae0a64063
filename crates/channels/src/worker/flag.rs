//! A bare flag: a word that each side stores and the other one waits for. No ring, no frame, no session, no check: what
//! any channel over the same memory costs at least.
//!
//! ```text
//!  leader's word   ── order │ count │ first byte ──►   read by who follows
//!  follower's word ◄── the same, in answer ──────────
//! ```

use std::path::Path;
use std::time::{Duration, Instant};

use channel::Memory;

use super::way::{Way, open};
use units::Reason;

/// Looks at the word between two looks at the clock.
const LOOKS: u32 = 4096;
/// Bits of the count of messages, above the first byte.
const COUNT_BITS: u32 = 32;

/// One end.
pub struct Flag {
    own: Memory,
    peer: Memory,
    /// In the highest bits, so that nothing of an earlier series is taken for a message.
    order: u64,
    sent: u64,
    received: u64,
    patience: Duration,
}

impl Flag {
    /// Over two pieces of memory of which this process writes the first.
    ///
    /// # Errors
    /// When one of them cannot be mapped.
    pub fn over(own: &Path, peer: &Path, order: u64, patience: Duration) -> Result<Self, Reason> {
        let (own, peer) = (open(own, true)?, open(peer, false)?);
        Ok(Self { own, peer, order, sent: 0, received: 0, patience })
    }

    fn value(&self, count: u64, first: u8) -> u64 {
        self.order << (COUNT_BITS + 8) | (count & u64::from(u32::MAX)) << 8 | u64::from(first)
    }
}

/// The last word: far from what else both sides look at.
fn last_word(memory: &Memory) -> usize {
    usize::try_from(memory.bytes() / 8).unwrap_or(0).saturating_sub(1)
}

impl Way for Flag {
    fn streams(&self) -> bool {
        false
    }

    #[inline]
    fn send(&mut self, message: &[u8]) -> Result<(), Reason> {
        self.sent += 1;
        let value = self.value(self.sent, message.first().copied().unwrap_or_default());
        let stored = self.own.set_word(last_word(&self.own), value);
        if stored { Ok(()) } else { Err("the flag's memory cannot be written".into()) }
    }

    #[inline]
    fn receive(&mut self, message: &mut [u8]) -> Result<(), Reason> {
        self.received += 1;
        let (at, wanted) = (last_word(&self.peer), self.value(self.received, 0));
        let mut until = None;
        loop {
            for _ in 0..LOOKS {
                let value = self.peer.word(at).unwrap_or_default();
                let [first, ..] = value.to_le_bytes();
                if value & !0xff == wanted {
                    if let Some(to) = message.first_mut() {
                        *to = first;
                    }
                    return Ok(());
                }
            }
            let now = Instant::now();
            if now >= *until.get_or_insert(now + self.patience) {
                return Err(format!("the other side's flag did not change within {:?}", self.patience).into());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_that_never_changes_is_an_error_and_one_of_an_earlier_series_no_message() {
        let folder = tempfile::tempdir().unwrap();
        let [one, other] = ["one", "other"].map(|name| folder.path().join(name));
        for path in [&one, &other] {
            std::fs::write(path, [0; 8192]).unwrap();
        }
        let flag = |own, peer, order| Flag::over(own, peer, order, Duration::from_millis(10)).unwrap();
        let mut left = flag(&one, &other, 7);
        let mut right = flag(&other, &one, 7);
        left.send(&[5, 9]).unwrap();
        let mut got = [0; 2];
        right.receive(&mut got).unwrap();
        assert_eq!(got, [5, 0], "only the first byte is carried");
        assert!(flag(&other, &one, 8).receive(&mut got).is_err());
        assert!(right.receive(&mut got).is_err(), "the same one is not a second message");
    }
}
