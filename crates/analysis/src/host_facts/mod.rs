//! What a run says of its host to who plans for it: how late one is woken up, what a disk gives, how long a start takes.
//!
//! ```text
//!  wakeup beside loads ─► miss rates with the latency that is kept, from without a load to the worst one
//!  disk ────────────────► least throughput past the page cache, longest stalls
//!  cpu on the host ─────► how much of a CPU each gives while all work
//!  start of a VM, round trips over ssh, channel bench ─► times
//! ```
//! Where an interval is known, both ends are kept: a plan is held to the safe one, predictions have both. What was not measured
//! stays unset, and whoever plans says what he takes instead.

use model::channel_bench::{ChannelBench, Way};
use model::journal::{Cell, PlatformState};
use model::results::{CellResult, MetricResult, RunResults};
use model::system::{HostFacts, Interval, Wakeup};
use probes::ProbeKind;
use probes::detail::Detail;
use units::layout::Layout;
use units::metric::saturate;
use units::names::{LoadKind, PlatformKind};
use units::{Bytes, Micros, Millis};

use crate::exceedance;

/// Shares of wake-ups that are later, and the metric that is the quantile, where there is one.
const MISS_RATES: [(f64, Option<&str>); 5] = [
    (0.0001, Some("response_p99_99_ns")),
    (0.001, Some("response_p99_9_ns")),
    (0.01, Some("response_p99_ns")),
    (0.1, None),
    (0.5, None),
];
/// Wake-ups later than a quantile that it takes for it to be believed.
const SAMPLES_BEYOND: f64 = 10.0;

/// What was measured on a host.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MeasuredHost {
    /// Facts.
    pub facts: HostFacts,
    /// What the disk below the run gave.
    pub disk: Option<MeasuredDisk>,
    /// What a reader has to know of them, a sentence each.
    pub notes: Vec<String>,
}

/// What a disk gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeasuredDisk {
    /// The device as the host's kernel calls it, mostly a partition of the disk.
    pub device: String,
    /// The least of the ways that do not end in the page cache, bytes per second.
    pub bytes_per_s: Interval<Bytes>,
    /// Longest stall of a round beside somebody else who writes: from the shortest to the longest of all rounds.
    pub stall: Option<Interval<Millis>>,
    /// Longest stall alone.
    pub stall_alone: Option<Interval<Millis>>,
}

/// What a run says of its host.
pub fn of_run(run: &RunResults) -> MeasuredHost {
    let mut measured = MeasuredHost::default();
    if run.simulation.is_some() {
        measured
            .notes
            .push("the run was simulated, not measured: nothing of it is a fact of a host".to_owned());
        return measured;
    }
    if !run.made_up.is_empty() {
        let labels = run.made_up.join(", ");
        measured.notes.push(format!("figures of {labels} are made up, and are no facts"));
    }
    if !run.dirty.is_empty() {
        measured.notes.push(format!(
            "the run is dirty, its figures hold other work of that time, too: {}",
            run.dirty.join("; ")
        ));
    }
    if !run.complete {
        measured.notes.push("the run was interrupted: what it had measured until then counts".to_owned());
    }
    let is_translated = |platform: &&PlatformState| {
        let mut said = platform.properties.iter();
        platform.kind == PlatformKind::Vm && said.any(|(key, value)| key == "accelerator" && value == "tcg")
    };
    for platform in run.platforms.iter().filter(is_translated) {
        let label = &platform.label;
        measured
            .notes
            .push(format!("QEMU translates the guests of {label} (tcg): with KVM they are far quicker"));
    }
    measured.facts.wakeup = wakeup(run, &mut measured.notes);
    measured.facts.start_ms = start(run);
    measured.facts.granted_per_mille = granted(run);
    measured.facts.network_us = network(run);
    measured.disk = disk(run, &mut measured.notes);
    measured
}

