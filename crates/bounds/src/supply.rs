//! Supply: the least CPU time that a virtual CPU is given in any window of a length. The supply-bound functions of the
//! literature, in whole nanoseconds.
//!
//! ```text
//!  work │            ╱‾‾‾╱      bursts: nothing for `blackout`, then `budget` per `period`
//!       │        ╱‾‾‾           periodic resource  blackout 2(Π − Θ)     Shin and Lee 2003
//!       │    ╱‾‾‾               explicit deadline           Π + Δ − 2Θ   Easwaran, Anand, Lee 2007
//!       └───┴────────── window  quota, turns                P − Q        one wait at most
//!
//!  shares lie a lag behind a straight line; tables have stretches of their own
//! ```
//!
//! A supply may have several phases, of which none is the worst for every window (a table). In each of them it is a function
//! of the time since waiting began; the supply-bound function is the least of them at each length.

use units::Nanos;

use crate::answer::Malformed;
use crate::exact::{HORIZON, Rate, Time, gcd, nanos};
use crate::table::{Table, Window};

#[derive(Debug, Clone, PartialEq, Eq)]
enum Shape {
    Bursts { blackout: Time, budget: u64, period: u64 },
    Table(Table),
    Share { rate: Rate, lag: Time },
}

/// The least CPU time in any window, of one virtual CPU that has something to do all the time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Supply {
    shape: Shape,
}

/// Refuses what is more than something else.
fn at_most(what: &'static str, got: Nanos, most_of: &'static str, most: Nanos) -> Result<(), Malformed> {
    if got > most { Err(Malformed::TooMuch { what, got, most_of, most }) } else { Ok(()) }
}

impl Supply {
    const fn bursts(blackout: Time, budget: Nanos, period: Nanos) -> Result<Self, Malformed> {
        if period.get() == 0 {
            return Err(Malformed::NoPeriod);
        }
        Ok(Self { shape: Shape::Bursts { blackout, budget: budget.get(), period: period.get() } })
    }

    /// A CPU of its own.
    pub const fn whole_cpu() -> Self {
        Self { shape: Shape::Bursts { blackout: 0, budget: 1, period: 1 } }
    }

    /// `budget` somewhere in each `period`: the periodic resource model (Shin and Lee, "Periodic resource model for
    /// compositional real-time guarantees", 2003). So are Xen's RTDS and other deferrable or periodic servers, where
    /// [`crate::admission`] finds that all of a CPU fit together.
    ///
    /// # Errors
    /// A period of 0 ns, or a budget beyond it.
    pub fn periodic(period: Nanos, budget: Nanos) -> Result<Self, Malformed> {
        Self::explicit_deadline(period, budget, period)
    }

    /// `budget` within `deadline` after each period's beginning: the explicit-deadline periodic resource model (Easwaran,
    /// Anand, Lee, "Compositional analysis framework using EDP resource models", 2007).
    ///
    /// # Errors
    /// A period of 0 ns, a budget beyond the deadline, a deadline beyond the period.
    pub fn explicit_deadline(period: Nanos, budget: Nanos, deadline: Nanos) -> Result<Self, Malformed> {
        at_most("a deadline", deadline, "the period", period)?;
        at_most("a budget", budget, "the deadline", deadline)?;
        let [p, q, d] = [period, budget, deadline].map(|time| Time::from(time.get()));
        Self::bursts(p + d - 2 * q, budget, period)
    }

    /// A hard constant-bandwidth server as `SCHED_DEADLINE` is one (Abeni and Buttazzo 1998; hard: who has used up its budget
    /// waits for its next period): `runtime` within `deadline` of each `period`. In the worst case the runtime was used up as
    /// soon as the period began, and comes as late as possible in the next one: the same supply as
    /// [`Supply::explicit_deadline`]. Who wakes with some runtime left is given it before that, so gets no less.
    /// Holds of servers that are pinned and that [`crate::admission::reservations`] accepts; globally the kernel admits sets
    /// whose servers can be late.
    ///
    /// # Errors
    /// As [`Supply::explicit_deadline`].
    pub fn reservation(runtime: Nanos, period: Nanos, deadline: Nanos) -> Result<Self, Malformed> {
        Self::explicit_deadline(period, runtime, deadline)
    }

