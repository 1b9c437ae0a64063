//! What was simulated: published figures beside the simulated ones, curves over what was swept, waiting times of locks,
//! who ran where, and what was assumed.

use maud::{Markup, html};

use crate::model::metric::Unit;
use crate::model::results::RunResults;
use crate::model::simulation::{
    AssumptionOutcome, CaseOutcome, PublishedOutcome, Simulation, StretchMode, TimeLine, TimeStretch,
    WaitTimes,
};

use super::super::chart::axis::{Axis, Quantity, Scale};
use super::super::chart::lanes::{Block, Lane, Lanes};
use super::super::chart::palette::Ink;
use super::super::chart::plot::{Series, Stroke};
use super::super::chart::svg::Picture;
use super::super::figures::value_text;
use super::super::simulation::{
    extent, figure_text, holds_word, parameters, published_text, short, simulated_text, tally, title,
};
use super::super::utc::format_utc;
use super::document::Section;
use super::parts::{Drawing, behind, bounded, figure, line, plain_table, scrolling, xs, ys};

/// Cases whose time lines or waiting times are drawn; the files have all.
const DRAWN: usize = 6;
/// CPUs whose time lines are drawn, as many as a picture of lanes has.
const LANES: usize = 8;
/// Stretches of a CPU that a picture shows.
const STRETCHES: usize = 120;
/// Curves in one picture.
const CURVES: usize = 12;
/// Rows of a table.
const ROWS_MOST: usize = 500;

/// Title and one line of facts.
pub(super) fn header(results: &RunResults, simulation: &Simulation) -> Markup {
    html! {
        header {
            div {
                h1 { "What would happen: " (simulation.scenario) }
                p.soft { "Simulated " (format_utc(results.started_unix_ns)) " · " (extent(simulation)) }
            }
            button #theme type="button" hidden { "Light / dark" }
        }
    }
}

/// All sections.
pub(super) fn sections(simulation: &Simulation) -> Vec<Section> {
    let section =
        |id: &'static str, title: &str, body: Option<Markup>| Section { id, title: title.to_owned(), body };
    vec![
        section("summary", "Summary", Some(summary(simulation))),
        section("cases", "The cases", Some(cases(simulation))),
        section("curves", "Curves", curves(simulation)),
        section("waits", "How long locks were waited for", waits(simulation)),
        section("lines", "Who ran where", lines(simulation)),
        section("assumptions", "Parameters", assumptions(simulation)),
    ]
}

fn summary(simulation: &Simulation) -> Markup {
    let troubled: Vec<&CaseOutcome> =
        simulation.cases.iter().filter(|case| !case.troubles.is_empty()).collect();
    html! {
        @if !troubled.is_empty() {
            div.banner.heavy role="note" {
                strong { "Trouble." } " These simulations did not end as they should; their figures say nothing."
                ul { @for case in troubled { @for trouble in &case.troubles { li { (bounded(&case.label)) ": " (bounded(trouble)) } } } }
            }
        }
        p { (bounded(&simulation.about)) }
        @if simulation.published.is_empty() {
            p { "The scenario names no published figures." }
        } @else {
            p { strong { (tally(simulation)) } "." }
            @let known = if simulation.calibrated { "Measured" } else { "Published" };
            (scrolling(&format!("{known} figures beside the simulated ones"), &published(&simulation.published, known)))
        }
    }
}

fn published(figures: &[PublishedOutcome], known: &str) -> Markup {
    html! {
        table {
            thead {
                tr {
                    th scope="col" { "Figure" }
                    th.text scope="col" { "Case" }
                    @for head in [known, "Simulated", "Demanded", "Holds"] { th scope="col" { (head) } }
                    th.text scope="col" { "Source" }
                }
            }
            tbody {
                @for figure in figures.iter().take(ROWS_MOST) {
                    tr {
                        th scope="row" { (title(figure)) }
                        td.text { (bounded(&figure.case)) }
                        td { (published_text(figure)) }
                        td { (simulated_text(figure)) }
                        td { (bounded(&figure.demanded)) }
                        td.(match figure.holds { Some(true) => "better", Some(false) => "worse", None => "soft" }) { (holds_word(figure.holds)) }
                        td.text { (bounded(&figure.source)) }
                    }
                }
            }
        }
    }
}

