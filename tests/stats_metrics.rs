//! Figures of whole measurements: the right ones come out of good details, and no detail, however broken, makes a panic
//! or a figure that is not a finite number.

use std::collections::BTreeSet;

use bulkhead::probes::detail::{
    BandwidthPoint, CpuDetail, CpuPoint, Detail, DiskDetail, DiskDirection, DiskPhase, DiskWindows,
    FwqDetail, GapDetail, LatencyPoint, MemBandwidthDetail, MemLatencyDetail, MemoryOperation, RateDetail,
    RatePoint, Stretch,
};
use bulkhead::probes::metrics_of;
use bulkhead::probes::params::{ChaseOrder, DiskMode};
use bulkhead::units::facts::ClockFacts;
use bulkhead::units::histogram::Histogram;
use bulkhead::units::metric::{Figure, Metric};
use bulkhead::units::{Bytes, Hertz, Millis, Nanos};
use proptest::collection::vec;
use proptest::prelude::*;

fn clock() -> ClockFacts {
    ClockFacts { name: "tsc".to_owned(), read_ns: 18.4, resolution_ns: 1.0 }
}

fn figure<'a>(metrics: &'a [Metric], id: &str) -> &'a Figure {
    &metrics.iter().find(|metric| metric.id == id).unwrap_or_else(|| panic!("no {id} in {metrics:?}")).figure
}

fn value(metrics: &[Metric], id: &str) -> f64 {
    figure(metrics, id).value().unwrap_or_else(|| panic!("{id} has no value"))
}

fn near(metrics: &[Metric], id: &str, want: f64) {
    let got = value(metrics, id);
    assert!((got / want - 1.0).abs() < 1e-9, "{id}: {got} instead of {want}");
}

/// Any number, with the awkward ones often.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0u64), Just(1), Just(u64::MAX), any::<u64>(), 1u64..100_000]
}

fn real() -> impl Strategy<Value = f64> {
    prop_oneof![
        Just(0.0),
        Just(f64::NAN),
        Just(f64::INFINITY),
        Just(f64::MIN_POSITIVE),
        prop::num::f64::ANY,
        0.1..1e9
    ]
}

fn nanos() -> impl Strategy<Value = Nanos> {
    number().prop_map(Nanos::from_nanos)
}

/// Histograms a liar may send: unordered, unknown buckets, impossible sums.
fn histogram() -> impl Strategy<Value = Histogram> {
    vec((any::<u16>(), number(), number()), 0..12).prop_map(|buckets| {
        serde_json::from_value(serde_json::json!(buckets)).expect("triples of numbers are a histogram")
    })
}

fn stretches() -> impl Strategy<Value = Vec<Stretch>> {
    vec((nanos(), nanos()).prop_map(|(start_ns, length_ns)| Stretch { start_ns, length_ns }), 0..4)
}

fn gap() -> impl Strategy<Value = Detail> {
    (number(), nanos(), vec(histogram(), 0..40), stretches()).prop_map(|(hz, observed_ns, batches, worst)| {
        Detail::Gap(GapDetail { counter_hz: Hertz::from_hz(hz), observed_ns, cpu: None, batches, worst })
    })
}

fn work() -> impl Strategy<Value = Detail> {
    let fwq = vec(nanos(), 0..1100)
        .prop_map(|samples_ns| Detail::Fwq(FwqDetail { iterations: 1, cpu: None, samples_ns }));
    let point =
        (any::<u32>(), vec(nanos(), 0..4)).prop_map(|(threads, elapsed_ns)| CpuPoint { threads, elapsed_ns });
    let cpu = (0u32..9, vec(point, 0..9))
        .prop_map(|(cpus, points)| Detail::Cpu(CpuDetail { iterations: 1, cpus, points }));
    let point = (0u32..4, vec(number(), 0..5), vec(nanos(), 0..5))
        .prop_map(|(threads, operations, elapsed_ns)| RatePoint { threads, operations, elapsed_ns });
    let rate = (vec(point, 0..5), histogram(), any::<bool>()).prop_map(|(points, latency_ns, is_fork)| {
        let detail = RateDetail { points, latency_ns };
        if is_fork { Detail::Fork(detail) } else { Detail::Syscall(detail) }
    });
    prop_oneof![fwq, cpu, rate]
}

