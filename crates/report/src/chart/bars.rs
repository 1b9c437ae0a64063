//! A picture of rows: per row one dot or bar per platform, each with its interval. With a reference line at 1 it is
//! the comparison with the baseline (a forest plot).

use plotters::element::{Rectangle, Text};
use plotters::prelude::Color as _;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::super::text::printable;
use super::across::Across;
use super::axis::Axis;
use super::palette::{AXIS, GRID, Ink, RULE, TEXT};
use super::svg::{Area, Drawn, Picture, WIDTH, font, line, mark, put};

/// One platform's figure in a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Item {
    /// Whose.
    pub ink: Ink,
    /// The figure.
    pub value: f64,
    /// Its interval.
    pub interval: (f64, f64),
}

/// A row.
#[derive(Debug, Clone, PartialEq)]
pub struct BarRow {
    /// What it says at the left.
    pub title: String,
    /// One per platform.
    pub items: Vec<Item>,
}

/// How figures are drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Form {
    /// Dots, with an upright line at this value.
    Dots(f64),
    /// Bars from the left.
    Bars,
}

/// A picture of rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Bars {
    /// What it shows, for those who cannot see it.
    pub name: String,
    /// From left to right.
    pub axis: Axis,
    /// From top to bottom.
    pub rows: Vec<BarRow>,
    /// How.
    pub form: Form,
}

const LEFT: i32 = 500;
const RIGHT: i32 = 1480;
const TOP: i32 = 10;
const BOTTOM_ROOM: i32 = 104;
const ITEM: i32 = 30;
const BETWEEN: i32 = 24;
/// Further rows would make a picture nobody reads; the table has them all.
const ROWS_MOST: usize = 60;
const TITLE_MOST: usize = 36;

impl Bars {
    /// Draws it.
    pub fn draw(&self) -> Picture {
        let rows_height: i32 = self.rows.iter().take(ROWS_MOST).map(height_of).sum();
        let height = u32::try_from(TOP + rows_height + BOTTOM_ROOM).unwrap_or(WIDTH);
        Picture::of(height, &self.name, |area| self.draw_on(area, TOP + rows_height))
    }

    fn across(&self, bottom: i32) -> Across<'_> {
        Across { axis: &self.axis, left: LEFT, right: RIGHT, top: TOP, bottom }
    }

    fn draw_on(&self, area: &Area<'_>, bottom: i32) -> Drawn {
        let across = self.across(bottom);
        self.draw_axis(area, &across)?;
        let mut top = TOP;
        for (number, row) in self.rows.iter().take(ROWS_MOST).enumerate() {
            if number > 0 {
                line(area, [(16, top), (RIGHT, top)], GRID, 2)?;
            }
            let style = font().color(&TEXT).pos(Pos::new(HPos::Right, VPos::Center));
            let middle = top + height_of(row) / 2;
            put(area, &Text::new(printable(&row.title, TITLE_MOST), (LEFT - 18, middle), style))?;
            let mut y = top + BETWEEN / 2 + ITEM / 2;
            for item in &row.items {
                self.draw_item(area, &across, item, y)?;
                y += ITEM;
            }
            top += height_of(row);
        }
        Ok(())
    }

    fn draw_axis(&self, area: &Area<'_>, across: &Across<'_>) -> Drawn {
        let bottom = across.bottom;
        across.draw(area)?;
        line(area, [(LEFT, bottom), (RIGHT, bottom)], AXIS, 2)?;
        if let Form::Dots(reference) = self.form
            && let Some(place) = self.axis.place(reference)
        {
            line(area, [(across.at(place), TOP), (across.at(place), bottom)], RULE, 4)?;
        }
        Ok(())
    }

    fn draw_item(&self, area: &Area<'_>, across: &Across<'_>, item: &Item, y: i32) -> Drawn {
        let Some(place) = self.axis.place(item.value) else { return Ok(()) };
        let (x, colour) = (across.at(place), item.ink.colour());
        let ends = [item.interval.0, item.interval.1]
            .map(|end| self.axis.place_or_end(end).map(|(end, moved)| (across.at(end), moved)));
        if self.form == Form::Bars {
            put(area, &Rectangle::new([(LEFT, y - 11), (x, y + 11)], colour.filled()))?;
        }
        let whisker = if self.form == Form::Bars { TEXT } else { colour };
        if let [Some((low, low_moved)), Some((high, high_moved))] = ends {
            line(area, [(low, y), (high, y)], whisker, 4)?;
            for (end, _) in [(low, low_moved), (high, high_moved)].into_iter().filter(|(_, moved)| !moved) {
                line(area, [(end, y - 7), (end, y + 7)], whisker, 4)?;
            }
        }
        if self.form == Form::Bars { Ok(()) } else { mark(area, item.ink, (x, y)) }
    }
}

fn height_of(row: &BarRow) -> i32 {
    i32::try_from(row.items.len().clamp(1, 40)).unwrap_or(1) * ITEM + BETWEEN
}