fn cases(simulation: &Simulation) -> Markup {
    let main = simulation.main_figures();
    let row = |case: &CaseOutcome, ids: &[&str]| -> Vec<String> {
        std::iter::once(bounded(&case.label))
            .chain(ids.iter().map(|id| figure_text(case.figure(id))))
            .collect()
    };
    let shorts: Vec<String> = main.iter().map(|id| short(id)).collect();
    let head: Vec<&str> = std::iter::once("Case").chain(shorts.iter().map(String::as_str)).collect();
    let rows: Vec<Vec<String>> =
        simulation.cases.iter().take(ROWS_MOST).map(|case| row(case, &main)).collect();
    let mut all: Vec<Vec<String>> = Vec::new();
    for case in simulation.cases.iter().take(ROWS_MOST) {
        let of_case = case.figures.iter().map(|figure| {
            vec![bounded(&case.label), bounded(&figure.title), figure_text(Some(figure)), bounded(&figure.id)]
        });
        all.extend(of_case.take(ROWS_MOST.saturating_sub(all.len())));
    }
    html! {
        p { "Means over the replications, with half the width of the 95 % interval where they differ." }
        (scrolling("Main figures of the cases", &plain_table(&head, &rows)))
        dl.facts {
            @for id in &main {
                dt { (short(id)) }
                dd { (simulation.cases.iter().find_map(|case| case.figure(id)).map(|figure| bounded(&figure.title)).unwrap_or_default()) }
            }
        }
        (behind("All figures", &plain_table(&["Case", "Figure", "Mean", "Id"], &all)))
    }
}

/// A number that a case was given.
fn number(case: &CaseOutcome, path: &str) -> Option<f64> {
    case.settings.get(path)?.parse().ok().filter(|number: &f64| number.is_finite())
}

/// The numeric setting with the most different values, if there are three.
fn swept(simulation: &Simulation) -> Option<(&str, usize)> {
    let paths = simulation.cases.first()?.settings.keys();
    let values = |path: &&String| {
        let mut values: Vec<f64> = simulation.cases.iter().filter_map(|case| number(case, path)).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        values.len()
    };
    let most = paths.map(|path| (path.as_str(), values(&path))).max_by_key(|(_, count)| *count)?;
    (most.1 >= 3).then_some(most)
}

/// A picture per main figure: its value over the swept setting, a line for each combination of the others.
fn curves(simulation: &Simulation) -> Option<Markup> {
    let (path, _) = swept(simulation)?;
    let main = simulation.main_figures();
    Some(html! { @for id in main.iter().take(4) { (curve(simulation, path, id)) } })
}

/// A case's label without what it says of one setting.
fn without(label: &str, path: &str, value: &str) -> String {
    let part = format!("{} {value}", path.rsplit('.').next().unwrap_or(path));
    label.split(", ").filter(|other| *other != part).collect::<Vec<_>>().join(", ")
}

fn curve(simulation: &Simulation, path: &str, id: &str) -> Markup {
    let mut lines: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
    let mut unit = Unit::Count;
    for case in &simulation.cases {
        let (Some(x), Some(found)) = (number(case, path), case.figure(id)) else { continue };
        let label = without(&case.label, path, case.settings.get(path).map_or("", String::as_str));
        let values: Vec<f64> = found.values.iter().map(|(_, value)| *value).collect();
        let y = values.iter().sum::<f64>() / values.len().max(1) as f64;
        unit = found.unit;
        match lines.iter_mut().find(|(known, _)| *known == label) {
            Some((_, points)) => points.push((x, y)),
            None => lines.push((label, vec![(x, y)])),
        }
    }
    let legend: Vec<(Ink, String)> =
        lines.iter().take(CURVES).enumerate().map(|(at, (label, _))| (Ink(at), bounded(label))).collect();
    let series: Vec<Series> = lines
        .into_iter()
        .take(CURVES)
        .enumerate()
        .map(|(at, (_, points))| Series { ink: Ink(at), stroke: Stroke::MarkedLine, points })
        .collect();
    let title = simulation.cases.iter().find_map(|case| case.figure(id)).map(|found| bounded(&found.title));
    let title = title.unwrap_or_default();
    let picture = Drawing {
        x: Axis::enclosing(Scale::Linear, Quantity::Of(Unit::Count), path, xs(&series)),
        y: Axis::enclosing(Scale::FromZero, Quantity::Of(unit), &short(id), ys(&series)),
        series,
        rules: Vec::new(),
    };
    let caption = format!("Over {path}, a line for each combination of the other settings.");
    figure(&title, &caption, &legend, &picture.draw(&format!("{title} over {path}")))
}

