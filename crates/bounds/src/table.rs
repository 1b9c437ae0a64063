//! A cyclic table of windows on one CPU: slots, ARINC 653 partition windows, tables as Tableau makes them. TDMA supply as in
//! Mok, Feng, Chen, "Resource partition for real-time systems" (2001): a static partition, exact over its cycle.
//!
//! ```text
//!  cycle  ├──▇▇▇▇────▇▇──────▇▇▇──┤──▇▇▇▇────▇▇── …
//!               ▲      ▲        ▲ (or the cycle's end, and on)
//!               starts: where a window has just ended. From anywhere else no less is supplied, at no time after.
//! ```

use units::Nanos;

use crate::answer::Malformed;
use crate::exact::Time;

/// A stretch of the table in which the CPU is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Its beginning, from that of the table.
    pub start: Nanos,
    /// How long it is.
    pub length: Nanos,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stretch {
    start: Time,
    end: Time,
    /// Supplied in the cycle before it.
    before: Time,
}

/// The table, its touching windows joined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    cycle: Time,
    stretches: Vec<Stretch>,
    /// Supplied per cycle.
    total: Time,
    /// Where waiting can begin; at least one.
    starts: Vec<Time>,
}

impl Table {
    pub fn new(cycle: Nanos, windows: &[Window]) -> Result<Self, Malformed> {
        if cycle.get() == 0 {
            return Err(Malformed::NoPeriod);
        }
        let cycle = Time::from(cycle.get());
        let mut windows: Vec<&Window> = windows.iter().filter(|window| window.length > Nanos::ZERO).collect();
        windows.sort_by_key(|window| window.start);
        let (mut stretches, mut total): (Vec<Stretch>, Time) = (Vec::new(), 0);
        let mut last_end = 0;
        for (number, window) in windows.into_iter().enumerate() {
            let (start, length) = (Time::from(window.start.get()), Time::from(window.length.get()));
            let end = start + length;
            if start < last_end || end > cycle {
                return Err(Malformed::Window { number });
            }
            match stretches.last_mut().filter(|last| last.end == start) {
                Some(last) => last.end = end,
                None => stretches.push(Stretch { start, end, before: total }),
            }
            (total, last_end) = (total + length, end);
        }
        let goes_round = last_end == cycle && stretches.first().is_some_and(|first| first.start == 0);
        let ends = stretches.iter().map(|stretch| stretch.end % cycle);
        let mut starts: Vec<Time> = ends.filter(|end| !(goes_round && *end == 0)).collect();
        if starts.is_empty() {
            starts.push(0);
        }
        Ok(Self { cycle, stretches, total, starts })
    }

    pub const fn cycle(&self) -> Time {
        self.cycle
    }

    pub const fn total(&self) -> Time {
        self.total
    }

    pub const fn starts(&self) -> usize {
        self.starts.len()
    }

    fn start(&self, number: usize) -> Time {
        self.starts.get(number).copied().unwrap_or(0)
    }

    /// Supplied from the table's beginning until then.
    fn until(&self, time: Time) -> Time {
        let (cycles, rest) = (time / self.cycle, time % self.cycle);
        let begun = self.stretches.partition_point(|stretch| stretch.start < rest);
        let last = begun.checked_sub(1).and_then(|last| self.stretches.get(last));
        cycles * self.total + last.map_or(0, |last| last.before + rest.min(last.end) - last.start)
    }

    /// When so much has been supplied since the table's beginning; none when never, or too late to say.
    fn when(&self, work: Time) -> Option<Time> {
        if work == 0 {
            return Some(0);
        }
        let cycles = (work - 1).checked_div(self.total)?;
        let rest = work - cycles * self.total;
        let begun = self.stretches.partition_point(|stretch| stretch.before < rest);
        let last = self.stretches.get(begun.checked_sub(1)?)?;
        cycles.checked_mul(self.cycle)?.checked_add(last.start + rest - last.before)
    }

    /// Supplied in a window of this length from that start.
    pub fn supplied(&self, start: usize, window: Time) -> Time {
        let start = self.start(start);
        self.until(start + window) - self.until(start)
    }

    /// The shortest window from that start in which so much is supplied.
    pub fn time_for(&self, start: usize, work: Time) -> Option<Time> {
        if work == 0 {
            return Some(0);
        }
        let start = self.start(start);
        Some(self.when(self.until(start).checked_add(work)?)? - start)
    }
}
