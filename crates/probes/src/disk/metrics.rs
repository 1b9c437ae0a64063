//! Figures of the disk probe.

use stats::summary::histogram_quantile;
use units::Bytes;
use units::metric::{Better, Figure, Metric, Unit};

use crate::detail::{DiskDetail, DiskDirection, DiskPhase, ShiftedWrites};
use crate::figures::{figure, metric, throughput, time, too_few_beyond};
use crate::params::DiskMode;
use crate::probe::Definition;

/// What each figure is, and how it comes about.
pub(crate) const DEFINITIONS: &[Definition] = &[
    Definition {
        ids: "worst_window_50ms_bytes_per_s",
        words: "The least that moved in any 50 ms of a sequential phase.",
    },
    Definition {
        ids: "random_read_per_s",
        words: "Reads of single blocks at random places, one after the other, per second.",
    },
    Definition { ids: "random_read_p*_ns", words: "Time that this share of the random reads stays within." },
    Definition { ids: "random_read_max_ns", words: "The longest random read." },
    Definition {
        ids: "longest_stall_ns",
        words: "The longest single operation of any phase: nothing else moved meanwhile.",
    },
    Definition { ids: "stall_influence_share", words: "That operation's time over the time of its phase." },
    Definition {
        ids: "misaligned_write_ratio",
        words: "Throughput of writes off block boundaries over that of writes on them.",
    },
    Definition {
        ids: "*_bytes_per_s",
        words: "Bytes moved over the time of the phase, at its largest block; the last fsync counts.",
    },
];

/// Length of the windows whose worst is a metric.
const WINDOW_MS: u64 = 50;

/// Reasons come from the agent; more than this is not shown.
const LONGEST_REASON: usize = 200;

/// Every way to move bytes; the first that was measured is the main metric.
const WAYS: [(DiskDirection, DiskMode, &str, &str); 6] = [
    (DiskDirection::Write, DiskMode::Fsync, "write_fsync_bytes_per_s", "write, fsync after each block"),
    (DiskDirection::Write, DiskMode::Buffered, "write_buffered_bytes_per_s", "write, buffered"),
    (DiskDirection::Write, DiskMode::Direct, "write_direct_bytes_per_s", "write, O_DIRECT"),
    (DiskDirection::Read, DiskMode::Fsync, "read_fsync_bytes_per_s", "read, after fsynced writes"),
    (DiskDirection::Read, DiskMode::Buffered, "read_buffered_bytes_per_s", "read, buffered"),
    (DiskDirection::Read, DiskMode::Direct, "read_direct_bytes_per_s", "read, O_DIRECT"),
];

pub(crate) fn metrics(detail: &DiskDetail) -> Vec<Metric> {
    let mut all: Vec<Metric> = WAYS.iter().filter_map(|way| way_metric(detail, way)).collect();
    if let Some(main) = main_of(detail, &all).filter(|main| *main < all.len()) {
        let metric = all.remove(main);
        all.insert(0, metric);
    }
    if all.is_empty() {
        let [(_, _, id, title), ..] = WAYS;
        all.push(throughput(id, title, true, Figure::Unsupported("no disk phase was run".to_owned())));
    }
    if let Some(first) = all.first_mut() {
        first.headline = true;
    }
    let rest = all.split_off(1);
    all.extend(stalls(detail));
    all.extend(random_reads(detail));
    all.extend(rest);
    all.push(worst_window(detail));
    all.extend(misaligned(detail));
    all
}

/// How many random reads per second, and how long single ones take; nothing when they were left out.
fn random_reads(detail: &DiskDetail) -> Vec<Metric> {
    let Some(phase) = detail.phases.iter().find(|phase| phase.direction == DiskDirection::RandomRead) else {
        return Vec::new();
    };
    let refused = phase.unsupported.as_deref().map(readable);
    let missing = refused.as_deref().unwrap_or("no block was read");
    let count = phase.latency_ns.count() as f64;
    let seconds = phase.elapsed_ns.as_secs_f64();
    let rate = (ran(phase) && count > 0.0).then(|| count / seconds);
    let quantile = |q: f64| {
        let of = || figure(histogram_quantile(&phase.latency_ns, q), missing);
        if count == 0.0 {
            of()
        } else {
            too_few_beyond(count, q, "random reads were made").unwrap_or_else(of)
        }
    };
    let longest = phase.latency_ns.buckets().last().map(|bucket| bucket.upper() as f64);
    let what = format!("random read of {}", block(phase.block_bytes));
    let per_second = metric(
        "random_read_per_s",
        &format!("{what}, one after the other"),
        Unit::PerSecond,
        Better::Higher,
        true,
        figure(rate, missing),
    );
    let timed = |id: &str, which: &str, figure: Figure| time(id, &format!("{what}, {which}"), false, figure);
    vec![
        per_second,
        timed("random_read_p50_ns", "median", quantile(0.5)),
        timed("random_read_p99_ns", "99 % quantile", quantile(0.99)),
        timed("random_read_max_ns", "longest", figure(longest, missing)),
    ]
}

