//! What all pictures share: the canvas, its fonts, and the SVG element that carries title and role.

use std::fmt::Write as _;
use std::io;

use plotters::coord::Shift;
use plotters::drawing::{DrawingAreaErrorKind, IntoDrawingArea as _};
use plotters::element::{Circle, Cross, Drawable, PointCollection, Rectangle, TriangleMarker};
use plotters::prelude::{Color as _, DrawingArea, SVGBackend};
use plotters::style::{FontDesc, FontFamily, FontStyle, RGBColor, ShapeStyle};

use super::palette::Ink;

/// What is drawn on, in whole canvas coordinates.
pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
/// What comes of drawing on it.
pub(super) type Drawn = Result<(), DrawingAreaErrorKind<io::Error>>;

/// Width of the canvas. It is shown at half this size or less: coordinates are whole numbers, and twice the size
/// keeps curves smooth.
pub const WIDTH: u32 = 1520;
/// Size of text on the canvas: 15 px at the size it is meant to be seen.
pub const TEXT_SIZE: f64 = 29.0;
/// Width of series lines on the canvas.
pub const LINE: u32 = 4;

/// The font of all text.
pub fn font() -> FontDesc<'static> {
    FontDesc::new(FontFamily::SansSerif, TEXT_SIZE, FontStyle::Normal)
}

/// A picture, or why there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Picture {
    /// A complete `<svg>` element.
    Svg(String),
    /// Why nothing could be drawn.
    Nothing(String),
}

