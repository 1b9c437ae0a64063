//! Parts that every section uses: folds, tables that scroll in their own box, figures with legend and caption.

use maud::{Markup, PreEscaped, html};
use model::journal::Cell;
use model::results::{CellResult, RunResults};
use units::metric::{Difference, Unit};

use super::super::chart::axis::{Axis, Quantity, Scale};
use super::super::chart::bars::{BarRow, Bars, Form};
use super::super::chart::palette::Ink;
use super::super::chart::plot::{Plot, Rule, Series, Stroke};
use super::super::chart::svg::Picture;
use super::super::figures::{difference_mark, difference_words, measured_labels, neighbours};
use super::anchor;

/// What is behind a fold, in a line, and the fold's inside.
pub(super) type Folded = (String, Markup);

/// A table in a box of its own, so that a wide one never widens the page.
pub(crate) fn scrolling(label: &str, table: &Markup) -> Markup {
    html! { div.scroll role="region" tabindex="0" aria-label=(label) { (table) } }
}

/// A table below its picture, folded away.
pub(crate) fn behind(label: &str, table: &Markup) -> Markup {
    fold(label, &scrolling(label, table))
}

/// Anything, folded away.
pub(crate) fn fold(label: &str, inside: &Markup) -> Markup {
    html! { details { summary { (label) } (inside) } }
}

/// A picture with caption and legend.
pub(crate) fn figure(title: &str, caption: &str, legend: &[(Ink, String)], picture: &Picture) -> Markup {
    html! {
        @match picture {
            Picture::Nothing(reason) => { p.soft.small { (title) ": no picture, " (reason) "." } }
            Picture::Svg(svg) => {
                figure {
                    figcaption { strong { (title) } (caption) }
                    @if legend.len() > 1 { (legend_of(legend)) }
                    div.drawing { (PreEscaped(svg)) }
                }
            }
        }
    }
}

/// A picture of blocks, whose colours the legend names.
pub(crate) fn figure_of_blocks(
    title: &str,
    caption: &str,
    legend: &[(Ink, String)],
    picture: &Picture,
) -> Markup {
    html! {
        figure {
            figcaption { strong { (title) } (caption) }
            ul.legend {
                @for (ink, label) in legend {
                    li { svg viewBox="0 0 80 24" aria-hidden="true" { rect x="2" y="1" width="76" height="22" fill=(ink.hex()) {} } (label) }
                }
            }
            @match picture {
                Picture::Svg(svg) => { div.drawing { (PreEscaped(svg)) } }
                Picture::Nothing(reason) => { p.soft { "No picture, " (reason) "." } }
            }
        }
    }
}

fn legend_of(legend: &[(Ink, String)]) -> Markup {
    html! {
        ul.legend {
            @for (ink, label) in legend {
                @let hex = ink.hex();
                li data-ink=(hex) {
                    svg viewBox="0 0 80 24" aria-hidden="true" {
                        polyline fill="none" stroke=(hex) stroke-width="4" points="2,12 78,12" {}
                        (mark(*ink, &hex))
                    }
                    (label)
                }
            }
        }
    }
}

/// The mark that the pictures use for this platform.
fn mark(ink: Ink, hex: &str) -> Markup {
    html! {
        @match ink.0 % 4 {
            0 => { circle cx="40" cy="12" r="8" fill=(hex) {} }
            1 => { polygon points="40,1 50,20 30,20" fill=(hex) {} }
            2 => { path d="M32 4 L48 20 M48 4 L32 20" stroke=(hex) stroke-width="4" {} }
            _ => { circle cx="40" cy="12" r="8" fill="none" stroke=(hex) stroke-width="4" {} }
        }
    }
}

/// Axes, and what is drawn between them.
pub(crate) struct Drawing {
    pub x: Option<super::super::chart::axis::Axis>,
    pub y: Option<super::super::chart::axis::Axis>,
    pub series: Vec<Series>,
    pub rules: Vec<Rule>,
}

