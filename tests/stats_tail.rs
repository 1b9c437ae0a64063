//! How often does the interval of a quantile far out hold the truth, when values come in rounds? With fixed seeds; prints the table.

use bulkhead::stats::tail::pooled_quantile;
use bulkhead::units::histogram::{DenseHistogram, Histogram, bucket_of, lower_edge, upper_edge};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const TRIALS: u64 = if cfg!(debug_assertions) { 40 } else { 600 };

/// How many values a round has.
const ROUND: usize = 1000;

type Shape = fn(&mut Xoshiro256PlusPlus, &mut [f64]);

fn exponential(rng: &mut Xoshiro256PlusPlus) -> f64 {
    -(1.0 - rng.random::<f64>()).ln()
}

fn normal(rng: &mut Xoshiro256PlusPlus) -> f64 {
    (2.0 * exponential(rng)).sqrt() * (std::f64::consts::TAU * rng.random::<f64>()).cos()
}

const SHAPES: [(&str, Shape); 4] = [
    ("independent, exponential", |rng, round| round.fill_with(|| 1e4 * exponential(rng))),
    ("Pareto 1.5", |rng, round| round.fill_with(|| 1e4 * (exponential(rng) / 1.5).exp())),
    ("rounds of different scale", |rng, round| {
        let scale = 1e4 * (0.5 * normal(rng)).exp();
        round.fill_with(|| scale * exponential(rng));
    }),
    // On average half a stall in a round, each of which delays ten.
    ("stalls that delay ten", |rng, round| {
        round.fill_with(|| 1e4 * exponential(rng));
        for at in (0..ROUND - 10).step_by(10) {
            if rng.random::<f64>() < 0.005 {
                let longest = 1e6 * exponential(rng);
                for (value, left) in round[at..at + 10].iter_mut().zip((1..=10).rev()) {
                    *value += longest * f64::from(left) / 10.0;
                }
            }
        }
    }),
];

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "simulated times are positive")]
fn round(rng: &mut Xoshiro256PlusPlus, shape: Shape) -> Histogram {
    let mut values = vec![0.0; ROUND];
    shape(rng, &mut values);
    let mut dense = DenseHistogram::new();
    for value in values {
        dense.record(value as u64);
    }
    dense.to_histogram()
}

/// The bucket in which the quantile of ever so many values lies.
fn truth(shape: Shape, q: f64) -> (f64, f64) {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(u64::MAX);
    let rounds: Vec<Histogram> = (0..4000).map(|_| round(&mut rng, shape)).collect();
    let all = Histogram::merge_all(&rounds);
    let value = bulkhead::stats::summary::histogram_quantile(&all, q).expect("values");
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive")]
    let bucket = bucket_of(value as u64);
    (lower_edge(bucket) as f64, upper_edge(bucket) as f64)
}

#[test]
fn quantiles_of_rounds_are_where_their_intervals_say() {
    println!("| data | quantile | rounds | wrong | no interval |\n| --- | --- | --- | --- | --- |");
    for (name, shape) in SHAPES {
        for (q, rounds) in [(0.99, 5), (0.99, 20), (0.999, 8), (0.999, 40)] {
            let (low, high) = truth(shape, q);
            let (mut covered, mut answered) = (0u64, 0u64);
            for seed in 0..TRIALS {
                let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
                let rounds: Vec<Histogram> = (0..rounds).map(|_| round(&mut rng, shape)).collect();
                if let Some(found) = pooled_quantile(&rounds, q, 0.95).estimate() {
                    answered += 1;
                    covered += u64::from(found.low <= high && found.high >= low);
                }
            }
            let share = |number: u64| 100.0 * number as f64 / TRIALS as f64;
            let wrong = share(answered - covered);
            println!("| {name} | {q} | {rounds} | {wrong:.1} % | {:.1} % |", share(TRIALS - answered));
            // 5 % and what a simulation of so many can be off.
            let allowed = 5.0 + 200.0 * (0.05 * 0.95 / TRIALS as f64).sqrt();
            assert!(wrong <= allowed, "{name}, {q}, {rounds} rounds: {wrong} %");
            assert!(
                answered > TRIALS / 3 || name.contains("scale") || rounds < 10,
                "{name}, {q}: {answered}"
            );
        }
    }
}