fn waits(simulation: &Simulation) -> Option<Markup> {
    let with: Vec<&CaseOutcome> = simulation.cases.iter().filter(|case| !case.waits.is_empty()).collect();
    if with.is_empty() {
        return None;
    }
    Some(html! {
        p { "Waits that spun for a lock, by how long they took, in powers of two of cycles: how many there were, and the time they took together." }
        @for case in with.iter().take(DRAWN) {
            (figure(
                &bounded(&case.label), "Waits in each bin.", &vms(case),
                &bins(case, "waits", Unit::Count, |waits| waits.counts.iter().map(|count| *count as f64).collect())
            ))
            (figure(
                &bounded(&case.label), "Time waited in each bin.", &vms(case),
                &bins(case, "time", Unit::Nanoseconds, |waits| waits.time_ns.iter().map(|time| time.as_f64()).collect())
            ))
        }
        @if with.len() > DRAWN { p.soft.small { (DRAWN) " of " (with.len()) " cases with locks are drawn." } }
    })
}

fn vms(case: &CaseOutcome) -> Vec<(Ink, String)> {
    case.waits.iter().take(CURVES).enumerate().map(|(at, waits)| (Ink(at), bounded(&waits.vm))).collect()
}

/// Steps over log2 bins, a line for each VM.
fn bins(case: &CaseOutcome, what: &str, unit: Unit, values: impl Fn(&WaitTimes) -> Vec<f64>) -> Picture {
    let series: Vec<Series> = case
        .waits
        .iter()
        .take(CURVES)
        .enumerate()
        .map(|(at, waits)| {
            let values = values(waits);
            let last = values.iter().rposition(|value| *value > 0.0).map_or(0, |last| last + 1);
            let first = values.iter().position(|value| *value > 0.0).unwrap_or(0).saturating_sub(1);
            let steps = values.iter().enumerate().take(last + 1).skip(first);
            line(
                at,
                steps.flat_map(|(bin, value)| [(bin as f64, *value), (bin as f64 + 1.0, *value)]).collect(),
            )
        })
        .collect();
    let drawing = Drawing {
        x: Axis::enclosing(Scale::Linear, Quantity::Of(Unit::Count), "wait, log2 of cycles", xs(&series)),
        y: Axis::enclosing(Scale::FromZero, Quantity::Of(unit), what, ys(&series)),
        series,
        rules: Vec::new(),
    };
    drawing.draw(&format!("{what} of locks by log2 of cycles, {}", case.label))
}

fn lines(simulation: &Simulation) -> Option<Markup> {
    let with: Vec<(&CaseOutcome, &TimeLine)> =
        simulation.cases.iter().filter_map(|case| Some((case, case.time_line.as_ref()?))).collect();
    if with.is_empty() {
        return None;
    }
    Some(html! {
        p { "The beginning of each case's first replication. Kernel code is two thirds as high as programs, spinning one third." }
        @for (case, time_line) in with.iter().take(DRAWN) { (gantt(case, time_line)) }
        @if with.len() > DRAWN { p.soft.small { (DRAWN) " of " (with.len()) " cases are drawn." } }
    })
}

/// `A` of `A.0`.
fn vm_of(vcpu: &str) -> &str {
    vcpu.rsplit_once('.').map_or(vcpu, |(vm, _)| vm)
}

fn end_of(stretch: &TimeStretch) -> f64 {
    stretch.start_ns.as_f64() + stretch.length_ns.as_f64()
}

/// More stretches than this beside each other cannot be told apart: the picture ends where the busiest CPU has had so many.
fn shown_until(time_line: &TimeLine) -> f64 {
    let all = time_line.stretches.iter().map(end_of).fold(0.0, f64::max);
    let crowded = |cpu: u32| {
        let mut ends: Vec<f64> = time_line.stretches.iter().filter(|s| s.cpu == cpu).map(end_of).collect();
        ends.sort_by(f64::total_cmp);
        ends.get(STRETCHES).copied()
    };
    (0..time_line.cpus).filter_map(crowded).fold(all, f64::min)
}