    /// One virtual CPU of a VM that is capped (`cpu.max`: quota and period) on a CPU that nobody else wants: it waits for the
    /// next period when the quota is used up, and is given the quota as soon as a period begins (Turner, Rao, Rao, "CPU
    /// bandwidth control for CFS", 2010; as a deferrable server of the highest priority: Strosnider, Lehoczky, Sha 1995). A
    /// quota beyond the period is a whole CPU. What several virtual CPUs get is in [`crate::Cap`].
    ///
    /// # Errors
    /// A period of 0 ns.
    pub fn quota(quota: Nanos, period: Nanos) -> Result<Self, Malformed> {
        let quota = quota.min(period);
        Self::bursts(Time::from(period.get() - quota.get()), quota, period)
    }

    /// Turns of one whole `quantum` each, with `others` that may all want theirs as well (round robin). Who wakes goes to the
    /// end of the line.
    ///
    /// # Errors
    /// A quantum of 0 ns, or a round too long for 64 bits.
    pub fn round_robin(quantum: Nanos, others: u64) -> Result<Self, Malformed> {
        let others_take = Time::from(quantum.get()) * Time::from(others);
        let round = nanos(others_take + Time::from(quantum.get()));
        at_most("what others take per round", nanos(others_take), "a round", round.saturating_sub(quantum))?;
        Self::bursts(others_take, quantum, round)
    }

    /// A cyclic table of windows.
    ///
    /// # Errors
    /// A cycle of 0 ns, windows that overlap or end outside of it.
    pub fn table(cycle: Nanos, windows: &[Window]) -> Result<Self, Malformed> {
        Ok(Self { shape: Shape::Table(Table::new(cycle, windows)?) })
    }

    /// A round of fixed slots of one length (rHype, Van Hensbergen 2005): true where it is the virtual CPU's own.
    ///
    /// # Errors
    /// A slot of 0 ns, no slots, or a round too long for 64 bits.
    pub fn slots(slot: Nanos, round: &[bool]) -> Result<Self, Malformed> {
        let slots = u64::try_from(round.len()).unwrap_or(u64::MAX);
        let length = Time::from(slot.get()) * Time::from(slots);
        if length > HORIZON {
            let most = Nanos::from_nanos(u64::MAX / slots.max(1));
            at_most("a slot", slot, "64 bits divided by the slots", most)?;
        }
        let start = |number: u64| Nanos::from_nanos(number.saturating_mul(slot.get()));
        let own = (0..).zip(round).filter(|(_, is_own)| **is_own);
        let windows: Vec<Window> =
            own.map(|(number, _)| Window { start: start(number), length: slot }).collect();
        Self::table(nanos(length), &windows)
    }

    /// A share by weight, by earliest eligible virtual deadline first with slices of at most `slice` (Stoica and Abdel-Wahab,
    /// "Earliest eligible virtual deadline first", 1995): while nobody joins or leaves, what a client got lies less than a
    /// slice from its share of a fluid CPU, before and behind, so in any window it gets at most two slices less than its
    /// share. `total` is the largest sum of all weights there can be, its own included. A bound, not the worst case.
    ///
    /// # Errors
    /// A weight of 0 or beyond the total.
    pub fn proportional(weight: u64, total: u64, slice: Nanos) -> Result<Self, Malformed> {
        Self::share(weight, total, nanos(2 * Time::from(slice.get())))
    }

    /// A share by weight, by start-time fair queueing with turns of at most `quantum` (Goyal, Vin, Cheng, "Start-time fair
    /// queuing", 1996, throughput guarantee): at most one own turn and its share of one turn of each of the `sharers`, its own
    /// included, behind its share. Holds also while others come and go; those who are there at the same time weigh at most
    /// `total` in all. A bound, not the worst case.
    ///
    /// # Errors
    /// A weight of 0 or beyond the total.
    pub fn fair_queue(weight: u64, total: u64, quantum: Nanos, sharers: u64) -> Result<Self, Malformed> {
        let turns = Time::from(quantum.get()) * Time::from(sharers);
        let share = turns.saturating_mul(weight.into()).div_ceil(Time::from(total.max(1)));
        Self::share(weight, total, nanos(share.saturating_add(quantum.get().into())))
    }

    /// A share by weight that in any window gives at most `lag` less than that share of it: the bounded-delay model (Mok,
    /// Feng, Chen 2001) of a policy whose lag is known.
    ///
    /// # Errors
    /// A weight of 0 or beyond the total.
    pub const fn share(weight: u64, total: u64, lag: Nanos) -> Result<Self, Malformed> {
        if weight == 0 || weight > total {
            return Err(Malformed::Weight { weight, total });
        }
        let rate = Rate { work: weight, time: total };
        Ok(Self { shape: Shape::Share { rate, lag: lag.get() as Time } })
    }

