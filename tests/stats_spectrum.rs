//! The spectrum of made-up noise: a periodic source of 1 % of the time is named from 10 Hz to 2 kHz, within 2 % in frequency
//! and 20 % in share, also beside noise without a beat; and noise without a beat is not called periodic.
//!
//! Frequencies lie between the bins of the transform, and include those that divide the rate of the quanta, where pulses
//! always hit the same part of a quantum.

use bulkhead::campaign::shipped::get;
use bulkhead::probes::params::ProbeSpec;
use bulkhead::stats::spectrum::{NoSpectrum, Noise, Source, analyse};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// The probe's defaults: 2 s in quanta of 100 µs.
const QUANTUM_S: f64 = 1e-4;
const DEFAULT: Setting = Setting { quantum_s: QUANTUM_S, quanta: 20_000 };

/// How the probe measures.
#[derive(Debug, Clone, Copy)]
struct Setting {
    quantum_s: f64,
    quanta: u32,
}

/// Rounds in an undisturbed quantum.
const BEST: f64 = 2000.0;

/// Noise without a beat.
#[derive(Debug, Clone, Copy)]
enum Background {
    /// Speed varies from quantum to quantum by up to 2 %.
    White,
    /// Interruptions at random times, so many per second, of exponential length.
    Poisson { per_s: f64, length_s: f64 },
    /// Speed wanders.
    Red,
}

/// Interruptions as an interrupt, a daemon, and another guest's time slice make them.
const BACKGROUNDS: [Background; 5] = [
    Background::White,
    Background::Poisson { per_s: 300.0, length_s: 2e-5 },
    Background::Poisson { per_s: 10.0, length_s: 1e-3 },
    Background::Poisson { per_s: 2.0, length_s: 5e-3 },
    Background::Red,
];

#[derive(Debug, Clone, Copy)]
struct Pulses {
    frequency_hz: f64,
    share: f64,
}

/// Share of each quantum that is lost.
struct Lost {
    quantum_s: f64,
    shares: Vec<f64>,
}

impl Lost {
    fn none(setting: Setting) -> Self {
        Self { quantum_s: setting.quantum_s, shares: vec![0.0; setting.quanta as usize] }
    }

    fn stretch(&mut self, from_s: f64, length_s: f64) {
        let (mut at, end) = (from_s / self.quantum_s, (from_s + length_s) / self.quantum_s);
        while at < end {
            let next = (at.floor() + 1.0).min(end);
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small index")]
            let Some(quantum) = self.shares.get_mut(at as usize) else { return };
            *quantum = (*quantum + next - at).min(1.0);
            at = next;
        }
    }
}

fn exponential(random: &mut Xoshiro256PlusPlus) -> f64 {
    -random.random::<f64>().max(1e-300).ln()
}

fn measured(seed: u64, sources: &[Pulses], background: Background) -> Vec<u32> {
    measured_as(DEFAULT, seed, sources, background)
}

fn measured_as(setting: Setting, seed: u64, sources: &[Pulses], background: Background) -> Vec<u32> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let Setting { quantum_s, quanta } = setting;
    let mut lost = Lost::none(setting);
    let all_s = quantum_s * f64::from(quanta);
    for source in sources {
        let period = 1.0 / source.frequency_hz;
        let mut at = random.random::<f64>() * period;
        while at < all_s {
            lost.stretch(at, source.share * period);
            at += period;
        }
    }
    if let Background::Poisson { per_s, length_s } = background {
        let mut at = exponential(&mut random) / per_s;
        while at < all_s {
            lost.stretch(at, exponential(&mut random) * length_s);
            at += exponential(&mut random) / per_s;
        }
    }
    let mut wandering = 0.0;
    let jitter = if matches!(background, Background::White) { 0.02 } else { 0.002 };
    let mut count = |lost: f64| {
        let step = if matches!(background, Background::Red) { 0.01 } else { 0.0 };
        wandering = wandering * 0.999 + step * (random.random::<f64>() - 0.5);
        let pace = (1.0 - wandering.abs()) * (1.0 + jitter * (random.random::<f64>() - 0.5));
        let rounds = BEST * (1.0 - lost) * pace + random.random::<f64>();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most some thousands")]
        let whole = rounds.max(0.0) as u32;
        whole
    };
    lost.shares.iter().map(|lost| count(*lost)).collect()
}

fn noise(work: &[u32]) -> Noise {
    analyse(work, QUANTUM_S).expect("enough quanta with work")
}

fn named<'a>(noise: &'a Noise, source: &Pulses) -> Option<&'a Source> {
    noise.sources.iter().find(|named| (named.frequency_hz / source.frequency_hz - 1.0).abs() <= 0.02)
}

