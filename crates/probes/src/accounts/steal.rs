//! Stolen time from the text of `/proc/stat`: the eighth figure of a `cpuN` line, in ticks of 1/100 s (`USER_HZ`, the
//! same on every architecture this runs on). Source: `proc_stat(5)`.

use std::collections::BTreeMap;

use units::Nanos;

/// Length of a tick of user space.
pub const USER_TICK_NS: u64 = 10_000_000;
/// Place of the stolen time behind the name.
const STEAL_PLACE: usize = 7;

/// Stolen time by CPU. CPUs whose line has no such figure (Linux before 2.6.11) are left out.
pub fn by_cpu(text: &str) -> BTreeMap<u32, Nanos> {
    // The lines of the CPUs come first; everything behind them may be huge.
    text.lines().take_while(|line| line.starts_with("cpu")).filter_map(one).collect()
}

fn one(line: &str) -> Option<(u32, Nanos)> {
    let (name, rest) = line.split_once(char::is_whitespace)?;
    let cpu = name.strip_prefix("cpu")?.parse().ok()?;
    let ticks: u64 = rest.split_ascii_whitespace().nth(STEAL_PLACE)?.parse().ok()?;
    Some((cpu, Nanos::from_nanos(ticks.saturating_mul(USER_TICK_NS))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_eighth_figure_counts_per_cpu() {
        let text =
            "cpu  9 9 9 9 9 9 9 99 9 9\ncpu0 1 2 3 4 5 6 7 8 9 10\ncpu63 0 0 0 0 0 0 0 12\nintr 5 cpu1\n";
        let found = by_cpu(text);
        assert_eq!(
            found.into_iter().collect::<Vec<_>>(),
            [(0, Nanos::from_nanos(80_000_000)), (63, Nanos::from_nanos(120_000_000))]
        );
    }

    #[test]
    fn weird_files_yield_nothing() {
        for text in [
            "",
            "cpu",
            "cpu0 1 2 3 4 5 6 7",
            "cpux 1 2 3 4 5 6 7 8",
            "intr 1\ncpu0 1 2 3 4 5 6 7 8",
            "cpu0 1 2 3 4 5 6 7 -1",
        ] {
            assert!(by_cpu(text).is_empty(), "{text}");
        }
        let huge = format!("cpu0 0 0 0 0 0 0 0 {}\nintr {}", u64::MAX, "0 ".repeat(1_000_000));
        assert_eq!(by_cpu(&huge).get(&0), Some(&Nanos::from_nanos(u64::MAX)));
    }
}
