//! Made-up outcomes of the mem-latency probe, for the fake platform.

use units::Bytes;

use crate::detail::{LatencyPoint, MemLatencyDetail};
use crate::params::MemLatencyParams;
use crate::pretend::{CACHE, Maker, level_ns, sizes};

pub(crate) fn pretend(maker: &mut Maker, params: &MemLatencyParams) -> MemLatencyDetail {
    maker.mem_latency(params)
}

impl Maker {
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
}
