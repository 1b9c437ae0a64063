//! Rules for what the probes exit, lock, pages send.

use super::check::{Checked, MOST_CPUS, NAME_CHARS, at_most, histogram, text};
use model::detail::{ExitDetail, LockDetail, LockPoint, MOST_WAIT_BINS, PagesDetail, PagesPass};
use model::units::Hertz;

/// Most threads that fight for a lock.
const MOST_THREADS: usize = 1024;
/// Most passes of the page probe: the first one and a hundred warm ones.
const MOST_PASSES: usize = 101;
/// Most memory nodes: Linux has at most so many.
const MOST_NODES: usize = 1024;

pub(super) fn exit(detail: &ExitDetail) -> Checked {
    text("exit.instruction", &detail.instruction, NAME_CHARS)?;
    detail.hypervisor.iter().try_for_each(|name| text("exit.hypervisor", name, NAME_CHARS))?;
    moving("exit.counter_hz", detail.counter_hz)?;
    histogram("exit.trap_ticks", &detail.trap_ticks)?;
    histogram("exit.empty_ticks", &detail.empty_ticks)
}

pub(super) fn lock(detail: &LockDetail) -> Checked {
    moving("lock.counter_hz", detail.counter_hz)?;
    at_most("lock.threads", detail.threads as usize, MOST_THREADS)?;
    at_most("lock.cpus", detail.cpus as usize, MOST_CPUS as usize)?;
    at_most("lock.points", detail.points.len(), 2)?;
    if let [one, other] = detail.points.as_slice()
        && one.kind == other.kind
    {
        return Err("lock.points names the same kind of lock twice".to_owned());
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
        ));
    }
    if point.turns.len() != threads as usize {
        return Err(format!("{} threads have {} counts of turns", threads, point.turns.len()));
    }
    let sum = |counts: &[u64]| counts.iter().map(|count| u128::from(*count)).sum::<u128>();
    if sum(&point.waits) != sum(&point.turns) {
        return Err("lock.waits and lock.turns count differently: each turn has one wait".to_owned());
    }
    for (bin, (count, ticks)) in point.waits.iter().zip(&point.wait_ticks).enumerate() {
        let (count, ticks) = (u128::from(*count), u128::from(*ticks));
        let least = if bin == 0 { 0 } else { count << bin };
        if ticks < least || ticks > count * ((1 << (bin + 1)) - 1) {
            return Err(format!(
                "lock.wait_ticks: {count} waits of bin {bin} cannot last {ticks} ticks together"
            ));
        }
    }
    let last = point.waits.iter().rposition(|count| *count > 0);
    let longest = point.longest_ticks.max(1).ilog2() as usize;
    if last.is_some_and(|last| last != longest) {
        return Err("lock.longest_ticks lies outside of the last bin that holds a wait".to_owned());
    }
    // Begin and end of each thread lie between those of all; the clock is read one after the other.
    let most = u128::from(point.elapsed_ns.get()) * u128::from(threads);
    if u128::from(point.thread_time_ns.get()) > most {
        return Err(format!(
            "{threads} threads cannot fight for {} in {}",
            point.thread_time_ns, point.elapsed_ns
        ));
    }
    Ok(())
}

pub(super) fn pages(detail: &PagesDetail) -> Checked {
    at_most("pages.passes", detail.passes.len(), MOST_PASSES)?;
    if !detail.page_bytes.get().is_power_of_two() {
        return Err(format!("pages.page_bytes = {} is no size of a page", detail.page_bytes.get()));
    }
    let pages = detail.size_bytes.get().div_ceil(detail.page_bytes.get());
    detail.passes.iter().try_for_each(|pass| pages_pass(pass, pages))
}

fn pages_pass(pass: &PagesPass, pages: u64) -> Checked {
    histogram("pages.touch_ns", &pass.touch_ns)?;
    if pass.touch_ns.count() != pages {
        return Err(format!("pages.touch_ns holds {} touches of {pages} pages", pass.touch_ns.count()));
    }
    at_most("pages.nodes", pass.nodes.len(), MOST_NODES)?;
    if !pass.nodes.windows(2).all(|pair| matches!(pair, [a, b] if a.0 < b.0)) {
        return Err("pages.nodes does not name each node once, in ascending order".to_owned());
    }
    let placed: u128 = pass.nodes.iter().map(|(_, pages)| u128::from(*pages)).sum();
    if placed > u128::from(pages) {
        return Err(format!("pages.nodes places {placed} of {pages} pages"));
    }
    Ok(())
}

fn moving(name: &str, rate: Hertz) -> Checked {
    if rate.get() > 0 {
        Ok(())
    } else {
        Err(format!("{name} is 0: a counter that stands still measures nothing"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::detail::LockKind;
    use model::histogram::Histogram;
    use model::units::{Bytes, Nanos};

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
        assert_eq!(lock(&detail(vec![point()])), Ok(()));
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
            let error = lock(&detail(vec![point])).unwrap_err();
            assert!(error.contains(wanted), "{error}");
        }
        assert!(lock(&detail(vec![point(), point()])).unwrap_err().contains("twice"));
        let still = LockDetail { counter_hz: Hertz::from_hz(0), ..detail(vec![]) };
        assert!(lock(&still).unwrap_err().contains("stands still"));
    }

    #[test]
    fn passes_that_contradict_each_other_are_refused() {
        let pass = |touches: u64, nodes: Vec<(u32, u64)>| PagesPass {
            start_ns: Nanos::ZERO,
            elapsed_ns: Nanos::from_nanos(1),
            touch_ns: Histogram::from_values(0..touches),
            minor_faults: 0,
            nodes,
        };
        let detail = |pass: PagesPass| PagesDetail {
            page_bytes: Bytes::from_bytes(4096),
            size_bytes: Bytes::from_bytes(3 * 4096),
            fresh: false,
            own_node: None,
            passes: vec![pass],
        };
        assert_eq!(pages(&detail(pass(3, vec![(0, 1), (1, 2)]))), Ok(()));
        for (pass, wanted) in [
            (pass(2, vec![]), "2 touches of 3"),
            (pass(3, vec![(1, 1), (1, 1)]), "ascending"),
            (pass(3, vec![(0, u64::MAX), (1, 1)]), "of 3 pages"),
        ] {
            let error = pages(&detail(pass)).unwrap_err();
            assert!(error.contains(wanted), "{error}");
        }
        let odd = PagesDetail { page_bytes: Bytes::from_bytes(0), ..detail(pass(3, vec![])) };
        assert!(pages(&odd).unwrap_err().contains("no size of a page"));
    }
}
