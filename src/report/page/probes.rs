//! One section per probe that was measured: what it measures and how to read it, its pictures, all its figures.

use maud::{Markup, html};

use crate::model::names::ProbeKind;
use crate::model::results::RunResults;

use super::super::figures::{Row, Which, measured_labels, rows};
use super::document::Section;
use super::parts::{Beside, behind, bounded, metric_table};
use super::{cpu, disk, fwq, gap, jobs, memory, peers, rates, share, timing, traps};

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
        ProbeKind::Ftq => timing::ftq(results),
        ProbeKind::Wakeup => timing::wakeup(results),
        ProbeKind::Frames => timing::frames(results),
        ProbeKind::Exit => traps::exit(results),
        ProbeKind::Lock => traps::lock(results),
        ProbeKind::Pages => traps::pages(results),
        ProbeKind::Linpack => jobs::linpack(results),
        ProbeKind::Build => jobs::build(results),
        ProbeKind::Net => peers::net(results),
        ProbeKind::Mpi => peers::mpi(results),
        ProbeKind::Share => share::share(results),
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
        ProbeKind::Ftq => "How much work fits into equal spans",
        ProbeKind::Wakeup => "Waking up on time",
        ProbeKind::Frames => "Frames of an interactive program",
        ProbeKind::Exit => "Traps to the hypervisor",
        ProbeKind::Lock => "Waiting for locks",
        ProbeKind::Linpack => "Solving linear equations",
        ProbeKind::Build => "A compile job",
        ProbeKind::Pages => "First touch of memory",
        ProbeKind::Net => "Network",
        ProbeKind::Mpi => "Message passing",
        ProbeKind::Share => "Shares of the CPUs",
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
        ProbeKind::Ftq => {
            "Work is counted in equal spans of time. What is missing in a span was taken away; the spectrum shows whether \
             it is taken at regular times, and by what frequency."
        }
        ProbeKind::Wakeup => {
            "A thread sleeps until the next due time, over and over. The response time counts from each due time until \
             the thread runs, also for those that passed while it could not: nothing is left out because it was late."
        }
        ProbeKind::Frames => {
            "A program has the same work to do for every frame, at 60 frames per second. A frame that is done after \
             the next one is due is one that a person sees stutter."
        }
        ProbeKind::Exit => {
            "An instruction that a hypervisor must handle itself, over and over. It shows what leaving the guest and \
             coming back costs; on a machine without a hypervisor it is a slow instruction and nothing else."
        }
        ProbeKind::Lock => {
            "Threads fight for one spinlock. When a hypervisor takes the CPU from the thread that holds it, the others \
             wait for a whole time slice: a second hump far to the right."
        }
        ProbeKind::Linpack => {
            "A dense system of linear equations is solved, and the solution is checked. Longer bars are better."
        }
        ProbeKind::Build => {
            "Source files are made and compiled, one compiler process each. It mixes computing, starting processes, \
             memory and files as real builds do."
        }
        ProbeKind::Pages => {
            "Memory is touched for the first time, page by page. In a machine that has just been started the hypervisor \
             must find each page; later the guest's kernel has pages of its own to give."
        }
        ProbeKind::Net => {
            "Two instances send each other messages of growing size, as a stream and as question and answer. Streams show how \
             much goes through, round trips how long a partner waits. CPU time is that of both ends; UDP may lose messages, \
             and what it loses is counted."
        }
        ProbeKind::Mpi => {
            "Messages go to and fro between two ranks, and from all to all, as parallel programs send them: whoever waits asks \
             again and again instead of sleeping. In such programs all wait for the slowest, so the tail counts more than \
             the median."
        }
        ProbeKind::Share => {
            "One instance needs some of the CPUs, the others want all of them. What it gets shows by which policy the \
             CPUs are shared."
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
