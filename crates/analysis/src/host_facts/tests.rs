//! Facts of made-up runs whose figures are known.

use model::channel_bench::{BenchLimits, CHANNEL_BENCH_VERSION, Series};
use model::journal::Neighbour;
use probes::detail::{Alignment, AlignmentVerdict, DiskDetail, WakeupDetail, WakeupThread};
use units::Nanos;
use units::histogram::Histogram;
use units::metric::{Answer, Estimate};

use super::*;
use crate::made_run::{CPU, DISK, cell, measured, run, with_late};

/// Gives a cell the raw outcome of a wakeup probe with so many activations a round.
fn with_activations(run: &mut RunResults, cell: &Cell, count: u64, priority: Option<u32>) {
    let response_ns = Histogram::from_values((0..count).map(|n| 1000 + n % 7));
    let thread = WakeupThread {
        cpu: None,
        began_ns: None,
        due: count,
        missed: 0,
        service_ns: response_ns.clone(),
        response_ns,
        worst: Vec::new(),
        witnessed: Vec::new(),
    };
    let detail = WakeupDetail { period_ns: Nanos::from_nanos(1_000_000), priority, threads: vec![thread] };
    let result = run.cells.iter_mut().find(|result| result.cell == *cell).unwrap();
    result.detail = Some(Detail::Wakeup(detail));
}

/// A wakeup cell of nine rounds of `count` activations, 99 % within `p99_us`, 99.9 % within ten times that.
fn wakeups(run: &mut RunResults, platform: &str, neighbour: Option<Neighbour>, count: u64, p99_us: f64) {
    let cell = cell(platform, ProbeKind::Wakeup, neighbour);
    measured(run, &cell, "response_p99_ns", p99_us * 1e3);
    measured(run, &cell, "response_p99_9_ns", p99_us * 1e4);
    measured(run, &cell, "response_p99_99_ns", p99_us * 1e5);
    with_activations(run, &cell, count, Some(80));
}

fn rates(measured: &MeasuredHost) -> Vec<(f64, u64)> {
    measured.facts.wakeup.iter().map(|wakeup| (wakeup.miss_rate, wakeup.latency_us.high().get())).collect()
}

#[test]
fn wake_ups_are_those_of_vms_beside_the_worst_load() {
    let mut run = run();
    wakeups(&mut run, "native", Some(DISK), 2000, 999.0);
    wakeups(&mut run, "vm", None, 2000, 10.0);
    wakeups(&mut run, "vm", Some(CPU), 2000, 50.0);
    wakeups(&mut run, "vm", Some(DISK), 2000, 20.0);
    let measured = of_run(&run);
    // 18 000 activations have 18 beyond 99.9 %, and two beyond 99.99 %. The upper end of ± 1 % over nine rounds.
    let rates = rates(&measured);
    let [(0.001, rare), (0.01, often)] = rates[..] else { panic!("{rates:?}") };
    assert!((500..=506).contains(&rare) && (50..=51).contains(&often), "{rates:?}");
    assert_eq!(measured.notes, Vec::<String>::new());
}

#[test]
fn frequent_lateness_comes_from_how_often_it_was_longer() {
    let mut run = run();
    wakeups(&mut run, "vm", Some(CPU), 2000, 50.0);
    let cell = cell("vm", ProbeKind::Wakeup, Some(CPU));
    // A hundredth is later than 10 ms: 1 ms is the first time that fewer than a tenth exceed for sure.
    with_late(&mut run, &cell, 0.01, 18_000);
    let measured = of_run(&run);
    let shares: Vec<f64> = measured.facts.wakeup.iter().map(|wakeup| wakeup.miss_rate).collect();
    assert_eq!(shares, [0.001, 0.01, 0.1, 0.5]);
    let latencies: Vec<u64> =
        measured.facts.wakeup.iter().map(|wakeup| wakeup.latency_us.high().get()).collect();
    assert!(latencies.is_sorted_by(|rarer, more| rarer >= more), "{latencies:?}");
    assert_eq!(latencies[3], 1000);
}

