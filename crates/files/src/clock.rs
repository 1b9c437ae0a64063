//! What time it is on the host: files have its times, so a guest whose clock is late finds them made in the future.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The attribute that says so, of any file; only the guest's root may ask for it.
pub const TIME: &str = "trusted.bulkhead.time";
/// Bytes of its value: nanoseconds since 1970.
pub const VALUE_BYTES: usize = 8;

/// Since 1970.
pub(crate) fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// The value now.
pub(crate) fn value() -> Vec<u8> {
    u64::try_from(now().as_nanos()).unwrap_or(u64::MAX).to_le_bytes().to_vec()
}

/// Since 1970, as a value says it; none where it is cut short.
#[must_use]
pub fn since_1970(value: &[u8]) -> Option<Duration> {
    value.first_chunk().map(|bytes| Duration::from_nanos(u64::from_le_bytes(*bytes)))
}
