//! The tables `/proc/interrupts` and `/proc/softirqs`: a header that names the CPUs, then one row per kind.
//!
//! ```text
//!             CPU0       CPU1
//!   36:          0     122418  PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0
//!  LOC:     153087     127853   Local timer interrupts
//!  ERR:          0                                      (of the whole machine: left out)
//! ```
//! A CPU that is offline has no column. Texts come from the kernel and from drivers' names, so they are cut and tamed.

use std::collections::BTreeMap;

/// Most rows that are read.
const MOST_ROWS: usize = 8192;
/// Longest name kept.
const NAME_CHARS: usize = 64;
/// Longest description kept.
const ABOUT_CHARS: usize = 160;

/// Counts of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// `LOC`, `36`.
    pub name: String,
    /// What the kernel says about it.
    pub about: String,
    /// By CPU.
    pub counts: BTreeMap<u32, u64>,
}

impl Row {
    /// Over all CPUs.
    pub fn total(&self) -> u64 {
        self.counts.values().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Whether this is the timer that ticks on every CPU: `LOC` on x86, POWER and others, `arch_timer` on aarch64.
    pub fn is_timer(&self) -> bool {
        self.name == "LOC" || self.about.ends_with("arch_timer")
    }
}

/// The rows of a table, counts of the granted CPUs only.
pub fn rows(text: &str, granted: &[u32]) -> Vec<Row> {
    rows_of(text, &|cpu| granted.contains(&cpu))
}

/// The rows of a table, counts of all CPUs.
pub fn rows_of_all(text: &str) -> Vec<Row> {
    rows_of(text, &|_| true)
}

fn rows_of(text: &str, is_wanted: &dyn Fn(u32) -> bool) -> Vec<Row> {
    let mut lines = text.lines();
    let columns: Vec<Option<u32>> =
        lines.next().unwrap_or_default().split_ascii_whitespace().map(cpu).collect();
    if columns.is_empty() || columns.contains(&None) {
        return Vec::new();
    }
    let columns: Vec<u32> = columns.into_iter().flatten().collect();
    lines.take(MOST_ROWS).filter_map(|line| row(line, &columns, is_wanted)).collect()
}

fn cpu(name: &str) -> Option<u32> {
    name.strip_prefix("CPU")?.parse().ok()
}

fn row(line: &str, columns: &[u32], is_wanted: &dyn Fn(u32) -> bool) -> Option<Row> {
    let (name, mut rest) = line.split_once(':')?;
    let mut counts = BTreeMap::new();
    for cpu in columns {
        let (count, after) = number(rest)?;
        if is_wanted(*cpu) {
            counts.insert(*cpu, count);
        }
        rest = after;
    }
    let words: Vec<&str> = rest.split_ascii_whitespace().take(ABOUT_CHARS).collect();
    Some(Row { name: tamed(name.trim(), NAME_CHARS), about: tamed(&words.join(" "), ABOUT_CHARS), counts })
}

/// The number a text begins with, and what follows it.
fn number(text: &str) -> Option<(u64, &str)> {
    let text = text.trim_ascii_start();
    let end = text.find(|c: char| c.is_ascii_whitespace()).unwrap_or(text.len());
    let (digits, rest) = text.split_at_checked(end)?;
    Some((digits.parse().ok()?, rest))
}

/// Cut, and without control characters.
pub fn tamed(text: &str, most_chars: usize) -> String {
    text.chars().take(most_chars).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// What was added to each row since `before`; rows in which nothing was added are left out, most frequent first.
/// A row that was not there before counts from zero, one whose count fell (a CPU that went away) counts as nothing.
pub fn added(before: &[Row], after: Vec<Row>) -> Vec<Row> {
    let known: BTreeMap<&str, &Row> = before.iter().map(|row| (row.name.as_str(), row)).collect();
    let mut all: Vec<Row> = after
        .into_iter()
        .map(|mut row| {
            let old = known.get(row.name.as_str());
            for (cpu, count) in &mut row.counts {
                let earlier = old.and_then(|old| old.counts.get(cpu)).copied().unwrap_or(0);
                *count = count.saturating_sub(earlier);
            }
            row
        })
        .filter(|row| row.total() > 0)
        .collect();
    all.sort_by(|a, b| b.total().cmp(&a.total()).then_with(|| a.name.cmp(&b.name)));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "           CPU0       CPU1       \n 36:          5     122418 PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0\nLOC:     153087     127853   Local timer interrupts\nERR:          0\nMIS:          0\n";

    #[test]
    fn names_descriptions_and_granted_columns_are_read() {
        let rows = rows(TEXT, &[1]);
        assert_eq!(rows.len(), 2, "ERR and MIS are not per CPU");
        assert_eq!((rows[0].name.as_str(), rows[0].total()), ("36", 122_418));
        assert_eq!(rows[0].about, "PCI-MSIX-0000:00:02.0 1-edge virtio1-req.0");
        assert!(rows[1].is_timer() && !rows[0].is_timer());
    }

    #[test]
    fn sixty_four_cpus_with_one_offline() {
        let cpus: Vec<u32> = (0..64).filter(|cpu| *cpu != 7).collect();
        let words = |word: &dyn Fn(&u32) -> String| cpus.iter().map(word).collect::<Vec<_>>().join(" ");
        let header = words(&|cpu| format!("CPU{cpu}"));
        let line = format!(" {}", words(&|cpu| (cpu * 10).to_string()));
        let text =
            format!("{header}\n 12:{line} GICv3 27 Level arch_timer\nIPI0:{line}  Rescheduling interrupts\n");
        let rows = rows(&text, &[6, 7, 8, 63]);
        assert_eq!(rows[0].counts, BTreeMap::from([(6, 60), (8, 80), (63, 630)]));
        assert_eq!(rows[0].about, "GICv3 27 Level arch_timer");
        assert!(rows[0].is_timer());
        assert_eq!(rows[1].name, "IPI0");
    }

    #[test]
    fn weird_tables_yield_nothing_and_are_bounded() {
        for text in [
            "",
            "\n",
            "CPU0 CPUx\nLOC: 1 2\n",
            "LOC: 1\n",
            "CPU0\nno colon\nLOC: many\nX: 99999999999999999999999\n",
        ] {
            assert!(rows(text, &[0]).is_empty(), "{text}");
        }
        let long = format!("CPU0\nX\u{7}{}: 1 {}\n", "y".repeat(9999), "z ".repeat(99_999));
        let found = rows(&long, &[0]);
        assert_eq!(
            (found[0].name.chars().count(), found[0].about.chars().count()),
            (NAME_CHARS, ABOUT_CHARS)
        );
        assert!(!found[0].name.contains('\u{7}'));
        let many: String =
            std::iter::once("CPU0\n".to_owned()).chain((0..20_000).map(|n| format!("{n}: 1\n"))).collect();
        assert_eq!(rows(&many, &[0]).len(), MOST_ROWS);
    }

    #[test]
    fn differences_leave_out_what_did_not_happen() {
        let before = rows("CPU0 CPU1\nA: 5 5\nB: 9 9\nD: 1 1\n", &[0, 1]);
        let after = rows("CPU0 CPU1\nA: 6 5\nB: 9 3\nC: 0 7\nD: 1 1\n", &[0, 1]);
        let added: Vec<(String, u64)> =
            added(&before, after).into_iter().map(|row| (row.name.clone(), row.total())).collect();
        assert_eq!(added, [("C".to_owned(), 7), ("A".to_owned(), 1)]);
    }
}
