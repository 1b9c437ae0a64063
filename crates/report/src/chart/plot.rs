//! A picture with two axes: lines, steps, stems and dots of several platforms, with levels and references marked.

use plotters::element::{DashedPathElement, PathElement, Text};
use plotters::prelude::Color as _;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{RGBColor, ShapeStyle};

use super::axis::Axis;
use super::palette::{AXIS, GRID, Ink, RULE, TEXT};
use super::svg::line as straight;
use super::svg::{Area, Drawn, LINE, Picture, WIDTH, font, mark, put};
use super::thin::per_column;

/// How a series is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stroke {
    /// Points joined by a line.
    Line,
    /// Points joined by a line, each marked.
    MarkedLine,
    /// Only marks.
    Marks,
    /// A line from the bottom to each point, which is marked.
    Stems,
}

/// A series of one platform.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Whose.
    pub ink: Ink,
    /// How.
    pub stroke: Stroke,
    /// What.
    pub points: Vec<(f64, f64)>,
}

/// A dashed line across the picture.
#[derive(Debug, Clone, PartialEq)]
pub enum Rule {
    /// Upright at this x, of a platform.
    Upright(Ink, f64),
    /// Level at this y, with a few words.
    Level(f64, String),
}

/// A picture with two axes.
#[derive(Debug, Clone, PartialEq)]
pub struct Plot {
    /// What it shows, for those who cannot see it.
    pub name: String,
    /// From left to right.
    pub x: Axis,
    /// From bottom to top.
    pub y: Axis,
    /// What is drawn.
    pub series: Vec<Series>,
    /// Lines across.
    pub rules: Vec<Rule>,
    /// Height on the canvas.
    pub height: u32,
}

/// Usual height on the canvas.
pub const HEIGHT: u32 = 680;

const LEFT: i32 = 176;
const RIGHT: i32 = 1486;
const TOP: i32 = 66;
/// Room below the horizontal axis for its numbers and its caption.
const BELOW: i32 = 100;

impl Plot {
    /// Draws it.
    pub fn draw(&self) -> Picture {
        Picture::of(self.height, &self.name, |area| self.draw_on(area))
    }

    fn bottom(&self) -> i32 {
        i32::try_from(self.height).unwrap_or(TOP + BELOW + 100) - BELOW
    }

    /// From places on the axes to the canvas.
    #[expect(clippy::cast_possible_truncation, reason = "places on the axes lie on the canvas")]
    fn spot(&self, (x, y): (f64, f64)) -> (i32, i32) {
        let share = |(low, high): (f64, f64), at: f64| (at - low) / (high - low);
        let across = share(self.x.ends(), x) * f64::from(RIGHT - LEFT);
        let up = share(self.y.ends(), y) * f64::from(self.bottom() - TOP);
        (LEFT + across.round() as i32, self.bottom() - up.round() as i32)
    }

    fn draw_on(&self, area: &Area<'_>) -> Drawn {
        self.draw_axes(area)?;
        for rule in &self.rules {
            self.draw_rule(area, rule)?;
        }
        for series in &self.series {
            self.draw_series(area, series)?;
        }
        Ok(())
    }

    fn draw_axes(&self, area: &Area<'_>) -> Drawn {
        let (bottom, x_low, y_low) = (self.bottom(), self.x.ends().0, self.y.ends().0);
        let words = |text: String, at: (i32, i32), across: HPos, up: VPos| {
            put(area, &Text::new(text, at, font().color(&TEXT).pos(Pos::new(across, up))))
        };
        for tick in self.y.ticks(7) {
            let (_, y) = self.spot((x_low, tick));
            straight(area, [(LEFT, y), (RIGHT, y)], GRID, 2)?;
            words(self.y.label(tick), (LEFT - 16, y), HPos::Right, VPos::Center)?;
        }
        for tick in self.x.ticks(9) {
            let (x, _) = self.spot((tick, y_low));
            straight(area, [(x, TOP), (x, bottom)], GRID, 2)?;
            words(self.x.label(tick), (x, bottom + 14), HPos::Center, VPos::Top)?;
        }
        straight(area, [(LEFT, bottom), (RIGHT, bottom)], AXIS, 2)?;
        straight(area, [(LEFT, TOP), (LEFT, bottom)], AXIS, 2)?;
        words(self.y.caption.clone(), (20, 8), HPos::Left, VPos::Top)?;
        words(self.x.caption.clone(), (RIGHT, bottom + 58), HPos::Right, VPos::Top)
    }

    fn draw_rule(&self, area: &Area<'_>, rule: &Rule) -> Drawn {
        let ((x_low, x_high), (y_low, y_high)) = (self.x.ends(), self.y.ends());
        match rule {
            Rule::Upright(ink, value) => {
                let Some(at) = self.x.place(*value) else { return Ok(()) };
                dashed(area, [self.spot((at, y_low)), self.spot((at, y_high))], ink.colour())
            }
            Rule::Level(value, words) => {
                let Some(at) = self.y.place(*value) else { return Ok(()) };
                let right = self.spot((x_high, at));
                dashed(area, [self.spot((x_low, at)), right], RULE)?;
                let style = font().color(&TEXT).pos(Pos::new(HPos::Right, VPos::Bottom));
                put(area, &Text::new(words.clone(), (right.0, right.1 - 8), style))
            }
        }
    }

    fn draw_series(&self, area: &Area<'_>, series: &Series) -> Drawn {
        let placed: Vec<(f64, f64)> =
            series.points.iter().filter_map(|(x, y)| Some((self.x.place(*x)?, self.y.place(*y)?))).collect();
        let (low, high) = self.x.ends();
        let shown: Vec<(i32, i32)> = per_column(&placed, WIDTH as usize / 2, low, high)
            .into_iter()
            .map(|point| self.spot(point))
            .collect();
        let colour = series.ink.colour();
        if matches!(series.stroke, Stroke::Line | Stroke::MarkedLine) && shown.len() > 1 {
            put(area, &PathElement::new(shown.clone(), ShapeStyle::from(colour).stroke_width(LINE)))?;
        }
        if series.stroke == Stroke::Stems {
            for (x, y) in &shown {
                straight(area, [(*x, *y), (*x, self.bottom())], colour, 2)?;
            }
        }
        if series.stroke != Stroke::Line || shown.len() == 1 {
            for at in shown {
                mark(area, series.ink, at)?;
            }
        }
        Ok(())
    }
}

fn dashed(area: &Area<'_>, ends: [(i32, i32); 2], colour: RGBColor) -> Drawn {
    let style = ShapeStyle::from(colour.mix(1.0)).stroke_width(3);
    put(area, &DashedPathElement::new(ends, 12, 9, style))
}
