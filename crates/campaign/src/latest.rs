//! What earlier runs on this host have learnt, by key: the latest values of each, in a small file in the cache folder.
//!
//! ```text
//!  run ends ─► learn ─► durations.json, spreads.json ─► next run: predict, foresee
//! ```
//! Only a hint: a file that is missing, damaged, too large or of another version is as good as none, and is replaced.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// Version of the files.
const VERSION: u32 = 3;
/// Largest file that is read.
const MAX_BYTES: u64 = 4 << 20;
/// Most entries; those that were not used for longest go first.
const MOST_ENTRIES: usize = 8192;
/// Longest key.
const MAX_KEY_CHARS: usize = 300;
/// Only so many of the latest values are kept, so that a host that changed is learnt anew.
const MEMORY: usize = 9;

/// What the values of a file are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct What {
    /// Their unit, as it stands in the file.
    pub(super) unit: &'static str,
    /// None is larger, or below zero.
    pub(super) most: f64,
}

impl What {
    fn is_sound(&self, entry: &Entry) -> bool {
        let is_value = |value: &f64| (0.0..=self.most).contains(value);
        (1..=MEMORY).contains(&entry.latest.len()) && entry.latest.iter().all(is_value)
    }
}

/// Values by key.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Latest {
    what: What,
    entries: BTreeMap<String, Entry>,
    /// Runs that have been learnt from: entries remember the last one that used them.
    runs: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// The latest last.
    latest: Vec<f64>,
    last_run: u64,
}

impl Entry {
    fn add(&mut self, value: f64) {
        if self.latest.len() >= MEMORY {
            self.latest.remove(0);
        }
        self.latest.push(value);
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    version: u32,
    unit: String,
    runs: u64,
    entries: BTreeMap<String, Entry>,
}

impl Latest {
    /// Nothing is known.
    pub(super) const fn nothing(what: What) -> Self {
        Self { what, entries: BTreeMap::new(), runs: 0 }
    }

    /// Reads the file; whatever is wrong with it, there is nothing known then.
    pub(super) fn read(path: &Path, what: What) -> Self {
        let nothing = Self::nothing(what);
        let mut text = Vec::new();
        let read = File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut text));
        if read.is_err() || text.len() as u64 > MAX_BYTES {
            return nothing;
        }
        let Ok(written) = serde_json::from_slice::<Written>(&text) else { return nothing };
        if written.version != VERSION || written.unit != what.unit {
            return nothing;
        }
        let sound = written.entries.into_iter().filter(|(key, entry)| is_key(key) && what.is_sound(entry));
        Self { what, entries: sound.take(MOST_ENTRIES).collect(), runs: written.runs }
    }

    /// Writes the file, whole or not at all.
    ///
    /// # Errors
    /// When the system refuses.
    pub(super) fn write(&self, path: &Path) -> std::io::Result<()> {
        let (unit, entries) = (self.what.unit.to_owned(), self.entries.clone());
        let text = serde_json::to_vec(&Written { version: VERSION, unit, runs: self.runs, entries })?;
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let partial = path.with_extension(format!("partial-{}", std::process::id()));
        let written = fs::write(&partial, text).and_then(|()| fs::rename(&partial, path));
        if written.is_err() {
            // What is left of it helps nobody.
            let _ = fs::remove_file(&partial);
        }
        written
    }

    /// The median: one value that was far off says nothing about the next.
    pub(super) fn get(&self, key: &str) -> Option<f64> {
        let mut values = self.entries.get(key)?.latest.clone();
        values.sort_unstable_by(f64::total_cmp);
        let upper = *values.get(values.len() / 2)?;
        let lower = *values.get((values.len() - 1) / 2)?;
        Some(f64::midpoint(lower, upper))
    }

    /// Takes in what a run has found: per key the values in their order. Keys too long to be ours are left out.
    pub(super) fn learn(&mut self, found: &BTreeMap<String, Vec<f64>>) {
        self.runs = self.runs.saturating_add(1);
        for (key, values) in found.iter().filter(|(key, values)| is_key(key) && !values.is_empty()) {
            let entry = self.entries.entry(key.clone()).or_default();
            for value in values {
                entry.add(value.clamp(0.0, self.what.most));
            }
            entry.last_run = self.runs;
        }
        if self.entries.len() > MOST_ENTRIES {
            let mut used: Vec<u64> = self.entries.values().map(|entry| entry.last_run).collect();
            used.sort_unstable();
            let oldest = used.get(self.entries.len() - MOST_ENTRIES).copied().unwrap_or(0);
            self.entries.retain(|_, entry| entry.last_run >= oldest);
        }
        while self.entries.len() > MOST_ENTRIES {
            self.entries.pop_first();
        }
    }

    /// Whether nothing is known.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