impl Drawing {
    /// Draws it, or says that there is nothing to draw.
    pub fn draw(self, name: &str) -> Picture {
        let (Some(x), Some(y)) = (self.x, self.y) else {
            return Picture::Nothing("no measurement yielded points to draw".to_owned());
        };
        let height = super::super::chart::plot::HEIGHT;
        Plot { name: name.to_owned(), x, y, series: self.series, rules: self.rules, height }.draw()
    }
}

/// A series drawn as this platform's line.
pub(crate) fn line(ink: usize, points: Vec<(f64, f64)>) -> Series {
    Series { ink: Ink(ink), stroke: Stroke::Line, points }
}

/// First halves of all points.
pub(crate) fn xs(series: &[Series]) -> impl Iterator<Item = f64> {
    series.iter().flat_map(|series| series.points.iter().map(|point| point.0))
}

/// Second halves of all points.
pub(crate) fn ys(series: &[Series]) -> impl Iterator<Item = f64> {
    series.iter().flat_map(|series| series.points.iter().map(|point| point.1))
}

/// `▼ worse`; nothing when no difference was found.
pub(crate) fn called(difference: Difference) -> Markup {
    let mark = difference_mark(difference);
    html! { @if !mark.is_empty() { (mark) " " (difference_words(difference)) } }
}

/// Class of a called difference.
pub(crate) const fn class_of(difference: Difference) -> &'static str {
    match difference {
        Difference::Better => "better",
        Difference::Worse => "worse",
        Difference::Different => "different",
        Difference::NotFound => "same",
        Difference::Unknown => "soft",
    }
}

