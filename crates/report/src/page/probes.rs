//! All figures of a run: a search box, an index by probe, and a fold per probe with what it measures and how to read it, its
//! figures, its pictures, what each figure is, where its rounds are, and the command that measures it longer.

use maud::{Markup, html};

use model::results::RunResults;
use probes::ProbeKind;
use probes::probe::Definition;

use super::super::figures::{measured_labels, neighbours};
use super::figures::{self, Figure};
use super::notes::Notes;
use super::parts::{fold, place_of};
use super::{anchor, cpu, disk, fwq, gap, headlines, jobs, memory, peers, rates, share, timing, traps};

/// Rounds at most, and seconds at least, that a longer measurement is given.
const LONGER_ROUNDS: u32 = 1000;
const LONGER_S: u32 = 600;

/// The section; none where nothing was measured.
pub(super) fn section(results: &RunResults) -> Option<Markup> {
    let all = figures::all(results);
    let probes: Vec<ProbeKind> = measured(results);
    if probes.is_empty() {
        return None;
    }
    let baseline = results.experiment.baseline_label();
    Some(html! {
        div.find hidden {
            label for="find" { "Find a figure" }
            input #find type="search" autocomplete="off" spellcheck="false" placeholder="gap longest, disk fsync, lock@second …";
            output #found for="find" aria-live="polite" {}
        }
        ul.index aria-label="Index of figures by probe" {
            @for probe in &probes { li { a href={ "#" (probe) } { (probe) } } }
        }
        p.soft.small {
            "Value with half its 95 % interval; below it the ratio to " (baseline) ", in rows beside a neighbour ("
            code { "cpu@second" } ") to the same platform undisturbed, with its interval. ▼ worse, ▲ better, ◆ different; no mark: no \
             difference found; ?: too little data. Ticks are rounds, on one line for all of a figure."
        }
        @for probe in probes {
            @let own: Vec<&Figure> = all.iter().filter(|figure| figure.first().is_some_and(|row| row.probe == probe)).collect();
            (of_probe(results, probe, &own))
        }
    })
}

/// Probes that have cells, in the order of the probes.
fn measured(results: &RunResults) -> Vec<ProbeKind> {
    let has_cells = |probe: &ProbeKind| results.cells.iter().any(|cell| cell.cell.probe == *probe);
    ProbeKind::ALL.iter().copied().filter(has_cells).collect()
}

fn of_probe(results: &RunResults, probe: ProbeKind, figures: &[&Figure]) -> Markup {
    let about = probe.about();
    html! {
        details.probe id=(probe) {
            summary { h3 { (probe) } " " (about.title) span.line { (line(results, probe, figures)) } }
            p { (about.explanation) }
            @if !figures.is_empty() { div.figtable { (figures::table(results, probe, figures, &measured_labels(results))) } }
            (pictures(results, probe))
            (fold("What the figures are", &definitions(probe, figures)))
            (notes(results, probe))
            (commands(results, probe))
        }
    }
}

/// How many figures, beside how many neighbours, in how many rounds.
fn line(results: &RunResults, probe: ProbeKind, figures: &[&Figure]) -> String {
    let own = || results.cells.iter().filter(|cell| cell.cell.probe == probe);
    let beside = neighbours(results);
    let beside = beside.iter().filter(|n| own().any(|cell| cell.cell.neighbour == Some(**n))).count();
    let rounds = |pick: fn(u32, u32) -> u32| own().map(|cell| cell.done).reduce(pick).unwrap_or(0);
    let (least, most) = (rounds(u32::min), rounds(u32::max));
    let rounds = if least == most { most.to_string() } else { format!("({least} … {most})") };
    let beside = match beside {
        0 => String::new(),
        1 => ", beside 1 neighbour".to_owned(),
        more => format!(", beside {more} neighbours"),
    };
    format!("{} figures{beside}, {rounds} rounds", figures.len())
}

/// What each figure is, each definition once, by the metric's name in the files.
fn definitions(probe: ProbeKind, figures: &[&Figure]) -> Markup {
    let mut used: Vec<&Definition> = Vec::new();
    for row in figures.iter().filter_map(|figure| figure.first()) {
        used.extend(figures::definition(probe, &row.id).filter(|known| !used.contains(known)));
    }
    html! {
        dl.facts {
            @for known in used {
                dt id=(anchor::definition(probe, known.ids)) { code { (known.ids) } }
                dd { (known.words) }
            }
        }
    }
}

/// Where the values of every round are, and how the probe is measured longer.
fn commands(results: &RunResults, probe: ProbeKind) -> Markup {
    html! {
        p.cmd id=(format!("rounds-{probe}")) { "Every round; measuring longer (in the run's folder):" }
        pre tabindex="0" { (rounds_command(probe)) }
        pre tabindex="0" id=(format!("longer-{probe}")) { (longer_command(results, probe)) }
        div.values hidden {}
    }
}

/// The command that prints the lines of the journal with a probe's measurements.
fn rounds_command(probe: ProbeKind) -> String {
    format!("jq -c 'select(.cell.probe == \"{probe}\")' journal.jsonl")
}

/// The command that measures a probe of this experiment longer: the run's folder holds the experiment as it was resolved.
fn longer_command(results: &RunResults, probe: ProbeKind) -> String {
    let repeat = results.experiment.repeat;
    let (least, budget) =
        (repeat.min.clamp(1, LONGER_ROUNDS), LONGER_S.max(repeat.budget_s.saturating_mul(2)));
    format!(
        "bulkhead measure --experiment experiment.toml --probe {probe} --rounds {least}..{LONGER_ROUNDS} --budget-s {}",
        budget.min(1_000_000)
    )
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

/// What was remarked, each remark once.
fn notes(results: &RunResults, probe: ProbeKind) -> Markup {
    let mut all = Notes::new(&format!("{probe}-remark"));
    for cell in results.cells.iter().filter(|cell| cell.cell.probe == probe) {
        for note in &cell.notes {
            all.say(note, Some(place_of(&cell.cell)));
        }
    }
    html! { @if !all.is_empty() { h4 { "Remarks" } (all.list()) } }
}
