//! What was simulated, on a terminal: the cases with their main figures, the published figures beside the simulated ones,
//! and what was assumed. The page shares its words.

use std::fmt::Write as _;

use super::figures::{ratio_number, value_text};
use super::terminal::{Style, heading, tables_that_fit};
use super::text::{Paint, TextCell, TextTable, paragraph, printable};
use model::scenario::FigureLabel;
use model::simulation::{
    CaseOutcome, PhaseOutcome, PublishedOutcome, SimulatedFigure, Simulation, as_set_options,
};
use stats::summary::mean_with_half_width;
use units::metric::Unit;

pub(super) mod calibrated;
pub mod compare;
pub(super) mod deadlines;
pub(super) mod parameters;

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

/// Everything; of its figures the main ones, or those that one of these patterns fits.
pub fn text(simulation: &Simulation, patterns: &[String], style: Style) -> String {
    let mut out = String::new();
    let first =
        format!("Bulkhead · scenario {} · {}", printable(&simulation.scenario, 60), extent(simulation));
    let _ = writeln!(out, "{}", Paint::Bold.on(&first, style.colour));
    if !simulation.about.is_empty() {
        out.push_str(&paragraph("  ", &printable(&simulation.about, SENTENCE_MOST), style.columns()));
    }
    calibrated::notes(&mut out, simulation, style);
    deadlines(&mut out, simulation, style);
    cases(&mut out, simulation, patterns, style);
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

/// `9 cases, 5 replications each, seed 1`.
pub(super) fn extent(simulation: &Simulation) -> String {
    let plural = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    format!(
        "{}, {} each, seed {}",
        plural(simulation.cases.len(), "case"),
        plural(simulation.replications as usize, "replication"),
        simulation.seed
    )
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
fn deadlines(out: &mut String, simulation: &Simulation, style: Style) {
    let Some((table, more)) = deadlines::table(simulation, CASES_MOST) else { return };
    heading(out, "Deadlines: times from the arrival of a job to its end", style);
    out.push_str(&table.render(style.columns(), style.colour));
    if more > 0 {
        let _ = writeln!(out, "  {more} more tasks did better");
    }
    let words = "worst and late by: of all replications; the others: means over them. Bound: proven for every phase and draw; \
                 none (–) where the notes say why.";
    out.push_str(&paragraph("  ", words, style.columns()));
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

fn cases(out: &mut String, simulation: &Simulation, patterns: &[String], style: Style) {
    heading(out, "Simulated, mean over the replications", style);
    let main =
        if patterns.is_empty() { simulation.main_figures() } else { simulation.figures_like(patterns) };
    let main: Vec<String> = main.into_iter().map(str::to_owned).collect();
    if main.is_empty() {
        out.push_str("  nothing: no case yielded a figure\n");
        return;
    }
    let shown = simulation.cases.get(..CASES_MOST.min(simulation.cases.len())).unwrap_or(&[]);
    for table in tables_that_fit(&[], &main, style, |ids| case_table(shown, ids)) {
        out.push_str(&table.render(style.columns(), style.colour));
        out.push('\n');
    }
    if simulation.cases.len() > shown.len() {
        let more = simulation.cases.len() - shown.len();
        let _ = writeln!(out, "  {more} more cases are in --json and in the folder that --out makes");
    }
    for id in &main {
        let title = simulation
            .cases
            .iter()
            .find_map(|case| case.figure(id))
            .map_or("", |figure| figure.title.as_str());
        // The title names whose it is; the id has done so.
        let title = title.split_once(": ").map_or(title, |(_, title)| title);
        out.push_str(&paragraph(
            &format!("  {}: ", short(id)),
            &printable(title, SENTENCE_MOST),
            style.columns(),
        ));
    }
}

fn case_table(cases: &[CaseOutcome], ids: &[String]) -> TextTable {
    let mut table = TextTable::default();
    let head = ids.iter().map(|id| TextCell { text: short(id), paint: Paint::Bold });
    table.rows.push(std::iter::once(TextCell::default()).chain(head).collect());
    for case in cases {
        let mark = if case.troubles.is_empty() { "" } else { " !" };
        let label = TextCell::plain(format!("  {}{mark}", printable(&case.label, LABEL_MOST)));
        let cells = ids.iter().map(|id| TextCell::plain(figure_text(case.figure(id))));
        table.rows.push(std::iter::once(label).chain(cells).collect());
    }
    table
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
        out.push_str(&calibrated::table(simulation).render(style.columns(), style.colour));
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
