//! Where the figures come from: machine, checks, platforms, clocks, experiment.

use maud::{Markup, html};

use model::journal::PlatformState;
use model::preflight::CheckLevel;
use model::results::{CellResult, RunResults};
use units::Bytes;
use units::facts::{ClockFacts, MachineFacts};

use super::super::figures::{measured_labels, ratio_number, rounds};
use super::super::utc::format_utc;
use super::parts::{Folded, behind, bounded, by_platform, fold, scrolling};

/// The whole of it; never left out.
pub(super) fn section(results: &RunResults) -> Folded {
    let line = format!(
        "{}; seed, host, {} checks, {} platforms, clocks and costs of the probes, the experiment",
        if results.dirty.is_empty() { "the host was quiet" } else { "the host was not quiet" },
        results.preflight.checks.len(),
        results.platforms.len()
    );
    let body = html! {
        h3 { "This run" }
        (facts(&run_facts(results)))
        h3 { "The host" }
        (facts(&machine_facts(&results.host)))
        h3 { "Was the host fit to be measured?" }
        (doubts(results))
        (scrolling("Checks of the host", &checks(results)))
        h3 { "The platforms" }
        @for platform in &results.platforms { (platform_facts(platform, &machine_facts(&results.host))) }
        h3 { "Clocks, and what the probes cost themselves" }
        p.small { "The clock each platform was measured with: one read, smallest step (smallest … largest over the measurements)." }
        (facts(&clocks(results)))
        (fold("What each probe costs itself: a sample, CPU time, memory", &by_platform(results, "Own cost", cost)))
        h3 { "The experiment" }
        (experiment(results))
    };
    (line, body)
}

/// Why the run is dirty, and what cannot be read of its journal.
fn doubts(results: &RunResults) -> Markup {
    html! {
        @if !results.dirty.is_empty() {
            p { "Dirty: this host was not quiet or not stable while it was measured; the figures may not repeat." }
            ul { @for reason in &results.dirty { li { (bounded(reason)) } } }
        }
        @if !results.lost.is_empty() {
            p {
                (results.lost.len()) " lines of the journal cannot be read, and what they held is in no figure; "
                code { "--resume" } " measures it anew."
            }
            ul { @for lost in &results.lost { li { "line " (lost.line) ": " (bounded(&lost.reason)) } } }
        }
    }
}

fn facts(list: &[(String, String)]) -> Markup {
    html! { dl.facts { @for (name, value) in list { dt { (name) } dd { (bounded(value)) } } } }
}

fn fact(name: &str, value: impl Into<String>) -> (String, String) {
    (name.to_owned(), value.into())
}

fn run_facts(results: &RunResults) -> Vec<(String, String)> {
    let repeat = results.experiment.repeat;
    vec![
        fact("Begun", format_utc(results.started_unix_ns)),
        fact("Measured for", results.measured_ns.to_string()),
        fact(
            "Rounds",
            format!("up to {} per cell; {} to {} wanted", rounds(results), repeat.min, repeat.max),
        ),
        fact("Order", "interleaved, drawn at random"),
        fact(
            "Seed",
            results.experiment.seed.map_or_else(|| "not recorded".to_owned(), |seed| seed.to_string()),
        ),
        fact("Baseline", results.experiment.baseline_label()),
        fact("Bulkhead", results.bulkhead_version.clone()),
        fact("Schema", results.schema_version.to_string()),
        fact("Complete", if results.complete { "yes" } else { "no, it was interrupted" }),
    ]
}

fn machine_facts(machine: &MachineFacts) -> Vec<(String, String)> {
    let unsaid = || "does not say".to_owned();
    let size = |bytes: Option<Bytes>| bytes.map_or_else(unsaid, |bytes| bytes.to_string());
    let text = |text: &Option<String>| text.clone().unwrap_or_else(unsaid);
    let counter = machine.counter_hz.map_or_else(unsaid, |rate| format!("{:.6} GHz", rate.as_f64() / 1e9));
    let mut list = vec![
        fact("CPU", text(&machine.cpu_model)),
        fact("Architecture", machine.architecture.clone()),
        fact("CPUs", machine.cpus.to_string()),
        fact("Memory", size(machine.memory_bytes)),
        fact("Last-level cache", size(machine.last_level_cache_bytes)),
        fact("System", text(&machine.system)),
        fact("Kernel", text(&machine.kernel)),
        fact("Clock source", text(&machine.clock_source)),
        fact("Cycle counter", counter),
        fact(
            "Runs under",
            machine.hypervisor.clone().unwrap_or_else(|| "no hypervisor that shows".to_owned()),
        ),
    ];
    list.extend(machine.nics.iter().map(|nic| fact("Network card", nic.clone())));
    list
}

