//! Bounds of the values that a user may write, and the answer to one outside of them.

/// An hour: the longest that a single duration may be.
pub const HOUR_MS: u64 = 3_600_000;

/// A value outside its bounds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key} = {got} is out of bounds; allowed is {least} to {most}")]
pub struct OutOfBounds {
    /// The key as it is written in an experiment.
    pub key: &'static str,
    /// The value written.
    pub got: u64,
    /// Smallest allowed value.
    pub least: u64,
    /// Largest allowed value.
    pub most: u64,
}

/// Checks one value against its bounds.
///
/// # Errors
/// It lies outside.
pub fn within(key: &'static str, got: u64, least: u64, most: u64) -> Result<(), OutOfBounds> {
    if (least..=most).contains(&got) { Ok(()) } else { Err(OutOfBounds { key, got, least, most }) }
}
