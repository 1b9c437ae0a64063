//! Made-up data that looks like a quiet machine with 2 CPUs at 2 GHz: every figure follows from the seeds and the
//! script, none from a clock. Times grow with the slowdown, throughput shrinks with it.

use std::hash::{DefaultHasher, Hash, Hasher};

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::{pretend_jobs, pretend_peers, pretend_share, pretend_timing, pretend_traps};
use model::detail::{
    Alignment, AlignmentVerdict, BandwidthPoint, CpuDetail, CpuPoint, Detail, DiskDetail, DiskDirection,
    DiskPhase, DiskWindows, FwqDetail, GapDetail, LatencyPoint, MemBandwidthDetail, MemLatencyDetail,
    MemoryOperation, RateDetail, RatePoint, ShiftedWrites, Stretch, WORST_KEPT,
};
use model::facts::{ClockFacts, OwnCost};
use model::histogram::{DenseHistogram, Histogram};
use model::job::{Dose, DosePart, Job, LoadSpec, Part, ProbeReport};
use model::names::LoadKind;
use model::params::{
    CpuParams, DiskMode, DiskParams, FwqParams, GapParams, MemBandwidthParams, MemLatencyParams, ProbeSpec,
};
use model::units::{Bytes, Hertz, Mebibytes, Millis, Nanos};

/// CPUs of a fake machine.
pub(super) const CPUS: u32 = 2;
/// Rate of its counter, ticks per nanosecond.
pub(super) const TICKS_PER_NS: u64 = 2;
/// Last-level cache.
const CACHE: Bytes = Bytes::from_bytes(16 << 20);
/// What its disk holds; a longer file is refused.
const DISK: Mebibytes = Mebibytes::from_mib(64 * 1024);

/// What all made-up data of an instance follows from.
#[derive(Debug, Clone)]
pub(crate) struct Pretence {
    /// Seed of the run.
    pub seed: u64,
    /// Label of the platform.
    pub label: String,
    /// Times in percent of the fake native ones.
    pub slowdown_percent: u32,
    /// Spread of times in percent.
    pub noise_percent: u32,
    /// CPUs of the instance.
    pub cpus: u32,
}

/// A made-up report; refused is what a real machine of this size would refuse.
pub(crate) fn report(pretence: &Pretence, probe: &ProbeSpec, job: &Job) -> Result<ProbeReport, String> {
    let mut hasher = DefaultHasher::new();
    (pretence.seed, &pretence.label, job.seed, probe.kind()).hash(&mut hasher);
    let mut maker = Maker {
        random: Xoshiro256PlusPlus::seed_from_u64(hasher.finish()),
        slowdown: f64::from(pretence.slowdown_percent) / 100.0,
        noise: f64::from(pretence.noise_percent) / 100.0,
        cpus: pretence.cpus,
        part: job.part.clone(),
        fresh: job.fresh,
    };
    Ok(ProbeReport {
        clock: ClockFacts { name: "fake".to_owned(), read_ns: 10.0, resolution_ns: 0.5 },
        cost: OwnCost {
            per_sample_ns: 10.0,
            cpu_time_ns: Nanos::from_nanos(1_000_000),
            memory_bytes: Bytes::from_bytes(1 << 20),
        },
        detail: maker.detail(probe)?,
        notes: vec!["made up: nothing was measured".to_owned()],
        outside: None,
        accounts: None,
    })
}

/// A made-up dose; zero for a powerless load.
pub(crate) fn dose(load: &LoadSpec, cpus: u32, powerless: bool) -> Dose {
    let threads = load.threads.unwrap_or(cpus);
    let rate_per_s = if powerless { 0.0 } else { 1e6 * f64::from(threads) };
    let part =
        |(kind, unit): &(LoadKind, &str)| DosePart { kind: *kind, rate_per_s, unit: (*unit).to_owned() };
    Dose {
        kind: load.kind,
        threads,
        elapsed_ns: Nanos::from_nanos(1_000_000_000),
        rate_per_s,
        unit: load.kind.unit().to_owned(),
        cpu_time_ns: Nanos::from_nanos(u64::from(threads) * 1_000_000_000),
        way: None,
        interrupts_per_s: None,
        soft_interrupts_per_s: None,
        parts: load.kind.parts().iter().map(part).collect(),
    }
}