const fn check_words(level: CheckLevel) -> (&'static str, &'static str) {
    match level {
        CheckLevel::Ok => ("✓ good", "better"),
        CheckLevel::Note => ("· note", "soft"),
        CheckLevel::Dirty => ("! dirty", "different"),
        CheckLevel::Missing => ("✗ missing", "worse"),
    }
}

fn checks(results: &RunResults) -> Markup {
    html! {
        table.words {
            thead { tr { th scope="col" { "Check" } th scope="col" { "" } th scope="col" { "Found" } th scope="col" { "What to do" } } }
            tbody {
                @for check in &results.preflight.checks {
                    @let (words, class) = check_words(check.level);
                    tr {
                        th scope="row" { (check.id) }
                        td { span.num.(class) { (words) } }
                        td { (bounded(&check.found)) }
                        td { (bounded(&check.advice)) }
                    }
                }
                @if results.preflight.checks.is_empty() { tr { td colspan="4" { "No checks were recorded." } } }
            }
        }
    }
}

fn platform_facts(platform: &PlatformState, host: &[(String, String)]) -> Markup {
    let mut list = vec![fact("Kind", platform.kind.as_str())];
    list.extend(platform.unavailable.as_ref().map(|reason| fact("Not available", reason.clone())));
    list.extend(platform.properties.iter().cloned());
    list.extend(platform.start_ns.map(|start| fact("Agent answered after", start.to_string())));
    html! {
        h4 { (platform.label) }
        (facts(&list))
        @if let Some(machine) = &platform.facts {
            @let other: Vec<(String, String)> = machine_facts(machine).into_iter().filter(|fact| !host.contains(fact)).collect();
            @if other.is_empty() { p.small { "It sees the machine that its host sees." } } @else {
                (fold("What it sees of its machine that its host does not", &facts(&other)))
            }
        }
    }
}

/// The clock of each platform.
fn clocks(results: &RunResults) -> Vec<(String, String)> {
    let of = |label: &String| {
        let clocks: Vec<&ClockFacts> = results
            .cells
            .iter()
            .filter(|cell| cell.cell.platform == *label && cell.cell.neighbour.is_none())
            .filter_map(|cell| cell.clock.as_ref())
            .collect();
        let mut names: Vec<&str> = clocks.iter().map(|clock| clock.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let span = |of: fn(&ClockFacts) -> f64| {
            let values = || clocks.iter().map(|clock| of(clock));
            let (least, most) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
            format!("({} … {}) ns", ratio_number(least), ratio_number(most))
        };
        let text = match names.as_slice() {
            [] => "not recorded".to_owned(),
            names => format!("{}: {}, {}", names.join(", "), span(|c| c.read_ns), span(|c| c.resolution_ns)),
        };
        fact(label, text)
    };
    measured_labels(results).iter().map(of).collect()
}

/// What a probe cost itself, without a neighbour.
fn cost(cell: &CellResult) -> Option<String> {
    let cost = cell.cost.as_ref().filter(|_| cell.cell.neighbour.is_none())?;
    Some(format!("{} ns, {}, {}", ratio_number(cost.per_sample_ns), cost.cpu_time_ns, cost.memory_bytes))
}

fn experiment(results: &RunResults) -> Markup {
    let toml = results.experiment.to_toml();
    html! {
        @match toml {
            Ok(text) => {
                p { "As it was resolved; saved as a file it repeats this run with " code { "bulkhead measure --experiment FILE" } "." }
                (behind("Show experiment.toml", &html! { pre { (text) } }))
            }
            Err(error) => { p.soft { "The experiment cannot be written as TOML: " (error) } }
        }
    }
}
