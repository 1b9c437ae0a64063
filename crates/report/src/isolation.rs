//! Who hurts whom? The matrix of each platform for the terminal, and what matrix and page share: heat, signs, words.

use std::fmt::Write as _;

use model::isolation::{CellState, Harm, IsolationCell, IsolationMatrix, IsolationRow, JudgedFigure};
use model::journal::{Neighbour, probe_words};
use model::results::RunResults;
use units::metric::{Difference, Unit};
use units::names::{LoadKind, LoadPlace};

use super::figures::{ratio_text, value_text};
use super::terminal::{Style, dose_words, heading, tables_that_fit};
use super::text::{Paint, TextCell, TextTable, paragraph, printable};

/// How much a neighbour hurts, in steps that a picture can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heat {
    /// Better than undisturbed.
    Better,
    /// No difference was found.
    Same,
    /// Worse, in steps 1 (below a quarter), 2 (below twofold), 3 (below fivefold), 4.
    Worse(u8),
    /// Worse by an unknown factor, because a figure was zero.
    WorseUnknown,
    /// Too little data, or not comparable.
    Unsupported,
    /// Every measurement broke.
    Failed,
    /// Not measured.
    NotMeasured,
}

/// The heat of a cell.
pub(super) fn heat(cell: &IsolationCell) -> Heat {
    match (cell.state, &cell.judged) {
        (CellState::Failed, _) => Heat::Failed,
        (CellState::NotMeasured, _) => Heat::NotMeasured,
        (CellState::Compared, Some(harm)) => match (harm.difference, harm.times_worse) {
            (Difference::NotFound, _) => Heat::Same,
            (Difference::Better, _) => Heat::Better,
            (Difference::Worse | Difference::Different, None) => Heat::WorseUnknown,
            (Difference::Worse | Difference::Different, Some(times)) => Heat::Worse(match times.value {
                value if value < 1.25 => 1,
                value if value < 2.0 => 2,
                value if value < 5.0 => 3,
                _ => 4,
            }),
            (Difference::Unknown, _) => Heat::Unsupported,
        },
        _ => Heat::Unsupported,
    }
}