/// Makes up the data of one measurement.
pub(super) struct Maker {
    pub(super) random: Xoshiro256PlusPlus,
    pub(super) slowdown: f64,
    pub(super) noise: f64,
    pub(super) cpus: u32,
    /// Its part among several instances, if it has one.
    pub(super) part: Option<Part>,
    /// Whether the instance has just been started.
    pub(super) fresh: bool,
}

impl Maker {
    /// A factor around 1 within the noise.
    pub(super) fn wobble(&mut self) -> f64 {
        1.0 + self.noise * (self.random.random::<f64>() - 0.5)
    }

    /// A time of the fake machine that takes `native_ns` on the fake native one.
    pub(super) fn nanos(&mut self, native_ns: f64) -> u64 {
        let time = native_ns * self.slowdown * self.wobble();
        model::metric::saturate(time).max(1)
    }

    fn detail(&mut self, probe: &ProbeSpec) -> Result<Detail, String> {
        Ok(match probe {
            ProbeSpec::Gap(params) => Detail::Gap(self.gap(params)),
            ProbeSpec::Fwq(params) => Detail::Fwq(self.fwq(params)),
            ProbeSpec::Cpu(params) => Detail::Cpu(self.cpu(params)),
            ProbeSpec::Syscall(params) => {
                Detail::Syscall(self.rate(params.duration_ms, params.max_threads, 120.0))
            }
            ProbeSpec::Fork(params) => {
                Detail::Fork(self.rate(params.duration_ms, params.max_threads, 600_000.0))
            }
            ProbeSpec::MemLatency(params) => Detail::MemLatency(self.mem_latency(params)),
            ProbeSpec::MemBandwidth(params) => Detail::MemBandwidth(self.mem_bandwidth(params)),
            ProbeSpec::Disk(params) => Detail::Disk(self.disk(params)?),
            ProbeSpec::Ftq(p) => pretend_timing::ftq(self, p)?,
            ProbeSpec::Wakeup(p) => pretend_timing::wakeup(self, p)?,
            ProbeSpec::Frames(p) => pretend_timing::frames(self, p)?,
            ProbeSpec::Exit(p) => pretend_traps::exit(self, p)?,
            ProbeSpec::Lock(p) => pretend_traps::lock(self, p)?,
            ProbeSpec::Pages(p) => pretend_traps::pages(self, p)?,
            ProbeSpec::Linpack(p) => pretend_jobs::linpack(self, p),
            ProbeSpec::Build(p) => pretend_jobs::build(self, p),
            ProbeSpec::Net(p) => pretend_peers::net(self, p)?,
            ProbeSpec::Mpi(p) => pretend_peers::mpi(self, p)?,
            ProbeSpec::Share(p) => pretend_share::share(self, p),
        })
    }

