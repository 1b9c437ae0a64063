//! How a metric is put together: a figure or the reason why there is none, with its unit and good direction.

use stats::summary::histogram_quantile;
use units::histogram::Histogram;
use units::metric::{Better, Figure, Metric, Unit};
use units::{Bytes, Nanos};

/// A quantile is given only when at least this many samples lie beyond it.
const SAMPLES_BEYOND: f64 = 10.0;

/// A figure, or `reason` when there is none or it is not a finite number.
pub fn figure(value: Option<f64>, reason: &str) -> Figure {
    match value {
        Some(value) if value.is_finite() => Figure::Value(value),
        _ => Figure::Unsupported(reason.to_owned()),
    }
}

/// A time for which small is good.
pub fn time(id: &str, title: &str, headline: bool, figure: Figure) -> Metric {
    metric(id, title, Unit::Nanoseconds, Better::Lower, headline, figure)
}

/// A throughput, for which large is good.
pub fn throughput(id: &str, title: &str, headline: bool, figure: Figure) -> Metric {
    metric(id, title, Unit::BytesPerSecond, Better::Higher, headline, figure)
}

/// A figure for which small is good.
pub fn lower(id: &str, title: &str, unit: Unit, headline: bool, figure: Figure) -> Metric {
    metric(id, title, unit, Better::Lower, headline, figure)
}

/// A metric of any unit.
pub fn metric(id: &str, title: &str, unit: Unit, better: Better, headline: bool, figure: Figure) -> Metric {
    Metric { id: id.to_owned(), title: title.to_owned(), unit, better, headline, figure }
}

/// Says that a quantile wants more samples, or nothing when there are enough.
pub fn too_few_beyond(count: f64, q: f64, what: &str) -> Option<Figure> {
    let needed = SAMPLES_BEYOND / (1.0 - q);
    // A thousand samples have ten beyond their 99 % quantile; rounding must not deny that.
    (count < needed * (1.0 - 1e-9))
        .then(|| Figure::Unsupported(format!("{count:.0} {what}; at least {needed:.0} are needed")))
}

/// The 99 % quantile, where there are enough for one.
pub fn p99(times: &Histogram, what: &str, missing: &str) -> Figure {
    too_few_beyond(times.count() as f64, 0.99, what)
        .unwrap_or_else(|| figure(histogram_quantile(times, 0.99), missing))
}

/// Times as numbers.
pub fn floats(times: &[Nanos]) -> Vec<f64> {
    times.iter().map(|time| time.as_f64()).collect()
}

/// The points of the smallest and the largest size.
pub fn ends(points: &[(f64, f64)]) -> Option<((f64, f64), (f64, f64))> {
    let by_size = |a: &&(f64, f64), b: &&(f64, f64)| a.0.total_cmp(&b.0);
    Some((*points.iter().min_by(by_size)?, *points.iter().max_by(by_size)?))
}

/// What was done to an array, with its size where there was one.
pub fn title(what: &str, point: Option<(f64, f64)>) -> String {
    point.map_or_else(|| format!("{what} an array"), |point| format!("{what} an array of {}", size(point.0)))
}

/// A size in words.
pub fn size(bytes: f64) -> String {
    Bytes::from_bytes(units::metric::saturate(bytes)).to_string()
}