fn memory() -> impl Strategy<Value = Detail> {
    let latency = vec((number(), real()), 0..700).prop_map(|points| {
        Detail::MemLatency(MemLatencyDetail {
            stride_bytes: Bytes::from_bytes(64),
            order: ChaseOrder::Random,
            last_level_cache_bytes: None,
            huge_pages: None,
            points: points
                .into_iter()
                .map(|(size, load_ns)| LatencyPoint { size_bytes: Bytes::from_bytes(size), load_ns })
                .collect(),
        })
    });
    let operation =
        prop::sample::select(vec![MemoryOperation::Read, MemoryOperation::Write, MemoryOperation::Copy]);
    let bandwidth = vec((operation, number(), real()), 0..20).prop_map(|points| {
        Detail::MemBandwidth(MemBandwidthDetail {
            threads: 1,
            last_level_cache_bytes: None,
            huge_pages: None,
            points: points
                .into_iter()
                .map(|(operation, size, bytes_per_s)| BandwidthPoint {
                    operation,
                    size_bytes: Bytes::from_bytes(size),
                    bytes_per_s,
                })
                .collect(),
        })
    });
    prop_oneof![latency, bandwidth]
}

fn disk() -> impl Strategy<Value = Detail> {
    let windows = (prop_oneof![Just(50u64), number()], vec(number(), 0..4))
        .prop_map(|(ms, bytes)| DiskWindows { window_ms: Millis::from_millis(ms), bytes });
    let phase = (
        prop::sample::select(vec![DiskDirection::Write, DiskDirection::Read, DiskDirection::RandomRead]),
        prop::sample::select(vec![DiskMode::Buffered, DiskMode::Fsync, DiskMode::Direct]),
        (number(), number(), nanos()),
        prop::option::of(".{0,300}"),
        histogram(),
        vec(windows, 0..3),
        stretches(),
    );
    let phase = phase.prop_map(
        |(direction, mode, (block, bytes, elapsed_ns), unsupported, latency_ns, windows, stalls)| DiskPhase {
            direction,
            mode,
            block_bytes: Bytes::from_bytes(block),
            unsupported,
            bytes: Bytes::from_bytes(bytes),
            elapsed_ns,
            latency_ns,
            windows,
            stalls,
            witnessed: Vec::new(),
        },
    );
    vec(phase, 0..8)
        .prop_map(|phases| Detail::Disk(DiskDetail { target: String::new(), phases, alignment: None }))
}

proptest! {
    #[test]
    fn no_detail_breaks_the_metrics(detail in prop_oneof![gap(), work(), memory(), disk()]) {
        let metrics = metrics_of(&detail, &clock());
        prop_assert!(metrics[0].headline);
        prop_assert!(metrics.iter().filter(|metric| metric.headline).count() <= 3);
        let ids: BTreeSet<&str> = metrics.iter().map(|metric| metric.id.as_str()).collect();
        prop_assert_eq!(ids.len(), metrics.len());
        for metric in &metrics {
            match &metric.figure {
                Figure::Value(value) => prop_assert!(value.is_finite(), "{metric:?}"),
                Figure::Unsupported(reason) => prop_assert!(!reason.is_empty(), "{metric:?}"),
            }
        }
    }
}

