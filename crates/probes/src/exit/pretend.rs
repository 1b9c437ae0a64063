//! Made-up outcomes of the exit probe, for the fake platform.

use units::histogram::DenseHistogram;

use crate::detail::ExitDetail;
use crate::params::ExitParams;
use crate::pretend::{Maker, SAMPLES, TICKS_PER_NS, counter};

pub(crate) fn pretend(maker: &mut Maker, params: &ExitParams) -> ExitDetail {
    let (mut trap_ticks, mut empty_ticks) = (DenseHistogram::new(), DenseHistogram::new());
    let each = (params.duration_ms.get() * 1_000_000 / 80 / SAMPLES).max(1);
    for _ in 0..SAMPLES {
        trap_ticks.record_many(maker.nanos(60.0) * TICKS_PER_NS, each);
        empty_ticks.record_many(10 * TICKS_PER_NS, each);
    }
    ExitDetail {
        instruction: "cpuid".to_owned(),
        counter_hz: counter(),
        hypervisor: None,
        trap_ticks: trap_ticks.to_histogram(),
        empty_ticks: empty_ticks.to_histogram(),
    }
}
