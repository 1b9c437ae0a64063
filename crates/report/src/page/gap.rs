//! Pictures of the gap probe: how long and how often (histogram), how much time (influence), when (worst gaps).

use maud::{Markup, html};

use model::results::RunResults;
use probes::ProbeKind;
use probes::detail::{Detail, GapDetail};
use stats::influence;
use units::histogram::{Bucket, Histogram};
use units::metric::Unit;
use units::{Hertz, Ticks, three_digits};

use super::super::chart::axis::{Axis, Quantity, Scale};
use super::super::chart::columns;
use super::super::chart::palette::Ink;
use super::super::chart::plot::{Rule, Series, Stroke};
use super::super::figures::details;
use super::parts::{Drawing, behind, capped, figure, line, plain_table, xs, ys};

const NS: Quantity = Quantity::Of(Unit::Nanoseconds);
/// The bounds that the table lists.
const BOUNDS: [f64; 6] = [0.90, 0.95, 0.99, 0.999, 0.9999, 0.99999];
/// Worst gaps listed per platform; the picture has them all.
const WORST_LISTED: usize = 5;

struct Gaps<'a> {
    ink: usize,
    label: String,
    detail: &'a GapDetail,
    pooled: Histogram,
}

fn all(results: &RunResults) -> Vec<Gaps<'_>> {
    details(results, ProbeKind::Gap)
        .into_iter()
        .filter_map(|(ink, label, detail)| match detail {
            // A forged or broken histogram is not drawn: its figures could be anything.
            Detail::Gap(detail) if detail.batches.iter().all(Histogram::is_well_formed) => {
                Some(Gaps { ink, label, detail, pooled: Histogram::merge_all(&detail.batches) })
            }
            _ => None,
        })
        .collect()
}

fn ns(ticks: Ticks, rate: Hertz) -> f64 {
    if rate.get() == 0 { f64::NAN } else { ticks.as_f64() * 1e9 / rate.as_f64() }
}

pub(super) fn pictures(results: &RunResults) -> Markup {
    let all = all(results);
    html! {
        (histogram(&all))
        (influence_curve(&all))
        (worst(&all))
    }
}

