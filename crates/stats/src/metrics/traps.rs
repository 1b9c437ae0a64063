//! Figures of the probes that show what leaving the guest costs: traps, locks, first touch of pages.

use model::detail::{ExitDetail, LockDetail, LockKind, LockPoint, PagesDetail, PagesPass};
use model::histogram::Histogram;
use model::metric::{Better, Figure, Metric, Unit};

use super::super::summary::{histogram_max, histogram_quantile};
use super::entry::{figure, metric, time, too_few_beyond};

/// Waits of 2^16 ticks and more are what lock-holder preemption looks like (Friebel and Biemueller 2008).
const LONG_WAIT_BIT: usize = 16;

/// Trap: what the instruction costs more than nothing.
pub(super) fn exit(detail: &ExitDetail) -> Vec<Metric> {
    const NONE: &str =
        "the instruction took no longer than two reads of the counter with nothing between them";
    let hz = detail.counter_hz.as_f64();
    let empty = histogram_quantile(&detail.empty_ticks, 0.5);
    let net = |ticks: Option<f64>| {
        ticks.zip(empty).map(|(ticks, empty)| (ticks - empty) * 1e9 / hz).filter(|net| *net > 0.0)
    };
    let count = detail.trap_ticks.count() as f64;
    let mean = Some(detail.trap_ticks.sum() as f64 / count).filter(|mean| mean.is_finite());
    let p99 = too_few_beyond(count, 0.99, "traps were made")
        .unwrap_or_else(|| figure(net(histogram_quantile(&detail.trap_ticks, 0.99)), NONE));
    let max = net(histogram_max(&detail.trap_ticks).map(|ticks| ticks as f64));
    vec![
        time(
            "trap_ns",
            "one trap, median",
            true,
            figure(net(histogram_quantile(&detail.trap_ticks, 0.5)), NONE),
        ),
        time("trap_p99_ns", "one trap, 99 % quantile", false, p99),
        time("trap_max_ns", "one trap, longest", false, figure(max, NONE)),
        metric(
            "traps_per_s",
            "traps one CPU can make per second",
            Unit::PerSecond,
            Better::Higher,
            false,
            figure(net(mean).map(|mean| 1e9 / mean), NONE),
        ),
    ]
}

