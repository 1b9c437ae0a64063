//! A channel bench on a terminal, 80 columns: mappings, round trips tail first, bandwidth, marks.

use std::fmt::Write as _;

use super::terminal::Style;
use super::text::{paragraph, printable};
use model::channel_bench::{AccessCost, ChannelBench, Mapping, Mark, Quantity, Series, Way};
use units::metric::{Answer, Estimate};
use units::three_digits;

/// Failures shown; the rest is counted.
const FAILURES_MOST: usize = 8;
/// Longest reason that is shown.
const REASON_MOST: usize = 300;
/// Columns of a figure with its interval.
const FIGURE: usize = 20;

/// All of it.
pub fn text(bench: &ChannelBench, style: Style) -> String {
    let mut out = String::new();
    head(&mut out, bench, style);
    mappings(&mut out, bench);
    round_trips(&mut out, bench);
    bandwidths(&mut out, bench);
    marks(&mut out, bench);
    floors(&mut out, bench);
    failures(&mut out, bench, style);
    out
}

fn head(out: &mut String, bench: &ChannelBench, style: Style) {
    let engine =
        bench.engine.as_deref().map(|engine| format!(", partitions run by {engine}")).unwrap_or_default();
    let cpus = match bench.host_cpus.as_slice() {
        [leads, follows] => format!("host CPUs {leads} (leads) and {follows} (follows)"),
        _ => "one CPU for all".to_owned(),
    };
    let mut words = format!(
        "Channel bench: {} rounds, seed {}, {cpus}{engine}, rings of {} each way. Every figure is the median over the \
         rounds with its 95 % interval in brackets.",
        bench.rounds,
        bench.seed,
        size(bench.ring_bytes),
    );
    for clock in &bench.clocks {
        if let Some(read) = clock.read_ns.estimate() {
            let _ =
                write!(words, " A look at the clock costs {} ns ({}).", three_digits(read.value), clock.way);
        }
    }
    if bench.interrupted {
        words.push_str(" It was interrupted: this is what was measured until then.");
    }
    out.push_str(&paragraph("", &words, style.columns()));
}

fn mappings(out: &mut String, bench: &ChannelBench) {
    for mapping in &bench.mappings {
        let verdict = match mapping.cached {
            Some(true) => "cached",
            Some(false) => "UNCACHED: each load goes to memory or to the device",
            None => "not told: the figures scatter too far",
        };
        let _ = writeln!(out, "\n{}: {verdict}", mapping.place);
        let _ = writeln!(
            out,
            "  {:<18}{:>FIGURE$}{:>FIGURE$}{:>FIGURE$}",
            "ns per access", "mapping", "ordinary", "ratio"
        );
        for (name, cost) in accesses(mapping) {
            let [mapped, ordinary, ratio] =
                [&cost.mapping_ns, &cost.ordinary_ns, &cost.ratio].map(|a| figure(a, 1.0));
            let _ = writeln!(out, "  {name:<18}{mapped:>FIGURE$}{ordinary:>FIGURE$}{ratio:>FIGURE$}");
        }
    }
}

fn accesses(mapping: &Mapping) -> impl Iterator<Item = (&'static str, &AccessCost)> {
    let always = [("dependent load", &mapping.dependent_load), ("load after load", &mapping.sequential_load)];
    always.into_iter().chain(mapping.store.as_ref().map(|store| ("store", store)))
}

fn round_trips(out: &mut String, bench: &ChannelBench) {
    let _ =
        writeln!(out, "\nRound trip, µs{:>6}{:>FIGURE$}{:>FIGURE$}{:>FIGURE$}", "", "p99.9", "p99", "p50");
    for series in bench.series.iter().filter(|series| series.way.has_trips()) {
        let [p999, p99, p50] =
            [&series.p999_ns, &series.p99_ns, &series.p50_ns].map(|answer| figure(answer, 1e-3));
        let _ = writeln!(out, "{}{p999:>FIGURE$}{p99:>FIGURE$}{p50:>FIGURE$}", label(series));
    }
}