fn legend(all: &[Gaps<'_>]) -> Vec<(Ink, String)> {
    all.iter().map(|gaps| (Ink(gaps.ink), gaps.label.clone())).collect()
}

fn histogram(all: &[Gaps<'_>]) -> Markup {
    let series: Vec<Series> = all.iter().flat_map(outlines).collect();
    let drawing = Drawing {
        x: Axis::enclosing(Scale::Log, NS, "length of the gap", xs(&series)),
        y: Axis::enclosing(Scale::Log, Quantity::Of(Unit::Count), "gaps", ys(&series)),
        series,
        rules: Vec::new(),
    };
    let name = "Histogram of gaps: how many there were of each length";
    html! {
        (figure("How many gaps of which length", "Both axes are logarithmic. The high peak at the left is the loop itself; \
            every bump to the right of it is an interruption, and its place says how long it lasts.",
            &legend(all), &drawing.draw(name)))
        (behind("Table: gaps by powers of ten", &decades(all)))
    }
}

/// The outlines of a histogram in columns of equal width on a logarithmic axis, one per stretch of filled columns.
fn outlines(gaps: &Gaps<'_>) -> Vec<Series> {
    let middle = |bucket: &Bucket| {
        (ns(Ticks::from_ticks(bucket.sum / bucket.count.max(1)), gaps.detail.counter_hz), bucket.count)
    };
    let outlines = columns::outlines(gaps.pooled.buckets().iter().map(middle));
    outlines.into_iter().map(|points| line(gaps.ink, points)).collect()
}

fn decades(all: &[Gaps<'_>]) -> Markup {
    let mut rows = Vec::new();
    for gaps in all {
        for decade in influence::decades(&gaps.pooled) {
            let rate = gaps.detail.counter_hz;
            rows.push(vec![
                gaps.label.clone(),
                format!("{} … {}", decade.from_ticks.get(), decade.to_ticks.get()),
                format!(
                    "{} … {}",
                    Unit::Nanoseconds.format(ns(decade.from_ticks, rate)),
                    Unit::Nanoseconds.format(ns(decade.to_ticks, rate))
                ),
                decade.count.to_string(),
                format!("{:.0e}", decade.importance),
                share(decade.influence),
            ]);
        }
    }
    plain_table(&["Platform", "Ticks", "Length", "Gaps", "Importance", "Influence"], &rows)
}

fn share(share: f64) -> String {
    let percent = share * 100.0;
    if percent > 0.0 && percent < 0.001 {
        format!("{percent:.1e} %")
    } else {
        format!("{} %", three_digits(percent))
    }
}

fn influence_curve(all: &[Gaps<'_>]) -> Markup {
    let mut series = Vec::new();
    let mut rules = vec![Rule::Level(0.05, "5 % of the time".to_owned())];
    for gaps in all {
        let rate = gaps.detail.counter_hz;
        let points = influence::curve(&gaps.pooled);
        let points =
            points.iter().map(|point| (ns(point.longer_than_ticks, rate), point.influence)).collect();
        series.push(line(gaps.ink, points));
        if let Some(bound) = influence::bound(&gaps.pooled, 0.95) {
            rules.push(Rule::Upright(Ink(gaps.ink), ns(bound, rate)));
        }
    }
    let drawing = Drawing {
        x: Axis::enclosing(Scale::Log, NS, "length", xs(&series)),
        y: Axis::enclosing(
            Scale::Log,
            Quantity::Of(Unit::Share),
            "time in longer gaps",
            ys(&series).chain([1.0]),
        ),
        series,
        rules,
    };
    let name =
        "Influence: share of the time spent in gaps longer than a length, with bound_95 of each platform";
    html! {
        (figure("How much time goes into gaps longer than …", "Read it from the left: at a length t the curve says which \
            share of all time was spent in gaps longer than t. Where it falls below 5 % lies bound_95, the upright dashed \
            line. A curve that reaches far to the right means rare but long interruptions.",
            &legend(all), &drawing.draw(name)))
        (behind("Table: bounds", &bounds(all)))
    }
}

fn bounds(all: &[Gaps<'_>]) -> Markup {
    let names: Vec<String> = BOUNDS
        .iter()
        .map(|p| format!("bound_{}", format!("{:.3}", p * 100.0).trim_end_matches(['0', '.'])))
        .collect();
    let names: Vec<String> =
        names.into_iter().map(|name| if name == "bound_9" { "bound_90".to_owned() } else { name }).collect();
    let head: Vec<&str> = std::iter::once("Platform").chain(names.iter().map(String::as_str)).collect();
    let rows: Vec<Vec<String>> = all
        .iter()
        .map(|gaps| {
            let bound = |p: &f64| {
                influence::bound(&gaps.pooled, *p).map_or_else(
                    || "n/a: nothing recorded".to_owned(),
                    |ticks| Unit::Nanoseconds.format(ns(ticks, gaps.detail.counter_hz)),
                )
            };
            std::iter::once(gaps.label.clone()).chain(BOUNDS.iter().map(bound)).collect()
        })
        .collect();
    plain_table(&head, &rows)
}

fn worst(all: &[Gaps<'_>]) -> Markup {
    let series: Vec<Series> = all
        .iter()
        .map(|gaps| Series {
            ink: Ink(gaps.ink),
            stroke: Stroke::Stems,
            points: gaps
                .detail
                .worst
                .iter()
                .map(|gap| (gap.start_ns.as_f64(), gap.length_ns.as_f64()))
                .collect(),
        })
        .collect();
    let drawing = Drawing {
        x: Axis::enclosing(Scale::FromZero, NS, "time since the start of the probe", xs(&series)),
        y: Axis::enclosing(Scale::Log, NS, "length of the gap", ys(&series)),
        series,
        rules: Vec::new(),
    };
    let all_worst: usize = all.iter().map(|gaps| gaps.detail.worst.len()).sum();
    let rows: Vec<Vec<String>> = all.iter().flat_map(worst_rows).collect();
    let name = "Time line of the longest gaps";
    html! {
        (figure("When the longest gaps came", "The longest gaps of each platform at their time. Even distances \
            point to a timer, clusters to a neighbour.", &legend(all), &drawing.draw(name)))
        @let table = html! {
            (plain_table(&["Platform", "Length", "Began after"], &rows))
            (capped(rows.len(), all_worst))
        };
        (behind("Table: longest gaps", &table))
    }
}

fn worst_rows(gaps: &Gaps<'_>) -> Vec<Vec<String>> {
    gaps.detail
        .worst
        .iter()
        .take(WORST_LISTED)
        .map(|gap| vec![gaps.label.clone(), gap.length_ns.to_string(), gap.start_ns.to_string()])
        .collect()
}
