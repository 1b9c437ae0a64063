//! Who ran where in a simulation: a picture by CPU, with the virtual CPUs' names, and one by virtual CPU, with what they were at.

use std::collections::BTreeMap;

use maud::{Markup, html};

use model::simulation::{CaseOutcome, Simulation, StretchMode, TimeLine, TimeStretch};
use units::metric::Unit;

use super::super::chart::axis::{Axis, Quantity, Scale};
use super::super::chart::gantt::{Gantt, GanttRow, ROWS_MOST, Stretch};
use super::super::chart::palette::Ink;
use super::super::chart::svg::Picture;
use super::super::figures::value_text;
use super::parts::{bounded, figure_of_blocks};

/// Cases whose time lines are drawn; the files have all.
const DRAWN: usize = 6;
/// Stretches of a CPU that a picture shows.
const STRETCHES: usize = 120;
/// VMs that a legend names.
const NAMED: usize = 24;

/// The section; none without a time line.
pub(super) fn section(simulation: &Simulation) -> Option<Markup> {
    let with: Vec<(&CaseOutcome, &TimeLine)> =
        simulation.cases.iter().filter_map(|case| Some((case, case.time_line.as_ref()?))).collect();
    if with.is_empty() {
        return None;
    }
    Some(html! {
        p { "The beginning of each case's first replication, by CPU and by virtual CPU." }
        @for (case, time_line) in with.iter().take(DRAWN) {
            (by_cpu(case, time_line))
            (by_vcpu(case, time_line))
        }
        @if with.len() > DRAWN { p.soft.small { (DRAWN) " of " (with.len()) " cases are drawn." } }
    })
}

/// `A` of `A.0`.
fn vm_of(vcpu: &str) -> &str {
    vcpu.rsplit_once('.').map_or(vcpu, |(vm, _)| vm)
}

fn end_of(stretch: &TimeStretch) -> f64 {
    stretch.start_ns.as_f64() + stretch.length_ns.as_f64()
}

/// Up to when everything is known. Stretches are kept in the order of their ends: where not all had room, whoever still ran on
/// a CPU when the last one was kept is missing, so the picture ends where the first CPU has none any more. One that has idled
/// for most of the time does not count.
fn known_until(time_line: &TimeLine) -> f64 {
    let mut last: BTreeMap<u32, f64> = BTreeMap::new();
    for stretch in &time_line.stretches {
        let end = last.entry(stretch.cpu).or_default();
        *end = end.max(end_of(stretch));
    }
    let all = last.values().copied().fold(0.0, f64::max);
    if time_line.left_out == 0 {
        return all;
    }
    last.into_values().filter(|end| *end > all / 2.0).fold(all, f64::min)
}

/// More turns than this beside each other cannot be told apart: the picture ends where the busiest CPU has had so many.
fn shown_until(time_line: &TimeLine) -> f64 {
    let all = known_until(time_line);
    let crowded = |cpu: u32| {
        let mut ends: Vec<f64> = time_line.stretches.iter().filter(|s| s.cpu == cpu).map(end_of).collect();
        ends.sort_by(f64::total_cmp);
        ends.get(STRETCHES).copied()
    };
    (0..time_line.cpus).filter_map(crowded).fold(all, f64::min)
}

fn name_of(time_line: &TimeLine, vcpu: u32) -> &str {
    time_line.vcpus.get(vcpu as usize).map_or("", String::as_str)
}

/// Who had each CPU: colours are VMs.
fn by_cpu(case: &CaseOutcome, time_line: &TimeLine) -> Markup {
    let mut vms: Vec<&str> = Vec::new();
    for vcpu in &time_line.vcpus {
        if !vms.contains(&vm_of(vcpu)) {
            vms.push(vm_of(vcpu));
        }
    }
    let end = shown_until(time_line);
    let rows = (0..time_line.cpus).take(ROWS_MOST).map(|cpu| {
        let mut turns: Vec<(u32, f64, f64)> = Vec::new();
        for stretch in time_line.stretches.iter().filter(|s| s.cpu == cpu && s.start_ns.as_f64() < end) {
            let (from, to) = (stretch.start_ns.as_f64(), end_of(stretch).min(end));
            match turns.last_mut() {
                // The same one, in the next mode.
                Some((vcpu, _, last)) if *vcpu == stretch.vcpu && (from - *last).abs() < 1.0 => *last = to,
                _ => turns.push((stretch.vcpu, from, to)),
            }
        }
        let stretches = turns.into_iter().map(|(vcpu, from, to)| {
            let name = name_of(time_line, vcpu);
            let ink = Ink(vms.iter().position(|vm| *vm == vm_of(name)).unwrap_or(0));
            Stretch { from, to, ink, words: name.to_owned() }
        });
        GanttRow { name: format!("CPU {cpu}"), stretches: stretches.collect() }
    });
    let legend: Vec<(Ink, String)> =
        vms.iter().take(NAMED).enumerate().map(|(at, vm)| (Ink(at), bounded(vm))).collect();
    let words = Words { by: "CPU", rows: time_line.cpus as usize, end };
    drawn(case, &words, rows.collect(), &legend)
}

