//! Pictures of the probes that show what leaving the guest costs: traps, locks, first touch of pages.

mod exit;
mod lock;
mod pages;

pub(super) use exit::pictures as exit;
pub(super) use lock::pictures as lock;
pub(super) use pages::pictures as pages;

use stats::summary::histogram_quantile;
use units::metric::Unit;

use super::super::chart::axis::Quantity;
use super::super::figures::value_text;
use units::histogram::Histogram;

const NS: Quantity = Quantity::Of(Unit::Nanoseconds);
const COUNT: Quantity = Quantity::Of(Unit::Count);

/// A quantile of a histogram whose values are this many nanoseconds each.
fn quantile_text(histogram: &Histogram, q: f64, ns_each: f64) -> String {
    histogram_quantile(histogram, q)
        .map(|value| value * ns_each)
        .filter(|ns| ns.is_finite())
        .map_or_else(|| "n/a: nothing recorded".to_owned(), |ns| value_text(Unit::Nanoseconds, ns))
}
