//! What the words and marks of the page mean, each said once. What the figures are stands with their probes.

use maud::html;

use model::results::RunResults;

use super::super::figures::neighbours;
use super::anchor;
use super::parts::Folded;

/// Words and what they mean.
const WORDS: [(&str, &str); 17] = [
    ("free", "No difference to the baseline was found, or none above 5 %."),
    ("costs", "Differences between 5 % and twofold (+), or of twofold and more (!)."),
    ("broke", "Measurements of this platform broke, so little can be said of it."),
    ("undecided", "Too little data for a verdict: measure longer."),
    ("needs 40 s", "Undecided; so much more measuring decides it, if the figures stay what they are."),
    (
        "not known",
        "Probes without a ratio, or in which a difference of a quarter would not have been seen: that none was found says little.",
    ),
    (
        "≤ 4 ms",
        "A figure without an interval is at most this, with 95 % confidence: what took longer would have been seen by now.",
    ),
    ("suited", "Every required condition of the class holds, and no wanted one is broken."),
    ("with limits", "Every required condition holds, a wanted one is broken."),
    ("unsuited", "A required condition is broken."),
    (
        "difference",
        "Platforms are measured in turns, round by round, and compared round by round. A difference is called one only where \
         all that are called so together are right with 95 %.",
    ),
    (
        "interval",
        "[a … b]: where the figure lies with 95 %, a platform's own value with up to 99.9 % where verdicts were looked at again and again. (a … b): the smallest and the largest of several.",
    ),
    (
        "figure",
        "Every round yields one value; the figure is what is typical of them. A quantile that no round is long enough for comes \
         from all rounds together.",
    ),
    ("n/a", "The data does not support a figure; the number beside it leads to the reason."),
    ("dose", "How strong a neighbour really was: it is measured, not set."),
    ("dirty", "The host was not quiet or not stable while it was measured."),
    (
        "broken measurement",
        "It is recorded with its reason, is in no average, and was not replaced by a zero.",
    ),
];

/// The section; never left out.
pub(super) fn section(results: &RunResults) -> Folded {
    let body = html! {
        dl.facts {
            @for (word, meaning) in WORDS { dt { (word) } dd { (meaning) } }
            @for neighbour in neighbours(results) {
                dt { code { (anchor::beside(neighbour)) } } dd { "Beside a " (neighbour.words()) "." }
            }
        }
    };
    ("verdicts, marks, intervals, neighbours".to_owned(), body)
}
