//! "Fit for what?": for each class of work what would change the verdicts, and every condition by platforms: what it wants stands
//! once, `◂` marks the one that decides. The verdicts themselves are on the first screen.

use maud::{Markup, html};

use model::classes::{ClassVerdict, ConditionResult, Held, Suitability};
use model::results::RunResults;

use super::super::fit::{
    class_names, held_words, judged_platforms, short_words, suitability_mark, verdict_of, verdict_words,
    weight_words,
};
use super::anchor;
use super::notes::Notes;
use super::parts::{Folded, bounded, with_short_neighbours};

/// The section; left out when no class was asked about.
pub(super) fn section(results: &RunResults) -> Option<Folded> {
    if results.classes.is_empty() {
        return None;
    }
    let (classes, platforms) = (class_names(results), judged_platforms(results));
    let conditions = results.classes.iter().map(|verdict| verdict.conditions.len()).sum::<usize>();
    let line = format!(
        "{} classes of work on {} platforms, {conditions} conditions",
        classes.len(),
        platforms.len()
    );
    let body = html! {
        p {
            "A condition holds only when its whole 95 % interval lies on the good side of the bound; beside neighbours the worst \
             one counts. Classes are data: " code { "bulkhead classes" } " prints them, " code { "--classes FILE" }
            " replaces or adds."
        }
        @for class in &classes { (of_class(results, class, &platforms)) }
    };
    Some((line, body))
}

const fn tone(level: Suitability) -> &'static str {
    match level {
        Suitability::Suited => "free",
        Suitability::Limited => "costly",
        Suitability::Unsuited => "heavy",
        Suitability::Unknown => "unknown",
    }
}

/// A verdict, marked and coloured.
fn badge(verdict: &ClassVerdict) -> Markup {
    html! { span.badge.(tone(verdict.level)) { (suitability_mark(verdict.level)) " " (verdict_words(verdict)) } }
}

/// The same where there is little room.
pub(super) fn short_badge(verdict: &ClassVerdict) -> Markup {
    html! {
        span.badge.(tone(verdict.level)) title=(verdict_words(verdict)) {
            (suitability_mark(verdict.level)) " " (short_words(verdict))
        }
    }
}

/// A class: what would change each verdict, what was not measured, and every condition by platforms.
fn of_class(results: &RunResults, class: &str, platforms: &[String]) -> Markup {
    let verdicts: Vec<&ClassVerdict> =
        platforms.iter().filter_map(|platform| verdict_of(results, class, platform)).collect();
    let title = verdicts.first().map_or(class, |verdict| verdict.title.as_str());
    let mut notes = Notes::new(&anchor::class(class));
    let short = |text: &str| with_short_neighbours(results, &bounded(text));
    html! {
        h3 id=(anchor::class(class)) { (bounded(title)) " (" (bounded(class)) ")" }
        ul.verdicts {
            @for verdict in &verdicts {
                li { strong { (verdict.platform) } " " (badge(verdict)) " " (short(&verdict.would_change)) }
            }
        }
        (missing(&verdicts))
        (conditions(results, &verdicts, &mut notes))
        (notes.list())
    }
}

/// What was left out, and the command that measures all the class looks at, once for all that lack the same.
fn missing(verdicts: &[&ClassVerdict]) -> Markup {
    let mut told: Vec<(String, &str, Vec<&str>)> = Vec::new();
    for verdict in verdicts {
        let (Some(words), Some(command)) = (verdict.missing_words(), &verdict.measure_with) else { continue };
        match told.iter_mut().find(|(known, with, _)| *known == words && with == command) {
            Some((_, _, platforms)) => platforms.push(&verdict.platform),
            None => told.push((words, command, vec![&verdict.platform])),
        }
    }
    html! {
        @for (words, command, platforms) in told {
            p.small {
                @if platforms.len() < verdicts.len() { (platforms.join(", ")) ": " }
                (bounded(&words)) "; all it looks at is measured by " code { (bounded(command)) }
            }
        }
    }
}

/// Every condition of a class: what it wants once, what was measured by platform.
fn conditions(results: &RunResults, verdicts: &[&ClassVerdict], notes: &mut Notes) -> Markup {
    let count = verdicts.iter().map(|verdict| verdict.conditions.len()).max().unwrap_or(0);
    let rows: Vec<Markup> = (0..count).map(|at| condition(results, verdicts, at, notes)).collect();
    html! {
        table.figures.words {
            thead { tr { th scope="col" { "Condition" } @for verdict in verdicts { th scope="col" { (verdict.platform) } } } }
            tbody { @for row in rows { (row) } }
        }
    }
}

