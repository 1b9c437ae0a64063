//! Predictions of a model that was calibrated from a measured run: each as an interval, beside what was measured; and what has to be
//! known of the run. The page shares its words.

use model::simulation::{PublishedOutcome, Simulation};
use stats::summary::median;
use units::metric::Unit;

use super::{CASES_MOST, LABEL_MOST, PUBLISHED_MOST, SENTENCE_MOST, holds_word, published_text};
use crate::figures::value_text;
use crate::terminal::Style;
use crate::text::{Paint, TextCell, TextTable, paragraph, printable};

/// What the columns of a prediction are.
pub(crate) const HEAD: [&str; 4] = ["measured", "predicted", WIDTH, "holds"];
const WIDTH: &str = "width";

/// Whether all that is shown are predictions with intervals.
pub(crate) fn has_predictions(simulation: &Simulation) -> bool {
    simulation.published.iter().any(|figure| figure.predicted.is_some())
}

/// `0.31 [0.29 … 0.33]`.
fn with_ends(unit: Unit, value: String, ends: Option<[f64; 2]>) -> String {
    match ends_text(unit, ends) {
        Some(ends) => format!("{value} {ends}"),
        None => value,
    }
}

fn ends_text(unit: Unit, ends: Option<[f64; 2]>) -> Option<String> {
    ends.map(|[low, high]| format!("[{} … {}]", value_text(unit, low), value_text(unit, high)))
}

fn width_text(width: Option<f64>) -> String {
    width.map_or_else(|| "–".to_owned(), |width| format!("{:.0} %", width * 100.0))
}

/// Whether a prediction holds, and that it is of a dirty run if it is.
pub(crate) fn verdict_words(simulation: &Simulation, figure: &PublishedOutcome) -> String {
    let word = holds_word(figure);
    let is_dirty = simulation.calibrated_from.as_ref().is_some_and(|from| !from.dirty.is_empty());
    match word {
        "" => String::new(),
        _ if is_dirty && figure.predicted.is_some() => format!("{word}, dirty"),
        _ => word.to_owned(),
    }
}

/// What stands below [`HEAD`].
pub(crate) fn cells(simulation: &Simulation, figure: &PublishedOutcome) -> [String; 4] {
    let measured = with_ends(figure.unit, published_text(figure), figure.published_interval);
    let predicted = ends_text(figure.unit, figure.predicted).unwrap_or_else(|| "not yielded".to_owned());
    [measured, predicted, width_text(figure.relative_width()), verdict_words(simulation, figure)]
}

/// All predictions, figure by figure; where that would be wider than so many columns, without their widths, which the ends say as well.
pub(super) fn table(simulation: &Simulation, columns: usize) -> TextTable {
    let wide = table_of(simulation, true);
    if wide.total_width(columns) > columns { table_of(simulation, false) } else { wide }
}

fn table_of(simulation: &Simulation, with_widths: bool) -> TextTable {
    let bold = |text: &str| TextCell { text: text.to_owned(), paint: Paint::Bold };
    let mut table = TextTable::default();
    let head = HEAD.into_iter().filter(|column| with_widths || *column != WIDTH).map(bold);
    table.rows.push(std::iter::once(TextCell::default()).chain(head).collect());
    let mut last = "";
    for figure in simulation.published.iter().take(PUBLISHED_MOST) {
        if last != figure.case {
            table.rows.push(vec![bold(&format!("{}, held out", printable(&figure.case, LABEL_MOST)))]);
        }
        last = &figure.case;
        let paint = match figure.holds {
            None => Paint::None,
            Some(true) => Paint::Green,
            Some(false) => Paint::Red,
        };
        let [measured, predicted, width, verdict] = cells(simulation, figure);
        let title = TextCell::plain(format!("  {}", printable(&figure.title, LABEL_MOST)));
        let cells =
            [measured, predicted].into_iter().chain(with_widths.then_some(width)).map(TextCell::plain);
        let verdict = TextCell { text: verdict, paint };
        table.rows.push(std::iter::once(title).chain(cells).chain([verdict]).collect());
    }
    table
}

/// `; median width of the predictions 18 %`.
pub(super) fn width_words(simulation: &Simulation) -> String {
    let widths: Vec<f64> = simulation.published.iter().filter_map(PublishedOutcome::relative_width).collect();
    median(&widths).map_or_else(String::new, |width| {
        format!("; median width of what is predicted {}", width_text(Some(width)))
    })
}

/// Why the run is dirty, and what was measured but is in no parameter: sentences.
pub(crate) fn known_of_run(simulation: &Simulation) -> (Vec<String>, Vec<String>) {
    let Some(from) = &simulation.calibrated_from else { return (Vec::new(), Vec::new()) };
    let told = |list: &Vec<String>| -> Vec<String> {
        list.iter().take(CASES_MOST).map(|words| printable(words, SENTENCE_MOST)).collect()
    };
    (told(&from.dirty), told(&from.not_estimated))
}

/// The same on a terminal.
pub(super) fn notes(out: &mut String, simulation: &Simulation, style: Style) {
    let (dirty, left_out) = known_of_run(simulation);
    for why in dirty {
        out.push_str(&paragraph("! DIRTY RUN: ", &why, style.columns()));
    }
    for what in left_out {
        out.push_str(&paragraph("  not estimated: ", &what, style.columns()));
    }
}
