//! `verify.html`: what was not tested comes first, then what fails, then every requirement with its test, value and margin. One file,
//! no request, every text escaped.
//!
//! ```text
//!  Verification ─► answer · not tested, and why · what fails · by requirement · by test · by subject · what changed · what it rests on
//! ```

use std::collections::BTreeMap;

use maud::{Markup, html};

use model::requirement::Comparator;
use model::verification::{RequirementResult, RequirementVerdict, TestSpec, Verification};
use units::Nanos;

use super::super::utc::format_utc;
use super::super::verification::{
    condition, demand, headline, margin, printable, reason, subject, tree, value,
};
use super::document::{Section, page};
use super::parts::{fold, scrolling};

/// Requirements that are named in a cell; more are counted.
const MOST_NAMED: usize = 40;
/// Changes that are shown of a result that is stale; more are counted.
const MOST_CHANGES: usize = 4;
/// Requirements and tests that stand open.
const MOST_OPEN: usize = 200;
/// Deepest indent that is drawn.
const DEEPEST: usize = 6;

/// The page of a verification.
pub fn html(verification: &Verification) -> String {
    let sections = [
        Section::open("summary", "Summary", Some(summary(verification))),
        Section::open("untested", "Not tested, or not decided, and why", untested(verification)),
        Section::open("fails", "What fails", fails(verification)),
        Section::open("requirements", "By requirement", Some(requirements(verification))),
        Section::open("tests", "By test", Some(tests(verification))),
        Section::open("subjects", "By partition", Some(subjects(verification))),
        Section::open("history", "What changed since", history(verification)),
        Section::open("basis", "What it rests on", Some(basis(verification))),
    ];
    let title = format!("Bulkhead: verification of {}", printable(&verification.set));
    page(&title, &header(verification), &sections, 0)
}

fn header(verification: &Verification) -> Markup {
    html! {
        header {
            div {
                h1 { "Verification of " (printable(&verification.set)) }
                p.soft {
                    (format_utc(verification.started_unix_ns)) ", took " (seconds(verification.took_ns))
                    ", Bulkhead " (printable(&verification.bulkhead_version))
                }
            }
            button #theme type="button" hidden { "Light / dark" }
        }
    }
}

fn seconds(time: Nanos) -> String {
    let whole = time.to_duration().as_secs();
    if whole >= 120 { format!("{} min {} s", whole / 60, whole % 60) } else { time.to_string() }
}

/// Class of a verdict: its tone.
const fn tone(verdict: RequirementVerdict) -> &'static str {
    match verdict {
        RequirementVerdict::Pass => "free",
        RequirementVerdict::Fail => "heavy",
        RequirementVerdict::Undecided | RequirementVerdict::Stale => "costly",
        RequirementVerdict::NotRun | RequirementVerdict::NotApplicable => "unknown",
    }
}

fn badge(verdict: RequirementVerdict) -> Markup {
    html! { span.badge.(tone(verdict)) { (verdict.as_str()) } }
}

fn summary(verification: &Verification) -> Markup {
    let worst =
        verification.requirements.iter().map(|one| one.verdict).max().unwrap_or(RequirementVerdict::NotRun);
    html! {
        div.banner.(tone(worst)) { strong { (headline(verification)) } }
        p {
            @for verdict in RequirementVerdict::ALL.iter().rev() {
                @let count = verification.count(*verdict);
                @if count > 0 { (badge(*verdict)) " " (count) "   " }
            }
        }
    }
}

fn anchor(id: &str) -> String {
    format!("r-{id}")
}

fn link(id: &str) -> Markup {
    html! { a href={ "#" (anchor(id)) } { (printable(id)) } }
}

/// Rows of a table of requirements with why.
fn with_reasons(verification: &Verification, all: &[&RequirementResult], label: &str) -> Markup {
    scrolling(
        label,
        &html! {
            table.words {
                thead { tr { th { "requirement" } th { "what" } th { "verdict" } th { "why" } } }
                tbody {
                    @for one in all {
                        tr {
                            th scope="row" { (link(&one.id)) }
                            td.why { (printable(&one.requirement.text)) span.sub { (demand(one)) } }
                            td { (badge(one.verdict)) }
                            td.why {
                                (reason(one, verification))
                                @for change in one.changed.iter().take(MOST_CHANGES) {
                                    span.sub { (printable(&change.what)) ": " (printable(&change.was)) " → " (printable(&change.is)) }
                                }
                                @if one.changed.len() > MOST_CHANGES { span.sub { "and " (one.changed.len() - MOST_CHANGES) " more" } }
                            }
                        }
                    }
                }
            }
        },
    )
}

/// The first of very many stand open.
fn of_many(verification: &Verification, all: &[&RequirementResult], label: &str) -> Markup {
    let (first, rest) = all.split_at(all.len().min(MOST_OPEN));
    html! {
        (with_reasons(verification, first, label))
        @if !rest.is_empty() { (fold(&format!("{} more", rest.len()), &with_reasons(verification, rest, label))) }
    }
}

