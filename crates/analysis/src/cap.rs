//! Is there a cap on the CPUs of an instance? A cap shows in what nobody gets, and so does other work on the host; they
//! differ in that a cap is met again and again at the same height, alone as well as beside others.
//!
//! ```text
//!  CPUs  1.0 ┤   ╭ others' work: less beside others than alone      0.6 ┤ ● ● ● ● ● ● ● ●   a cap: the same
//!        0.7 ┤ ●   ● ● ● ● ● ●                                          │ alone │ beside others
//! ```
//! A cap is claimed where its absence is excluded: phases drawn anew say so, too ([`proven`]), and what the instances did not
//! get alone is more than what they did not get beside each other, where no cap takes anything.
//! Where the host has work enough, a cap is never reached and cannot be seen: that is an answer, too.

use rand::SeedableRng as _;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::policy::{ENDS, RESAMPLES, SAME_NAME, drawn_phases, in_groups};
use probes::share::metrics::Observation;
use stats::interval::quantile_of_sorted;
use stats::summary::median;

/// A cap nearer to what an instance could have anyway is none: the machine itself never gives all it has.
pub(super) const LARGEST_CAP: f64 = 0.9;
/// Who got at least this part of an instance's CPUs had no cap that lies much below; with less it cannot be said.
const LEAST_FREE: f64 = 0.45;
/// As near to a cap is at it.
const AT_CAP: f64 = 0.06;
/// Least part of what was got alone that is at the cap, and of what was got beside others.
const LEAST_AT_CAP: (f64, f64) = (0.6, 0.5);
/// Most of what was got that may lie above it: caps are paid out once a period, and a phase may hold the pay of one more.
const MOST_ABOVE: f64 = 0.2;

/// What is missing alone is at least so many times what is missing beside others.
const LEAST_TIMES: f64 = 2.0;
/// Least part of all pairs of a phase alone and one beside others in which more is missing alone (Mann and Whitney 1947).
const LEAST_ABOVE: f64 = 0.9;

/// What can be said of a cap.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cap {
    /// Nobody gets more than so many CPUs.
    Held(f64),
    /// None that lies below what somebody got.
    Above(f64),
    /// Nobody got more than this, and it was less than half of what was wanted: a cap, or others' work.
    Unknown(f64),
}

/// What one side got in one phase.
struct Side {
    need: f64,
    got: f64,
    is_alone: bool,
}

fn sides(seen: &[Observation], cpus: f64) -> Vec<Side> {
    let mut all = Vec::new();
    for phase in seen {
        let need = |threads: u32| f64::from(threads.min(phase.cpus)).min(cpus);
        let side =
            |threads, got, is_alone| (threads > 0).then(|| Side { need: need(threads), got, is_alone });
        all.extend(side(phase.first_threads, phase.first, phase.other_threads == 0));
        let others_alone = phase.first_threads == 0 && phase.instances == 2;
        all.extend(side(phase.other_threads, phase.other, others_alone).filter(|_| phase.instances > 1));
    }
    all
}

/// Looks for a cap in what was seen on a host with `cpus` CPUs.
pub fn look(seen: &[Observation], cpus: f64) -> Cap {
    let sides = sides(seen, cpus);
    let most_needed = sides.iter().map(|side| side.need).fold(0.0, f64::max);
    let middle = |wanted: &dyn Fn(&Side) -> bool| {
        let got: Vec<f64> = sides.iter().filter(|side| wanted(side)).map(|side| side.got).collect();
        median(&got)
    };
    let is_full = |side: &Side| side.need >= most_needed;
    let tried = [middle(&|side| side.is_alone && is_full(side)), middle(&is_full)];
    let is_quiet = is_quiet_beside(seen, cpus);
    let held = tried.into_iter().flatten().find_map(|cap| held(&sides, cap, most_needed, is_quiet));
    if let Some(cap) = held {
        return Cap::Held(cap);
    }
    let most = highest(seen);
    if most >= LEAST_FREE * most_needed { Cap::Above(most) } else { Cap::Unknown(most) }
}

