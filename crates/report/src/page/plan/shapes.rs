//! Shapes that know their size, put beside and into each other; sizes in CSS pixels.

use maud::{Markup, html};

use super::super::super::text::width;

/// Height of a line of small text.
pub(super) const LINE: u32 = 16;
/// Room between things, and inside a frame.
pub(super) const GAP: u32 = 6;

/// Something drawn, from its upper left corner.
pub(super) struct Shape {
    pub width: u32,
    pub height: u32,
    pub body: Markup,
}

/// A length as a size.
pub(super) fn size(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

/// About how wide a small text is.
pub(super) fn text_width(text: &str) -> u32 {
    size(width(text)).saturating_mul(7)
}

/// Side by side, in rows of at most so much width; a wider one has a row of its own.
pub(super) fn packed(shapes: Vec<Shape>, most: u32, gap: u32) -> Shape {
    let (mut x, mut y, mut row, mut wide) = (0_u32, 0_u32, 0_u32, 0_u32);
    let mut placed = Vec::with_capacity(shapes.len());
    for shape in shapes {
        if x > 0 && x + shape.width > most {
            (x, y, row) = (0, y + row + gap, 0);
        }
        let at = (x, y);
        row = row.max(shape.height);
        x += shape.width;
        wide = wide.max(x);
        x += gap;
        placed.push((at, shape));
    }
    let body = html! {
        @for ((x, y), shape) in &placed {
            @if *x == 0 && *y == 0 { (shape.body) } @else { g transform={ "translate(" (x) " " (y) ")" } { (shape.body) } }
        }
    };
    Shape { width: wide, height: y + row, body }
}

/// One below the other.
pub(super) fn stacked(shapes: Vec<Shape>, gap: u32) -> Shape {
    packed(shapes, 0, gap)
}

/// A line of text.
pub(super) fn line(text: &str, class: &str) -> Shape {
    Shape {
        width: text_width(text),
        height: LINE,
        body: html! { text class=(class) x="0" y="12" { (text) } },
    }
}

/// Put into a frame.
pub(super) fn framed(inside: &Shape, class: &str, title: &str) -> Shape {
    let (width, height) = (inside.width + 2 * GAP, inside.height + 2 * GAP);
    let body = html! {
        rect class=(class) x="0.5" y="0.5" width=(width) height=(height) rx="4" { title { (title) } }
        g transform={ "translate(" (GAP) " " (GAP) ")" } { (inside.body) }
    };
    Shape { width: width + 1, height: height + 1, body }
}

/// A part of a bar.
pub(super) struct Part {
    pub amount: u64,
    pub class: String,
    pub label: String,
    pub title: String,
}

/// A bar of so much in all, its parts from the left; what is left is free.
pub(super) fn bar(total: u64, parts: &[Part], width: u32) -> Shape {
    const HEIGHT: u32 = 14;
    let total = total.max(parts.iter().map(|part| part.amount).sum()).max(1);
    let across = |amount: u64| {
        u32::try_from(u128::from(amount) * u128::from(width) / u128::from(total)).unwrap_or(width)
    };
    let mut ends = 0_u64;
    let placed: Vec<(u32, u32, &Part)> = parts
        .iter()
        .filter(|part| part.amount > 0)
        .map(|part| {
            let from = across(ends);
            ends = ends.saturating_add(part.amount);
            (from, across(ends).saturating_sub(from).max(1), part)
        })
        .collect();
    let body = html! {
        rect.free x="0" y="0" width=(width) height=(HEIGHT) {}
        @for (x, wide, part) in placed {
            g {
                title { (part.title) }
                rect class=(part.class) x=(x) y="0" width=(wide) height=(HEIGHT) {}
                @if text_width(&part.label) < wide { text.tag x=(x + wide / 2) y="11" { (part.label) } }
            }
        }
    };
    Shape { width, height: HEIGHT, body }
}

/// A whole picture.
pub(super) fn picture(shape: &Shape, name: &str) -> Markup {
    let (width, height) = (shape.width + 2, shape.height + 2);
    html! {
        div.drawing {
            svg.plan viewBox={ "-1 -1 " (width) " " (height) } width=(width) height=(height) role="img" aria-label=(name)
                xmlns="http://www.w3.org/2000/svg" { title { (name) } (shape.body) }
        }
    }
}

/// The hatching that drawings refer to.
pub(super) fn patterns() -> Markup {
    html! {
        svg.defs width="0" height="0" aria-hidden="true" {
            defs {
                pattern #hatch width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)" {
                    rect.hatch-ground width="5" height="5" {}
                    rect.hatch-line width="1" height="5" {}
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn square(side: u32) -> Shape {
        Shape { width: side, height: side, body: html! { rect {} } }
    }

    #[test]
    fn rows_end_where_there_is_no_more_width() {
        let packed = packed(vec![square(10), square(10), square(30), square(5)], 25, 2);
        assert_eq!((packed.width, packed.height), (30, 10 + 2 + 30 + 2 + 5));
        assert!(packed.body.into_string().contains("translate(12 0)"));
    }

    #[test]
    fn a_bar_never_leaves_its_width() {
        let part =
            |amount| Part { amount, class: "c0".to_owned(), label: String::new(), title: "<b>".to_owned() };
        let text = bar(3, &[part(u64::MAX / 4), part(u64::MAX / 4)], 100).body.into_string();
        assert!(text.contains("x=\"50\" y=\"0\" width=\"50\""), "{text}");
        assert!(text.contains("&lt;b&gt;"), "{text}");
    }
}
