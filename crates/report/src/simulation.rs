//! What was simulated, on a terminal: the cases with their main figures, the published figures beside the simulated ones,
//! and what was assumed. The page shares its words.

use std::fmt::Write as _;

use super::figures::{ratio_number, value_text};
use super::terminal::{Style, heading};
use super::text::{Paint, TextCell, TextTable, paragraph, printable, width};
use model::scenario::FigureLabel;
use model::simulation::{PhaseOutcome, PublishedOutcome, SimulatedFigure, Simulation, as_set_options};
use stats::summary::mean_with_half_width;
use units::metric::Unit;

pub(super) mod calibrated;
mod cases;
pub mod compare;
pub(super) mod deadlines;
pub(super) mod parameters;

pub use cases::Choice;

/// Cases that are shown; the others are counted.
const CASES_MOST: usize = 40;
/// Published figures that are shown.
const PUBLISHED_MOST: usize = 200;
/// Longest label that is shown whole.
const LABEL_MOST: usize = 80;
/// Longest sentence that is shown whole.
const SENTENCE_MOST: usize = 600;
/// Confidence of intervals.
const CONFIDENCE: f64 = 0.95;
/// Intervals narrower than this part of a value are not worth showing.
const NARROW: f64 = 5e-4;

/// Everything that is chosen.
pub fn text(simulation: &Simulation, choice: Choice<'_>, style: Style) -> String {
    let mut out = String::new();
    let extent = extent(simulation);
    let room =
        style.columns().saturating_sub(width("Bulkhead · scenario  · ") + width(&extent)).clamp(20, 60);
    let first = format!("Bulkhead · scenario {} · {extent}", printable(&simulation.scenario, room));
    let _ = writeln!(out, "{}", Paint::Bold.on(&first, style.colour));
    if !simulation.about.is_empty() {
        out.push_str(&paragraph("  ", &printable(&simulation.about, SENTENCE_MOST), style.columns()));
    }
    if let Some(words) = unfinished_words(simulation) {
        let text = paragraph("! INTERRUPTED: ", &words, style.columns());
        for line in text.lines() {
            let _ = writeln!(out, "{}", Paint::Yellow.on(line, style.colour));
        }
    }
    calibrated::notes(&mut out, simulation, style);
    deadlines(&mut out, simulation, choice, style);
    cases::listing(&mut out, simulation, choice, style);
    troubles(&mut out, simulation, style);
    notes(&mut out, simulation, style);
    published(&mut out, simulation, style);
    parameters::listing(&mut out, simulation, style);
    out
}

/// Scenarios with what they show.
pub fn list(scenarios: &[(String, String)], style: Style) -> String {
    let longest = scenarios.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let line =
        |(name, about): &(String, String)| paragraph(&format!("{name:longest$}  "), about, style.columns());
    scenarios.iter().map(line).collect()
}

/// `9 cases, 5 replications each, seed 1`; what was simulated once, and why.
pub(super) fn extent(simulation: &Simulation) -> String {
    let plural = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let (all, once) = (simulation.cases.len(), simulation.once.len());
    let cases = plural(all, "case");
    if once > 0 && once >= all {
        let (each, them) = if all == 1 { ("", "it") } else { (" each", "them") };
        return format!("{cases}, once{each}: nothing in {them} is random");
    }
    let once = if once > 0 { format!(" ({once} once: nothing in them is random)") } else { String::new() };
    let replications = plural(simulation.replications as usize, "replication");
    format!("{cases}, {replications} each{once}, seed {}", simulation.seed)
}

/// How far an interrupted simulation came.
pub(super) fn unfinished_words(simulation: &Simulation) -> Option<String> {
    let unfinished = simulation.unfinished?;
    Some(format!(
        "{} of {} simulations were done; all figures are of those, and nothing is known of the others",
        unfinished.done, unfinished.of
    ))
}

/// `A.wall_ns` of `vm.A.wall_ns`.
pub(super) fn short(id: &str) -> String {
    printable(id.strip_prefix("vm.").unwrap_or(id), LABEL_MOST)
}

/// `111 ms ±0.4 %`.
fn with_interval(unit: Unit, mean: f64, half: Option<f64>) -> String {
    let relative = half.map_or(0.0, |half| (half / mean).abs());
    let interval = if mean != 0.0 && relative >= NARROW {
        format!(" ±{} %", ratio_number(relative * 100.0))
    } else {
        String::new()
    };
    format!("{}{interval}", value_text(unit, mean))
}

