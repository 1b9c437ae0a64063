//! Who ran when, a row each: names at the left, stretches as blocks, with a name in those that have room for one.

use plotters::element::{Rectangle, Text};
use plotters::prelude::Color as _;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::super::text::printable;
use super::across::Across;
use super::axis::Axis;
use super::palette::{AXIS, GRID, Ink, PAPER, TEXT};
use super::svg::{Area, Drawn, Picture, WIDTH, font, line, put};

/// A stretch of time.
#[derive(Debug, Clone, PartialEq)]
pub struct Stretch {
    /// Begin.
    pub from: f64,
    /// End.
    pub to: f64,
    /// Its colour.
    pub ink: Ink,
    /// What stands in it where it is wide enough.
    pub words: String,
}

/// A row.
#[derive(Debug, Clone, PartialEq)]
pub struct GanttRow {
    /// Whose it is.
    pub name: String,
    /// What there was, in any order.
    pub stretches: Vec<Stretch>,
}

/// A picture of rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Gantt {
    /// What it shows, for those who cannot see it.
    pub name: String,
    /// Time, from left to right.
    pub axis: Axis,
    /// From top to bottom.
    pub rows: Vec<GanttRow>,
}

/// Rows of a picture; more would be one that nobody reads.
pub const ROWS_MOST: usize = 64;

const LEFT: i32 = 230;
const RIGHT: i32 = 1486;
const TOP: i32 = 8;
const BELOW: i32 = 100;
/// Height of a row, and of what is drawn in it.
const ROW: i32 = 42;
const BLOCK: i32 = 34;
/// Characters of a row's name.
const NAME_MOST: usize = 13;
/// More stretches than a picture has columns cannot be told apart.
const STRETCHES_MOST: usize = 1400;
/// Narrowest stretch that can be seen.
const NARROWEST: i32 = 2;
/// Width of a character, roughly.
const LETTER: i32 = 17;

impl Gantt {
    /// Draws it.
    pub fn draw(&self) -> Picture {
        let rows = i32::try_from(self.rows.len().min(ROWS_MOST)).unwrap_or(1);
        let bottom = TOP + rows * ROW;
        let height = u32::try_from(bottom + BELOW).unwrap_or(WIDTH);
        Picture::of(height, &self.name, |area| self.draw_on(area, bottom))
    }

    fn across(&self, bottom: i32) -> Across<'_> {
        Across { axis: &self.axis, left: LEFT, right: RIGHT, top: TOP, bottom }
    }

    fn draw_on(&self, area: &Area<'_>, bottom: i32) -> Drawn {
        let across = self.across(bottom);
        across.draw(area)?;
        let mut top = TOP;
        for row in self.rows.iter().take(ROWS_MOST) {
            let style = font().color(&TEXT).pos(Pos::new(HPos::Right, VPos::Center));
            put(area, &Text::new(printable(&row.name, NAME_MOST), (LEFT - 16, top + ROW / 2), style))?;
            for stretch in row.stretches.iter().take(STRETCHES_MOST) {
                Self::draw_stretch(area, &across, stretch, top + (ROW - BLOCK) / 2)?;
            }
            top += ROW;
            line(area, [(LEFT, top), (RIGHT, top)], GRID, 2)?;
        }
        line(area, [(LEFT, bottom), (RIGHT, bottom)], AXIS, 2)?;
        line(area, [(LEFT, TOP), (LEFT, bottom)], AXIS, 2)?;
        Ok(())
    }

    fn draw_stretch(area: &Area<'_>, across: &Across<'_>, stretch: &Stretch, top: i32) -> Drawn {
        let (Some(from), Some(to)) = (across.of(stretch.from), across.of(stretch.to)) else { return Ok(()) };
        // A seam after what has a name, so that neighbours of one colour can be told apart.
        let wide = to - from;
        let seam = if stretch.words.is_empty() || wide <= 3 * NARROWEST { 0 } else { NARROWEST };
        let to = (to - seam).max(from + NARROWEST);
        put(area, &Rectangle::new([(from, top), (to, top + BLOCK)], stretch.ink.colour().filled()))?;
        let words = printable(&stretch.words, NAME_MOST);
        let room = i32::try_from(words.chars().count()).unwrap_or(i32::MAX).saturating_mul(LETTER);
        if words.is_empty() || room + NARROWEST > wide {
            return Ok(());
        }
        let style = font().color(&PAPER).pos(Pos::new(HPos::Center, VPos::Center));
        put(area, &Text::new(words, (i32::midpoint(from, to), top + BLOCK / 2), style))
    }
}

#[cfg(test)]
mod tests {
    use super::super::axis::{Quantity, Scale};
    use super::*;
    use units::metric::Unit;

    #[test]
    fn names_stand_where_there_is_room_and_nonsense_is_left_out() {
        let stretch = |from: f64, to: f64| Stretch { from, to, ink: Ink(0), words: "A.31".to_owned() };
        let draw = |stretches: Vec<Stretch>| {
            let axis =
                Axis::enclosing(Scale::FromZero, Quantity::Of(Unit::Nanoseconds), "t", [0.0, 1e9]).unwrap();
            let rows =
                (0..32).map(|cpu| GanttRow { name: format!("CPU {cpu}"), stretches: stretches.clone() });
            match (Gantt { name: "n".to_owned(), axis, rows: rows.collect() }).draw() {
                Picture::Svg(svg) => {
                    assert!(svg.contains("CPU 0") && svg.contains("CPU 31"), "every row has its name");
                    (svg.matches(&Ink(0).hex()).count(), svg.matches("A.31").count())
                }
                Picture::Nothing(reason) => panic!("{reason}"),
            }
        };
        assert_eq!(draw(vec![stretch(0.0, 1e8)]), (32, 32));
        assert_eq!(draw(vec![stretch(0.0, 1e6)]), (32, 0));
        assert_eq!(draw(vec![stretch(f64::NAN, 1.0), stretch(-1e30, 1e30)]), (0, 0));
    }
}
