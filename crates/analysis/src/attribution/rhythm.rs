//! Gaps that come back in a rhythm: the timer's beat, and the pauses of the real-time throttle.

use std::f64::consts::TAU;
use std::fmt;

use probes::detail::Stretch;
use units::Nanos;

/// Rates at which Linux ticks (`CONFIG_HZ`).
const TICK_RATES: [u32; 4] = [100, 250, 300, 1000];
/// So many gaps must be seen before a rhythm is believed.
const ENOUGH: usize = 8;
/// A gap is on the beat when it begins at most this share of a period beside it.
const OFF_BEAT: f64 = 0.1;
/// By chance a fifth of the gaps lie on a beat; this share does not.
const ON_BEAT_SHARE: f64 = 0.6;
/// A beat has at least so many places at which something that begins at even distances can begin.
const LEAST_PLACES: f64 = 4.0;
/// How far a pause may differ in length from what the throttle makes.
const LENGTH_ERROR: f64 = 0.1;
/// How far two pauses may differ from a multiple of the period, as a share of it.
const PERIOD_ERROR: f64 = 0.05;

/// A beat on which most of the longest gaps lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Beat {
    hz: u32,
    on: usize,
    all: usize,
}

impl Beat {
    /// So many ticks there are in this time.
    pub(super) fn ticks_in(&self, observed: Nanos) -> u64 {
        units::metric::saturate(f64::from(self.hz) * observed.as_secs_f64())
    }
}

impl fmt::Display for Beat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let period = Nanos::from_nanos(1_000_000_000 / u64::from(self.hz.max(1)));
        write!(f, "{} of {} such gaps lie on a beat of {period} ({} Hz)", self.on, self.all, self.hz)
    }
}

/// The slowest usual tick on whose beat most of the gaps begin. A faster one would fit as well: its beat contains the
/// slower one's.
pub(super) fn beat(worst: &[Stretch]) -> Option<Beat> {
    let all = worst.len();
    if all < ENOUGH {
        return None;
    }
    TICK_RATES.into_iter().find_map(|hz| {
        let on = on_beat(worst, 1e9 / f64::from(hz));
        (on as f64 >= ON_BEAT_SHARE * all as f64).then_some(Beat { hz, on, all })
    })
}

/// The stretches on the slowest usual tick's beat, where most of them begin on it. They begin at multiples of `period_ns`
/// only, so of the ticks only those count whose beat most of such beginnings miss.
pub(super) fn beat_among(worst: &[Stretch], period_ns: f64) -> Option<(u32, Vec<Stretch>)> {
    if worst.len() < 2 * ENOUGH {
        return None;
    }
    let coarse = TICK_RATES.into_iter().filter(|hz| 1e9 / f64::from(*hz) >= LEAST_PLACES * period_ns);
    coarse
        .map(|hz| (hz, near_mean_phase(worst, 1e9 / f64::from(hz))))
        .find(|(_, on)| on.len() as f64 >= ON_BEAT_SHARE * worst.len() as f64)
}

/// How many gaps begin near the mean phase of all.
fn on_beat(worst: &[Stretch], period: f64) -> usize {
    near_mean_phase(worst, period).len()
}

fn near_mean_phase(worst: &[Stretch], period: f64) -> Vec<Stretch> {
    let phase = |stretch: &Stretch| TAU * (stretch.start_ns.as_f64() / period).fract();
    let (sine, cosine) = worst.iter().fold((0.0, 0.0), |(sine, cosine), stretch| {
        (sine + phase(stretch).sin(), cosine + phase(stretch).cos())
    });
    let mean = f64::atan2(sine, cosine);
    let away = |stretch: &&Stretch| {
        let turn = ((phase(stretch) - mean) / TAU).rem_euclid(1.0);
        turn.min(1.0 - turn) <= OFF_BEAT
    };
    worst.iter().filter(away).copied().collect()
}

/// Gaps about as long as `pause` that have another such gap a multiple of `period` away.
pub(super) fn recurring(worst: &[Stretch], pause: f64, period: f64) -> Vec<Stretch> {
    if !(pause > 0.0 && period > pause) {
        return Vec::new();
    }
    let fits = |stretch: &&Stretch| (stretch.length_ns.as_f64() / pause - 1.0).abs() <= LENGTH_ERROR;
    let fitting: Vec<Stretch> = worst.iter().filter(fits).copied().collect();
    let apart = |a: &Stretch, b: &Stretch| {
        let periods = (a.start_ns.as_f64() - b.start_ns.as_f64()).abs() / period;
        periods.round() >= 1.0 && (periods - periods.round()).abs() <= PERIOD_ERROR
    };
    fitting.iter().filter(|a| fitting.iter().any(|b| apart(a, b))).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stretch(start: u64, length: u64) -> Stretch {
        Stretch { start_ns: Nanos::from_nanos(start), length_ns: Nanos::from_nanos(length) }
    }

    #[test]
    fn the_slowest_tick_that_fits_is_named() {
        for (hz, period) in [(100, 10_000_000), (250, 4_000_000), (1000, 1_000_000)] {
            // Late starts of some microseconds, and every fourth gap at a time of its own.
            let gaps: Vec<Stretch> = (0..64)
                .map(|n: u64| {
                    let own = if n % 4 == 3 { n * 377_123 % period } else { n * 1733 % 20_000 };
                    stretch(1_234_567 + n * 7 % 61 * period + own, 3000)
                })
                .collect();
            let found = beat(&gaps).expect("a beat");
            assert_eq!(found.hz, hz);
            assert!(found.on >= 48, "{found}");
        }
    }

    #[test]
    fn due_times_at_even_distances_are_no_beat_of_themselves() {
        let every = |n: u64| (0..64).map(|at: u64| stretch(at * n * 1_000_000, 3000)).collect::<Vec<_>>();
        assert_eq!(beat_among(&every(1), 1e6), None, "every due time of 1 ms");
        assert_eq!(beat_among(&every(4), 4e6), None, "every due time of 4 ms");
        let (hz, on) = beat_among(&every(4), 1e6).expect("one in four was late, always the same");
        assert_eq!((hz, on.len()), (250, 64));
        assert_eq!(beat_among(&every(4)[..15], 1e6), None, "too few");
    }

    #[test]
    fn gaps_at_any_time_have_no_beat() {
        let gaps: Vec<Stretch> =
            (0..64).map(|n: u64| stretch(n * n * 104_729 % 1_000_000_007, 3000)).collect();
        assert_eq!(beat(&gaps), None);
        assert_eq!(beat(&gaps[..ENOUGH - 1]), None);
    }

    #[test]
    fn throttling_is_a_pause_that_comes_back() {
        let (pause, period) = (50e6, 1e9);
        let throttled = [stretch(950_000_000, 50_100_000), stretch(2_950_000_000, 49_900_000)];
        let others = [stretch(300_000_000, 50_000_000), stretch(950_000_000, 9_000)];
        let all: Vec<Stretch> = throttled.iter().chain(&others).copied().collect();
        assert_eq!(recurring(&all, pause, period), throttled);
        assert_eq!(recurring(&all[..1], pause, period), [], "one pause alone may be anything");
        assert_eq!(recurring(&all, 0.0, period), []);
    }
}
