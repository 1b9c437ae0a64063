//! How a metric is put together: a figure or the reason why there is none, with its unit and good direction.

use model::metric::{Better, Figure, Metric, Unit};

/// A quantile is given only when at least this many samples lie beyond it.
const SAMPLES_BEYOND: f64 = 10.0;

/// A figure, or `reason` when there is none or it is not a finite number.
pub(super) fn figure(value: Option<f64>, reason: &str) -> Figure {
    match value {
        Some(value) if value.is_finite() => Figure::Value(value),
        _ => Figure::Unsupported(reason.to_owned()),
    }
}

/// A time for which small is good.
pub(super) fn time(id: &str, title: &str, headline: bool, figure: Figure) -> Metric {
    metric(id, title, Unit::Nanoseconds, Better::Lower, headline, figure)
}

/// A throughput, for which large is good.
pub(super) fn throughput(id: &str, title: &str, headline: bool, figure: Figure) -> Metric {
    metric(id, title, Unit::BytesPerSecond, Better::Higher, headline, figure)
}

pub(super) fn metric(
    id: &str,
    title: &str,
    unit: Unit,
    better: Better,
    headline: bool,
    figure: Figure,
) -> Metric {
    Metric { id: id.to_owned(), title: title.to_owned(), unit, better, headline, figure }
}

/// Says that a quantile wants more samples, or nothing when there are enough.
pub(super) fn too_few_beyond(count: f64, q: f64, what: &str) -> Option<Figure> {
    let needed = SAMPLES_BEYOND / (1.0 - q);
    // A thousand samples have ten beyond their 99 % quantile; rounding must not deny that.
    (count < needed * (1.0 - 1e-9))
        .then(|| Figure::Unsupported(format!("{count:.0} {what}; at least {needed:.0} are needed")))
}
