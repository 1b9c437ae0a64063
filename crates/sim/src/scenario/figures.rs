//! Reads figures off a machine that has run.

use super::catalogue::Kind;
use super::names::Names;
use super::response_bounds::{TaskBound, VmBounds};
use super::{Figure, goals};
use crate::guest::{Guest, ThreadReport, Waits};
use crate::host::{self, Done, Machine, View};
use crate::time::{Span, Time};
use model::scenario::{ProgramSpec, Scenario, VmSpec};
use model::simulation::{TimeLine, TimeStretch, WaitTimes};
use probes::ProbeKind;
use units::Nanos;
use units::metric::{Better, Unit};

/// VMs of which it is said why their tasks have no bound.
const MOST_NOTES: usize = 10;

pub(super) const CPUS: Kind =
    Kind("cpus", "CPUs it had, on average while it was not done", Unit::Count, Better::Higher);
pub(super) const HOST_SHARE: Kind =
    Kind("host_share", "share of the host's CPUs it had while it was not done", Unit::Share, Better::Higher);
pub(super) const CPU: Kind = Kind("cpu_ns", "CPU time it had", Unit::Nanoseconds, Better::Neither);
pub(super) const STEAL: Kind =
    Kind("steal_ns", "time its virtual CPUs waited for a CPU", Unit::Nanoseconds, Better::Lower);
pub(super) const WALL: Kind =
    Kind("wall_ns", "time until all its programs were done", Unit::Nanoseconds, Better::Lower);
pub(super) const FIRST: Kind =
    Kind("first_wall_ns", "time until its first program was done", Unit::Nanoseconds, Better::Lower);
pub(super) const SPIN: Kind = Kind(
    "spin_ns",
    "CPU time spent spinning for locks and acknowledgements",
    Unit::Nanoseconds,
    Better::Lower,
);
pub(super) const SPIN_SHARE: Kind =
    Kind("spin_share", "share of its CPU time spent spinning", Unit::Share, Better::Lower);
pub(super) const LOCK_WAIT: Kind =
    Kind("lock_wait_max_ns", "longest time a thread waited for a lock", Unit::Nanoseconds, Better::Lower);
pub(super) const KICKS: Kind =
    Kind("lock_kicks", "times one that waited for a lock was woken", Unit::Count, Better::Neither);
pub(super) const DISPATCHES: Kind =
    Kind("dispatches", "times a virtual CPU was brought onto a CPU", Unit::Count, Better::Neither);
pub(super) const DONE: Kind = Kind("done", "rounds its programs completed", Unit::Count, Better::Higher);
pub(super) const DEADLINE: Kind =
    Kind("deadline_ns", "deadline of its jobs, from their arrival", Unit::Nanoseconds, Better::Neither);
pub(super) const RESPONSE_MAX: Kind = Kind(
    "response_max_ns",
    "longest time from the arrival of a job to its end",
    Unit::Nanoseconds,
    Better::Lower,
);
pub(super) const RESPONSE_P99_9: Kind =
    Kind("response_p99_9_ns", "the same, of 999 in 1000 jobs", Unit::Nanoseconds, Better::Lower);
pub(super) const RESPONSE_P99: Kind =
    Kind("response_p99_ns", "the same, of 99 in 100 jobs", Unit::Nanoseconds, Better::Lower);
/// Responses by the share of jobs that are not above them.
const RESPONSES: [(f64, &Kind); 3] = [(1.0, &RESPONSE_MAX), (0.999, &RESPONSE_P99_9), (0.99, &RESPONSE_P99)];
pub(super) const RESPONSE_BOUND: Kind = Kind(
    "response_bound_ns",
    "proven: no job takes longer from its arrival to its end",
    Unit::Nanoseconds,
    Better::Lower,
);
pub(super) const TARDINESS: Kind = Kind(
    "tardiness_max_ns",
    "longest time by which a job that was done was late",
    Unit::Nanoseconds,
    Better::Lower,
);
pub(super) const ABORTED: Kind =
    Kind("aborted_share", "share of its jobs that were aborted", Unit::Share, Better::Lower);
pub(super) const MISSED: Kind =
    Kind("missed_share", "share of its jobs that were late", Unit::Share, Better::Lower);
