//! How busy block devices were, from the text of `/proc/diskstats`: one line per device and partition. Source:
//! Documentation/admin-guide/iostats.rst of the kernel.
//!
//! ```text
//!   254       0 vda 7351 1204 514962 2210 4071 4713 121880 3041 0 3120 5390 …
//!                   reads                 writes                  busy, ms
//! ```

use std::collections::BTreeMap;

use super::table::tamed;
use units::Nanos;
use units::accounts::{DeviceCount, MOST_DEVICES};

/// Most lines that are read.
const MOST_LINES: usize = 4096;
/// Longest name kept.
const NAME_CHARS: usize = 64;
/// Place of a figure behind the name.
const READS: usize = 0;
/// The same.
const WRITES: usize = 4;
/// The same.
const BUSY_MS: usize = 9;

/// Counts since the start of the kernel, by device.
fn by_device(text: &str) -> BTreeMap<&str, DeviceCount> {
    text.lines().take(MOST_LINES).filter_map(one).collect()
}

fn one(line: &str) -> Option<(&str, DeviceCount)> {
    let words: Vec<&str> = line.split_ascii_whitespace().take(3 + BUSY_MS + 1).collect();
    let (name, figures) = words.get(2..)?.split_first()?;
    let figure = |place: usize| figures.get(place)?.parse::<u64>().ok();
    let count = DeviceCount {
        name: tamed(name, NAME_CHARS),
        reads: figure(READS)?,
        writes: figure(WRITES)?,
        busy_ns: Nanos::from_nanos(figure(BUSY_MS)?.saturating_mul(1_000_000)),
    };
    Some((name, count))
}

/// What was added between two texts, busiest first; devices that did nothing are left out.
pub fn added(before: &str, after: &str) -> Vec<DeviceCount> {
    let before = by_device(before);
    let mut all: Vec<DeviceCount> = by_device(after)
        .into_iter()
        .map(|(name, now)| match before.get(name) {
            Some(then) => DeviceCount {
                reads: now.reads.saturating_sub(then.reads),
                writes: now.writes.saturating_sub(then.writes),
                busy_ns: now.busy_ns.saturating_sub(then.busy_ns),
                name: now.name,
            },
            None => now,
        })
        .filter(|device| device.reads > 0 || device.writes > 0 || device.busy_ns > Nanos::ZERO)
        .collect();
    all.sort_by(|a, b| b.busy_ns.cmp(&a.busy_ns).then_with(|| a.name.cmp(&b.name)));
    all.truncate(MOST_DEVICES);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_counts_and_idle_devices_are_left_out() {
        let before = " 254 0 vda 10 1 2 3 20 5 6 7 0 100 9\n 7 0 loop0 1 1 1 1 1 1 1 1 1 1 1\n";
        let after = " 254 0 vda 15 1 2 3 22 5 6 7 0 180 9 0 0\n 7 0 loop0 1 1 1 1 1 1 1 1 1 1 1\n 8 0 new 1 0 0 0 0 0 0 0 0 200\n";
        let told = added(before, after);
        let found: Vec<(&str, u64, u64, u64)> = told
            .iter()
            .map(|device| (device.name.as_str(), device.reads, device.writes, device.busy_ns.get()))
            .collect();
        assert_eq!(found, [("new", 1, 0, 200_000_000), ("vda", 5, 2, 80_000_000)]);
    }

    #[test]
    fn weird_files_yield_nothing_and_are_bounded() {
        for text in
            ["", "1 2", "8 0 sda 1 2 3", "8 0 sda x 0 0 0 0 0 0 0 0 1", "8 0 sda 1 0 0 0 1 0 0 0 0 -1"]
        {
            assert_eq!(added("", text), [], "{text}");
        }
        let many: Vec<String> = (0..9999).map(|n| format!("8 0 d\u{7}{n} 1 0 0 0 0 0 0 0 0 {n}\n")).collect();
        let told = added("", &many.concat());
        assert_eq!(told.len(), MOST_DEVICES);
        assert_eq!(told[0].name, "d 4095");
        let huge = format!("8 0 sda {0} 0 0 0 {0} 0 0 0 0 {0}", u64::MAX);
        assert_eq!(added("", &huge)[0].busy_ns.get(), u64::MAX);
    }
}
