//! Bounded reads of the small files the kernel shows; what cannot be read is none, never a guess.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use model::preflight::{Check, CheckLevel};

/// No file that is read here is longer on machines of today (`/proc/cpuinfo` of a thousand CPUs has 2 MB).
const MAX_BYTES: u64 = 8 << 20;

/// Content of a file without surrounding white space.
pub(super) fn text(path: impl AsRef<Path>) -> Option<String> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).trim().to_owned())
}

/// The same file in each folder whose name begins with `prefix` and goes on with a number: `cpu0`, `cpu1`, …
pub(super) fn text_of_each(parent: &str, prefix: &str, file: &str) -> Vec<String> {
    let Ok(entries) = fs::read_dir(parent) else { return Vec::new() };
    let is_numbered = |name: &str| {
        name.strip_prefix(prefix)
            .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
    };
    entries
        .flatten()
        .filter(|entry| entry.file_name().to_str().is_some_and(is_numbered))
        .filter_map(|entry| text(entry.path().join(file)))
        .collect()
}

/// A check.
pub(super) fn check(
    id: &str,
    level: CheckLevel,
    found: impl Into<String>,
    advice: impl Into<String>,
) -> Check {
    Check { id: id.to_owned(), level, found: found.into(), advice: advice.into() }
}

/// A check that cannot be made here.
pub(super) fn not_visible(id: &str, what: &str) -> Check {
    check(id, CheckLevel::Note, format!("{what}: not visible here"), "")
}