pub(super) const BOUND: Kind = Kind(
    "bound_95_ns",
    "bound_95: longer stretches away take 5 % of the time",
    Unit::Nanoseconds,
    Better::Lower,
);
pub(super) const AWAY: Kind =
    Kind("away_typical_ns", "time-weighted median of the stretches away", Unit::Nanoseconds, Better::Lower);
pub(super) const LEFT_OUT: Kind = Kind(
    "samples_left_out",
    "samples that had no room; figures of its samples are of the first ones",
    Unit::Count,
    Better::Lower,
);
pub(super) const LEAST: Kind = Kind("sample_min_ns", "shortest sample", Unit::Nanoseconds, Better::Lower);
pub(super) const MEAN: Kind = Kind("sample_mean_ns", "mean sample", Unit::Nanoseconds, Better::Lower);
pub(super) const MEDIAN: Kind = Kind("sample_p50_ns", "median sample", Unit::Nanoseconds, Better::Lower);
pub(super) const P99: Kind =
    Kind("sample_p99_ns", "99th percentile of the samples", Unit::Nanoseconds, Better::Lower);
pub(super) const MOST: Kind = Kind("sample_max_ns", "longest sample", Unit::Nanoseconds, Better::Lower);
pub(super) const DEVIATION: Kind =
    Kind("sample_deviation_ns", "standard deviation of the samples", Unit::Nanoseconds, Better::Lower);
pub(super) const SPEED: Kind = Kind(
    "speed_share",
    "work it did in its CPU time, of what CPUs of its own would have done",
    Unit::Share,
    Better::Higher,
);
pub(super) const MEMORY: Kind = Kind(
    "memory_bytes_per_s",
    "memory bandwidth it had, on average while it was not done",
    Unit::BytesPerSecond,
    Better::Higher,
);
pub(super) const USED: Kind =
    Kind("used_share", "share of the CPUs' time that was used", Unit::Share, Better::Higher);
pub(super) const SWITCHING: Kind =
    Kind("switching_share", "share of the CPUs' time that went to switching", Unit::Share, Better::Lower);
pub(super) const MIGRATIONS: Kind = Kind(
    "migrations_per_s",
    "times per second that a virtual CPU went on on another CPU",
    Unit::PerSecond,
    Better::Lower,
);

/// All figures of a host and its VMs.
pub(super) fn of(machine: &Machine, names: &Names, scenario: &Scenario, bounds: &[VmBounds]) -> Vec<Figure> {
    let view = machine.view();
    let mut figures = Vec::new();
    let whole: f64 = view.now.since(Time::ZERO).as_f64() * view.cpus.len() as f64;
    let sum =
        |part: fn(&crate::host::Cpu) -> Span| view.cpus.iter().map(|cpu| part(cpu).as_f64()).sum::<f64>();
    let mut host = |kind: &Kind, value: f64| figures.push(figure("host", kind, ProbeKind::Cpu, value));
    host(&USED, ratio(sum(|cpu| cpu.run), whole));
    host(&SWITCHING, ratio(sum(|cpu| cpu.switching), whole));
    let migrations: u64 = view.cpus.iter().map(|cpu| cpu.migrations).sum();
    host(&MIGRATIONS, ratio(migrations as f64 * 1e9, view.now.since(Time::ZERO).as_f64()));
    for (number, guest) in machine.guests().iter().enumerate() {
        let (Some(name), Some(spec)) = (names.vms.get(number), names.spec(scenario, number)) else {
            continue;
        };
        let bounds = names.spec_of.get(number).and_then(|entry| bounds.get(*entry));
        let bounds = bounds.map_or(&[][..], Vec::as_slice);
        figures.extend(of_vm(view, number, guest, (name, spec, bounds)));
        if let Some(speeds) = machine.speeds() {
            let done = host::of_vm(speeds, view, number);
            figures.extend(of_speeds(done, done_after(view, guest), (name, spec)));
        }
    }
    figures.extend(goals::of(&figures, names, scenario));
    figures
}

