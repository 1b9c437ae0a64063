//! Pictures of the page probe: first touches of the first pass and of the later ones, on the same axes.

use maud::{Markup, html};

use model::results::RunResults;
use probes::ProbeKind;
use probes::detail::{Detail, PagesDetail, PagesPass};
use units::histogram::{Bucket, Histogram};
use units::three_digits;

use super::super::super::chart::axis::{Axis, Scale};
use super::super::super::chart::columns::outlines;
use super::super::super::chart::palette::Ink;
use super::super::super::chart::plot::Series;
use super::super::super::figures::details;
use super::super::host_memory;
use super::super::parts::{Drawing, behind, figure, line, plain_table, xs, ys};
use super::{COUNT, NS, quantile_text};

/// Passes listed per platform.
const PASSES_LISTED: usize = 8;
/// Nodes listed per pass.
const NODES_LISTED: usize = 8;

struct Touched<'a> {
    ink: usize,
    label: String,
    detail: &'a PagesDetail,
    first: Histogram,
    warm: Histogram,
}

pub(in super::super) fn pictures(results: &RunResults) -> Markup {
    let all: Vec<Touched<'_>> = details(results, ProbeKind::Pages)
        .into_iter()
        .filter_map(|(ink, label, detail)| match detail {
            // A forged or broken histogram is not drawn: its figures could be anything.
            Detail::Pages(detail) if detail.passes.iter().all(|pass| pass.touch_ns.is_well_formed()) => {
                Some(touched(ink, label, detail))
            }
            _ => None,
        })
        .collect();
    let legend: Vec<(Ink, String)> = all.iter().map(|one| (Ink(one.ink), one.label.clone())).collect();
    let first: Vec<Series> = all.iter().flat_map(|one| curves(one.ink, &one.first)).collect();
    let warm: Vec<Series> = all.iter().flat_map(|one| curves(one.ink, &one.warm)).collect();
    // The same axes, so that both can be held against each other.
    let x =
        Axis::enclosing(Scale::Log, NS, "time of a first touch (logarithmic)", xs(&first).chain(xs(&warm)));
    let y = Axis::enclosing(Scale::Log, COUNT, "pages (logarithmic)", ys(&first).chain(ys(&warm)));
    let draw = |series: Vec<Series>, name: &str| {
        Drawing { x: x.clone(), y: y.clone(), series, rules: Vec::new() }.draw(name)
    };
    let (first_name, warm_name) =
        ("First touch of each page, first pass", "First touch of each page, later passes");
    html! {
        (figure(first_name, "How many pages took how long. In an instance that has just been started the hypervisor must find \
            most of the pages; the table says which instances were fresh.", &legend, &draw(first, first_name)))
        (figure(warm_name, "The same memory given back and taken again: the instance's own kernel has the pages now.",
            &legend, &draw(warm, warm_name)))
        (behind("Table: passes", &table(&all)))
        (host_memory::table(results, ProbeKind::Pages))
    }
}

fn touched(ink: usize, label: String, detail: &PagesDetail) -> Touched<'_> {
    let first = detail.passes.first().map(|pass| pass.touch_ns.clone()).unwrap_or_default();
    let later = detail.passes.get(1..).unwrap_or_default();
    let warm = Histogram::merge_all(later.iter().map(|pass| &pass.touch_ns));
    Touched { ink, label, detail, first, warm }
}

fn curves(ink: usize, histogram: &Histogram) -> Vec<Series> {
    let mean = |bucket: &Bucket| (bucket.sum as f64 / bucket.count as f64, bucket.count);
    outlines(histogram.buckets().iter().map(mean)).into_iter().map(|points| line(ink, points)).collect()
}

fn table(all: &[Touched<'_>]) -> Markup {
    let passes: usize = all.iter().map(|one| one.detail.passes.len()).sum();
    let listed = |one: &Touched<'_>| {
        let passes = one.detail.passes.iter().enumerate().take(PASSES_LISTED);
        passes.map(|(number, pass)| row(one, number, pass)).collect::<Vec<_>>()
    };
    let rows: Vec<Vec<String>> = all.iter().flat_map(listed).collect();
    let head = [
        "Platform",
        "Pass",
        "Pages",
        "Median",
        "99 of 100 below",
        "Longest",
        "Took",
        "Page faults",
        "Memory nodes",
    ];
    html! {
        (plain_table(&head, &rows))
        @if rows.len() < passes { p.soft.small { "The first " (PASSES_LISTED) " passes of each platform are listed." } }
    }
}

fn row(one: &Touched<'_>, number: usize, pass: &PagesPass) -> Vec<String> {
    let at = |q: f64| quantile_text(&pass.touch_ns, q, 1.0);
    let which = match (number, one.detail.fresh) {
        (0, true) => "first, cold".to_owned(),
        (0, false) => "first, not cold".to_owned(),
        (number, _) => format!("{}, warm", number + 1),
    };
    vec![
        one.label.clone(),
        which,
        pass.touch_ns.count().to_string(),
        at(0.5),
        at(0.99),
        at(1.0),
        pass.elapsed_ns.to_string(),
        pass.minor_faults.to_string(),
        nodes(one.detail, pass),
    ]
}

/// `0: 98 % (own), 1: 2 %`
fn nodes(detail: &PagesDetail, pass: &PagesPass) -> String {
    let all: f64 = pass.nodes.iter().map(|(_, pages)| *pages as f64).sum();
    if all <= 0.0 {
        return "not said".to_owned();
    }
    let words = |(node, pages): &(u32, u64)| {
        let own = if Some(*node) == detail.own_node { " (own)" } else { "" };
        format!("{node}: {} %{own}", three_digits(*pages as f64 / all * 100.0))
    };
    pass.nodes.iter().take(NODES_LISTED).map(words).collect::<Vec<_>>().join(", ")
}
