//! The figures of a probe: a row each, the same beside neighbours below it, every round as a tick. A figure's name leads to
//! what it is, and beside it are its rounds and the command that measures it longer.

use maud::{Markup, html};

use model::results::{MetricResult, RunResults};
use probes::ProbeKind;
use probes::probe::Definition;
use units::metric::{Comparison, Difference, Estimate, Unit, percent_up};

use super::super::figures::{
    Finding, Row, Which, comparison_text, difference_mark, difference_words, finding, most_text, neighbours,
    rows, sound, spread_text, value_text,
};
use super::anchor;
use super::notes::Notes;
use super::parts::class_of;
use super::strip::{Line, strip, values};
use model::journal::probe_words;

/// A figure: its row alone, then those beside neighbours.
pub(super) type Figure = Vec<Row>;

/// All figures of a run, in the order of the probes.
pub(super) fn all(results: &RunResults) -> Vec<Figure> {
    let mut all: Vec<Figure> = Vec::new();
    let beside = neighbours(results).into_iter().map(Some);
    for row in std::iter::once(None).chain(beside).flat_map(|beside| rows(results, beside, Which::All)) {
        let same = |figure: &&mut Figure| {
            figure.first().is_some_and(|first| {
                (first.probe, first.layout, &first.id) == (row.probe, row.layout, &row.id)
            })
        };
        match all.iter_mut().find(same) {
            Some(figure) => figure.push(row),
            None => all.push(vec![row]),
        }
    }
    all
}

/// What a figure is; none where nobody has defined it, in runs of other versions.
pub(super) fn definition(probe: ProbeKind, id: &str) -> Option<&'static Definition> {
    Definition::of(probe.definitions(), id).or_else(|| Definition::of(analysis::joint::DEFINITIONS, id))
}

/// A table of figures by platforms, and the notes below it.
pub(super) fn table(
    results: &RunResults,
    probe: ProbeKind,
    figures: &[&Figure],
    labels: &[String],
) -> Markup {
    let mut notes = Notes::new(probe.as_str());
    let bodies: Vec<Markup> =
        figures.iter().map(|figure| body(results, figure, labels, &mut notes)).collect();
    html! {
        table.figures aria-label=(format!("Figures of {probe}")) {
            thead { tr { th scope="col" { "Figure" } @for label in labels { th scope="col" { (label) } } } }
            @for body in bodies { (body) }
        }
        (notes.list())
    }
}

fn body(results: &RunResults, figure: &Figure, labels: &[String], notes: &mut Notes) -> Markup {
    let samples = figure.iter().flat_map(|row| {
        labels.iter().filter_map(move |label| match finding(results, row, label) {
            Finding::Metric(metric) => Some(metric.samples.iter().map(|sample| sample.1)),
            Finding::Failed(_) | Finding::Absent(_) => None,
        })
    });
    let line = Line::of(samples.flatten());
    html! {
        tbody {
            @for (number, row) in figure.iter().enumerate() {
                tr id=(anchor::figure(row.probe, row.layout, row.neighbour, &row.id)) data-unit=(unit_name(row.unit))
                    data-cell=(cell_key(row)) data-metric=(row.id) {
                    th scope="row" { (head(row, number == 0)) }
                    @if let Some(reason) = nowhere(results, row, labels) {
                        td.why colspan=(labels.len()) { "n/a" (notes.refer(&reason)) }
                    } @else {
                        @for label in labels { (cell(results, row, label, line, notes)) }
                    }
                }
            }
        }
    }
}

/// The name of a figure with its links; of a row beside a neighbour only whom it is beside.
fn head(row: &Row, is_first: bool) -> Markup {
    html! {
        @if is_first {
            @match definition(row.probe, &row.id) {
                Some(known) => { a.what href={ "#" (anchor::definition(row.probe, known.ids)) } { (row.title) } }
                None => { span.what { (row.title) } }
            }
            @if let Some(layout) = row.layout { span.sub { (layout) } }
            span.links {
                a.rounds href={ "#rounds-" (row.probe) } { "rounds" } " " a href={ "#longer-" (row.probe) } { "longer" }
            }
        }
        @if let Some(neighbour) = row.neighbour { span.beside { (anchor::beside(neighbour)) } }
    }
}

