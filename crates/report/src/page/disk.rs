//! Pictures of the disk probe: throughput over time per window, stalls marked, and the table of phases.

use maud::{Markup, html};

use model::results::RunResults;
use probes::ProbeKind;
use probes::detail::{
    Alignment, AlignmentVerdict, Detail, DiskDetail, DiskDirection, DiskPhase, ShiftedWrites,
};
use probes::params::DiskMode;
use stats::summary::histogram_quantile;
use units::metric::Unit;
use units::{Bytes, Nanos};

use super::super::chart::axis::{Axis, Quantity, Scale};
use super::super::chart::palette::Ink;
use super::super::chart::plot::{Series, Stroke};
use super::super::figures::{details, value_text};
use super::parts::{Drawing, behind, bounded, figure, line, plain_table, scrolling, xs, ys};

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
        (random_reads(&all))
        (alignments(&all))
        (behind("Table: phases", &table(&all)))
        ul.small.soft { @for disks in &all { li { (disks.label) ": " (bounded(&disks.detail.target)) } } }
    }
}

/// Every direction and mode at its largest block size that some platform could run.
fn keys(all: &[Disks<'_>]) -> Vec<Key> {
    let mut keys: Vec<Key> = Vec::new();
    let drawn =
        |phase: &&DiskPhase| phase.unsupported.is_none() && phase.direction != DiskDirection::RandomRead;
    for phase in all.iter().flat_map(|disks| &disks.detail.phases).filter(drawn) {
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
        DiskDirection::RandomRead => "Reading anywhere",
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

/// Random reads of every platform that made some.
fn random_reads(all: &[Disks<'_>]) -> Markup {
    let rows: Vec<Vec<String>> = all.iter().filter_map(random_row).collect();
    html! {
        @if !rows.is_empty() {
            h4 { "Random reads, one after the other" }
            (scrolling(
                "Random reads",
                &plain_table(&["Platform", "Blocks", "Reads per second", "Median", "99 %", "Longest"], &rows),
            ))
        }
    }
}

fn random_row(disks: &Disks<'_>) -> Option<Vec<String>> {
    let random = |phase: &&DiskPhase| phase.direction == DiskDirection::RandomRead;
    let phase = disks.detail.phases.iter().find(random)?;
    let blocks = format!("{}, {}", phase.block_bytes, mode_words(phase.mode));
    if let Some(reason) = &phase.unsupported {
        return Some(vec![disks.label.clone(), blocks, format!("n/a: {}", bounded(reason))]);
    }
    let seconds = phase.elapsed_ns.as_secs_f64();
    let count = phase.latency_ns.count() as f64;
    let rate = if seconds > 0.0 {
        value_text(Unit::PerSecond, count / seconds)
    } else {
        "n/a: no time passed".to_owned()
    };
    let quantile = |q: f64| {
        let known = histogram_quantile(&phase.latency_ns, q);
        known.map_or_else(|| "n/a".to_owned(), |value| value_text(Unit::Nanoseconds, value))
    };
    let longest =
        phase.latency_ns.buckets().last().map(|bucket| value_text(Unit::Nanoseconds, bucket.upper() as f64));
    let longest = longest.unwrap_or_else(|| "n/a".to_owned());
    Some(vec![disks.label.clone(), blocks, rate, quantile(0.5), quantile(0.99), longest])
}

/// How the disk of each platform lies on its blocks, and a warning for each that does not.
fn alignments(all: &[Disks<'_>]) -> Markup {
    let known: Vec<(&Disks<'_>, &Alignment)> =
        all.iter().filter_map(|disks| Some((disks, disks.detail.alignment.as_ref()?))).collect();
    let rows: Vec<Vec<String>> =
        known.iter().map(|(disks, alignment)| alignment_row(&disks.label, alignment)).collect();
    let head = ["Platform", "Device", "Physical block", "Verdict", "Writes off block boundaries"];
    html! {
        @for (disks, alignment) in &known {
            @if alignment.verdict == AlignmentVerdict::Misaligned {
                p {
                    strong { (disks.label) ": misaligned. " }
                    (bounded(&alignment.why)) ". A misaligned partition halves sequential writes (Lourot 2010)"
                    (measured_cost(alignment)) "."
                }
            }
        }
        @if !rows.is_empty() { (behind("Table: alignment", &plain_table(&head, &rows))) }
    }
}

fn measured_cost(alignment: &Alignment) -> String {
    let ratio = alignment.shifted.as_ref().and_then(ShiftedWrites::ratio);
    ratio.map_or_else(String::new, |ratio| {
        let share = value_text(Unit::Share, ratio);
        format!("; here, writes off block boundaries reached {share} of the throughput of those on them")
    })
}

fn alignment_row(label: &str, alignment: &Alignment) -> Vec<String> {
    let verdict = match alignment.verdict {
        AlignmentVerdict::Aligned => "aligned",
        AlignmentVerdict::Misaligned => "misaligned",
        AlignmentVerdict::Unknown => "not known",
    };
    let size = |bytes: Option<Bytes>| bytes.map_or_else(|| "not known".to_owned(), |bytes| bytes.to_string());
    let shifted = match (alignment.shifted.as_ref().and_then(ShiftedWrites::ratio), &alignment.not_shifted) {
        (Some(ratio), _) => format!("{} of those on them", value_text(Unit::Share, ratio)),
        (None, Some(why)) => format!("n/a: {}", bounded(why)),
        (None, None) => "n/a: not measured".to_owned(),
    };
    vec![
        label.to_owned(),
        alignment.device.as_deref().map_or_else(|| "not known".to_owned(), bounded),
        size(alignment.physical_block_bytes),
        format!("{verdict}: {}", bounded(&alignment.why)),
        shifted,
    ]
}

fn table(all: &[Disks<'_>]) -> Markup {
    let mut rows: Vec<Vec<String>> = all
        .iter()
        .flat_map(|disks| disks.detail.phases.iter().map(|phase| phase_row(&disks.label, phase)))
        .take(400)
        .collect();
    rows.sort_by(|a, b| a.first().cmp(&b.first()));
    plain_table(&["Phase", "Platform", "Moved", "Took", "Throughput", "Longest operations"], &rows)
}

fn phase_row(label: &str, phase: &DiskPhase) -> Vec<String> {
    let words = key_words((phase.direction, phase.mode, phase.block_bytes));
    if let Some(reason) = &phase.unsupported {
        return vec![words, label.to_owned(), format!("n/a: {}", bounded(reason))];
    }
    let throughput = if phase.elapsed_ns.get() == 0 {
        "n/a: no time passed".to_owned()
    } else {
        value_text(Unit::BytesPerSecond, phase.bytes.as_f64() / phase.elapsed_ns.as_secs_f64())
    };
    let worst: Vec<String> = phase.stalls.iter().take(3).map(|stall| stall.length_ns.to_string()).collect();
    vec![
        words,
        label.to_owned(),
        phase.bytes.to_string(),
        phase.elapsed_ns.to_string(),
        throughput,
        if worst.is_empty() { "none kept".to_owned() } else { worst.join(", ") },
    ]
}
