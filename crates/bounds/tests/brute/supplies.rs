//! Supply-bound functions against counting, over all windows.

use bounds::{Cap, Malformed, NoBound, NoGuarantee, Supply, Window};
use proptest::prelude::*;
use rand::RngExt;

use crate::hosts::{Deferrable, HardCbs, Mood, Turns, eevdf, fair_queue};
use crate::made::{Made, exact_supply, ns, quota, rng, server, table_of, turns};
use crate::simulator::Host;

/// The least of any window of each length within these ticks.
fn least_seen(ticks: &[bool], longest: usize) -> Vec<u64> {
    let sums: Vec<u64> = std::iter::once(0)
        .chain(ticks.iter().scan(0, |sum, tick| {
            *sum += u64::from(*tick);
            Some(*sum)
        }))
        .collect();
    let least =
        |length: usize| (0..sums.len() - length).map(|start| sums[start + length] - sums[start]).min();
    (0..longest).map(|length| least(length).unwrap()).collect()
}

fn bits(host: &mut impl Host, ticks: i64) -> Vec<bool> {
    (0..ticks).map(|now| host.tick(now, true)).collect()
}

/// The worst run of a host supplies in windows of each length exactly what is said, and its inverse says when.
fn is_exact(made: &Made) {
    let of = |window: usize| {
        let sum = |ticks: &crate::made::Ticks| (0..window).filter(|now| ticks.at(*now as i64)).count();
        made.worst.iter().map(sum).min().unwrap() as u64
    };
    for window in 0..80 {
        assert_eq!(made.supply.least_in(ns(window as u64)).get(), of(window), "{window} of {}", made.what);
    }
    for work in 1..25 {
        let first = (0..).find(|window| of(*window) >= work).unwrap() as u64;
        assert_eq!(made.supply.longest_for(ns(work)).unwrap().get(), first, "{work} of {}", made.what);
    }
}

#[test]
fn supplies_are_exact_over_all_windows() {
    for seed in 0..500 {
        is_exact(&exact_supply(&mut rng(seed)));
    }
}

/// Every table of up to nine ticks: all windows, all beginnings.
#[test]
fn all_small_tables_are_exact() {
    for length in 1..10_usize {
        for pattern in 1..1_u32 << length {
            let ticks: Vec<bool> = (0..length).map(|tick| pattern >> tick & 1 == 1).collect();
            let made = table_of(&ticks);
            is_exact(&made);
            let whole: Vec<bool> = ticks.iter().cycle().take(10 * length).copied().collect();
            for (window, least) in least_seen(&whole, 3 * length).into_iter().enumerate() {
                assert_eq!(made.supply.least_in(ns(window as u64)).get(), least, "{window} of {ticks:?}");
            }
        }
    }
}

/// Hosts that behave give no less in any window; the worst of them give exactly that in some.
#[test]
fn hosts_give_no_less_in_any_window() {
    for seed in 0..300 {
        let mut rng = rng(seed);
        let period = rng.random_range(2..10_u32);
        let budget = rng.random_range(1..=period);
        let deadline = rng.random_range(budget..=period);
        let [p, q, d] = [period, budget, deadline].map(i64::from);
        let [period, budget, deadline] = [period, budget, deadline].map(u64::from);
        let mood = [Mood::Late, Mood::Coin, Mood::Soon][rng.random_range(0..3)];
        let phase = rng.random_range(0..p);
        let own = rng.clone();
        let mut cbs = HardCbs::new([q, p, d], mood, own.clone());
        let mut deferrable =
            Deferrable { budget: q, period: p, phase, mood: Mood::Coin, rng: own.clone(), left: 0 };
        let mut capped = Deferrable { budget: q, period: p, phase, mood: Mood::Soon, rng: own, left: 0 };
        let quantum = rng.random_range(1..5_u32);
        let mut line = Turns::new(i64::from(quantum), 2);
        let seen = [
            (server(period, budget, deadline).supply, bits(&mut cbs, 600)),
            (server(period, budget, period).supply, bits(&mut deferrable, 600)),
            (quota(period, budget).supply, bits(&mut capped, 600)),
            (turns(u64::from(quantum), 2).supply, bits(&mut line, 600)),
        ];
        for (supply, ticks) in seen {
            // The first periods are cut off by where time begins.
            for (window, least) in least_seen(&ticks[50..], 100).into_iter().enumerate() {
                assert!(supply.least_in(ns(window as u64)).get() <= least, "{window}: {supply:?}");
            }
        }
    }
}

