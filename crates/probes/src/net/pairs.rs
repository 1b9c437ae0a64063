//! Figures of a network probe that several pairs made at the same time: what they moved together, how the slowest fared,
//! and each pair's own.

use crate::detail::NetDetail;
use units::metric::{Better, Figure, Metric, Unit};

/// Pairs with figures of their own at most; those of all together have every one.
const MOST_PAIRS: usize = 8;
/// What a pair's throughput and round trips are called; those are compared across pairs.
const RATE: &str = "_bytes_per_s";
const TRIPS: &str = "_round_trip_p";

/// Nothing for one pair alone.
pub(super) fn of_all_and_each(detail: &NetDetail, of_one: impl Fn(&NetDetail) -> Vec<Metric>) -> Vec<Metric> {
    if detail.others.is_empty() {
        return Vec::new();
    }
    let pairs: Vec<Vec<Metric>> = std::iter::once(detail).chain(&detail.others).map(of_one).collect();
    let mut all = of_all(&pairs);
    for (number, metrics) in (1..).zip(&pairs).skip(1).take(MOST_PAIRS - 1) {
        all.extend(metrics.iter().map(|metric| Metric {
            id: format!("pair{number}_{}", metric.id),
            title: format!("pair {number}: {}", metric.title),
            headline: false,
            ..metric.clone()
        }));
    }
    all
}

/// Throughput added up, and the longest of the pairs' round trips; a pair without a figure is a reason against one.
fn of_all(pairs: &[Vec<Metric>]) -> Vec<Metric> {
    let Some(first) = pairs.first() else { return Vec::new() };
    let compared = first.iter().filter_map(|metric| {
        let is_rate = metric.unit == Unit::BytesPerSecond && metric.id.ends_with(RATE);
        let is_trip = metric.better == Better::Lower && metric.id.contains(TRIPS);
        let same = pairs.iter().map(|pair| pair.iter().find(|other| other.id == metric.id)?.figure.value());
        let values: Option<Vec<f64>> = same.collect();
        let of = |take: fn(&[f64]) -> f64| match &values {
            Some(values) => Figure::Value(take(values)),
            None => Figure::Unsupported("not every pair has this figure".to_owned()),
        };
        let (id, words, figure) = match (is_rate, is_trip) {
            (true, _) => ("all_pairs", "all pairs together", of(|values| values.iter().sum())),
            (_, true) => {
                ("slowest_pair", "the slowest pair", of(|values| values.iter().copied().fold(0.0, f64::max)))
            }
            _ => return None,
        };
        Some(Metric {
            id: format!("{id}_{}", metric.id),
            title: format!("{words}: {}", metric.title),
            headline: false,
            figure,
            ..metric.clone()
        })
    });
    compared.collect()
}