/// Whose own test has one of these verdicts, the worst first.
fn own<'a>(verification: &'a Verification, verdicts: &[RequirementVerdict]) -> Vec<&'a RequirementResult> {
    let verdict = |one: &RequirementResult| one.direct.as_ref().map(|judged| judged.verdict);
    let mut all: Vec<&RequirementResult> = verification
        .requirements
        .iter()
        .filter(|one| verdict(one).is_some_and(|verdict| verdicts.contains(&verdict)))
        .collect();
    all.sort_by_key(|one| std::cmp::Reverse(verdict(one)));
    all
}

fn untested(verification: &Verification) -> Option<Markup> {
    let all = own(
        verification,
        &[
            RequirementVerdict::Undecided,
            RequirementVerdict::Stale,
            RequirementVerdict::NotRun,
            RequirementVerdict::NotApplicable,
        ],
    );
    (!all.is_empty()).then(|| of_many(verification, &all, "What was not tested"))
}

fn fails(verification: &Verification) -> Option<Markup> {
    let all = own(verification, &[RequirementVerdict::Fail]);
    (!all.is_empty()).then(|| of_many(verification, &all, "What fails"))
}

/// One table; of very many requirements one for each of the outermost, folded, so that the page opens at once.
fn requirements(verification: &Verification) -> Markup {
    let all = tree(verification);
    if all.len() <= MOST_OPEN {
        return matrix(&all);
    }
    let groups = all.chunk_by(|_, next| next.0 > 0);
    html! {
        @for group in groups {
            @if let Some((_, first)) = group.first() {
                details {
                    summary { (printable(&first.id)) " " (badge(first.verdict)) " " span.line { (group.len()) ", " (printable(&first.requirement.text)) } }
                    (matrix(group))
                }
            }
        }
    }
}

fn matrix(all: &[(usize, &RequirementResult)]) -> Markup {
    scrolling(
        "Requirements",
        &html! {
            table.words.verification {
                thead { tr {
                    th { "requirement" } th { "about" } th { "must hold" } th { "value" } th { "margin" } th { "verdict" } th { "test" }
                } }
                tbody { @for (depth, one) in all { (row(*depth, one)) } }
            }
        },
    )
}

fn row(depth: usize, one: &RequirementResult) -> Markup {
    html! {
        tr id=(anchor(&one.id)) {
            th scope="row" class={ "deep" (depth.min(DEEPEST)) } {
                (printable(&one.id)) span.sub { (printable(&one.requirement.text)) }
            }
            td.text { @if one.test.is_some() { (subject(one)) } }
            td.text { (demand(one)) span.sub { (condition(one)) } }
            td.text.nowrap { (value(one)) @if let Some(judged) = &one.direct { @if judged.rounds > 1 { span.sub { (judged.rounds) " rounds" } } } }
            td { (margin(one)) (bar(one)) }
            td.text {
                @if let Some(judged) = &one.direct { (badge(judged.verdict)) }
                @if let Some(inherited) = one.inherited { span.sub { "of its parts: " (inherited.as_str()) } }
            }
            td.text { @if let Some(test) = &one.test { a href={ "#t-" (test) } { (printable(test.split('-').next().unwrap_or(test))) } } }
        }
    }
}

/// Interval, value and limit on one axis; the good side of the limit is shaded.
fn bar(one: &RequirementResult) -> Markup {
    let judged = one.direct.as_ref();
    let (Some(value), Some(limit), Some(comparator)) =
        (judged.and_then(|judged| judged.value), one.limit, one.comparator)
    else {
        return html! {};
    };
    let low = judged.and_then(|judged| judged.low).unwrap_or(value);
    let high = judged.and_then(|judged| judged.high).unwrap_or(value);
    let (from, to) = (low.min(limit).min(value), high.max(limit).max(value));
    let room = if to > from { (to - from) * 0.15 } else { to.abs().max(1.0) * 0.15 };
    let (from, to) = (from - room, to + room);
    let at = |value: f64| format!("{:.1}", ((value - from) / (to - from) * 100.0).clamp(0.0, 100.0));
    let span = |low: f64, high: f64| format!("{:.1}", ((high - low) / (to - from) * 100.0).clamp(1.0, 100.0));
    let good = match comparator {
        Comparator::AtMost => (from, limit),
        Comparator::AtLeast => (limit, to),
        // Of what is counted there is nothing to see.
        Comparator::Exactly => return html! {},
    };
    html! {
        svg.margin viewBox="0 0 100 12" preserveAspectRatio="none" aria-hidden="true" {
            rect.good x=(at(good.0)) y="0" width=(span(good.0, good.1)) height="12" {}
            rect.seen x=(at(low)) y="4" width=(span(low, high)) height="4" {}
            rect.value x=(at(value)) y="2" width="1.5" height="8" {}
            rect.limit x=(at(limit)) y="0" width="1" height="12" {}
        }
    }
}

