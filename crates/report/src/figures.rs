//! Looks figures up in a run and writes them as people read them. Terminal and page share it, so they never differ.
//!
//! A figure that is missing always has a reason: the data cannot support it, every measurement broke, the platform is
//! not available, or the run was interrupted before.

use model::journal::{Cell, FailureKind, Neighbour};
use model::results::{CellResult, MetricResult, RunResults, VerdictLevel, made_up};
use probes::ProbeKind;
use probes::detail::Detail;
use units::layout::Layout;
use units::metric::{Answer, Better, Comparison, Difference, Estimate, Unit};
use units::{Reason, three_digits};

/// Which platforms' figures are made up, in words; none when none are.
pub(super) fn made_up_words(results: &RunResults) -> Option<String> {
    match made_up(&results.platforms).as_slice() {
        [] => None,
        labels => Some(format!(
            "the figures of {} are made up from the seed: nothing was measured",
            labels.join(", ")
        )),
    }
}

/// Which platforms were made slower on purpose, in words; none when none were.
pub(super) fn made_slower_words(results: &RunResults) -> Option<String> {
    let slower = results.experiment.platforms.iter().filter_map(|platform| {
        let percent = platform.more_work_percent?;
        Some(format!("{} was made {percent} % slower", platform.label))
    });
    let slower: Vec<String> = slower.collect();
    let probes = "on purpose: fwq, cpu and frames did that much more work there";
    (!slower.is_empty()).then(|| format!("{} {probes}", slower.join(", ")))
}

/// A row of a table: one metric of one probe, alone or beside a neighbour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The probe.
    pub probe: ProbeKind,
    /// The neighbour, if any.
    pub neighbour: Option<Neighbour>,
    /// How many instances measure at once, if it is not one alone.
    pub layout: Option<Layout>,
    /// Id of the metric.
    pub id: String,
    /// What it says.
    pub title: String,
    /// Its unit.
    pub unit: Unit,
    /// Its good direction.
    pub better: Better,
}

/// Which metrics a table has rows for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// Those that verdicts are drawn from.
    Headline,
    /// All of them.
    All,
}

/// The rows of every probe beside one neighbour (or none), each metric once, in the order of the probes.
pub fn rows(results: &RunResults, neighbour: Option<Neighbour>, which: Which) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for probe in ProbeKind::ALL {
        let cells =
            results.cells.iter().filter(|cell| cell.cell.probe == *probe && cell.cell.neighbour == neighbour);
        for (layout, metric) in
            cells.flat_map(|cell| cell.metrics.iter().map(|metric| (cell.cell.layout, metric)))
        {
            let wanted = which == Which::All || metric.headline;
            let same = |row: &Row| row.probe == *probe && row.layout == layout && row.id == metric.id;
            if wanted && !rows.iter().any(same) {
                rows.push(Row {
                    probe: *probe,
                    neighbour,
                    layout,
                    id: metric.id.clone(),
                    title: metric.title.clone(),
                    unit: metric.unit,
                    better: metric.better,
                });
            }
        }
    }
    rows
}

/// Every neighbour that was measured, in order of first appearance.
pub fn neighbours(results: &RunResults) -> Vec<Neighbour> {
    let mut seen = Vec::new();
    for neighbour in results.cells.iter().filter_map(|cell| cell.cell.neighbour) {
        if !seen.contains(&neighbour) {
            seen.push(neighbour);
        }
    }
    seen
}

/// Labels of all platforms: those of the run in its order, then any that only cells name.
pub fn platform_labels(results: &RunResults) -> Vec<String> {
    let mut labels: Vec<String> = Vec::new();
    let named = results.platforms.iter().map(|platform| &platform.label);
    for label in named.chain(results.cells.iter().map(|cell| &cell.cell.platform)) {
        if !labels.contains(label) {
            labels.push(label.clone());
        }
    }
    labels
}