fn bandwidths(out: &mut String, bench: &ChannelBench) {
    let _ = writeln!(out, "\nBandwidth{:>11}{:>FIGURE$}{:>FIGURE$}", "", "MB/s", "trip in a row, µs");
    for series in bench.series.iter().filter(|series| series.way.has_stream()) {
        let (speed, batch) =
            (figure(&series.bandwidth_bytes_per_s, 1e-6), figure(&series.batch_mean_ns, 1e-3));
        let batch = if series.way.has_trips() { batch } else { String::new() };
        let _ = writeln!(out, "{}{speed:>FIGURE$}{batch:>FIGURE$}", label(series));
    }
}

/// Way and size, 20 columns.
fn label(series: &Series) -> String {
    format!("{:<12}{:>8}", series.way.as_str(), size(series.size_bytes))
}

fn marks(out: &mut String, bench: &ChannelBench) {
    if bench.marks.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n{:<40}{:>8}{:>FIGURE$}  verdict", "Mark", "wanted", "ratio");
    for mark in &bench.marks {
        let wanted = format!("{} {}", if mark.at_most { "≤" } else { "≥" }, three_digits(mark.wanted));
        let _ = writeln!(
            out,
            "{:<40}{wanted:>8}{:>FIGURE$}  {}",
            what(mark.quantity, mark.size_bytes, mark.this, mark.other),
            figure(&mark.ratio, 1.0),
            verdict(mark)
        );
    }
}

/// How far everything is from what the memory alone takes.
fn floors(out: &mut String, bench: &ChannelBench) {
    if bench.floors.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n{:<48}{:>FIGURE$}", "Beside a bare flag, a word each way", "ratio");
    for floor in &bench.floors {
        let words = what(Quantity::RoundTrip, floor.size_bytes, floor.this, floor.other);
        let _ = writeln!(out, "{words:<48}{:>FIGURE$}", figure(&floor.ratio, 1.0));
    }
}

fn what(quantity: Quantity, bytes: u64, this: Way, other: Way) -> String {
    let quantity = match quantity {
        Quantity::RoundTrip => "round trip",
        Quantity::Bandwidth => "bandwidth",
    };
    let other = if other == Way::GuestCopy { "copy" } else { other.as_str() };
    format!("{quantity} {}: {this} / {other}", size(bytes))
}

/// With a question mark where the interval holds the mark.
const fn verdict(mark: &Mark) -> &'static str {
    match (mark.reached, mark.certain) {
        (Some(true), true) => "reached",
        (Some(true), false) => "reached?",
        (Some(false), true) => "missed",
        (Some(false), false) => "missed?",
        (None, _) => "unknown",
    }
}

fn failures(out: &mut String, bench: &ChannelBench, style: Style) {
    if bench.failures.is_empty() {
        return;
    }
    let _ = writeln!(out, "\nFailed: {}", bench.failures.len());
    for failure in bench.failures.iter().take(FAILURES_MOST) {
        let at = failure.size_bytes.map(|bytes| format!(", {}", size(bytes))).unwrap_or_default();
        let reason = printable(&failure.reason, REASON_MOST);
        let words = format!("{}{at}, round {}: {reason}", failure.way, failure.round);
        out.push_str(&paragraph("  ", &words, style.columns()));
    }
    if bench.failures.len() > FAILURES_MOST {
        let _ = writeln!(out, "  and {} more", bench.failures.len() - FAILURES_MOST);
    }
}

/// A value with its interval, in another unit: `0.391 [0.388…0.395]`; a dash where there is none.
fn figure(answer: &Answer, factor: f64) -> String {
    match answer.estimate() {
        Some(Estimate { value, low, high, .. }) => {
            let [value, low, high] = [value, low, high].map(|number| short(number * factor));
            format!("{value} [{low}…{high}]")
        }
        None => "-".to_owned(),
    }
}

