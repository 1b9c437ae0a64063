//! Made-up data of the probes exit, lock, pages.

use rand::RngExt;

use super::pretend::{Maker, TICKS_PER_NS};
use model::detail::{Detail, ExitDetail, LockDetail, LockKind, LockPoint, PagesDetail, PagesPass};
use model::histogram::DenseHistogram;
use model::params::{ExitParams, LockParams, PagesParams};
use model::units::{Bytes, Hertz, Mebibytes, Nanos};

/// Sizes that are made up one by one; a real probe has more.
const SAMPLES: u64 = 2000;
/// Memory of a fake machine.
const MEMORY: Mebibytes = Mebibytes::from_mib(64 * 1024);
const PAGE: Bytes = Bytes::from_bytes(4096);

fn counter() -> Hertz {
    Hertz::from_hz(1_000_000_000 * TICKS_PER_NS)
}

#[expect(clippy::unnecessary_wraps, reason = "every probe of the fake platform has the same shape")]
pub(super) fn exit(maker: &mut Maker, params: &ExitParams) -> Result<Detail, String> {
    let (mut trap_ticks, mut empty_ticks) = (DenseHistogram::new(), DenseHistogram::new());
    let each = (params.duration_ms.get() * 1_000_000 / 80 / SAMPLES).max(1);
    for _ in 0..SAMPLES {
        trap_ticks.record_many(maker.nanos(60.0) * TICKS_PER_NS, each);
        empty_ticks.record_many(10 * TICKS_PER_NS, each);
    }
    Ok(Detail::Exit(ExitDetail {
        instruction: "cpuid".to_owned(),
        counter_hz: counter(),
        hypervisor: None,
        trap_ticks: trap_ticks.to_histogram(),
        empty_ticks: empty_ticks.to_histogram(),
    }))
}

#[expect(clippy::unnecessary_wraps, reason = "every probe of the fake platform has the same shape")]
pub(super) fn lock(maker: &mut Maker, params: &LockParams) -> Result<Detail, String> {
    let threads = params.threads.unwrap_or(maker.cpus).max(1);
    let points =
        [LockKind::TestAndSet, LockKind::Ticket].map(|kind| lock_point(maker, params, kind, threads));
    let detail = LockDetail { counter_hz: counter(), threads, cpus: maker.cpus, points: points.into() };
    Ok(Detail::Lock(detail))
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

pub(super) fn pages(maker: &mut Maker, params: &PagesParams) -> Result<Detail, String> {
    let size_bytes = params.size_mib.to_bytes();
    if params.size_mib > MEMORY {
        return Err(format!("{size_bytes} do not fit into the fake memory of {}", MEMORY.to_bytes()));
    }
    let pages = size_bytes.get().div_ceil(PAGE.get());
    let mut start = 0;
    let mut passes = Vec::new();
    for number in 0..=params.warm_passes {
        let cold = number == 0 && maker.fresh;
        let pass = pass(maker, pages, if cold { 900.0 } else { 250.0 }, start);
        start += pass.elapsed_ns.get() + 1_000_000;
        passes.push(pass);
    }
    let detail = PagesDetail { page_bytes: PAGE, size_bytes, fresh: maker.fresh, own_node: Some(0), passes };
    Ok(Detail::Pages(detail))
}

fn pass(maker: &mut Maker, pages: u64, native_ns: f64, start: u64) -> PagesPass {
    let mut touches = DenseHistogram::new();
    let (mut left, mut elapsed) = (pages, 0);
    while left > 0 {
        let some = (pages / SAMPLES).clamp(1, left);
        let touch = maker.nanos(native_ns);
        touches.record_many(touch, some);
        elapsed += touch * some;
        left -= some;
    }
    PagesPass {
        start_ns: Nanos::from_nanos(start),
        elapsed_ns: Nanos::from_nanos(elapsed),
        touch_ns: touches.to_histogram(),
        minor_faults: pages,
        nodes: vec![(0, pages)],
    }
}

#[cfg(test)]
mod tests {
    use super::super::pretend::{Pretence, report};
    use super::*;
    use crate::link::check_report;
    use model::job::Job;
    use model::params::ProbeSpec;
    use model::units::Millis;

    fn made_up(probe: &ProbeSpec, seed: u64, fresh: bool) -> Result<Detail, String> {
        let pretence =
            Pretence { seed, label: "fake".to_owned(), slowdown_percent: 100, noise_percent: 5, cpus: 2 };
        let report = report(&pretence, probe, &Job { seed, fresh, ..Job::default() })?;
        check_report(&report)?;
        Ok(report.detail)
    }

    #[test]
    fn what_is_made_up_passes_the_links_checks_and_follows_the_seed() {
        let probes = [
            ProbeSpec::Exit(ExitParams::default()),
            ProbeSpec::Lock(LockParams { threads: Some(1024), ..LockParams::default() }),
            ProbeSpec::Lock(LockParams { threads: Some(1), held_iterations: 0, ..LockParams::default() }),
            ProbeSpec::Pages(PagesParams::default()),
            ProbeSpec::Pages(PagesParams { size_mib: Mebibytes::from_mib(1), warm_passes: 100 }),
            ProbeSpec::Exit(ExitParams { duration_ms: Millis::from_millis(3_600_000) }),
        ];
        for probe in probes {
            let once = made_up(&probe, 1, false).unwrap();
            assert_eq!(Ok(&once), made_up(&probe, 1, false).as_ref());
            assert_ne!(Ok(&once), made_up(&probe, 2, false).as_ref());
        }
        let huge = PagesParams { size_mib: Mebibytes::from_mib(1 << 20), warm_passes: 1 };
        assert!(made_up(&ProbeSpec::Pages(huge), 1, false).unwrap_err().contains("do not fit"));
    }

    #[test]
    fn only_a_fresh_instance_is_cold() {
        let first = |fresh| match made_up(&ProbeSpec::Pages(PagesParams::default()), 1, fresh).unwrap() {
            Detail::Pages(detail) => detail.passes[0].elapsed_ns.get() / detail.passes[1].elapsed_ns.get(),
            _ => 0,
        };
        assert_eq!((first(true), first(false).min(1)), (3, first(false)));
    }
}