    /// The supply-bound function: the least CPU time in any window of this length.
    pub fn least_in(&self, window: Nanos) -> Nanos {
        nanos(self.least(Time::from(window.get())))
    }

    /// Its inverse: the length from which every window has so much CPU time; none when there is none, or it does not fit.
    pub fn longest_for(&self, work: Nanos) -> Option<Nanos> {
        self.time_for_any(Time::from(work.get())).map(nanos)
    }

    /// The longest time without any CPU time; none when there is never any, or it does not fit.
    pub fn longest_gap(&self) -> Option<Nanos> {
        self.time_for_any(1).map(|time| nanos(time - 1))
    }

    /// CPU time per time in the long run.
    pub fn rate(&self) -> Rate {
        match &self.shape {
            Shape::Bursts { budget, period, .. } => Rate { work: *budget, time: *period },
            Shape::Table(table) => {
                Rate { work: nanos(table.total()).get(), time: nanos(table.cycle()).get() }
            }
            Shape::Share { rate, .. } => *rate,
        }
    }

    /// Whether some legal run of the host supplies exactly this.
    pub const fn is_reached(&self) -> bool {
        !matches!(&self.shape, Shape::Share { .. })
    }

    /// How many phases there are.
    pub(crate) const fn phases(&self) -> usize {
        match &self.shape {
            Shape::Table(table) => table.starts(),
            Shape::Bursts { .. } | Shape::Share { .. } => 1,
        }
    }

    /// Supplied in a window of this length since waiting began in that phase.
    pub(crate) fn supplied(&self, phase: usize, window: Time) -> Time {
        match &self.shape {
            Shape::Bursts { blackout, budget, period } => {
                let (budget, period) = (Time::from(*budget), Time::from(*period));
                let since = window.saturating_sub(*blackout);
                since / period * budget + (since % period).min(budget)
            }
            Shape::Table(table) => table.supplied(phase, window),
            Shape::Share { rate, lag } => {
                let fluid = window.saturating_mul(rate.work.into()) / Time::from(rate.time);
                fluid.saturating_sub(*lag)
            }
        }
    }

    /// When so much has been supplied since waiting began in that phase; none when never, or not within [`HORIZON`].
    pub(crate) fn time_for(&self, phase: usize, work: Time) -> Option<Time> {
        // No supply is faster than time.
        if work == 0 || work > HORIZON {
            return (work == 0).then_some(0);
        }
        let time = match &self.shape {
            Shape::Bursts { blackout, budget, period } => {
                let budget = Time::from(*budget);
                let whole = (work - 1).checked_div(budget)?;
                let before = blackout.saturating_add(whole.saturating_mul(Time::from(*period)));
                before.saturating_add(work - whole * budget)
            }
            Shape::Table(table) => table.time_for(phase, work)?,
            Shape::Share { rate, lag } => {
                (work + lag).checked_mul(rate.time.into())?.div_ceil(rate.work.into())
            }
        };
        Some(time).filter(|time| *time <= HORIZON)
    }

    /// The least of all phases.
    pub(crate) fn least(&self, window: Time) -> Time {
        (0..self.phases()).map(|phase| self.supplied(phase, window)).min().unwrap_or(0)
    }

    /// The latest of all phases.
    pub(crate) fn time_for_any(&self, work: Time) -> Option<Time> {
        (0..self.phases()).try_fold(0, |latest, phase| Some(self.time_for(phase, work)?.max(latest)))
    }

    /// Supply repeats after so long, that much later more: `(from, cycle)`, `from` is when that begins.
    pub(crate) fn repeats(&self) -> (Time, Time) {
        match &self.shape {
            Shape::Bursts { blackout, period, .. } => (*blackout, Time::from(*period)),
            Shape::Table(table) => (0, table.cycle()),
            Shape::Share { rate, lag } => {
                let (work, time) = (Time::from(rate.work), Time::from(rate.time));
                let begins = lag.checked_mul(time).map_or(HORIZON, |begins| begins.div_ceil(work));
                (begins, time / gcd(work, time))
            }
        }
    }

    /// At most so much less than [`Supply::rate`] of a window is supplied in it.
    pub(crate) fn most_behind(&self) -> Time {
        match &self.shape {
            Shape::Bursts { blackout, budget, period } => {
                let product = blackout.checked_mul(Time::from(*budget));
                product.map_or(*blackout, |product| product.div_ceil(Time::from(*period)))
            }
            Shape::Table(table) => table.total(),
            Shape::Share { lag, .. } => lag + 1,
        }
    }
}