#[test]
fn what_says_nothing_of_wake_ups_is_told() {
    let mut quiet = run();
    wakeups(&mut quiet, "vm", None, 2000, 10.0);
    let control = Neighbour { kind: LoadKind::Idle, place: CPU.place };
    wakeups(&mut quiet, "vm", Some(control), 2000, 10.0);
    let told = of_run(&quiet);
    assert!(told.facts.wakeup.is_empty() && told.notes[0].contains("without a load beside them"), "{told:?}");
    let mut short = run();
    wakeups(&mut short, "vm", Some(CPU), 100, 10.0);
    let told = of_run(&short);
    assert!(told.facts.wakeup.is_empty() && told.notes[0].contains("too short"), "{told:?}");
    let mut ordinary = run();
    wakeups(&mut ordinary, "native", Some(CPU), 2000, 10.0);
    with_activations(&mut ordinary, &cell("native", ProbeKind::Wakeup, Some(CPU)), 2000, None);
    let told = of_run(&ordinary);
    assert!(
        !told.facts.wakeup.is_empty() && told.notes[0].contains("without real-time priority"),
        "{told:?}"
    );
}

fn with_device(run: &mut RunResults, cell: &Cell, device: Option<&str>) {
    let alignment = Alignment {
        device: device.map(str::to_owned),
        partition_start_bytes: None,
        logical_block_bytes: None,
        physical_block_bytes: None,
        optimal_io_bytes: None,
        file_system_block_bytes: None,
        offset_bytes: None,
        verdict: AlignmentVerdict::Unknown,
        why: String::new(),
        shifted: None,
        not_shifted: None,
    };
    let detail = DiskDetail { target: String::new(), phases: Vec::new(), alignment: Some(alignment) };
    let result = run.cells.iter_mut().find(|result| result.cell == *cell).unwrap();
    result.detail = Some(Detail::Disk(detail));
}

#[test]
fn a_disk_gives_the_least_of_what_everybody_got_and_stalls_as_long_as_it_did() {
    let mut run = run();
    for (platform, write, read) in [("native", 200e6, 300e6), ("vm", 150e6, 900e6)] {
        let quiet = cell(platform, ProbeKind::Disk, None);
        measured(&mut run, &quiet, "write_direct_bytes_per_s", write);
        measured(&mut run, &quiet, "read_direct_bytes_per_s", read);
        measured(&mut run, &quiet, "write_fsync_bytes_per_s", 1e6);
        measured(&mut run, &quiet, STALL, 40e6);
        measured(&mut run, &cell(platform, ProbeKind::Disk, Some(DISK)), STALL, 900e6);
        // Who computes beside it says nothing of the disk.
        measured(&mut run, &cell(platform, ProbeKind::Disk, Some(CPU)), STALL, 5000e6);
    }
    let native = cell("native", ProbeKind::Disk, None);
    with_device(&mut run, &native, Some("vda1"));
    with_device(&mut run, &cell("vm", ProbeKind::Disk, None), Some("vdb"));
    let disk = of_run(&run).disk.unwrap();
    assert_eq!(disk.device, "vda1", "the host's name of it");
    assert!((148_000_000..150_000_000).contains(&disk.bytes_per_s.low().get()), "{disk:?}");
    assert!((150_000_001..152_000_000).contains(&disk.bytes_per_s.high().get()), "{disk:?}");
    // The longest round is 1 % above the median.
    assert_eq!(disk.stall_alone.map(|ms| ms.high().get()), Some(41));
    assert!(disk.stall.is_some_and(|stall| (901..=909).contains(&stall.high().get())), "{disk:?}");
    with_device(&mut run, &native, None);
    let told = of_run(&run);
    assert!(told.disk.is_none() && told.notes[0].contains("which disk"), "{told:?}");
}

