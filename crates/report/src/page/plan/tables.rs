//! Tables of a plan: everybody's place, talks, needs, failures, what was assumed; and the sentences of the summary about them.

use std::fmt::Write as _;

use maud::{Markup, html};

use model::partition::NumberList;
use model::plan::{PartFailure, Plan};

use super::super::super::plan::{
    between, closest_first, cost_words, count, elsewhere_of, hosts_of, left, left_words, need_number,
    own_place, place_words, rate, refused_words, survivor_words, within_words,
};
use super::super::parts::{bounded, fold, plain_table, scrolling};
use super::{Book, host, short, traffic};

/// Rows of a table; the file has all.
const ROWS_MOST: usize = 2000;
/// Rows that stand open; more are folded.
const OPEN_ROWS: usize = 40;
/// Survivors that are named of one failure.
const SURVIVORS_MOST: usize = 50;

/// A table whose rows beyond the first screen are folded away.
fn table(label: &str, head: &[&str], mut rows: Vec<Vec<String>>) -> Markup {
    let left = rows.len().saturating_sub(ROWS_MOST);
    rows.truncate(ROWS_MOST);
    let folded = rows.split_off(rows.len().min(OPEN_ROWS));
    html! {
        div.words {
            (scrolling(label, &plain_table(head, &rows)))
            @if !folded.is_empty() {
                (fold(&format!("{} more", folded.len()), &scrolling(label, &plain_table(head, &folded))))
            }
        }
        @if left > 0 { p.soft { (left) " more are in plan.json." } }
    }
}

/// Everybody's place.
pub(super) fn partitions(book: &Book<'_>) -> Markup {
    let mut sitters: Vec<_> = book.sitters.values().flatten().collect();
    sitters.sort_by_key(|sitter| sitter.number);
    let row = |sitter: &&super::Sitter<'_>| {
        let placed = sitter.placed;
        let all = placed.seats.iter().flat_map(|seat| seat.cpus.numbers().to_vec());
        let mib: u64 = placed.seats.iter().map(|seat| seat.memory_mib.get()).sum();
        let devices: Vec<String> = placed.disk.iter().chain(&placed.nic).map(|name| short(name)).collect();
        let spare = placed.spare.as_ref();
        html! {
            tr {
                th scope="row" { (sitter.name()) }
                td { (sitter.number) }
                td { @match book.place_of(&placed.host) {
                    Some(at) => { a href={ "#" (host::id(at)) } { (short(&placed.host)) } }
                    None => { (short(&placed.host)) }
                } }
                td { (NumberList::of(placed.seats.iter().map(|seat| seat.node))) }
                td { (NumberList::of(all)) @if sitter.is_shared() { " shared" } }
                td { (mib) " MiB" }
                td { (devices.join(", ")) }
                td { @if let Some(spare) = spare { (short(&spare.host)) ", node " (spare.nodes) } }
            }
        }
    };
    let shown = html! {
        table {
            thead { tr { @for head in ["Partition", "No.", "Host", "Node", "CPUs", "Memory", "Disk, card", "Spare on"] { th scope="col" { (head) } } } }
            tbody { @for sitter in &sitters { (row(sitter)) } }
        }
    };
    let shown = html! { div.words { (scrolling("Partitions", &shown)) } };
    html! {
        @if sitters.len() <= OPEN_ROWS { h3 { "All partitions" } (shown) }
        @else { (fold(&format!("All {} partitions", sitters.len()), &shown)) }
    }
}

/// Where else each could be: the best of these places, what it would cost, and which rules are against the rest.
pub(super) fn why(plan: &Plan) -> Option<Markup> {
    let (some, none) = elsewhere_of(plan);
    some.first()?;
    let head = ["Partition", "Is on", "Next best place", "That would cost", "Not possible"];
    let rows = some.iter().map(|(placed, elsewhere)| {
        let best = elsewhere.best.as_ref();
        let next = match best {
            Some(best) => place_words(&best.host, &best.nodes),
            None if elsewhere.not_known == 0 => "nowhere".to_owned(),
            None => "not known".to_owned(),
        };
        let refused = Some(refused_words(elsewhere)).filter(|words| !words.is_empty());
        vec![
            short(&placed.name),
            unbroken(&own_place(placed)),
            unbroken(&next),
            best.map_or_else(String::new, |best| cost_words(plan, best)),
            refused.into_iter().chain(left_words(elsewhere)).collect::<Vec<_>>().join("; "),
        ]
    });
    Some(html! {
        p.soft {
            "All others stay on their nodes; their disks, cards, CPUs and spares may be others then. In brackets: rules that refuse a "
            "place, each by itself."
        }
        (table("Why there", &head, rows.collect()))
        @if !none.is_empty() {
            p.soft { "For " (count(none.len(), "partition")) " there is only one place." }
        }
    })
}

