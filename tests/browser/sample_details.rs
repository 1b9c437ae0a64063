//! Raw outcomes of the sample run, shaped like real ones: timer ticks, caches, a knee, stalls.

use bulkhead::model::experiment::{FakeScript, PlatformSpec};
use bulkhead::model::journal::Cell;
use bulkhead::platforms::fake::Fake;
use bulkhead::platforms::{Cancel, InstanceSpec, Platform as _};
use bulkhead::probes::ProbeKind;
use bulkhead::probes::detail::{
    Alignment, AlignmentVerdict, BandwidthPoint, CpuDetail, CpuPoint, Detail, DiskDetail, DiskDirection,
    DiskPhase, DiskWindows, FwqDetail, GapDetail, LatencyPoint, MemBandwidthDetail, MemLatencyDetail,
    MemoryOperation, RateDetail, RatePoint, ShiftedWrites, Stretch,
};
use bulkhead::probes::job::{Job, Part};
use bulkhead::probes::params::{ChaseOrder, DiskMode, ProbeSpec};
use bulkhead::units::histogram::{DenseHistogram, Histogram};
use bulkhead::units::names::PlatformKind;
use bulkhead::units::{Bytes, Hertz, Millis, Nanos};
use rand::RngExt as _;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::sample::slowness;

/// Raw outcome of a cell; none for probes that nobody makes up yet.
pub fn detail(random: &mut Xoshiro256PlusPlus, cell: &Cell) -> Option<Detail> {
    let slow = slowness(&cell.platform, cell.probe) * if cell.neighbour.is_some() { 1.9 } else { 1.0 };
    Some(match cell.probe {
        ProbeKind::Gap => Detail::Gap(gap(random, slow)),
        ProbeKind::Fwq => Detail::Fwq(fwq(random, slow, 1000)),
        ProbeKind::Cpu => Detail::Cpu(cpu(random, slow)),
        ProbeKind::Syscall => Detail::Syscall(rate(random, 8.1e6 / slow)),
        ProbeKind::Fork => Detail::Fork(rate(random, 2100.0 / slow)),
        ProbeKind::MemLatency => Detail::MemLatency(latency(random, slow)),
        ProbeKind::MemBandwidth => Detail::MemBandwidth(bandwidth(random, slow)),
        ProbeKind::Disk => Detail::Disk(disk(random, slow)),
        probe => return pretended(probe, slow),
    })
}

/// What the fake platform makes up for a probe, in all instances that it takes.
fn pretended(probe: ProbeKind, slow: f64) -> Option<Detail> {
    let ranks = if probe.is_made_together() { 2 } else { 1 };
    let mut all = (0..ranks).map(|rank| pretended_part(probe, slow, rank, ranks));
    let mut first = all.next()??;
    if let Detail::Share(share) = &mut first {
        share.others = all
            .filter_map(|other| match other {
                Some(Detail::Share(other)) => Some(other),
                _ => None,
            })
            .collect();
    }
    Some(first)
}

fn pretended_part(probe: ProbeKind, slow: f64, rank: u32, ranks: u32) -> Option<Detail> {
    let script = FakeScript {
        slowdown_percent: u32::try_from(whole(slow * 100.0)).ok(),
        noise_percent: 4,
        ..FakeScript::default()
    };
    let spec = PlatformSpec { script: Some(script), ..PlatformSpec::of_kind(PlatformKind::Fake) };
    let cancel = Cancel::new();
    let mut instance = Fake::new(&spec, 42).start(&InstanceSpec::default(), &cancel).unwrap();
    let part = probe.is_made_together().then(|| Part { rank, ranks, peers: Vec::new() });
    let job =
        Job { probe: Some(ProbeSpec::default_of(probe)), seed: 42, part, fresh: true, ..Job::default() };
    instance.begin(&job, &cancel).unwrap();
    if job.part.is_some() {
        instance.start_at(Nanos::ZERO).unwrap();
    }
    let report = instance.finish(&cancel).unwrap().report?;
    report.ok().map(|report| report.detail)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "sample figures are small and positive"
)]
fn whole(value: f64) -> u64 {
    value as u64
}

fn jitter(random: &mut Xoshiro256PlusPlus, share: f64) -> f64 {
    1.0 + share * (random.random::<f64>() - 0.5)
}

/// A tail in which twice as long is about a third as often.
fn tail(random: &mut Xoshiro256PlusPlus) -> f64 {
    random.random::<f64>().max(1e-6).powf(-0.6)
}