fn is_key(key: &str) -> bool {
    !key.is_empty() && key.chars().take(MAX_KEY_CHARS + 1).count() <= MAX_KEY_CHARS
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHAT: What = What { unit: "s", most: 1000.0 };

    fn took(key: &str, seconds: &[f64]) -> BTreeMap<String, Vec<f64>> {
        BTreeMap::from([(key.to_owned(), seconds.to_vec())])
    }

    fn seconds(latest: &Latest, key: &str) -> f64 {
        latest.get(key).unwrap()
    }

    #[test]
    fn what_is_learnt_comes_back_from_the_file_and_new_values_outweigh_old_ones() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deeper/durations.json");
        let mut durations = Latest::read(&path, WHAT);
        assert!(durations.is_empty());
        durations.learn(&took("a", &[1.0, 3.0]));
        assert!((seconds(&durations, "a") - 2.0).abs() < 1e-9);
        durations.write(&path).unwrap();
        let mut again = Latest::read(&path, WHAT);
        assert_eq!(again, durations);
        again.learn(&took("a", &[10.0; 40]));
        assert!((seconds(&again, "a") - 10.0).abs() < 1e-9, "{:?}", again.get("a"));
        again.learn(&took("a", &[500.0]));
        assert!((seconds(&again, "a") - 10.0).abs() < 1e-9, "one that hung does not count");
        assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing else is left");
    }

    #[test]
    fn garbage_is_as_good_as_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("durations.json");
        let huge = format!(
            "{{\"version\":3,\"unit\":\"s\",\"runs\":1,\"entries\":{{}},\"x\":\"{}\"}}",
            "y".repeat(5 << 20)
        );
        let entry = |mean: &str| {
            format!(
                "{{\"version\":3,\"unit\":\"s\",\"runs\":1,\"entries\":{{\"k\":{{\"latest\":[{mean}],\"last_run\":1}}}}}}"
            )
        };
        let other = entry("1.0").replace("\"version\":3", "\"version\":2");
        for text in [
            "",
            "[]",
            "{\"version\":1}",
            &huge,
            &entry("-1"),
            &entry("1e99"),
            &entry("null"),
            &entry(""),
            &other,
            &entry("1.0").replace("\"unit\":\"s\"", "\"unit\":\"ln\""),
        ] {
            fs::write(&path, text).unwrap();
            assert!(Latest::read(&path, WHAT).is_empty(), "{text:.80}");
        }
        fs::write(&path, [0xff, 0xfe, 0x00]).unwrap();
        assert!(Latest::read(&path, WHAT).is_empty());
        fs::write(&path, entry("1.5")).unwrap();
        assert_eq!(Latest::read(&path, WHAT).get("k"), Some(1.5));
        assert!(Latest::read(folder.path(), WHAT).is_empty(), "a folder is no file");
    }

    #[test]
    fn it_does_not_grow_for_ever() {
        let mut durations = Latest::nothing(WHAT);
        durations.learn(&took("old", &[1.0]));
        let many: BTreeMap<_, _> = (0..MOST_ENTRIES + 10).map(|i| (format!("k{i}"), vec![1.0])).collect();
        durations.learn(&many);
        assert!(durations.entries.len() <= MOST_ENTRIES);
        assert_eq!(durations.get("old"), None, "who was not used for longest goes first");
        durations.learn(&took(&"x".repeat(MAX_KEY_CHARS + 1), &[1.0]));
        assert!(durations.entries.keys().all(|key| is_key(key)));
    }
}
