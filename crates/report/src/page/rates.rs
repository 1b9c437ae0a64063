//! Pictures of the system-call and fork probes: operations per second by number of threads, with intervals.

use maud::{Markup, html};

use model::results::RunResults;
use probes::ProbeKind;
use probes::detail::{Detail, RateDetail, RatePoint};
use units::metric::Unit;

use super::super::chart::axis::{Axis, Quantity, Scale};
use super::super::chart::bars::{BarRow, Bars, Form, Item};
use super::super::chart::palette::Ink;
use super::super::chart::svg::Picture;
use super::super::figures::{details, value_text};
use super::parts::{behind, figure, plain_table};

/// Numbers of threads drawn; the table has them all.
const DRAWN: usize = 12;

struct Rates<'a> {
    ink: usize,
    label: String,
    detail: &'a RateDetail,
}

/// Middle, lowest and highest rate of the batches of a point.
struct Spread {
    middle: f64,
    low: f64,
    high: f64,
}

pub(super) fn pictures(results: &RunResults, probe: ProbeKind) -> Markup {
    let all: Vec<Rates<'_>> = details(results, probe)
        .into_iter()
        .filter_map(|(ink, label, detail)| match detail {
            Detail::Syscall(detail) | Detail::Fork(detail) => Some(Rates { ink, label, detail }),
            _ => None,
        })
        .collect();
    let legend: Vec<(Ink, String)> = all.iter().map(|rates| (Ink(rates.ink), rates.label.clone())).collect();
    html! {
        (figure("Operations per second, all threads together", "Bars are the median of the batches of one measurement; \
            the line on a bar spans the middle half of them.", &legend, &bars(&all)))
        (behind("Table: rates by number of threads", &table(&all)))
    }
}

/// Rates of the batches that lasted a time; none without any.
fn spread(point: &RatePoint) -> Option<Spread> {
    let mut rates: Vec<f64> = point
        .operations
        .iter()
        .zip(&point.elapsed_ns)
        .filter(|(_, elapsed)| elapsed.get() > 0)
        .map(|(operations, elapsed)| *operations as f64 / elapsed.as_secs_f64())
        .collect();
    rates.sort_by(f64::total_cmp);
    let at = |quarter: usize| rates.get(rates.len().saturating_sub(1) * quarter / 4).copied();
    Some(Spread { low: at(1)?, middle: at(2)?, high: at(3)? })
}

fn thread_counts(all: &[Rates<'_>]) -> Vec<u32> {
    let mut counts: Vec<u32> =
        all.iter().flat_map(|rates| rates.detail.points.iter().map(|point| point.threads)).collect();
    counts.sort_unstable();
    counts.dedup();
    counts
}

fn of(rates: &Rates<'_>, threads: u32) -> Option<Spread> {
    rates.detail.points.iter().find(|point| point.threads == threads).and_then(spread)
}

fn words(threads: u32) -> String {
    if threads == 1 { "1 thread".to_owned() } else { format!("{threads} threads") }
}

fn bars(all: &[Rates<'_>]) -> Picture {
    let rows: Vec<BarRow> = thread_counts(all)
        .into_iter()
        .take(DRAWN)
        .map(|threads| BarRow {
            title: words(threads),
            items: all
                .iter()
                .filter_map(|rates| {
                    let spread = of(rates, threads)?;
                    Some(Item {
                        ink: Ink(rates.ink),
                        value: spread.middle,
                        interval: (spread.low, spread.high),
                    })
                })
                .collect(),
        })
        .collect();
    let values = rows.iter().flat_map(|row| &row.items).flat_map(|item| [item.value, item.interval.1]);
    let per_second = Quantity::Of(Unit::PerSecond);
    let Some(axis) = Axis::enclosing(Scale::FromZero, per_second, "operations per second", values) else {
        return Picture::Nothing("no measurement yielded a rate".to_owned());
    };
    Bars { name: "Operations per second by number of threads".to_owned(), axis, rows, form: Form::Bars }
        .draw()
}

fn table(all: &[Rates<'_>]) -> Markup {
    let rows: Vec<Vec<String>> = thread_counts(all)
        .into_iter()
        .flat_map(|threads| {
            all.iter().map(move |rates| {
                let mut row = vec![words(threads), rates.label.clone()];
                match of(rates, threads) {
                    Some(spread) => row.extend(
                        [spread.middle, spread.low, spread.high]
                            .map(|rate| value_text(Unit::PerSecond, rate)),
                    ),
                    None => row.push("not measured".to_owned()),
                }
                row
            })
        })
        .collect();
    plain_table(&["Threads", "Platform", "Median", "Lower quarter", "Upper quarter"], &rows)
}
