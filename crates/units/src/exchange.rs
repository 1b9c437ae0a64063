//! One exchange with the host's clock, and what several of them say. Pure: both who asks over the link and who asks by
//! datagrams read the clocks and hand the readings in.
//!
//! ```text
//!  instance   ├─ asked: monotonic, realtime, raw, monotonic ─┤      ├─ answered: monotonic, raw, realtime, monotonic ─┤
//!  host                                          received ├─ sent
//! ```
//! Each pair of `monotonic` readings encloses the others, so that whatever comes between two readings (a preemption
//! between `monotonic` and `realtime`, say) makes the exchange longer and thereby its error bar wider.

use super::outside::ClockReading;
use super::quantity::Nanos;

/// The clocks of an instance, read in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Moment {
    /// `CLOCK_MONOTONIC` before the others.
    pub before_ns: u64,
    /// `CLOCK_MONOTONIC_RAW`.
    pub raw_ns: u64,
    /// `CLOCK_REALTIME`.
    pub realtime_ns: u64,
    /// `CLOCK_MONOTONIC` after the others.
    pub after_ns: u64,
}

/// A question and its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchange {
    /// Right before the question was written.
    pub asked: Moment,
    /// Host's `CLOCK_MONOTONIC` when the question had arrived.
    pub received_ns: u64,
    /// Host's `CLOCK_MONOTONIC` when the answer was about to leave.
    pub sent_ns: u64,
    /// Right after the answer was read.
    pub answered: Moment,
}

impl Exchange {
    /// From the first reading to the last, without the time the host needed. A clock that is so wrong that nothing
    /// would be left counts the whole time.
    pub fn round_trip(&self) -> u64 {
        let whole = self.answered.after_ns.saturating_sub(self.asked.before_ns);
        let at_host = self.sent_ns.saturating_sub(self.received_ns);
        whole.checked_sub(at_host).filter(|left| *left > 0).unwrap_or(whole)
    }

    fn reading(&self, exchanges: u32) -> ClockReading {
        let nanos = Nanos::from_nanos;
        ClockReading {
            host_ns: nanos(middle(self.received_ns, self.sent_ns)),
            monotonic_ns: nanos(middle(self.asked.before_ns, self.answered.after_ns)),
            raw_ns: nanos(middle(self.asked.raw_ns, self.answered.raw_ns)),
            realtime_ns: nanos(middle(self.asked.realtime_ns, self.answered.realtime_ns)),
            round_trip_ns: nanos(self.round_trip()),
            exchanges,
        }
    }
}

const fn middle(a: u64, b: u64) -> u64 {
    a.midpoint(b)
}

/// The quickest exchange decides: what made the others slower made them uncertain. None without an exchange.
pub fn quickest(exchanges: &[Exchange]) -> Option<ClockReading> {
    let count = u32::try_from(exchanges.len()).unwrap_or(u32::MAX);
    exchanges.iter().min_by_key(|exchange| exchange.round_trip()).map(|best| best.reading(count))
}

impl ClockReading {
    /// The instance's `CLOCK_MONOTONIC` at a moment of the host's, as far as this reading knows: a clock that runs at
    /// another rate is off by that much of the time between. Before the clock's zero is its zero.
    pub fn local_at(&self, host: Nanos) -> Nanos {
        let ahead = i128::from(host.get()) - i128::from(self.host_ns.get());
        let local = i128::from(self.monotonic_ns.get()) + ahead;
        Nanos::from_nanos(u64::try_from(local.max(0)).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(at: u64, realtime_ahead: u64) -> Moment {
        Moment { before_ns: at, raw_ns: at + 11, realtime_ns: at + 12 + realtime_ahead, after_ns: at + 20 }
    }

    /// The instance's clock is `behind` the host's; the way there takes `there`, the way back `back`.
    fn exchange(at: u64, there: u64, back: u64, behind: u64) -> Exchange {
        let received = at + 20 + there;
        let sent = received + 500;
        Exchange {
            asked: moment(at, 7_000_000),
            received_ns: received + behind,
            sent_ns: sent + behind,
            answered: moment(sent + back, 7_000_000),
        }
    }

    #[test]
    fn the_offset_is_found_within_half_the_round_trip_however_lopsided_the_ways_are() {
        for (there, back) in [(100, 100), (1000, 10), (10, 1000), (0, 5000)] {
            let reading = quickest(&[exchange(1_000_000, there, back, 123_456)]).unwrap();
            let error = (reading.host_ns.get() - reading.monotonic_ns.get()).abs_diff(123_456);
            assert!(error <= reading.round_trip_ns.get() / 2, "{there} {back}: {error}");
            assert_eq!(reading.round_trip_ns.get(), there + back + 40);
        }
    }

    #[test]
    fn the_quickest_counts_and_all_are_counted() {
        let all = [exchange(0, 900, 900, 5), exchange(10_000, 50, 60, 5), exchange(20_000, 70, 70, 5)];
        let reading = quickest(&all).unwrap();
        assert_eq!((reading.round_trip_ns.get(), reading.exchanges), (150, 3));
        let offset = reading.realtime_ns.get() - reading.monotonic_ns.get();
        assert!(offset.abs_diff(7_000_000) <= 150, "{offset}");
        assert_eq!(quickest(&[]), None);
    }

    #[test]
    fn a_clock_that_stands_still_does_not_make_the_error_bar_vanish() {
        let stuck = Exchange { answered: moment(100, 0), ..exchange(100, 10, 10, 0) };
        assert_eq!(stuck.round_trip(), 20, "the host says it needed 500, the instance saw 20 in all");
    }

    #[test]
    fn moments_of_the_host_become_local_ones_and_back_before_zero_is_zero() {
        let reading = quickest(&[exchange(1_000_000, 100, 100, 50_000)]).unwrap();
        let later = Nanos::from_nanos(reading.host_ns.get() + 1_000);
        assert_eq!(reading.local_at(later).get(), reading.monotonic_ns.get() + 1_000);
        assert_eq!(reading.local_at(Nanos::ZERO).get(), 0);
    }
}
