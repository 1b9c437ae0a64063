//! The statistics against brute force on raw values, and against the worked example they come from.

#![expect(clippy::float_cmp, reason = "the figures are exact where equality is asked for")]
#![expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "ranks are small and positive")]

use bulkhead::stats::bound::bound_interval;
use bulkhead::stats::influence::{bound, bound_from_decades, curve, decades, decades_from_counts, influence};
use bulkhead::stats::interval::{median_interval, quantile_interval};
use bulkhead::stats::plateaus::plateaus;
use bulkhead::stats::summary::{histogram_max, histogram_quantile, spread};
use bulkhead::stats::threads::fit_threads;
use bulkhead::units::Ticks;
use bulkhead::units::histogram::{Histogram, RELATIVE_ERROR};
use bulkhead::units::metric::Answer;
use proptest::prelude::*;

/// Share of the time in values longer than `than`, from the values themselves.
fn raw_influence(values: &[u64], than: u64) -> f64 {
    let longer: u128 = values.iter().filter(|value| **value > than).map(|value| u128::from(*value)).sum();
    let all: u128 = values.iter().map(|value| u128::from(*value)).sum();
    longer as f64 / all as f64
}

/// The smallest value beyond which at most 1 − p of the time lies.
fn raw_bound(values: &[u64], p: f64) -> u64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    *sorted.iter().find(|value| raw_influence(values, **value) <= 1.0 - p).expect("the largest qualifies")
}

fn wide() -> impl Strategy<Value = Vec<u64>> {
    // Evenly over the exponents, so that tails are heavy.
    prop::collection::vec(
        (0u32..45, any::<u64>()).prop_map(|(bits, value)| (value >> 19 >> (44 - bits)) + 1),
        1..200,
    )
}