impl Picture {
    /// What `draw` draws on a canvas of this height, under this name.
    pub(super) fn of(height: u32, name: &str, draw: impl FnOnce(&Area<'_>) -> Drawn) -> Self {
        let mut drawn = String::new();
        let outcome = {
            let area = SVGBackend::with_string(&mut drawn, (WIDTH, height)).into_drawing_area();
            draw(&area).and_then(|()| area.present())
        };
        match outcome {
            Ok(()) => Self::dressed(&drawn, height, name),
            Err(reason) => Self::Nothing(format!("the picture could not be drawn: {reason}")),
        }
    }

    /// Dresses what the drawing library made: scalable, named for those who cannot see it.
    fn dressed(drawn: &str, height: u32, name: &str) -> Self {
        // The library writes one opening tag with fixed sizes; everything behind it is the drawing.
        let Some((_, drawing)) = drawn.split_once("<svg").and_then(|(_, rest)| rest.split_once('>')) else {
            return Self::Nothing("the drawing library made no picture".to_owned());
        };
        let (name, (font, drawing)) = (escape(name), slim(drawing));
        Self::Svg(format!(
            "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{name}\" \
             xmlns=\"http://www.w3.org/2000/svg\"{font}><title>{name}</title>{drawing}"
        ))
    }
}

/// What the library says of every element though it is so anyway is left out, and the font, the same for all text, is said once.
fn slim(drawing: &str) -> (&str, String) {
    const BEGINS: &str = " font-family=\"";
    let font = drawing.find(BEGINS).and_then(|at| {
        let rest = drawing.get(at..)?;
        let end = rest.find(" opacity=").or_else(|| rest.find(" fill="))?;
        rest.get(..end).filter(|font| !font.contains(['<', '>']))
    });
    let mut slim = drawing.lines().collect::<Vec<_>>().join("\n");
    for given in [" opacity=\"1\"", " stroke=\"none\""].into_iter().chain(font) {
        slim = slim.replace(given, "");
    }
    (font.unwrap_or_default(), joined(&slim.replace(">\n", ">").replace("\n<", "<")))
}

/// The library draws a dashed line as a line for each dash; those that follow each other in the same style become one path.
fn joined(drawing: &str) -> String {
    const BEGINS: &str = "<polyline ";
    let mut out = String::with_capacity(drawing.len());
    let mut open: Option<&str> = None;
    for (number, piece) in drawing.split(BEGINS).enumerate() {
        let dash = (number > 0).then(|| dash(piece)).flatten();
        if let Some((style, from, to, rest)) = dash {
            if open != Some(style) {
                out.push_str(if open.is_some() { "\"/>" } else { "" });
                out.push_str("<path ");
                out.push_str(style);
                out.push_str("d=\"");
            }
            let _ = write!(out, "M{from}L{to}");
            open = Some(style).filter(|_| rest.is_empty());
            out.push_str(if rest.is_empty() { "" } else { "\"/>" });
            out.push_str(rest);
            continue;
        }
        out.push_str(if open.take().is_some() { "\"/>" } else { "" });
        out.push_str(if number > 0 { BEGINS } else { "" });
        out.push_str(piece);
    }
    out.push_str(if open.is_some() { "\"/>" } else { "" });
    out
}

/// Style, both ends, and what follows, of a line with two points.
fn dash(piece: &str) -> Option<(&str, &str, &str, &str)> {
    let (style, rest) = piece.split_once("points=\"")?;
    let (points, rest) = rest.split_once("\"/>")?;
    let (from, to) = points.trim_end().split_once(' ')?;
    (!to.contains(' ') && !style.contains('<')).then_some((style, from, to, rest))
}

fn escape(text: &str) -> String {
    maud::html! { (text) }.into_string()
}

/// The platform's own kind of mark.
pub(super) fn mark(area: &Area<'_>, ink: Ink, at: (i32, i32)) -> Drawn {
    let colour = ink.colour();
    match ink.0 % 4 {
        0 => put(area, &Circle::new(at, 9, colour.filled())),
        1 => put(area, &TriangleMarker::new(at, 12, colour.filled())),
        2 => put(area, &Cross::new(at, 9, ShapeStyle::from(colour).stroke_width(5))),
        _ => put(area, &Circle::new(at, 9, ShapeStyle::from(colour).stroke_width(4))),
    }
}

/// An upright or level line.
pub(super) fn line(area: &Area<'_>, ends: [(i32, i32); 2], colour: RGBColor, width: u32) -> Drawn {
    // Upright and level lines are never dashed, so they are drawn as thin boxes, which the style sheet leaves alone.
    let half = i32::try_from(width / 2).unwrap_or(1);
    let [(x0, y0), (x1, y1)] = ends;
    let grown =
        if x0 == x1 { [(x0 - half, y0), (x1 + half, y1)] } else { [(x0, y0 - half), (x1, y1 + half)] };
    put(area, &Rectangle::new(grown, colour.filled()))
}

/// Draws one element.
pub(super) fn put<'e, 'b, E>(area: &Area<'b>, element: &'e E) -> Drawn
where
    &'e E: PointCollection<'e, (i32, i32)>,
    E: Drawable<SVGBackend<'b>>,
{
    area.draw(element)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dashes_of_a_line_become_one_path() {
        let dash = |stroke: &str, points: &str| {
            format!("<polyline fill=\"none\" stroke=\"{stroke}\" points=\"{points} \"/>")
        };
        let drawn = [
            dash("#1", "1,2 3,4"),
            dash("#1", "5,6 7,8"),
            dash("#2", "1,2 3,4"),
            "<rect/>".to_owned(),
            dash("#2", "5,6 7,8"),
            dash("#2", "1,2 3,4 5,6"),
            "<text>a</text>".to_owned(),
        ];
        assert_eq!(
            joined(&drawn.concat()),
            "<path fill=\"none\" stroke=\"#1\" d=\"M1,2L3,4M5,6L7,8\"/><path fill=\"none\" stroke=\"#2\" d=\"M1,2L3,4\"/><rect/>\
             <path fill=\"none\" stroke=\"#2\" d=\"M5,6L7,8\"/><polyline fill=\"none\" stroke=\"#2\" points=\"1,2 3,4 5,6 \"/>\
             <text>a</text>"
        );
        assert_eq!(joined("<rect/>"), "<rect/>");
    }

    #[test]
    fn the_font_is_said_once() {
        let (font, slim) = slim(
            "\n<text dy=\"1\" font-family=\"f\" font-size=\"2\" opacity=\"1\" fill=\"#1\">\na\n</text>\n\
                                 <text font-family=\"f\" font-size=\"2\" opacity=\"1\" fill=\"#1\">\nb\n</text>",
        );
        assert_eq!(font, " font-family=\"f\" font-size=\"2\"");
        assert_eq!(slim, "<text dy=\"1\" fill=\"#1\">a</text><text fill=\"#1\">b</text>");
    }
}
