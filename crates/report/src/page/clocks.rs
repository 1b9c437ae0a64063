//! Clocks: whether what a platform says of times can be believed, judged by the host's clock.

use maud::{Markup, html};

use model::clocks::{ClockLevel, ClockStep, ClockVerdict, Ppm, SteppedClock};
use model::journal::Cell;
use model::results::{CellResult, RunResults};
use units::outside::OutsideSpan;
use units::{Nanos, three_digits};

use super::parts::{Folded, behind, bounded, by_platform, cell_words, fold, plain_table, scrolling};

/// The table and the steps; left out when no clock was compared.
pub(super) fn section(results: &RunResults) -> Option<Folded> {
    if results.clocks.iter().all(|clock| clock.measurements == 0) {
        return None;
    }
    let stepped = results.clocks.iter().any(|clock| !clock.steps.is_empty());
    let words: Vec<String> =
        results.clocks.iter().map(|clock| format!("{} {}", mark(clock.level), clock.platform)).collect();
    let body = html! {
        p {
            "A guest's clock may lie, so the host's clock was asked before and after every probe. Half the round trip of \
             a question is its error bar. It is asked by datagrams where the probe has a network (net and mpi in layouts), \
             over the agent's link elsewhere: a network card in every guest would change what is measured. A clock " strong { "agrees" } " when it runs within 100 ppm of the host's, "
            strong { "drifts" } " up to 500 ppm, which is what a time daemon may do, and " strong { "lies" }
            " beyond that, or when it was set during measurements or between them."
        }
        ul { @for clock in &results.clocks { li { (mark(clock.level)) " " (bounded(&clock.sentence)) } } }
        (scrolling("Clocks of the platforms", &table(&results.clocks)))
        @if stepped { (behind("When clocks were set", &steps(&results.clocks))) }
        @if results.cells.iter().any(|cell| !cell.outside.is_empty()) {
            (fold("How long measurements took, inside and on the host's clock", &durations(results)))
        }
    };
    Some((format!("held against the host's: {}", words.join(", ")), body))
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
            let clock = match step.clock {
                SteppedClock::Realtime => "time of day",
                SteppedClock::Monotonic => "monotonic clock",
            };
            vec![when(step), clock.to_owned(), signed(step.step_ns, step.error_ns)]
        })
        .collect();
    plain_table(&["When", "Clock", "Set by"], &rows)
}

/// During which measurement, or between which two.
fn when(step: &ClockStep) -> String {
    let named = |cell, round: u32| format!("{}, round {}", cell_words(cell), u64::from(round) + 1);
    let this = named(&step.cell, step.round);
    match &step.since {
        None => format!("during {this}"),
        Some(since) => format!("between {} and {this}", named(&since.cell, since.round)),
    }
}

/// By probe: the measurement of median length, the widest error bar, and the most by which the instance's clock differs, over all
/// its cells, those beside neighbours included.
fn durations(results: &RunResults) -> Markup {
    html! {
        p.small {
            "Median on the host's clock ± the widest error bar, then the furthest that the instance's clock differs, in millionths; \
             measurements beside neighbours included."
        }
        (by_platform(results, "Measurement", |cell| duration(results, cell)))
    }
}

fn duration(results: &RunResults, cell: &CellResult) -> Option<String> {
    if cell.cell.neighbour.is_some() {
        return None;
    }
    let of_probe = |other: &&CellResult| Cell { neighbour: None, ..other.cell.clone() } == cell.cell;
    let spans: Vec<&OutsideSpan> =
        results.cells.iter().filter(of_probe).flat_map(|cell| &cell.outside).collect();
    let mut lengths: Vec<Nanos> = spans.iter().map(|span| span.outside_ns).collect();
    lengths.sort_unstable();
    let median = *lengths.get(lengths.len().saturating_sub(1) / 2)?;
    let error = spans.iter().map(|span| span.error_ns).max()?;
    let ratios = spans.iter().filter_map(|span| span.ratio());
    let furthest = ratios.max_by(|a, b| (a - 1.0).abs().total_cmp(&(b - 1.0).abs()));
    let furthest =
        furthest.map_or_else(|| "not known".to_owned(), |ratio| format!("{:+.0}", (ratio - 1.0) * 1e6));
    Some(format!("{median} ±{error}, {furthest}"))
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
