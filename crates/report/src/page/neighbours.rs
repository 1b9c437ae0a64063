//! Isolation: each platform beside a neighbour, compared with itself undisturbed, with the neighbour's measured dose.

use maud::{Markup, html};

use model::journal::Neighbour;
use model::results::RunResults;

use super::super::figures::{Which, measured_labels, neighbour_words, neighbours, rows};
use super::super::terminal::dose_words;
use super::parts::{Beside, behind, bounded, cell_words, metric_table, plain_table, scrolling};

/// One table per neighbour; left out when none was measured.
pub(super) fn section(results: &RunResults) -> Option<Markup> {
    let neighbours = neighbours(results);
    if neighbours.is_empty() {
        return None;
    }
    Some(html! {
        p {
            "The same probes while something else works beside them. Each ratio compares a platform with the neighbour to \
             the same platform without: 1 × means that the neighbour is not felt."
        }
        @for neighbour in neighbours { (table(results, neighbour)) }
    })
}

fn table(results: &RunResults, neighbour: Neighbour) -> Markup {
    let rows = rows(results, Some(neighbour), Which::All);
    let words = neighbour_words(neighbour);
    html! {
        h3 { "Beside a " (words) }
        @if rows.is_empty() { p { "No measurement beside this neighbour was done." } }
        @else { (scrolling(&words, &metric_table(results, &rows, &measured_labels(results), Beside::Undisturbed))) }
        (behind("Measured dose of this neighbour", &doses(results, neighbour)))
    }
}

fn doses(results: &RunResults, neighbour: Neighbour) -> Markup {
    let mut rows = Vec::new();
    for cell in results.cells.iter().filter(|cell| cell.cell.neighbour == Some(neighbour)) {
        if cell.doses.is_empty() {
            rows.push(vec![cell_words(&cell.cell), "no dose was recorded".to_owned(), String::new()]);
        }
        for dose in &cell.doses {
            rows.push(vec![cell_words(&cell.cell), dose.place.to_string(), bounded(&dose_words(dose))]);
        }
    }
    plain_table(&["Measurement", "Where", "Median dose"], &rows)
}
