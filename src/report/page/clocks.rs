//! Clocks: whether what a platform says of times can be believed, judged by the host's clock.

use maud::{Markup, html};

use crate::model::clocks::{ClockLevel, ClockVerdict, Ppm};
use crate::model::results::RunResults;
use crate::model::units::{Nanos, three_digits};

use super::parts::{behind, bounded, cell_words, plain_table, scrolling};

/// The table and the steps; left out when no clock was compared.
pub(super) fn section(results: &RunResults) -> Option<Markup> {
    if results.clocks.iter().all(|clock| clock.measurements == 0) {
        return None;
    }
    let stepped = results.clocks.iter().any(|clock| !clock.steps.is_empty());
    Some(html! {
        p {
            "A guest's clock may lie, so the host's clock was asked before and after every probe. Half the round trip of \
             a question is its error bar. A clock " strong { "agrees" } " when it runs within 100 ppm of the host's, "
            strong { "drifts" } " up to 500 ppm, which is what a time daemon may do, and " strong { "lies" }
            " beyond that or when it was set during a measurement."
        }
        ul { @for clock in &results.clocks { li { (mark(clock.level)) " " (bounded(&clock.sentence)) } } }
        (scrolling("Clocks of the platforms", &table(&results.clocks)))
        @if stepped { (behind("When clocks were set", &steps(&results.clocks))) }
    })
}

/// The level as a sign, which the sentence says in words.
pub(crate) const fn mark(level: ClockLevel) -> &'static str {
    match level {
        ClockLevel::Agrees => "=",
        ClockLevel::Drifts => "+",
        ClockLevel::Lies => "!",
        ClockLevel::Unknown => "?",
    }
}

fn table(clocks: &[ClockVerdict]) -> Markup {
    let rows: Vec<Vec<String>> = clocks
        .iter()
        .map(|clock| {
            let asked = match (clock.measurements, clock.by_datagrams) {
                (0, _) => "not asked".to_owned(),
                (all, 0) => format!("{all}, over the link"),
                (all, by) if all == by => format!("{all}, by datagrams"),
                (all, by) => format!("{all}, of which {by} by datagrams"),
            };
            vec![
                bounded(&clock.platform),
                asked,
                Nanos::from_nanos(clock.round_trip_ns).to_string(),
                ppm(clock.drift_ppm.as_ref()),
                ppm(clock.slew_ppm.as_ref()),
                signed(clock.largest_disagreement_ns, clock.disagreement_error_ns),
                clock.step_count.to_string(),
            ]
        })
        .collect();
    let heads = [
        "Platform",
        "Measurements",
        "Round trip, median",
        "Against the host's clock",
        "Against its own raw clock",
        "Largest disagreement about a length",
        "Times set",
    ];
    plain_table(&heads, &rows)
}

fn steps(clocks: &[ClockVerdict]) -> Markup {
    let rows: Vec<Vec<String>> = clocks
        .iter()
        .flat_map(|clock| &clock.steps)
        .map(|step| {
            let round = (u64::from(step.round) + 1).to_string();
            vec![cell_words(&step.cell), round, signed(step.step_ns, step.error_ns)]
        })
        .collect();
    plain_table(&["During", "Round", "Set by"], &rows)
}

fn ppm(ppm: Option<&Ppm>) -> String {
    ppm.map_or_else(
        || "too short to say".to_owned(),
        |ppm| {
            let [value, low, high] = [ppm.value, ppm.low, ppm.high].map(three_digits);
            format!("{value} ppm [{low} … {high}]")
        },
    )
}

/// `-3.00 s ± 12.0 µs`.
fn signed(value_ns: i64, error_ns: u64) -> String {
    let sign = if value_ns < 0 { "-" } else { "+" };
    format!("{sign}{} ± {}", Nanos::from_nanos(value_ns.unsigned_abs()), Nanos::from_nanos(error_ns))
}
