//! Time lines one above the other on the same axis: what two clocks' owners saw at the same moment.

use plotters::element::{Rectangle, Text};
use plotters::prelude::Color as _;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::super::text::printable;
use super::across::Across;
use super::axis::Axis;
use super::palette::{AXIS, Ink, TEXT};
use super::svg::{Area, Drawn, Picture, WIDTH, font, line, put};

/// A stretch of time with a height.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Block {
    /// Begin.
    pub from: f64,
    /// End.
    pub to: f64,
    /// Height as a part of the lane, 0 … 1.
    pub height: f64,
    /// Whose, where a lane has blocks of several.
    pub ink: Option<Ink>,
}

/// One time line.
#[derive(Debug, Clone, PartialEq)]
pub struct Lane {
    /// What it shows.
    pub caption: String,
    /// What a block as high as the lane says.
    pub top: String,
    /// Whether blocks are drawn pale, as an area.
    pub pale: bool,
    /// The blocks.
    pub blocks: Vec<Block>,
}

/// Time lines of one platform.
#[derive(Debug, Clone, PartialEq)]
pub struct Lanes {
    /// What it shows, for those who cannot see it.
    pub name: String,
    /// Time, from left to right.
    pub axis: Axis,
    /// Whose.
    pub ink: Ink,
    /// From top to bottom.
    pub lanes: Vec<Lane>,
}

const LEFT: i32 = 150;
const RIGHT: i32 = 1486;
/// Room above a lane for its caption.
const CAPTION: i32 = 58;
const LANE: i32 = 120;
const BELOW: i32 = 100;
/// More blocks than a picture has columns cannot be told apart.
const BLOCKS_MOST: usize = 1400;
/// Narrowest block that can be seen.
const NARROWEST: i32 = 4;

impl Lanes {
    /// Draws them.
    pub fn draw(&self) -> Picture {
        let bottom = i32::try_from(self.lanes.len().min(8)).unwrap_or(1) * (CAPTION + LANE);
        let height = u32::try_from(bottom + BELOW).unwrap_or(WIDTH);
        Picture::of(height, &self.name, |area| self.draw_on(area, bottom))
    }

    fn across(&self, bottom: i32) -> Across<'_> {
        Across { axis: &self.axis, left: LEFT, right: RIGHT, top: CAPTION, bottom }
    }

    fn draw_on(&self, area: &Area<'_>, bottom: i32) -> Drawn {
        let across = self.across(bottom);
        across.draw(area)?;
        let mut top = 0;
        for lane in self.lanes.iter().take(8) {
            self.draw_lane(area, &across, lane, top + CAPTION)?;
            top += CAPTION + LANE;
        }
        Ok(())
    }

    fn draw_lane(&self, area: &Area<'_>, across: &Across<'_>, lane: &Lane, top: i32) -> Drawn {
        let base = top + LANE;
        let style = font().color(&TEXT).pos(Pos::new(HPos::Left, VPos::Bottom));
        put(area, &Text::new(printable(&lane.caption, 80), (LEFT, top - 8), style))?;
        let style = font().color(&TEXT).pos(Pos::new(HPos::Right, VPos::Top));
        put(area, &Text::new(printable(&lane.top, 12), (LEFT - 14, top), style))?;
        for block in lane.blocks.iter().take(BLOCKS_MOST) {
            self.draw_block(area, across, block, (lane.pale, base))?;
        }
        line(area, [(LEFT, base), (RIGHT, base)], AXIS, 2)
    }

    fn draw_block(
        &self,
        area: &Area<'_>,
        across: &Across<'_>,
        block: &Block,
        (pale, base): (bool, i32),
    ) -> Drawn {
        let (Some(from), Some(to)) = (across.of(block.from), across.of(block.to)) else { return Ok(()) };
        let height = (block.height.clamp(0.0, 1.0) * f64::from(LANE)).round();
        if !height.is_finite() || height < 1.0 {
            return Ok(());
        }
        #[expect(clippy::cast_possible_truncation, reason = "at most the lane's height")]
        let up = height as i32;
        let to = to.max(from + if pale { 1 } else { NARROWEST });
        let colour = block.ink.unwrap_or(self.ink).colour();
        let fill = if pale { colour.mix(0.45).filled() } else { colour.filled() };
        put(area, &Rectangle::new([(from, base - up), (to, base)], fill))
    }
}

#[cfg(test)]
mod tests {
    use super::super::axis::{Quantity, Scale};
    use super::*;
    use units::metric::Unit;

    #[test]
    fn nonsense_is_left_out_and_what_is_short_can_still_be_seen() {
        let block = |from: f64, to: f64, height: f64| Block { from, to, height, ink: None };
        let draw = |blocks: Vec<Block>| {
            let axis =
                Axis::enclosing(Scale::FromZero, Quantity::Of(Unit::Nanoseconds), "t", [0.0, 1e9]).unwrap();
            let lane = Lane { caption: "gaps".to_owned(), top: "1 ms".to_owned(), pale: false, blocks };
            match (Lanes { name: "n".to_owned(), axis, ink: Ink(0), lanes: vec![lane] }).draw() {
                Picture::Svg(svg) => svg.matches(&Ink(0).hex()).count(),
                Picture::Nothing(reason) => panic!("{reason}"),
            }
        };
        assert_eq!(draw(vec![block(5e8, 5e8 + 1.0, 0.5)]), 1);
        assert_eq!(draw(vec![block(f64::NAN, 1.0, 0.5), block(1.0, 2.0, f64::NAN), block(0.0, 1e9, 0.0)]), 0);
        assert_eq!(draw(vec![block(-1e30, 1e30, 7.0)]), 0, "beyond what has a place");
    }
}
