//! What two readings of the host's clock say about an instance's clocks.
//!
//! ```text
//!  host      ├── before ─────────────────────────────── after ──┤    outside = host's time, ± half of both round trips
//!  instance  ├── before ── began ──── probe ──── ended ─ after ──┤    drift = (inside − outside) / outside
//! ```
//! Each reading is known to ± half its round trip, whatever the two ways took (Mills, RFC 5905 section 8), so the error
//! bars of one measurement are bounds and no estimates. Over many measurements the drift is the slope of a weighted
//! regression through the origin, of what the clock gained against how long it ran.

use model::clocks::{ClockLevel, Ppm};
use stats::distributions::student_two_sided;
use units::Nanos;
use units::metric::saturate;
use units::outside::{ClockReading, OutsideTime};

/// A span says nothing about a rate when its error is more than this share of it.
const LONG_ENOUGH: f64 = 0.05;
/// What rounding may add to a step.
const ROUNDING_NS: u64 = 1000;
/// Crystals differ by this much.
const AGREES_PPM: f64 = 100.0;
/// Linux lets time daemons slew a clock this much.
const DRIFTS_PPM: f64 = 500.0;
/// Confidence of rates.
const CONFIDENCE: f64 = 0.95;

/// What a clock gained on another one while that one ran for a while.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gain {
    /// How long the other clock ran, nanoseconds.
    pub span_ns: f64,
    /// By how much more this one ran, nanoseconds; negative when it ran less.
    pub gained_ns: f64,
    /// Bound of the error of that, nanoseconds.
    pub error_ns: f64,
}

impl Gain {
    /// The gain as a rate with its bounds; none when the span is too short to say.
    pub fn ppm(&self) -> Option<Ppm> {
        let usable = self.span_ns > 0.0 && self.error_ns / self.span_ns <= LONG_ENOUGH;
        usable.then(|| {
            let at = |gained: f64| gained / self.span_ns * 1e6;
            Ppm {
                value: at(self.gained_ns),
                low: at(self.gained_ns - self.error_ns),
                high: at(self.gained_ns + self.error_ns),
            }
        })
    }
}

/// A measurement as its clocks tell it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClockCheck {
    /// Length of the probe on the instance's `CLOCK_MONOTONIC`, nanoseconds.
    pub inside_ns: f64,
    /// The same on the host's clock.
    pub outside_ns: f64,
    /// Bound of the error of that.
    pub error_ns: f64,
    /// The instance's `CLOCK_MONOTONIC` against the host's.
    pub against_host: Gain,
    /// The instance's `CLOCK_MONOTONIC` against its `CLOCK_MONOTONIC_RAW`.
    pub against_raw: Gain,
    /// Step of `CLOCK_REALTIME` against `CLOCK_MONOTONIC`; none when there is none beyond its error.
    pub step: Option<Step>,
}

impl ClockCheck {
    /// What the clocks of a measurement say; none when the host's clock did not run between the two readings: then
    /// somebody lies, and nothing can be said.
    pub fn of(time: &OutsideTime) -> Option<Self> {
        let ran = |of: fn(&ClockReading) -> Nanos| between(of(&time.before), of(&time.after));
        let (host, inside) = (ran(|r| r.host_ns), ran(|r| r.monotonic_ns));
        if host <= 0.0 {
            return None;
        }
        let error_ns = error_of(&time.before, &time.after);
        let rate = if inside > 0.0 { host / inside } else { 1.0 };
        let probe = between(time.began_ns, time.ended_ns);
        let raw = ran(|r| r.raw_ns);
        Some(Self {
            inside_ns: probe,
            outside_ns: probe * rate,
            error_ns,
            against_host: Gain { span_ns: host, gained_ns: inside - host, error_ns },
            against_raw: Gain { span_ns: raw, gained_ns: inside - raw, error_ns },
            step: set_between(&time.before, &time.after),
        })
    }
}

/// A step of a clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// How far, nanoseconds; above 0 when it was set forward.
    pub step_ns: i64,
    /// Bound of the error of that.
    pub error_ns: u64,
}

