//! Made-up outcomes of the fwq probe, for the fake platform.

use rand::RngExt;
use units::Nanos;

use crate::detail::FwqDetail;
use crate::params::FwqParams;
use crate::pretend::Maker;

pub(crate) fn pretend(maker: &mut Maker, params: &FwqParams) -> FwqDetail {
    maker.fwq(params)
}

impl Maker {
    fn fwq(&mut self, params: &FwqParams) -> FwqDetail {
        let samples = (0..params.samples).map(|_| {
            let interrupted = if self.random.random::<f64>() < 0.05 { 3_000.0 } else { 0.0 };
            Nanos::from_nanos(self.nanos(params.iterations as f64 + interrupted))
        });
        FwqDetail { iterations: params.iterations, cpu: Some(0), samples_ns: samples.collect() }
    }
}