#[test]
fn the_gap_probe_says_what_was_lost() {
    // 1 GHz: a tick is a nanosecond. 10 gaps of 5000 among 950 000 turns of 1: 5 % lost.
    let mut values = vec![1u64; 950_000];
    values.extend([5_000; 10]);
    let detail = Detail::Gap(GapDetail {
        counter_hz: Hertz::from_hz(1_000_000_000),
        observed_ns: Nanos::from_nanos(1_000_000),
        cpu: Some(1),
        batches: vec![Histogram::from_values(values)],
        worst: vec![Stretch { start_ns: Nanos::ZERO, length_ns: Nanos::from_nanos(5_000) }],
    });
    let metrics = metrics_of(&detail, &clock());
    assert_eq!(metrics[0].id, "bound_95_ns");
    near(&metrics, "lost_share", 0.05);
    near(&metrics, "max_gap_ns", 5_000.0);
    near(&metrics, "bound_90_ns", 1.0);
    near(&metrics, "gaps_over_1us_per_s", 10_000.0);
    near(&metrics, "read_ns", 1.0);
    let bound_99 = value(&metrics, "bound_99_ns");
    assert!((5_000.0..5_000.0 * 1.008).contains(&bound_99), "{bound_99}");
}

#[test]
fn a_bound_that_rests_on_few_gaps_is_not_given() {
    let mut values = vec![1u64; 10_000_000];
    values.extend([5_000; 3]);
    let detail = Detail::Gap(GapDetail {
        counter_hz: Hertz::from_hz(1_000_000_000),
        observed_ns: Nanos::from_nanos(10_000_000),
        cpu: None,
        batches: vec![Histogram::from_values(values)],
        worst: Vec::new(),
    });
    let metrics = metrics_of(&detail, &clock());
    near(&metrics, "bound_95_ns", 1.0);
    assert!(
        matches!(figure(&metrics, "bound_99_99_ns"), Figure::Unsupported(reason) if reason.contains("3 gaps"))
    );
    // One stall that is half of all time cannot be hidden.
    let mut stalled = vec![1u64; 1_000_000];
    stalled.push(1_000_000);
    let Detail::Gap(mut gap) = detail else { unreachable!("made above") };
    gap.batches = vec![Histogram::from_values(stalled)];
    let bound = value(&metrics_of(&Detail::Gap(gap), &clock()), "bound_95_ns");
    assert!((1e6..1.008e6).contains(&bound), "{bound}");
}

#[test]
fn a_quantile_of_too_few_quanta_is_not_given() {
    let of = |count: u64| {
        let samples_ns = (1..=count).map(Nanos::from_nanos).collect();
        metrics_of(&Detail::Fwq(FwqDetail { iterations: 1, cpu: None, samples_ns }), &clock())
    };
    assert!(matches!(figure(&of(999), "quantum_p99_ns"), Figure::Unsupported(_)));
    near(&of(1000), "quantum_p99_ns", 990.99);
    near(&of(1000), "quantum_ns", 500.5);
    near(&of(1000), "worst_per_best_ratio", 1000.0);
}

#[test]
fn threads_and_calls_come_out_per_thread() {
    let cpu = Detail::Cpu(CpuDetail {
        iterations: 1,
        cpus: 4,
        points: (1..=8u32)
            .map(|threads| CpuPoint {
                threads,
                elapsed_ns: vec![Nanos::from_nanos(1_000_000 * u64::from(threads.max(2)) / 2); 3],
            })
            .collect(),
    });
    let metrics = metrics_of(&cpu, &clock());
    near(&metrics, "time_all_cpus_ns", 2e6);
    near(&metrics, "time_one_thread_ns", 1e6);
    near(&metrics, "units_granted", 2.0);
    near(&metrics, "slope_ns_per_thread", 5e5);
    let point = |threads: u32, operations: u64| RatePoint {
        threads,
        operations: vec![operations; 3],
        elapsed_ns: vec![Nanos::from_nanos(1_000_000); 3],
    };
    let rate =
        RateDetail { points: vec![point(1, 10_000), point(2, 16_000)], latency_ns: Histogram::default() };
    let metrics = metrics_of(&Detail::Syscall(rate.clone()), &clock());
    near(&metrics, "call_ns", 100.0);
    near(&metrics, "call_all_cpus_ns", 125.0);
    assert!(matches!(
        figure(&metrics_of(&Detail::Fork(rate), &clock()), "fork_p99_ns"),
        Figure::Unsupported(_)
    ));
}

