//! Due times and what became of them, without a clock: fed with the times at which the thread woke.
//!
//! ```text
//!  due      1    2    3    4    5    6    7
//!           │    │    │    │    │    │    │
//!  runs      ▪    ▪   └──── stall ────▪    ▪       service   1, 2, 3, 7: wake-ups, each from the due time it slept for
//!                                      ▲           response  1 … 7: 4, 5 and 6 waited too, until the same moment
//!                          serves 3 4 5 6          missed    4, 5, 6
//! ```
//!
//! A program that is asked at every due time feels the response; looking at the service alone hides every stall but its
//! first moment (coordinated omission).

use crate::detail::{Stretch, WakeupThread, Witnessed, due_times_passed};
use crate::worst::Worst;
use units::Nanos;
use units::histogram::DenseHistogram;

/// Stalls that are kept until the end, so that counting out a long one does not make the next wake-up late.
const STALLS_KEPT: usize = 4096;

/// A row of due times, `period` apart, and how they were met.
#[derive(Debug)]
pub struct Activations {
    start: u64,
    period: Nanos,
    next: u64,
    due: u64,
    left: u64,
    missed: u64,
    service: DenseHistogram,
    /// Responses of missed activations; those of the others are the service times.
    missed_response: DenseHistogram,
    stalls: Vec<(u64, u64)>,
    worst: Worst,
}

impl Activations {
    /// `due` activations, the first one period after `start` (nanoseconds on any clock). Takes all memory it will need.
    pub fn new(start: u64, period: Nanos, due: u64) -> Self {
        let mut stalls = vec![(1, 1); STALLS_KEPT];
        stalls.clear();
        Self {
            start,
            period,
            next: start.saturating_add(period.get()),
            due,
            left: due,
            missed: 0,
            service: DenseHistogram::new(),
            missed_response: DenseHistogram::new(),
            stalls,
            worst: Worst::new(),
        }
    }

    /// Lays the due times out anew; only before the first wake-up.
    pub fn begin_at(&mut self, start: u64) {
        self.start = start;
        self.next = start.saturating_add(self.period.get());
    }

    /// The next due time; none when all have passed.
    #[inline]
    pub fn next_due(&self) -> Option<u64> {
        (self.left > 0).then_some(self.next)
    }

    /// The thread runs at `now`. Before the due time nothing has happened yet: none. Otherwise from the due time until
    /// now, and whether this is among the latest wake-ups so far.
    #[inline]
    pub fn woke(&mut self, now: u64) -> Option<(Stretch, bool)> {
        let late = now.checked_sub(self.next)?;
        self.service.record(late);
        let due = self.next - self.start;
        let is_among_latest = self.worst.offer(due, late);
        let passed = due_times_passed(Nanos::from_nanos(late), self.period);
        if passed > 0 {
            self.stalled(late, passed.min(self.left - 1));
        }
        self.left -= 1;
        self.next = self.next.saturating_add(self.period.get());
        let stretch = Stretch { start_ns: Nanos::from_nanos(due), length_ns: Nanos::from_nanos(late) };
        Some((stretch, is_among_latest))
    }

    #[cold]
    fn stalled(&mut self, late: u64, passed: u64) {
        self.missed += passed;
        self.left -= passed;
        self.next = self.next.saturating_add(passed.saturating_mul(self.period.get()));
        if self.stalls.len() < STALLS_KEPT {
            self.stalls.push((late, passed));
        } else {
            count_out(&mut self.missed_response, self.period, late, passed);
        }
    }

    /// What became of them; `witnessed` says what is known of the latest ones.
    pub fn finish(
        mut self,
        cpu: Option<u32>,
        witnessed: impl FnOnce(&[Stretch]) -> Vec<Witnessed>,
    ) -> WakeupThread {
        for (late, passed) in std::mem::take(&mut self.stalls) {
            count_out(&mut self.missed_response, self.period, late, passed);
        }
        let service_ns = self.service.to_histogram();
        let stretch = |(start, length)| Stretch {
            start_ns: Nanos::from_nanos(start),
            length_ns: Nanos::from_nanos(length),
        };
        let worst: Vec<Stretch> = self.worst.longest_first().into_iter().map(stretch).collect();
        WakeupThread {
            cpu,
            began_ns: Some(Nanos::from_nanos(self.start)),
            due: self.due - self.left,
            missed: self.missed,
            response_ns: service_ns.merged(&self.missed_response.to_histogram()),
            service_ns,
            witnessed: witnessed(&worst),
            worst,
        }
    }
}

