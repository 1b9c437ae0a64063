//! The isolation matrices: one map per platform that reads at a glance who hurts whom. Sign and number repeat what the
//! colour says, darker is worse also in grey, and every cell's words stand in a table below.

use maud::{Markup, html};

use model::isolation::{IsolationCell, IsolationMatrix, IsolationRow};
use model::journal::Neighbour;
use model::results::RunResults;
use units::names::LoadPlace;

use super::super::figures::neighbour_words;
use super::super::isolation::{Heat, cell_words, heat, map_text, row_name};
use super::parts::{behind, bounded, plain_table, scrolling};

/// The maps; left out when nothing was measured beside a neighbour.
pub(super) fn section(results: &RunResults) -> Option<Markup> {
    if results.isolation.iter().all(|matrix| matrix.rows.is_empty()) {
        return None;
    }
    Some(html! {
        p {
            "Rows suffer, columns disturb. Each cell says how many times worse the figure of its row gets beside the load of \
             its column, compared with the same platform undisturbed. Averages can improve while the worst gets worse, so the \
             tail is judged where a probe has one."
        }
        (key())
        @for matrix in results.isolation.iter().filter(|matrix| !matrix.rows.is_empty()) { (map(matrix)) }
        (behind("What each row is judged by", &judged(results)))
    })
}

fn key() -> Markup {
    let steps = [
        (Heat::Better, "▲ better"),
        (Heat::Same, "· no difference found"),
        (Heat::Worse(1), "▼ below 1.25 ×"),
        (Heat::Worse(2), "▼ below 2 ×"),
        (Heat::Worse(3), "▼ below 5 ×"),
        (Heat::Worse(4), "▼ 5 × or more"),
        (Heat::Failed, "fail: every measurement broke"),
        (Heat::Unsupported, "? too little data or not comparable"),
    ];
    html! {
        ul.legend.heat {
            @for (step, words) in steps { li { span.swatch.(class_of(step)) {} (words) } }
            li { span.swatch {} "blank: not measured" }
            li { "! less is left than the fair share 1/n" }
        }
    }
}

const fn class_of(heat: Heat) -> &'static str {
    match heat {
        Heat::Better => "hb",
        Heat::Same => "h0",
        Heat::Worse(1) => "h1",
        Heat::Worse(2) => "h2",
        Heat::Worse(3) => "h3",
        Heat::Worse(_) | Heat::WorseUnknown => "h4",
        Heat::Unsupported => "hu",
        Heat::Failed => "hf",
        Heat::NotMeasured => "hn",
    }
}

fn map(matrix: &IsolationMatrix) -> Markup {
    let table = html! {
        table.map {
            thead { tr {
                th scope="col" { "Probe" }
                @for neighbour in &matrix.neighbours { (column(*neighbour)) }
            } }
            tbody {
                @for row in &matrix.rows {
                    tr {
                        th scope="row" { (row_name(row)) }
                        @for (neighbour, cell) in matrix.neighbours.iter().zip(&row.cells) { (spot(*neighbour, row, cell)) }
                    }
                }
            }
        }
    };
    html! {
        h3 { (matrix.platform) }
        (scrolling(&format!("Who hurts whom on {}", matrix.platform), &table))
        (behind(&format!("Every cell of {} in words", matrix.platform), &words(matrix)))
    }
}

fn column(neighbour: Neighbour) -> Markup {
    let place = match neighbour.place {
        LoadPlace::Same => "same",
        LoadPlace::Second => "second",
        LoadPlace::Host => "host",
    };
    html! { th scope="col" title=(neighbour_words(neighbour)) { (neighbour.kind) span.sub { "@" (place) } } }
}

fn spot(neighbour: Neighbour, row: &IsolationRow, cell: &IsolationCell) -> Markup {
    let heat = heat(cell);
    let title = bounded(&format!(
        "{} beside a {}: {}",
        row_name(row),
        neighbour_words(neighbour),
        cell_words(row, cell)
    ));
    html! { td.(class_of(heat)) title=(title) { (map_text(cell)) } }
}

fn words(matrix: &IsolationMatrix) -> Markup {
    let rows: Vec<Vec<String>> = matrix
        .rows
        .iter()
        .flat_map(|row| {
            matrix.neighbours.iter().zip(&row.cells).map(move |(neighbour, cell)| (row, neighbour, cell))
        })
        .filter(|(_, _, cell)| heat(cell) != Heat::NotMeasured)
        .map(|(row, neighbour, cell)| {
            vec![
                format!("{} beside {}@{}", row_name(row), neighbour.kind, neighbour.place),
                map_text(cell),
                bounded(&cell_words(row, cell)),
            ]
        })
        .collect();
    html! { div.words { (plain_table(&["Who beside whom", "Map", "In words"], &rows)) } }
}

fn judged(results: &RunResults) -> Markup {
    let rows: Vec<Vec<String>> = results.isolation.first().map_or_else(Vec::new, |matrix| {
        matrix
            .rows
            .iter()
            .map(|row| {
                let kind = if row.judged.is_tail { "tail" } else { "typical" };
                let main =
                    row.main.as_ref().map_or_else(|| "the same".to_owned(), |main| bounded(&main.title));
                vec![row_name(row), bounded(&row.judged.title), kind.to_owned(), main]
            })
            .collect()
    });
    html! { div.words { (plain_table(&["Probe", "Judged by", "Of the", "Main figure"], &rows)) } }
}
