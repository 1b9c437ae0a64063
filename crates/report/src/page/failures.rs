//! Failed measurements with their reasons and the console's last lines, so that they can be understood from the file.

use maud::{Markup, html};

use model::results::{FailedMeasurement, RunResults};

use super::super::figures::failure_words;
use super::parts::{Folded, bounded, cell_words};

/// Failures shown in full; the rest is counted and stays in `results.json`.
const SHOWN: usize = 100;
/// Console lines shown of each.
const LINES: usize = 40;

/// The list; left out when nothing failed.
pub(super) fn section(results: &RunResults) -> Option<Folded> {
    if results.failures.is_empty() {
        return None;
    }
    let all = results.failures.len();
    let line = format!("{all} measurements broke; nothing was put in their place");
    let body = html! {
        p { "A measurement that broke is recorded as broken. It is in no average and was not replaced by a zero." }
        @for failed in results.failures.iter().take(SHOWN) { (failure(failed)) }
        @if all > SHOWN { p.soft { (SHOWN) " of " (all) " shown, in the order they happened; results.json has all." } }
    };
    Some((line, body))
}

fn failure(failed: &FailedMeasurement) -> Markup {
    let lines: Vec<String> =
        failed.failure.console.iter().rev().take(LINES).rev().map(|line| bounded(line)).collect();
    html! {
        div.failure {
            h3 { (cell_words(&failed.cell)) ", round " (u64::from(failed.round) + 1) }
            p { span.failed { (failure_words(failed.failure.kind)) } ": " (bounded(&failed.failure.reason)) }
            @if lines.is_empty() {
                p.soft.small { "Its console said nothing." }
            } @else {
                p.soft.small { "Last lines of its console:" }
                pre tabindex="0" { (lines.join("\n")) }
            }
        }
    }
}
