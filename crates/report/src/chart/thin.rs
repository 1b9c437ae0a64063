//! Thins a series to what a picture can show: per column of pixels the first, the smallest, the largest and the
//! last point. The outline stays the same to the pixel, and no extreme is lost.

/// At most four points per column; the order is kept. `columns` of 0 counts as 1.
pub fn per_column(points: &[(f64, f64)], columns: usize, low: f64, high: f64) -> Vec<(f64, f64)> {
    let columns = columns.max(1);
    if points.len() <= columns * 2 {
        return points.to_vec();
    }
    let scale = columns as f64 / (high - low).max(f64::MIN_POSITIVE);
    let column = |x: f64| units::metric::saturate(((x - low) * scale).floor());
    let mut kept = Vec::with_capacity(columns * 4);
    for run in points.chunk_by(|a, b| column(a.0) == column(b.0)) {
        let by_height = |(_, a): &(usize, &(f64, f64)), (_, b): &(usize, &(f64, f64))| a.1.total_cmp(&b.1);
        let smallest = run.iter().enumerate().min_by(by_height).map(|(index, _)| index);
        let largest = run.iter().enumerate().max_by(by_height).map(|(index, _)| index);
        let mut wanted = [Some(0), smallest, largest, Some(run.len() - 1)].map(Option::unwrap_or_default);
        wanted.sort_unstable();
        let mut before = None;
        for index in wanted {
            if before != Some(index) {
                kept.extend(run.get(index));
            }
            before = Some(index);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn extremes_and_ends_stay_and_the_number_is_bounded(
            heights in prop::collection::vec(-1e6f64..1e6, 1..3000), columns in 1usize..200) {
            let points: Vec<(f64, f64)> =
                heights.iter().enumerate().map(|(index, y)| (index as f64, *y)).collect();
            let last = points.len() as f64 - 1.0;
            let kept = per_column(&points, columns, 0.0, last);
            prop_assert!(kept.len() <= (columns + 1) * 4, "{} of {}", kept.len(), points.len());
            let top = |points: &[(f64, f64)]| points.iter().map(|p| p.1).fold(f64::MIN, f64::max);
            let bottom = |points: &[(f64, f64)]| points.iter().map(|p| p.1).fold(f64::MAX, f64::min);
            prop_assert_eq!(top(&kept).total_cmp(&top(&points)), std::cmp::Ordering::Equal);
            prop_assert_eq!(bottom(&kept).total_cmp(&bottom(&points)), std::cmp::Ordering::Equal);
            prop_assert_eq!((kept.first(), kept.last()), (points.first(), points.last()));
            prop_assert!(kept.windows(2).all(|pair| pair[0].0 < pair[1].0));
        }
    }
}
