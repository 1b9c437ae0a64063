//! A verification on a terminal: the answer, then what fails, what is not decided and what was not tested, and why. 80 columns,
//! legible without colour. Its words are the page's, too.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use model::verification::{RequirementResult, RequirementVerdict, Verification};
use units::metric::Unit;

use super::terminal::Style;
use super::text::{Paint, TextCell, TextTable, paragraph};

/// Lines that are shown of each verdict unless all are wanted.
const MOST_LINES: usize = 6;
/// Longest id, with blanks around it, that stands beside its sentence; a longer one has a line of its own.
const LONGEST_BESIDE: usize = 34;
/// Longest sentence that is shown whole.
const SENTENCE_MOST: usize = 300;

/// A text of a file or guest as it may be shown.
pub(crate) fn printable(text: &str) -> String {
    super::text::printable(text, SENTENCE_MOST)
}

/// The answer: `2 of 41 requirements fail, 3 are undecided, 36 hold.`
pub(crate) fn headline(verification: &Verification) -> String {
    let of = verification.requirements.len();
    let count = |verdict| verification.count(verdict);
    let parts: Vec<String> = [
        (RequirementVerdict::Fail, "fails", "fail"),
        (RequirementVerdict::Undecided, "is undecided", "are undecided"),
        (RequirementVerdict::Stale, "is stale", "are stale"),
        (RequirementVerdict::NotRun, "was not run", "were not run"),
    ]
    .into_iter()
    .map(|(verdict, one, more)| (count(verdict), one, more))
    .filter(|(number, ..)| *number > 0)
    .enumerate()
    .map(|(at, (number, one, more))| {
        let of = if at == 0 { format!(" of {of} requirements") } else { String::new() };
        format!("{number}{of} {}", if number == 1 { one } else { more })
    })
    .collect();
    let tail = untested(verification);
    let whole = if verification.is_whole { "" } else { " It was interrupted." };
    let passed = count(RequirementVerdict::Pass);
    if parts.is_empty() {
        let some = if passed == of { format!("All {of}") } else { format!("{passed} of {of}") };
        return format!("{some} requirements hold{tail}.{whole}");
    }
    let hold = match passed {
        0 => "none holds".to_owned(),
        1 => "1 holds".to_owned(),
        passed => format!("{passed} hold"),
    };
    format!("{}, {hold}{tail}.{whole}", parts.join(", "))
}

/// What cannot be tested, and what cannot because a part of it cannot.
fn untested(verification: &Verification) -> String {
    let all = verification.requirements.iter().filter(|one| one.verdict == RequirementVerdict::NotApplicable);
    let (own, whole): (Vec<_>, Vec<_>) = all.partition(|one| one.requirement.not_tested.is_some());
    match (own.len(), whole.len()) {
        (0, 0) => String::new(),
        (own, 0) => format!("; {own} cannot be tested"),
        (own, whole) => format!("; {own} cannot be tested, nor {whole} as a whole"),
    }
}

/// Whom a requirement is about, in words.
pub(crate) fn subject(one: &RequirementResult) -> String {
    printable(&one.requirement.subject().to_string())
}

/// What must hold, in words: metric and limit.
pub(crate) fn demand(one: &RequirementResult) -> String {
    match &one.requirement.metric {
        Some(metric) => format!("{metric} {}", printable(&one.requirement.limit_words())),
        None => String::new(),
    }
}

/// Under what it must hold.
pub(crate) fn condition(one: &RequirementResult) -> String {
    let failure =
        one.requirement.failure.as_ref().map(|failure| {
            format!("while {failure} {}", if failure.all().len() > 1 { "fail" } else { "fails" })
        });
    let load = one.requirement.load.as_ref().map(ToString::to_string);
    printable(&failure.or(load).unwrap_or_default())
}

/// A value with its interval.
pub(crate) fn value(one: &RequirementResult) -> String {
    let Some(judged) = &one.direct else { return String::new() };
    let unit = one.unit.unwrap_or(Unit::Count);
    match (judged.value, judged.low, judged.high) {
        (Some(value), Some(low), Some(high)) => {
            format!("{} [{} … {}]", unit.format(value), unit.format(low), unit.format(high))
        }
        (Some(value), ..) => unit.format(value),
        (None, ..) => String::new(),
    }
}

/// A value alone.
fn point(one: &RequirementResult) -> String {
    let value = one.direct.as_ref().and_then(|judged| judged.value);
    value.map(|value| one.unit.unwrap_or(Unit::Count).format(value)).unwrap_or_default()
}

/// How far the safe end is from the limit.
pub(crate) fn margin(one: &RequirementResult) -> String {
    let margin = one.direct.as_ref().and_then(|judged| judged.margin_percent);
    margin.map(|margin| format!("{margin:+.0} %")).unwrap_or_default()
}

/// Why it is what it is; of one that only has parts, which of them are as bad.
pub(crate) fn reason(one: &RequirementResult, verification: &Verification) -> String {
    let own = one.direct.as_ref().filter(|judged| judged.verdict == one.verdict);
    if let Some(judged) = own {
        return printable(&judged.reason);
    }
    let parts =
        verification.requirements.iter().filter(|part| part.requirement.parent.as_deref() == Some(&one.id));
    let as_bad: Vec<String> =
        parts.filter(|part| part.verdict == one.verdict).map(|part| printable(&part.id)).collect();
    if as_bad.is_empty() { String::new() } else { printable(&format!("because of {}", as_bad.join(", "))) }
}

