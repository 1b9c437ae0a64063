//! A simulated host at one moment, on a terminal: who runs where, who waits, and the books so far.

use std::fmt::Write as _;

use super::terminal::Style;
use super::text::{Paint, TextCell, TextTable, paragraph, printable};
use model::host_state::{CpuState, HostState, VcpuPlace, VcpuState};
use model::simulation::StretchMode;
use units::Nanos;

/// Rows of a table that are shown; the others are counted.
const ROWS_MOST: usize = 64;
/// Longest name that is shown whole.
const NAME_MOST: usize = 24;

/// Everything; `names` are those of the virtual CPUs, by number.
pub fn text(state: &HostState, names: &[String], style: Style) -> String {
    let mut out = String::new();
    let next = state.next_ns.map_or_else(
        || "nothing will happen any more".to_owned(),
        |next| format!("the next at {}", moment(next)),
    );
    let head = format!("at {} · {} events so far, {next}", moment(state.at_ns), state.events);
    let _ = writeln!(out, "{}", Paint::Bold.on(&head, style.colour));
    let name =
        |vcpu: u32| names.get(vcpu as usize).map_or_else(String::new, |name| printable(name, NAME_MOST));
    let cpus = state.cpus.iter().enumerate().map(|(number, cpu)| cpu_row(number, cpu, name));
    table(&mut out, &["CPU", "runs", "goes at", "run", "switching", "idle"], cpus, style);
    let waiting = waiting(state).into_iter().map(|(vcpu, span)| format!("{} {span}", name(vcpu)));
    let waiting: Vec<String> = waiting.take(ROWS_MOST).collect();
    let words = if waiting.is_empty() { "nobody".to_owned() } else { waiting.join(", ") };
    out.push_str(&paragraph("waits for a CPU: ", &words, style.columns()));
    let vcpus = state.vcpus.iter().zip(0u32..).map(|(vcpu, number)| vcpu_row(name(number), vcpu));
    table(&mut out, &["virtual CPU", "is", "run", "steal", "halted", "brought on"], vcpus, style);
    out
}

/// To the nanosecond, in milliseconds: `5.000001 ms`.
fn moment(at: Nanos) -> String {
    format!("{}.{:06} ms", at.get() / 1_000_000, at.get() % 1_000_000)
}

/// Who waits, longest first.
fn waiting(state: &HostState) -> Vec<(u32, Nanos)> {
    let waits = |(number, vcpu): (u32, &VcpuState)| match vcpu.place {
        VcpuPlace::Waits(span) => Some((number, span)),
        VcpuPlace::On(_) | VcpuPlace::Halted(_) => None,
    };
    let mut waiting: Vec<(u32, Nanos)> = (0..).zip(&state.vcpus).filter_map(waits).collect();
    waiting.sort_by_key(|(_, span)| std::cmp::Reverse(span.get()));
    waiting
}

fn cpu_row(number: usize, cpu: &CpuState, name: impl Fn(u32) -> String) -> Vec<String> {
    let runs = cpu.running.map_or_else(
        || "idle".to_owned(),
        |(vcpu, mode)| match mode {
            StretchMode::User => name(vcpu),
            StretchMode::Kernel => format!("{} (kernel)", name(vcpu)),
            StretchMode::Spin => format!("{} (spins)", name(vcpu)),
            StretchMode::Switch => format!("{} (comes on)", name(vcpu)),
        },
    );
    let until = cpu.until_ns.map_or_else(|| "–".to_owned(), moment);
    let books = [cpu.run_ns, cpu.switching_ns, cpu.idle_ns].map(|span| span.to_string());
    [number.to_string(), runs, until].into_iter().chain(books).collect()
}

fn vcpu_row(name: String, vcpu: &VcpuState) -> Vec<String> {
    let is = match vcpu.place {
        VcpuPlace::On(cpu) => format!("on CPU {cpu}"),
        VcpuPlace::Waits(span) => format!("waiting {span}"),
        VcpuPlace::Halted(span) => format!("halted {span}"),
    };
    let books = [vcpu.run_ns, vcpu.steal_ns, vcpu.halted_ns].map(|span| span.to_string());
    [name, is].into_iter().chain(books).chain([vcpu.dispatches.to_string()]).collect()
}

fn table(out: &mut String, head: &[&str], rows: impl Iterator<Item = Vec<String>>, style: Style) {
    let rows: Vec<Vec<String>> = rows.collect();
    let more = rows.len().saturating_sub(ROWS_MOST);
    let cells = |row: Vec<String>| row.into_iter().map(TextCell::plain).collect();
    let head = head.iter().map(|word| TextCell { text: (*word).to_owned(), paint: Paint::Bold }).collect();
    let rows = std::iter::once(head).chain(rows.into_iter().take(ROWS_MOST).map(cells)).collect();
    out.push_str(&TextTable { rows, ..TextTable::default() }.render(style.columns(), style.colour));
    if more > 0 {
        let _ = writeln!(out, "and {more} more");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_runs_who_waits_longest_and_the_books_are_told() {
        let nanos = Nanos::from_nanos;
        let vcpu = |place| VcpuState {
            place,
            run_ns: nanos(3_000_000),
            steal_ns: nanos(2_000_000),
            halted_ns: nanos(1),
            dispatches: 4,
        };
        let cpu = CpuState {
            running: Some((0, StretchMode::Spin)),
            until_ns: Some(nanos(6_000_000)),
            run_ns: nanos(5_000_000),
            switching_ns: nanos(1),
            idle_ns: nanos(0),
        };
        let state = HostState {
            at_ns: nanos(5_000_001),
            events: 12,
            next_ns: None,
            cpus: vec![cpu, CpuState { running: None, until_ns: None, ..cpu }],
            vcpus: vec![
                vcpu(VcpuPlace::On(0)),
                vcpu(VcpuPlace::Waits(nanos(10))),
                vcpu(VcpuPlace::Waits(nanos(2_000_000))),
                vcpu(VcpuPlace::Halted(nanos(7))),
            ],
        };
        let names = ["A.0", "A.1", "B.0", "B\u{1b}[2J"].map(str::to_owned);
        let text = text(&state, &names, Style { width: 80, colour: false });
        for words in [
            "at 5.000001 ms · 12 events so far, nothing will happen any more",
            "A.0 (spins)",
            "6.000000 ms",
            "waits for a CPU: B.0 2 ms, A.1 10 ns",
            "halted 7 ns",
        ] {
            assert!(text.contains(words), "{words}:\n{text}");
        }
        assert!(!text.contains('\u{1b}') && text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
}