    /// Ten-nanosecond reads, a 3 µs timer tick 250 times a second, and now and then something long.
    fn gap(&mut self, params: &GapParams) -> GapDetail {
        let observed_ns = params.reads.map_or(params.duration_ms.get() * 1_000_000, |reads| reads * 10);
        let batches = u64::from(params.batches.max(1));
        let batch_ns = observed_ns / batches;
        let mut worst = Vec::new();
        let mut dense = DenseHistogram::new();
        let mut histograms = Vec::new();
        for batch in 0..batches {
            dense.clear();
            let mut taken_ns = 0;
            for tick in 0..(batch_ns / 4_000_000).max(1) {
                let long = self.random.random::<f64>() < 0.01;
                let length = self.nanos(if long { 60_000.0 } else { 3_000.0 }).min(batch_ns.max(1));
                dense.record(length * TICKS_PER_NS);
                taken_ns += length;
                worst.push(Stretch {
                    start_ns: Nanos::from_nanos(batch * batch_ns + tick * 4_000_000),
                    length_ns: Nanos::from_nanos(length),
                });
            }
            dense.record_many(10 * TICKS_PER_NS, batch_ns.saturating_sub(taken_ns) / 10);
            histograms.push(dense.to_histogram());
        }
        worst.sort_by_key(|stretch| std::cmp::Reverse(stretch.length_ns));
        worst.truncate(WORST_KEPT);
        GapDetail {
            counter_hz: Hertz::from_hz(1_000_000_000 * TICKS_PER_NS),
            observed_ns: Nanos::from_nanos(observed_ns),
            cpu: Some(0),
            batches: histograms,
            worst,
        }
    }

    fn fwq(&mut self, params: &FwqParams) -> FwqDetail {
        let samples = (0..params.samples).map(|_| {
            let interrupted = if self.random.random::<f64>() < 0.05 { 3_000.0 } else { 0.0 };
            Nanos::from_nanos(self.nanos(params.iterations as f64 + interrupted))
        });
        FwqDetail { iterations: params.iterations, cpu: Some(0), samples_ns: samples.collect() }
    }

    fn cpu(&mut self, params: &CpuParams) -> CpuDetail {
        let most = params.max_threads.unwrap_or(2 * self.cpus);
        let points = (1..=most).map(|threads| {
            let rounds = f64::from(threads.max(self.cpus)) / f64::from(self.cpus);
            let native = params.iterations as f64 * rounds;
            let elapsed_ns = (0..params.samples).map(|_| Nanos::from_nanos(self.nanos(native))).collect();
            CpuPoint { threads, elapsed_ns }
        });
        CpuDetail { iterations: params.iterations, points: points.collect(), cpus: self.cpus }
    }

    fn rate(&mut self, duration: Millis, max_threads: Option<u32>, native_ns: f64) -> RateDetail {
        let batches = 10;
        let batch_ns = (duration.get() * 1_000_000 / batches).max(1);
        let points = (1..=max_threads.unwrap_or(self.cpus)).map(|threads| {
            let at_once = f64::from(threads.min(self.cpus));
            let mut operations = Vec::new();
            for _ in 0..batches {
                let each = self.nanos(native_ns);
                operations.push(model::metric::saturate(batch_ns as f64 / each as f64 * at_once).max(1));
            }
            let elapsed_ns = operations.iter().map(|_| Nanos::from_nanos(batch_ns)).collect();
            RatePoint { threads, operations, elapsed_ns }
        });
        let points = points.collect();
        // Timing a single system call would cost more than it shows.
        let latency_ns = if native_ns > 10_000.0 {
            Histogram::from_values((0..200).map(|_| self.nanos(native_ns)))
        } else {
            Histogram::default()
        };
        RateDetail { points, latency_ns }
    }

    fn mem_latency(&mut self, params: &MemLatencyParams) -> MemLatencyDetail {
        let sizes = sizes(params.min_size_kib.to_bytes(), params.max_size_mib, params.steps_per_octave);
        let points = sizes.into_iter().map(|size_bytes| {
            let load_ns = level_ns(size_bytes) * self.slowdown * self.wobble();
            LatencyPoint { size_bytes, load_ns }
        });
        MemLatencyDetail {
            stride_bytes: Bytes::from_bytes(params.stride_bytes.into()),
            order: params.order,
            last_level_cache_bytes: Some(CACHE),
            huge_pages: Some(false),
            points: points.collect(),
        }
    }

