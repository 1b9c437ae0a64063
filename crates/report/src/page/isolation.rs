//! The isolation matrices: one map per platform that reads at a glance who hurts whom. Sign and number repeat what the
//! colour says, darker is worse also in grey, and every cell leads to its figure.

use maud::{Markup, html};

use model::isolation::{IsolationCell, IsolationMatrix, IsolationRow};
use model::journal::Neighbour;
use model::results::{CellResult, RunResults};
use units::names::LoadPlace;

use super::super::brief::Harm;
use super::super::figures::neighbours;
use super::super::isolation::{Heat, cell_words, heat, is_unfair, map_text, row_name};
use super::super::terminal::dose_words;
use super::anchor;
use super::notes::Notes;
use super::parts::{Folded, behind, bounded, by_platform, fold, plain_table, scrolling};

/// The maps; left out when nothing was measured beside a neighbour.
pub(super) fn section(results: &RunResults) -> Option<Folded> {
    let maps = || results.isolation.iter().filter(|matrix| !matrix.rows.is_empty());
    if maps().next().is_none() && neighbours(results).is_empty() {
        return None;
    }
    let cells = maps().flat_map(|matrix| &matrix.rows).flat_map(|row| &row.cells);
    let all = cells.filter(|cell| heat(cell) != Heat::NotMeasured).count();
    let worse = Harm::of(results).map_or(0, |harm| harm.hurt.len());
    let line = format!("{} maps; beside a neighbour {worse} of {all} get worse; its dose", maps().count());
    let body = html! {
        p {
            "Rows suffer, columns disturb: how many times worse the figure of a row gets beside the load of a column, compared with \
             the same platform undisturbed. The tail is judged where a probe has one, because averages can improve while the worst \
             gets worse. A cell leads to its figure."
        }
        (key())
        div.maps { @for matrix in maps() { (map(matrix)) } }
        (remarks(results))
        (behind("What each row is judged by", &judged(results)))
        (fold("How strong the neighbours were", &by_platform(results, "Median dose", dose)))
    };
    Some((line, body))
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
        div { h3 { (matrix.platform) }
        (scrolling(&format!("Who hurts whom on {}", matrix.platform), &table)) }
    }
}

fn column(neighbour: Neighbour) -> Markup {
    let place = match neighbour.place {
        LoadPlace::Same => "same",
        LoadPlace::Second => "second",
        LoadPlace::Host => "host",
    };
    html! { th scope="col" title=(neighbour.words()) { (neighbour.kind) span.sub { "@" (place) } } }
}

fn spot(neighbour: Neighbour, row: &IsolationRow, cell: &IsolationCell) -> Markup {
    let heat = heat(cell);
    let title =
        bounded(&format!("{} beside a {}: {}", row_name(row), neighbour.words(), cell_words(row, cell)));
    let figure = anchor::figure(row.probe, row.layout, Some(neighbour), &row.judged.id);
    html! {
        td.(class_of(heat)) title=(title) {
            @if matches!(heat, Heat::NotMeasured | Heat::Failed) { (map_text(cell)) } @else { a href={ "#" (figure) } { (map_text(cell)) } }
        }
    }
}

/// What the figures do not say themselves: what is left of a fair share, and why something could not be compared.
fn remarks(results: &RunResults) -> Markup {
    let mut notes = Notes::new("isolation");
    for matrix in &results.isolation {
        for row in &matrix.rows {
            for (neighbour, cell) in matrix.neighbours.iter().zip(&row.cells) {
                let of =
                    Some((format!("{} on {}", row_name(row), matrix.platform), anchor::beside(*neighbour)));
                if !cell.why.is_empty() && heat(cell) != Heat::NotMeasured {
                    notes.say(&cell.why, of.clone());
                }
                if cell.judged.as_ref().is_some_and(is_unfair) {
                    notes.say(&cell_words(row, cell), of);
                }
            }
        }
    }
    html! { @if !notes.is_empty() { h4 { "Remarks" } (notes.list()) } }
}

/// The measured dose of a cell's neighbour; none for a cell without one.
fn dose(result: &CellResult) -> Option<String> {
    result.cell.neighbour?;
    let all: Vec<String> = result
        .doses
        .iter()
        .map(|dose| {
            let is_where_it_says = result.cell.neighbour.is_some_and(|n| n.place == dose.place);
            let place = if is_where_it_says { String::new() } else { format!("{}: ", dose.place) };
            format!("{place}{}", bounded(&dose_words(dose)))
        })
        .collect();
    Some(if all.is_empty() { "no dose was recorded".to_owned() } else { all.join("; ") })
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
