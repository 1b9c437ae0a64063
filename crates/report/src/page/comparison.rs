//! What it costs: the verdict of each platform with the figures behind it, and all platforms against the baseline in one picture.

use maud::{Markup, html};

use model::journal::probe_words;
use model::results::{CellResult, RunResults, Verdict};
use units::metric::Difference;

use super::super::chart::axis::{Axis, Quantity, Scale};
use super::super::chart::bars::{BarRow, Bars, Form, Item};
use super::super::chart::palette::Ink;
use super::super::chart::svg::Picture;
use super::super::figures::{Finding, Row, Which, finding, measured_labels, platform_labels, rows, sound};
use super::parts::{Folded, bounded, figure, fold};

/// The comparison; left out when nothing was measured.
pub(super) fn section(results: &RunResults) -> Option<Folded> {
    let rows = rows(results, None, Which::Headline);
    if rows.is_empty() {
        return None;
    }
    let labels = platform_labels(results);
    let measured = measured_labels(results);
    let baseline = results.experiment.baseline_label();
    let others: Vec<(Ink, String)> = labels
        .iter()
        .enumerate()
        .filter(|(_, label)| *label != baseline && measured.contains(label))
        .map(|(index, label)| (Ink(index), label.clone()))
        .collect();
    let caption = format!(
        "Each mark is a ratio to {baseline}, its bar the interval, right with 95 % for each figure; what is called a difference is \
         one with 95 % for all headline figures together. Right of the line is worse; for rates and throughput (marked ↑) better."
    );
    let called = |wanted: Difference| {
        let of = |result: &&CellResult| result.cell.neighbour.is_none();
        let metrics = results
            .cells
            .iter()
            .filter(of)
            .flat_map(|result| &result.metrics)
            .filter(|metric| metric.headline);
        metrics.filter_map(|m| m.against_baseline.as_ref()).filter(|c| c.difference == wanted).count()
    };
    let line = format!(
        "{} headline figures as ratios to {baseline}: {} worse, {} better, {} without a difference found",
        rows.len(),
        called(Difference::Worse),
        called(Difference::Better),
        called(Difference::NotFound)
    );
    let body = html! {
        @for verdict in &results.verdicts { (verdict_words(verdict)) }
        @for platform in results.platforms.iter().filter(|platform| platform.unavailable.is_some()) {
            p { strong { (platform.label) } " is not available: " (bounded(platform.unavailable.as_deref().unwrap_or_default())) }
        }
        @if !others.is_empty() {
            (figure(&format!("Platforms compared with {baseline}"), &caption, &others, &forest(results, &rows, &others)))
        }
    };
    Some((line, body))
}

/// The sentence of a verdict, and the figures behind it.
fn verdict_words(verdict: &Verdict) -> Markup {
    html! {
        p { (bounded(&verdict.sentence)) "." }
        @if !verdict.because.is_empty() {
            (fold("Figures behind it", &html! { ul.small { @for figure in &verdict.because { li { (bounded(figure)) } } } }))
        }
    }
}

fn forest(results: &RunResults, rows: &[Row], others: &[(Ink, String)]) -> Picture {
    let drawn: Vec<BarRow> = rows
        .iter()
        .map(|row| BarRow {
            title: title(row),
            items: others.iter().filter_map(|(ink, label)| item(results, row, *ink, label)).collect(),
        })
        .filter(|row: &BarRow| !row.items.is_empty())
        .collect();
    // One interval that says nothing must not press all others into a line: the axis follows the ratios themselves
    // and leaves room for a factor of five around each; what reaches beyond is drawn without an end.
    let values = drawn
        .iter()
        .flat_map(|row| &row.items)
        .flat_map(|i| [i.value, i.interval.0.max(i.value / 5.0), i.interval.1.min(i.value * 5.0)]);
    let caption = "ratio to the baseline (logarithmic)";
    let Some(axis) = Axis::enclosing(Scale::Log, Quantity::Ratio, caption, values.chain([0.9, 1.0, 1.1]))
    else {
        return Picture::Nothing("no ratios".to_owned());
    };
    if drawn.is_empty() {
        return Picture::Nothing("no measurement allows a comparison".to_owned());
    }
    let name = "Ratios of every platform to the baseline, with intervals".to_owned();
    Bars { name, axis, rows: drawn, form: Form::Dots(1.0) }.draw()
}

fn title(row: &Row) -> String {
    use units::metric::Better;
    let arrow = if row.better == Better::Higher { " ↑" } else { "" };
    format!("{}: {}{arrow}", probe_words(row.probe, row.layout), row.title)
}

fn item(results: &RunResults, row: &Row, ink: Ink, label: &str) -> Option<Item> {
    let Finding::Metric(metric) = finding(results, row, label) else { return None };
    let ratio = sound(&metric.against_baseline.as_ref()?.ratio).ok()?;
    (ratio.value > 0.0).then_some(Item { ink, value: ratio.value, interval: (ratio.low, ratio.high) })
}