/// Platforms that tables have columns for: those that could be started. The verdict says why the others are missing.
pub fn measured_labels(results: &RunResults) -> Vec<String> {
    let mut labels = platform_labels(results);
    labels.retain(|label| {
        let state = results.platforms.iter().find(|state| state.label == *label);
        state.is_none_or(|state| state.unavailable.is_none())
            || results.cells.iter().any(|cell| cell.cell.platform == *label && cell.done > 0)
    });
    labels
}

/// What there is to say about a metric on a platform.
#[derive(Debug, Clone, PartialEq)]
pub enum Finding<'a> {
    /// It was measured; the estimate may still be unsupported.
    Metric(&'a MetricResult),
    /// Every measurement broke; why the first one did.
    Failed(String),
    /// It was not measured; why.
    Absent(String),
}

/// Looks up one metric on one platform.
pub fn finding<'a>(results: &'a RunResults, row: &Row, platform: &str) -> Finding<'a> {
    let wanted = Cell {
        probe: row.probe,
        neighbour: row.neighbour,
        platform: platform.to_owned(),
        layout: row.layout,
    };
    let Some(cell) = cell(results, &wanted) else { return Finding::Absent(why_absent(results, platform)) };
    if let Some(metric) = cell.metrics.iter().find(|metric| metric.id == row.id) {
        return Finding::Metric(metric);
    }
    if cell.done == 0 && cell.failed > 0 {
        let reason = results.failures.iter().find(|failure| failure.cell == wanted);
        return Finding::Failed(reason.map_or_else(
            || "every measurement broke".to_owned(),
            |failed| format!("{}: {}", failure_words(failed.failure.kind), failed.failure.reason),
        ));
    }
    if cell.done == 0 {
        return Finding::Absent(why_absent(results, platform));
    }
    Finding::Absent("this platform's measurements did not yield this figure".to_owned())
}

/// The result of a cell.
pub fn cell<'a>(results: &'a RunResults, wanted: &Cell) -> Option<&'a CellResult> {
    results.cells.iter().find(|cell| cell.cell == *wanted)
}

fn why_absent(results: &RunResults, platform: &str) -> String {
    let state = results.platforms.iter().find(|state| state.label == platform);
    match state.and_then(|state| state.unavailable.clone()) {
        Some(reason) => format!("not available: {reason}"),
        None if results.complete => "not part of the experiment".to_owned(),
        None => "the run was interrupted before this was measured".to_owned(),
    }
}

/// The raw outcomes of a probe without neighbour, in its first layout, with the index of the platform in
/// [`platform_labels`].
pub fn details(results: &RunResults, probe: ProbeKind) -> Vec<(usize, String, &Detail)> {
    let layout = results.experiment.layouts_of(probe).first().copied().flatten();
    details_in(results, probe, layout)
}

/// The same in one layout.
pub fn details_in(
    results: &RunResults,
    probe: ProbeKind,
    layout: Option<Layout>,
) -> Vec<(usize, String, &Detail)> {
    platform_labels(results)
        .into_iter()
        .enumerate()
        .filter_map(|(index, label)| {
            let wanted = Cell { probe, neighbour: None, platform: label.clone(), layout };
            cell(results, &wanted)?.detail.as_ref().map(|detail| (index, label, detail))
        })
        .collect()
}

/// A failure's kind in words.
pub const fn failure_words(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::Start => "could not be started",
        FailureKind::Died => "died",
        FailureKind::Hung => "hung",
        FailureKind::Garbage => "sent garbage",
        FailureKind::Refused => "refused",
        FailureKind::Neighbour => "its neighbour broke",
    }
}

/// An estimate all of whose figures are numbers.
///
/// # Errors
/// The reason to show instead.
pub fn sound(answer: &Answer) -> Result<&Estimate, Reason> {
    match answer {
        Answer::Unsupported(reason) => Err(reason.clone().into()),
        Answer::Estimate(estimate) if estimate.is_sound() => Ok(estimate),
        Answer::Estimate(_) => Err("the figure is not a finite number".into()),
    }
}