/// The activations after the first one of a stall waited one period less each.
fn count_out(response: &mut DenseHistogram, period: Nanos, late: u64, passed: u64) {
    for number in 1..=passed {
        response.record(late.saturating_sub(number.saturating_mul(period.get())));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use units::histogram::Histogram;

    /// Drives it as the probe does: each sleep ends at the next due time plus the latency, or at once when that is past.
    fn run(start: u64, period: u64, due: u64, latencies: &[u64]) -> (WakeupThread, Vec<u64>) {
        let mut activations = Activations::new(start, Nanos::from_nanos(period), due);
        let mut latencies = latencies.iter().copied().cycle();
        let mut wakes = Vec::new();
        while let Some(next) = activations.next_due() {
            let now = next + latencies.next().expect("endless");
            wakes.push(now);
            activations.woke(now);
        }
        (activations.finish(Some(3), |_| Vec::new()), wakes)
    }

    /// The definitions, one due time after the other.
    fn by_hand(start: u64, period: u64, due: u64, wakes: &[u64]) -> (Vec<u64>, Vec<u64>) {
        let (mut service, mut response) = (Vec::new(), Vec::new());
        let mut served_until = None;
        for number in 1..=due {
            let at = start + number * period;
            let wake = wakes.iter().copied().find(|wake| *wake >= at).expect("all are served");
            response.push(wake - at);
            if served_until != Some(wake) {
                service.push(wake - at);
                served_until = Some(wake);
            }
        }
        (service, response)
    }

    #[test]
    fn a_stall_counts_for_every_activation_that_waited() {
        let (thread, _) = run(0, 100, 7, &[10, 10, 350, 10]);
        assert_eq!((thread.due, thread.missed, thread.cpu), (7, 3, Some(3)));
        assert_eq!(thread.service_ns, Histogram::from_values([10, 10, 350, 10]));
        assert_eq!(thread.response_ns, Histogram::from_values([10, 10, 350, 250, 150, 50, 10]));
        let worst = thread.worst.first().expect("kept");
        assert_eq!((worst.start_ns.get(), worst.length_ns.get()), (300, 350));
    }

    #[test]
    fn a_stall_at_the_end_misses_only_what_was_to_come() {
        let (thread, _) = run(0, 100, 3, &[10, 100_000]);
        assert_eq!((thread.due, thread.missed, thread.response_ns.count()), (3, 1, 3));
    }

    #[test]
    fn waking_early_is_no_activation() {
        let mut activations = Activations::new(0, Nanos::from_nanos(100), 2);
        assert_eq!(activations.woke(99), None);
        assert_eq!(activations.next_due(), Some(100));
        activations.woke(100);
        assert_eq!(activations.next_due(), Some(200));
    }

    #[test]
    fn more_stalls_than_are_kept_are_counted_all_the_same() {
        let due = 3 * (STALLS_KEPT as u64 + 50);
        let (thread, _) = run(0, 100, due, &[250]);
        assert_eq!((thread.due, thread.response_ns.count()), (due, due));
        assert_eq!(thread.missed, due / 3 * 2);
    }

    proptest! {
        #[test]
        fn it_is_what_the_definitions_say(
            start in 0u64..1 << 40, period in 1u64..1_000_000, due in 1u64..400,
            latencies in prop::collection::vec(prop_oneof![4 => 0u64..1000, 1 => 0u64..10_000_000], 1..60)) {
            // A stall of millions of periods is no better a case than one of thousands.
            let latencies: Vec<u64> = latencies.into_iter().map(|latency| latency.min(period * 1000)).collect();
            let (thread, wakes) = run(start, period, due, &latencies);
            let (service, response) = by_hand(start, period, due, &wakes);
            prop_assert_eq!(thread.due, due);
            prop_assert_eq!(thread.missed, due - service.len() as u64);
            prop_assert_eq!(thread.response_ns, Histogram::from_values(response));
            prop_assert_eq!(thread.worst.first().map(|worst| worst.length_ns.get()), service.iter().copied().max().filter(|most| *most > 0));
            prop_assert_eq!(thread.service_ns, Histogram::from_values(service));
        }
    }
}