fn figure(whose: &str, kind: &Kind, probe: ProbeKind, value: f64) -> Figure {
    let Kind(id, title, unit, better) = kind;
    let title = format!("{}: {title}", whose.strip_prefix("vm.").unwrap_or(whose));
    Figure { id: format!("{whose}.{id}"), title, unit: *unit, better: *better, probe, is_exact: None, value }
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// The probe that measures on a real machine what a VM's first program does.
fn probe(spec: &VmSpec) -> ProbeKind {
    match spec.threads.first().map(|thread| &thread.run) {
        Some(ProgramSpec::Fwq { .. }) => ProbeKind::Fwq,
        Some(ProgramSpec::Gap { .. }) => ProbeKind::Gap,
        Some(ProgramSpec::Ftq { .. }) => ProbeKind::Ftq,
        Some(ProgramSpec::Periodic { .. }) => ProbeKind::Wakeup,
        Some(ProgramSpec::Compile { .. }) => ProbeKind::Build,
        Some(ProgramSpec::Io { .. }) => ProbeKind::Disk,
        Some(ProgramSpec::Fixed { .. } | ProgramSpec::Unmap { .. }) => ProbeKind::Cpu,
        Some(ProgramSpec::Endless {}) | None => ProbeKind::Share,
    }
}

fn of_vm(
    view: &View,
    number: usize,
    guest: &Guest,
    (name, spec, bounds): (&str, &VmSpec, &[TaskBound]),
) -> Vec<Figure> {
    let whose = format!("vm.{name}");
    let probe = probe(spec);
    let wall = view.now.since(Time::ZERO);
    let (mut cpu, mut steal, mut dispatches) = (0.0, 0.0, 0.0);
    for vcpu in view.vms[number].vcpus() {
        let vcpu = view.vcpu(vcpu);
        cpu += vcpu.run.as_f64();
        steal += vcpu.steal.as_f64();
        dispatches += vcpu.dispatches as f64;
    }
    let threads = guest.threads();
    let mut figures = Vec::new();
    let mut add = |kind: &Kind, value: f64| figures.push(figure(&whose, kind, probe, value));
    let ends: Vec<Time> = threads.iter().filter_map(|thread| thread.ended).collect();
    let finite = threads.iter().filter(|thread| thread.ended.is_some()).count() == threads.len();
    let wall = ends.iter().max().filter(|_| finite).map_or(wall, |end| end.since(Time::ZERO));
    add(&CPUS, ratio(cpu, wall.as_f64()));
    add(&HOST_SHARE, ratio(cpu, wall.as_f64() * view.cpus.len() as f64));
    add(&CPU, cpu);
    add(&STEAL, steal);
    add(&DISPATCHES, dispatches);
    if let (true, Some(first), Some(last)) = (finite, ends.iter().min(), ends.iter().max()) {
        add(&FIRST, first.since(Time::ZERO).as_f64());
        add(&WALL, last.since(Time::ZERO).as_f64());
    }
    let spin: f64 = threads.iter().map(|thread| thread.spin.as_f64()).sum();
    if spec.locks.count > 0 || spec.shoots_down() {
        add(&SPIN, spin);
        add(&SPIN_SHARE, ratio(spin, cpu));
    }
    if spec.locks.count > 0 {
        let locks = guest.locks();
        add(&LOCK_WAIT, locks.iter().map(|lock| lock.longest.as_f64()).fold(0.0, f64::max));
        add(&KICKS, locks.iter().map(|lock| lock.kicks as f64).sum());
    }
    if matches!(probe, ProbeKind::Gap) {
        let (bound, typical) = of_stretches(&threads, wall);
        add(&BOUND, bound);
        add(&AWAY, typical);
    }
    for (kind, value) in of_samples(&threads) {
        add(&kind, value);
    }
    figures.extend(of_tasks(&whose, spec, &threads, bounds));
    figures
}

/// The time until all of a guest's threads were done, or all of it.
fn done_after(view: &View, guest: &Guest) -> Span {
    let ends: Option<Vec<Time>> = guest.threads().iter().map(|thread| thread.ended).collect();
    ends.and_then(|ends| ends.into_iter().max()).unwrap_or(view.now).since(Time::ZERO)
}

/// What CPUs that slow each other left of a VM's CPU time.
fn of_speeds(done: Done, wall: Span, (name, spec): (&str, &VmSpec)) -> Vec<Figure> {
    let whose = format!("vm.{name}");
    let mut figures =
        vec![figure(&whose, &SPEED, probe(spec), ratio(done.work.as_f64(), done.time.as_f64()))];
    if spec.threads.iter().any(|thread| thread.memory_mb_s > 0) {
        // Thousandths of a byte per nanosecond.
        let rate = ratio(done.moved as f64 * 1e6, wall.as_f64());
        figures.push(figure(&whose, &MEMORY, probe(spec), rate));
    }
    figures
}

/// Figures of each real-time task: the threads of one entry.
fn of_tasks(whose: &str, spec: &VmSpec, threads: &[ThreadReport], bounds: &[TaskBound]) -> Vec<Figure> {
    let (mut figures, mut first) = (Vec::new(), 0);
    for (number, entry) in spec.threads.iter().enumerate() {
        let count = entry.count.unwrap_or(spec.vcpus) as usize;
        let own = threads.get(first..first + count).unwrap_or_default();
        first += count;
        let ProgramSpec::Periodic(task) = &entry.run else { continue };
        let whose = format!("{whose}.thread.{number}");
        let make = |kind: &Kind, value: f64| figure(&whose, kind, ProbeKind::Wakeup, value);
        let deadline = Span::from_micros(task.deadline_us().get()).as_f64();
        figures.push(make(&DEADLINE, deadline));
        let sum = |of: fn(&ThreadReport) -> u64| own.iter().map(of).sum::<u64>() as f64;
        let aborted = sum(|thread| thread.seen.aborted);
        let jobs = sum(|thread| thread.seen.done) + aborted;
        let responses = sorted(own);
        for (quantile, kind) in &RESPONSES {
            if let Some(response) = at_quantile(&responses, *quantile) {
                figures.push(make(kind, response));
            }
        }
        if let Some(longest) = responses.last() {
            figures.push(make(&TARDINESS, (*longest as f64 - deadline).max(0.0)));
        }
        if let Some((_, Ok(bound))) = bounds.iter().find(|(entry, _)| *entry == number) {
            let longest = make(&RESPONSE_BOUND, bound.response.as_f64());
            figures.push(Figure { is_exact: Some(bound.is_exact), ..longest });
        }
        if jobs > 0.0 {
            figures.push(make(&MISSED, ratio(sum(|thread| thread.seen.missed), jobs)));
            figures.push(make(&ABORTED, ratio(aborted, jobs)));
        }
    }
    figures
}

/// All samples of these threads, ascending.
fn sorted(threads: &[ThreadReport]) -> Vec<u64> {
    let mut samples: Vec<u64> =
        threads.iter().flat_map(|thread| thread.seen.samples.iter().map(|span| span.nanos())).collect();
    samples.sort_unstable();
    samples
}

/// The smallest sample that so many are not above: the inverse of the empirical distribution.
fn at_quantile(sorted: &[u64], quantile: f64) -> Option<f64> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and the count")]
    let place = (quantile * sorted.len() as f64).ceil() as usize;
    sorted.get(place.max(1) - 1).map(|sample| *sample as f64)
}