/// A table of plain words and figures; the first column heads its rows, one after the other that are of the same together. A unit that
/// all of a column have stands in its head.
pub(crate) fn plain_table(head: &[&str], rows: &[Vec<String>]) -> Markup {
    let units: Vec<Option<&str>> = (0..head.len()).map(|column| unit_of_all(rows, column)).collect();
    let unit = |column: usize| units.get(column).copied().flatten();
    html! {
        table {
            thead { tr {
                @for (column, name) in head.iter().enumerate() {
                    th scope="col" { (name) @if let Some(unit) = unit(column) { ", " (unit) } }
                }
            } }
            tbody {
                @for group in rows.chunk_by(|a, b| a.first() == b.first()) {
                    @for (number, row) in group.iter().enumerate() {
                        tr {
                            @for (column, text) in row.iter().enumerate() {
                                @if column > 0 {
                                    td { (unit(column).and_then(|unit| text.strip_suffix(unit)).unwrap_or(text).trim_end()) }
                                } @else if number == 0 {
                                    th scope="row" rowspan=[(group.len() > 1).then_some(group.len())] { (text) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The unit of a column all of whose texts are a number and this unit; none for the first column and for short ones.
fn unit_of_all(rows: &[Vec<String>], column: usize) -> Option<&str> {
    let mut texts = rows.iter().filter_map(|row| row.get(column)).filter(|text| !text.is_empty());
    let unit = |text: &'_ String| -> Option<usize> {
        let (number, unit) = text.rsplit_once(' ')?;
        let is_unit = !unit.is_empty() && unit.chars().all(|c| c.is_alphabetic() || "%/µ".contains(c));
        (is_unit && number.parse::<f64>().is_ok()).then_some(number.len() + 1)
    };
    let first = texts.next().filter(|_| column > 0 && rows.len() > 2)?;
    let name = first.get(unit(first)?..)?;
    texts.all(|text| unit(text).and_then(|at| text.get(at..)) == Some(name)).then_some(name)
}

/// A table of cells: a row for each probe, layout and neighbour, a column for each platform; what `of` does not know stays blank.
pub(super) fn by_platform(
    results: &RunResults,
    head: &str,
    of: impl Fn(&CellResult) -> Option<String>,
) -> Markup {
    let labels = measured_labels(results);
    let mut rows: Vec<(&Cell, Vec<String>)> = Vec::new();
    for (result, text) in results.cells.iter().filter_map(|result| Some((result, of(result)?))) {
        let cell = &result.cell;
        let Some(column) = labels.iter().position(|label| *label == cell.platform) else { continue };
        let same = |row: &(&Cell, Vec<String>)| {
            (row.0.probe, row.0.layout, row.0.neighbour) == (cell.probe, cell.layout, cell.neighbour)
        };
        let known = rows.iter().position(same).unwrap_or_else(|| {
            rows.push((cell, vec![String::new(); labels.len()]));
            rows.len() - 1
        });
        if let Some(place) = rows.get_mut(known).and_then(|row| row.1.get_mut(column)) {
            *place = text;
        }
    }
    let name = |cell: &Cell| {
        let beside = cell.neighbour.map_or_else(String::new, |n| format!(" {}", anchor::beside(n)));
        format!("{}{beside}", cell.probe_words())
    };
    let rows: Vec<Vec<String>> =
        rows.into_iter().map(|(cell, texts)| std::iter::once(name(cell)).chain(texts).collect()).collect();
    let heads: Vec<&str> = std::iter::once(head).chain(labels.iter().map(String::as_str)).collect();
    html! { div.words { (scrolling(head, &plain_table(&heads, &rows))) } }
}

/// Says how many rows of a capped table are shown; nothing when all are.
pub(crate) fn capped(shown: usize, all: usize) -> Markup {
    html! { @if shown < all { p.soft.small { (shown) " of " (all) " shown, worst first." } } }
}

/// Where a cell was measured, in words.
pub(crate) fn cell_words(cell: &Cell) -> String {
    let beside = cell.neighbour.map_or_else(String::new, |n| format!(" beside a {}", n.words()));
    format!("{} on {}{beside}", cell.probe_words(), cell.platform)
}

/// Where a cell was measured, the probe left out.
pub(super) fn place_of(cell: &Cell) -> (String, String) {
    (cell.platform.clone(), cell.neighbour.map_or_else(String::new, anchor::beside))
}

/// A sentence that names neighbours as the tables do.
pub(crate) fn with_short_neighbours(results: &RunResults, text: &str) -> String {
    neighbours(results).into_iter().fold(text.to_owned(), |text, neighbour| {
        text.replace(&format!("a {}", neighbour.words()), &anchor::beside(neighbour))
    })
}

/// Text cut to what a page can bear.
pub(crate) fn bounded(text: &str) -> String {
    super::super::text::printable(text, 2000)
}

/// Bars from zero, of one unit; says so when there are none.
pub(super) fn bars(rows: Vec<BarRow>, unit: Unit, (name, caption): (&str, &str)) -> Picture {
    let values = rows.iter().flat_map(|row| &row.items).flat_map(|item| [item.value, item.interval.1]);
    let Some(axis) = Axis::enclosing(Scale::FromZero, Quantity::Of(unit), caption, values) else {
        return Picture::Nothing("no measurement yielded a figure".to_owned());
    };
    Bars { name: name.to_owned(), axis, rows, form: Form::Bars }.draw()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_column_has_in_common_stands_in_its_head() {
        let row = |texts: [&str; 3]| texts.map(str::to_owned).to_vec();
        let rows = [row(["a", "1 ms", "1 ms"]), row(["a", "2.5 ms", "2 µs"]), row(["b", "", "3 ms"])];
        let html = plain_table(&["who", "x", "y"], &rows).into_string();
        assert!(html.contains("<th scope=\"col\">x, ms</th><th scope=\"col\">y</th>"), "{html}");
        assert!(html.contains("<th scope=\"row\" rowspan=\"2\">a</th><td>1</td><td>1 ms</td>"), "{html}");
        assert!(html.contains("<tr><td>2.5</td><td>2 µs</td></tr>"), "{html}");
        assert!(html.contains("<th scope=\"row\">b</th><td></td><td>3 ms</td>"), "{html}");
    }
}
