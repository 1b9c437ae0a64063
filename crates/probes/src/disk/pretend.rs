//! Made-up outcomes of the disk probe, for the fake platform.

use rand::RngExt;
use units::histogram::Histogram;
use units::{Bytes, Millis, Nanos};

use crate::detail::{
    Alignment, AlignmentVerdict, DiskDetail, DiskDirection, DiskPhase, DiskWindows, ShiftedWrites, Stretch,
    WORST_KEPT,
};
use crate::params::{DiskMode, DiskParams};
use crate::pretend::Maker;

pub(crate) fn pretend(maker: &mut Maker, params: &DiskParams) -> DiskDetail {
    maker.disk(params)
}

impl Maker {
    fn disk(&mut self, params: &DiskParams) -> DiskDetail {
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
        DiskDetail { target: "a fake disk".to_owned(), phases, alignment }
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
