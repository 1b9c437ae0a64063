//! What was simulated: published figures beside the simulated ones, curves over what was swept, waiting times of locks,
//! who ran where, and what was assumed.

use maud::{Markup, html};

use model::results::RunResults;
use model::scenario::{FigureLabel, label};
use model::simulation::{
    AssumptionOutcome, CaseOutcome, PhaseOutcome, PublishedOutcome, Simulation, WaitTimes, as_set_options,
};
use units::Nanos;
use units::metric::Unit;

use super::super::chart::axis::{Axis, Quantity, Scale};
use super::super::chart::palette::Ink;
use super::super::chart::plot::{Series, Stroke};
use super::super::chart::svg::Picture;
use super::super::figures::value_text;
use super::super::simulation::{
    calibrated, deadlines, extent, figure_text, holds_word, parameters, published_text, short,
    simulated_text, tally, unfinished_words,
};
use super::super::utc::format_utc;
use super::document::Section;
use super::parts::{Drawing, behind, bounded, figure, line, plain_table, scrolling, xs, ys};
use super::time_line;

/// Cases whose waiting times are drawn; the files have all.
const DRAWN: usize = 6;
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
                p.soft { (when(results)) (extent(simulation)) }
            }
            button #theme type="button" hidden { "Light / dark" }
        }
    }
}

/// When it was simulated, where the file says so: those of today say the same for the same seed.
fn when(results: &RunResults) -> String {
    match results.started_unix_ns {
        Nanos::ZERO => String::new(),
        at => format!("Simulated {} · ", format_utc(at)),
    }
}

/// All sections.
pub(super) fn sections(simulation: &Simulation) -> Vec<Section> {
    vec![
        Section::open("summary", "Summary", Some(summary(simulation))),
        Section::open("cases", "The cases", Some(cases(simulation))),
        Section::open("curves", "Curves", curves(simulation)),
        Section::open("waits", "How long locks were waited for", waits(simulation)),
        Section::open("lines", "Who ran where", time_line::section(simulation)),
        Section::open("assumptions", "Parameters", assumptions(simulation)),
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
        @if let Some(words) = unfinished_words(simulation) {
            div.banner.heavy role="note" { strong { "Interrupted." } " " (words) "." }
        }
        @let (dirty, left_out) = calibrated::known_of_run(simulation);
        @if !dirty.is_empty() {
            div.banner.heavy role="note" {
                strong { "Dirty run." } " Others worked on the host while it was measured: what is predicted from it is as dirty."
                ul { @for why in dirty { li { (why) } } }
            }
        }
        p { (bounded(&simulation.about)) }
        @if !left_out.is_empty() { p { "Not estimated:" } ul { @for what in left_out { li { (what) } } } }
        @if simulation.published.is_empty() {
            p { "The scenario names no published figures." }
        } @else {
            p { strong { (tally(simulation)) } "." }
            @let known = if simulation.calibrated { "Measured" } else { "Published" };
            (scrolling(&format!("{known} figures beside the simulated ones"), &published(simulation, known)))
        }
    }
}

fn published(simulation: &Simulation, known: &str) -> Markup {
    let has_predictions = calibrated::has_predictions(simulation);
    let head: Vec<&str> = if has_predictions {
        calibrated::HEAD.to_vec()
    } else {
        vec![known, "Simulated", "Demanded", "Label", "Holds"]
    };
    let cells = |figure: &PublishedOutcome| -> Vec<String> {
        if has_predictions {
            return calibrated::cells(simulation, figure).to_vec();
        }
        let demanded = bounded(&figure.demanded);
        let (label, holds) = (figure.label.word().to_owned(), holds_word(figure).to_owned());
        vec![published_text(figure), simulated_text(figure), demanded, label, holds]
    };
    html! {
        table {
            thead {
                tr {
                    th scope="col" { "Figure" }
                    th.text scope="col" { "Case" }
                    @for head in head { th scope="col" { (head) } }
                    th.text scope="col" { "Source" }
                }
            }
            tbody {
                @for figure in simulation.published.iter().take(ROWS_MOST) {
                    @let cells = cells(figure);
                    tr {
                        th scope="row" { (bounded(&figure.title)) }
                        td.text { (bounded(&figure.case)) }
                        @for cell in cells.iter().take(cells.len() - 1) { td { (cell) } }
                        @if let Some(cell) = cells.last() { td.(holds_class(figure)) { (cell) } }
                        td.text { (bounded(&figure.source)) }
                    }
                }
            }
        }
    }
}

/// What was fitted or set proves nothing, so it is not shown as a success.
const fn holds_class(figure: &PublishedOutcome) -> &'static str {
    match (figure.holds, figure.label) {
        (Some(true), FigureLabel::Predicted) => "better",
        (Some(false), _) => "worse",
        _ => "soft",
    }
}

