//! Outlines of distributions on a logarithmic axis: columns of equal width, one outline per stretch of filled columns.

use std::collections::BTreeMap;

/// Columns per power of ten.
const PER_DECADE: f64 = 16.0;
/// Where an outline begins and ends; below one, so that a single value stands out.
const FLOOR: f64 = 0.5;

/// The outlines of values with their counts. Values that are not above zero have no place and are left out.
pub fn outlines(values: impl IntoIterator<Item = (f64, u64)>) -> Vec<Vec<(f64, f64)>> {
    let mut columns: BTreeMap<i64, u64> = BTreeMap::new();
    for (value, count) in values {
        if value.is_finite() && value > 0.0 && count > 0 {
            let slot = columns.entry(column(value)).or_default();
            *slot = slot.saturating_add(count);
        }
    }
    let columns: Vec<(i64, u64)> = columns.into_iter().collect();
    columns.chunk_by(|a, b| a.0 + 1 == b.0).map(outline).collect()
}

/// From the floor over every column and down again.
fn outline(stretch: &[(i64, u64)]) -> Vec<(f64, f64)> {
    let edge = |column: i64| 10f64.powf(column as f64 / PER_DECADE);
    let start = stretch.first().map(|(column, _)| (edge(*column), FLOOR));
    let end = stretch.last().map(|(column, _)| (edge(column + 1), FLOOR));
    let tops = stretch
        .iter()
        .flat_map(|(column, count)| [(edge(*column), *count as f64), (edge(column + 1), *count as f64)]);
    start.into_iter().chain(tops).chain(end).collect()
}

#[expect(clippy::cast_possible_truncation, reason = "the logarithm of a finite number is small")]
fn column(value: f64) -> i64 {
    (value.log10() * PER_DECADE).floor() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_share_an_outline_and_gaps_part_them() {
        let found = outlines([(100.0, 2), (101.0, 3), (120.0, 1), (5000.0, 7), (f64::NAN, 9), (0.0, 9)]);
        assert_eq!(found.len(), 2);
        let heights: Vec<f64> = found[0].iter().map(|point| point.1).collect();
        assert_eq!(
            heights.iter().map(|height| format!("{height}")).collect::<Vec<_>>(),
            ["0.5", "5", "5", "1", "1", "0.5"]
        );
        assert!(found[0].first().is_some_and(|point| point.0 <= 100.0) && found[1].len() == 4);
        assert_eq!(outlines([]), Vec::<Vec<(f64, f64)>>::new());
    }
}
