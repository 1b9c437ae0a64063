//! Fit for what? Classes of work by platforms, for the terminal: one table, then the line that decides each verdict.

use std::fmt::Write as _;

use model::classes::{ClassVerdict, Held, Suitability, Weight};
use model::results::RunResults;

use super::terminal::{Style, heading, tables_that_fit};
use super::text::{Paint, TextCell, TextTable, paragraph, printable};

/// Longest name that is shown whole.
const NAME_MOST: usize = 24;
/// Longest sentence that is shown whole.
const SENTENCE_MOST: usize = 400;
/// Longest command that is shown whole: it may name every probe.
const COMMAND_MOST: usize = 600;

/// The mark of a verdict, legible without colour.
pub(super) const fn suitability_mark(level: Suitability) -> &'static str {
    match level {
        Suitability::Suited => "=",
        Suitability::Limited => "+",
        Suitability::Unsuited => "!",
        Suitability::Unknown => "?",
    }
}

/// A verdict in two words.
pub(super) const fn suitability_words(level: Suitability) -> &'static str {
    match level {
        Suitability::Suited => "suited",
        Suitability::Limited => "with limits",
        Suitability::Unsuited => "unsuited",
        Suitability::Unknown => "undecided",
    }
}

/// A verdict with what an undecided one needs: `undecided (needs 40 s more)`.
pub(super) fn verdict_words(verdict: &ClassVerdict) -> String {
    let words = suitability_words(verdict.level);
    verdict.needs_words().map_or_else(|| words.to_owned(), |needs| format!("{words} (needs {needs} more)"))
}

/// Whether a condition holds, in words.
pub(super) const fn held_words(held: Held) -> &'static str {
    match held {
        Held::Yes => "holds",
        Held::No => "broken",
        Held::Unclear => "unclear",
        Held::NotMeasured => "not measured",
    }
}

/// What a condition means for its class, in words.
pub(super) const fn weight_words(weight: Weight) -> &'static str {
    match weight {
        Weight::Required => "required",
        Weight::Some => "one of these",
        Weight::Wanted => "wanted",
    }
}

/// Names of the classes, each once, in order.
pub(super) fn class_names(results: &RunResults) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for verdict in &results.classes {
        if !names.contains(&verdict.class) {
            names.push(verdict.class.clone());
        }
    }
    names
}

/// Platforms that have verdicts, in the run's order.
pub(super) fn judged_platforms(results: &RunResults) -> Vec<String> {
    let mut labels: Vec<String> = Vec::new();
    for verdict in &results.classes {
        if !labels.contains(&verdict.platform) {
            labels.push(verdict.platform.clone());
        }
    }
    labels
}

/// The verdict of a platform on a class.
pub(super) fn verdict_of<'a>(
    results: &'a RunResults,
    class: &str,
    platform: &str,
) -> Option<&'a ClassVerdict> {
    results.classes.iter().find(|verdict| verdict.class == class && verdict.platform == platform)
}

/// The same for a table: `needs 40 s`.
pub(super) fn short_words(verdict: &ClassVerdict) -> String {
    let needs = verdict.needs_words().map(|needs| format!("needs {needs}"));
    needs.unwrap_or_else(|| suitability_words(verdict.level).to_owned())
}

const fn paint(level: Suitability) -> Paint {
    match level {
        Suitability::Suited => Paint::Green,
        Suitability::Limited | Suitability::Unknown => Paint::Yellow,
        Suitability::Unsuited => Paint::Red,
    }
}

/// The table and the deciding lines; nothing when no class was asked about.
pub(super) fn classes(out: &mut String, results: &RunResults, style: Style) {
    if results.classes.is_empty() {
        return;
    }
    heading(out, "Fit for what?", style);
    let platforms = judged_platforms(results);
    let names = class_names(results);
    for table in tables_that_fit(&[], &names, style, |names| class_table(results, names, &platforms)) {
        out.push_str(&table.render(style.columns(), style.colour));
    }
    for class in &names {
        let _ = writeln!(out);
        let verdicts: Vec<&ClassVerdict> =
            results.classes.iter().filter(|verdict| verdict.class == *class).collect();
        for alike in alike(&verdicts) {
            line(out, &alike, style);
        }
        missing(out, &verdicts, style);
    }
}

/// Verdicts grouped by what they say, in the order of the first of each group.
fn alike<'a>(verdicts: &[&'a ClassVerdict]) -> Vec<Vec<&'a ClassVerdict>> {
    let mut groups: Vec<Vec<&ClassVerdict>> = Vec::new();
    for verdict in verdicts {
        let same = |group: &&mut Vec<&ClassVerdict>| {
            group.first().is_some_and(|first| {
                (first.level, &first.reason, &first.would_change, first.needs_words())
                    == (verdict.level, &verdict.reason, &verdict.would_change, verdict.needs_words())
            })
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.push(verdict),
            None => groups.push(vec![verdict]),
        }
    }
    groups
}

