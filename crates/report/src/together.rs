//! Several instances at once against one alone, in words: terminal and page share them.

use std::fmt::Write as _;

use super::figures::{comparison_text, difference_mark, sound};
use super::terminal::Style;
use super::text::{paragraph, printable};
use analysis::joint::{MEMBER_SPREAD, START_SKEW};
use model::results::{CellResult, MetricResult, RunResults};
use units::metric::{Answer, Better};

/// Lines shown on the terminal; the page has all.
const MOST_LINES: usize = 24;

/// What one cell says.
pub(super) struct Line {
    /// `syscall in 1x2 on vm`.
    pub(super) what: String,
    /// What its main metric is.
    pub(super) title: String,
    /// The main metric against one alone: `1.02 × [0.98…1.05] of the fair share ▼`, or why there is no ratio.
    pub(super) ratio: String,
    /// Worst instance over best.
    pub(super) spread: String,
    /// First start to last.
    pub(super) skew: String,
}

/// Every probe that several instances made at once, each for itself.
pub(super) fn lines(results: &RunResults) -> Vec<Line> {
    results.cells.iter().filter_map(line).collect()
}

fn line(result: &CellResult) -> Option<Line> {
    let cell = &result.cell;
    let layout = cell.layout?;
    let main = result.metrics.iter().find(|metric| metric.headline)?;
    let against = main.against_alone.as_ref()?;
    let ratio = comparison_text(against).map_or_else(
        |reason| format!("no ratio: {reason}"),
        |text| {
            let of = if main.better == Better::Higher { "the fair share" } else { "the time alone" };
            format!("{text} of {of} {}", difference_mark(against.difference)).trim_end().to_owned()
        },
    );
    let beside = cell.neighbour.map(|n| format!(" beside {} ({})", n.kind, n.place)).unwrap_or_default();
    Some(Line {
        what: format!("{} in {layout}{beside} on {}", cell.probe, cell.platform),
        title: main.title.clone(),
        ratio,
        spread: figure(result, MEMBER_SPREAD),
        skew: figure(result, START_SKEW),
    })
}

fn figure(result: &CellResult, id: &str) -> String {
    let metric = result.metrics.iter().find(|metric| metric.id == id);
    metric.map_or_else(|| "not measured".to_owned(), typical)
}

/// The median of the rounds; where there are too few for an interval, too.
fn typical(metric: &MetricResult) -> String {
    if let (Answer::Estimate(_), Ok(estimate)) = (&metric.estimate, sound(&metric.estimate)) {
        return metric.unit.format(estimate.value);
    }
    let mut values: Vec<f64> = metric.samples.iter().map(|(_, value)| *value).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).map_or_else(|| "not known".to_owned(), |value| metric.unit.format(*value))
}

/// The paragraph of the terminal's summary; empty when nothing was measured together.
pub(super) fn text(results: &RunResults, style: Style) -> String {
    let lines = lines(results);
    let mut out = String::new();
    for line in lines.iter().take(MOST_LINES) {
        let text = format!(
            "{}: {}; worst instance over best: {}; first start to last: {}",
            line.what, line.ratio, line.spread, line.skew
        );
        out.push_str(&paragraph("  ", &printable(&text, 600), style.columns()));
    }
    if lines.len() > MOST_LINES {
        let _ = writeln!(out, "  and {} more; the report has them all", lines.len() - MOST_LINES);
    }
    out
}
