//! The axis that rows of a picture share: where values lie, upright lines at its ticks, its caption below.

use plotters::element::Text;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::axis::Axis;
use super::palette::{GRID, TEXT};
use super::svg::{Area, Drawn, font, line, put};

/// An axis between two edges of a picture.
pub(super) struct Across<'a> {
    /// From left to right.
    pub axis: &'a Axis,
    /// Its ends on the canvas.
    pub left: i32,
    /// The right one.
    pub right: i32,
    /// Where the rows begin.
    pub top: i32,
    /// Where they end.
    pub bottom: i32,
}

impl Across<'_> {
    /// Where a place of the axis lies on the canvas.
    #[expect(clippy::cast_possible_truncation, reason = "places on the axis lie on the canvas")]
    pub fn at(&self, place: f64) -> i32 {
        let (low, high) = self.axis.ends();
        self.left + ((place - low) / (high - low) * f64::from(self.right - self.left)).round() as i32
    }

    /// Where a value lies, moved to the nearest end when it is beyond; none when it has no place.
    pub fn of(&self, value: f64) -> Option<i32> {
        self.axis.place_or_end(value).map(|(place, _)| self.at(place))
    }

    /// Draws ticks and caption.
    pub fn draw(&self, area: &Area<'_>) -> Drawn {
        let style = || font().color(&TEXT).pos(Pos::new(HPos::Center, VPos::Top));
        for tick in self.axis.ticks(7) {
            let x = self.at(tick);
            line(area, [(x, self.top), (x, self.bottom)], GRID, 2)?;
            put(area, &Text::new(self.axis.label(tick), (x, self.bottom + 10), style()))?;
        }
        let middle = (i32::midpoint(self.left, self.right), self.bottom + 52);
        put(area, &Text::new(self.axis.caption.clone(), middle, style()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::axis::{Quantity, Scale};
    use super::*;
    use units::metric::Unit;

    #[test]
    fn places_and_values_lie_between_the_edges_on_a_logarithmic_axis_too() {
        let axis = Axis::enclosing(Scale::Log, Quantity::Of(Unit::Nanoseconds), "t", [1.0, 1e4]);
        let axis = axis.expect("1 and 10 000 span an axis");
        let across = Across { axis: &axis, left: 100, right: 500, top: 0, bottom: 50 };
        assert_eq!(across.of(-1.0), Some(100), "what a logarithm does not know lies at the left");
        assert_eq!(across.of(1e12), Some(500), "moved to the end");
        assert_eq!(across.of(f64::NAN), None);
        for tick in axis.ticks(7) {
            assert!((100..=500).contains(&across.at(tick)), "{tick}");
            assert_eq!(across.of(10f64.powf(tick)), Some(across.at(tick)));
        }
    }
}