/// What a channel bench says: half of a round trip of the smallest message, 99 % of them. `is_far` is whether its two CPUs are of
/// different memory nodes.
pub fn of_channel_bench(bench: &ChannelBench, is_far: bool) -> MeasuredHost {
    let mut measured = MeasuredHost::default();
    let series = bench.series.iter().filter(|series| series.way == Way::Channel);
    let smallest = series.min_by_key(|series| series.size_bytes);
    let Some(round_trip) = smallest.and_then(|series| series.p99_ns.estimate()) else {
        measured.notes.push("the bench has no round trips of a channel between partitions".to_owned());
        return measured;
    };
    if bench.engine.as_deref() == Some("tcg") {
        measured.notes.push("the channel was measured between guests that QEMU translates (tcg)".to_owned());
    }
    let one_way = Some(Interval::between(micros(round_trip.low / 2.0), micros(round_trip.high / 2.0)));
    if is_far {
        measured.facts.channel_far_us = one_way;
    } else {
        measured.facts.channel_us = one_way;
    }
    measured
}

/// Labels of the platforms of a kind whose figures were measured.
fn labels(run: &RunResults, kind: PlatformKind) -> impl Iterator<Item = &str> {
    run.platforms.iter().filter(move |platform| platform.kind == kind).map(|platform| platform.label.as_str())
}

/// Cells of a probe on a platform that have figures.
fn cells<'a>(run: &'a RunResults, probe: ProbeKind, label: &str) -> Vec<&'a CellResult> {
    let is_it = |cell: &Cell| cell.probe == probe && cell.platform == label;
    run.cells.iter().filter(|result| is_it(&result.cell) && result.done > 0).collect()
}

fn is_alone(cell: &Cell) -> bool {
    cell.layout.is_none_or(|layout| layout.instances() == 1)
}

fn metric<'a>(cell: &'a CellResult, id: &str) -> Option<&'a MetricResult> {
    cell.metrics.iter().find(|metric| metric.id == id)
}

/// Two ends of a figure.
type Ends = (f64, f64);

/// A figure's interval, or from nothing to what it is at most where it has none.
fn ends(metric: &MetricResult) -> Option<Ends> {
    let interval = metric.estimate.estimate().map(|estimate| (estimate.low, estimate.high));
    interval
        .or_else(|| Some((0.0, metric.at_most?)))
        .filter(|(low, high)| low.is_finite() && high.is_finite())
}

/// From the lower of both lower ends to the higher of both upper ends.
fn around(a: Ends, b: Ends) -> Ends {
    (a.0.min(b.0), a.1.max(b.1))
}

/// How late wake-ups are: on VMs if they were measured beside loads, else natively. From the least late of all cells of that platform to the worst.
fn wakeup(run: &RunResults, notes: &mut Vec<String>) -> Vec<Wakeup> {
    let alone = |label: &&str| -> Vec<&CellResult> {
        cells(run, ProbeKind::Wakeup, label).into_iter().filter(|result| is_alone(&result.cell)).collect()
    };
    // An instance that rests is the control.
    let has_load =
        |result: &CellResult| result.cell.neighbour.is_some_and(|neighbour| neighbour.kind != LoadKind::Idle);
    let is_loaded = |label: &&str| alone(label).into_iter().any(has_load);
    let both: Vec<&str> = labels(run, PlatformKind::Vm).chain(labels(run, PlatformKind::Native)).collect();
    let Some(label) = both.iter().copied().find(is_loaded) else {
        if both.iter().any(|label| !alone(label).is_empty()) {
            notes.push("wake-ups were measured without a load beside them: that says nothing of how late they can be".to_owned());
        }
        return Vec::new();
    };
    let cells = alone(&label);
    let broken = run.cells.iter().filter(|result| {
        result.cell.probe == ProbeKind::Wakeup && result.cell.platform == label && result.done == 0
    });
    for result in broken {
        let beside =
            result.cell.neighbour.map_or_else(String::new, |neighbour| format!(" beside {}", neighbour.kind));
        notes.push(format!("wake-ups on {label}{beside} could not be measured: they are in no figure"));
    }
    let is_ordinary = |result: &&CellResult| matches!(&result.detail, Some(Detail::Wakeup(detail)) if detail.priority.is_none());
    if cells.iter().any(is_ordinary) {
        notes.push(format!("wake-ups on {label} were measured without real-time priority"));
    }
    let all_of = |(miss_rate, id): &(f64, Option<&str>)| {
        let all: Option<Vec<Ends>> = cells.iter().map(|result| latest(result, *miss_rate, *id)).collect();
        Some((*miss_rate, all?.into_iter().reduce(around)?))
    };
    let mut known: Vec<Wakeup> = MISS_RATES
        .iter()
        .filter_map(all_of)
        .map(|(miss_rate, (low, high))| Wakeup {
            miss_rate,
            latency_us: Interval::between(micros(low), micros(high)),
        })
        .collect();
    // Bounds of different origin: who is later more seldom is never less late.
    let mut least = Micros::default();
    for wakeup in known.iter_mut().rev() {
        least = least.max(wakeup.latency_us.high());
        wakeup.latency_us = Interval::between(wakeup.latency_us.low(), least);
    }
    if known.is_empty() {
        notes.push(format!(
            "the run is too short for any quantile of how late wake-ups on {label} are beside loads"
        ));
    }
    known
}

