//! Colours of the pictures. Each series is drawn in a colour that belongs to it alone; style sheet rules on the
//! `stroke` and `fill` attributes turn it into the theme's colour, which works without scripts because presentation
//! attributes yield to any rule.
//!
//! Hues are those of M. Okabe and K. Ito, *Color Universal Design* (2008), which people with any colour vision tell
//! apart; dashes and markers repeat the distinction.

use std::fmt::Write as _;

use plotters::style::RGBColor;

/// Hue on white paper and on a dark screen.
const HUES: [([u8; 3], [u8; 3]); 7] = [
    ([0x00, 0x72, 0xB2], [0x5B, 0xB5, 0xEC]),
    ([0xD5, 0x5E, 0x00], [0xFF, 0x8F, 0x4D]),
    ([0x00, 0x9E, 0x73], [0x35, 0xCB, 0x9F]),
    ([0xCC, 0x79, 0xA7], [0xEB, 0xA4, 0xCA]),
    ([0xE6, 0x9F, 0x00], [0xF7, 0xC2, 0x4B]),
    ([0x56, 0xB4, 0xE9], [0x9A, 0xD4, 0xF6]),
    ([0x5A, 0x5A, 0x5A], [0xC4, 0xC4, 0xC4]),
];

/// Dashes of lines, in units of the large canvas.
const DASHES: [&str; 5] = ["none", "18 9", "5 8", "24 8 5 8", "12 5"];

/// Text in pictures.
pub const TEXT: RGBColor = RGBColor(0x2B, 0x2F, 0x36);
/// Lines of axes.
pub const AXIS: RGBColor = RGBColor(0x8B, 0x93, 0x9E);
/// Lines of the grid.
pub const GRID: RGBColor = RGBColor(0xE3, 0xE6, 0xEA);
/// Lines that mark a level or a reference.
pub const RULE: RGBColor = RGBColor(0x6B, 0x73, 0x7F);

/// Text on blocks of colour.
pub const PAPER: RGBColor = RGBColor(0xFD, 0xFE, 0xFF);

/// A platform's place in the order of the run; decides its colour, dash and marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ink(pub usize);

impl Ink {
    /// The colour it is drawn in; its own up to 224 platforms.
    pub fn colour(self) -> RGBColor {
        let ([red, green, blue], _) = HUES[self.0 % HUES.len()];
        // Another turn through the hues changes the lowest bits only, which nobody sees but the style sheet.
        let turn = u8::try_from(self.0 / HUES.len() % 32).unwrap_or(0);
        RGBColor(red, green, blue ^ turn)
    }

    /// The colour as it is written into the picture.
    pub fn hex(self) -> String {
        let RGBColor(red, green, blue) = self.colour();
        format!("#{red:02X}{green:02X}{blue:02X}")
    }
}

fn hex([red, green, blue]: [u8; 3]) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

/// Definitions of the series' colours for one theme: `--s0:#0072b2;…`.
pub fn variables(inks: usize, dark: bool) -> String {
    let mut css = String::new();
    for index in 0..inks {
        let (light_hue, dark_hue) = HUES[index % HUES.len()];
        let _ = write!(css, "--s{index}:{};", hex(if dark { dark_hue } else { light_hue }));
    }
    css
}

/// Rules that map what is drawn to the theme's variables.
pub fn rules(inks: usize) -> String {
    let mut css = String::new();
    for (colour, name) in [(TEXT, "ink"), (AXIS, "axis"), (GRID, "grid"), (RULE, "rule"), (PAPER, "paper")] {
        let RGBColor(red, green, blue) = colour;
        let code = format!("#{red:02X}{green:02X}{blue:02X}");
        let _ = write!(
            css,
            "svg [stroke=\"{code}\"]{{stroke:var(--{name})}}svg [fill=\"{code}\"]{{fill:var(--{name})}}"
        );
    }
    for index in 0..inks {
        let code = Ink(index).hex();
        let dash = DASHES[index % DASHES.len()];
        let _ = write!(
            css,
            "svg [stroke=\"{code}\"]{{stroke:var(--s{index})}}svg [fill=\"{code}\"]{{fill:var(--s{index})}}\
             svg polyline[stroke=\"{code}\"]{{stroke-dasharray:{dash}}}"
        );
    }
    css
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_platform_of_the_largest_experiment_has_a_colour_of_its_own() {
        let colours: BTreeSet<String> = (0..32).map(|index| Ink(index).hex()).collect();
        assert_eq!(colours.len(), 32);
        let reserved: Vec<String> = [TEXT, AXIS, GRID, RULE, PAPER]
            .iter()
            .map(|c| format!("#{:02X}{:02X}{:02X}", c.0, c.1, c.2))
            .collect();
        assert!(reserved.iter().all(|colour| !colours.contains(colour)));
    }
}