pub fn gap(random: &mut Xoshiro256PlusPlus, slow: f64) -> GapDetail {
    let mut worst = Vec::new();
    let batches: Vec<Histogram> = (0..32)
        .map(|batch| {
            let mut dense = DenseHistogram::new();
            for ticks in 24..34 {
                dense.record_many(
                    whole(ticks as f64 * slow),
                    3_000_000 / (1 + (ticks - 26i64).unsigned_abs().pow(2)),
                );
            }
            for tick in 0..8 {
                let length = 9000.0 * slow * jitter(random, 0.3) * if tick == 3 { tail(random) } else { 1.0 };
                dense.record(whole(length));
                let start = (f64::from(batch) * 8.0 + f64::from(tick)) * 4e6;
                worst.push((whole(length / 2.9), whole(start)));
            }
            for _ in 0..40 {
                dense.record(whole(700.0 * slow * tail(random)));
            }
            dense.to_histogram()
        })
        .collect();
    worst.sort_unstable_by(|a, b| b.cmp(a));
    let stretch = |(length, start): &(u64, u64)| Stretch {
        start_ns: Nanos::from_nanos(*start),
        length_ns: Nanos::from_nanos(*length),
    };
    GapDetail {
        counter_hz: Hertz::from_hz(2_900_000_000),
        observed_ns: Nanos::from_nanos(1_024_000_000),
        cpu: Some(1),
        batches,
        worst: worst.iter().take(64).map(stretch).collect(),
    }
}

pub fn fwq(random: &mut Xoshiro256PlusPlus, slow: f64, samples: u32) -> FwqDetail {
    let time = |index: u32| {
        let tick = if index.is_multiple_of(21) { 9000.0 * slow } else { 0.0 };
        let rare = if random.random::<f64>() < 0.01 { 40_000.0 * tail(random) } else { 0.0 };
        Nanos::from_nanos(whole(190_000.0 * slow.sqrt() * jitter(random, 0.01) + tick + rare))
    };
    FwqDetail { iterations: 500_000, cpu: Some(1), samples_ns: (0..samples).map(time).collect() }
}

fn cpu(random: &mut Xoshiro256PlusPlus, slow: f64) -> CpuDetail {
    let points = (1..=4)
        .map(|threads| {
            let flat = 4.2e6 * slow;
            let time = flat * (f64::from(threads) / 2.0).max(1.0);
            let elapsed_ns = (0..5).map(|_| Nanos::from_nanos(whole(time * jitter(random, 0.04)))).collect();
            CpuPoint { threads, elapsed_ns }
        })
        .collect();
    CpuDetail { iterations: 10_000_000, cpus: 2, points }
}

fn rate(random: &mut Xoshiro256PlusPlus, per_second: f64) -> RateDetail {
    let points = [1u32, 2]
        .map(|threads| RatePoint {
            threads,
            operations: (0..16)
                .map(|_| whole(per_second * 0.01 * f64::from(threads).powf(0.9) * jitter(random, 0.2)))
                .collect(),
            elapsed_ns: vec![Nanos::from_nanos(10_000_000); 16],
        })
        .to_vec();
    RateDetail { points, latency_ns: Histogram::default() }
}

fn sizes() -> impl Iterator<Item = u64> {
    (12..=26).map(|power| 1u64 << power)
}

fn latency(random: &mut Xoshiro256PlusPlus, slow: f64) -> MemLatencyDetail {
    let level = |size: u64| match size {
        0..=32_768 => 1.7,
        32_769..=1_048_576 => 4.6,
        1_048_577..=33_554_432 => 19.0,
        _ => 92.0,
    };
    let point = |size: u64| LatencyPoint {
        size_bytes: Bytes::from_bytes(size),
        load_ns: level(size) * (0.5 + slow / 2.0) * jitter(random, 0.05),
    };
    MemLatencyDetail {
        stride_bytes: Bytes::from_bytes(64),
        order: ChaseOrder::Random,
        last_level_cache_bytes: Some(Bytes::from_bytes(32 << 20)),
        huge_pages: Some(false),
        points: sizes().map(point).collect(),
    }
}

fn bandwidth(random: &mut Xoshiro256PlusPlus, slow: f64) -> MemBandwidthDetail {
    let level = |size: u64| {
        if size <= 32_768 {
            6.4e10
        } else if size <= 1 << 20 {
            3.9e10
        } else {
            1.2e10
        }
    };
    let mut points = Vec::new();
    for (operation, factor) in
        [(MemoryOperation::Read, 1.0), (MemoryOperation::Write, 0.7), (MemoryOperation::Copy, 0.85)]
    {
        points.extend(sizes().map(|size| BandwidthPoint {
            operation,
            size_bytes: Bytes::from_bytes(size),
            bytes_per_s: level(size) * factor / slow.sqrt() * jitter(random, 0.04),
        }));
    }
    MemBandwidthDetail {
        threads: 1,
        last_level_cache_bytes: Some(Bytes::from_bytes(32 << 20)),
        huge_pages: Some(false),
        points,
    }
}