/// How far the instance's `CLOCK_REALTIME` was set between two readings, told by its own `CLOCK_MONOTONIC`: a time
/// daemon that slews moves both alike, and a pause stops both or none. None when there is no step beyond the error.
pub fn set_between(from: &ClockReading, to: &ClockReading) -> Option<Step> {
    let step = between(from.realtime_ns, to.realtime_ns) - between(from.monotonic_ns, to.monotonic_ns);
    let error = error_of(from, to);
    let found = step.abs() > error + ROUNDING_NS as f64;
    found.then(|| Step { step_ns: to_signed(step), error_ns: saturate(error) })
}

/// How far the instance's `CLOCK_MONOTONIC` jumped against the host's between two readings, beyond what its drift and its
/// pauses explain. None when there is no such jump, or when the host's clock did not run.
///
/// `paused` is how long the instance had no CPU meanwhile, at least and at most, nanoseconds. Its clock may stand still
/// then (a guest's whose hypervisor stops its counter) or run on (a process's): whichever explains more is taken. Between
/// measurements nobody watched, so a time daemon may have slewed the clock by what Linux allows it.
pub fn jump_between(from: &ClockReading, to: &ClockReading, paused: (f64, f64), drift: &Ppm) -> Option<Step> {
    let (host, inside) = (between(from.host_ns, to.host_ns), between(from.monotonic_ns, to.monotonic_ns));
    if host <= 0.0 {
        return None;
    }
    let error = error_of(from, to) + ROUNDING_NS as f64;
    let off = |at_least: f64, at_most: f64| {
        let low = at_least.max(0.0) * (1.0 + (drift.low - DRIFTS_PPM) / 1e6) - error;
        let high = at_most.max(0.0) * (1.0 + (drift.high + DRIFTS_PPM) / 1e6) + error;
        (inside - f64::midpoint(low, high), (high - low) / 2.0)
    };
    let beyond = |(step, error): &(f64, f64)| step.abs() - error;
    let (running, standing) = (off(host, host), off(host - paused.1, host - paused.0));
    let (step, error) = if beyond(&running) <= beyond(&standing) { running } else { standing };
    (step.abs() > error).then(|| Step { step_ns: to_signed(step), error_ns: saturate(error) })
}

/// Half of both round trips.
fn error_of(from: &ClockReading, to: &ClockReading) -> f64 {
    f64::midpoint(from.round_trip_ns.as_f64(), to.round_trip_ns.as_f64())
}

/// From one moment to the other. Taken as integers: nanoseconds since 1970 as a float are off by hundreds.
fn between(from: Nanos, to: Nanos) -> f64 {
    (i128::from(to.get()) - i128::from(from.get())) as f64
}

#[expect(clippy::cast_possible_truncation, reason = "float to int casts saturate")]
fn to_signed(value: f64) -> i64 {
    value.round() as i64
}

/// No clock runs so many times as fast as another one, or as slowly: it has jumped.
const MOST_RATE: f64 = 2.0;

/// When the probe began on the host's clock, with the bound of the error; between the two readings, because the
/// instance's clock may run at another rate. Where it jumped instead, nobody knows when, and the error is the jump.
pub fn began_on_host(time: &OutsideTime) -> Option<(f64, f64)> {
    let mut error = time.before.round_trip_ns.as_f64().max(time.after.round_trip_ns.as_f64()) / 2.0;
    let inside = between(time.before.monotonic_ns, time.after.monotonic_ns);
    let host = between(time.before.host_ns, time.after.host_ns);
    if inside > MOST_RATE * host || host > MOST_RATE * inside {
        error += (inside - host).abs();
    }
    Some((time.before.host_ns.as_f64() + since_before(time, time.began_ns)?, error))
}

/// A moment of the instance's `CLOCK_MONOTONIC` on the host's; none when a clock went backwards, or before the host's
/// clock began.
pub fn on_host(time: &OutsideTime, moment: Nanos) -> Option<Nanos> {
    let host = time.before.host_ns.get().checked_add_signed(to_signed(since_before(time, moment)?))?;
    Some(Nanos::from_nanos(host))
}

