//! From the raw detail of one measurement to its figures.
//!
//! The main metric comes first and is always a headline. Details come from guests that are not trusted: whatever they
//! hold, nothing panics, and what cannot be computed, or is not a finite number, is a reason instead of a figure.

mod disk;
mod gap;
mod memory;
mod work;

use crate::model::detail::Detail;
use crate::model::facts::ClockFacts;
use crate::model::metric::{Better, Figure, Metric, Unit};

/// All metrics of one measurement, the main one first. The clock's own cost is no metric: it is kept beside them.
pub fn metrics_of(detail: &Detail, _clock: &ClockFacts) -> Vec<Metric> {
    match detail {
        Detail::Gap(detail) => gap::metrics(detail),
        Detail::Fwq(detail) => work::fwq(detail),
        Detail::Cpu(detail) => work::cpu(detail),
        Detail::Syscall(detail) => work::syscall(detail),
        Detail::Fork(detail) => work::fork(detail),
        Detail::MemLatency(detail) => memory::latency(detail),
        Detail::MemBandwidth(detail) => memory::bandwidth(detail),
        Detail::Disk(detail) => disk::metrics(detail),
    }
}

/// A quantile is given only when at least this many samples lie beyond it.
const SAMPLES_BEYOND: f64 = 10.0;

/// A figure, or `reason` when there is none or it is not a finite number.
fn figure(value: Option<f64>, reason: &str) -> Figure {
    match value {
        Some(value) if value.is_finite() => Figure::Value(value),
        _ => Figure::Unsupported(reason.to_owned()),
    }
}

/// A time for which small is good.
fn time(id: &str, title: &str, headline: bool, figure: Figure) -> Metric {
    metric(id, title, Unit::Nanoseconds, Better::Lower, headline, figure)
}

/// A throughput, for which large is good.
fn throughput(id: &str, title: &str, headline: bool, figure: Figure) -> Metric {
    metric(id, title, Unit::BytesPerSecond, Better::Higher, headline, figure)
}

fn metric(id: &str, title: &str, unit: Unit, better: Better, headline: bool, figure: Figure) -> Metric {
    Metric { id: id.to_owned(), title: title.to_owned(), unit, better, headline, figure }
}

/// Says that a quantile wants more samples, or nothing when there are enough.
fn too_few_beyond(count: f64, q: f64, what: &str) -> Option<Figure> {
    let needed = SAMPLES_BEYOND / (1.0 - q);
    // A thousand samples have ten beyond their 99 % quantile; rounding must not deny that.
    (count < needed * (1.0 - 1e-9))
        .then(|| Figure::Unsupported(format!("{count:.0} {what}; at least {needed:.0} are needed")))
}
