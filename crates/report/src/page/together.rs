//! Several instances at once: what each gets against one alone, how unequal they are, how far apart they began.

use maud::html;

use model::results::RunResults;

use super::super::together::lines;
use super::parts::{Folded, bounded, plain_table, scrolling};

/// The table; left out when nothing was measured by several instances, each for itself.
pub(super) fn section(results: &RunResults) -> Option<Folded> {
    let lines = lines(results);
    if lines.is_empty() {
        return None;
    }
    let rows: Vec<Vec<String>> = lines
        .iter()
        .map(|line| {
            [&line.what, &line.title, &line.ratio, &line.spread, &line.skew]
                .map(|text| bounded(text))
                .to_vec()
        })
        .collect();
    let heads = [
        "Measurement",
        "Main figure",
        "Against one alone",
        "Worst instance over best",
        "First start to last",
    ];
    let line = format!("{} probes by several instances at once", lines.len());
    let body = html! {
        p {
            "The same probe by several instances at once, started together. Throughput is compared with the fair share, "
            "1/n of what one alone gets: 1 × is the fair share, n × means that the others are not felt. Times and "
            "latencies are compared with those alone. Figures are medians over the instances."
        }
        (scrolling("Several instances at once", &plain_table(&heads, &rows)))
    };
    Some((line, body))
}
