//! Figures of the linpack probe.

use stats::summary::spread;
use units::metric::{Better, Metric, Unit};

use crate::detail::LinpackDetail;
use crate::figures::{figure, floats, metric, time};
use crate::probe::Definition;

/// What each figure is, and how it comes about.
pub(crate) const DEFINITIONS: &[Definition] = &[
    Definition {
        ids: "operations_per_s",
        words: "2/3 n³ + 3/2 n² operations over the median time of a solution, as HPL counts them.",
    },
    Definition { ids: "solve_ns", words: "Median time to solve the system." },
    Definition { ids: "solve_max_ns", words: "Longest time to solve it." },
    Definition {
        ids: "residual_ratio",
        words: "Residual of the solution, scaled as HPL does; below 16 it is right.",
    },
];

const NO_SOLUTIONS: &str = "no system was solved";

const NO_TIME: &str = "it took no time";

/// LU solve: operations per second of the median solution.
pub(crate) fn metrics(detail: &LinpackDetail) -> Vec<Metric> {
    let times = spread(&floats(&detail.elapsed_ns));
    let median = times.map(|times| times.median);
    let rate = median.filter(|median| *median > 0.0).map(|ns| LinpackDetail::operations(detail.n) / ns * 1e9);
    let why = if median.is_some() { NO_TIME } else { NO_SOLUTIONS };
    vec![
        metric(
            "operations_per_s",
            "floating-point operations of an LU solve",
            Unit::PerSecond,
            Better::Higher,
            true,
            figure(rate, why),
        ),
        time("solve_ns", "LU solve, median", false, figure(median, NO_SOLUTIONS)),
        time("solve_max_ns", "LU solve, worst", false, figure(times.map(|times| times.max), NO_SOLUTIONS)),
        metric(
            "residual_ratio",
            "scaled residual; below 16 is right",
            Unit::Count,
            Better::Neither,
            false,
            figure(Some(detail.residual), "it is not a number"),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Nanos;
    use units::metric::Figure;

    fn value(metrics: &[Metric], id: &str) -> Option<f64> {
        metrics.iter().find(|metric| metric.id == id).unwrap_or_else(|| panic!("no {id}")).figure.value()
    }

    fn close(got: Option<f64>, wanted: f64) -> bool {
        got.is_some_and(|got| (got / wanted - 1.0).abs() < 1e-9)
    }

    #[test]
    fn operations_are_counted_as_hpl_does() {
        let elapsed_ns = [3, 1, 2].map(|s| Nanos::from_nanos(s * 1_000_000_000)).to_vec();
        let detail = LinpackDetail { n: 1000, threads: 1, elapsed_ns, residual: 0.01 };
        let metrics = super::metrics(&detail);
        // 2/3·10⁹ + 3/2·10⁶ operations in two seconds.
        assert!(close(value(&metrics, "operations_per_s"), 1e9 / 3.0 + 0.75e6));
        assert!(metrics[0].headline);
        let none = super::metrics(&LinpackDetail { elapsed_ns: vec![], ..detail.clone() });
        assert_eq!(none[0].figure, Figure::Unsupported(NO_SOLUTIONS.to_owned()));
        let quick = super::metrics(&LinpackDetail { elapsed_ns: vec![Nanos::ZERO], ..detail });
        assert_eq!(quick[0].figure, Figure::Unsupported(NO_TIME.to_owned()));
    }
}