/// Whether all CPUs are used where the instances want more than all, and what is missing there is so much less than what is
/// missing where one works alone that the same other work cannot have taken both.
fn is_quiet_beside(seen: &[Observation], cpus: f64) -> bool {
    let total =
        |phase: &Observation| phase.first + f64::from(phase.instances.saturating_sub(1)) * phase.other;
    let wanted = |phase: &Observation| {
        let need = |threads: u32| f64::from(threads.min(phase.cpus)).min(cpus);
        let others = f64::from(phase.instances.saturating_sub(1));
        (need(phase.first_threads) + others * need(phase.other_threads)).min(cpus)
    };
    let is_alone =
        |phase: &&Observation| phase.other_threads == 0 || phase.first_threads == 0 && phase.instances == 2;
    let missing = |phase: &Observation| wanted(phase) - total(phase);
    let alone: Vec<f64> = seen.iter().filter(is_alone).map(missing).collect();
    let full = |phase: &&Observation| !is_alone(phase) && wanted(phase) >= cpus;
    let beside: Vec<f64> = seen.iter().filter(full).map(missing).collect();
    let (Some(typical_alone), Some(typical)) = (median(&alone), median(&beside)) else { return false };
    let pairs = alone.iter().flat_map(|one| beside.iter().map(move |other| f64::from(u8::from(one > other))));
    let above = pairs.sum::<f64>() / (alone.len() * beside.len()) as f64;
    typical <= (1.0 - LARGEST_CAP) * cpus && typical_alone >= LEAST_TIMES * typical && above >= LEAST_ABOVE
}

/// What is seen of a cap, and whether it comes out again of phases that are drawn anew, with an upper end that is below what an
/// instance could have anyway (percentile bootstrap: Efron and Tibshirani 1993). One that does not is none: nobody may have set
/// it.
pub fn proven(seen: &[Observation], cpus: f64) -> Cap {
    let found = look(seen, cpus);
    let Cap::Held(cap) = found else { return found };
    let groups = in_groups(seen);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seen.len() as u64);
    let again = (0..RESAMPLES).filter_map(|_| match look(&drawn_phases(&groups, &mut random), cpus) {
        Cap::Held(cap) => Some(cap),
        Cap::Above(_) | Cap::Unknown(_) => None,
    });
    let mut caps: Vec<f64> = again.collect();
    caps.sort_by(f64::total_cmp);
    let most_needed = sides(seen, cpus).iter().map(|side| side.need).fold(0.0, f64::max);
    let is_again = caps.len() as f64 >= SAME_NAME * RESAMPLES as f64;
    if is_again && quantile_of_sorted(&caps, ENDS.1) < LARGEST_CAP * most_needed {
        return found;
    }
    if cap >= LEAST_FREE * most_needed { Cap::Above(cap) } else { Cap::Unknown(cap) }
}

/// The cap itself when what was got looks like one of about `cap`.
fn held(sides: &[Side], cap: f64, most_needed: f64, is_quiet: bool) -> Option<f64> {
    if cap <= 0.0 || cap > LARGEST_CAP * most_needed {
        return None;
    }
    let wanting = |is_alone: bool| {
        sides.iter().filter(move |side| side.is_alone == is_alone && side.need > (1.0 + AT_CAP) * cap)
    };
    let share = |is_alone: bool, is_counted: &dyn Fn(&Side) -> bool| {
        let all = wanting(is_alone).count();
        let counted = wanting(is_alone).filter(|side| is_counted(side)).count();
        if all == 0 { 0.0 } else { counted as f64 / all as f64 }
    };
    let at_cap = |side: &Side| (side.got / cap - 1.0).abs() <= AT_CAP;
    let above = |side: &Side| side.got > (1.0 + AT_CAP) * cap;
    // Where nothing is left over beside others, they are below the cap; that all CPUs are used then says that alone it
    // was not others' work that took them.
    let beside = share(false, &at_cap) >= LEAST_AT_CAP.1 || is_quiet;
    let is_held = beside && share(true, &at_cap) >= LEAST_AT_CAP.0 && share(false, &above) <= MOST_ABOVE;
    let there: Vec<f64> =
        sides.iter().filter(|side| side.need > cap && at_cap(side)).map(|side| side.got).collect();
    if is_held { median(&there) } else { None }
}