/// Stays in one line.
fn unbroken(words: &str) -> String {
    words.replace(' ', "\u{a0}")
}

/// Who speaks with whom, the farthest first.
pub(super) fn talks(book: &Book<'_>) -> Option<Markup> {
    let plan = book.plan;
    if plan.talks.is_empty() {
        return None;
    }
    let mut all: Vec<_> = plan.talks.iter().collect();
    all.sort_by_key(|talk| std::cmp::Reverse((talk.within, talk.bytes_per_s)));
    let rows = all.iter().map(|talk| {
        vec![
            format!("{} – {}", short(&talk.from), short(&talk.to)),
            within_words(talk.within).to_owned(),
            rate(talk.bytes_per_s.get()),
            format!("{} µs", talk.latency_us.get()),
        ]
    });
    Some(html! {
        @if let Some(drawn) = traffic::drawn(book) { (drawn) }
        p.soft { "The farthest first." }
        (table("Talks", &["Between", "Over", "Rate", "A message takes"], rows.collect()))
    })
}

/// What each need is predicted to get, the closest first.
pub(super) fn predictions(plan: &Plan) -> Option<Markup> {
    if plan.predictions.is_empty() {
        return None;
    }
    let rows = closest_first(plan).into_iter().map(|one| {
        vec![
            format!("{} {}", short(&one.name), short(&one.need)),
            between(one),
            one.wanted.map_or_else(String::new, |wanted| need_number(one.unit, wanted)),
            left(one),
            if one.is_assumed { "assumed".to_owned() } else { "measured".to_owned() },
        ]
    });
    Some(html! {
        p.soft { "The closest first. What is left is the part of what is wanted that is not used up." }
        (table("Needs", &["Need", "Predicted", "Wanted", "Left", "Rests on what was"], rows.collect()))
    })
}

/// The need with the least margin, in a sentence.
pub(super) fn closest(plan: &Plan) -> Option<String> {
    let first = *closest_first(plan).first()?;
    Some(format!(
        "The closest need is {} of {}: {} predicted, {} wanted{}.",
        short(&first.need),
        short(&first.name),
        between(first),
        need_number(first.unit, first.wanted?),
        if first.is_assumed { ", from figures that were assumed" } else { "" }
    ))
}

/// Single points of failure, in a sentence.
pub(super) fn single_points(plan: &Plan) -> Option<String> {
    let singles: Vec<String> = plan
        .failures
        .iter()
        .filter(|failure| !failure.lost.is_empty())
        .map(|failure| short(&failure.part))
        .collect();
    match singles.as_slice() {
        _ if plan.failures.is_empty() => None,
        [] => Some("No host, switch, disk or card is a single point of failure.".to_owned()),
        several if several.len() > 6 => {
            Some(format!("{} parts are single points of failure.", several.len()))
        }
        [one] => Some(format!("One single point of failure: {one}.")),
        several => Some(format!("{} single points of failure: {}.", several.len(), several.join(", "))),
    }
}

/// What goes with each part, single points of failure first.
pub(super) fn failures(plan: &Plan) -> Option<Markup> {
    let sentence = single_points(plan)?;
    let mut all: Vec<&PartFailure> = plan.failures.iter().collect();
    all.sort_by_key(|failure| failure.lost.is_empty());
    let hosts = hosts_of(plan);
    let named = |names: Vec<String>| {
        let left = names.len().saturating_sub(SURVIVORS_MOST);
        let mut text = names.into_iter().take(SURVIVORS_MOST).collect::<Vec<_>>().join("; ");
        if left > 0 {
            let _ = write!(text, " and {left} more");
        }
        text
    };
    let rows = all.iter().map(|failure| {
        let goes_on = failure
            .survive
            .iter()
            .map(|one| format!("{}, {} ms away", bounded(&survivor_words(&hosts, one)), one.away_ms.get()));
        let lost = if failure.lost.is_empty() {
            "nothing".to_owned()
        } else {
            named(failure.lost.iter().map(|name| short(name)).collect())
        };
        vec![short(&failure.part), lost, named(goes_on.collect())]
    });
    Some(html! {
        p { (sentence) }
        (table("Failures", &["When this dies", "Is lost", "Survives"], rows.collect()))
    })
}

/// Sentences.
pub(super) fn said(lines: &[String]) -> Option<Markup> {
    if lines.is_empty() {
        return None;
    }
    let (open, folded) = lines.split_at(lines.len().min(OPEN_ROWS));
    let list = |lines: &[String]| html! { ul { @for line in lines.iter().take(ROWS_MOST) { li { (bounded(line)) } } } };
    Some(html! {
        (list(open))
        @if !folded.is_empty() { (fold(&count(folded.len(), "more sentence"), &list(folded))) }
    })
}
