//! Several CPUs under global earliest deadline first: a sufficient test, no more. No exact test of use is known, and sets
//! that it does not accept may be schedulable.
//!
//! Source: Goossens, Funk, Baruah, "Priority-driven scheduling of periodic task systems on multiprocessors" (2003), for
//! deadlines of the period: ΣU ≤ m − (m − 1)·max U; with densities C/min(D, T) for shorter ones (Bertogna, Cirinei, Lipari
//! 2005). Jitter shortens deadlines. Sums are rounded up, so what is accepted is schedulable.

use crate::answer::{NoBound, Verdict};
use crate::exact::{Rate, Time, overload_miss};
use crate::task::Task;

/// Densities are counted in millionths of millionths.
const UNIT: Time = 1_000_000_000_000;

/// Whether sporadic tasks meet their deadlines on so many CPUs, sharing one queue by earliest deadline.
/// [`Verdict::NotSchedulable`] is said only where they ask for more than there is; what the test does not accept is undecided.
pub fn global_edf(tasks: &[Task], cpus: u64) -> Verdict {
    if cpus == 1 {
        return crate::edf::test(tasks, &crate::Supply::whole_cpu());
    }
    let [mut sum, mut largest, mut least_sum]: [Time; 3] = [0; 3];
    for task in tasks {
        let short = Time::try_from(task.slack().max(0)).unwrap_or(0).min(task.t());
        // A job that blocks others takes a CPU for them as well, of which this test knows nothing.
        let is_known = task.b() == 0 && short > 0;
        let density = if is_known { (task.c() * UNIT).div_ceil(short) } else { Time::MAX };
        (sum, largest) = (sum.saturating_add(density), largest.max(density));
        least_sum = least_sum.saturating_add(task.c() * UNIT / task.t());
    }
    let all = Time::from(cpus).saturating_mul(UNIT);
    if least_sum > all {
        return Verdict::NotSchedulable(overload_miss(tasks.iter(), Rate { work: cpus, time: 1 }));
    }
    let others = Time::from(cpus.saturating_sub(1)).saturating_mul(largest);
    if sum.saturating_add(others) <= all {
        Verdict::Schedulable
    } else {
        Verdict::Undecided(NoBound::NotAccepted)
    }
}
