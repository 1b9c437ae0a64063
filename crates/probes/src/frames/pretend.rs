//! Made-up outcomes of the frames probe, for the fake platform.

use rand::RngExt;
use units::Nanos;

use crate::detail::{FramesDetail, due_times_passed};
use crate::params::FramesParams;
use crate::pretend::Maker;

pub(crate) fn pretend(maker: &mut Maker, params: &FramesParams) -> FramesDetail {
    let period_ns = Nanos::from_nanos(1_000_000_000 / u64::from(params.rate_hz.max(1)));
    let (mut frame_ns, mut work_ns) = (Vec::new(), Vec::new());
    let (mut at, mut missed) = (0, 0);
    while at < u64::from(params.frames) {
        let work = maker.nanos(params.iterations as f64 * 3.0);
        let luck = maker.random.random::<f64>();
        let late = maker.nanos(if luck < 0.03 { 20_000_000.0 } else { 60_000.0 });
        let frame = Nanos::from_nanos(work + late);
        let passed = due_times_passed(frame, period_ns).min(u64::from(params.frames) - at - 1);
        frame_ns.push(frame);
        work_ns.push(Nanos::from_nanos(work));
        missed += passed;
        at += 1 + passed;
    }
    FramesDetail { period_ns, iterations: params.iterations, frame_ns, work_ns, missed }
}
