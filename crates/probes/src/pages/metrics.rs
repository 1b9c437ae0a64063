//! Figures of the pages probe.

use stats::summary::histogram_quantile;
use units::histogram::Histogram;
use units::metric::{Better, Figure, Metric, Unit};

use crate::detail::{PagesDetail, PagesPass};
use crate::figures::{figure, metric, time, too_few_beyond};
use crate::probe::Definition;

/// What each figure is, and how it comes about.
pub(crate) const DEFINITIONS: &[Definition] = &[
    Definition {
        ids: "first_touch_p99_ns",
        words: "Time that 99 of 100 first touches of the first pass stay within.",
    },
    Definition { ids: "warm_touch_p99_ns", words: "The same of the later passes." },
    Definition {
        ids: "first_touch_ns",
        words: "Median time of the first touch of a page in the first pass: cold where the instance has just been started.",
    },
    Definition { ids: "warm_touch_ns", words: "The same after the memory was given back and taken again." },
    Definition {
        ids: "warm_per_cold_ratio",
        words: "Median of the later passes over that of the first one, on a fresh instance.",
    },
    Definition {
        ids: "local_share",
        words: "Pages on the memory node of the probe's CPU, over those whose node is known.",
    },
    Definition { ids: "*_pages_per_s", words: "Pages touched over the time of the passes." },
    Definition {
        ids: "host_local_share",
        words: "Of the guest's memory, what lies on the node of the host that its CPU is on (numa_maps of QEMU).",
    },
    Definition {
        ids: "host_faults_per_page_ratio",
        words: "Page faults of the host during the first pass, per page touched.",
    },
];

/// First touch of pages. The first pass is the main figure: it is cold on a fresh instance and the same measurement
/// everywhere.
pub(crate) fn metrics(detail: &PagesDetail) -> Vec<Metric> {
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
    use units::{Bytes, Nanos};

    fn value(metrics: &[Metric], id: &str) -> f64 {
        let found = metrics.iter().find(|metric| metric.id == id).unwrap_or_else(|| panic!("no {id}"));
        found.figure.value().unwrap_or_else(|| panic!("{:?}", found.figure))
    }

    fn near(a: f64, b: f64) -> bool {
        (a / b - 1.0).abs() < 0.01
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
        let metrics = super::metrics(&detail);
        assert_eq!(metrics[0].id, "first_touch_ns");
        assert!(
            near(value(&metrics, "first_touch_ns"), 1000.0) && near(value(&metrics, "warm_touch_ns"), 250.0)
        );
        assert!(near(value(&metrics, "warm_per_cold_ratio"), 0.25));
        assert!(near(value(&metrics, "local_share"), 0.75));
        assert!(near(value(&metrics, "first_pages_per_s"), 1e6));
        detail.fresh = false;
        detail.own_node = None;
        let metrics = super::metrics(&detail);
        assert!(near(value(&metrics, "first_touch_ns"), 1000.0));
        let unsupported = metrics.iter().filter(|metric| metric.figure.value().is_none()).count();
        assert_eq!(unsupported, 2);
        detail.passes.clear();
        assert!(super::metrics(&detail).iter().all(|metric| metric.figure.value().is_none()));
    }
}
