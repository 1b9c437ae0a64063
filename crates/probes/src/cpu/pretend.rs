//! Made-up outcomes of the cpu probe, for the fake platform.

use units::Nanos;

use crate::detail::{CpuDetail, CpuPoint};
use crate::params::CpuParams;
use crate::pretend::Maker;

pub(crate) fn pretend(maker: &mut Maker, params: &CpuParams) -> CpuDetail {
    maker.cpu(params)
}

impl Maker {
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
}