#[test]
fn what_each_cpu_gives_while_all_work_lies_between_the_ends_of_both_times() {
    let mut run = run();
    let quiet = cell("native", ProbeKind::Cpu, None);
    measured(&mut run, &quiet, "time_one_thread_ns", 90e6);
    measured(&mut run, &quiet, "time_all_cpus_ns", 100e6);
    // A guest's say nothing of the host.
    measured(&mut run, &cell("vm", ProbeKind::Cpu, None), "time_one_thread_ns", 10e6);
    measured(&mut run, &cell("vm", ProbeKind::Cpu, None), "time_all_cpus_ns", 100e6);
    let granted = of_run(&run).facts.granted_per_mille.unwrap();
    assert!((870..900).contains(&granted.low()) && (901..930).contains(&granted.high()), "{granted:?}");
}

#[test]
fn starts_and_round_trips_between_machines_are_facts() {
    let mut run = run();
    run.platforms[0].start_ns = Some(Nanos::from_nanos(9_000_000_000));
    run.platforms[1].start_ns = Some(Nanos::from_nanos(1_200_000_001));
    run.platforms[0].kind = PlatformKind::Ssh;
    let mut far = cell("native", ProbeKind::Net, None);
    far.layout = Layout::new(2, 1);
    measured(&mut run, &far, "tcp_round_trip_p99_ns", 80_000.0);
    // Two hosts of a layout on one machine are no two machines.
    let mut near = cell("vm", ProbeKind::Net, None);
    near.layout = far.layout;
    measured(&mut run, &near, "tcp_round_trip_p99_ns", 900_000.0);
    let facts = of_run(&run).facts;
    assert_eq!(facts.start_ms.map(|ms| ms.high().get()), Some(1201));
    assert!(facts.network_us.is_some_and(|time| (40..=41).contains(&time.high().get())), "{facts:?}");
}

#[test]
fn what_was_not_measured_or_not_quiet_is_told() {
    let mut run = run();
    assert_eq!(of_run(&run), MeasuredHost::default());
    run.dirty = vec!["load of 3".to_owned()];
    run.complete = false;
    run.made_up = vec!["fake".to_owned()];
    run.platforms[1].properties = vec![("accelerator".to_owned(), "tcg".to_owned())];
    let notes = of_run(&run).notes.join("\n");
    for wanted in ["dirty", "load of 3", "interrupted", "made up", "translates the guests of vm"] {
        assert!(notes.contains(wanted), "{wanted}: {notes}");
    }
}

#[test]
fn a_channel_is_near_or_far() {
    let unknown = || Answer::Unsupported("none".to_owned());
    let series = |size_bytes: u64, high: f64| Series {
        way: Way::Channel,
        size_bytes,
        rounds: 9,
        p999_ns: unknown(),
        p99_ns: Answer::Estimate(Estimate { value: high, low: high, high, confidence: 0.95 }),
        p50_ns: unknown(),
        max_ns: None,
        batch_mean_ns: unknown(),
        bandwidth_bytes_per_s: unknown(),
        trips_ns: Histogram::default(),
    };
    let mut bench = ChannelBench {
        schema_version: CHANNEL_BENCH_VERSION,
        bulkhead_version: String::new(),
        seed: 1,
        rounds: 9,
        interrupted: false,
        engine: Some("kvm".to_owned()),
        host_cpus: vec![0, 1],
        ring_bytes: 1 << 20,
        limits: BenchLimits { trips: 1, trips_ms: 1, batch_ms: 1, stream_ms: 1, tcp_factor: 1 },
        mappings: Vec::new(),
        clocks: Vec::new(),
        series: vec![series(4096, 9e6), series(64, 4001.0)],
        marks: Vec::new(),
        floors: Vec::new(),
        failures: Vec::new(),
    };
    assert_eq!(of_channel_bench(&bench, false).facts.channel_us.map(|us| us.high().get()), Some(3));
    assert_eq!(of_channel_bench(&bench, true).facts.channel_far_us.map(|us| us.high().get()), Some(3));
    bench.series.clear();
    assert_eq!(of_channel_bench(&bench, true).facts, HostFacts::default());
}
