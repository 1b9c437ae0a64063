//! One sentence per platform, for people in a hurry. Levels as [`VerdictLevel`] states them: `Free` when no difference
//! was found or none above 5 %, `Costly` below 2 ×, `Heavy` from 2 × on or when measurements broke, `Unknown` without
//! enough data. Only differences that are right together count. Where none was found it is said which one would have been seen: the
//! largest that any probe's main metric needs to be found with 90 % power (`stats::power`). A probe that needs more than 25 % is
//! *undecided*: not finding something in the dark says little, so a platform is free only when most of its probes are decided.

use std::collections::BTreeSet;

use super::wording::{clause, figure};
use model::clocks::ClockLevel;
use model::journal::Cell;
use model::results::{CellResult, MetricResult, RunResults, Verdict, VerdictLevel};
use probes::ProbeKind;
use units::metric::{Better, Comparison, Difference, Estimate, percent_up};

/// Costs up to this factor are free.
const FREE_UP_TO: f64 = 1.05;
/// Costs from this factor on are heavy.
const HEAVY_FROM: f64 = 2.0;
/// Differences named in the sentence; the rest is counted.
const MOST_NAMED: usize = 3;
/// Figures listed below the sentence.
const MOST_LISTED: usize = 6;

/// A headline comparison with the baseline.
struct Finding<'a> {
    cell: &'a Cell,
    /// Whether this is the main metric of its probe.
    main: bool,
    metric: &'a MetricResult,
    difference: Difference,
    ratio: Estimate,
    /// The smallest difference that would have been called, percent.
    seen_from: f64,
}

impl Finding<'_> {
    /// The ratio, turned so that more is worse.
    fn cost(&self) -> f64 {
        match self.metric.better {
            Better::Lower => self.ratio.value,
            Better::Higher => 1.0 / self.ratio.value,
            Better::Neither => self.ratio.value.max(1.0 / self.ratio.value),
        }
    }

    /// Whether what users would call a difference would not have been seen.
    fn is_undecided(&self) -> bool {
        self.metric.against_baseline.as_ref().is_none_or(Comparison::is_undecided)
    }
}

/// Sentences for every platform but the baseline; `wanted` is the baseline the experiment asked for.
pub(super) fn verdicts(wanted: &str, results: &RunResults) -> Vec<Verdict> {
    let used = results.experiment.baseline_label();
    results
        .platforms
        .iter()
        .filter(|state| state.label != used)
        .map(|state| match &state.unavailable {
            Some(reason) => unavailable(&state.label, reason, wanted, used),
            None => of_platform(&state.label, used, results),
        })
        .collect()
}

fn unavailable(label: &str, reason: &str, wanted: &str, used: &str) -> Verdict {
    let instead = if label == wanted {
        format!("; the others are compared with {used} instead")
    } else {
        String::new()
    };
    Verdict {
        platform: label.to_owned(),
        level: VerdictLevel::Unknown,
        sentence: format!("{label}: not available here: {reason}{instead}"),
        because: Vec::new(),
    }
}

fn of_platform(label: &str, baseline: &str, results: &RunResults) -> Verdict {
    let cells: Vec<&CellResult> =
        results.cells.iter().filter(|result| result.cell.platform == label).collect();
    let mut findings: Vec<Finding<'_>> = cells.iter().flat_map(|result| findings(result)).collect();
    findings.sort_by(|a, b| b.cost().total_cmp(&a.cost()));
    let broken = cells.iter().map(|result| result.failed).sum::<u32>();
    let made = cells.iter().map(|result| result.done).sum::<u32>() + broken;
    let mut parts = summary(&findings);
    parts.extend(named(&findings));
    if broken > 0 {
        let first = results.failures.iter().find(|failed| failed.cell.platform == label);
        let first = first.map(|failed| format!(", first: {}: {}", failed.cell.probe, failed.failure.reason));
        parts.push(format!("{broken} of {made} measurements broke{}", first.unwrap_or_default()));
    }
    if results.clocks.iter().any(|clock| clock.platform == label && clock.level == ClockLevel::Lies) {
        parts.push("its clock lies, and its figures are in its own time".to_owned());
    }
    Verdict {
        platform: label.to_owned(),
        level: level(&findings, broken),
        sentence: format!("{label}: {}", parts.join("; ")),
        because: listed(&findings)
            .map(|finding| figure(finding.cell, &finding.metric.title, baseline, &finding.ratio))
            .collect(),
    }
}

/// The figures behind a sentence: the differences; where there are none, what was found to be the same.
fn listed<'a>(findings: &'a [Finding<'a>]) -> impl Iterator<Item = &'a Finding<'a>> {
    let differs = findings.iter().any(|finding| finding.difference.is_called());
    findings
        .iter()
        .filter(move |finding| {
            if differs { finding.difference.is_called() } else { finding.main && !finding.is_undecided() }
        })
        .take(MOST_LISTED)
}

