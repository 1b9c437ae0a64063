//! Puts what an instance saw on its host's clock, so that both can be looked at side by side.
//!
//! ```text
//!  instance   before.monotonic ───── began ── gap ──────── after.monotonic
//!  host       before.host ─────────────┼───────┼───────────── after.host       straight line between the readings
//! ```
//! Between two readings a clock is taken to run evenly (Mills, RFC 5905); the error bar is half the longer round trip.

use model::sides::BothSides;
use units::Nanos;
use units::accounts::HostSlice;
use units::outside::OutsideTime;

/// Both sides on one axis: nanoseconds of the host's clock since the probe began.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Timeline {
    /// Gaps of the instance, from and to.
    pub gaps: Vec<(f64, f64)>,
    /// What the host saw, in order.
    pub slices: Vec<Slice>,
    /// How far off a gap may stand.
    pub error_ns: f64,
    /// When the probe ended.
    pub end_ns: f64,
}

/// A slice of the host's account.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slice {
    /// Begin of the slice; before 0 when it began before the probe.
    pub from_ns: f64,
    /// End of the slice.
    pub to_ns: f64,
    /// CPUs its threads had, on average.
    pub running_cpus: f64,
    /// Threads that were runnable and waited for a CPU, on average.
    pub waiting: f64,
}

/// The time line of a round; none when its clocks say nothing that fits together.
pub fn timeline(sides: &BothSides) -> Option<Timeline> {
    let clock = HostClock::of(&sides.outside)?;
    let began = clock.host(sides.outside.began_ns.as_f64());
    let end_ns = clock.host(sides.outside.ended_ns.as_f64()) - began;
    if end_ns <= 0.0 {
        return None;
    }
    let gaps = sides.gaps.iter().map(|gap| {
        let from = sides.outside.began_ns.as_f64() + gap.start_ns.as_f64();
        (clock.host(from) - began, clock.host(from + gap.length_ns.as_f64()) - began)
    });
    Some(Timeline {
        gaps: gaps.collect(),
        slices: slices(&sides.host.slices, began)
            .filter(|slice| slice.to_ns > 0.0 && slice.from_ns < end_ns)
            .collect(),
        error_ns: clock.error_ns,
        end_ns,
    })
}

/// A straight line from the instance's clock to the host's.
struct HostClock {
    instance: f64,
    host: f64,
    rate: f64,
    error_ns: f64,
}

impl HostClock {
    fn of(outside: &OutsideTime) -> Option<Self> {
        let (before, after) = (&outside.before, &outside.after);
        let inside = after.monotonic_ns.as_f64() - before.monotonic_ns.as_f64();
        let host = after.host_ns.as_f64() - before.host_ns.as_f64();
        // A clock that stands still, or runs a thousand times too fast, puts nothing in its place.
        let rate = host / inside;
        (inside > 0.0 && (1e-3..1e3).contains(&rate)).then(|| Self {
            instance: before.monotonic_ns.as_f64(),
            host: before.host_ns.as_f64(),
            rate,
            error_ns: before.round_trip_ns.max(after.round_trip_ns).as_f64() / 2.0,
        })
    }

    fn host(&self, instance_ns: f64) -> f64 {
        self.host + (instance_ns - self.instance) * self.rate
    }
}

fn slices(all: &[HostSlice], began: f64) -> impl Iterator<Item = Slice> {
    // The first slice's begin is not known; it is taken to be as long as the second.
    let first = match all {
        [one, two, ..] => one.at_ns.saturating_sub(two.at_ns.saturating_sub(one.at_ns)),
        [one] => one.at_ns.saturating_sub(one.run_ns.saturating_add(one.wait_ns)),
        [] => Nanos::ZERO,
    };
    let begins = std::iter::once(first).chain(all.iter().map(|slice| slice.at_ns));
    begins.zip(all).filter_map(move |(from, slice)| {
        let length = slice.at_ns.as_f64() - from.as_f64();
        (length > 0.0).then(|| Slice {
            from_ns: from.as_f64() - began,
            to_ns: slice.at_ns.as_f64() - began,
            running_cpus: slice.run_ns.as_f64() / length,
            waiting: slice.wait_ns.as_f64() / length,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use probes::detail::Stretch;
    use units::accounts::HostAccount;
    use units::outside::{ClockReading, ClockTransport};

    fn ns(nanos: u64) -> Nanos {
        Nanos::from_nanos(nanos)
    }

    fn reading(host: u64, instance: u64) -> ClockReading {
        ClockReading {
            host_ns: ns(host),
            monotonic_ns: ns(instance),
            raw_ns: ns(instance),
            realtime_ns: ns(instance),
            round_trip_ns: ns(40),
            exchanges: 3,
        }
    }

    /// An instance whose clock began later and runs at half the speed.
    fn sides() -> BothSides {
        let slice = |at: u64, run: u64, wait: u64| HostSlice {
            at_ns: ns(at),
            run_ns: ns(run),
            wait_ns: ns(wait),
            faults: 0,
        };
        BothSides {
            round: 2,
            gaps: vec![Stretch { start_ns: ns(100), length_ns: ns(50) }],
            outside: OutsideTime {
                transport: ClockTransport::Link,
                before: reading(10_000, 1_000),
                after: reading(12_000, 2_000),
                began_ns: ns(1_100),
                ended_ns: ns(1_900),
            },
            host: HostAccount {
                slices: vec![slice(10_200, 100, 0), slice(10_400, 100, 100), slice(10_600, 300, 50)],
                ..HostAccount::default()
            },
        }
    }

    #[test]
    fn a_gap_stands_where_the_host_saw_the_time_pass() {
        let line = timeline(&sides()).unwrap();
        assert_eq!(line.gaps, [(200.0, 300.0)]);
        assert_eq!((line.end_ns, line.error_ns), (1600.0, 20.0));
        let ends: Vec<(f64, f64)> = line.slices.iter().map(|slice| (slice.from_ns, slice.to_ns)).collect();
        assert_eq!(ends, [(0.0, 200.0), (200.0, 400.0)], "the first slice ended before the probe began");
        assert_eq!((line.slices[0].running_cpus, line.slices[0].waiting), (0.5, 0.5));
        assert_eq!((line.slices[1].running_cpus, line.slices[1].waiting), (1.5, 0.25));
    }

    #[test]
    fn clocks_that_do_not_fit_together_give_no_picture() {
        let mut standing = sides();
        standing.outside.after.monotonic_ns = standing.outside.before.monotonic_ns;
        assert_eq!(timeline(&standing), None);
        let mut backwards = sides();
        backwards.outside.ended_ns = ns(1_000);
        assert_eq!(timeline(&backwards), None);
        let mut forged = sides();
        forged.host.slices.iter_mut().for_each(|slice| slice.at_ns = ns(u64::MAX));
        forged.gaps = vec![Stretch { start_ns: ns(u64::MAX), length_ns: ns(u64::MAX) }];
        assert!(timeline(&forged).is_some_and(|line| line.slices.is_empty()));
    }
}
