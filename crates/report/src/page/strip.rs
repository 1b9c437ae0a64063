//! Every round of a figure as a tick on a line: what an interval stands on, seen at a glance. All platforms of a figure, alone and
//! beside neighbours, share the line's ends, so that strips can be compared.

use std::fmt::Write as _;

use maud::{Markup, html};

/// Width of a strip in its own units.
const WIDTH: f64 = 120.0;
/// Height of a tick.
const HEIGHT: u32 = 8;
/// Values so far apart are shown on a logarithmic line.
const WIDE: f64 = 30.0;
/// Rounds whose values are kept in the page; results.json has all.
const MOST: usize = 400;

/// The ends of a line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Line {
    least: f64,
    most: f64,
    is_log: bool,
}

impl Line {
    /// The line that these values lie on; none without two different ones.
    pub(super) fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let mut ends: Option<(f64, f64)> = None;
        for value in values.filter(|value| value.is_finite()) {
            let (least, most) = ends.unwrap_or((value, value));
            ends = Some((least.min(value), most.max(value)));
        }
        let (least, most) = ends.filter(|(least, most)| least < most)?;
        Some(Self { least, most, is_log: least > 0.0 && most / least > WIDE })
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and the width")]
    fn place(&self, value: f64) -> Option<u32> {
        let share = if self.is_log {
            (value / self.least).ln() / (self.most / self.least).ln()
        } else {
            (value - self.least) / (self.most - self.least)
        };
        share.is_finite().then(|| (share.clamp(0.0, 1.0) * WIDTH).round() as u32)
    }
}

/// The ticks; nothing without a line.
pub(super) fn strip(line: Option<Line>, samples: &[(u32, f64)]) -> Markup {
    let mut places: Vec<u32> =
        line.iter().flat_map(|line| samples.iter().filter_map(|(_, value)| line.place(*value))).collect();
    places.sort_unstable();
    places.dedup();
    let mut path = String::new();
    for place in &places {
        let _ = write!(path, "M{} 0v{HEIGHT}", place + 1);
    }
    html! {
        @if !places.is_empty() {
            svg.strip viewBox="0 0 122 8" preserveAspectRatio="none" aria-hidden="true" { path d=(path) {} }
        }
    }
}

/// The values as the page's script reads them, `0:66120 1:70310`, in the figure's unit; the rounds are left out where they are 0, 1, 2 …
pub(super) fn values(samples: &[(u32, f64)]) -> String {
    let in_order = samples.iter().zip(0u32..).all(|((round, _), number)| *round == number);
    let text = |(round, value): &(u32, f64)| {
        if in_order { number(*value) } else { format!("{round}:{}", number(*value)) }
    };
    samples.iter().take(MOST).map(text).collect::<Vec<_>>().join(" ")
}

/// Four digits.
fn number(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        return "–".to_owned();
    }
    if !(1e-6..1e15).contains(&size) {
        return if value == 0.0 { "0".to_owned() } else { format!("{value:.3e}") };
    }
    let text = match size {
        _ if size >= 1000.0 => format!("{value:.0}"),
        _ if size >= 1.0 => format!("{value:.3}"),
        _ => format!("{value:.7}"),
    };
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_stand_where_their_values_are() {
        let line = Line::of([10.0, f64::NAN, 20.0].into_iter());
        let drawn =
            strip(line, &[(0, 10.0), (1, 15.0), (2, 20.0), (3, 20.0), (4, f64::INFINITY)]).into_string();
        assert!(drawn.contains("d=\"M1 0v8M61 0v8M121 0v8\""), "{drawn}");
        let log = Line::of([1.0, 10_000.0].into_iter()).unwrap();
        assert_eq!(log.place(100.0), Some(60));
        assert_eq!(Line::of([3.0, 3.0].into_iter()), None);
        assert_eq!(strip(None, &[(0, 1.0)]).into_string(), "");
    }

    #[test]
    fn values_keep_four_digits_and_rounds_only_where_some_are_missing() {
        assert_eq!(
            values(&[(0, 66_117.4), (1, 0.123_456_78), (2, 0.0), (3, 12.3)]),
            "66117 0.1234568 0 12.3"
        );
        assert_eq!(values(&[(1, 5.0), (7, f64::NAN)]), "1:5 7:–");
    }
}