/// Ids as links, the first of many.
fn links(ids: &[&str]) -> Markup {
    html! {
        @for (at, id) in ids.iter().take(MOST_NAMED).enumerate() { @if at > 0 { ", " } (link(id)) }
        @if ids.len() > MOST_NAMED { " and " (ids.len() - MOST_NAMED) " more" }
    }
}

fn tests(verification: &Verification) -> Markup {
    // Of those that share a test, some need more of its rounds than others.
    let mut by_test: BTreeMap<&str, (u32, Nanos)> = BTreeMap::new();
    for one in &verification.requirements {
        let (Some(test), Some(judged)) = (&one.test, &one.direct) else { continue };
        let most = by_test.entry(test).or_default();
        *most = (most.0.max(judged.rounds.saturating_add(judged.failed_rounds)), most.1.max(one.took_ns));
    }
    let row = |test: &TestSpec| {
        let (rounds, took) = by_test.get(test.id.as_str()).copied().unwrap_or_default();
        let ids: Vec<&str> = test.requirements.iter().map(String::as_str).collect();
        html! {
            tr id={ "t-" (test.id) } {
                th scope="row" { (printable(&test.id)) }
                td.why { (printable(&test.kind.to_string())) }
                td { (rounds) }
                td { @if rounds > 0 { (seconds(took)) } }
                td.why { (links(&ids)) }
            }
        }
    };
    let table = scrolling(
        "Every test",
        &html! {
            table.words {
                thead { tr { th { "test" } th { "what was done" } th { "rounds" } th { "time" } th { "decides" } } }
                tbody { @for test in &verification.tests { (row(test)) } }
            }
        },
    );
    if verification.tests.len() > MOST_OPEN {
        fold(&format!("{} tests", verification.tests.len()), &table)
    } else {
        table
    }
}

fn subjects(verification: &Verification) -> Markup {
    let mut all: BTreeMap<String, Vec<&RequirementResult>> = BTreeMap::new();
    for one in verification.requirements.iter().filter(|one| one.direct.is_some()) {
        all.entry(subject(one)).or_default().push(one);
    }
    let count = |of: &[&RequirementResult], verdict: RequirementVerdict| {
        of.iter().filter(|one| one.direct.as_ref().is_some_and(|judged| judged.verdict == verdict)).count()
    };
    let verdicts: Vec<RequirementVerdict> =
        RequirementVerdict::ALL.iter().rev().copied().filter(|one| verification.count(*one) > 0).collect();
    scrolling(
        "Verdicts by partition",
        &html! {
            table {
                thead { tr { th { "about" } @for verdict in &verdicts { th { (verdict.as_str()) } } } }
                tbody { @for (name, of) in &all { tr {
                    th scope="row" { (name) }
                    @for verdict in &verdicts {
                        @let count = count(of, *verdict);
                        td { @if count > 0 { (count) } }
                    }
                } } }
            }
        },
    )
}

fn history(verification: &Verification) -> Option<Markup> {
    let rows = verification.history.iter().rev();
    (!verification.history.is_empty()).then(|| {
        scrolling(
            "Earlier verifications",
            &html! {
                table.words {
                    thead { tr { th { "verified" } th { "verdicts then" } th { "different at the one after it" } } }
                    tbody { @for was in rows { tr {
                        th scope="row" { (format_utc(was.started_unix_ns)) }
                        td.why { @for (verdict, count) in was.counts.iter().filter(|(_, count)| **count > 0) { (count) " " (printable(verdict)) " " } }
                        td.why {
                            @if was.changed.is_empty() { "nothing" }
                            @for change in was.changed.iter().take(MOST_NAMED) {
                                span.sub { (link(&change.what)) ": " (or_nothing(&change.was)) " → " (or_nothing(&change.is)) }
                            }
                            @if was.changed.len() > MOST_NAMED { span.sub { "and " (was.changed.len() - MOST_NAMED) " more" } }
                        }
                    } } }
                }
            },
        )
    })
}

fn or_nothing(text: &str) -> String {
    if text.is_empty() { "not there".to_owned() } else { printable(text) }
}

/// All but the requirements' own digests, which say nothing to people.
fn basis(verification: &Verification) -> Markup {
    let shown = verification.basis.iter().filter(|(key, _)| !key.starts_with("requirement."));
    scrolling(
        "What the results rest on",
        &html! {
            table.words {
                thead { tr { th { "what" } th { "version, place or digest" } } }
                tbody { @for (key, value) in shown { tr { th scope="row" { (printable(key)) } td.why { (printable(value)) } } } }
            }
        },
    )
}
