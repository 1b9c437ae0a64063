//! One section per probe that was measured: what it measures and how to read it, its pictures, all its figures.

use maud::{Markup, html};

use model::results::RunResults;
use probes::ProbeKind;

use super::super::figures::{Row, Which, measured_labels, rows};
use super::document::Section;
use super::parts::{Beside, behind, bounded, metric_table};
use super::{cpu, disk, fwq, gap, headlines, jobs, memory, peers, rates, share, timing, traps};

/// Sections of all probes that have cells, in the order of the probes.
pub(super) fn sections(results: &RunResults) -> Vec<Section> {
    ProbeKind::ALL
        .iter()
        .filter(|probe| results.cells.iter().any(|cell| cell.cell.probe == **probe))
        .map(|probe| Section {
            id: anchor(*probe),
            title: probe.about().title.to_owned(),
            body: Some(body(results, *probe)),
        })
        .collect()
}

fn body(results: &RunResults, probe: ProbeKind) -> Markup {
    let rows: Vec<Row> =
        rows(results, None, Which::All).into_iter().filter(|row| row.probe == probe).collect();
    html! {
        p { (probe.about().explanation) }
        (pictures(results, probe))
        @if !rows.is_empty() {
            (behind("All figures of this probe", &metric_table(results, &rows, &measured_labels(results), Beside::Baseline)))
        }
        (notes(results, probe))
    }
}

#[allow(
    unreachable_patterns,
    clippy::match_wildcard_for_single_variants,
    reason = "a new probe needs no picture of its own"
)]
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
        other => headlines::picture(results, other),
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