#[test]
fn windows_in_which_nothing_ended_are_not_left_out() {
    let cost_of = |operations: &[u64]| {
        let point = RatePoint {
            threads: 1,
            operations: operations.to_vec(),
            elapsed_ns: vec![Nanos::from_nanos(1_000_000); operations.len()],
        };
        let rate = RateDetail { points: vec![point], latency_ns: Histogram::default() };
        figure(&metrics_of(&Detail::Fork(rate), &clock()), "fork_ns").clone()
    };
    // Left out, the costs would be 10, 20 and 25 µs, and the busier the machine the lower the figure.
    assert_eq!(cost_of(&[100, 50, 40, 0, 0]), Figure::Value(25_000.0));
    // So few that a batch says nothing of its own: all of the time over all of them.
    assert_eq!(cost_of(&[1, 0, 1, 0, 1]), Figure::Value(5_000_000.0 / 3.0));
    for mostly_nothing in [[100, 50, 0, 0, 0], [0; 5]] {
        let figure = cost_of(&mostly_nothing);
        assert!(
            matches!(&figure, Figure::Unsupported(why) if why.contains("half of its batches")),
            "{figure:?}"
        );
    }
}

#[test]
fn disk_falls_back_to_what_ran_and_keeps_the_reason() {
    let phase = |mode, block_kib: u64, unsupported: Option<&str>| DiskPhase {
        direction: DiskDirection::Write,
        mode,
        block_bytes: Bytes::from_bytes(block_kib * 1024),
        unsupported: unsupported.map(str::to_owned),
        bytes: Bytes::from_bytes(if unsupported.is_some() { 0 } else { block_kib * 1000 }),
        elapsed_ns: Nanos::from_nanos(if unsupported.is_some() { 0 } else { 1_000_000_000 }),
        latency_ns: Histogram::default(),
        windows: vec![DiskWindows { window_ms: Millis::from_millis(50), bytes: vec![500, 100, 300] }],
        stalls: vec![Stretch { start_ns: Nanos::ZERO, length_ns: Nanos::from_nanos(50_000_000) }],
        witnessed: Vec::new(),
    };
    let refused = "this file system has no O_DIRECT";
    let phases = vec![
        phase(DiskMode::Direct, 64, Some(refused)),
        phase(DiskMode::Buffered, 64, None),
        phase(DiskMode::Buffered, 1024, None),
    ];
    let metrics = metrics_of(
        &Detail::Disk(DiskDetail { target: "file".to_owned(), phases, alignment: None }),
        &clock(),
    );
    assert_eq!(metrics[0].id, "write_buffered_bytes_per_s");
    near(&metrics, "write_buffered_bytes_per_s", 1_024_000.0);
    assert_eq!(figure(&metrics, "write_direct_bytes_per_s"), &Figure::Unsupported(refused.to_owned()));
    near(&metrics, "longest_stall_ns", 5e7);
    near(&metrics, "stall_influence_share", 0.05);
    near(&metrics, "worst_window_50ms_bytes_per_s", 2_000.0);
}

#[test]
fn a_reason_from_a_guest_is_readable_whatever_it_sends() {
    let of = |reason: &str| {
        let phase = DiskPhase {
            direction: DiskDirection::Read,
            mode: DiskMode::Direct,
            block_bytes: Bytes::from_bytes(0),
            unsupported: Some(reason.to_owned()),
            bytes: Bytes::from_bytes(0),
            elapsed_ns: Nanos::ZERO,
            latency_ns: Histogram::default(),
            windows: Vec::new(),
            stalls: Vec::new(),
            witnessed: Vec::new(),
        };
        let detail = DiskDetail { target: String::new(), phases: vec![phase], alignment: None };
        figure(&metrics_of(&Detail::Disk(detail), &clock()), "read_direct_bytes_per_s").clone()
    };
    assert_eq!(of(""), Figure::Unsupported("the agent gave no reason".to_owned()));
    assert_eq!(of("\u{1b}[2Jgone\n"), Figure::Unsupported("[2Jgone".to_owned()));
    assert!(matches!(of(&"x".repeat(10_000)), Figure::Unsupported(reason) if reason.len() == 200));
}