/// Requirements as a tree: each behind the one that it is a part of, with its depth.
pub(crate) fn tree(verification: &Verification) -> Vec<(usize, &RequirementResult)> {
    let mut parts: BTreeMap<Option<&str>, Vec<&RequirementResult>> = BTreeMap::new();
    for one in &verification.requirements {
        parts.entry(one.requirement.parent.as_deref()).or_default().push(one);
    }
    let (mut all, mut next) = (Vec::new(), Vec::new());
    let push = |next: &mut Vec<_>, parent: Option<&str>, depth: usize| {
        next.extend(parts.get(&parent).into_iter().flatten().rev().map(|one| (depth, *one)));
    };
    push(&mut next, None, 0);
    while let Some((depth, one)) = next.pop() {
        // What a forged file makes of circles ends here.
        if all.len() >= verification.requirements.len() {
            break;
        }
        all.push((depth, one));
        push(&mut next, Some(&one.id), depth + 1);
    }
    all
}

const fn paint(verdict: RequirementVerdict) -> Paint {
    match verdict {
        RequirementVerdict::Pass => Paint::Green,
        RequirementVerdict::Fail => Paint::Red,
        RequirementVerdict::Undecided | RequirementVerdict::Stale | RequirementVerdict::NotRun => {
            Paint::Yellow
        }
        RequirementVerdict::NotApplicable => Paint::None,
    }
}

/// One screen of it, or with every requirement.
pub fn screen(verification: &Verification, style: Style, full: bool) -> String {
    let columns = style.columns();
    let worst =
        verification.requirements.iter().map(|one| one.verdict).max().unwrap_or(RequirementVerdict::NotRun);
    let title = format!("{}: {}", printable(&verification.set), headline(verification));
    let mut out = paint(worst).on(&paragraph("", &title, columns), style.colour);
    if !out.ends_with('\n') {
        out.push('\n');
    }
    if full {
        out.push('\n');
        out.push_str(&table(verification, columns, style.colour));
    }
    for verdict in [
        RequirementVerdict::Fail,
        RequirementVerdict::Undecided,
        RequirementVerdict::Stale,
        RequirementVerdict::NotRun,
        RequirementVerdict::NotApplicable,
    ] {
        list(&mut out, verification, verdict, style, full);
    }
    let passed = verification.requirements.iter().filter(|one| one.verdict == RequirementVerdict::Pass);
    let narrow = passed.filter_map(|one| Some((one.direct.as_ref()?.margin_percent?, one)));
    if let Some((least, one)) = narrow.min_by(|a, b| a.0.total_cmp(&b.0)) {
        let line = format!(
            "The narrowest margin of what holds: {least:.0} % ({}: {})",
            printable(&one.id),
            demand(one)
        );
        let _ = writeln!(out, "\n{}", paragraph("", &line, columns).trim_end());
    }
    out
}

/// Those whose own test has this verdict; who only inherits it is told by its parts.
fn list(
    out: &mut String,
    verification: &Verification,
    verdict: RequirementVerdict,
    style: Style,
    full: bool,
) {
    let has = |one: &&RequirementResult| one.direct.as_ref().is_some_and(|judged| judged.verdict == verdict);
    let all: Vec<&RequirementResult> = verification.requirements.iter().filter(has).collect();
    if all.is_empty() {
        return;
    }
    let title = format!("\n{}\n", verdict.as_str().to_uppercase());
    out.push_str(&paint(verdict).on(&title, style.colour));
    let most = if full { usize::MAX } else { MOST_LINES };
    for one in all.iter().take(most) {
        let mut text = demand(one);
        if text.is_empty() {
            text = printable(one.requirement.text.trim_end_matches('.'));
        }
        let under = condition(one);
        if !under.is_empty() {
            let _ = write!(text, ", {under}");
        }
        let _ = write!(text, ": {}", reason(one, verification));
        let mut id = format!("  {}  ", printable(&one.id));
        if id.chars().count() > LONGEST_BESIDE {
            let _ = writeln!(out, "{}", id.trim_end());
            "      ".clone_into(&mut id);
        }
        out.push_str(&paragraph(&id, &text, style.columns()));
        if !out.ends_with('\n') {
            out.push('\n');
        }
    }
    if all.len() > most {
        let _ = writeln!(out, "  and {} more: --full", all.len() - most);
    }
}

fn table(verification: &Verification, columns: usize, colour: bool) -> String {
    let mut table = TextTable { rows: Vec::new(), first_least: 30 };
    let head = ["requirement", "value", "margin", "verdict"];
    table.rows.push(head.map(|text| TextCell { text: text.to_owned(), paint: Paint::Bold }).to_vec());
    for (depth, one) in tree(verification) {
        let title = format!("{}{} {}", "  ".repeat(depth.min(6)), printable(&one.id), demand(one));
        table.rows.push(vec![
            TextCell::plain(title.trim_end()),
            TextCell::plain(point(one)),
            TextCell::plain(margin(one)),
            TextCell { text: one.verdict.as_str().to_owned(), paint: paint(one.verdict) },
        ]);
    }
    table.render(columns, colour)
}

#[cfg(test)]
pub(crate) mod tests;