fn condition(results: &RunResults, verdicts: &[&ClassVerdict], at: usize, notes: &mut Notes) -> Markup {
    let all: Vec<Option<&ConditionResult>> =
        verdicts.iter().map(|verdict| verdict.conditions.get(at)).collect();
    let measured: Vec<&str> = all.iter().flatten().map(|condition| condition.measured.as_str()).collect();
    let figure = beginning(&measured).to_owned();
    let same_for_all = all.first().copied().flatten().filter(|first| {
        let is_same = |other: &&ConditionResult| other.held == first.held && other.measured == first.measured;
        all.len() > 1
            && at_no_verdict(verdicts, at)
            && all.iter().all(|other| other.as_ref().is_some_and(is_same))
    });
    if let Some(first) = same_for_all {
        let cell = held(results, first, "", false, notes);
        return html! {
            tr { th scope="row" { (wanted(results, first, "")) } td.why colspan=(all.len()) { (cell) } }
        };
    }
    let cells: Vec<Markup> = verdicts
        .iter()
        .zip(&all)
        .map(|(verdict, condition)| {
            let decides = decides(verdict, at);
            let cell = condition.map(|condition| held(results, condition, &figure, decides, notes));
            html! { td.why data-label=(verdict.platform) { @if let Some(cell) = cell { (cell) } } }
        })
        .collect();
    html! {
        tr {
            th scope="row" { @if let Some(first) = all.iter().flatten().next() { (wanted(results, first, &figure)) } }
            @for cell in cells { (cell) }
        }
    }
}

fn decides(verdict: &ClassVerdict, at: usize) -> bool {
    verdict.decided_by.and_then(|index| usize::try_from(index).ok()) == Some(at)
}

/// Whether a condition decides no platform's verdict.
fn at_no_verdict(verdicts: &[&ClassVerdict], at: usize) -> bool {
    verdicts.iter().all(|verdict| !decides(verdict, at))
}

fn wanted(results: &RunResults, condition: &ConditionResult, figure: &str) -> Markup {
    html! {
        (bounded(&condition.title))
        span.sub {
            (weight_words(condition.weight))
            @if let Some(number) = condition.requirement { ", requirement " (number) " of Danciu 2010" }
            ": " (bounded(&condition.bound))
        }
        @if !figure.is_empty() { span.sub { (with_short_neighbours(results, &bounded(figure.trim_end_matches([' ', ':'])))) } }
        span.sub { (bounded(&condition.why)) }
    }
}

/// Whether a condition holds, and what was measured without what all platforms have in common.
fn held(
    results: &RunResults,
    condition: &ConditionResult,
    figure: &str,
    decides: bool,
    notes: &mut Notes,
) -> Markup {
    let class = match condition.held {
        Held::Yes => "better",
        Held::No => "worse",
        Held::Unclear | Held::NotMeasured => "soft",
    };
    let rest = condition.measured.strip_prefix(figure).unwrap_or(&condition.measured);
    let (said, why) = rest.split_once(", because ").map_or((rest, None), |(said, why)| (said, Some(why)));
    html! {
        span.num.(class) { (held_words(condition.held)) } @if decides { " ◂" }
        span.sub {
            (with_short_neighbours(results, &bounded(said)))
            @if let Some(why) = why { (notes.refer(&with_short_neighbours(results, why))) }
        }
    }
}

/// The figure that all of these begin with, its colon included; nothing where they differ before it.
fn beginning<'a>(all: &[&'a str]) -> &'a str {
    let Some((first, rest)) = all.split_first() else { return "" };
    let ends = first.match_indices(": ").map(|(at, colon)| at + colon.len());
    let common =
        |end: &usize| first.get(..*end).is_some_and(|begin| rest.iter().all(|text| text.starts_with(begin)));
    ends.take_while(common).last().and_then(|end| first.get(..end)).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::beginning;

    #[test]
    fn what_all_platforms_have_in_common_is_said_once() {
        assert_eq!(beginning(&["gap: longest gap: 1 ms", "gap: longest gap: 2 ms"]), "gap: longest gap: ");
        assert_eq!(beginning(&["wakeup: none: x", "wakeup: late: y"]), "wakeup: ");
        assert_eq!(beginning(&["a", "b"]), "");
        assert_eq!(beginning(&[]), "");
        assert_eq!(
            beginning(&["disk was measured beside no neighbour: add one"]),
            "disk was measured beside no neighbour: "
        );
    }
}