/// Shares by weight: all windows of a run of earliest eligible virtual deadline first.
#[test]
fn shares_are_never_further_behind_than_two_slices() {
    let mut least_slack = u64::MAX;
    for seed in 0..200 {
        let mut rng = rng(seed);
        let weights: Vec<i64> = (0..rng.random_range(2..6)).map(|_| rng.random_range(1..7)).collect();
        let slice = rng.random_range(1..5_u32);
        let who = eevdf(&weights, i64::from(slice), 1200);
        let total = weights.iter().sum::<i64>().unsigned_abs();
        for (client, weight) in weights.iter().enumerate() {
            let weight = weight.unsigned_abs();
            let supply = Supply::proportional(weight, total, ns(u64::from(slice))).unwrap();
            assert!(!supply.is_reached());
            let ticks: Vec<bool> = who.iter().map(|who| *who == client).collect();
            for (window, least) in least_seen(&ticks, 400).into_iter().enumerate() {
                let bound = supply.least_in(ns(window as u64)).get();
                assert!(bound <= least, "{window}: {least} < {bound}, weights {weights:?}");
                least_slack = least_slack.min(if bound > 0 { least - bound } else { u64::MAX });
            }
        }
    }
    assert!(least_slack <= 3, "the bound is far from anything seen: {least_slack}");
}

/// The same by start-time fair queueing, where others come and go.
#[test]
fn a_fair_queue_is_never_further_behind_than_its_bound() {
    let mut least_slack = u64::MAX;
    for seed in 0..300 {
        let mut rng = rng(seed);
        let weights: Vec<i64> = (0..rng.random_range(2..6)).map(|_| rng.random_range(1..7)).collect();
        let quantum = rng.random_range(1..5_u32);
        let total = weights.iter().sum::<i64>().unsigned_abs();
        let who = fair_queue(&weights, i64::from(quantum), 1200, &mut rng);
        let (weight, sharers) = (weights[0].unsigned_abs(), weights.len() as u64);
        let supply = Supply::fair_queue(weight, total, ns(u64::from(quantum)), sharers).unwrap();
        let ticks: Vec<bool> = who.iter().map(|who| *who == 0).collect();
        for (window, least) in least_seen(&ticks, 400).into_iter().enumerate() {
            let bound = supply.least_in(ns(window as u64)).get();
            assert!(bound <= least, "{window}: {least} < {bound}, weights {weights:?}");
            least_slack = least_slack.min(if bound > 0 { least - bound } else { u64::MAX });
        }
    }
    assert!(least_slack <= 3, "the bound is far from anything seen: {least_slack}");
}

/// The most that a capped VM takes, against all ways of drawing one quota per period.
#[test]
fn a_cap_is_the_most_that_is_taken() {
    for (quota, period, cpus) in [(3, 5, 1), (2, 7, 1), (3, 5, 2), (4, 3, 2), (1, 1, 1), (9, 4, 2)] {
        let cap = Cap::new(ns(quota), ns(period), cpus).unwrap();
        // As late as possible in the first period, as soon as possible in all others, by counting.
        let most = |window: u64| {
            let burst = quota.min(period * cpus);
            (0..=period)
                .map(|before| {
                    let first = (before * cpus).min(burst).min(window * cpus);
                    let rest = window.saturating_sub(before);
                    let of = |start: u64| ((rest - start) * cpus).min(burst);
                    first + (0..rest).step_by(usize::try_from(period).unwrap()).map(of).sum::<u64>()
                })
                .max()
                .unwrap()
        };
        for window in 0..40 {
            let (bound, seen) = (cap.most_in(ns(window)).get(), most(window));
            assert!(seen <= bound, "{window} of {cap:?}: {seen} > {bound}");
            if cpus == 1 {
                assert_eq!(seen, bound, "{window} of {cap:?}");
            }
        }
    }
    let shared = Cap::new(ns(10), ns(10), 2).unwrap();
    assert_eq!(shared.supply(), Err(NoBound::NoGuarantee(NoGuarantee::SharedQuota)));
    assert_eq!(Cap::new(ns(20), ns(10), 2).unwrap().supply(), Ok(Supply::whole_cpu()));
    assert_eq!(Cap::new(ns(4), ns(10), 1).unwrap().supply().unwrap(), Supply::quota(ns(4), ns(10)).unwrap());
}