/// From the first reading to a moment of the instance's `CLOCK_MONOTONIC`, at the rate of the host's.
fn since_before(time: &OutsideTime, moment: Nanos) -> Option<f64> {
    let (before, after) = (&time.before, &time.after);
    let inside = between(before.monotonic_ns, after.monotonic_ns);
    let host = between(before.host_ns, after.host_ns);
    if host < 0.0 || inside < 0.0 {
        return None;
    }
    let rate = if inside > 0.0 { host / inside } else { 1.0 };
    Some(between(before.monotonic_ns, moment) * rate)
}

/// Slope of the regression through the origin of what was gained over how long it ran, each point weighted by its error.
/// Its interval is never narrower than what the errors of the points allow. None when all together are too short.
pub fn drift(gains: &[Gain]) -> Option<Ppm> {
    let usable: Vec<&Gain> = gains.iter().filter(|gain| gain.ppm().is_some()).collect();
    if let [only] = usable.as_slice() {
        return only.ppm();
    }
    let weight = |gain: &Gain| 1.0 / gain.error_ns.max(1.0).powi(2);
    let squares: f64 = usable.iter().map(|gain| weight(gain) * gain.span_ns.powi(2)).sum();
    if squares <= 0.0 {
        return None;
    }
    let slope = usable.iter().map(|gain| weight(gain) * gain.span_ns * gain.gained_ns).sum::<f64>() / squares;
    let freedom = usable.len() as f64 - 1.0;
    let residuals: f64 =
        usable.iter().map(|gain| weight(gain) * (gain.gained_ns - slope * gain.span_ns).powi(2)).sum();
    // Errors anywhere within ± e, all equally likely, have a standard deviation of e / √3.
    let variance = (residuals / freedom).max(1.0 / 3.0) / squares;
    let half = student_two_sided(CONFIDENCE, freedom) * variance.sqrt();
    Some(Ppm { value: slope * 1e6, low: (slope - half) * 1e6, high: (slope + half) * 1e6 })
}

/// Whether a clock of this drift and so many steps can be believed. Only what the interval excludes counts.
pub fn level(drift: Option<&Ppm>, steps: u32) -> ClockLevel {
    if steps > 0 {
        return ClockLevel::Lies;
    }
    let Some(drift) = drift else { return ClockLevel::Unknown };
    let surely = if drift.low > 0.0 { drift.low } else { (-drift.high).max(0.0) };
    if surely > DRIFTS_PPM {
        ClockLevel::Lies
    } else if surely > AGREES_PPM {
        ClockLevel::Drifts
    } else if drift.high.max(-drift.low) > DRIFTS_PPM {
        ClockLevel::Unknown
    } else {
        ClockLevel::Agrees
    }
}

