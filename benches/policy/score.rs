//! The score: what was said of what was set, as a table, and each figure with its mark.

use std::fmt::Write as _;

use bulkhead::analysis::policy::words;
use bulkhead::model::policy::{PolicyVerdict, SharingPolicy};
use bulkhead::units::metric::Estimate;

use super::set::{Grant, Kind};
use crate::verdict::{Judge, Mark, say};

const POLICIES: [SharingPolicy; 6] = [
    SharingPolicy::EqualPerThread,
    SharingPolicy::EqualPerInstance,
    SharingPolicy::ProportionalToNeed,
    SharingPolicy::Weighted,
    SharingPolicy::Capped,
    SharingPolicy::Reserved,
];
/// Share of the runs that is named right.
const RIGHT: Mark = Mark::AtLeast(0.95);
/// Share of them that is named something else.
const WRONG: Mark = Mark::AtMost(0.02);
/// A fitted weight or cap over the one that was set, in the median.
const FITTED: Mark = Mark::Within(0.85, 1.15);

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

    /// The weight or cap that fits best over the one that was set, whatever name the run was given, or none; where nothing
    /// of the kind fits at all, there is none.
    pub fn fitted_over_set(&self) -> Option<f64> {
        let (policy, set) = (self.grant.policy(self.kind), self.grant.parameter()?);
        let fit = self.said.fits.iter().find(|fit| fit.policy == policy)?;
        Some(fit.parameter? / set)
    }

    /// What a run that was named right says the weight or cap is, with its interval.
    fn said_to_be(&self) -> Option<Estimate> {
        self.said.parameter.filter(|_| self.is_right())
    }
}

/// Says the score of all runs of a kind, and has its figures judged.
pub fn score(kind: Kind, runs: &[&Run], judge: &mut Judge) {
    say(&matrix(kind, runs));
    let left: Vec<f64> = runs.iter().filter_map(|run| Some(run.left? * 100.0)).collect();
    say(&format!("others left {} % of the CPUs to whoever wanted them, before each run", spread(&left, 0)));
    let count = |is: &dyn Fn(&Run) -> bool| {
        u32::try_from(runs.iter().filter(|run| is(run)).count()).unwrap_or(u32::MAX)
    };
    let (kind_word, of) = (kind.word(), count(&|_| true));
    judge.share(&format!("{kind_word}, named right"), count(&Run::is_right), of, RIGHT);
    judge.share(&format!("{kind_word}, wrongly named"), count(&Run::is_wrong), of, WRONG);
    for (what, policy) in [("weight", SharingPolicy::Weighted), ("cap", SharingPolicy::Capped)] {
        let is_set = |run: &Run| run.grant.policy(kind) == policy;
        let ratios: Vec<f64> =
            runs.iter().filter(|run| is_set(run)).filter_map(|run| run.fitted_over_set()).collect();
        let none = count(&is_set) as usize - ratios.len();
        let what = format!("{kind_word}, fitted {what} / set, whatever the name ({none} more had no fit)");
        // Those that have a fit are those that looked like what was set.
        judge.rounds_without(&what, &ratios, none, FITTED);
    }
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
        "| {}: set | {} | cannot be said | right | fitted / set, median (range), runs with a fit | set lies in the interval, of those named right |\n",
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
    let ratios: Vec<f64> = runs.iter().filter_map(|run| run.fitted_over_set()).collect();
    let said: Vec<Estimate> = runs.iter().filter_map(|run| run.said_to_be()).collect();
    let covered = said.iter().filter(|fit| (fit.low..=fit.high).contains(&set)).count();
    format!(" {}, {} of {} | {covered} of {} |", spread(&ratios, 3), ratios.len(), runs.len(), said.len())
}