fn gantt(case: &CaseOutcome, time_line: &TimeLine) -> Markup {
    let mut vms: Vec<&str> = Vec::new();
    for vcpu in &time_line.vcpus {
        if !vms.contains(&vm_of(vcpu)) {
            vms.push(vm_of(vcpu));
        }
    }
    let end = shown_until(time_line);
    let ink_of = |vcpu: u32| {
        let name = time_line.vcpus.get(vcpu as usize).map_or("", String::as_str);
        vms.iter().position(|vm| *vm == vm_of(name)).unwrap_or(0)
    };
    let lanes = (0..time_line.cpus).take(LANES).map(|cpu| {
        let blocks =
            time_line.stretches.iter().filter(|s| s.cpu == cpu && s.start_ns.as_f64() < end).map(|stretch| {
                Block {
                    from: stretch.start_ns.as_f64(),
                    to: end_of(stretch).min(end),
                    height: match stretch.mode {
                        StretchMode::User => 1.0,
                        StretchMode::Kernel => 0.67,
                        StretchMode::Spin => 0.33,
                        StretchMode::Switch => 0.15,
                    },
                    ink: Some(Ink(ink_of(stretch.vcpu))),
                }
            });
        Lane { caption: format!("CPU {cpu}"), top: String::new(), pale: false, blocks: blocks.collect() }
    });
    let lanes: Vec<Lane> = lanes.collect();
    let name = format!("Who ran where, {}", case.label);
    let axis =
        Axis::enclosing(Scale::FromZero, Quantity::Of(Unit::Nanoseconds), "simulated time", [0.0, end]);
    let picture = axis.map_or_else(
        || Picture::Nothing("nothing ran".to_owned()),
        |axis| Lanes { name, axis, ink: Ink(0), lanes }.draw(),
    );
    let legend: Vec<(Ink, String)> =
        vms.iter().take(CURVES).enumerate().map(|(at, vm)| (Ink(at), bounded(vm))).collect();
    let caption = format!("The first {}.", value_text(Unit::Nanoseconds, end));
    figure(&bounded(&case.label), &caption, &legend, &picture)
}

fn assumptions(simulation: &Simulation) -> Option<Markup> {
    if simulation.assumptions.is_empty() {
        return None;
    }
    let told = simulation.assumptions.iter().filter(|parameter| parameters::is_told_by_itself(parameter));
    let groups = parameters::in_groups(simulation);
    Some(html! {
        p { (parameters::heading_words(simulation)) "." }
        @for parameter in told.take(ROWS_MOST) {
            h3 { code { (parameters::assignment(parameter)) } }
            p { (parameters::reason(parameter)) }
            @let lines = parameters::sensitivity(simulation, parameter);
            @if !lines.is_empty() { ul { @for line in lines { li { (line) } } } }
            @if parameter.changes().next().is_some() {
                (behind("Every published figure", &changed(simulation, parameter)))
            }
        }
        @for (words, group) in groups {
            h3 { (words) }
            p { @for parameter in group { code { (parameters::assignment(parameter)) } " · " } }
        }
    })
}

/// What every published figure becomes when a parameter is changed.
fn changed(simulation: &Simulation, parameter: &AssumptionOutcome) -> Markup {
    let words: Vec<String> = parameter.changes().map(|(words, _)| bounded(&words)).collect();
    let head: Vec<&str> =
        ["Figure", "Case", "As it stands"].into_iter().chain(words.iter().map(String::as_str)).collect();
    let row = |(at, figure): (usize, &PublishedOutcome)| {
        let values = parameter.changes().map(|(_, values)| match values.get(at) {
            Some(Some(value)) => value_text(figure.unit, *value),
            _ => "–".to_owned(),
        });
        let first = [title(figure), bounded(&figure.case), simulated_text(figure)];
        first.into_iter().chain(values).collect()
    };
    let rows: Vec<Vec<String>> = simulation.published.iter().enumerate().take(ROWS_MOST).map(row).collect();
    plain_table(&head, &rows)
}