fn disk(random: &mut Xoshiro256PlusPlus, slow: f64) -> DiskDetail {
    let mut phases = Vec::new();
    for direction in [DiskDirection::Write, DiskDirection::Read] {
        for mode in [DiskMode::Buffered, DiskMode::Fsync, DiskMode::Direct] {
            let refused = mode == DiskMode::Direct && slow > 1.3;
            phases.push(phase(random, slow, direction, mode, refused));
        }
    }
    let random_reads = (0..400).map(|read| whole(90_000.0 * slow * (1.0 + f64::from(read % 17) / 20.0)));
    phases.push(DiskPhase {
        direction: DiskDirection::RandomRead,
        mode: DiskMode::Direct,
        block_bytes: Bytes::from_bytes(4096),
        unsupported: None,
        bytes: Bytes::from_bytes(400 * 4096),
        elapsed_ns: Nanos::from_nanos(whole(4e7 * slow)),
        latency_ns: Histogram::from_values(random_reads),
        windows: Vec::new(),
        stalls: Vec::new(),
        witnessed: Vec::new(),
    });
    DiskDetail { target: "file on ext4".to_owned(), phases, alignment: Some(alignment(slow)) }
}

/// The slower ones lie on a partition as old tools made them.
fn alignment(slow: f64) -> Alignment {
    let bytes = |count| Some(Bytes::from_bytes(count));
    let is_misaligned = slow > 1.05;
    let written = Bytes::from_bytes(8 << 20);
    Alignment {
        device: Some("sda1".to_owned()),
        partition_start_bytes: bytes(if is_misaligned { 63 * 512 } else { 1 << 20 }),
        logical_block_bytes: bytes(512),
        physical_block_bytes: bytes(4096),
        optimal_io_bytes: None,
        file_system_block_bytes: bytes(4096),
        offset_bytes: bytes(if is_misaligned { 3584 } else { 0 }),
        verdict: if is_misaligned { AlignmentVerdict::Misaligned } else { AlignmentVerdict::Aligned },
        why: if is_misaligned {
            "sda1 begins at byte 32256 of its disk, 3584 bytes beyond a boundary of its physical blocks of 4 KiB"
        } else {
            "every begin that can be seen lies on the boundary of a physical block of 4 KiB"
        }
        .to_owned(),
        shifted: Some(ShiftedWrites {
            block_bytes: Bytes::from_bytes(4096),
            shift_bytes: Bytes::from_bytes(2048),
            aligned_bytes: written,
            aligned_ns: Nanos::from_nanos(50_000_000),
            shifted_bytes: written,
            shifted_ns: Nanos::from_nanos(104_000_000),
        }),
        not_shifted: None,
    }
}

fn phase(
    random: &mut Xoshiro256PlusPlus,
    slow: f64,
    direction: DiskDirection,
    mode: DiskMode,
    refused: bool,
) -> DiskPhase {
    let empty = DiskPhase {
        direction,
        mode,
        block_bytes: Bytes::from_bytes(1 << 20),
        unsupported: refused.then(|| "the file system has no O_DIRECT".to_owned()),
        bytes: Bytes::from_bytes(0),
        elapsed_ns: Nanos::ZERO,
        latency_ns: Histogram::default(),
        windows: Vec::new(),
        stalls: Vec::new(),
        witnessed: Vec::new(),
    };
    if refused {
        return empty;
    }
    let per_window = |random: &mut Xoshiro256PlusPlus| whole(1.05e7 / slow * jitter(random, 0.5));
    let mut bytes: Vec<u64> = (0..40).map(|_| per_window(random)).collect();
    if mode == DiskMode::Fsync && slow > 1.05 {
        bytes[17] = 200_000;
    }
    let stall = |start: u64, length: u64| Stretch {
        start_ns: Nanos::from_nanos(start * 1_000_000),
        length_ns: Nanos::from_nanos(length * 1_000_000),
    };
    DiskPhase {
        bytes: Bytes::from_bytes(bytes.iter().sum()),
        elapsed_ns: Nanos::from_nanos(2_000_000_000),
        windows: vec![DiskWindows { window_ms: Millis::from_millis(50), bytes }],
        stalls: vec![stall(850, if mode == DiskMode::Fsync { 71 } else { 12 }), stall(300, 9)],
        ..empty
    }
}