    fn mem_bandwidth(&mut self, params: &MemBandwidthParams) -> MemBandwidthDetail {
        let mut points = Vec::new();
        for (operation, share) in
            [(MemoryOperation::Read, 1.0), (MemoryOperation::Write, 0.7), (MemoryOperation::Copy, 0.8)]
        {
            let sizes = sizes(params.min_size_kib.to_bytes(), params.max_size_mib, params.steps_per_octave);
            for size_bytes in sizes {
                let native = 60e9 / level_ns(size_bytes).sqrt() * share;
                let bytes_per_s = native / (self.slowdown * self.wobble());
                points.push(BandwidthPoint { operation, size_bytes, bytes_per_s });
            }
        }
        MemBandwidthDetail {
            threads: params.threads,
            last_level_cache_bytes: Some(CACHE),
            huge_pages: Some(false),
            points,
        }
    }

    fn disk(&mut self, params: &DiskParams) -> Result<DiskDetail, String> {
        if params.file_size_mib > DISK {
            return Err(format!(
                "a file of {} does not fit on the fake disk of {}",
                params.file_size_mib.to_bytes(),
                DISK.to_bytes()
            ));
        }
        let mut phases = Vec::new();
        for direction in [DiskDirection::Write, DiskDirection::Read] {
            for mode in &params.modes {
                for block in &params.block_sizes_kib {
                    phases.push(self.phase(direction, *mode, block.to_bytes(), params));
                }
            }
        }
        if params.random_block_kib.get() > 0 {
            let block = params.random_block_kib.to_bytes();
            phases.push(self.phase(DiskDirection::RandomRead, DiskMode::Direct, block, params));
        }
        let alignment = Some(self.alignment());
        Ok(DiskDetail { target: "a fake disk".to_owned(), phases, alignment })
    }

    /// A partition where it should be, on a disk where shifted writes reach half.
    fn alignment(&mut self) -> Alignment {
        let written = Bytes::from_bytes(16 << 20);
        let mut time = |per_byte_ns| Nanos::from_nanos(self.nanos(written.as_f64() * per_byte_ns));
        Alignment {
            device: Some("fake1".to_owned()),
            partition_start_bytes: Some(Bytes::from_bytes(1 << 20)),
            logical_block_bytes: Some(Bytes::from_bytes(512)),
            physical_block_bytes: Some(Bytes::from_bytes(4096)),
            optimal_io_bytes: None,
            file_system_block_bytes: Some(Bytes::from_bytes(4096)),
            offset_bytes: Some(Bytes::from_bytes(0)),
            verdict: AlignmentVerdict::Aligned,
            why: "made up".to_owned(),
            shifted: Some(ShiftedWrites {
                block_bytes: Bytes::from_bytes(4096),
                shift_bytes: Bytes::from_bytes(2048),
                aligned_bytes: written,
                aligned_ns: time(2.0),
                shifted_bytes: written,
                shifted_ns: time(4.0),
            }),
            not_shifted: None,
        }
    }

    fn phase(
        &mut self,
        direction: DiskDirection,
        mode: DiskMode,
        block: Bytes,
        params: &DiskParams,
    ) -> DiskPhase {
        let per_byte_ns = if mode == DiskMode::Buffered { 0.5 } else { 2.0 };
        let sync_ns =
            if mode == DiskMode::Fsync && direction == DiskDirection::Write { 400_000.0 } else { 20_000.0 };
        let limit = params.duration_ms.get() * 1_000_000;
        let blocks = (params.file_size_mib.to_bytes().get() / block.get().max(1)).max(1);
        let mut stalls = Vec::new();
        let mut elapsed = 0;
        let mut ends = Vec::new();
        for _ in 0..blocks {
            let stalled = if self.random.random::<f64>() < 0.005 { 20e6 } else { 0.0 };
            let length = self.nanos(block.as_f64() * per_byte_ns + sync_ns + stalled);
            stalls
                .push(Stretch { start_ns: Nanos::from_nanos(elapsed), length_ns: Nanos::from_nanos(length) });
            elapsed += length;
            ends.push(elapsed);
            if elapsed >= limit {
                break;
            }
        }
        let latency_ns = Histogram::from_values(stalls.iter().map(|stretch| stretch.length_ns.get()));
        stalls.sort_by_key(|stretch| std::cmp::Reverse(stretch.length_ns));
        stalls.truncate(WORST_KEPT);
        let windows = [50, 200, 1000].map(|millis| windows(millis, &ends, block));
        DiskPhase {
            direction,
            mode,
            block_bytes: block,
            unsupported: None,
            bytes: Bytes::from_bytes(block.get() * ends.len() as u64),
            elapsed_ns: Nanos::from_nanos(elapsed),
            latency_ns,
            windows: windows.into(),
            stalls,
            witnessed: Vec::new(),
        }
    }
}

