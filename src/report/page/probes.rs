//! One section per probe that was measured: what it measures and how to read it, its pictures, all its figures.

use maud::{Markup, html};

use crate::model::names::ProbeKind;
use crate::model::results::RunResults;

use super::super::figures::{Row, Which, measured_labels, rows};
use super::document::Section;
use super::parts::{Beside, behind, bounded, metric_table};
use super::{cpu, disk, fwq, gap, memory, rates};

/// Sections of all probes that have cells, in the order of the probes.
pub(super) fn sections(results: &RunResults) -> Vec<Section> {
    ProbeKind::ALL
        .iter()
        .filter(|probe| results.cells.iter().any(|cell| cell.cell.probe == **probe))
        .map(|probe| Section {
            id: anchor(*probe),
            title: title(*probe).to_owned(),
            body: Some(body(results, *probe)),
        })
        .collect()
}

fn body(results: &RunResults, probe: ProbeKind) -> Markup {
    let rows: Vec<Row> =
        rows(results, None, Which::All).into_iter().filter(|row| row.probe == probe).collect();
    html! {
        p { (explanation(probe)) }
        (pictures(results, probe))
        @if !rows.is_empty() {
            (behind("All figures of this probe", &metric_table(results, &rows, &measured_labels(results), Beside::Baseline)))
        }
        (notes(results, probe))
    }
}

fn pictures(results: &RunResults, probe: ProbeKind) -> Markup {
    match probe {
        ProbeKind::Gap => gap::pictures(results),
        ProbeKind::Fwq => fwq::pictures(results),
        ProbeKind::Cpu => cpu::pictures(results),
        ProbeKind::Syscall | ProbeKind::Fork => rates::pictures(results, probe),
        ProbeKind::MemLatency => memory::latency(results),
        ProbeKind::MemBandwidth => memory::bandwidth(results),
        ProbeKind::Disk => disk::pictures(results),
    }
}

fn notes(results: &RunResults, probe: ProbeKind) -> Markup {
    let noted: Vec<(String, String)> = results
        .cells
        .iter()
        .filter(|cell| cell.cell.probe == probe)
        .flat_map(|cell| cell.notes.iter().map(|note| (super::parts::cell_words(&cell.cell), bounded(note))))
        .take(40)
        .collect();
    html! {
        @if !noted.is_empty() {
            h4 { "Remarks" }
            ul.small { @for (place, note) in &noted { li { (place) ": " (note) } } }
        }
    }
}

const fn anchor(probe: ProbeKind) -> &'static str {
    probe.as_str()
}

const fn title(probe: ProbeKind) -> &'static str {
    match probe {
        ProbeKind::Gap => "Time taken away",
        ProbeKind::Fwq => "Same work, again and again",
        ProbeKind::Cpu => "Threads and time",
        ProbeKind::Syscall => "System calls",
        ProbeKind::Fork => "Starting processes",
        ProbeKind::MemLatency => "Memory latency",
        ProbeKind::MemBandwidth => "Memory throughput",
        ProbeKind::Disk => "Disk",
    }
}

const fn explanation(probe: ProbeKind) -> &'static str {
    match probe {
        ProbeKind::Gap => {
            "One thread does nothing but read the cycle counter. Whenever the time between two reads is long, somebody \
             took the CPU away: the kernel, the hypervisor, a neighbour. A gap counts as long as it lasts. bound_95 is \
             the length that gaps stay below for 95 % of the time; the worst gap is what a deadline has to survive."
        }
        ProbeKind::Fwq => {
            "A fixed piece of work is done over and over, and each time is noted. On an ideal machine all times are \
             equal; what lies above the shortest is interference."
        }
        ProbeKind::Cpu => {
            "More and more threads each do the same work. The time stays flat while every thread has a CPU of its own \
             and grows in proportion from there on. The bend (knee) shows how many CPUs the platform really grants."
        }
        ProbeKind::Syscall => {
            "The cheapest system call, in a loop. It shows what entering the kernel costs, and what a platform puts in \
             between. Longer bars are better."
        }
        ProbeKind::Fork => {
            "Start a process, run a program in it, wait for its end. This exercises page tables and the kernel and is \
             where virtualization tends to cost most. Longer bars are better."
        }
        ProbeKind::MemLatency => {
            "Each load needs the result of the one before, over larger and larger arrays. The curve climbs in steps: \
             each plateau is a level of cache, the last one is memory."
        }
        ProbeKind::MemBandwidth => {
            "Arrays of growing size are read, written and copied. The curve falls in steps as the array outgrows one \
             cache after the other."
        }
        ProbeKind::Disk => {
            "A file is written and read in sequence. Besides the throughput it shows the stalls: stretches in which \
             nothing moved."
        }
    }
}
