//! Figures of the lock probe.

use units::metric::{Better, Figure, Metric, Unit};

use crate::detail::{LockDetail, LockKind, LockPoint};
use crate::figures::{figure, metric, time, too_few_beyond};
use crate::probe::Definition;

/// What each figure is, and how it comes about.
pub(crate) const DEFINITIONS: &[Definition] = &[
    Definition {
        ids: "*_spin_share",
        words: "Time that all threads together spent waiting for the lock, over their time.",
    },
    Definition { ids: "*_wait_max_ns", words: "The longest single wait." },
    Definition {
        ids: "*_long_waits_share",
        words: "Waits of 2^16 ticks of the counter and more, over all: what the preemption of a lock's holder looks like (Friebel and Biemueller 2008).",
    },
    Definition {
        ids: "*_long_wait_time_share",
        words: "Time in waits of 2^16 ticks and more, over the threads' time.",
    },
    Definition {
        ids: "*_wait_p99_ns",
        words: "Waits are counted by powers of two: the upper end of the bin that 99 of 100 stay within.",
    },
    Definition { ids: "*_turns_per_s", words: "How often the lock was taken per second, by all threads." },
    Definition {
        ids: "*_fairness_share",
        words: "Turns of the thread that got fewest over those of the one that got most: 100 % is fair.",
    },
];

/// Waits of 2^16 ticks and more are what lock-holder preemption looks like (Friebel and Biemueller 2008).
const LONG_WAIT_BIT: usize = 16;

/// Locks: the ticket lock first, since it suffers most.
pub(crate) fn metrics(detail: &LockDetail) -> Vec<Metric> {
    let kinds =
        [(LockKind::Ticket, "ticket", "ticket lock"), (LockKind::TestAndSet, "tas", "test-and-set lock")];
    kinds
        .into_iter()
        .flat_map(|(kind, id, title)| {
            let point = detail.points.iter().find(|point| point.kind == kind);
            lock_metrics(id, title, point, detail.counter_hz.as_f64(), kind == LockKind::Ticket)
        })
        .collect()
}

fn lock_metrics(id: &str, title: &str, point: Option<&LockPoint>, hz: f64, main: bool) -> Vec<Metric> {
    let missing = "this lock was not fought for";
    let named = |what: &str| format!("{id}_{what}");
    let titled = |what: &str| format!("{title}: {what}");
    let value = |of: &dyn Fn(&LockPoint) -> Option<f64>| figure(point.and_then(of), missing);
    let share = |what: &str, words: &str, headline: bool, of: &dyn Fn(&LockPoint) -> Option<f64>| {
        metric(&named(what), &titled(words), Unit::Share, Better::Lower, headline, value(of))
    };
    let longest = value(&|point| Some(point.longest_ticks as f64 * 1e9 / hz));
    let p99 = point.map_or_else(|| figure(None, missing), |point| wait_p99(point, hz));
    vec![
        share("spin_share", "time spent waiting", main, &|point| waited_share(point, 0, hz)),
        time(&named("wait_max_ns"), &titled("longest wait"), main, longest),
        share("long_waits_share", "waits of 2^16 ticks and more", false, &long_waits),
        share("long_wait_time_share", "time spent in waits of 2^16 ticks and more", false, &|point| {
            waited_share(point, LONG_WAIT_BIT, hz)
        }),
        time(&named("wait_p99_ns"), &titled("99 % of the waits end before (next power of two)"), false, p99),
        metric(
            &named("turns_per_s"),
            &titled("turns per second, all threads"),
            Unit::PerSecond,
            Better::Higher,
            false,
            value(&|point| Some(turns(point) / point.elapsed_ns.as_secs_f64())),
        ),
        metric(
            &named("fairness_share"),
            &titled("turns of the unluckiest thread over those of the luckiest"),
            Unit::Share,
            Better::Higher,
            false,
            value(&|point| {
                let (least, most) = (point.turns.iter().min()?, point.turns.iter().max()?);
                Some(*least as f64 / *most as f64)
            }),
        ),
    ]
}

fn turns(point: &LockPoint) -> f64 {
    point.turns.iter().map(|turns| *turns as f64).sum()
}