/// What stands where a figure has no interval: `≤ 12 ms`, or `n/a`.
pub fn most_text(unit: Unit, most: Option<f64>) -> String {
    let most = most.filter(|most| most.is_finite());
    most.map_or_else(|| "n/a".to_owned(), |most| format!("≤ {}", value_text(unit, most)))
}

/// A value with its unit. Negative values keep their sign.
pub fn value_text(unit: Unit, value: f64) -> String {
    // A zero has no sign.
    if value < 0.0 { format!("−{}", unit.format(-value)) } else { unit.format(value.abs()) }
}

/// `± 2.1 %` of an estimate; the interval itself where a share of the value says nothing.
pub fn spread_text(unit: Unit, estimate: &Estimate) -> String {
    let half = estimate.relative_half_width() * 100.0;
    if half.is_finite() && half < 100.0 {
        format!("± {} %", if half >= 9.95 { format!("{half:.0}") } else { format!("{half:.1}") })
    } else {
        format!("[{}…{}]", value_text(unit, estimate.low), value_text(unit, estimate.high))
    }
}

/// A ratio's number: three digits, or a power of ten where those would be a row of zeros.
pub fn ratio_number(ratio: f64) -> String {
    if ratio != 0.0 && !(0.000_95..99_950.0).contains(&ratio.abs()) {
        format!("{ratio:.1e}")
    } else {
        three_digits(ratio)
    }
}

/// `1.34 × [1.31…1.38]`; an interval too wide to say anything is not spelt out.
pub fn ratio_text(ratio: &Estimate) -> String {
    let interval = ratio.interval_text().replace(" … ", "…");
    format!("{} × {interval}", ratio_number(ratio.value))
}

/// The mark of a called difference; empty when none was found.
pub const fn difference_mark(difference: Difference) -> &'static str {
    match difference {
        Difference::Better => "▲",
        Difference::Worse => "▼",
        Difference::Different => "◆",
        Difference::NotFound => "",
        Difference::Unknown => "?",
    }
}

/// A difference in words.
pub const fn difference_words(difference: Difference) -> &'static str {
    match difference {
        Difference::Better => "better",
        Difference::Worse => "worse",
        Difference::Different => "different",
        Difference::NotFound => "no difference found",
        Difference::Unknown => "too little data",
    }
}

/// The mark of a verdict, legible without colour.
pub const fn level_mark(level: VerdictLevel) -> &'static str {
    match level {
        VerdictLevel::Free => "=",
        VerdictLevel::Costly => "+",
        VerdictLevel::Heavy => "!",
        VerdictLevel::Unknown => "?",
    }
}

/// A verdict in two words.
pub const fn level_words(level: VerdictLevel) -> &'static str {
    match level {
        VerdictLevel::Free => "next to free",
        VerdictLevel::Costly => "costs something",
        VerdictLevel::Heavy => "costs a lot",
        VerdictLevel::Unknown => "undecided",
    }
}

/// What a comparison says.
///
/// # Errors
/// Why there is no ratio.
pub fn comparison_text(comparison: &Comparison) -> Result<String, Reason> {
    sound(&comparison.ratio).map(ratio_text)
}

/// Rounds that yielded at least one figure, over all cells.
pub fn rounds(results: &RunResults) -> u32 {
    results.cells.iter().map(|cell| cell.done.saturating_add(cell.failed)).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_keep_three_digits_over_the_whole_range() {
        let printed = [0.0, 1.0, 1.342, 0.9871, 34.21, 441.0, 1e7, 0.000_01].map(ratio_number);
        assert_eq!(printed, ["0", "1", "1.34", "0.987", "34.2", "441", "1.0e7", "1.0e-5"]);
    }

    #[test]
    fn what_is_not_a_number_is_not_shown_as_one() {
        let forged = Answer::Estimate(Estimate { value: f64::NAN, low: 0.0, high: 1.0, confidence: 0.95 });
        assert!(sound(&forged).is_err());
        assert_eq!(value_text(Unit::Nanoseconds, -5.0), "−5 ns");
        assert_eq!(value_text(Unit::Share, -0.0), "0 %");
    }
}