/// What each virtual CPU was at: colours are modes.
fn by_vcpu(case: &CaseOutcome, time_line: &TimeLine) -> Markup {
    let end = shown_until(time_line);
    let rows = (0u32..).zip(&time_line.vcpus).take(ROWS_MOST).map(|(vcpu, name)| {
        let own = time_line.stretches.iter().filter(|s| s.vcpu == vcpu && s.start_ns.as_f64() < end);
        let stretches = own.map(|stretch| Stretch {
            from: stretch.start_ns.as_f64(),
            to: end_of(stretch).min(end),
            ink: ink_of(stretch.mode),
            words: String::new(),
        });
        GanttRow { name: name.clone(), stretches: stretches.collect() }
    });
    let known = [
        (StretchMode::User, "programs' own code"),
        (StretchMode::Kernel, "guest's kernel"),
        (StretchMode::Spin, "spinning for a lock"),
        (StretchMode::Switch, "being brought on"),
    ];
    let legend = known.map(|(mode, words)| (ink_of(mode), words.to_owned()));
    let words = Words { by: "virtual CPU", rows: time_line.vcpus.len(), end };
    drawn(case, &words, rows.collect(), &legend)
}

const fn ink_of(mode: StretchMode) -> Ink {
    match mode {
        StretchMode::User => Ink(0),
        StretchMode::Kernel => Ink(2),
        StretchMode::Spin => Ink(1),
        StretchMode::Switch => Ink(6),
    }
}

/// What is said of a picture.
struct Words {
    by: &'static str,
    rows: usize,
    end: f64,
}

fn drawn(case: &CaseOutcome, words: &Words, rows: Vec<GanttRow>, legend: &[(Ink, String)]) -> Markup {
    let Words { by, rows: count, end } = words;
    let name = format!("Who ran where by {by}, {}", case.label);
    let axis =
        Axis::enclosing(Scale::FromZero, Quantity::Of(Unit::Nanoseconds), "simulated time", [0.0, *end]);
    let picture = axis
        .map_or_else(|| Picture::Nothing("nothing ran".to_owned()), |axis| Gantt { name, axis, rows }.draw());
    let shown =
        if *count > ROWS_MOST { format!(" {ROWS_MOST} of {count} are drawn.") } else { String::new() };
    let first = value_text(Unit::Nanoseconds, *end);
    let blank = if *by == "CPU" { "idle" } else { "waiting for a CPU, or halted" };
    let caption = format!("By {by}, the first {first}; blank: {blank}.{shown}");
    figure_of_blocks(&bounded(&case.label), &caption, legend, &picture)
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Nanos;

    #[test]
    fn the_picture_ends_where_something_is_missing() {
        let stretch = |cpu, start: u64, length: u64| TimeStretch {
            cpu,
            vcpu: cpu,
            start_ns: Nanos::from_nanos(start),
            length_ns: Nanos::from_nanos(length),
            mode: StretchMode::User,
        };
        // CPU 1 still runs when there is no more room; CPU 2 was needed for a moment only.
        let stretches = vec![stretch(2, 0, 5), stretch(0, 0, 60), stretch(1, 0, 80), stretch(0, 60, 40)];
        let line = |left_out| TimeLine { cpus: 3, vcpus: Vec::new(), stretches: stretches.clone(), left_out };
        assert!((shown_until(&line(0)) - 100.0).abs() < 1e-9);
        assert!((shown_until(&line(7)) - 80.0).abs() < 1e-9);
    }
}
