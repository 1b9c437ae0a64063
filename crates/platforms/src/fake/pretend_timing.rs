//! Made-up data of the probes ftq, wakeup, frames: a timer tick 250 times a second, late wake-ups now and then, frames
//! that mostly come in time.

use rand::RngExt;

use super::pretend::Maker;
use model::detail::{
    Detail, FramesDetail, FtqDetail, Stretch, WORST_KEPT, WakeupDetail, WakeupThread, due_times_passed,
};
use model::histogram::Histogram;
use model::params::{FramesParams, FtqParams, WakeupParams};
use model::units::Nanos;

/// A timer tick this often …
const TICK_NS: u64 = 4_000_000;
/// … takes this long.
const TICK_LENGTH_NS: f64 = 3_000.0;
/// One round of the quanta's work.
const ROUND_NS: f64 = 25.0;

#[expect(clippy::unnecessary_wraps, reason = "the same shape for every probe")]
pub(super) fn ftq(maker: &mut Maker, params: &FtqParams) -> Result<Detail, String> {
    let quantum = params.quantum_us.get() * 1000;
    let quanta = params.duration_ms.get().saturating_mul(1_000_000) / quantum.max(1);
    let work = (0..quanta)
        .map(|index| {
            let ticks = (index + 1) * quantum / TICK_NS - index * quantum / TICK_NS;
            let lost = ticks as f64 * maker.nanos(TICK_LENGTH_NS) as f64;
            let rounds = (quantum as f64 - lost).max(0.0) / (ROUND_NS * maker.slowdown);
            // A round that has begun ends in the next quantum: the count rounds up or down.
            let rounds = model::metric::saturate(rounds + maker.random.random::<f64>() - 0.5);
            u32::try_from(rounds).unwrap_or(u32::MAX)
        })
        .collect();
    Ok(Detail::Ftq(FtqDetail { quantum_ns: Nanos::from_nanos(quantum), cpu: Some(0), work }))
}

#[expect(clippy::unnecessary_wraps, reason = "the same shape for every probe")]
pub(super) fn wakeup(maker: &mut Maker, params: &WakeupParams) -> Result<Detail, String> {
    let period_ns = Nanos::from_nanos(params.period_us.get() * 1000);
    let due = (params.duration_ms.get().saturating_mul(1_000_000) / period_ns.get().max(1)).max(1);
    let threads = (0..params.threads).map(|number| wakeup_thread(maker, number, period_ns, due)).collect();
    let priority = Some(params.priority).filter(|priority| *priority > 0);
    Ok(Detail::Wakeup(WakeupDetail { period_ns, priority, threads }))
}

/// A wake-up takes 5 µs, one in fifty 40 µs, one in five hundred 2.5 ms.
fn wakeup_thread(maker: &mut Maker, number: u32, period_ns: Nanos, due: u64) -> WakeupThread {
    let (mut service, mut response, mut worst) = (Vec::new(), Vec::new(), Vec::new());
    let mut at = 0;
    while at < due {
        let luck = maker.random.random::<f64>();
        let native = if luck < 0.002 {
            2_500_000.0
        } else if luck < 0.02 {
            40_000.0
        } else {
            5_000.0
        };
        let late = maker.nanos(native);
        let missed = due_times_passed(Nanos::from_nanos(late), period_ns).min(due - at - 1);
        service.push(late);
        response.extend((0..=missed).map(|passed| late - passed * period_ns.get()));
        worst.push(Stretch {
            start_ns: Nanos::from_nanos((at + 1) * period_ns.get()),
            length_ns: Nanos::from_nanos(late),
        });
        at += 1 + missed;
    }
    worst.sort_by_key(|stretch| std::cmp::Reverse(stretch.length_ns));
    worst.truncate(WORST_KEPT);
    WakeupThread {
        cpu: Some(number),
        began_ns: None,
        due,
        missed: due - service.len() as u64,
        service_ns: Histogram::from_values(service),
        response_ns: Histogram::from_values(response),
        worst,
        witnessed: Vec::new(),
    }
}

#[expect(clippy::unnecessary_wraps, reason = "the same shape for every probe")]
pub(super) fn frames(maker: &mut Maker, params: &FramesParams) -> Result<Detail, String> {
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
    Ok(Detail::Frames(FramesDetail { period_ns, iterations: params.iterations, frame_ns, work_ns, missed }))
}