/// At most five characters where that can be.
fn short(value: f64) -> String {
    if value.abs() < 1e5 { three_digits(value) } else { format!("{value:.0e}") }
}

/// `8 B`, `64 KiB`, `4 MiB`.
fn size(bytes: u64) -> String {
    match bytes {
        _ if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        _ if bytes >= 1 << 10 && bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        _ => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use analysis::channel_bench as figures;
    use model::channel_bench::{BenchLimits, CHANNEL_BENCH_VERSION, SeriesFailure, Taken};
    use model::channel_worker::{AccessTimes, MappingTimes, Seen, Totals};
    use units::histogram::Histogram;

    fn bench() -> ChannelBench {
        let one = |round: u32, way: Way, bytes: u64, trip_ns: u64| {
            let seen = Seen {
                trips_ns: Histogram::from_values(
                    (0..12_000).map(|step| trip_ns + step % 40 + u64::from(round)),
                ),
                batch: Totals { count: 100, ns: 100 * trip_ns },
                stream: Totals { count: 10, ns: 10 * (trip_ns + u64::from(round)) },
                clock: Totals { count: 100, ns: 3000 },
            };
            Taken { round, way, bytes, outcome: Ok(seen) }
        };
        let trips = [700, 600, 400, 500_000, 30, 25, 550, 300];
        let taken: Vec<Taken> = (0..5)
            .flat_map(|round| Way::ALL.into_iter().zip(trips).map(move |(way, trip)| (round, way, trip)))
            .flat_map(|(round, way, trip)| [one(round, way, 8, trip), one(round, way, 1 << 20, trip * 1000)])
            .collect();
        let access = |ns: u64| {
            let each = Totals { count: 100, ns };
            AccessTimes { dependent: each, loads: each, stores: each }
        };
        let times: Vec<MappingTimes> =
            (0..5).map(|step| MappingTimes { mapping: access(9000 + step), ordinary: access(200) }).collect();
        let reason = "peer 2\u{1b}[31m closed the link ".repeat(20);
        let failure = SeriesFailure { way: Way::Tcp, size_bytes: Some(8), round: 2, reason };
        ChannelBench {
            schema_version: CHANNEL_BENCH_VERSION,
            bulkhead_version: "0".to_owned(),
            seed: 7,
            rounds: 5,
            interrupted: false,
            engine: Some("tcg".to_owned()),
            host_cpus: vec![0, 1],
            ring_bytes: 1 << 20,
            limits: BenchLimits { trips: 1, trips_ms: 1, batch_ms: 1, stream_ms: 1, tcp_factor: 1 },
            mappings: vec![figures::mapping("partition a".to_owned(), &times)],
            clocks: figures::clocks(&taken),
            series: figures::series(&taken),
            marks: figures::marks(&taken),
            floors: figures::floors(&taken),
            failures: vec![failure],
        }
    }

    #[test]
    fn everything_is_said_within_eighty_columns() {
        let shown = text(&bench(), Style { width: 80, colour: false });
        for line in shown.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
        for wanted in [
            "partition a: UNCACHED",
            "A look at the clock costs 30",
            "round trip 8 B: channel / one guest",
            "reached",
            "TCP, 8 B, round 2: peer 2\u{FFFD}[31m closed",
        ] {
            assert!(shown.contains(wanted), "{wanted} is not in\n{shown}");
        }
    }

    #[test]
    fn tails_come_first_and_what_is_not_known_is_a_dash() {
        let mut all = bench();
        all.series.iter_mut().for_each(|series| series.p999_ns = Answer::Unsupported("few".to_owned()));
        let shown = text(&all, Style { width: 80, colour: false });
        let head = shown.lines().find(|line| line.starts_with("Round trip")).unwrap();
        assert!(head.find("p99.9").unwrap() < head.find("p50").unwrap());
        let row = shown.lines().find(|line| line.starts_with("channel")).unwrap();
        assert_eq!(row.split_whitespace().nth(3), Some("-"), "{row}");
    }
}
