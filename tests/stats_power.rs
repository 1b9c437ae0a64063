//! Is a difference that is said to be detectable found as often as it is said? Simulated pairs with fixed seeds.

use bulkhead::stats::pairs::{compare, family_confidence, scatter};
use bulkhead::stats::power::{POWER, Scatter};
use bulkhead::units::metric::{Better, Difference};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const TRIALS: u64 = if cfg!(debug_assertions) { 500 } else { 4_000 };
/// Scatter of the logarithm of a pair's ratio.
const SPREAD: f64 = 0.05;

/// Pairs of a thing and one that is slower by so much.
fn pairs(seed: u64, count: usize, slower_percent: f64) -> Vec<(f64, f64)> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut normal = || {
        let radius = (-2.0 * (1.0 - rng.random::<f64>()).ln()).sqrt();
        radius * (std::f64::consts::TAU * rng.random::<f64>()).cos()
    };
    (0..count).map(|_| ((1.0 + slower_percent / 100.0) * (SPREAD * normal()).exp(), 1.0)).collect()
}

/// What earlier runs with so many pairs have learnt of their spread.
fn known_spread(count: usize) -> f64 {
    let spreads = (0..400).filter_map(|seed| Some(scatter(&pairs(seed, count, 0.0))?.spread.powi(2)));
    (spreads.sum::<f64>() / 400.0).sqrt()
}

#[test]
fn of_differences_that_are_foreseen_to_be_detectable_nine_in_ten_are_found() {
    println!(
        "| pairs | comparisons | detectable | found | of 0.6 times as large |\n| --- | --- | --- | --- | --- |"
    );
    for comparisons in [1, 40] {
        let confidence = family_confidence(0.95, comparisons);
        for count in [5, 8, 11, 12, 13, 16, 24, 31, 40, 100] {
            let percent =
                Scatter::foreseen(known_spread(count), count).detectable_percent(confidence).unwrap();
            let found = |percent: f64| {
                let is_found = |seed: &u64| {
                    let found = compare(&pairs(*seed, count, percent), Better::Lower, confidence);
                    found.difference == Difference::Worse
                };
                (0..TRIALS).filter(is_found).count() as f64 / TRIALS as f64
            };
            let (share, of_less) = (found(percent), found(percent * 0.6));
            println!(
                "| {count} | {comparisons} | {percent:.1} % | {:.1} % | {:.1} % |",
                share * 100.0,
                of_less * 100.0
            );
            assert!((0.83..=0.985).contains(&share), "{count} pairs: {share}, said are {POWER}");
            assert!(
                of_less < 0.8,
                "{count} pairs: what is not said to be detectable is seldom found: {of_less}"
            );
        }
    }
}

#[test]
fn what_a_run_says_it_could_have_seen_is_what_was_foreseen() {
    for count in [8, 24, 60] {
        let mut said: Vec<f64> = (0..TRIALS / 10)
            .filter_map(|seed| scatter(&pairs(seed, count, 0.0))?.detectable_percent(0.999))
            .collect();
        said.sort_by(f64::total_cmp);
        let foreseen = Scatter::foreseen(SPREAD, count).detectable_percent(0.999).unwrap();
        let ratio = said[said.len() / 2] / foreseen;
        assert!((0.85..1.15).contains(&ratio), "{count} pairs: {ratio}");
    }
    assert_eq!(scatter(&[(1.0, 1.0), (2.0, 1.0)]), None, "two pairs have no scatter");
    assert_eq!(scatter(&[(1.0, 0.0), (2.0, 1.0), (1.0, 1.0)]), None, "nor has what has no ratio");
}