#[test]
fn slots_are_a_table() {
    let round = [true, true, false, true];
    let slots = Supply::slots(ns(20), &round).unwrap();
    let windows = [(0, 40), (60, 20)].map(|(start, length)| Window { start: ns(start), length: ns(length) });
    assert_eq!(slots, Supply::table(ns(80), &windows).unwrap());
    assert_eq!(slots.least_in(ns(20)), ns(0));
    assert_eq!(slots.least_in(ns(60)), ns(40));
    assert_eq!(slots.longest_for(ns(1)), Some(ns(21)));
    assert_eq!(slots.longest_gap(), Some(ns(20)));
}

#[test]
fn what_describes_nothing_is_refused() {
    let window = |start, length| Window { start: ns(start), length: ns(length) };
    assert_eq!(Supply::periodic(ns(0), ns(0)), Err(Malformed::NoPeriod));
    assert!(matches!(Supply::periodic(ns(5), ns(6)), Err(Malformed::TooMuch { .. })));
    assert!(matches!(Supply::explicit_deadline(ns(5), ns(2), ns(6)), Err(Malformed::TooMuch { .. })));
    assert_eq!(Supply::table(ns(9), &[window(0, 3), window(2, 1)]), Err(Malformed::Window { number: 1 }));
    assert_eq!(Supply::table(ns(9), &[window(5, 5)]), Err(Malformed::Window { number: 0 }));
    assert_eq!(Supply::proportional(0, 5, ns(1)), Err(Malformed::Weight { weight: 0, total: 5 }));
    assert_eq!(Supply::round_robin(ns(0), 3), Err(Malformed::NoPeriod));
    assert_eq!(Supply::slots(ns(1), &[]), Err(Malformed::NoPeriod));
    let nothing = Supply::table(ns(9), &[]).unwrap();
    assert_eq!((nothing.least_in(ns(1000)), nothing.longest_for(ns(1))), (ns(0), None));
}

proptest! {
    /// Longer windows have no less, and two windows in a row no more than one as long as both.
    #[test]
    fn supplies_grow_and_are_superadditive(seed in any::<u64>(), a in 0..500_u64, b in 0..500_u64) {
        let mut rng = rng(seed);
        let share = Supply::proportional(rng.random_range(1..9), 9, ns(rng.random_range(0..4))).unwrap();
        for supply in [exact_supply(&mut rng).supply, share] {
            let of = |window| supply.least_in(ns(window)).get();
            prop_assert!(of(a) <= of(a + 1) && of(a + 1) <= of(a) + 1);
            prop_assert!(of(a) + of(b) <= of(a + b));
        }
    }

    /// The inverse is one, at any size.
    #[test]
    fn the_inverse_is_the_first_window_with_so_much(
        period in 1..u64::MAX / 4, share in 0.01..1.0_f64, work in 1..u64::MAX / 4
    ) {
        let budget = ((period as f64 * share) as u64).clamp(1, period);
        let half = Window { start: ns(period / 3), length: ns((period / 2).max(1).min(period - period / 3)) };
        let supplies = [
            Supply::periodic(ns(period), ns(budget)),
            Supply::quota(ns(budget), ns(period)),
            Supply::proportional(budget, period, ns(7)),
            Supply::table(ns(period), &[half]),
        ];
        for supply in supplies.map(Result::unwrap) {
            if let Some(window) = supply.longest_for(ns(work)) {
                prop_assert!(supply.least_in(window).get() >= work);
                prop_assert!(supply.least_in(ns(window.get() - 1)).get() < work);
            }
        }
    }
}
