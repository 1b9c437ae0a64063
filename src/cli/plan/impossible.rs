//! Where needs cannot hold together: which, at which lines, and what would be enough.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::args::PlanArgs;
use crate::cli::ending::{Ending, OrStop, Stop, Verdict};
use crate::cli::output;
use model::scenario::line_at;
use plan::{Conflict, MOST_CONFLICTS, Need, Question, Relaxation, conflicts, relaxations};
use platforms::Cancel;
use report::text::{paragraph, printable};

/// Longest sentence that is shown whole.
const SENTENCE_MOST: usize = 600;
/// Needs that are told of a conflict that may have too many, unless all are wanted.
const MOST_NEEDS: usize = 12;
/// Changes that are told unless all are wanted.
const MOST_CHANGES: usize = 6;

/// Needs that cannot hold together, and what would be enough for them.
struct Told {
    conflict: Conflict,
    changes: Vec<Relaxation>,
}

/// Says it.
pub(super) fn tell(args: &PlanArgs, question: &Question<'_>, text: &str, cancel: &Cancel) -> Verdict {
    let found = conflicts(question);
    let told: Vec<Told> = found
        .iter()
        .map(|conflict| {
            let others = found.iter().filter(|other| *other != conflict);
            let but: BTreeSet<Need> = others.flat_map(|other| other.needs.clone()).collect();
            Told { conflict: conflict.clone(), changes: relaxations(question, &conflict.needs, &but) }
        })
        .collect();
    let told = if args.json { as_json(&told, question, text) } else { in_words(args, &told, question, text) };
    output::data(&told).or_bad_input()?;
    Ok(if cancel.is_cancelled() { Ending::Interrupted } else { Ending::NotMet })
}

/// Says of whom there is none, in a system too large to be asked for smallest sets of needs.
pub(super) fn tell_without_room(names: &[String]) -> Result<(), Stop> {
    let words = format!(
        "There is no plan: no host where it may be has room, even if empty, for {}.",
        names.join(", ")
    );
    let mut out = String::new();
    item(&mut out, "", &words);
    output::data(out.trim_end()).or_bad_input()
}

fn line(need: &Need, text: &str) -> Option<usize> {
    line_at(text, need.path().iter().map(String::as_str))
}

fn in_words(args: &PlanArgs, told: &[Told], question: &Question<'_>, text: &str) -> String {
    let mut out = String::from("There is no plan: not all needs can hold on the hosts there are.\n");
    if told.is_empty() && (question.is_over)() {
        out.push_str("The time was over before it was known which: --budget-s gives more.\n");
    } else if told.is_empty() {
        out.push_str(
            "Not even partitions that need nothing fit: each takes 48 MiB, and no host has so much.\n",
        );
    }
    for (number, one) in told.iter().enumerate() {
        out.push_str(if number == 0 { "\nCannot hold together\n" } else { "\nNor can\n" });
        let most = if args.full || one.conflict.is_minimal { usize::MAX } else { MOST_NEEDS };
        for need in one.conflict.needs.iter().take(most) {
            let at = line(need, text).map_or_else(|| need.to_string(), |line| format!("line {line}"));
            item(&mut out, &format!("  {at:<9} "), &need.words(question.system));
        }
        if one.conflict.needs.len() > most {
            let _ = writeln!(out, "  and {} more: --full", one.conflict.needs.len() - most);
        }
        if !one.conflict.is_minimal {
            out.push_str("  (the time was over before it was known whether fewer would do: --budget-s)\n");
        }
        changes(&mut out, args, &one.changes);
    }
    if told.len() > 1 {
        let more = if told.len() == MOST_CONFLICTS { " There may be more of them." } else { "" };
        let _ = writeln!(out, "\nEach of these needs a change of its own.{more}");
    }
    out
}

fn changes(out: &mut String, args: &PlanArgs, changes: &[Relaxation]) {
    if changes.is_empty() {
        return;
    }
    out.push_str("It fits when\n");
    let most = if args.full { usize::MAX } else { MOST_CHANGES };
    for change in changes.iter().take(most) {
        item(out, "  ", &change.words);
    }
    if changes.len() > most {
        let _ = writeln!(out, "  and {} more: --full", changes.len() - most);
    }
}

/// A line of a list, as many as it takes; names come from a file.
fn item(out: &mut String, first: &str, words: &str) {
    let columns = output::stdout_style().columns();
    out.push_str(&paragraph(first, &printable(words, SENTENCE_MOST), columns));
}

fn as_json(told: &[Told], question: &Question<'_>, text: &str) -> String {
    let one = |told: &Told| {
        let needs: Vec<_> = told
            .conflict
            .needs
            .iter()
            .map(|need| {
                serde_json::json!({
                    "need": need.to_string(), "line": line(need, text), "words": need.words(question.system),
                })
            })
            .collect();
        let changes: Vec<_> = told
            .changes
            .iter()
            .map(|change| serde_json::json!({ "words": change.words, "cost": change.cost }))
            .collect();
        serde_json::json!({ "needs": needs, "is_minimal": told.conflict.is_minimal, "fits_when": changes })
    };
    format!("{:#}", serde_json::json!({ "conflicts": told.iter().map(one).collect::<Vec<_>>() }))
}
