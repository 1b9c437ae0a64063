//! Made-up outcomes of the share probe, for the fake platform.

use units::histogram::Histogram;
use units::metric::saturate;
use units::{Hertz, Nanos};

use crate::detail::{ShareDetail, SharePhase};
use crate::params::ShareParams;
use crate::pretend::{Maker, TICKS_PER_NS};

/// Slice of a thread that shares its CPU.
const SLICE_NS: f64 = 3e6;

pub(crate) fn pretend(maker: &mut Maker, params: &ShareParams) -> ShareDetail {
    let (rank, ranks) = maker.part.as_ref().map_or((0, 2), |part| (part.rank, part.ranks));
    let cpus = maker.cpus.max(1);
    let window = params.duration_ms.get() as f64 * 1e6;
    let phases = ShareParams::steps(cpus).into_iter().map(|step| {
        let (first_threads, other_threads) = (step.first, step.other);
        let mine = if rank == 0 { first_threads } else { other_threads };
        let all = first_threads + other_threads * ranks.saturating_sub(1);
        // A thread gets its part of the CPUs, at most a whole one.
        let each = (f64::from(cpus) / f64::from(all.max(1))).min(1.0);
        let running = window * each * f64::from(mine) * (1.0 - 0.02 * (maker.wobble() - 1.0).abs());
        let away = window * f64::from(mine) - running;
        let slices = saturate(away / SLICE_NS);
        SharePhase {
            first_threads,
            other_threads,
            elapsed_ns: Nanos::from_nanos(saturate(window)),
            cpu_time_ns: Nanos::from_nanos(saturate(running)),
            rounds: saturate(running / 10.0 / maker.slowdown),
            away_ticks: Histogram::from_values((0..slices).map(|_| saturate(SLICE_NS) * TICKS_PER_NS)),
            running_ticks: Histogram::from_values([saturate(running) * TICKS_PER_NS]),
        }
    });
    ShareDetail {
        rank,
        ranks,
        cpus,
        counter_hz: Hertz::from_hz(1_000_000_000 * TICKS_PER_NS),
        phases: phases.collect(),
        others: Vec::new(),
    }
}
