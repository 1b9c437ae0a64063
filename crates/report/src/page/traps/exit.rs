//! The picture of the trap probe: how long the trapping instruction took, against nothing at all.

use maud::{Markup, html};

use model::results::RunResults;
use probes::ProbeKind;
use probes::detail::{Detail, ExitDetail};
use stats::summary::histogram_quantile;
use units::histogram::Bucket;

use super::super::super::chart::axis::{Axis, Scale};
use super::super::super::chart::columns::outlines;
use super::super::super::chart::palette::Ink;
use super::super::super::chart::plot::{Rule, Series};
use super::super::super::figures::details;
use super::super::super::text::printable;
use super::super::parts::{Drawing, behind, figure, line, plain_table, xs, ys};
use super::{COUNT, NS, quantile_text};

struct Traps<'a> {
    ink: usize,
    label: String,
    detail: &'a ExitDetail,
}

impl Traps<'_> {
    /// Nanoseconds per tick; infinite for a counter that stands still, which then has no place in the picture.
    fn tick_ns(&self) -> f64 {
        1e9 / self.detail.counter_hz.as_f64()
    }
}

pub(in super::super) fn pictures(results: &RunResults) -> Markup {
    let all: Vec<Traps<'_>> = details(results, ProbeKind::Exit)
        .into_iter()
        .filter_map(|(ink, label, detail)| match detail {
            // A forged or broken histogram is not drawn: its figures could be anything.
            Detail::Exit(detail)
                if detail.trap_ticks.is_well_formed() && detail.empty_ticks.is_well_formed() =>
            {
                Some(Traps { ink, label, detail })
            }
            _ => None,
        })
        .collect();
    let legend: Vec<(Ink, String)> = all.iter().map(|traps| (Ink(traps.ink), traps.label.clone())).collect();
    let name = "How many traps took how long";
    html! {
        (figure(name, "Each curve counts how often the instruction took how long; the upright dashed line is what two reads \
            of the counter take with nothing between them. What lies between the two is the cost of the trap.",
            &legend, &drawing(&all).draw(name)))
        (behind("Table: traps", &table(&all)))
    }
}

fn drawing(all: &[Traps<'_>]) -> Drawing {
    let mut series: Vec<Series> = Vec::new();
    let mut rules = Vec::new();
    let mut empties = Vec::new();
    for traps in all {
        let tick = traps.tick_ns();
        let mean = |bucket: &Bucket| (bucket.sum as f64 / bucket.count as f64 * tick, bucket.count);
        let found = outlines(traps.detail.trap_ticks.buckets().iter().map(mean));
        series.extend(found.into_iter().map(|points| line(traps.ink, points)));
        if let Some(empty) = histogram_quantile(&traps.detail.empty_ticks, 0.5) {
            rules.push(Rule::Upright(Ink(traps.ink), empty * tick));
            empties.push(empty * tick);
        }
    }
    Drawing {
        x: Axis::enclosing(Scale::Log, NS, "time (logarithmic)", xs(&series).chain(empties)),
        y: Axis::enclosing(Scale::Log, COUNT, "traps (logarithmic)", ys(&series)),
        series,
        rules,
    }
}

fn table(all: &[Traps<'_>]) -> Markup {
    let rows: Vec<Vec<String>> = all
        .iter()
        .map(|traps| {
            let at = |q: f64| quantile_text(&traps.detail.trap_ticks, q, traps.tick_ns());
            vec![
                traps.label.clone(),
                traps
                    .detail
                    .hypervisor
                    .as_ref()
                    .map_or_else(|| "none, says the processor".to_owned(), |name| printable(name, 40)),
                printable(&traps.detail.instruction, 40),
                traps.detail.trap_ticks.count().to_string(),
                quantile_text(&traps.detail.empty_ticks, 0.5, traps.tick_ns()),
                at(0.5),
                at(0.99),
                at(1.0),
            ]
        })
        .collect();
    let head = [
        "Platform",
        "Hypervisor",
        "Instruction",
        "Traps",
        "Nothing, median",
        "Median",
        "99 of 100 below",
        "Longest",
    ];
    plain_table(&head, &rows)
}