/// Locks: the ticket lock first, since it suffers most.
pub(super) fn lock(detail: &LockDetail) -> Vec<Metric> {
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

/// First touch of pages. The first pass is the main figure: it is cold on a fresh instance and the same measurement
/// everywhere.
pub(super) fn pages(detail: &PagesDetail) -> Vec<Metric> {
    const NO_PASS: &str = "no page was touched";
    let warm_passes = detail.passes.get(1..).unwrap_or_default();
    let first = detail.passes.first();
    let cold = first.map(|pass| pass.touch_ns.clone()).unwrap_or_default();
    let warm = Histogram::merge_all(warm_passes.iter().map(|pass| &pass.touch_ns));
    let (cold_median, warm_median) = (histogram_quantile(&cold, 0.5), histogram_quantile(&warm, 0.5));
    let tail = |all: &Histogram| {
        too_few_beyond(all.count() as f64, 0.99, "pages were touched")
            .unwrap_or_else(|| figure(histogram_quantile(all, 0.99), NO_PASS))
    };
    let ratio = if detail.fresh {
        let ratio = cold_median.zip(warm_median).map(|(cold, warm)| warm / cold);
        figure(ratio, "no warm pass was made, or a touch took no time")
    } else {
        Figure::Unsupported("the instance had not just been started, so no pass was cold".to_owned())
    };
    let rate = |passes: &[PagesPass]| figure(pages_per_s(passes), NO_PASS);
    let per_second = |id: &str, title: &str, figure: Figure| {
        metric(id, title, Unit::PerSecond, Better::Higher, false, figure)
    };
    vec![
        time(
            "first_touch_ns",
            "first touch of a page, first pass, median",
            true,
            figure(cold_median, NO_PASS),
        ),
        time(
            "warm_touch_ns",
            "first touch of a page, later passes, median",
            true,
            figure(warm_median, NO_PASS),
        ),
        time("first_touch_p99_ns", "first touch of a page, first pass, 99 % quantile", false, tail(&cold)),
        time("warm_touch_p99_ns", "first touch of a page, later passes, 99 % quantile", false, tail(&warm)),
        metric(
            "warm_per_cold_ratio",
            "warm over cold first touch",
            Unit::Count,
            Better::Neither,
            false,
            ratio,
        ),
        metric(
            "local_share",
            "pages on the probe's own memory node",
            Unit::Share,
            Better::Higher,
            false,
            local(detail),
        ),
        per_second(
            "first_pages_per_s",
            "pages touched per second, first pass",
            rate(detail.passes.get(..1).unwrap_or_default()),
        ),
        per_second("warm_pages_per_s", "pages touched per second, later passes", rate(warm_passes)),
    ]
}

fn pages_per_s(passes: &[PagesPass]) -> Option<f64> {
    let count: f64 = passes.iter().map(|pass| pass.touch_ns.count() as f64).sum();
    let seconds: f64 = passes.iter().map(|pass| pass.elapsed_ns.as_secs_f64()).sum();
    Some(count / seconds).filter(|rate| rate.is_finite() && *rate > 0.0)
}

/// Over all passes: how many of the pages whose node is known lie on the probe's own.
fn local(detail: &PagesDetail) -> Figure {
    let Some(own) = detail.own_node else {
        return Figure::Unsupported("the kernel does not say on which memory node the probe ran".to_owned());
    };
    let nodes = || detail.passes.iter().flat_map(|pass| &pass.nodes);
    let all: f64 = nodes().map(|(_, pages)| *pages as f64).sum();
    let near: f64 = nodes().filter(|(node, _)| *node == own).map(|(_, pages)| *pages as f64).sum();
    figure(
        Some(near / all).filter(|share| share.is_finite()),
        "the kernel does not say on which memory nodes the pages lie",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::units::{Bytes, Hertz, Nanos};

    fn value(metrics: &[Metric], id: &str) -> f64 {
        let found = metrics.iter().find(|metric| metric.id == id).unwrap_or_else(|| panic!("no {id}"));
        found.figure.value().unwrap_or_else(|| panic!("{:?}", found.figure))
    }

    fn near(a: f64, b: f64) -> bool {
        (a / b - 1.0).abs() < 0.01
    }

    #[test]
    fn a_trap_costs_what_it_takes_more_than_nothing() {
        let mut detail = ExitDetail {
            instruction: "cpuid".to_owned(),
            counter_hz: Hertz::from_hz(2_000_000_000),
            hypervisor: None,
            trap_ticks: Histogram::from_values((0..990).map(|_| 2040).chain((0..10).map(|_| 20_040))),
            empty_ticks: Histogram::from_values([40; 1000]),
        };
        let metrics = exit(&detail);
        assert!(near(value(&metrics, "trap_ns"), 1000.0) && near(value(&metrics, "trap_max_ns"), 10_000.0));
        assert!(near(value(&metrics, "traps_per_s"), 1e9 / 1090.0));
        detail.trap_ticks = Histogram::from_values([40; 50]);
        assert!(exit(&detail).iter().all(|metric| metric.figure.value().is_none()), "nothing is no zero");
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
        let metrics = lock(&detail);
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

    fn pass(touch: u64, nodes: Vec<(u32, u64)>) -> PagesPass {
        PagesPass {
            start_ns: Nanos::ZERO,
            elapsed_ns: Nanos::from_nanos(touch * 2000),
            touch_ns: Histogram::from_values((0..2000).map(|_| touch)),
            minor_faults: 2000,
            nodes,
        }
    }

    #[test]
    fn cold_and_warm_are_told_apart_only_on_a_fresh_instance() {
        let mut detail = PagesDetail {
            page_bytes: Bytes::from_bytes(4096),
            size_bytes: Bytes::from_bytes(2000 * 4096),
            fresh: true,
            own_node: Some(1),
            passes: vec![pass(1000, vec![(1, 2000)]), pass(250, vec![(0, 1000), (1, 1000)])],
        };
        let metrics = pages(&detail);
        assert_eq!(metrics[0].id, "first_touch_ns");
        assert!(
            near(value(&metrics, "first_touch_ns"), 1000.0) && near(value(&metrics, "warm_touch_ns"), 250.0)
        );
        assert!(near(value(&metrics, "warm_per_cold_ratio"), 0.25));
        assert!(near(value(&metrics, "local_share"), 0.75));
        assert!(near(value(&metrics, "first_pages_per_s"), 1e6));
        detail.fresh = false;
        detail.own_node = None;
        let metrics = pages(&detail);
        assert!(near(value(&metrics, "first_touch_ns"), 1000.0));
        let unsupported = metrics.iter().filter(|metric| metric.figure.value().is_none()).count();
        assert_eq!(unsupported, 2);
        detail.passes.clear();
        assert!(pages(&detail).iter().all(|metric| metric.figure.value().is_none()));
    }
}