/// Which cells a row is of: probe, and neighbour or `none`.
fn cell_key(row: &Row) -> String {
    let beside = row.neighbour.map_or_else(|| "none".to_owned(), anchor::beside);
    format!("{}|{beside}", probe_words(row.probe, row.layout))
}

const fn unit_name(unit: Unit) -> &'static str {
    match unit {
        Unit::Nanoseconds => "ns",
        Unit::Bytes => "bytes",
        Unit::BytesPerSecond => "bytes/s",
        Unit::PerSecond => "/s",
        Unit::Hertz => "Hz",
        Unit::Share => "share",
        Unit::Count => "",
    }
}

/// Why no platform has this figure, if the reason is the same for all.
fn nowhere(results: &RunResults, row: &Row, labels: &[String]) -> Option<String> {
    let reason = |label: &String| match finding(results, row, label) {
        Finding::Metric(metric) if metric.samples.is_empty() && metric.at_most.is_none() => {
            sound(&metric.estimate).err().map(|why| why.to_string())
        }
        Finding::Metric(_) | Finding::Failed(_) => None,
        Finding::Absent(reason) => Some(reason),
    };
    let (first, rest) = labels.split_first()?;
    let first = reason(first)?;
    rest.iter()
        .all(|label| reason(label).is_some_and(|other| Notes::are_alike(&first, &other)))
        .then_some(first)
}

fn cell(results: &RunResults, row: &Row, label: &str, line: Option<Line>, notes: &mut Notes) -> Markup {
    match finding(results, row, label) {
        Finding::Failed(reason) => html! {
            td.why data-label=(label) { span.failed { "failed" } (notes.refer(&reason)) }
        },
        Finding::Absent(reason) => html! {
            td.why data-label=(label) { "n/a" (notes.refer(&reason)) }
        },
        Finding::Metric(metric) => measured(row, label, metric, line, notes),
    }
}

fn measured(row: &Row, label: &str, metric: &MetricResult, line: Option<Line>, notes: &mut Notes) -> Markup {
    let comparison = match row.neighbour {
        None => metric.against_baseline.as_ref(),
        Some(_) => metric.against_undisturbed.as_ref(),
    };
    let rounds = values(&metric.samples);
    match sound(&metric.estimate) {
        Err(reason) => html! {
            td.why data-label=(label) data-v=(rounds) {
                (most_text(row.unit, metric.at_most)) (notes.refer(&reason.to_string())) (strip(line, &metric.samples))
            }
        },
        Ok(estimate) => html! {
            td data-value=(estimate.value) data-label=(label) data-v=(rounds) {
                span.num { (value_text(row.unit, estimate.value)) }
                " " span.soft { (short_spread(row.unit, estimate)) }
                @if let Some(comparison) = comparison { (ratio(comparison, notes)) }
                (strip(line, &metric.samples))
            }
        },
    }
}

/// `±2.1%`; the interval itself where a share of the value says nothing.
fn short_spread(unit: Unit, estimate: &Estimate) -> String {
    let text = spread_text(unit, estimate);
    if text.starts_with('±') { text.replace(' ', "") } else { text }
}

fn ratio(comparison: &Comparison, notes: &mut Notes) -> Markup {
    let called = comparison.difference;
    let words = match (called, comparison.detectable_percent.filter(|percent| (0.0..1e6).contains(percent))) {
        _ if called.is_called() => Some(difference_words(called).to_owned()),
        (Difference::NotFound, Some(seen)) => {
            Some(format!("no difference found; one of {} would have been seen", percent_up(seen)))
        }
        _ => None,
    };
    html! {
        @match comparison_text(comparison) {
            Ok(text) => {
                span.sub.(class_of(called)) title=[words] {
                    (difference_mark(called)) (text.replacen(" ×", "×", 1))
                }
            }
            Err(reason) => { span.sub.soft { "no ratio" (notes.refer(&reason.to_string())) } }
        }
    }
}
