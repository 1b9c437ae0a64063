//! Made-up outcomes of the lock probe, for the fake platform.

use rand::RngExt;
use units::Nanos;

use crate::detail::{LockDetail, LockKind, LockPoint};
use crate::params::LockParams;
use crate::pretend::{Maker, SAMPLES, TICKS_PER_NS, counter};

pub(crate) fn pretend(maker: &mut Maker, params: &LockParams) -> LockDetail {
    let threads = params.threads.unwrap_or(maker.cpus).max(1);
    let points =
        [LockKind::TestAndSet, LockKind::Ticket].map(|kind| lock_point(maker, params, kind, threads));
    LockDetail { counter_hz: counter(), threads, cpus: maker.cpus, points: points.into() }
}

/// Each thread has the same number of turns but for a few; one wait in five hundred is long.
fn lock_point(maker: &mut Maker, params: &LockParams, kind: LockKind, threads: u32) -> LockPoint {
    let (mut waits, mut wait_ticks) = (vec![0; 64], vec![0; 64]);
    let (mut longest_ticks, mut thread_time) = (0, 0);
    let mut slowest = 0;
    let mut turns = Vec::new();
    for _ in 0..threads {
        let own = (SAMPLES / u64::from(threads)).max(1) + maker.random.random_range(0..20);
        let mut time = 0;
        for _ in 0..own {
            let native = f64::from(params.held_iterations) * f64::from(threads - 1) + 20.0;
            let long = if maker.random.random::<f64>() < 0.002 { 100_000.0 } else { 0.0 };
            let nanos = maker.nanos(native + long);
            let bin = (nanos * TICKS_PER_NS).ilog2() as usize;
            waits.iter_mut().skip(bin).take(1).for_each(|count| *count += 1);
            wait_ticks.iter_mut().skip(bin).take(1).for_each(|ticks| *ticks += nanos * TICKS_PER_NS);
            longest_ticks = longest_ticks.max(nanos * TICKS_PER_NS);
            let work = f64::from(params.held_iterations) + f64::from(params.free_iterations);
            time += nanos + maker.nanos(work * 3.0);
        }
        slowest = slowest.max(time);
        thread_time += time;
        turns.push(own);
    }
    LockPoint {
        kind,
        elapsed_ns: Nanos::from_nanos(slowest),
        thread_time_ns: Nanos::from_nanos(thread_time),
        waits,
        wait_ticks,
        turns,
        longest_ticks,
    }
}
