//! What measurements really took on this host: a small file in the cache folder, so that a later run knows before it
//! starts how long it will take.
//!
//! ```text
//!  run ends ─► learn ─► durations.json ─► next run: predict
//! ```
//! Only a hint: a file that is missing, damaged, too large or of another version is as good as none, and is replaced.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Version of the file.
const VERSION: u32 = 2;
/// Largest file that is read.
const MAX_BYTES: u64 = 4 << 20;
/// Most entries; those that were not used for longest go first.
const MOST_ENTRIES: usize = 8192;
/// Longest key.
const MAX_KEY_CHARS: usize = 300;
/// Only so many of the latest measurements are kept, so that a host that changed is learnt anew.
const MEMORY: usize = 9;
/// Nothing takes longer than this.
const LONGEST: Duration = Duration::from_secs(2 * 24 * 3600);

/// How long things took, by key.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Durations {
    entries: BTreeMap<String, Entry>,
    /// Runs that have been learnt from: entries remember the last one that used them.
    runs: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// Seconds, the latest last.
    latest_s: Vec<f64>,
    last_run: u64,
}

impl Entry {
    fn is_sound(&self) -> bool {
        let is_time = |time: &f64| (0.0..=LONGEST.as_secs_f64()).contains(time);
        (1..=MEMORY).contains(&self.latest_s.len()) && self.latest_s.iter().all(is_time)
    }

    fn add(&mut self, time: Duration) {
        if self.latest_s.len() >= MEMORY {
            self.latest_s.remove(0);
        }
        self.latest_s.push(time.min(LONGEST).as_secs_f64());
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    version: u32,
    runs: u64,
    entries: BTreeMap<String, Entry>,
}

impl Durations {
    /// Reads the file; whatever is wrong with it, there is nothing known then.
    pub fn read(path: &Path) -> Self {
        let mut text = Vec::new();
        let read = File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut text));
        if read.is_err() || text.len() as u64 > MAX_BYTES {
            return Self::default();
        }
        let Ok(written) = serde_json::from_slice::<Written>(&text) else { return Self::default() };
        if written.version != VERSION {
            return Self::default();
        }
        let sound = written.entries.into_iter().filter(|(key, entry)| is_key(key) && entry.is_sound());
        Self { entries: sound.take(MOST_ENTRIES).collect(), runs: written.runs }
    }

    /// Writes the file, whole or not at all.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn write(&self, path: &Path) -> std::io::Result<()> {
        let entries = self.entries.clone();
        let text = serde_json::to_vec(&Written { version: VERSION, runs: self.runs, entries })?;
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

    /// How long this took, in the median: one measurement that hung for a while says nothing about the next.
    pub fn get(&self, key: &str) -> Option<Duration> {
        let mut times = self.entries.get(key)?.latest_s.clone();
        times.sort_unstable_by(f64::total_cmp);
        let upper = *times.get(times.len() / 2)?;
        let lower = *times.get((times.len() - 1) / 2)?;
        Some(Duration::from_secs_f64(f64::midpoint(lower, upper)))
    }

    /// Takes in what a run took: per key how long each time. Keys too long to be ours are left out.
    pub fn learn(&mut self, took: &BTreeMap<String, Vec<Duration>>) {
        self.runs = self.runs.saturating_add(1);
        for (key, times) in took.iter().filter(|(key, times)| is_key(key) && !times.is_empty()) {
            let entry = self.entries.entry(key.clone()).or_default();
            for time in times {
                entry.add(*time);
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
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

fn is_key(key: &str) -> bool {
    !key.is_empty() && key.chars().take(MAX_KEY_CHARS + 1).count() <= MAX_KEY_CHARS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn took(key: &str, seconds: &[f64]) -> BTreeMap<String, Vec<Duration>> {
        let times = seconds.iter().map(|seconds| Duration::from_secs_f64(*seconds)).collect();
        BTreeMap::from([(key.to_owned(), times)])
    }

    fn seconds(durations: &Durations, key: &str) -> f64 {
        durations.get(key).unwrap().as_secs_f64()
    }

    #[test]
    fn what_is_learnt_comes_back_from_the_file_and_new_values_outweigh_old_ones() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deeper/durations.json");
        let mut durations = Durations::read(&path);
        assert!(durations.is_empty());
        durations.learn(&took("a", &[1.0, 3.0]));
        assert!((seconds(&durations, "a") - 2.0).abs() < 1e-9);
        durations.write(&path).unwrap();
        let mut again = Durations::read(&path);
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
        let huge = format!("{{\"version\":2,\"runs\":1,\"entries\":{{}},\"x\":\"{}\"}}", "y".repeat(5 << 20));
        let entry = |mean: &str| {
            format!(
                "{{\"version\":2,\"runs\":1,\"entries\":{{\"k\":{{\"latest_s\":[{mean}],\"last_run\":1}}}}}}"
            )
        };
        let other = entry("1.0").replace("\"version\":2", "\"version\":1");
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
        ] {
            fs::write(&path, text).unwrap();
            assert!(Durations::read(&path).is_empty(), "{text:.80}");
        }
        fs::write(&path, [0xff, 0xfe, 0x00]).unwrap();
        assert!(Durations::read(&path).is_empty());
        fs::write(&path, entry("1.5")).unwrap();
        assert_eq!(Durations::read(&path).get("k"), Some(Duration::from_millis(1500)));
        assert!(Durations::read(folder.path()).is_empty(), "a folder is no file");
    }

    #[test]
    fn it_does_not_grow_for_ever() {
        let mut durations = Durations::default();
        durations.learn(&took("old", &[1.0]));
        let many: BTreeMap<_, _> =
            (0..MOST_ENTRIES + 10).map(|i| (format!("k{i}"), vec![Duration::from_secs(1)])).collect();
        durations.learn(&many);
        assert!(durations.entries.len() <= MOST_ENTRIES);
        assert_eq!(durations.get("old"), None, "who was not used for longest goes first");
        durations.learn(&took(&"x".repeat(MAX_KEY_CHARS + 1), &[1.0]));
        assert!(durations.entries.keys().all(|key| is_key(key)));
    }
}
