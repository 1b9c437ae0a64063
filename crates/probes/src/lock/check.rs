//! What is believed of the lock probe's outcome, and whether it saw anything at all.

use crate::check::{Checked, MOST_CPUS, at_most, because, moving};
use crate::detail::{LockDetail, LockPoint, MOST_WAIT_BINS};

/// Most threads that fight for a lock.
const MOST_THREADS: usize = 1024;

pub(crate) fn check(detail: &LockDetail) -> Checked {
    moving("lock.counter_hz", detail.counter_hz)?;
    at_most("lock.threads", detail.threads as usize, MOST_THREADS)?;
    at_most("lock.cpus", detail.cpus as usize, MOST_CPUS as usize)?;
    at_most("lock.points", detail.points.len(), 2)?;
    if let [one, other] = detail.points.as_slice()
        && one.kind == other.kind
    {
        return Err("lock.points names the same kind of lock twice".into());
    }
    detail.points.iter().try_for_each(|point| lock_point(point, detail.threads))
}

fn lock_point(point: &LockPoint, threads: u32) -> Checked {
    at_most("lock.waits", point.waits.len(), MOST_WAIT_BINS)?;
    if point.waits.len() != point.wait_ticks.len() {
        return Err(format!(
            "lock.waits has {} bins, lock.wait_ticks {}",
            point.waits.len(),
            point.wait_ticks.len()
        )
        .into());
    }
    if point.turns.len() != threads as usize {
        return Err(format!("{} threads have {} counts of turns", threads, point.turns.len()).into());
    }
    let sum = |counts: &[u64]| counts.iter().map(|count| u128::from(*count)).sum::<u128>();
    if sum(&point.waits) != sum(&point.turns) {
        return Err("lock.waits and lock.turns count differently: each turn has one wait".into());
    }
    for (bin, (count, ticks)) in point.waits.iter().zip(&point.wait_ticks).enumerate() {
        let (count, ticks) = (u128::from(*count), u128::from(*ticks));
        let least = if bin == 0 { 0 } else { count << bin };
        if ticks < least || ticks > count * ((1 << (bin + 1)) - 1) {
            return Err(format!(
                "lock.wait_ticks: {count} waits of bin {bin} cannot last {ticks} ticks together"
            )
            .into());
        }
    }
    let last = point.waits.iter().rposition(|count| *count > 0);
    let longest = point.longest_ticks.max(1).ilog2() as usize;
    if last.is_some_and(|last| last != longest) {
        return Err("lock.longest_ticks lies outside of the last bin that holds a wait".into());
    }
    // Begin and end of each thread lie between those of all; the clock is read one after the other.
    let most = u128::from(point.elapsed_ns.get()) * u128::from(threads);
    if u128::from(point.thread_time_ns.get()) > most {
        return Err(format!(
            "{threads} threads cannot fight for {} in {}",
            point.thread_time_ns, point.elapsed_ns
        )
        .into());
    }
    Ok(())
}

pub(crate) fn saw_nothing(detail: &LockDetail) -> Option<String> {
    because(
        detail.points.is_empty() || detail.points.iter().any(|point| point.turns.iter().all(|n| *n == 0)),
        "nobody got one of the locks",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detail::LockKind;
    use units::{Hertz, Nanos};

    fn point() -> LockPoint {
        LockPoint {
            kind: LockKind::Ticket,
            elapsed_ns: Nanos::from_nanos(100),
            thread_time_ns: Nanos::from_nanos(190),
            waits: vec![1, 0, 2],
            wait_ticks: vec![0, 0, 11],
            turns: vec![2, 1],
            longest_ticks: 7,
        }
    }

    fn detail(points: Vec<LockPoint>) -> LockDetail {
        LockDetail { counter_hz: Hertz::from_hz(1), threads: 2, cpus: 2, points }
    }

    #[test]
    fn waits_that_contradict_each_other_are_refused() {
        assert_eq!(check(&detail(vec![point()])), Ok(()));
        let forged = [
            (LockPoint { waits: vec![0; 65], ..point() }, "65 where 64"),
            (LockPoint { wait_ticks: vec![0, 0], ..point() }, "3 bins"),
            (LockPoint { turns: vec![3], ..point() }, "1 counts of turns"),
            (LockPoint { turns: vec![2, 2], ..point() }, "count differently"),
            (LockPoint { wait_ticks: vec![0, 0, 15], ..point() }, "cannot last 15"),
            (LockPoint { wait_ticks: vec![2, 0, 11], ..point() }, "cannot last 2"),
            (LockPoint { longest_ticks: 8, ..point() }, "outside of the last bin"),
            (LockPoint { thread_time_ns: Nanos::from_nanos(201), ..point() }, "cannot fight"),
        ];
        for (point, wanted) in forged {
            let error = check(&detail(vec![point])).unwrap_err();
            assert!(error.to_string().contains(wanted), "{error}");
        }
        assert!(check(&detail(vec![point(), point()])).unwrap_err().to_string().contains("twice"));
        let still = LockDetail { counter_hz: Hertz::from_hz(0), ..detail(vec![]) };
        assert!(check(&still).unwrap_err().to_string().contains("stands still"));
    }
}
