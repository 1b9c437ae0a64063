//! Fuzzing that runs on stable Rust with every test run: a million mutated inputs into each parser of foreign bytes.
//!
//! The coverage-guided twins live in `fuzz/`. The seed is printed; `BULKHEAD_MUTATION_SEED` repeats a run,
//! `BULKHEAD_MUTATIONS` sets the number of inputs.
#![expect(clippy::print_stdout, reason = "a failed run is repeated by its printed seed")]

use bulkhead::model::experiment::Experiment;
use rand::{Rng, RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const DEFAULT_INPUTS: u64 = 1_000_000;

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// Feeds mutations of `seeds` to `target`, which panics when something is wrong.
fn mutate(name: &str, seeds: &[Vec<u8>], mut target: impl FnMut(&[u8])) {
    let seed = from_environment("BULKHEAD_MUTATION_SEED").unwrap_or(0x0B01_C4EA_D000);
    let inputs = from_environment("BULKHEAD_MUTATIONS").unwrap_or(DEFAULT_INPUTS);
    println!("{name}: {inputs} inputs, BULKHEAD_MUTATION_SEED={seed}");
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    for _ in 0..inputs {
        let mut input = seeds[random.random_range(0..seeds.len())].clone();
        for _ in 0..random.random_range(0..5) {
            change(&mut input, &mut random, seeds);
        }
        target(&input);
    }
}

/// One small change: a bit, a byte, a cut, a repetition, a piece of another seed, a telling number.
fn change(input: &mut Vec<u8>, random: &mut impl Rng, seeds: &[Vec<u8>]) {
    let at = random.random_range(0..=input.len());
    match random.random_range(0..7) {
        0 if at < input.len() => input[at] ^= 1 << random.random_range(0..8),
        1 => input.insert(at, random.random()),
        2 => input.truncate(at),
        3 if at < input.len() => drop(input.drain(at..(at + random.random_range(1..20)).min(input.len()))),
        4 => {
            let piece: Vec<u8> = input[at..(at + 24).min(input.len())].to_vec();
            input.splice(at..at, piece);
        }
        5 => {
            let other = &seeds[random.random_range(0..seeds.len())];
            let from = random.random_range(0..=other.len());
            let piece = other[from..(from + 40).min(other.len())].to_vec();
            input.splice(at..at, piece);
        }
        _ => {
            let telling =
                ["0", "-1", "18446744073709551615", "1e999", "nan", "\"\"", "[", "{", "\u{202e}", "\0"];
            input.splice(at..at, telling[random.random_range(0..telling.len())].bytes());
        }
    }
}

fn shipped_experiments() -> Vec<Vec<u8>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/experiments");
    let files = std::fs::read_dir(folder).expect("experiments are there");
    files.map(|file| std::fs::read(file.expect("readable").path()).expect("readable")).collect()
}

#[test]
fn experiments() {
    let mut accepted = 0u64;
    mutate("experiments", &shipped_experiments(), |input| {
        let text = String::from_utf8_lossy(input);
        if let Ok(experiment) = Experiment::from_toml(&text) {
            accepted += 1;
            // Writing back is slow; one in a hundred is enough for a million inputs.
            if accepted.is_multiple_of(100) {
                let written = experiment.to_toml().expect("what was read can be written");
                assert_eq!(Experiment::from_toml(&written).expect("and read"), experiment);
            }
        }
    });
    assert!(
        accepted > 0,
        "the mutations never leave a valid experiment: the fuzzing sees only the error path"
    );
}