/// Bytes that ended in each whole window.
fn windows(millis: u64, ends_ns: &[u64], block: Bytes) -> DiskWindows {
    let width = millis * 1_000_000;
    let whole = ends_ns.last().copied().unwrap_or(0) / width;
    let bytes = (0..whole).map(|window| {
        let inside = ends_ns.iter().filter(|end| **end / width == window).count();
        inside as u64 * block.get()
    });
    DiskWindows { window_ms: Millis::from_millis(millis), bytes: bytes.collect() }
}

/// Array sizes from `least` to `most`, `steps` per doubling.
fn sizes(least: Bytes, most: Option<Mebibytes>, steps: u32) -> Vec<Bytes> {
    let most = most.map_or(2 * CACHE.get(), |most| most.to_bytes().get());
    let growth = 2f64.powf(1.0 / f64::from(steps.max(1)));
    std::iter::successors(Some(least.as_f64()), |size| Some(size * growth))
        .take_while(|size| *size <= most as f64 * 1.001)
        .take(1000)
        .map(|size| Bytes::from_bytes(model::metric::saturate(size)))
        .collect()
}

/// Time of a dependent load in an array of this size.
fn level_ns(size: Bytes) -> f64 {
    match size.get() {
        0..=0x8000 => 2.0,
        0x8001..=0x10_0000 => 6.0,
        0x10_0001..=0x100_0000 => 20.0,
        _ => 90.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::check_report;
    use model::names::ProbeKind;

    fn all_probes() -> Vec<ProbeSpec> {
        ProbeKind::ALL.iter().map(|kind| ProbeSpec::default_of(*kind)).collect()
    }

    fn job(seed: u64) -> Job {
        Job { seed, ..Job::default() }
    }

    fn pretence(slowdown_percent: u32) -> Pretence {
        Pretence { seed: 1, label: "fake".to_owned(), slowdown_percent, noise_percent: 5, cpus: 2 }
    }

    #[test]
    fn every_probe_gets_data_that_passes_the_links_checks_and_repeats() {
        for probe in all_probes() {
            let once = report(&pretence(100), &probe, &job(7)).expect("small enough");
            assert_eq!(check_report(&once), Ok(()), "{}", probe.kind());
            assert_eq!(once.detail.kind(), probe.kind());
            assert_eq!(Ok(&once), report(&pretence(100), &probe, &job(7)).as_ref(), "same seeds, same data");
            assert_ne!(Ok(&once), report(&pretence(100), &probe, &job(8)).as_ref(), "{}", probe.kind());
        }
    }

    #[test]
    fn slowdown_slows_down() {
        let total = |percent| {
            let probe = ProbeSpec::Fwq(FwqParams::default());
            match report(&pretence(percent), &probe, &job(7)).expect("made up").detail {
                Detail::Fwq(fwq) => fwq.samples_ns.iter().map(|sample| sample.as_f64()).sum::<f64>(),
                _ => 0.0,
            }
        };
        let ratio = total(200) / total(100);
        assert!((1.99..2.01).contains(&ratio), "{ratio}");
    }
}
