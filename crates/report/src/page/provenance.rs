//! Where the figures come from: machine, checks, platforms, clocks, experiment.

use maud::{Markup, html};

use model::journal::PlatformState;
use model::preflight::CheckLevel;
use model::results::RunResults;
use units::Bytes;
use units::facts::MachineFacts;

use super::super::figures::{ratio_number, rounds};
use super::super::utc::format_utc;
use super::parts::{behind, bounded, cell_words, plain_table, scrolling};

/// The whole of it; never left out.
pub(super) fn section(results: &RunResults) -> Markup {
    html! {
        h3 { "This run" }
        (facts(&run_facts(results)))
        h3 { "The host" }
        (facts(&machine_facts(&results.host)))
        h3 { "Was the host fit to be measured?" }
        (scrolling("Checks of the host", &checks(results)))
        h3 { "The platforms" }
        @for platform in &results.platforms { (platform_facts(platform)) }
        h3 { "Clocks, and what the probes cost themselves" }
        (scrolling("Clocks and own cost", &clocks(results)))
        h3 { "The experiment" }
        (experiment(results))
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

fn platform_facts(platform: &PlatformState) -> Markup {
    let mut list = vec![fact("Kind", platform.kind.as_str())];
    list.extend(platform.unavailable.as_ref().map(|reason| fact("Not available", reason.clone())));
    list.extend(platform.properties.iter().cloned());
    list.extend(platform.start_ns.map(|start| fact("Agent answered after", start.to_string())));
    html! {
        h4 { (platform.label) }
        (facts(&list))
        @if let Some(machine) = &platform.facts {
            details { summary { "What it sees of its machine" } (facts(&machine_facts(machine))) }
        }
    }
}

fn clocks(results: &RunResults) -> Markup {
    let rows: Vec<Vec<String>> = results
        .cells
        .iter()
        .filter(|cell| cell.cell.neighbour.is_none())
        .map(|cell| {
            let mut row = vec![cell_words(&cell.cell)];
            match &cell.clock {
                Some(clock) => row.extend([
                    clock.name.clone(),
                    format!("{} ns", ratio_number(clock.read_ns)),
                    format!("{} ns", ratio_number(clock.resolution_ns)),
                ]),
                None => row.extend(["not recorded", "", ""].map(str::to_owned)),
            }
            match &cell.cost {
                Some(cost) => row.extend([
                    format!("{} ns", ratio_number(cost.per_sample_ns)),
                    cost.cpu_time_ns.to_string(),
                    cost.memory_bytes.to_string(),
                ]),
                None => row.extend(["not recorded", "", ""].map(str::to_owned)),
            }
            row
        })
        .collect();
    plain_table(
        &["Measurement", "Clock", "One read", "Smallest step", "Own cost per sample", "CPU time", "Memory"],
        &rows,
    )
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