/// Throughput of writes off block boundaries over that of writes on them.
fn misaligned(detail: &DiskDetail) -> Option<Metric> {
    let alignment = detail.alignment.as_ref()?;
    let refused = alignment.not_shifted.as_deref().map(readable);
    let missing = refused.as_deref().unwrap_or("nothing was written off block boundaries");
    let ratio = alignment.shifted.as_ref().and_then(ShiftedWrites::ratio);
    Some(metric(
        "misaligned_write_ratio",
        "writes off block boundaries over writes on them",
        Unit::Share,
        Better::Neither,
        false,
        figure(ratio, missing),
    ))
}

/// Throughput of a way at its largest block; none when there is no such phase.
fn way_metric(detail: &DiskDetail, way: &(DiskDirection, DiskMode, &str, &str)) -> Option<Metric> {
    let (direction, mode, id, title) = way;
    let phases = detail.phases.iter().filter(|phase| phase.direction == *direction && phase.mode == *mode);
    // A phase that ran goes before one that could not, then the largest block counts.
    let phase = phases.max_by_key(|phase| (ran(phase), phase.block_bytes))?;
    let value = match &phase.unsupported {
        Some(reason) => Figure::Unsupported(readable(reason)),
        None => figure(
            ran(phase).then(|| phase.bytes.as_f64() / phase.elapsed_ns.as_secs_f64()),
            "nothing was moved in this phase",
        ),
    };
    Some(throughput(id, &format!("{title}, blocks of {}", block(phase.block_bytes)), false, value))
}

/// A reason that came from a guest: bounded, without control characters, never empty.
fn readable(reason: &str) -> String {
    let kept: String = reason.chars().filter(|letter| !letter.is_control()).take(LONGEST_REASON).collect();
    if kept.trim().is_empty() { "the agent gave no reason".to_owned() } else { kept }
}

/// Which of `all` is the main metric: fsynced writes if they ran, otherwise the way of the first phase that ran.
fn main_of(detail: &DiskDetail, all: &[Metric]) -> Option<usize> {
    let has_value = |metric: &Metric| metric.figure.value().is_some();
    let [(_, _, fsynced, _), ..] = WAYS;
    if all.first().is_some_and(|first| first.id == fsynced && has_value(first)) {
        return Some(0);
    }
    let phase = detail.phases.iter().find(|phase| ran(phase))?;
    let way = WAYS.iter().find(|way| way.0 == phase.direction && way.1 == phase.mode)?;
    all.iter().position(|metric| metric.id == way.2)
}

/// Whether a phase moved bytes in a measurable time.
fn ran(phase: &DiskPhase) -> bool {
    phase.unsupported.is_none() && phase.bytes.get() > 0 && phase.elapsed_ns.get() > 0
}

/// The longest stall, and the largest share of its phase that one took.
fn stalls(detail: &DiskDetail) -> [Metric; 2] {
    let missing = "no operation was timed";
    let longest =
        |phase: &DiskPhase| phase.stalls.iter().map(|stall| stall.length_ns.as_f64()).reduce(f64::max);
    let ran_phases = || detail.phases.iter().filter(|phase| ran(phase));
    let stall = ran_phases().filter_map(longest).reduce(f64::max);
    let share = ran_phases()
        .filter_map(|phase| longest(phase).map(|stall| stall / phase.elapsed_ns.as_f64()))
        .reduce(f64::max)
        .map(|share| share.min(1.0));
    [
        time("longest_stall_ns", "longest stall of any phase", true, figure(stall, missing)),
        metric(
            "stall_influence_share",
            "longest stall over the time of its phase",
            Unit::Share,
            Better::Lower,
            false,
            figure(share, missing),
        ),
    ]
}

/// The least that moved in any window of 50 ms of a sequential phase; random reads move little by their nature.
fn worst_window(detail: &DiskDetail) -> Metric {
    let windows = detail
        .phases
        .iter()
        .filter(|phase| ran(phase) && phase.direction != DiskDirection::RandomRead)
        .flat_map(|phase| &phase.windows)
        .filter(|windows| windows.window_ms.get() == WINDOW_MS)
        .flat_map(|windows| &windows.bytes);
    let worst = windows.min().map(|bytes| *bytes as f64 * 1000.0 / WINDOW_MS as f64);
    throughput(
        "worst_window_50ms_bytes_per_s",
        "slowest 50 ms of any sequential phase",
        false,
        figure(worst, "no phase lasted for a whole window of 50 ms"),
    )
}

fn block(bytes: Bytes) -> String {
    bytes.to_string()
}