/// The table of verdicts.
pub(super) fn class_table(results: &RunResults, names: &[String], platforms: &[String]) -> TextTable {
    let head = names.iter().map(|name| TextCell { text: printable(name, NAME_MOST), paint: Paint::Bold });
    let mut table = TextTable::default();
    table.rows.push(std::iter::once(TextCell::default()).chain(head).collect());
    for platform in platforms {
        let cells = names.iter().map(|class| match verdict_of(results, class, platform) {
            None => TextCell::plain("-"),
            Some(verdict) => TextCell {
                text: format!("{} {}", suitability_mark(verdict.level), short_words(verdict)),
                paint: paint(verdict.level),
            },
        });
        let label = TextCell::plain(printable(platform, NAME_MOST));
        table.rows.push(std::iter::once(label).chain(cells).collect());
    }
    table
}

/// What decides, and for platforms that are unsuited what would change it.
fn line(out: &mut String, alike: &[&ClassVerdict], style: Style) {
    let Some(verdict) = alike.first() else { return };
    let labels: Vec<String> = alike.iter().map(|verdict| printable(&verdict.platform, NAME_MOST)).collect();
    let text = format!(
        "{} on {}: {}: {}",
        printable(&verdict.class, NAME_MOST),
        labels.join(", "),
        verdict_words(verdict),
        printable(&verdict.reason, SENTENCE_MOST)
    );
    let first = format!("  {}  ", suitability_mark(verdict.level));
    for line in paragraph(&first, &text, style.columns()).lines() {
        let _ = writeln!(out, "{}", paint(verdict.level).on(line, style.colour));
    }
    if verdict.level == Suitability::Unsuited {
        let change = printable(&verdict.would_change, SENTENCE_MOST);
        out.push_str(&paragraph("     -> ", &change, style.columns()));
    }
}

/// What was left out of a class, once for all platforms that lack the same, and the command that measures it all.
fn missing(out: &mut String, verdicts: &[&ClassVerdict], style: Style) {
    let mut told: Vec<String> = Vec::new();
    for verdict in verdicts {
        let (Some(words), Some(command)) = (verdict.missing_words(), &verdict.measure_with) else { continue };
        if told.contains(&words) {
            continue;
        }
        let lack = |other: &&&ClassVerdict| other.missing == verdict.missing;
        let labels: Vec<String> =
            verdicts.iter().filter(lack).map(|verdict| printable(&verdict.platform, NAME_MOST)).collect();
        let on =
            if labels.len() == verdicts.len() { String::new() } else { format!(" on {}", labels.join(", ")) };
        let class = printable(&verdict.class, NAME_MOST);
        let text =
            format!("{class}{on}: {}; this measures all it looks at:", printable(&words, SENTENCE_MOST));
        out.push_str(&paragraph("  ?  ", &text, style.columns()));
        out.push_str(&command_lines(&printable(command, COMMAND_MOST), style.columns()));
        told.push(words);
    }
}

/// A command over as many lines as it takes; they can be pasted as they are.
fn command_lines(command: &str, columns: usize) -> String {
    const INDENT: usize = 8;
    let most = columns.saturating_sub(INDENT + 2).max(20);
    let mut lines: Vec<String> = Vec::new();
    for (number, option) in command.split(" --").enumerate() {
        // An option stays with its value.
        let option = if number == 0 { option.to_owned() } else { format!("--{option}") };
        match lines.last_mut() {
            Some(line) if line.len() + 1 + option.len() <= most => {
                line.push(' ');
                line.push_str(&option);
            }
            _ => lines.push(option),
        }
    }
    let lead = " ".repeat(INDENT);
    format!("{lead}{}\n", lines.join(&format!(" \\\n{lead}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_command_can_be_pasted() {
        assert_eq!(command_lines("a b", 80), "        a b\n");
        let lines = command_lines("bulkhead measure --experiment full --probe linpack --probe mpi", 50);
        assert!(lines.lines().all(|line| line.len() <= 50), "{lines}");
        let pasted = lines.replace(" \\\n", " ");
        assert!(lines.lines().all(|line| !line.ends_with("--probe \\")), "{lines}");
        let words: Vec<&str> = pasted.split_whitespace().collect();
        assert_eq!(words.join(" "), "bulkhead measure --experiment full --probe linpack --probe mpi");
    }
}
