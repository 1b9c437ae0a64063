//! Mutated datagrams for both ends of the UDP clock: refused or understood, never a panic, and what is understood is
//! exactly what was sent. The seed is printed; `BULKHEAD_MUTATION_SEED` repeats a run, `BULKHEAD_MUTATIONS` sets the
//! number of inputs.

use bulkhead::units::Nanos;
use bulkhead::units::clock_wire::{ClockAnswer, ClockQuestion, LENGTH};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const DEFAULT_INPUTS: u64 = 1_000_000;

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

#[test]
fn datagrams_of_the_clock() {
    let seed = from_environment("BULKHEAD_MUTATION_SEED").unwrap_or(0x0B01_C10C_D000);
    let inputs = from_environment("BULKHEAD_MUTATIONS").unwrap_or(DEFAULT_INPUTS);
    println!("clock: {inputs} inputs, BULKHEAD_MUTATION_SEED={seed}");
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let (mut questions, mut answers, mut refused) = (0_u64, 0_u64, 0_u64);
    for _ in 0..inputs {
        let question = ClockQuestion { nonce: random.random(), number: random.random() };
        let received: u64 = random.random_range(0..u64::MAX / 2);
        let sent = received + random.random_range(0..1_000_000);
        let answer = ClockAnswer::to(&question, Nanos::from_nanos(received), Nanos::from_nanos(sent));
        let mut bytes = if random.random() { question.encode().to_vec() } else { answer.encode().to_vec() };
        for _ in 0..random.random_range(0..4) {
            let at = random.random_range(0..=bytes.len());
            match random.random_range(0..4) {
                0 if at < bytes.len() => bytes[at] ^= 1 << random.random_range(0..8),
                1 => bytes.insert(at, random.random()),
                2 => bytes.truncate(at),
                _ => bytes.extend_from_slice(&question.encode()[..at.min(LENGTH)]),
            }
        }
        match (ClockQuestion::decode(&bytes), ClockAnswer::decode(&bytes)) {
            (Some(_), Some(_)) => panic!("both a question and an answer: {bytes:?}"),
            (Some(question), None) => {
                questions += 1;
                assert_eq!(question.encode()[..], bytes, "every byte counts");
            }
            (None, Some(answer)) => {
                answers += 1;
                assert!(answer.sent_ns >= answer.received_ns);
                assert_eq!(answer.encode()[..], bytes, "every byte counts");
            }
            (None, None) => refused += 1,
        }
    }
    assert!(questions > 0 && answers > 0 && refused > 0, "{questions} {answers} {refused}");
}