/// Of stretches in which threads did not run: `bound_95`, the shortest length above which at most 5 % of all time lie, and the
/// time-weighted median.
fn of_stretches(threads: &[ThreadReport], wall: Span) -> (f64, f64) {
    let mut away: Vec<u64> =
        threads.iter().flat_map(|thread| thread.seen.samples.iter().map(|span| span.nanos())).collect();
    away.sort_unstable_by_key(|length| std::cmp::Reverse(*length));
    let all = wall.as_f64() * threads.len() as f64;
    let lost: f64 = away.iter().map(|length| *length as f64).sum();
    let reached = |part: f64| {
        let mut sum = 0.0;
        let found = away.iter().find(|length| {
            sum += **length as f64;
            sum > part
        });
        found.map_or(0.0, |length| *length as f64)
    };
    (reached(0.05 * all), reached(0.5 * lost))
}

/// Figures of what a VM's programs have seen.
fn of_samples(threads: &[ThreadReport]) -> Vec<(Kind, f64)> {
    let mut figures = Vec::new();
    let done: u64 = threads.iter().map(|thread| thread.seen.done).sum();
    let missed: u64 = threads.iter().map(|thread| thread.seen.missed).sum();
    let aborted: u64 = threads.iter().map(|thread| thread.seen.aborted).sum();
    if done + aborted > 0 {
        figures.push((DONE, done as f64));
        figures.push((MISSED, ratio(missed as f64, (done + aborted) as f64)));
    }
    let samples = sorted(threads);
    let left_out: u64 = threads.iter().map(|thread| thread.seen.left_out).sum();
    if left_out > 0 {
        figures.push((LEFT_OUT, left_out as f64));
    }
    let count = samples.len();
    let (Some(least), Some(most)) = (samples.first(), samples.last()) else { return figures };
    let at = |quantile: f64| at_quantile(&samples, quantile).unwrap_or(*most as f64);
    // Around the least one, so that small differences of long samples keep their digits.
    let mean =
        samples.iter().map(|sample| (sample - least) as f64).sum::<f64>() / count as f64 + *least as f64;
    let variance = samples.iter().map(|sample| (*sample as f64 - mean).powi(2)).sum::<f64>() / count as f64;
    figures.extend([
        (LEAST, *least as f64),
        (MEAN, mean),
        (MEDIAN, at(0.5)),
        (P99, at(0.99)),
        (MOST, *most as f64),
        (DEVIATION, variance.sqrt()),
    ]);
    figures
}