/// From the first start to the last one, with the error of the two that decide it.
pub fn skew(began: &[(f64, f64)]) -> Option<(Nanos, Nanos)> {
    let first = began.iter().min_by(|a, b| a.0.total_cmp(&b.0))?;
    let last = began.iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
    let nanos = |value: f64| Nanos::from_nanos(saturate(value));
    Some((nanos(last.0 - first.0), nanos(first.1 + last.1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::outside::ClockTransport;

    const SECOND: u64 = 1_000_000_000;

    /// A measurement of `host_s` seconds on the host's clock, in an instance whose clocks run as said.
    fn time(host_s: f64, drift_ppm: f64, step_ns: i64, round_trip_ns: u64) -> OutsideTime {
        let round_trip_ns = Nanos::from_nanos(round_trip_ns);
        let reading = |host: f64, stepped: i64| {
            let inside = host * (1.0 + drift_ppm / 1e6);
            let nanos = |seconds: f64| Nanos::from_nanos(saturate(seconds * 1e9));
            let realtime = 1_700_000_000 * SECOND + saturate(inside * 1e9);
            ClockReading {
                host_ns: nanos(100.0 + host),
                monotonic_ns: nanos(5.0 + inside),
                raw_ns: nanos(6.0 + inside),
                realtime_ns: Nanos::from_nanos(realtime.saturating_add_signed(stepped)),
                round_trip_ns,
                exchanges: 8,
            }
        };
        let (before, after) = (reading(0.0, 0), reading(host_s, step_ns));
        let at = |share: f64| {
            let whole = after.monotonic_ns.as_f64() - before.monotonic_ns.as_f64();
            Nanos::from_nanos(before.monotonic_ns.get() + saturate(whole * share))
        };
        let (began_ns, ended_ns) = (at(0.25), at(0.75));
        OutsideTime { transport: ClockTransport::Link, before, after, began_ns, ended_ns }
    }

    #[test]
    fn a_clock_that_runs_a_tenth_too_fast_is_found_out() {
        let check = ClockCheck::of(&time(2.0, 100_000.0, 0, 20_000)).unwrap();
        let drift = check.against_host.ppm().unwrap();
        assert!((drift.value - 100_000.0).abs() < 1.0, "{drift:?}");
        assert!((drift.high - drift.low - 20.0).abs() < 0.01, "2 × 20 µs in 2 s: {drift:?}");
        assert!((check.inside_ns - 1.1e9).abs() < 10.0, "{check:?}");
        assert!((check.outside_ns - 1e9).abs() < 10.0, "{check:?}");
        assert_eq!(check.step, None);
        assert!(check.against_raw.ppm().unwrap().value.abs() < 1.0, "both were made wrong alike");
        assert_eq!(level(Some(&drift), 0), ClockLevel::Lies);
    }

    #[test]
    fn steps_beyond_the_error_are_found_in_both_directions_and_others_are_not() {
        for (step, found) in
            [(3_000_000_000, true), (-3_000_000_000, true), (60_000, true), (-15_000, false), (0, false)]
        {
            let check = ClockCheck::of(&time(1.0, 0.0, step, 20_000)).unwrap();
            let error = check.step.map_or(0, |got| got.step_ns.abs_diff(step));
            assert_eq!((check.step.is_some(), error), (found, 0), "{step}");
        }
    }

    /// A reading when the host's clock and the instance's show this, microseconds; its time of day is `ahead` of that.
    fn reading(host_us: u64, inside_us: u64, ahead_us: u64) -> ClockReading {
        let nanos = |us: u64| Nanos::from_nanos(us * 1000);
        ClockReading {
            host_ns: nanos(host_us),
            monotonic_ns: nanos(inside_us),
            raw_ns: nanos(inside_us),
            realtime_ns: nanos(1_700_000_000_000_000 + inside_us + ahead_us),
            round_trip_ns: nanos(20),
            exchanges: 8,
        }
    }

    #[test]
    fn a_time_of_day_set_between_two_readings_is_found_whatever_the_pause_was() {
        let before = reading(10_000_000, 4_000_000, 5_000_000);
        for (inside_us, ahead_us, found) in [
            (4_000_300, 5_000_000, None),
            (9_000_000, 5_000_015, None),
            (4_000_300, 6_500_000, Some(1_500_000_000)),
            (9_000_000, 4_999_000, Some(-1_000_000)),
        ] {
            let step = set_between(&before, &reading(15_000_000, inside_us, ahead_us));
            assert_eq!(step.map(|step| step.step_ns), found, "{inside_us} {ahead_us}");
            assert!(step.is_none_or(|step| step.error_ns == 20_000), "{step:?}");
        }
    }

    #[test]
    fn a_clock_may_stand_still_or_run_on_during_a_pause_and_anything_else_is_a_jump() {
        let before = reading(10_000_000, 4_000_000, 0);
        let fast = Ppm { value: 100.0, low: 90.0, high: 110.0 };
        // Ten seconds of the host's, of which nine and a half to nine and six tenths were a pause.
        let jump =
            |inside_us: u64| jump_between(&before, &reading(20_000_000, inside_us, 0), (9.5e9, 9.6e9), &fast);
        assert_eq!(jump(4_450_000), None, "it stood still");
        assert_eq!(jump(14_001_000), None, "it ran on, and was as fast as always");
        assert_eq!(jump(14_005_000), None, "a time daemon may have done that");
        let forward = jump(14_050_000).expect("it ran faster than any time daemon would make it");
        assert!(forward.step_ns.abs_diff(49_000_000) < 100_000, "{forward:?}");
        assert!((5_000_000..6_000_000).contains(&forward.error_ns), "{forward:?}");
        let back = jump(4_100_000).expect("it stood for longer than the pause");
        assert!(back.step_ns < 0 && back.error_ns >= 50_000_000, "{back:?}");
        assert!(jump(9_000_000).is_some(), "neither one nor the other");
        assert_eq!(jump_between(&before, &reading(10_000_000, 9_000_000, 0), (0.0, 0.0), &fast), None);
    }

    #[test]
    fn a_span_too_short_says_nothing_about_the_rate() {
        let check = ClockCheck::of(&time(0.0001, 0.0, 0, 20_000)).unwrap();
        assert_eq!(check.against_host.ppm(), None);
        assert_eq!(drift(&[check.against_host]), None);
        assert_eq!(drift(&[]), None);
        assert_eq!(level(None, 0), ClockLevel::Unknown);
    }

    #[test]
    fn a_host_clock_that_stands_still_or_runs_back_says_nothing() {
        let mut still = time(1.0, 0.0, 0, 1000);
        still.after.host_ns = still.before.host_ns;
        assert_eq!(ClockCheck::of(&still), None);
        still.after.host_ns = Nanos::ZERO;
        assert_eq!((ClockCheck::of(&still), began_on_host(&still)), (None, None));
        let mut stuck = time(1.0, 0.0, 0, 1000);
        stuck.after.monotonic_ns = stuck.before.monotonic_ns;
        let check = ClockCheck::of(&stuck).unwrap();
        assert!((check.against_host.ppm().unwrap().value + 1e6).abs() < 1.0, "{check:?}");
    }

    #[test]
    fn many_measurements_narrow_the_drift_and_scatter_widens_it() {
        let gain = |jitter: f64| {
            let mut gain = ClockCheck::of(&time(1.0, 40.0, 0, 20_000)).unwrap().against_host;
            gain.gained_ns += jitter;
            gain
        };
        let quiet: Vec<Gain> = (0..16).map(|i| gain(f64::from(i % 3 - 1) * 5_000.0)).collect();
        let one = drift(&quiet[..1]).unwrap();
        let all = drift(&quiet).unwrap();
        assert!(all.low < 40.0 && 40.0 < all.high, "{all:?}");
        assert!(all.high - all.low < (one.high - one.low) / 2.0, "{all:?} {one:?}");
        let wild: Vec<Gain> = (0..16).map(|i| gain(f64::from(i % 3 - 1) * 500_000.0)).collect();
        let scattered = drift(&wild).unwrap();
        assert!(scattered.high - scattered.low > 10.0 * (all.high - all.low), "{scattered:?}");
        // Points that happen to lie on a line do not make the drift more certain than their errors allow.
        let line = drift(&[gain(0.0); 4]).unwrap();
        assert!(line.high - line.low > 10.0, "{line:?}");
    }

    #[test]
    fn levels_need_intervals_that_say_so() {
        let ppm = |low, high| Some(Ppm { value: f64::midpoint(low, high), low, high });
        for (drift, wanted) in [
            (ppm(-20.0, 30.0), ClockLevel::Agrees),
            (ppm(120.0, 180.0), ClockLevel::Drifts),
            (ppm(-900.0, -600.0), ClockLevel::Lies),
            (ppm(-4000.0, 5000.0), ClockLevel::Unknown),
        ] {
            assert_eq!(level(drift.as_ref(), 0), wanted, "{drift:?}");
        }
        assert_eq!(level(ppm(-1.0, 1.0).as_ref(), 1), ClockLevel::Lies);
    }

    #[test]
    fn starts_are_put_on_the_hosts_clock_and_their_skew_has_the_error_of_the_two_that_decide_it() {
        // A guest's clock that jumped by 2.5 s beside a machine that stood still, as it was seen once.
        let jumped = began_on_host(&time(0.65, 3_900_000.0, 0, 20_000)).unwrap();
        assert!((jumped.1 - 2.535e9).abs() < 1e6, "{jumped:?}");
        let (at, error) = began_on_host(&time(1.0, 100_000.0, 0, 20_000)).unwrap();
        assert!((at - 100.25e9).abs() < 10.0, "{at}");
        assert!((error - 10_000.0).abs() < 1e-6);
        let began = [(5.0e9, 10.0), (5.0e9 + 700.0, 1.0), (5.0e9 - 300.0, 20.0)];
        assert_eq!(skew(&began), Some((Nanos::from_nanos(1000), Nanos::from_nanos(21))));
        assert_eq!(skew(&[]), None);
    }
}
