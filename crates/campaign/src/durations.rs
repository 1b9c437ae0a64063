//! What measurements really took on this host, so that a later run knows before it starts how long it will take.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use super::latest::{Latest, What};

/// Seconds; nothing takes longer than two days.
const SECONDS: What = What { unit: "s", most: 2.0 * 24.0 * 3600.0 };

/// How long things took, by key.
#[derive(Debug, Clone, PartialEq)]
pub struct Durations(Latest);

impl Default for Durations {
    fn default() -> Self {
        Self(Latest::nothing(SECONDS))
    }
}

impl Durations {
    /// Reads the file; whatever is wrong with it, there is nothing known then.
    pub fn read(path: &Path) -> Self {
        Self(Latest::read(path, SECONDS))
    }

    /// Writes the file, whole or not at all.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn write(&self, path: &Path) -> std::io::Result<()> {
        self.0.write(path)
    }

    /// How long this took, in the median: one measurement that hung for a while says nothing about the next.
    pub fn get(&self, key: &str) -> Option<Duration> {
        self.0.get(key).map(Duration::from_secs_f64)
    }

    /// Takes in what a run took: per key how long each time. Keys too long to be ours are left out.
    pub fn learn(&mut self, took: &BTreeMap<String, Vec<Duration>>) {
        let seconds = |times: &Vec<Duration>| times.iter().map(Duration::as_secs_f64).collect();
        self.0.learn(&took.iter().map(|(key, times)| (key.clone(), seconds(times))).collect());
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