proptest! {
    #[test]
    fn bound_and_influence_of_small_values_are_exact(
        values in prop::collection::vec(1u64..128, 1..200), p in 0.0f64..1.0, than in 0u64..130,
    ) {
        let histogram = Histogram::from_values(values.clone());
        prop_assert_eq!(influence(&histogram, Ticks::from_ticks(than)), raw_influence(&values, than));
        prop_assert_eq!(bound(&histogram, p).map(Ticks::get), Some(raw_bound(&values, p)));
    }

    #[test]
    fn bound_of_any_values_is_too_large_by_less_than_the_stated_error(values in wide(), p in 0.0f64..1.0) {
        let histogram = Histogram::from_values(values.clone());
        let (got, want) = (bound(&histogram, p).expect("not empty").get(), raw_bound(&values, p));
        prop_assert!(want <= got && (got - want) as f64 <= RELATIVE_ERROR * want as f64, "{} {}", got, want);
        for point in curve(&histogram) {
            prop_assert_eq!(point.influence, raw_influence(&values, point.longer_than_ticks.get()));
        }
    }

    #[test]
    fn quantiles_of_a_histogram_are_those_of_the_sorted_values(values in wide(), q in 0.001f64..1.0) {
        let histogram = Histogram::from_values(values.clone());
        let mut sorted = values;
        sorted.sort_unstable();
        let rank = (q * sorted.len() as f64).ceil() as usize;
        let (got, want) = (histogram_quantile(&histogram, q).expect("not empty"), sorted[rank - 1] as f64);
        prop_assert!((got - want).abs() <= RELATIVE_ERROR * want, "{} {}", got, want);
        let (most, largest) = (histogram_max(&histogram).expect("not empty"), sorted[sorted.len() - 1]);
        prop_assert!(most >= largest && (most - largest) as f64 <= RELATIVE_ERROR * largest as f64);
    }

    #[test]
    fn merged_batches_are_the_whole(values in wide(), cut in 1usize..50, p in 0.0f64..1.0) {
        let whole = Histogram::from_values(values.clone());
        let batches: Vec<Histogram> = values.chunks(cut).map(|c| Histogram::from_values(c.to_vec())).collect();
        let merged = Histogram::merge_all(&batches);
        prop_assert_eq!(curve(&merged), curve(&whole));
        prop_assert_eq!(bound(&merged, p), bound(&whole, p));
    }

    #[test]
    fn decades_count_what_lies_between_powers_of_ten(
        digits in prop::collection::vec((2u64..10, 0u32..18), 1..100),
    ) {
        let values: Vec<u64> = digits.iter().map(|(digit, power)| digit * 10u64.pow(*power)).collect();
        let table = decades(&Histogram::from_values(values.clone()));
        let total: f64 = digits.iter().map(|(_, power)| 10f64.powi(i32::try_from(*power).unwrap())).sum();
        for decade in &table {
            let range = decade.from_ticks.get()..decade.to_ticks.get();
            let count = values.iter().filter(|value| range.contains(value)).count() as u64;
            prop_assert_eq!(decade.count, count);
            let want = count as f64 * decade.importance as f64 / total;
            prop_assert!((decade.influence - want).abs() < 1e-9);
        }
        prop_assert_eq!(table.iter().map(|decade| decade.count).sum::<u64>(), values.len() as u64);
    }

    #[test]
    fn an_interval_holds_its_estimate_and_scales_with_the_data(
        samples in prop::collection::vec(0.1f64..1e6, 0..400), q in 0.01f64..0.99, scale in 0.1f64..10.0,
    ) {
        let scaled: Vec<f64> = samples.iter().map(|sample| sample * scale).collect();
        for (one, other) in [
            (median_interval(&samples, 0.95, 1), median_interval(&scaled, 0.95, 1)),
            (quantile_interval(&samples, q, 0.95, 1), quantile_interval(&scaled, q, 0.95, 1)),
        ] {
            prop_assert_eq!(one.estimate().is_some(), other.estimate().is_some());
            if let (Some(one), Some(other)) = (one.estimate(), other.estimate()) {
                prop_assert!(one.low <= one.value && one.value <= one.high);
                prop_assert!((one.low * scale / other.low - 1.0).abs() < 1e-9);
                prop_assert!((one.high * scale / other.high - 1.0).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn an_interval_of_a_bound_holds_the_bound(batches in prop::collection::vec(wide(), 0..20), p in 0.5f64..1.0) {
        let batches: Vec<Histogram> = batches.into_iter().map(Histogram::from_values).collect();
        if let Answer::Estimate(estimate) = bound_interval(&batches, p, 0.95, 1) {
            let value = bound(&Histogram::merge_all(&batches), p).expect("not empty");
            prop_assert_eq!(estimate.value, value.as_f64());
            prop_assert!(estimate.low <= estimate.value && estimate.value <= estimate.high);
        }
    }

    #[test]
    fn three_noisy_levels_are_three_plateaus(
        noise in prop::collection::vec(-1.0f64..1.0, 40), first in 3usize..6, second in 3usize..6, third in 3usize..8,
        step in 1.6f64..8.0, steps_per_octave in 1usize..4, rising: bool,
    ) {
        let counts = [first, second, third].map(|count| count * steps_per_octave);
        let size = |index: usize| 4096.0 * 2f64.powf(index as f64 / steps_per_octave as f64);
        let level = |index: usize| if index < counts[0] { 0 } else if index < counts[0] + counts[1] { 1 } else { 2 };
        let height = |index: usize| {
            let power = if rising { level(index) } else { 2 - level(index) };
            2.0 * step.powi(power) * (1.0 + 0.03 * noise[index % 40])
        };
        let points: Vec<(f64, f64)> = (0..counts.iter().sum()).map(|index| (size(index), height(index))).collect();
        let found = plateaus(&points);
        prop_assert_eq!(found.len(), 3, "{:?}", found);
        prop_assert_eq!(found[0].to_bytes, size(counts[0] - 1));
        prop_assert_eq!(found[1].from_bytes, size(counts[0]));
        prop_assert_eq!(found[2].from_bytes, size(counts[0] + counts[1]));
    }

    #[test]
    fn a_knee_below_the_cpus_is_found(
        units in 1.0f64..12.0, flat in 1e3f64..1e9, noise in prop::collection::vec(-1.0f64..1.0, 32),
    ) {
        // Beyond its units a host shares them evenly: the time grows by flat / units per thread.
        let time = |threads: u32| flat * (1.0 + (f64::from(threads) - units).max(0.0) / units);
        let points: Vec<(u32, f64)> =
            (1..=32u32).map(|t| (t, time(t) * (1.0 + 0.01 * noise[t as usize - 1]))).collect();
        let fit = fit_threads(&points).expect("enough points");
        prop_assert!((fit.units - units).abs() < 0.05 * units + 0.25, "{:?}", fit);
        prop_assert!((fit.slope_ns_per_thread / (flat / units) - 1.0).abs() < 0.05, "{:?}", fit);
        prop_assert!(fit.relative_misfit < 0.012, "{:?}", fit);
    }
}

#[test]
fn the_worked_example_of_the_thesis_comes_out() {
    // 1e9 + 1 gaps; the counts between the first and the last range are lost, any that add up serve.
    let counts = [0, 999_992_427, 7_000, 300, 34, 240];
    assert_eq!(counts.iter().sum::<u64>(), 1_000_000_001);
    let table = decades_from_counts(&counts);
    let last = table.last().expect("six ranges");
    assert_eq!((last.from_ticks.get(), last.to_ticks.get(), last.importance), (100_000, 1_000_000, 100_000));
    assert_eq!(format!("{:.2} %", last.influence * 100.0), "0.24 %");
    let bound = bound_from_decades(&table, 0.95).expect("not empty");
    assert_eq!(bound.get(), 100);
    assert_eq!(format!("{:.1} ns", bound.as_f64() * 1e9 / 2.266e9), "44.1 ns");
}

#[test]
fn eight_of_sixteen_units_and_the_two_extremes_of_the_thread_fit() {
    let eight: Vec<(u32, f64)> = (1..=32).map(|t| (t, 1e8 * f64::from(t.max(8)) / 8.0)).collect();
    let fit = fit_threads(&eight).expect("enough points");
    assert!((fit.units - 8.0).abs() < 1e-9 && (fit.slope_ns_per_thread - 1.25e7).abs() < 1.0, "{fit:?}");
    let never_flat: Vec<(u32, f64)> = (1..=8).map(|t| (t, 1e8 * f64::from(t))).collect();
    let fit = fit_threads(&never_flat).expect("enough points");
    assert!((fit.units - 1.0).abs() < 1e-9 && (fit.slope_ns_per_thread - 1e8).abs() < 1.0, "{fit:?}");
    let all_flat: Vec<(u32, f64)> = (1..=8).map(|t| (t, 1e8 + f64::from(t % 3) * 1e6)).collect();
    let fit = fit_threads(&all_flat).expect("enough points");
    assert!((fit.units - 8.0).abs() < 1e-9 && fit.slope_ns_per_thread == 0.0, "{fit:?}");
    assert_eq!(fit_threads(&[(1, 1e8)]), None);
}

#[test]
fn a_ramp_between_two_caches_is_no_plateau() {
    let levels =
        [1.7, 1.7, 1.7, 1.72, 2.9, 5.0, 5.1, 5.0, 5.0, 8.0, 14.0, 25.0, 45.0, 80.0, 100.0, 101.0, 99.0];
    let points: Vec<(f64, f64)> = levels
        .iter()
        .enumerate()
        .map(|(octave, level)| (4096.0 * 2f64.powf(octave as f64), *level))
        .collect();
    let found: Vec<f64> = plateaus(&points).iter().map(|plateau| plateau.level).collect();
    assert_eq!(found.len(), 3, "{found:?}");
    assert!((found[0] - 1.7).abs() < 0.1 && (found[1] - 5.0).abs() < 0.1 && (found[2] - 100.0).abs() < 1.5);
}

#[test]
fn too_few_samples_say_so() {
    let samples: Vec<f64> = (0..200).map(|k| f64::from(k * 7919 % 200)).collect();
    assert!(quantile_interval(&samples, 0.9, 0.95, 1).estimate().is_some());
    for answer in [
        quantile_interval(&samples, 0.99, 0.95, 1),
        quantile_interval(&samples[..20], 0.9, 0.95, 1),
        median_interval(&samples[..2], 0.95, 1),
        median_interval(&[], 0.95, 1),
        median_interval(&[1.0, f64::NAN, 2.0], 0.95, 1),
        bound_interval(&[], 0.95, 0.95, 1),
        bound_interval(&vec![Histogram::from_values([30; 9]); 7], 0.95, 0.95, 1),
    ] {
        assert!(matches!(&answer, Answer::Unsupported(reason) if !reason.is_empty()), "{answer:?}");
    }
}

#[test]
fn one_gap_that_holds_the_lost_time_gets_no_interval() {
    let mut batches = vec![Histogram::from_values(vec![30; 10_000]); 32];
    let quiet = bound_interval(&batches, 0.95, 0.95, 1);
    assert_eq!(quiet.estimate().map(|estimate| (estimate.low, estimate.high)), Some((30.0, 30.0)));
    batches[7] = batches[7].merged(&Histogram::from_values([2_000_000]));
    let disturbed = bound_interval(&batches, 0.95, 0.95, 1);
    assert!(disturbed.estimate().is_none(), "{disturbed:?}");
}

#[test]
fn a_summary_is_what_it_says() {
    let summary = spread(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).expect("samples");
    assert_eq!((summary.count, summary.min, summary.max, summary.mean), (8, 2.0, 9.0, 5.0));
    assert_eq!((summary.median, summary.median_deviation), (4.5, 0.5));
    assert!((summary.variation.expect("two samples") - (32.0f64 / 7.0).sqrt() / 5.0).abs() < 1e-12);
    assert_eq!(spread(&[0.0, 0.0]).and_then(|summary| summary.variation), None);
    assert_eq!(spread(&[f64::INFINITY]), None);
}