/// Tasks that answered later than is proven: the simulator or the analysis is wrong.
pub(super) fn above_their_bounds(figures: &[Figure]) -> Option<String> {
    let value = |id: String| figures.iter().find(|figure| figure.id == id).map(|figure| figure.value);
    figures.iter().find_map(|figure| {
        let task = figure.id.strip_suffix(RESPONSE_BOUND.0)?.strip_suffix('.')?;
        let worst = value(format!("{task}.{}", RESPONSE_MAX.0)).filter(|worst| *worst > figure.value)?;
        let time = |ns: f64| Nanos::from_nanos(units::metric::saturate(ns));
        let (worst, bound) = (time(worst), time(figure.value));
        Some(format!("{task} answered after {worst}, later than its bound of {bound}: the simulator or the analysis is wrong"))
    })
}

/// Why tasks have no bound, a sentence for each entry of VMs.
pub(super) fn without_bounds(scenario: &Scenario, bounds: &[VmBounds]) -> Vec<String> {
    let bounds = bounds.iter().zip(&scenario.vms);
    let note = |(bounds, vm): (&VmBounds, &VmSpec)| {
        let why = bounds.iter().find_map(|(_, bound)| bound.as_ref().err())?;
        Some(format!("vm.{}: no bound for its tasks: {why}", vm.name))
    };
    bounds.filter_map(note).take(MOST_NOTES).collect()
}

/// What has to be known of these figures: VMs not all of whose samples had room.
pub(super) fn notes(figures: &[Figure]) -> Vec<String> {
    let cut = figures.iter().filter_map(|figure| figure.id.strip_suffix(LEFT_OUT.0)?.strip_suffix('.'));
    let words = |whose: &str| {
        let counted = format!("{whose}.{} counts the others", LEFT_OUT.0);
        format!("{whose}: not all samples had room; their figures are of the first ones, {counted}")
    };
    cut.map(words).collect()
}

/// Waiting times of locks, by VM that has any: time spent spinning, whose sum is the spinning that figures tell. The
/// histograms of Friebel and Biemueller (2008) are such: their sums are parts of the guest's CPU time.
pub(super) fn waits(machine: &Machine, names: &Names) -> Vec<WaitTimes> {
    let of_guest = |(guest, name): (&Guest, &String)| {
        let mut all = Waits::default();
        guest.locks().iter().for_each(|lock| all.merge(&lock.spins));
        (all.count() > 0).then(|| WaitTimes {
            vm: name.clone(),
            counts: all.counts.to_vec(),
            time_ns: all.nanos.iter().map(|nanos| Nanos::from_nanos(*nanos)).collect(),
        })
    };
    machine.guests().iter().zip(&names.vms).filter_map(of_guest).collect()
}

/// Who ran where; `vcpus` are the names of the virtual CPUs.
pub(super) fn time_line(machine: &Machine, vcpus: Vec<String>) -> TimeLine {
    let trace = machine.trace();
    let stretches = trace.stretches.iter().map(|stretch| TimeStretch {
        cpu: stretch.cpu.0,
        vcpu: stretch.vcpu.0,
        start_ns: Nanos::from_nanos(stretch.from.nanos()),
        length_ns: stretch.to.since(stretch.from).into(),
        mode: stretch.mode.into(),
    });
    TimeLine {
        cpus: u32::try_from(machine.view().cpus.len()).unwrap_or(u32::MAX),
        vcpus,
        stretches: stretches.collect(),
        left_out: trace.left_out,
    }
}