/// The latency that is exceeded with this share at most, nanoseconds; none where too few were seen.
fn latest(result: &CellResult, miss_rate: f64, id: Option<&str>) -> Option<Ends> {
    let Some(Detail::Wakeup(detail)) = &result.detail else { return None };
    let of_a_round: u64 = detail.threads.iter().map(|thread| thread.response_ns.count()).sum();
    let seen = of_a_round as f64 * f64::from(result.done);
    // Rounding must not deny a thousand their ten.
    if seen * miss_rate < SAMPLES_BEYOND * (1.0 - 1e-9) {
        return None;
    }
    let quantile = id.and_then(|id| ends(metric(result, id)?));
    quantile.or_else(|| Some((0.0, exceedance::within(result.exceedance.as_ref()?, miss_rate)?)))
}

/// From the start of a VM until its agent answered, of all kinds of them.
fn start(run: &RunResults) -> Option<Interval<Millis>> {
    let vms = run.platforms.iter().filter(|platform| platform.kind == PlatformKind::Vm);
    let starts = vms.filter_map(|platform| platform.start_ns);
    starts.map(|start| Interval::One(millis(start.as_f64()))).reduce(Interval::around)
}

/// How much of a CPU each of the host's gives while all of them work: the fixed work on one thread against as much on each CPU.
fn granted(run: &RunResults) -> Option<Interval<u32>> {
    let native = labels(run, PlatformKind::Native).flat_map(|label| cells(run, ProbeKind::Cpu, label));
    let quiet = native.filter(|result| is_alone(&result.cell) && result.cell.neighbour.is_none());
    let parts = quiet.filter_map(|result| {
        let [one, all] = ["time_one_thread_ns", "time_all_cpus_ns"].map(|id| ends(metric(result, id)?));
        let ((fastest, slowest), (quick, slow)) = (one?, all?);
        Some((fastest / slow, slowest / quick))
    });
    let (low, high) = parts.reduce(around)?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "held between 1 and 1000")]
    let per_mille = |part: f64| (1000.0 * part).round().clamp(1.0, 1000.0) as u32;
    Some(Interval::between(per_mille(low), per_mille(high)))
}

/// Half of what 99 % of round trips over the network take, between machines that ssh reaches: all other layouts are on one machine.
fn network(run: &RunResults) -> Option<Interval<Micros>> {
    let is_between = |layout: Layout| layout.hosts() > 1;
    let all = labels(run, PlatformKind::Ssh).flat_map(|label| cells(run, ProbeKind::Net, label));
    let between = all.filter(|result| result.cell.layout.is_some_and(is_between));
    let ids = ["tcp_round_trip_p99_ns", "udp_round_trip_p99_ns"];
    let trips = between.flat_map(|result| ids.iter().filter_map(|id| ends(metric(result, id)?)));
    trips.reduce(around).map(|(low, high)| Interval::between(micros(low / 2.0), micros(high / 2.0)))
}

