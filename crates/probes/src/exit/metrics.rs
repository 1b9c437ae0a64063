//! Figures of the exit probe.

use stats::summary::{histogram_max, histogram_quantile};
use units::metric::{Better, Metric, Unit};

use crate::detail::ExitDetail;
use crate::figures::{figure, metric, time, too_few_beyond};
use crate::probe::Definition;

/// What each figure is, and how it comes about.
pub(crate) const DEFINITIONS: &[Definition] = &[
    Definition {
        ids: "trap_ns",
        words: "Median time of the instruction between two reads of the counter, less that of two reads with nothing between.",
    },
    Definition { ids: "trap_p99_ns", words: "The same, 99 of 100 traps stay within it." },
    Definition { ids: "trap_max_ns", words: "The longest trap, with the same time taken off." },
    Definition { ids: "traps_per_s", words: "One second over the mean time of a trap." },
];

/// Trap: what the instruction costs more than nothing.
pub(crate) fn metrics(detail: &ExitDetail) -> Vec<Metric> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use units::Hertz;
    use units::histogram::Histogram;

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
        let metrics = super::metrics(&detail);
        assert!(near(value(&metrics, "trap_ns"), 1000.0) && near(value(&metrics, "trap_max_ns"), 10_000.0));
        assert!(near(value(&metrics, "traps_per_s"), 1e9 / 1090.0));
        detail.trap_ticks = Histogram::from_values([40; 50]);
        assert!(
            super::metrics(&detail).iter().all(|metric| metric.figure.value().is_none()),
            "nothing is no zero"
        );
    }
}
