//! Made-up outcomes of the switch probe, for the fake platform.

use units::Nanos;

use super::detail::{KINDS, SwitchBetween, SwitchPlace, SwitchThrough};
use super::run::BATCHES;
use crate::detail::{SwitchBatch, SwitchDetail, SwitchPoint};
use crate::params::SwitchParams;
use crate::pretend::Maker;

/// A pass is the calls, a switch of the kernel, and another address space or a sleeping CPU where there is one.
pub(crate) fn pretend(maker: &mut Maker, params: &SwitchParams) -> SwitchDetail {
    let batch_ns = (params.duration_ms.get() * 1_000_000 / u64::from(BATCHES)).max(1);
    let cpus = maker.cpus;
    let points = KINDS.map(|(between, through, place)| {
        let is_refused = place == SwitchPlace::TwoCpus && cpus < 2;
        let calls = if through == SwitchThrough::Pipe { 350.0 } else { 150.0 };
        let space = if between == SwitchBetween::Processes { 200.0 } else { 0.0 };
        let switch = if place == SwitchPlace::TwoCpus { 2_500.0 } else { 900.0 + space };
        let mut batch = || {
            let each = maker.nanos(calls + switch);
            let passes = (batch_ns / each).max(1);
            let total = |each: u64| Nanos::from_nanos(passes * each);
            SwitchBatch { passes, elapsed_ns: total(each), alone_ns: total(maker.nanos(calls)) }
        };
        let batches = if is_refused { Vec::new() } else { (0..BATCHES).map(|_| batch()).collect() };
        let unsupported = is_refused.then(|| super::run::ONE_CPU.to_owned());
        SwitchPoint { between, through, place, unsupported, batches }
    });
    SwitchDetail { points: points.into() }
}
