//! Parts that every section uses: tables that scroll in their own box, figures with legend and caption, and the
//! cells that show a figure or the reason why there is none.

use maud::{Markup, PreEscaped, html};
use model::journal::probe_words;
use model::results::RunResults;
use units::metric::{Answer, Comparison, Difference, Unit};

use super::super::chart::axis::{Axis, Quantity, Scale};
use super::super::chart::bars::{BarRow, Bars, Form};
use super::super::chart::palette::Ink;
use super::super::chart::plot::{Plot, Rule, Series, Stroke};
use super::super::chart::svg::Picture;
use super::super::figures::{
    Finding, Row, comparison_text, difference_mark, difference_words, finding, most_text, neighbour_words,
    sound, spread_text, value_text,
};

/// A table in a box of its own, so that a wide one never widens the page.
pub(crate) fn scrolling(label: &str, table: &Markup) -> Markup {
    html! { div.scroll role="region" tabindex="0" aria-label=(label) { (table) } }
}

/// A table below its picture, folded away.
pub(crate) fn behind(label: &str, table: &Markup) -> Markup {
    html! { details { summary { (label) } (scrolling(label, table)) } }
}

/// A picture with caption and legend.
pub(crate) fn figure(title: &str, caption: &str, legend: &[(Ink, String)], picture: &Picture) -> Markup {
    html! {
        figure {
            figcaption { strong { (title) } (caption) }
            @if legend.len() > 1 { (legend_of(legend)) }
            @match picture {
                Picture::Svg(svg) => { div.drawing { (PreEscaped(svg)) } }
                Picture::Nothing(reason) => { p.soft { "No picture: " (reason) "." } }
            }
        }
    }
}

/// A picture of blocks, whose colours the legend names.
pub(crate) fn figure_of_blocks(
    title: &str,
    caption: &str,
    legend: &[(Ink, String)],
    picture: &Picture,
) -> Markup {
    html! {
        figure {
            figcaption { strong { (title) } (caption) }
            ul.legend {
                @for (ink, label) in legend {
                    li { svg viewBox="0 0 80 24" aria-hidden="true" { rect x="2" y="1" width="76" height="22" fill=(ink.hex()) {} } (label) }
                }
            }
            @match picture {
                Picture::Svg(svg) => { div.drawing { (PreEscaped(svg)) } }
                Picture::Nothing(reason) => { p.soft { "No picture: " (reason) "." } }
            }
        }
    }
}

fn legend_of(legend: &[(Ink, String)]) -> Markup {
    html! {
        ul.legend {
            @for (ink, label) in legend {
                @let hex = ink.hex();
                li data-ink=(hex) {
                    svg viewBox="0 0 80 24" aria-hidden="true" {
                        polyline fill="none" stroke=(hex) stroke-width="4" points="2,12 78,12" {}
                        (mark(*ink, &hex))
                    }
                    (label)
                }
            }
        }
    }
}

/// The mark that the pictures use for this platform.
fn mark(ink: Ink, hex: &str) -> Markup {
    html! {
        @match ink.0 % 4 {
            0 => { circle cx="40" cy="12" r="8" fill=(hex) {} }
            1 => { polygon points="40,1 50,20 30,20" fill=(hex) {} }
            2 => { path d="M32 4 L48 20 M48 4 L32 20" stroke=(hex) stroke-width="4" {} }
            _ => { circle cx="40" cy="12" r="8" fill="none" stroke=(hex) stroke-width="4" {} }
        }
    }
}

/// Axes, and what is drawn between them.
pub(crate) struct Drawing {
    pub x: Option<super::super::chart::axis::Axis>,
    pub y: Option<super::super::chart::axis::Axis>,
    pub series: Vec<Series>,
    pub rules: Vec<Rule>,
}

impl Drawing {
    /// Draws it, or says that there is nothing to draw.
    pub fn draw(self, name: &str) -> Picture {
        let (Some(x), Some(y)) = (self.x, self.y) else {
            return Picture::Nothing("no measurement yielded points to draw".to_owned());
        };
        let height = super::super::chart::plot::HEIGHT;
        Plot { name: name.to_owned(), x, y, series: self.series, rules: self.rules, height }.draw()
    }
}

/// A series drawn as this platform's line.
pub(crate) fn line(ink: usize, points: Vec<(f64, f64)>) -> Series {
    Series { ink: Ink(ink), stroke: Stroke::Line, points }
}

/// First halves of all points.
pub(crate) fn xs(series: &[Series]) -> impl Iterator<Item = f64> {
    series.iter().flat_map(|series| series.points.iter().map(|point| point.0))
}

/// Second halves of all points.
pub(crate) fn ys(series: &[Series]) -> impl Iterator<Item = f64> {
    series.iter().flat_map(|series| series.points.iter().map(|point| point.1))
}

/// Which ratio stands below a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beside {
    /// This platform over the baseline.
    Baseline,
    /// This platform with the neighbour over the same without.
    Undisturbed,
}