/// Two digits are enough for a map: `1.9`, `12`, `0.83`, `2e5`.
pub(super) fn map_number(value: f64) -> String {
    match value {
        _ if !value.is_finite() => "?".to_owned(),
        _ if value >= 9999.5 => format!("{value:.0e}"),
        _ if value >= 9.95 => format!("{value:.0}"),
        _ if value >= 0.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// What stands in a cell of the map: sign and number, `·` where nothing was found, blank where nothing was measured.
pub(super) fn map_text(cell: &IsolationCell) -> String {
    let number = cell
        .judged
        .as_ref()
        .and_then(|harm| harm.times_worse)
        .map_or_else(String::new, |times| format!(" {}", map_number(times.value)));
    let unfair = if cell.judged.as_ref().is_some_and(is_unfair) { "!" } else { "" };
    match heat(cell) {
        Heat::Better => format!("▲{number}{unfair}"),
        Heat::Same => "·".to_owned(),
        Heat::Worse(_) | Heat::WorseUnknown => format!("▼{number}{unfair}"),
        Heat::Unsupported => "?".to_owned(),
        Heat::Failed => "fail".to_owned(),
        Heat::NotMeasured => String::new(),
    }
}

/// Whether less than the fair share is left for sure.
pub(super) fn is_unfair(harm: &Harm) -> bool {
    harm.of_fair_share.is_some_and(|share| share.high < 1.0)
}

/// The name of a row: the probe, and its layout if it is not one instance alone.
pub(super) fn row_name(row: &IsolationRow) -> String {
    probe_words(row.probe, row.layout)
}

/// Everything a cell says, in words.
pub(super) fn cell_words(row: &IsolationRow, cell: &IsolationCell) -> String {
    let mut parts = Vec::new();
    if let Some(harm) = &cell.judged {
        parts.push(harm_words(&row.judged, harm));
    }
    if let (Some(figure), Some(harm)) = (&row.main, &cell.main) {
        parts.push(harm_words(figure, harm));
    }
    if parts.is_empty() || !cell.why.is_empty() {
        let state = match cell.state {
            CellState::Failed => "every measurement broke: ",
            CellState::Unsupported => "too little data: ",
            CellState::Compared | CellState::NotComparable | CellState::NotMeasured => "",
        };
        parts.push(format!("{state}{}", cell.why));
    }
    parts.extend(cell.doses.iter().map(|dose| format!("dose: {}", dose_words(dose))));
    printable(&parts.join("; "), 2000)
}

fn harm_words(figure: &JudgedFigure, harm: &Harm) -> String {
    let mut words = figure.title.clone();
    if let (Some(quiet), Some(disturbed)) = (harm.undisturbed, harm.disturbed) {
        let _ = write!(
            words,
            ": {} → {}",
            value_text(figure.unit, quiet.value),
            value_text(figure.unit, disturbed.value)
        );
    }
    if let Some(times) = harm.times_worse {
        let _ = write!(words, ", {} worse", ratio_text(&times));
    }
    if harm.difference == Difference::NotFound {
        words.push_str(" (no difference found)");
    }
    if let (Some(share), Some(n)) = (harm.of_fair_share, harm.parties) {
        let left = Unit::Share.format(share.value / f64::from(n.max(1)));
        let fair = Unit::Share.format(1.0 / f64::from(n.max(1)));
        let _ = write!(words, "; {left} is left, a fair share is {fair}");
    }
    words
}

/// `cpu/2`: the load and the first letter of its place.
fn column_name(neighbour: Neighbour) -> String {
    let kind = match neighbour.kind {
        LoadKind::Memory => "mem",
        LoadKind::Network => "net",
        LoadKind::Interrupt => "irq",
        LoadKind::Mixed => "mix",
        kind => kind.as_str(),
    };
    let place = match neighbour.place {
        LoadPlace::Same => "s",
        LoadPlace::Second => "2",
        LoadPlace::Host => "h",
    };
    format!("{kind}/{place}")
}

const LEGEND: &str = "Times worse than undisturbed (▼ worse, ▲ better, · no difference found, ? too little data or not comparable, \
    ! less than its fair share, blank: not measured). Loads: /2 in a second instance, /h on the host, /s in the same one.";

/// The matrices of all platforms; nothing when none was measured beside a neighbour.
pub(super) fn matrices(out: &mut String, results: &RunResults, style: Style) {
    let Some(first) = results.isolation.first() else { return };
    for matrix in &results.isolation {
        heading(out, &format!("Who hurts whom: {}", printable(&matrix.platform, 40)), style);
        if matrix.rows.is_empty() {
            out.push_str("  nothing: no measurement beside a neighbour was done\n");
            continue;
        }
        let columns: Vec<String> = (0..matrix.neighbours.len()).map(|index| index.to_string()).collect();
        for table in tables_that_fit(&[], &columns, style, |columns| table(matrix, columns)) {
            out.push_str(&table.render(style.columns(), style.colour));
        }
    }
    if first.rows.is_empty() {
        return;
    }
    out.push_str(&paragraph("  ", LEGEND, style.columns()));
    let judged: Vec<String> =
        first.rows.iter().map(|row| format!("{} {}", row_name(row), printable(&row.judged.id, 40))).collect();
    out.push_str(&paragraph("  Judged by: ", &format!("{}.", judged.join(", ")), style.columns()));
}

/// The columns are indices of neighbours, as text.
fn table(matrix: &IsolationMatrix, columns: &[String]) -> TextTable {
    let indices: Vec<usize> = columns.iter().filter_map(|column| column.parse().ok()).collect();
    let head = indices.iter().filter_map(|index| matrix.neighbours.get(*index));
    let head = head.map(|neighbour| TextCell { text: column_name(*neighbour), paint: Paint::Bold });
    let mut table = TextTable::default();
    table.rows.push(std::iter::once(TextCell::default()).chain(head).collect());
    for row in &matrix.rows {
        let cells = indices.iter().filter_map(|index| row.cells.get(*index)).map(|cell| TextCell {
            text: map_text(cell),
            paint: match heat(cell) {
                Heat::Better => Paint::Green,
                Heat::Worse(1 | 2) | Heat::Unsupported => Paint::Yellow,
                Heat::Worse(_) | Heat::WorseUnknown | Heat::Failed => Paint::Red,
                Heat::Same | Heat::NotMeasured => Paint::None,
            },
        });
        table.rows.push(std::iter::once(TextCell::plain(row_name(row))).chain(cells).collect());
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::metric::Estimate;

    fn cell(value: f64, difference: Difference) -> IsolationCell {
        let estimate = |value: f64| Estimate { value, low: value * 0.9, high: value * 1.1, confidence: 0.95 };
        IsolationCell {
            state: CellState::Compared,
            judged: Some(Harm {
                times_worse: Some(estimate(value)),
                difference,
                undisturbed: Some(estimate(1e6)),
                disturbed: Some(estimate(1e6 * value)),
                of_fair_share: Some(estimate(2.0 / value)),
                parties: Some(2),
            }),
            main: None,
            doses: Vec::new(),
            why: String::new(),
        }
    }

    #[test]
    fn a_cell_says_how_much_and_whether_it_is_fair() {
        let texts = [
            cell(1.9, Difference::Worse),
            cell(3.0, Difference::Worse),
            cell(0.83, Difference::Better),
            cell(1.02, Difference::NotFound),
            cell(1234.0, Difference::Worse),
            IsolationCell { state: CellState::Failed, judged: None, ..cell(1.0, Difference::Worse) },
            IsolationCell { state: CellState::NotMeasured, judged: None, ..cell(1.0, Difference::Worse) },
        ]
        .map(|cell| map_text(&cell));
        assert_eq!(texts, ["▼ 1.9", "▼ 3.0!", "▲ 0.83", "·", "▼ 1234!", "fail", ""]);
        assert_eq!(
            [1.2, 1.9, 4.9, 5.0].map(|v| heat(&cell(v, Difference::Worse))),
            [1, 2, 3, 4].map(Heat::Worse)
        );
    }
}