fn waits(point: &LockPoint) -> f64 {
    point.waits.iter().map(|count| *count as f64).sum()
}

/// Share of the threads' time spent in waits whose highest bit is at least this one.
fn waited_share(point: &LockPoint, from_bit: usize, hz: f64) -> Option<f64> {
    let ticks: f64 = point.wait_ticks.iter().skip(from_bit).map(|ticks| *ticks as f64).sum();
    Some(ticks / hz / point.thread_time_ns.as_secs_f64()).filter(|share| share.is_finite())
}

fn long_waits(point: &LockPoint) -> Option<f64> {
    let long: f64 = point.waits.iter().skip(LONG_WAIT_BIT).map(|count| *count as f64).sum();
    Some(long / waits(point)).filter(|share| share.is_finite())
}

/// Upper end of the bin that holds the 99 % quantile: at most twice the quantile itself.
fn wait_p99(point: &LockPoint, hz: f64) -> Figure {
    let all = waits(point);
    too_few_beyond(all, 0.99, "waits were timed").unwrap_or_else(|| {
        let mut seen = 0.0;
        let bin = point.waits.iter().position(|count| {
            seen += *count as f64;
            seen >= 0.99 * all
        });
        let upper = bin.and_then(|bin| i32::try_from(bin + 1).ok()).map(|bit| 2f64.powi(bit) * 1e9 / hz);
        figure(upper, "no waits were timed")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::metric::Figure;
    use units::{Hertz, Nanos};

    fn value(metrics: &[Metric], id: &str) -> f64 {
        let found = metrics.iter().find(|metric| metric.id == id).unwrap_or_else(|| panic!("no {id}"));
        found.figure.value().unwrap_or_else(|| panic!("{:?}", found.figure))
    }

    fn near(a: f64, b: f64) -> bool {
        (a / b - 1.0).abs() < 0.01
    }

    fn fought(kind: LockKind, waits: &[u64], turns: &[u64]) -> LockPoint {
        let bins = waits.iter().map(|wait| wait.max(&1).ilog2() as usize).max().unwrap_or(0) + 1;
        let mut point = LockPoint {
            kind,
            elapsed_ns: Nanos::from_nanos(1_000_000),
            thread_time_ns: Nanos::from_nanos(2_000_000),
            waits: vec![0; bins],
            wait_ticks: vec![0; bins],
            turns: turns.to_vec(),
            longest_ticks: waits.iter().copied().max().unwrap_or(0),
        };
        for wait in waits {
            let bin = wait.max(&1).ilog2() as usize;
            point.waits[bin] += 1;
            point.wait_ticks[bin] += wait;
        }
        point
    }

    #[test]
    fn locks_say_how_much_time_the_long_waits_took() {
        let waits: Vec<u64> = (0..1999).map(|_| 100).chain([400_000]).collect();
        let detail = LockDetail {
            counter_hz: Hertz::from_hz(1_000_000_000),
            threads: 2,
            cpus: 2,
            points: vec![fought(LockKind::Ticket, &waits, &[500, 1500])],
        };
        let metrics = super::metrics(&detail);
        assert_eq!(metrics[0].id, "ticket_spin_share");
        assert!(metrics[0].headline);
        assert!(near(value(&metrics, "ticket_spin_share"), 599_900.0 / 2e6));
        assert!(near(value(&metrics, "ticket_long_wait_time_share"), 0.2));
        assert!(near(value(&metrics, "ticket_long_waits_share"), 1.0 / 2000.0));
        assert!(near(value(&metrics, "ticket_wait_p99_ns"), 128.0));
        assert!(near(value(&metrics, "ticket_wait_max_ns"), 400_000.0));
        assert!(near(value(&metrics, "ticket_turns_per_s"), 2e6));
        assert!(near(value(&metrics, "ticket_fairness_share"), 1.0 / 3.0));
        let other = metrics.iter().find(|metric| metric.id == "tas_spin_share").expect("listed");
        assert!(matches!(&other.figure, Figure::Unsupported(why) if why.contains("not fought for")));
    }
}