/// The most that an instance got in a phase, in the middle of all rounds.
fn highest(seen: &[Observation]) -> f64 {
    let same = |one: &Observation, two: &Observation| {
        (one.first_threads, one.other_threads) == (two.first_threads, two.other_threads)
    };
    let in_phase = |phase: &Observation, pick: fn(&Observation) -> f64| {
        let got: Vec<f64> = seen.iter().filter(|other| same(phase, other)).map(pick).collect();
        median(&got).unwrap_or(0.0)
    };
    seen.iter()
        .flat_map(|phase| [in_phase(phase, |one| one.first), in_phase(phase, |one| one.other)])
        .fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Phases of two instances on two CPUs: what each got alone, and beside the other in all eight.
    fn seen(alone: f64, beside: f64) -> Vec<Observation> {
        let phase = |first_threads, other_threads, first, other| Observation {
            instances: 2,
            first_threads,
            other_threads,
            cpus: 2,
            first,
            other,
        };
        let mut all = vec![phase(2, 0, alone, 0.0), phase(0, 2, 0.0, alone)];
        all.extend((0..8).map(|turn| phase(1 + turn % 4, 2 + 2 * (turn / 4), beside, beside)));
        all
    }

    #[test]
    fn what_is_the_same_alone_and_beside_others_is_a_cap() {
        assert_eq!(look(&seen(0.6, 0.59), 2.0), Cap::Held(0.59));
        assert_eq!(look(&seen(1.5, 0.99), 2.0), Cap::Held(1.5), "beside each other they use all CPUs");
    }

    #[test]
    fn what_others_take_is_none() {
        // As measured with six busy threads beside: two groups of equal weight, without a cap.
        assert_eq!(look(&seen(1.0, 0.66), 2.0), Cap::Above(1.0));
        assert_eq!(look(&seen(1.98, 0.98), 2.0), Cap::Above(1.98));
    }

    #[test]
    fn a_cap_that_nobody_set_is_not_claimed_beside_other_work() {
        use rand::RngExt as _;
        let mut random = Xoshiro256PlusPlus::seed_from_u64(17);
        let mut claimed = 0;
        for trial in 0..200 {
            // Somebody else takes up to a third of a CPU, in some phases nothing: alone 1.7 CPUs are left, as 1.7 was found.
            let most = 0.4 * random.random::<f64>();
            let rounds = 1 + trial % 4;
            let mut all = Vec::new();
            for phase in (0..rounds).flat_map(|_| seen(2.0, 1.0)) {
                let taken = if random.random::<f64>() < 0.7 { most } else { 0.0 };
                let left = 1.0 - taken / 2.0;
                all.push(Observation { first: phase.first * left, other: phase.other * left, ..phase });
            }
            claimed += u32::from(matches!(proven(&all, 2.0), Cap::Held(_)));
        }
        assert!(claimed <= 4, "{claimed} of 200");
        // One that was set is.
        let set: Vec<Observation> = (0..3).flat_map(|_| seen(1.5, 0.99)).collect();
        assert_eq!(proven(&set, 2.0), Cap::Held(1.5));
    }

    #[test]
    fn a_cap_that_is_not_reached_cannot_be_told_from_others_work() {
        // As measured beside a dozen busy threads: the first two with a cap of 0.6 and 0.8, the last without any.
        for (alone, beside) in [(0.60, 0.49), (0.65, 0.5), (0.61, 0.49)] {
            assert_eq!(look(&seen(alone, beside), 2.0), Cap::Unknown(alone));
        }
    }
}
