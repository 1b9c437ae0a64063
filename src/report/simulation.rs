//! What was simulated, on a terminal: the cases with their main figures, the published figures beside the simulated ones,
//! and what was assumed. The page shares its words.

use std::fmt::Write as _;

use super::figures::{ratio_number, value_text};
use super::terminal::{Style, heading, tables_that_fit};
use super::text::{Paint, TextCell, TextTable, paragraph, printable};
use crate::model::metric::Unit;
use crate::model::simulation::{CaseOutcome, PublishedOutcome, SimulatedFigure, Simulation};
use crate::stats::summary::mean_with_half_width;

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

/// Everything.
pub fn text(simulation: &Simulation, style: Style) -> String {
    let mut out = String::new();
    let first =
        format!("Bulkhead · scenario {} · {}", printable(&simulation.scenario, 60), extent(simulation));
    let _ = writeln!(out, "{}", Paint::Bold.on(&first, style.colour));
    if !simulation.about.is_empty() {
        out.push_str(&paragraph("  ", &printable(&simulation.about, SENTENCE_MOST), style.columns()));
    }
    cases(&mut out, simulation, style);
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

fn cases(out: &mut String, simulation: &Simulation, style: Style) {
    heading(out, "Simulated, mean over the replications", style);
    let main: Vec<String> = simulation.main_figures().into_iter().map(str::to_owned).collect();
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
pub(super) const fn holds_word(holds: Option<bool>) -> &'static str {
    match holds {
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
    let mut table = TextTable::default();
    let head = ["", &known.to_lowercase(), "simulated", "demanded", "holds"];
    table.rows.push(head.map(|text| TextCell { text: text.to_owned(), paint: Paint::Bold }).to_vec());
    let mut sources: Vec<&str> = Vec::new();
    let mut last = ("", "");
    for figure in simulation.published.iter().take(PUBLISHED_MOST) {
        let source = sources.iter().position(|known| *known == figure.source).unwrap_or_else(|| {
            sources.push(&figure.source);
            sources.len() - 1
        });
        let title = format!("{} [{}]", title(figure), source + 1);
        let cells = [published_text(figure), simulated_text(figure), printable(&figure.demanded, LABEL_MOST)];
        let paint = match figure.holds {
            None => Paint::None,
            Some(true) => Paint::Green,
            Some(false) => Paint::Red,
        };
        let mut cells: Vec<TextCell> = cells.into_iter().map(TextCell::plain).collect();
        cells.push(TextCell { text: holds_word(figure.holds).to_owned(), paint });
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

/// A figure's title, and that it is no prediction where the model was set from it.
pub(super) fn title(figure: &PublishedOutcome) -> String {
    let title = printable(&figure.title, SENTENCE_MOST);
    if figure.set_from { format!("{title} (the model was set from it)") } else { title }
}

/// `9 of 10 demands hold, 2 of them no predictions; one figure is only shown`.
pub(super) fn tally(simulation: &Simulation) -> String {
    let count = |is: &dyn Fn(&PublishedOutcome) -> bool| {
        simulation.published.iter().filter(|figure| is(figure)).count()
    };
    let demanding = count(&|figure| figure.holds.is_some());
    let hold = count(&|figure| figure.holds == Some(true));
    let set = match count(&|figure| figure.holds == Some(true) && figure.set_from) {
        0 => String::new(),
        1 => ", one of them no prediction".to_owned(),
        set => format!(", {set} of them no predictions"),
    };
    let rest = match simulation.published.len() - demanding {
        0 => String::new(),
        1 => "; one figure is only shown".to_owned(),
        shown => format!("; {shown} figures are only shown"),
    };
    format!("{hold} of {demanding} demands hold{set}{rest}")
}
