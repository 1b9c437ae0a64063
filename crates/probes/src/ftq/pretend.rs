//! Made-up outcomes of the ftq probe, for the fake platform.

use rand::RngExt;
use units::Nanos;

use crate::detail::FtqDetail;
use crate::params::FtqParams;
use crate::pretend::{Maker, ROUND_NS, TICK_LENGTH_NS, TICK_NS};

pub(crate) fn pretend(maker: &mut Maker, params: &FtqParams) -> FtqDetail {
    let quantum = params.quantum_us.get() * 1000;
    let quanta = params.duration_ms.get().saturating_mul(1_000_000) / quantum.max(1);
    let work = (0..quanta)
        .map(|index| {
            let ticks = (index + 1) * quantum / TICK_NS - index * quantum / TICK_NS;
            let lost = ticks as f64 * maker.nanos(TICK_LENGTH_NS) as f64;
            let rounds = (quantum as f64 - lost).max(0.0) / (ROUND_NS * maker.slowdown);
            // A round that has begun ends in the next quantum: the count rounds up or down.
            let rounds = units::metric::saturate(rounds + maker.random.random::<f64>() - 0.5);
            u32::try_from(rounds).unwrap_or(u32::MAX)
        })
        .collect();
    FtqDetail { quantum_ns: Nanos::from_nanos(quantum), cpu: Some(0), work }
}
