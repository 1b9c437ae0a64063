//! The score: what was said of what was set, as a table, and each figure with its mark.

use std::fmt::Write as _;

use bulkhead::model::metric::Estimate;
use bulkhead::model::policy::{PolicyVerdict, SharingPolicy};
use bulkhead::stats::interval::median_interval;
use bulkhead::stats::policy::words;

use crate::set::{Grant, Kind};

const POLICIES: [SharingPolicy; 6] = [
    SharingPolicy::EqualPerThread,
    SharingPolicy::EqualPerInstance,
    SharingPolicy::ProportionalToNeed,
    SharingPolicy::Weighted,
    SharingPolicy::Capped,
    SharingPolicy::Reserved,
];
/// Least share of the runs that is named right.
const RIGHT: f64 = 0.95;
/// Most of them that may be named something else.
const WRONG: f64 = 0.02;
/// A fitted weight or cap over the one that was set, in the median.
const FITTED: (f64, f64) = (0.85, 1.15);
/// 97.5 % of a normal distribution lie below.
const Z: f64 = 1.959_964;

/// What an interval says of a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    Met,
    Missed,
    NotDecided,
}

impl Word {
    const fn text(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::Missed => "missed",
            Self::NotDecided => "not decided",
        }
    }

    fn of((low, high): (f64, f64), least: f64, most: f64) -> Self {
        if low >= least && high <= most {
            Self::Met
        } else if high < least || low > most {
            Self::Missed
        } else {
            Self::NotDecided
        }
    }
}

/// A run that was looked at without knowing what was set.
pub struct Run {
    pub kind: Kind,
    pub grant: Grant,
    /// What others left of the CPUs just before.
    pub left: Option<f64>,
    pub said: PolicyVerdict,
}

impl Run {
    fn is_right(&self) -> bool {
        self.said.policy == Some(self.grant.policy(self.kind))
    }

    fn is_wrong(&self) -> bool {
        self.said.policy.is_some() && !self.is_right()
    }

    /// What was fitted, where a weight or a cap was set and one was named.
    fn fitted(&self) -> Option<Estimate> {
        self.said.parameter.filter(|_| self.is_right())
    }
}

/// The interval of a share (Wilson 1927).
pub fn wilson(hits: usize, of: usize) -> (f64, f64) {
    if of == 0 {
        return (0.0, 1.0);
    }
    let (n, share) = (of as f64, hits as f64 / of as f64);
    let middle = (share + Z * Z / (2.0 * n)) / (1.0 + Z * Z / n);
    let half = Z / (1.0 + Z * Z / n) * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
    ((middle - half).max(0.0), (middle + half).min(1.0))
}

/// The score of all runs of a kind in words, and what became of its marks.
pub fn score(kind: Kind, runs: &[&Run]) -> (String, Vec<Word>) {
    let mut out = matrix(kind, runs);
    let mut words = Vec::new();
    let left: Vec<f64> = runs.iter().filter_map(|run| Some(run.left? * 100.0)).collect();
    let _ = writeln!(
        out,
        "\nothers left {} % of the CPUs to whoever wanted them, before each run",
        spread(&left, 0)
    );
    let mut share = |what: &str, hits: usize, (least, most): (f64, f64), mark: &str| {
        let (low, high) = wilson(hits, runs.len());
        let word = Word::of((low, high), least, most);
        let of = runs.len();
        let _ = writeln!(
            out,
            "figure: {}, {what}: {hits} of {of} [{low:.3} … {high:.3}]; mark {mark}: {}",
            kind.word(),
            word.text()
        );
        words.push(word);
    };
    let count = |is: fn(&Run) -> bool| runs.iter().filter(|run| is(run)).count();
    share("named right", count(Run::is_right), (RIGHT, 1.0), &format!("≥ {RIGHT}"));
    share("wrongly named", count(Run::is_wrong), (0.0, WRONG), &format!("≤ {WRONG}"));
    for (what, policy) in [("weight", SharingPolicy::Weighted), ("cap", SharingPolicy::Capped)] {
        let ratios: Vec<f64> = runs
            .iter()
            .filter(|run| run.grant.policy(kind) == policy)
            .filter_map(|run| Some(run.fitted()?.value / run.grant.parameter()?))
            .collect();
        let (text, word) = fitted(&ratios);
        let _ = writeln!(
            out,
            "figure: {}, fitted {what} / set: {text}; mark {} … {}: {}",
            kind.word(),
            FITTED.0,
            FITTED.1,
            word.text()
        );
        words.push(word);
    }
    (out, words)
}

fn fitted(ratios: &[f64]) -> (String, Word) {
    let text = format!("{} in {} runs that named it", spread(ratios, 3), ratios.len());
    let interval = median_interval(ratios, 0.95, 0);
    interval.estimate().map_or_else(
        || (format!("{text}, too few for an interval"), Word::NotDecided),
        |median| {
            let word = Word::of((median.low, median.high), FITTED.0, FITTED.1);
            (format!("{text}, interval of the median [{:.3} … {:.3}]", median.low, median.high), word)
        },
    )
}

/// Median and range.
fn spread(values: &[f64], digits: usize) -> String {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match (sorted.first(), sorted.get(sorted.len() / 2), sorted.last()) {
        (Some(low), Some(middle), Some(high)) => {
            format!("median {middle:.digits$} ({low:.digits$} … {high:.digits$})")
        }
        _ => "–".to_owned(),
    }
}

/// A row for what was set, a column for what was said.
fn matrix(kind: Kind, runs: &[&Run]) -> String {
    let head: Vec<&str> = POLICIES.iter().map(|policy| words(*policy)).collect();
    let mut out = format!(
        "| {}: set | {} | cannot be said | right | fitted / set, median (range) | set lies in the interval |\n",
        kind.word(),
        head.join(" | ")
    );
    let _ = writeln!(out, "|{}", " --- |".repeat(POLICIES.len() + 5));
    for grant in Grant::ALL {
        let of: Vec<&&Run> = runs.iter().filter(|run| run.grant == grant).collect();
        let _ = write!(out, "| {} |", grant.label());
        for policy in POLICIES {
            let count = of.iter().filter(|run| run.said.policy == Some(policy)).count();
            let count = if count == 0 { "·".to_owned() } else { count.to_string() };
            let is_set = grant.policy(kind) == policy;
            let _ = write!(out, " {} |", if is_set { format!("**{count}**") } else { count });
        }
        let unsaid = of.iter().filter(|run| run.said.policy.is_none()).count();
        let right = of.iter().filter(|run| run.is_right()).count();
        let _ = write!(out, " {unsaid} | {right} of {} |", of.len());
        let _ = writeln!(out, "{}", parameters(grant, &of));
    }
    out
}

fn parameters(grant: Grant, runs: &[&&Run]) -> String {
    let Some(set) = grant.parameter() else { return " – | – |".to_owned() };
    let fitted: Vec<Estimate> = runs.iter().filter_map(|run| run.fitted()).collect();
    let covered = fitted.iter().filter(|fit| (fit.low..=fit.high).contains(&set)).count();
    let ratios: Vec<f64> = fitted.iter().map(|fit| fit.value / set).collect();
    format!(" {} | {covered} of {} |", spread(&ratios, 3), fitted.len())
}
