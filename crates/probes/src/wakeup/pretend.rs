//! Made-up outcomes of the wakeup probe, for the fake platform.

use rand::RngExt;
use units::Nanos;
use units::histogram::Histogram;

use crate::detail::{Stretch, WORST_KEPT, WakeupDetail, WakeupThread, due_times_passed};
use crate::params::WakeupParams;
use crate::pretend::Maker;

pub(crate) fn pretend(maker: &mut Maker, params: &WakeupParams) -> WakeupDetail {
    let period_ns = Nanos::from_nanos(params.period_us.get() * 1000);
    let due = (params.duration_ms.get().saturating_mul(1_000_000) / period_ns.get().max(1)).max(1);
    let threads = (0..params.threads).map(|number| wakeup_thread(maker, number, period_ns, due)).collect();
    let priority = Some(params.priority).filter(|priority| *priority > 0);
    WakeupDetail { period_ns, priority, threads }
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