fn findings(result: &CellResult) -> Vec<Finding<'_>> {
    let headline = result.metrics.iter().filter(|metric| metric.headline);
    headline
        .enumerate()
        .filter_map(|(index, metric)| {
            let comparison = metric.against_baseline.as_ref()?;
            let ratio = *comparison.ratio.estimate()?;
            Some(Finding {
                cell: &result.cell,
                main: index == 0,
                metric,
                difference: comparison.difference,
                ratio,
                seen_from: comparison.detectable_percent.unwrap_or(f64::INFINITY),
            })
        })
        .collect()
}

fn level(findings: &[Finding<'_>], broken: u32) -> VerdictLevel {
    let worst = findings
        .iter()
        .filter(|finding| matches!(finding.difference, Difference::Worse | Difference::Different))
        .map(Finding::cost)
        .fold(1.0, f64::max);
    if broken > 0 || worst >= HEAVY_FROM {
        VerdictLevel::Heavy
    } else if worst > FREE_UP_TO {
        VerdictLevel::Costly
    } else if findings.is_empty() || in_the_dark(findings) {
        VerdictLevel::Unknown
    } else {
        VerdictLevel::Free
    }
}

/// Whether no more than half of the probes are decided.
fn in_the_dark(findings: &[Finding<'_>]) -> bool {
    let main = || findings.iter().filter(|finding| finding.main && finding.cell.neighbour.is_none());
    let decided = main().filter(|finding| !finding.is_undecided()).count();
    decided * 2 <= main().count()
}

/// In how many probes, without a neighbour, no difference was found.
fn summary(findings: &[Finding<'_>]) -> Vec<String> {
    let alone = || findings.iter().filter(|finding| finding.cell.neighbour.is_none());
    let compared: BTreeSet<ProbeKind> = alone().map(|finding| finding.cell.probe).collect();
    let differing: BTreeSet<ProbeKind> =
        alone().filter(|finding| finding.difference.is_called()).map(|finding| finding.cell.probe).collect();
    let (undecided, decided): (Vec<&Finding<'_>>, Vec<&Finding<'_>>) = alone()
        .filter(|finding| finding.main && !differing.contains(&finding.cell.probe))
        .partition(|finding| finding.is_undecided());
    let same = compared.len() - differing.len();
    let found = match (compared.len(), same) {
        (0, _) => return vec!["too little data for a verdict".to_owned()],
        (_, 0) => return Vec::new(),
        (1, 1) => "no difference found in the one probe".to_owned(),
        (all, same) if all == same => format!("no difference found in any of {all} probes"),
        (all, same) => format!("no difference found in {same} of {all} probes"),
    };
    vec![found + &seen(&decided, &undecided)]
}

/// Which difference would have been seen in probes in which none was found.
fn seen(decided: &[&Finding<'_>], undecided: &[&Finding<'_>]) -> String {
    let from =
        |findings: &[&Finding<'_>]| findings.iter().map(|finding| finding.seen_from).collect::<Vec<f64>>();
    let Some(largest) = from(decided).into_iter().reduce(f64::max) else {
        let smallest = from(undecided).into_iter().fold(f64::INFINITY, f64::min);
        let below = if smallest.is_finite() {
            format!("one below {}", percent_up(smallest))
        } else {
            "one".to_owned()
        };
        return format!("; too few or too noisy rounds: {below} would not have been seen");
    };
    let names: Vec<&str> = undecided.iter().map(|finding| finding.cell.probe.as_str()).collect();
    let others =
        if names.is_empty() { String::new() } else { format!("; in {} only a larger one", names.join(", ")) };
    format!("; one of {} would have been seen{others}", percent_up(largest))
}

/// The strongest differences in words, alone first; one per probe and neighbour.
fn named(findings: &[Finding<'_>]) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let mut strongest: Vec<&Finding<'_>> = findings
        .iter()
        .filter(|finding| finding.difference.is_called())
        .filter(|finding| seen.insert((finding.cell.probe, finding.cell.neighbour)))
        .collect();
    strongest.sort_by_key(|finding| finding.cell.neighbour.is_some());
    let mut clauses: Vec<String> = strongest
        .iter()
        .take(MOST_NAMED)
        .map(|f| clause(f.cell, &f.metric.title, f.metric.unit, f.metric.better, &f.ratio))
        .collect();
    match strongest.len().saturating_sub(MOST_NAMED) {
        0 => {}
        1 => clauses.push("1 more difference".to_owned()),
        more => clauses.push(format!("{more} more differences")),
    }
    clauses
}
