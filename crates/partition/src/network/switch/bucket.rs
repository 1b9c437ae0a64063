//! How much a plug may send: so many bytes per second, with a tenth of a second's worth at once.
//!
//! The generic cell rate algorithm (ITU-T I.371, annex A) in its virtual scheduling form: the moment at which the next
//! byte would be due at the steady rate is all that is kept. Over any span `t` no more than `rate · (t + BURST)` bytes
//! and one frame pass.

use std::time::Duration;

/// How far ahead of the steady rate a plug may be.
const BURST: Duration = Duration::from_millis(100);

/// A plug's allowance. Moments are counted from when the switch began.
#[derive(Debug, Clone, Copy)]
pub struct Bucket {
    bytes_per_s: Option<u64>,
    due: Duration,
}

impl Bucket {
    /// Without a rate there is no limit.
    pub const fn new(bytes_per_s: Option<u64>) -> Self {
        Self { bytes_per_s, due: Duration::ZERO }
    }

    /// How long nothing may be sent; zero when something may.
    pub fn wait(&self, now: Duration) -> Duration {
        self.due.saturating_sub(now.saturating_add(BURST))
    }

    /// Notes what was sent.
    pub fn take(&mut self, bytes: usize, now: Duration) {
        let Some(rate) = self.bytes_per_s else { return };
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let cost = bytes.saturating_mul(1_000_000_000) / rate.max(1);
        self.due = self.due.max(now).saturating_add(Duration::from_nanos(cost));
    }
}
