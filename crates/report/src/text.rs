//! Plain text for terminals: hostile characters made harmless, wrapping, tables with wrapping first columns.
//!
//! Width is counted in columns, as wcwidth(3) does: letters of wide scripts take two, marks that combine none.

use std::fmt::Write as _;

use unicode_width::UnicodeWidthChar;

/// Text that cannot steer a terminal: control and direction-changing characters become `�`, line ends a space; cut
/// off with `…` after `most` characters or columns.
pub fn printable(text: &str, most: usize) -> String {
    let clean = |c: char| match c {
        '\n' | '\r' | '\t' => ' ',
        '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' | '\u{FEFF}' => {
            '\u{FFFD}'
        }
        c if c.is_control() => '\u{FFFD}',
        c => c,
    };
    let clean: String = text.chars().take(most.saturating_add(1)).map(clean).collect();
    if clean.chars().count() <= most && width(&clean) <= most {
        return clean;
    }
    let (kept, _) = split(&clean, most.saturating_sub(1));
    let kept: String = kept.chars().take(most.saturating_sub(1)).collect();
    kept + "…"
}

/// The text for a terminal that knows only ASCII: marks become letters and signs, width stays the same for all but `…`
/// and `→`; any other character becomes `?`.
pub fn ascii(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if c.is_ascii() => out.push(c),
            '…' => out.push_str(".."),
            '→' => out.push_str("->"),
            '×' | '✗' => out.push('x'),
            '─' | '–' | '−' => out.push('-'),
            '≤' => out.push_str("<="),
            '≥' => out.push_str(">="),
            '·' => out.push('.'),
            'µ' | 'μ' => out.push('u'),
            '▼' => out.push('v'),
            '▲' => out.push('^'),
            '◆' => out.push('*'),
            '±' => out.push('~'),
            '“' | '”' => out.push('"'),
            '’' => out.push('\''),
            _ => out.push('?'),
        }
    }
    out
}

/// Number of columns a text takes.
pub fn width(text: &str) -> usize {
    text.chars().map(columns_of).sum()
}

fn columns_of(c: char) -> usize {
    c.width().unwrap_or(1)
}

/// What of a text fits in so many columns, and the rest.
pub fn split(text: &str, columns: usize) -> (&str, &str) {
    let mut taken = 0;
    let at = text.char_indices().find(|(_, c)| {
        taken += columns_of(*c);
        taken > columns
    });
    text.split_at(at.map_or(text.len(), |(at, _)| at))
}

/// Breaks a text at spaces so that no line is wider than `columns`, two at least; longer words are cut.
pub fn wrap(text: &str, columns: usize) -> Vec<String> {
    let columns = columns.max(2);
    let mut lines = Vec::new();
    let mut line = String::new();
    for mut word in text.split_whitespace() {
        if !line.is_empty() && width(&line) + 1 + width(word) > columns {
            lines.push(std::mem::take(&mut line));
        }
        while width(word) > columns {
            let (part, rest) = split(word, columns);
            lines.push(part.to_owned());
            word = rest;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if !line.is_empty() || lines.is_empty() {
        lines.push(line);
    }
    lines
}

/// A paragraph: the first line begins with `first`, the others with as many spaces.
pub fn paragraph(first: &str, text: &str, columns: usize) -> String {
    let indent = width(first);
    let mut out = String::new();
    for (number, line) in wrap(text, columns.saturating_sub(indent).max(20)).iter().enumerate() {
        let lead = if number == 0 { first.to_owned() } else { " ".repeat(indent) };
        let _ = writeln!(out, "{}", format!("{lead}{line}").trim_end());
    }
    out
}

/// A cell of a table: what it says, and the colour it says it in.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TextCell {
    /// What it says.
    pub text: String,
    /// Colour, used only when the style has colour.
    pub paint: Paint,
}

impl TextCell {
    /// A cell without colour.
    pub fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), paint: Paint::None }
    }
}

/// The few colours the terminal report uses; each only repeats what a word or mark already says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Paint {
    /// The terminal's own.
    #[default]
    None,
    /// Headings.
    Bold,
    /// Good news.
    Green,
    /// Something to look at.
    Yellow,
    /// Bad news.
    Red,
}