/// Mean over the replications with its interval; why there is none otherwise.
pub(super) fn figure_text(figure: Option<&SimulatedFigure>) -> String {
    let Some(figure) = figure else { return "–".to_owned() };
    let values: Vec<f64> = figure.values.iter().map(|(_, value)| *value).collect();
    mean_with_half_width(&values, CONFIDENCE)
        .map_or_else(|| "–".to_owned(), |(mean, half)| with_interval(figure.unit, mean, half))
}

/// How real-time tasks kept their deadlines.
fn deadlines(out: &mut String, simulation: &Simulation, choice: Choice<'_>, style: Style) {
    let Some((table, more)) = deadlines::table(simulation, choice.at_most(CASES_MOST), style.columns())
    else {
        return;
    };
    heading(out, "Deadlines: times from the arrival of a job to its end", style);
    out.push_str(&table.render(style.columns(), style.colour));
    if more > 0 {
        let _ = writeln!(out, "  and {more} more tasks, which did better: --full");
    }
    let words =
        format!("worst and late by: of all replications; the others: means over them. {}", deadlines::BOUNDS);
    out.push_str(&paragraph("  ", &words, style.columns()));
    phases(out, simulation, style);
}

/// The worst phases that were searched.
fn phases(out: &mut String, simulation: &Simulation, style: Style) {
    let Some(first) = simulation.phases.first() else { return };
    heading(out, &format!("Worst phases found in {} alignments of a case", first.tried), style);
    out.push_str(&deadlines::phase_table(simulation, CASES_MOST).render(style.columns(), style.colour));
    let worst = |phase: &&PhaseOutcome| (phase.missed_share_max, phase.response_max_ns.as_f64());
    let key = |a: &&PhaseOutcome, b: &&PhaseOutcome| {
        let ((a, long), (b, other)) = (worst(a), worst(b));
        a.total_cmp(&b).then(long.total_cmp(&other))
    };
    if let Some(phase) = simulation.phases.iter().max_by(key) {
        let words = format!("{} again: {}", short(&phase.task), as_set_options(&phase.offsets_us));
        out.push_str(&paragraph("  ", &printable(&words, SENTENCE_MOST), style.columns()));
    }
    out.push_str("  A search is no bound: a phase that is worse may not have been tried.\n");
}

fn troubles(out: &mut String, simulation: &Simulation, style: Style) {
    for case in simulation.cases.iter().filter(|case| !case.troubles.is_empty()).take(CASES_MOST) {
        for trouble in &case.troubles {
            let words = format!("{}: {trouble}", case.label);
            let text = paragraph("! TROUBLE: ", &printable(&words, SENTENCE_MOST), style.columns());
            for line in text.lines() {
                let _ = writeln!(out, "{}", Paint::Red.on(line, style.colour));
            }
        }
    }
}

fn notes(out: &mut String, simulation: &Simulation, style: Style) {
    for case in simulation.cases.iter().filter(|case| !case.notes.is_empty()).take(CASES_MOST) {
        for note in &case.notes {
            let words = printable(&format!("{}: {note}", case.label), SENTENCE_MOST);
            out.push_str(&paragraph("  note: ", &words, style.columns()));
        }
    }
}

/// Whether a figure holds, in a word.
pub(super) const fn holds_word(figure: &PublishedOutcome) -> &'static str {
    match figure.holds {
        None if figure.undecided => "not decided",
        None => "",
        Some(true) => "yes",
        Some(false) => "NO",
    }
}

/// The published value, as the simulated one is written.
pub(super) fn published_text(figure: &PublishedOutcome) -> String {
    value_text(figure.unit, figure.published)
}

/// The simulated value with its interval.
pub(super) fn simulated_text(figure: &PublishedOutcome) -> String {
    let mean = figure.simulated.filter(|mean| mean.is_finite());
    mean.map_or_else(|| "not yielded".to_owned(), |mean| with_interval(figure.unit, mean, figure.half_width))
}

