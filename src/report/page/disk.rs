//! Pictures of the disk probe: throughput over time per window, stalls marked, and the table of phases.

use maud::{Markup, html};

use crate::model::detail::{Detail, DiskDetail, DiskDirection, DiskPhase};
use crate::model::metric::Unit;
use crate::model::names::ProbeKind;
use crate::model::params::DiskMode;
use crate::model::results::RunResults;
use crate::model::units::{Bytes, Nanos};

use super::super::chart::axis::{Axis, Quantity, Scale};
use super::super::chart::palette::Ink;
use super::super::chart::plot::{Series, Stroke};
use super::super::figures::{details, value_text};
use super::parts::{Drawing, behind, bounded, figure, line, plain_table, xs, ys};

/// Pictures at most; the table has every phase.
const PICTURES: usize = 12;
/// A stall is marked in the picture from this length on.
const STALL: Nanos = Nanos::from_nanos(50_000_000);

/// What makes phases of several platforms comparable.
type Key = (DiskDirection, DiskMode, Bytes);

struct Disks<'a> {
    ink: usize,
    label: String,
    detail: &'a DiskDetail,
}

pub(super) fn pictures(results: &RunResults) -> Markup {
    let all: Vec<Disks<'_>> = details(results, ProbeKind::Disk)
        .into_iter()
        .filter_map(|(ink, label, detail)| match detail {
            Detail::Disk(detail) => Some(Disks { ink, label, detail }),
            _ => None,
        })
        .collect();
    let keys = keys(&all);
    html! {
        @for key in keys.iter().take(PICTURES) { (phase_picture(&all, *key)) }
        @if keys.len() > PICTURES {
            p.soft.small { (PICTURES) " of " (keys.len()) " phases are drawn; the table has all." }
        }
        (behind("Table: phases", &table(&all)))
        ul.small.soft { @for disks in &all { li { (disks.label) ": " (bounded(&disks.detail.target)) } } }
    }
}

/// Every direction and mode at its largest block size that some platform could run.
fn keys(all: &[Disks<'_>]) -> Vec<Key> {
    let mut keys: Vec<Key> = Vec::new();
    for phase in all.iter().flat_map(|disks| &disks.detail.phases).filter(|phase| phase.unsupported.is_none())
    {
        let known = keys.iter_mut().find(|key| key.0 == phase.direction && key.1 == phase.mode);
        match known {
            Some(key) => key.2 = key.2.max(phase.block_bytes),
            None => keys.push((phase.direction, phase.mode, phase.block_bytes)),
        }
    }
    keys.sort();
    keys
}

fn key_words((direction, mode, block): Key) -> String {
    let direction = match direction {
        DiskDirection::Write => "Writing",
        DiskDirection::Read => "Reading",
    };
    format!("{direction}, {}, blocks of {block}", mode_words(mode))
}

const fn mode_words(mode: DiskMode) -> &'static str {
    match mode {
        DiskMode::Buffered => "through the page cache",
        DiskMode::Fsync => "fsync after each block",
        DiskMode::Direct => "past the page cache (O_DIRECT)",
    }
}

fn phase_picture(all: &[Disks<'_>], key: Key) -> Markup {
    let phases: Vec<(&Disks<'_>, &DiskPhase)> = all
        .iter()
        .filter_map(|disks| {
            let wanted = |phase: &&DiskPhase| {
                (phase.direction, phase.mode, phase.block_bytes) == key && phase.unsupported.is_none()
            };
            disks.detail.phases.iter().find(wanted).map(|phase| (disks, phase))
        })
        .collect();
    let legend: Vec<(Ink, String)> =
        phases.iter().map(|(disks, _)| (Ink(disks.ink), disks.label.clone())).collect();
    let mut series: Vec<Series> =
        phases.iter().map(|(disks, phase)| line(disks.ink, over_time(phase))).collect();
    let marked: Vec<Series> = phases.iter().map(|(disks, phase)| stalls(disks.ink, phase)).collect();
    let count: usize = marked.iter().map(|series| series.points.len()).sum();
    series.extend(marked);
    let drawing = Drawing {
        x: Axis::enclosing(
            Scale::FromZero,
            Quantity::Of(Unit::Nanoseconds),
            "time since the start of the phase",
            xs(&series),
        ),
        y: Axis::enclosing(Scale::FromZero, Quantity::Of(Unit::BytesPerSecond), "throughput", ys(&series)),
        series,
        rules: Vec::new(),
    };
    let caption = match count {
        0 => format!("Bytes moved per window. No operation took {STALL} or longer."),
        _ => format!(
            "Bytes moved per window. Marks on the floor are stalls: operations of {STALL} or longer ({count})."
        ),
    };
    let words = key_words(key);
    figure(&words, &caption, &legend, &drawing.draw(&format!("Throughput over time: {words}")))
}

/// Throughput of each window at its middle, from the shortest windows there are.
fn over_time(phase: &DiskPhase) -> Vec<(f64, f64)> {
    let shortest =
        phase.windows.iter().filter(|windows| windows.window_ms.get() > 0 && !windows.bytes.is_empty());
    let Some(windows) = shortest.min_by_key(|windows| windows.window_ms) else { return Vec::new() };
    let length_ns = windows.window_ms.as_f64() * 1e6;
    let middle = |index: usize| (index as f64 + 0.5) * length_ns;
    windows
        .bytes
        .iter()
        .enumerate()
        .map(|(index, bytes)| (middle(index), *bytes as f64 * 1e9 / length_ns))
        .collect()
}

fn stalls(ink: usize, phase: &DiskPhase) -> Series {
    let long = phase.stalls.iter().filter(|stall| stall.length_ns >= STALL);
    let points = long.map(|stall| (stall.start_ns.as_f64(), 0.0)).collect();
    Series { ink: Ink(ink), stroke: Stroke::Marks, points }
}

fn table(all: &[Disks<'_>]) -> Markup {
    let rows: Vec<Vec<String>> = all
        .iter()
        .flat_map(|disks| disks.detail.phases.iter().map(|phase| phase_row(&disks.label, phase)))
        .take(400)
        .collect();
    plain_table(&["Platform", "Phase", "Moved", "Took", "Throughput", "Longest operations"], &rows)
}

fn phase_row(label: &str, phase: &DiskPhase) -> Vec<String> {
    let words = key_words((phase.direction, phase.mode, phase.block_bytes));
    if let Some(reason) = &phase.unsupported {
        return vec![label.to_owned(), words, format!("n/a: {}", bounded(reason))];
    }
    let throughput = if phase.elapsed_ns.get() == 0 {
        "n/a: no time passed".to_owned()
    } else {
        value_text(Unit::BytesPerSecond, phase.bytes.as_f64() / phase.elapsed_ns.as_secs_f64())
    };
    let worst: Vec<String> = phase.stalls.iter().take(3).map(|stall| stall.length_ns.to_string()).collect();
    vec![
        label.to_owned(),
        words,
        phase.bytes.to_string(),
        phase.elapsed_ns.to_string(),
        throughput,
        if worst.is_empty() { "none kept".to_owned() } else { worst.join(", ") },
    ]
}