impl Paint {
    /// The text in this colour.
    pub fn on(self, text: &str, colour: bool) -> String {
        let code = match self {
            Self::None => return text.to_owned(),
            Self::Bold => "1",
            Self::Green => "32",
            Self::Yellow => "33",
            Self::Red => "31",
        };
        if colour { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

/// A table whose first column takes what the others leave and wraps; the others are as wide as they need.
#[derive(Debug, Clone, Default)]
pub struct TextTable {
    /// Rows; the first is the head.
    pub rows: Vec<Vec<TextCell>>,
    /// How wide the first column is at least, as far as it has so much to say.
    pub first_least: usize,
}

const BETWEEN: usize = 1;
const FIRST_COLUMN_LEAST: usize = 13;

impl TextTable {
    fn column_widths(&self, columns: usize) -> Vec<usize> {
        let count = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let needed = |index: usize| {
            self.rows.iter().filter_map(|row| row.get(index)).map(|cell| width(&cell.text)).max().unwrap_or(0)
        };
        let mut widths: Vec<usize> = (0..count).map(needed).collect();
        let others: usize = widths.iter().skip(1).map(|width| width + BETWEEN).sum();
        if let Some(first) = widths.first_mut() {
            *first =
                (*first).min(columns.saturating_sub(others).max(self.first_least.max(FIRST_COLUMN_LEAST)));
        }
        widths
    }

    /// The width of the whole table when `columns` are wanted; larger when they do not suffice.
    pub fn total_width(&self, columns: usize) -> usize {
        let widths = self.column_widths(columns);
        widths.iter().sum::<usize>() + BETWEEN * widths.len().saturating_sub(1)
    }

    /// The table as text with a rule below its head.
    pub fn render(&self, columns: usize, colour: bool) -> String {
        let widths = self.column_widths(columns);
        let mut out = String::new();
        for (number, row) in self.rows.iter().enumerate() {
            render_row(&mut out, row, &widths, colour);
            if number == 0 {
                let _ = writeln!(out, "{}", "─".repeat(self.total_width(columns)));
            }
        }
        out
    }
}

fn render_row(out: &mut String, row: &[TextCell], widths: &[usize], colour: bool) {
    let first_width = widths.first().copied().unwrap_or(FIRST_COLUMN_LEAST);
    let Some((first, others)) = row.split_first() else { return };
    let indent = width(&first.text) - width(first.text.trim_start());
    let lines = wrap(&first.text, first_width.saturating_sub(indent));
    for (number, line) in lines.iter().enumerate() {
        let text = format!("{}{line}", " ".repeat(indent));
        let fill = first_width.saturating_sub(width(&text));
        out.push_str(&first.paint.on(&text, colour));
        // The figures stand beside the last line of a wrapped title, where the eye ends up.
        if number + 1 == lines.len() && !others.is_empty() {
            out.push_str(&" ".repeat(fill));
            for (index, (cell, width_wanted)) in others.iter().zip(widths.iter().skip(1)).enumerate() {
                let fill = width_wanted.saturating_sub(width(&cell.text));
                let last = index + 1 == others.len();
                let text = if last { cell.text.trim_end() } else { cell.text.as_str() };
                out.push_str(&" ".repeat(BETWEEN + fill));
                out.push_str(&cell.paint.on(text, colour));
            }
        }
        let end = out.trim_end_matches(' ').len();
        out.truncate(end);
        out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn escape_sequences_lose_their_power() {
        assert_eq!(printable("\u{1b}[2Jgone\u{202E}", 40), "\u{FFFD}[2Jgone\u{FFFD}");
        assert_eq!(printable("abcdef", 4), "abc…");
        assert_eq!(printable("abcd", 4), "abcd");
    }

    #[test]
    fn wide_letters_take_two_columns_and_combining_ones_none() {
        assert_eq!((width("要求 1"), width("e\u{301}"), width("12 µs × …")), (6, 1, 9));
        assert_eq!(printable("要求要求", 6), "要求…");
        assert_eq!(printable("要求", 4), "要求");
        assert_eq!(printable(&"\u{301}".repeat(9), 4).chars().count(), 4);
        assert_eq!(wrap("要求要求 x", 5), ["要求", "要求", "x"]);
    }

    #[test]
    fn marks_survive_in_ascii() {
        assert_eq!(
            ascii("gap ▼ 1.9 × · 12 µs ± 3 % [1…2] ─ é ≤ 2 ≥"),
            "gap v 1.9 x . 12 us ~ 3 % [1..2] - ? <= 2 >="
        );
    }

    proptest! {
        #[test]
        fn wrapped_lines_fit_and_lose_nothing(text in "[a-z é要]{0,200}", columns in 2usize..40) {
            let lines = wrap(&text, columns);
            prop_assert!(lines.iter().all(|line| width(line) <= columns), "{lines:?}");
            let letters = |text: &str| text.chars().filter(|c| *c != ' ').collect::<String>();
            prop_assert_eq!(letters(&lines.concat()), letters(&text));
        }
    }

    #[test]
    fn the_first_column_gives_way() {
        let row = |first: &str, second: &str| vec![TextCell::plain(first), TextCell::plain(second)];
        let rows = vec![row("", "native"), row("a rather long title of a row", "12 ms")];
        let table = TextTable { rows, ..TextTable::default() };
        assert_eq!(
            table.render(22, false),
            "                native\n──────────────────────\na rather long\ntitle of a row   12 ms\n"
        );
    }
}
