//! Made-up outcomes of the mpi probe, for the fake platform.

use units::Nanos;
use units::histogram::Histogram;
use units::metric::saturate;

use crate::detail::{MpiDetail, MpiPattern, MpiPoint};
use crate::params::MpiParams;
use crate::pretend::{MOST_TIMES, Maker, place, way};

impl Maker {
    pub(super) fn mpi_point(
        &mut self,
        params: &MpiParams,
        pattern: MpiPattern,
        size: u32,
        ranks: u32,
    ) -> MpiPoint {
        let way = way(self);
        let one = way.latency_ns / 2.0 + f64::from(size) * way.byte_ns;
        let native = match pattern {
            MpiPattern::PingPong => 2.0 * one,
            MpiPattern::AllToAll => one * f64::from(ranks - 1),
        };
        let iterations = saturate(params.duration_ms.as_f64() * 1e6 / native).clamp(20, MOST_TIMES);
        let iteration_ns = Histogram::from_values((0..iterations).map(|_| self.nanos(native)));
        let elapsed = u64::try_from(iteration_ns.sum()).unwrap_or(u64::MAX);
        MpiPoint {
            pattern,
            message_bytes: size,
            iterations,
            elapsed_ns: Nanos::from_nanos(elapsed),
            iteration_ns,
        }
    }
}

pub(crate) fn pretend(maker: &mut Maker, params: &MpiParams) -> MpiDetail {
    let (rank, instances) = place(maker);
    let ranks = instances * params.ranks_per_instance;
    let mut sizes: Vec<u32> = Vec::new();
    for size in params.message_bytes.iter().filter(|_| rank == 0) {
        if !sizes.contains(size) {
            sizes.push(*size);
        }
    }
    let mut points = Vec::new();
    for pattern in [MpiPattern::PingPong, MpiPattern::AllToAll] {
        for size in &sizes {
            points.push(maker.mpi_point(params, pattern, *size, ranks));
        }
    }
    MpiDetail { ranks, ranks_per_instance: params.ranks_per_instance, points }
}