fn phase_row(simulation: &Simulation, phase: &PhaseOutcome) -> Vec<String> {
    let first = [bounded(&phase.case), short(&phase.task)];
    let last = [phase.tried.to_string(), bounded(&as_set_options(&phase.offsets_us))];
    first.into_iter().chain(deadlines::phase_cells(simulation, phase)).chain(last).collect()
}

fn task_row(row: &deadlines::Row<'_>) -> Vec<String> {
    [bounded(row.case), short(row.task)].into_iter().chain(row.cells()).collect()
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
    let tasks = deadlines::rows(simulation);
    let tasks: Vec<Vec<String>> = tasks.iter().take(ROWS_MOST).map(task_row).collect();
    let phases: Vec<Vec<String>> =
        simulation.phases.iter().take(ROWS_MOST).map(|phase| phase_row(simulation, phase)).collect();
    html! {
        @if !tasks.is_empty() {
            p { "Times from the arrival of a job to its end. Worst and late by: of all replications; the others: means over them. "
                (deadlines::BOUNDS) }
            (scrolling("Deadlines", &plain_table(&[&["Case", "Task"][..], &deadlines::HEAD].concat(), &tasks)))
        }
        @if !simulation.phases.is_empty() {
            p { "Worst phases that a search over the offsets of the tasks found. It is no bound: a phase that is worse may not have been tried." }
            (scrolling("Worst phases", &plain_table(&[&["Case", "Task"][..], &deadlines::PHASE_HEAD, &["Alignments", "Where"]].concat(), &phases)))
        }
        p { "Means over the replications, with half the width of the 95 % interval where they differ." }
        (scrolling("Main figures of the cases", &plain_table(&head, &rows)))
        dl.facts {
            @for id in &main {
                dt { (short(id)) }
                dd { (simulation.cases.iter().find_map(|case| case.figure(id)).map(|figure| bounded(&figure.title)).unwrap_or_default()) }
            }
        }
        @for case in simulation.cases.iter().take(ROWS_MOST) {
            @for note in &case.notes { p.soft { (bounded(&case.label)) ": " (bounded(note)) } }
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

fn curve(simulation: &Simulation, path: &str, id: &str) -> Markup {
    let mut lines: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
    let mut unit = Unit::Count;
    let scale = label::nanos_per(path);
    for case in &simulation.cases {
        let (Some(x), Some(found)) = (number(case, path), case.figure(id)) else { continue };
        let label = label::without(&case.label, path, case.settings.get(path).map_or("", String::as_str));
        let values: Vec<f64> = found.values.iter().map(|(_, value)| *value).collect();
        let y = values.iter().sum::<f64>() / values.len().max(1) as f64;
        unit = found.unit;
        let x = x * scale.unwrap_or(1.0);
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
    let along = if scale.is_some() { Unit::Nanoseconds } else { Unit::Count };
    let picture = Drawing {
        x: Axis::enclosing(
            Scale::wide_or(Scale::Linear, xs(&series)),
            Quantity::Of(along),
            path,
            xs(&series),
        ),
        y: Axis::enclosing(
            Scale::wide_or(Scale::FromZero, ys(&series)),
            Quantity::Of(unit),
            &short(id),
            ys(&series),
        ),
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

/// Steps over log2 bins, a line for each VM. The heights are logarithmic: a few long waits beside millions of short ones
/// are a hump of their own. Empty bins stand at half of the least height.
fn bins(case: &CaseOutcome, what: &str, unit: Unit, values: impl Fn(&WaitTimes) -> Vec<f64>) -> Picture {
    let all: Vec<Vec<f64>> = case.waits.iter().take(CURVES).map(values).collect();
    let filled = || all.iter().flatten().copied().filter(|value| *value > 0.0);
    let floor = filled().fold(f64::INFINITY, f64::min) / 2.0;
    let steps = |values: &Vec<f64>| {
        let last = values.iter().rposition(|value| *value > 0.0).map_or(0, |last| last + 1);
        let first = values.iter().position(|value| *value > 0.0).unwrap_or(0).saturating_sub(1);
        let height = |bin: usize| values.get(bin).map_or(floor, |value| value.max(floor));
        (first..=last).flat_map(|bin| [(bin as f64, height(bin)), (bin as f64 + 1.0, height(bin))]).collect()
    };
    let series: Vec<Series> = all.iter().enumerate().map(|(at, values)| line(at, steps(values))).collect();
    let drawing = Drawing {
        x: Axis::enclosing(Scale::Linear, Quantity::Of(Unit::Count), "wait, log2 of cycles", xs(&series)),
        y: Axis::enclosing(Scale::Log, Quantity::Of(unit), what, ys(&series)),
        series,
        rules: Vec::new(),
    };
    drawing.draw(&format!("{what} of locks by log2 of cycles, {}", case.label))
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
        let first = [bounded(&figure.title), bounded(&figure.case), simulated_text(figure)];
        first.into_iter().chain(values).collect()
    };
    let rows: Vec<Vec<String>> = simulation.published.iter().enumerate().take(ROWS_MOST).map(row).collect();
    plain_table(&head, &rows)
}
