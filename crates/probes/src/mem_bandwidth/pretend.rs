//! Made-up outcomes of the mem-bandwidth probe, for the fake platform.

use crate::detail::{BandwidthPoint, MemBandwidthDetail, MemoryOperation};
use crate::params::MemBandwidthParams;
use crate::pretend::{CACHE, Maker, level_ns, sizes};

pub(crate) fn pretend(maker: &mut Maker, params: &MemBandwidthParams) -> MemBandwidthDetail {
    maker.mem_bandwidth(params)
}

impl Maker {
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
}
