//! Pictures of the fixed-work-quantum probe: the times in their order, and how they spread.

use maud::{Markup, html};

use model::results::RunResults;
use probes::ProbeKind;
use probes::detail::{Detail, FwqDetail};
use units::metric::Unit;

use super::super::chart::axis::{Axis, Quantity, Scale};
use super::super::chart::palette::Ink;
use super::super::chart::plot::Series;
use super::super::figures::{details, value_text};
use super::parts::{Drawing, behind, figure, line, plain_table, xs, ys};

const NS: Quantity = Quantity::Of(Unit::Nanoseconds);
/// Columns of the distribution.
const COLUMNS: usize = 120;

struct Quanta<'a> {
    ink: usize,
    label: String,
    detail: &'a FwqDetail,
}

pub(super) fn pictures(results: &RunResults) -> Markup {
    let all: Vec<Quanta<'_>> = details(results, ProbeKind::Fwq)
        .into_iter()
        .filter_map(|(ink, label, detail)| match detail {
            Detail::Fwq(detail) => Some(Quanta { ink, label, detail }),
            _ => None,
        })
        .collect();
    let legend: Vec<(Ink, String)> =
        all.iter().map(|quanta| (Ink(quanta.ink), quanta.label.clone())).collect();
    html! {
        div.solid { (figure("Each quantum in its order", "A quiet platform draws a flat line; spikes are quanta that were interrupted. \
            Where there are more quanta than the picture has columns, the shortest and the longest of each column are drawn.",
            &legend, &time_line(&all).draw("Time of each quantum of work, in order"))) }
        (figure("How the times spread", "How many quanta took how long; the narrower, the more predictable.",
            &legend, &distribution(&all).draw("Distribution of the times of a quantum")))
        (behind("Table: quanta", &table(&all)))
    }
}

fn time_line(all: &[Quanta<'_>]) -> Drawing {
    let series: Vec<Series> = all
        .iter()
        .map(|quanta| {
            let times = quanta.detail.samples_ns.iter().enumerate();
            line(quanta.ink, times.map(|(index, time)| (index as f64, time.as_f64())).collect())
        })
        .collect();
    Drawing {
        x: Axis::enclosing(Scale::FromZero, Quantity::Of(Unit::Count), "quantum", xs(&series)),
        y: Axis::enclosing(Scale::Log, NS, "time (logarithmic)", ys(&series)),
        series,
        rules: Vec::new(),
    }
}

fn distribution(all: &[Quanta<'_>]) -> Drawing {
    let times = || all.iter().flat_map(|quanta| &quanta.detail.samples_ns).map(|time| time.as_f64());
    let x = Axis::enclosing(Scale::Log, NS, "time of a quantum (logarithmic)", times());
    let series: Vec<Series> = x
        .as_ref()
        .map_or_else(Vec::new, |axis| all.iter().flat_map(|quanta| outlines(quanta, axis)).collect());
    Drawing {
        x,
        y: Axis::enclosing(Scale::Log, Quantity::Of(Unit::Count), "quanta", ys(&series)),
        series,
        rules: Vec::new(),
    }
}

/// Counts the quanta in columns of equal width on the axis; one outline per stretch of filled columns.
fn outlines(quanta: &Quanta<'_>, axis: &Axis) -> Vec<Series> {
    const FLOOR: f64 = 0.5;
    let (low, high) = axis.ends();
    let mut counts = vec![0u64; COLUMNS];
    for at in quanta.detail.samples_ns.iter().filter_map(|time| axis.place(time.as_f64())) {
        let column = units::metric::saturate(((at - low) / (high - low) * COLUMNS as f64).floor());
        let column = usize::try_from(column).unwrap_or(usize::MAX).min(COLUMNS - 1);
        counts.iter_mut().skip(column).take(1).for_each(|count| *count += 1);
    }
    // A hair inside the axis, so that the last edge keeps its place on it.
    let edge = |column: usize| {
        10f64.powf(low + (high - low) * (column as f64 / COLUMNS as f64).clamp(1e-6, 1.0 - 1e-6))
    };
    let numbered: Vec<(usize, u64)> =
        counts.into_iter().enumerate().filter(|(_, count)| *count > 0).collect();
    let outline = |stretch: &[(usize, u64)]| {
        let mut points = Vec::new();
        points.extend(stretch.first().map(|(column, _)| (edge(*column), FLOOR)));
        for (column, count) in stretch {
            points.extend([(edge(*column), *count as f64), (edge(column + 1), *count as f64)]);
        }
        points.extend(stretch.last().map(|(column, _)| (edge(column + 1), FLOOR)));
        line(quanta.ink, points)
    };
    numbered.chunk_by(|a, b| a.0 + 1 == b.0).map(outline).collect()
}

fn table(all: &[Quanta<'_>]) -> Markup {
    let rows: Vec<Vec<String>> = all
        .iter()
        .map(|quanta| {
            let mut sorted: Vec<f64> = quanta.detail.samples_ns.iter().map(|time| time.as_f64()).collect();
            sorted.sort_by(f64::total_cmp);
            let at = |share: f64| {
                let index = units::metric::saturate(share * sorted.len().saturating_sub(1) as f64);
                let value = usize::try_from(index).ok().and_then(|index| sorted.get(index));
                value.map_or_else(
                    || "n/a: no quanta".to_owned(),
                    |value| value_text(Unit::Nanoseconds, *value),
                )
            };
            vec![quanta.label.clone(), sorted.len().to_string(), at(0.0), at(0.5), at(0.9), at(1.0)]
        })
        .collect();
    plain_table(&["Platform", "Quanta", "Shortest", "Median", "9 of 10 below", "Longest"], &rows)
}