fn published(out: &mut String, simulation: &Simulation, style: Style) {
    if simulation.published.is_empty() {
        return;
    }
    let known = if simulation.calibrated { "Measured" } else { "Published" };
    heading(out, &format!("{known} figures beside the simulated ones"), style);
    if calibrated::has_predictions(simulation) {
        out.push_str(&calibrated::table(simulation, style.columns()).render(style.columns(), style.colour));
        let words = "measured: mean over the rounds; predicted: with what the model does not know; both of 95 %. A prediction \
                     holds when what was measured lies in it, and is not decided when only a part of its interval does.";
        out.push_str(&paragraph("  ", words, style.columns()));
        out.push_str(&paragraph("  ", &tally(simulation), style.columns()));
        return;
    }
    let mut table = TextTable::default();
    let head = ["", &known.to_lowercase(), "simulated", "demanded", "label", "holds"];
    table.rows.push(head.map(|text| TextCell { text: text.to_owned(), paint: Paint::Bold }).to_vec());
    let mut sources: Vec<&str> = Vec::new();
    let mut last = ("", "");
    for figure in simulation.published.iter().take(PUBLISHED_MOST) {
        let source = sources.iter().position(|known| *known == figure.source).unwrap_or_else(|| {
            sources.push(&figure.source);
            sources.len() - 1
        });
        let title = format!("{} [{}]", printable(&figure.title, SENTENCE_MOST), source + 1);
        let cells = [published_text(figure), simulated_text(figure), printable(&figure.demanded, LABEL_MOST)];
        let paint = match figure.holds {
            None => Paint::None,
            // What was fitted or set proves nothing.
            Some(true) if figure.label != FigureLabel::Predicted => Paint::None,
            Some(true) => Paint::Green,
            Some(false) => Paint::Red,
        };
        let mut cells: Vec<TextCell> = cells.into_iter().map(TextCell::plain).collect();
        cells.push(TextCell::plain(figure.label.word().to_owned()));
        cells.push(TextCell { text: holds_word(figure).to_owned(), paint });
        if simulation.cases.len() > 1 {
            if last != (figure.title.as_str(), figure.source.as_str()) {
                table.rows.push(vec![TextCell { text: title, paint: Paint::Bold }]);
            }
            last = (&figure.title, &figure.source);
            cells.insert(0, TextCell::plain(format!("  {}", printable(&figure.case, LABEL_MOST))));
        } else {
            cells.insert(0, TextCell::plain(title));
        }
        table.rows.push(cells);
    }
    out.push_str(&table.render(style.columns(), style.colour));
    for (number, source) in sources.iter().enumerate() {
        let source = printable(source, SENTENCE_MOST);
        out.push_str(&paragraph(&format!("  [{}] ", number + 1), &source, style.columns()));
    }
    let _ = writeln!(out, "  {}", tally(simulation));
}

/// `2 of 3 predictions hold, 1 not decided; also 1 of 1 fitted, 1 of 1 set, 0 of 1 bound; one figure is only shown`.
pub(super) fn tally(simulation: &Simulation) -> String {
    let count = |is: &dyn Fn(&PublishedOutcome) -> bool| {
        simulation.published.iter().filter(|figure| figure.demand.is_some() && is(figure)).count()
    };
    let of = |label: FigureLabel| {
        let all = count(&|figure| figure.label == label);
        let hold = count(&|figure| figure.label == label && figure.holds == Some(true));
        let open = match count(&|figure| figure.label == label && figure.undecided) {
            0 => String::new(),
            open => format!(", {open} not decided"),
        };
        (all, hold, open)
    };
    let (all, hold, open) = of(FigureLabel::Predicted);
    let known = if simulation.calibrated { "predictions of what was measured" } else { "predictions" };
    let mut text =
        if all == 0 { format!("no {known}") } else { format!("{hold} of {all} {known} hold{open}") };
    let others: Vec<String> = FigureLabel::ALL
        .into_iter()
        .filter(|label| *label != FigureLabel::Predicted)
        .map(|label| (label, of(label)))
        .filter(|(_, (all, ..))| *all > 0)
        .map(|(label, (all, hold, open))| format!("{hold} of {all} {}{open}", label.word()))
        .collect();
    if !others.is_empty() {
        let _ = write!(text, "; of those that prove nothing come out {}", others.join(", "));
    }
    match simulation.published.iter().filter(|figure| figure.demand.is_none()).count() {
        0 => {}
        1 => text.push_str("; one figure is only shown"),
        shown => {
            let _ = write!(text, "; {shown} figures are only shown");
        }
    }
    text.push_str(&calibrated::width_words(simulation));
    if simulation.replications < 2
        && !simulation.calibrated
        && simulation.published.iter().any(|one| one.undecided)
    {
        text.push_str("; one replication has no interval: replications = 2 or more decides");
    }
    text
}