/// Ways of the disk probe past the page cache.
const DIRECT: [&str; 2] = ["write_direct_bytes_per_s", "read_direct_bytes_per_s"];
/// What counts where there are none: not the cache either, but a flush for each block.
const FLUSHED: [&str; 1] = ["write_fsync_bytes_per_s"];
const STALL: &str = "longest_stall_ns";

/// The disk below the run: the least of what native and VMs got of it. A guest's writes may end in its host's page cache, a native
/// program's do not.
fn disk(run: &RunResults, notes: &mut Vec<String>) -> Option<MeasuredDisk> {
    let native: Vec<&CellResult> =
        labels(run, PlatformKind::Native).flat_map(|label| cells(run, ProbeKind::Disk, label)).collect();
    let guests = labels(run, PlatformKind::Vm).flat_map(|label| cells(run, ProbeKind::Disk, label));
    let all: Vec<&CellResult> = native.iter().copied().chain(guests).collect();
    if all.is_empty() {
        return None;
    }
    // Only on the host itself a device has the host's name.
    let device = native.iter().find_map(|result| match &result.detail {
        Some(Detail::Disk(detail)) => detail.alignment.as_ref()?.device.clone(),
        _ => None,
    });
    let Some(device) = device else {
        notes.push("which disk the disk probe wrote to is not known (it takes the platform native, and a file system on a disk)".to_owned());
        return None;
    };
    let quiet = || all.iter().filter(|result| is_alone(&result.cell) && result.cell.neighbour.is_none());
    let slowest = |ids: &[&str]| {
        let rates = quiet().flat_map(|result| {
            ids.iter()
                .filter_map(|id| metric(result, id)?.estimate.estimate().map(|rate| (rate.low, rate.high)))
        });
        let known = rates.filter(|(low, high)| low.is_finite() && high.is_finite() && *low >= 1.0);
        known.min_by(|a, b| a.0.total_cmp(&b.0))
    };
    let Some(rate) = slowest(&DIRECT).or_else(|| slowest(&FLUSHED)) else {
        notes.push(format!(
            "what the disk of {device} gives past the page cache was not measured, or in too few rounds"
        ));
        return None;
    };
    let contended = |result: &&&CellResult| {
        let beside = result.cell.neighbour.is_some_and(|neighbour| neighbour.kind == LoadKind::Disk);
        beside || !is_alone(&result.cell)
    };
    let alone = longest(quiet().copied());
    let beside = longest(all.iter().filter(contended).copied());
    Some(MeasuredDisk {
        device,
        bytes_per_s: Interval::between(bytes(rate.0), bytes(rate.1)),
        // Company makes nothing quicker.
        stall: beside.map(|beside| alone.map_or(beside, |alone| Interval::around(beside, alone))),
        stall_alone: alone,
    })
}

/// The longest stalls of all rounds, and where an interval goes beyond them its ends.
fn longest<'a>(cells: impl Iterator<Item = &'a CellResult>) -> Option<Interval<Millis>> {
    let of_cell = |result: &'a CellResult| {
        let stall = metric(result, STALL)?;
        let lengths = stall.samples.iter().map(|(_, length)| (*length, *length)).chain(ends(stall));
        lengths.filter(|(_, length)| length.is_finite()).reduce(around)
    };
    let (low, high) = cells.filter_map(of_cell).reduce(around)?;
    Some(Interval::between(millis(low), millis(high)))
}

/// Bytes per second, rounded down.
fn bytes(rate: f64) -> Bytes {
    Bytes::from_bytes(saturate(rate.floor()))
}

/// Nanoseconds as microseconds, rounded up.
fn micros(nanos: f64) -> Micros {
    Micros::from_micros(saturate((nanos / 1e3).ceil()))
}

/// Nanoseconds as milliseconds, rounded up.
fn millis(nanos: f64) -> Millis {
    Millis::from_millis(saturate((nanos / 1e6).ceil()))
}

#[cfg(test)]
mod tests;