/// A table of metrics by platforms, grouped by probe.
pub(crate) fn metric_table(results: &RunResults, rows: &[Row], labels: &[String], beside: Beside) -> Markup {
    html! {
        table {
            thead { tr { th scope="col" { "Figure" } @for label in labels { th scope="col" { (label) } } } }
            @for group in rows.chunk_by(|a, b| (a.probe, a.layout) == (b.probe, b.layout)) {
                tbody.group {
                    @if let Some(first) = group.first() {
                        tr { th scope="rowgroup" colspan=(labels.len() + 1) { (probe_words(first.probe, first.layout)) } }
                    }
                    @for row in group {
                        tr {
                            th scope="row" { (row.title) }
                            @for label in labels { (metric_cell(results, row, label, beside)) }
                        }
                    }
                }
            }
        }
    }
}

fn metric_cell(results: &RunResults, row: &Row, label: &str, beside: Beside) -> Markup {
    let neighbour = row.neighbour.map_or_else(|| "none".to_owned(), |n| format!("{}@{}", n.kind, n.place));
    let key = format!("{}|{neighbour}|{label}", probe_words(row.probe, row.layout));
    match finding(results, row, label) {
        Finding::Failed(reason) => html! {
            td.why data-cell=(key) data-metric=(row.id) { span.failed { "failed" } span.sub { (reason) } }
        },
        Finding::Absent(reason) => html! {
            td.why data-cell=(key) data-metric=(row.id) { "n/a" span.sub { (reason) } }
        },
        Finding::Metric(metric) => {
            let comparison = match beside {
                Beside::Baseline => metric.against_baseline.as_ref(),
                Beside::Undisturbed => metric.against_undisturbed.as_ref(),
            };
            answer_cell(&key, &row.id, row.unit, &metric.estimate, metric.at_most, comparison)
        }
    }
}

fn answer_cell(
    key: &str,
    id: &str,
    unit: Unit,
    answer: &Answer,
    most: Option<f64>,
    comparison: Option<&Comparison>,
) -> Markup {
    match sound(answer) {
        Err(reason) => html! {
            td.why data-cell=(key) data-metric=(id) { (most_text(unit, most)) span.sub { (reason) } }
        },
        Ok(estimate) => html! {
            td data-cell=(key) data-metric=(id) data-value=(estimate.value) {
                span.num { (value_text(unit, estimate.value)) }
                span.sub { (spread_text(unit, estimate)) }
                @if let Some(comparison) = comparison { (ratio_line(comparison)) }
            }
        },
    }
}

fn ratio_line(comparison: &Comparison) -> Markup {
    html! {
        @match comparison_text(comparison) {
            Ok(text) => { span.sub.(class_of(comparison.difference)) { (text) " " (called(comparison.difference)) } }
            Err(reason) => { span.sub { "no ratio: " (reason) } }
        }
    }
}

/// `▼ worse`; nothing when no difference was found.
pub(crate) fn called(difference: Difference) -> Markup {
    let mark = difference_mark(difference);
    html! { @if !mark.is_empty() { (mark) " " (difference_words(difference)) } }
}

/// Class of a called difference.
pub(crate) const fn class_of(difference: Difference) -> &'static str {
    match difference {
        Difference::Better => "better",
        Difference::Worse => "worse",
        Difference::Different => "different",
        Difference::NotFound => "same",
        Difference::Unknown => "soft",
    }
}

/// A table of plain words and figures; the first column heads its row.
pub(crate) fn plain_table(head: &[&str], rows: &[Vec<String>]) -> Markup {
    html! {
        table {
            thead { tr { @for name in head { th scope="col" { (name) } } } }
            tbody {
                @for row in rows {
                    tr {
                        @for (column, text) in row.iter().enumerate() {
                            @if column == 0 { th scope="row" { (text) } } @else { td { (text) } }
                        }
                    }
                }
            }
        }
    }
}

/// Says how many rows of a capped table are shown; nothing when all are.
pub(crate) fn capped(shown: usize, all: usize) -> Markup {
    html! { @if shown < all { p.soft.small { (shown) " of " (all) " shown, worst first." } } }
}

/// Where a cell was measured, in words.
pub(crate) fn cell_words(cell: &model::journal::Cell) -> String {
    let beside = cell.neighbour.map_or_else(String::new, |n| format!(" beside a {}", neighbour_words(n)));
    format!("{} on {}{beside}", cell.probe_words(), cell.platform)
}

/// Text cut to what a page can bear.
pub(crate) fn bounded(text: &str) -> String {
    super::super::text::printable(text, 2000)
}

/// Bars from zero, of one unit; says so when there are none.
pub(super) fn bars(rows: Vec<BarRow>, unit: Unit, (name, caption): (&str, &str)) -> Picture {
    let values = rows.iter().flat_map(|row| &row.items).flat_map(|item| [item.value, item.interval.1]);
    let Some(axis) = Axis::enclosing(Scale::FromZero, Quantity::Of(unit), caption, values) else {
        return Picture::Nothing("no measurement yielded a figure".to_owned());
    };
    Bars { name: name.to_owned(), axis, rows, form: Form::Bars }.draw()
}