#[test]
fn a_source_of_one_percent_is_named_wherever_it_is() {
    let fixed = [10.0, 50.0, 97.0, 100.0, 250.0, 300.0, 1000.0, 1538.46, 2000.0];
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let drawn = (0..21).map(|_| 10.0 * 200_f64.powf(random.random::<f64>()));
    for (seed, frequency_hz) in (0..).zip(fixed.into_iter().chain(drawn)) {
        let source = Pulses { frequency_hz, share: 0.01 };
        for background in BACKGROUNDS {
            let noise = noise(&measured(seed, &[source], background));
            let Some(found) = named(&noise, &source) else {
                panic!("{frequency_hz} Hz in {background:?} is not among {:?}", noise.sources)
            };
            let share = found.share / source.share;
            assert!(
                (0.8..=1.2).contains(&share),
                "{frequency_hz} Hz in {background:?}: {share} of the share"
            );
            assert_eq!(noise.sources.len(), 1, "{frequency_hz} Hz in {background:?}: {:?}", noise.sources);
        }
    }
}

/// What is promised of the probe must hold where it is one of many and measures for a short time.
#[test]
fn the_full_experiment_measures_long_enough_for_ten_hertz_and_finely_enough_for_two_kilohertz() {
    let full = get("full").expect("it is shipped");
    let ftq = full.probes.specs().into_iter().find_map(|spec| match spec {
        ProbeSpec::Ftq(params) => Some(params),
        _ => None,
    });
    let ftq = ftq.expect("it measures everything");
    let quanta = ftq.duration_ms.get() * 1000 / ftq.quantum_us.get();
    let setting = Setting {
        quantum_s: ftq.quantum_us.as_f64() * 1e-6,
        quanta: u32::try_from(quanta).expect("a small number"),
    };
    for (seed, frequency_hz) in (0..).zip([10.0, 11.3, 14.7, 50.0, 97.0, 250.0, 1000.0, 2000.0]) {
        let source = Pulses { frequency_hz, share: 0.01 };
        for background in
            [Background::White, Background::Poisson { per_s: 300.0, length_s: 2e-5 }, Background::Red]
        {
            let work = measured_as(setting, seed, &[source], background);
            let noise = analyse(&work, setting.quantum_s).expect("enough quanta with work");
            let found = named(&noise, &source);
            assert!(
                found.is_some_and(|found| (0.8..=1.2).contains(&(found.share / source.share))),
                "{frequency_hz} Hz in {background:?} is not among {:?}",
                noise.sources
            );
        }
    }
}

#[test]
fn noise_without_a_beat_is_not_called_periodic() {
    for background in BACKGROUNDS {
        let wrong: Vec<u64> =
            (0..40).filter(|seed| !noise(&measured(*seed, &[], background)).sources.is_empty()).collect();
        assert!(wrong.is_empty(), "{background:?}: seeds {wrong:?}");
    }
}

#[test]
fn several_sources_are_told_apart() {
    let sets = [
        [Pulses { frequency_hz: 100.0, share: 0.01 }, Pulses { frequency_hz: 250.0, share: 0.02 }],
        [Pulses { frequency_hz: 97.3, share: 0.01 }, Pulses { frequency_hz: 1000.0, share: 0.005 }],
        [Pulses { frequency_hz: 10.0, share: 0.05 }, Pulses { frequency_hz: 333.3, share: 0.01 }],
    ];
    for (seed, set) in (0..).zip(sets) {
        let noise = noise(&measured(seed, &set, Background::White));
        assert_eq!(noise.sources.len(), 2, "{set:?}: {:?}", noise.sources);
        for source in set {
            let share = named(&noise, &source).map(|named| named.share / source.share);
            assert!(
                share.is_some_and(|share| (0.8..=1.2).contains(&share)),
                "{source:?}: {:?}",
                noise.sources
            );
        }
        assert!(noise.sources[0].share >= noise.sources[1].share, "the strongest comes first");
    }
}

#[test]
fn a_few_long_stalls_are_no_beat_however_regular_they_look() {
    // Three stalls at equal distances: some comb fits them exactly, but most of the time nothing happened.
    let mut lost = Lost::none(DEFAULT);
    for at in [0.4, 0.9, 1.4] {
        lost.stretch(at, 0.004);
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most some thousands")]
    let work: Vec<u32> = lost.shares.iter().map(|lost| (BEST * (1.0 - lost)) as u32).collect();
    assert_eq!(noise(&work).sources, []);
}

#[test]
fn what_cannot_be_analysed_says_why() {
    assert!(analyse(&[5; 63], QUANTUM_S).unwrap_err().to_string().contains("at least 64"));
    assert_eq!(analyse(&[0; 64], QUANTUM_S).unwrap_err(), NoSpectrum::NoWork);
    assert_eq!(analyse(&[5; 64], 0.0).unwrap_err(), NoSpectrum::NoLength);
    assert_eq!(analyse(&[5; 64], QUANTUM_S).unwrap().sources, []);
}

#[test]
fn the_root_of_the_power_is_the_share_of_a_regular_source() {
    let source = Pulses { frequency_hz: 250.0, share: 0.01 };
    let noise = noise(&measured(3, &[source], Background::White));
    let highest = noise.lines.power.iter().copied().fold(0.0, f64::max).sqrt();
    assert!((0.008..0.012).contains(&highest), "{highest}");
}
