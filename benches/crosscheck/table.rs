//! The table: one row per comparison, with ratio, interval, mark and what the judge says of it, in 80 columns.

use std::fmt::Write;

use bulkhead::stats::interval::median_interval;
use bulkhead::stats::pairs::compare;
use bulkhead::stats::summary::median;
use bulkhead::units::metric::{Answer, Better, Unit};
use bulkhead::units::three_digits;

use crate::verdict::{CONFIDENCE, FEW_FAILED, Mark, Verdict};

/// Columns of the first cell.
const FIRST: usize = 36;

/// Pairs that are missing from a figure.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Failed {
    /// How many.
    pub pairs: u32,
    /// Why the last one did.
    pub last: Option<String>,
}

/// What is compared, and what the ratio ours / theirs must be.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// In a few words, what and against whom.
    pub what: String,
    /// Unit of both figures.
    pub unit: Unit,
    /// Which direction is good.
    pub better: Better,
    /// Where the ratio is to be.
    pub mark: Mark,
}

impl Row {
    /// At least this ratio.
    pub fn at_least(what: &str, unit: Unit, least: f64) -> Self {
        Self { what: what.to_owned(), unit, better: Better::Higher, mark: Mark::AtLeast(least) }
    }

    /// At most this ratio.
    pub fn at_most(what: &str, unit: Unit, most: f64) -> Self {
        Self { what: what.to_owned(), unit, better: Better::Lower, mark: Mark::AtMost(most) }
    }

    /// The same, give or take this share.
    pub fn within(what: &str, unit: Unit, share: f64) -> Self {
        let mark = Mark::Within(1.0 - share, 1.0 + share);
        Self { what: what.to_owned(), unit, better: Better::Neither, mark }
    }

    fn mark_text(&self) -> String {
        match self.mark {
            Mark::Within(least, most) => format!("{least:.2} … {most:.2}"),
            mark => mark.to_string(),
        }
    }
}

/// The head of the table.
pub fn head() -> String {
    format!(
        "{:<FIRST$}{:<7}{:<14}{:<12}verdict\n{}\n",
        "ours / theirs",
        "ratio",
        "interval",
        "mark",
        "─".repeat(80)
    )
}

/// The ratio over all pairs. Figures that are differences scatter around what they are, below zero as well: of them the
/// median quotient is taken as it is, which a few pairs below zero do not move.
fn ratio(row: &Row, pairs: &[(f64, f64)]) -> Answer {
    let is_difference =
        pairs.iter().any(|(ours, _)| *ours <= 0.0) && pairs.iter().all(|(_, theirs)| *theirs > 0.0);
    if is_difference {
        let quotients: Vec<f64> = pairs.iter().map(|(ours, theirs)| ours / theirs).collect();
        return median_interval(&quotients, CONFIDENCE, 0);
    }
    compare(pairs, row.better, CONFIDENCE).ratio
}

/// A row and below it the figures behind it. `pairs` are `(ours, theirs)`; those that failed are not among them.
pub fn row(row: &Row, pairs: &[(f64, f64)], failed: &Failed) -> (String, Verdict) {
    let ratio = ratio(row, pairs);
    let mut text = String::new();
    let (cells, verdict) = match &ratio {
        Answer::Estimate(ratio) => {
            let verdict = if failed.pairs as usize > FEW_FAILED {
                Verdict::NotDecided
            } else {
                row.mark.judge((ratio.low, ratio.high))
            };
            let interval = format!("{}…{}", three_digits(ratio.low), three_digits(ratio.high));
            ((three_digits(ratio.value), interval), verdict)
        }
        Answer::Unsupported(_) => (("n/a".to_owned(), String::new()), Verdict::NotDecided),
    };
    let what = &row.what;
    let _ = writeln!(
        text,
        "{what:<FIRST$}{:<7}{:<14}{:<12}{}",
        cells.0,
        cells.1,
        row.mark_text(),
        verdict.word()
    );
    let side = |pick: fn(&(f64, f64)) -> f64| median(&pairs.iter().map(pick).collect::<Vec<f64>>());
    if let (Some(ours), Some(theirs)) = (side(|pair| pair.0), side(|pair| pair.1)) {
        let (ours, theirs) = (row.unit.format(ours), row.unit.format(theirs));
        let _ = writeln!(text, "  medians: {ours} against {theirs}; {} pairs", pairs.len());
    }
    if let Answer::Unsupported(why) = &ratio
        && !pairs.is_empty()
    {
        wrapped(&mut text, why);
    }
    if failed.pairs > 0 {
        let undecided = if failed.pairs as usize > FEW_FAILED { ", too many to decide anything" } else { "" };
        let all = pairs.len() + failed.pairs as usize;
        let why = failed.last.as_deref().unwrap_or_default();
        wrapped(
            &mut text,
            &format!("{} of {all} pairs failed{undecided}; the last one: {why}", failed.pairs),
        );
    }
    (text, verdict)
}

/// Indented lines of at most 80 columns.
pub fn wrapped(text: &mut String, words: &str) {
    let mut line = String::from(" ");
    for word in words.split_whitespace() {
        if line.chars().count() + 1 + word.chars().count() > 80 && line.len() > 1 {
            let _ = writeln!(text, "{line}");
            line = String::from(" ");
        }
        let _ = write!(line, " {word}");
    }
    if line.len() > 1 {
        let _ = writeln!(text, "{line}");
    }
}
