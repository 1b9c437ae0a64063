//! Attribution on made-up machines whose thieves are known, and on anything at all.

use proptest::prelude::*;

use super::*;
use units::accounts::{CpuAccount, InterruptCount, RtThrottle, TracedSource};

use units::histogram::Histogram;
use units::{Hertz, Micros};

const SECOND: u64 = 1_000_000_000;

/// A loop of one second on a counter of 1 GHz: `(start, length)` of the gaps, the rest is short ones.
fn gap(gaps: &[(u64, u64)], observed: u64) -> GapDetail {
    let lost: u64 = gaps.iter().map(|gap| gap.1).sum();
    let quiet = observed.saturating_sub(lost) / 20;
    let mut dense = units::histogram::DenseHistogram::new();
    dense.record_many(20, quiet);
    for gap in gaps {
        dense.record(gap.1);
    }
    let mut worst: Vec<Stretch> = gaps
        .iter()
        .map(|(start, length)| Stretch {
            start_ns: Nanos::from_nanos(*start),
            length_ns: Nanos::from_nanos(*length),
        })
        .collect();
    worst.sort_by_key(|stretch| std::cmp::Reverse(stretch.length_ns));
    worst.truncate(64);
    GapDetail {
        counter_hz: Hertz::from_hz(SECOND),
        observed_ns: Nanos::from_nanos(observed),
        cpu: Some(1),
        batches: vec![dense.to_histogram()],
        worst,
    }
}

fn ticks() -> Vec<(u64, u64)> {
    (0..250).map(|n| (n * 4_000_000 + 777, 3_000 + n % 7)).collect()
}

fn books(account: CpuAccount) -> Accounts {
    Accounts { per_cpu: vec![account], ..Accounts::default() }
}

fn quiet_cpu() -> CpuAccount {
    CpuAccount { cpu: 1, steal_ns: Some(Nanos::ZERO), ticks: Some(250), interrupts: Some(250) }
}

fn share(attribution: &Attribution, name: &str) -> f64 {
    attribution.sources.iter().find(|source| source.name == name).map_or(0.0, |source| source.share)
}

#[test]
fn a_quiet_machine_loses_its_time_to_the_timer() {
    let told = of_gap(&gap(&ticks(), SECOND), &books(quiet_cpu()));
    assert!(share(&told, "timer tick") > 0.99, "{told:?}");
    assert!(told.sources[0].evidence.contains("250 timer interrupts on CPU 1"), "{told:?}");
    assert!(told.sources[0].evidence.contains("beat of 4 ms (250 Hz)"), "{told:?}");
    assert_eq!(told.lost_ns.get(), ticks().iter().map(|gap| gap.1).sum::<u64>());
}

#[test]
fn stolen_time_is_the_long_gaps_and_what_nobody_owns_to_stays() {
    let mut gaps = ticks();
    gaps.extend([(1_500_000, 30_000_000), (333_000_000, 30_000_000)]);
    let account = CpuAccount { steal_ns: Some(Nanos::from_nanos(40_000_000)), ..quiet_cpu() };
    let told = of_gap(&gap(&gaps, SECOND), &books(account));
    let lost = told.lost_ns.as_f64();
    assert!((share(&told, "hypervisor (steal)") - 40e6 / lost).abs() < 1e-3, "{told:?}");
    assert!((told.unattributed_ns.as_f64() - 20e6).abs() < 1e5, "{told:?}");
}

#[test]
fn another_thread_is_named_only_when_the_probe_was_made_to_yield() {
    let mut gaps = ticks();
    gaps.push((5_500_000, 12_000_000));
    let account = |switches| Accounts {
        probe_run_delay_ns: Some(Nanos::from_nanos(12_000_000)),
        probe_involuntary_switches: Some(switches),
        ..books(quiet_cpu())
    };
    let told = of_gap(&gap(&gaps, SECOND), &account(1));
    assert!(share(&told, "other threads (scheduler)") > 0.9, "{told:?}");
    let told = of_gap(&gap(&gaps, SECOND), &account(0));
    assert!(share(&told, "other threads (scheduler)") <= 0.0, "{told:?}");
}

#[test]
fn throttling_is_nobodys_fault_and_is_named() {
    let gaps: Vec<(u64, u64)> = (0..3).map(|n| (n * SECOND + 950_000_000, 50_000_000)).collect();
    let throttle =
        RtThrottle { runtime_us: Micros::from_micros(950_000), period_us: Micros::from_micros(1_000_000) };
    let told =
        of_gap(&gap(&gaps, 3 * SECOND), &Accounts { rt_throttle: Some(throttle), ..Accounts::default() });
    assert!(share(&told, "real-time throttling") > 0.99, "{told:?}");
}

#[test]
fn other_interrupts_come_with_their_names() {
    let mut gaps = ticks();
    gaps.extend((0..100).map(|n| (n * 9_123_457, 4_000)));
    let network =
        InterruptCount { name: "38".to_owned(), about: "PCI-MSIX virtio2-input.0".to_owned(), count: 100 };
    let account = CpuAccount { interrupts: Some(350), ..quiet_cpu() };
    let told = of_gap(&gap(&gaps, SECOND), &Accounts { interrupts: vec![network], ..books(account) });
    assert!(told.unattributed_ns.get() * 50 < told.lost_ns.get(), "{told:?}");
    let other = told.sources.iter().find(|source| source.name == "other interrupts").expect("named");
    assert!(other.evidence.contains("38 (virtio2-input.0)"), "{told:?}");
}

#[test]
fn many_ticks_too_short_to_be_a_loss_do_not_take_a_few_long_gaps() {
    let told = of_gap(&gap(&[(1_234_567, 80_000), (77_777_777, 90_000)], SECOND), &books(quiet_cpu()));
    assert_eq!(told.sources, [], "{told:?}");
    assert_eq!(told.unattributed_ns, told.lost_ns);
}

#[test]
fn what_the_tracer_saw_replaces_guesses() {
    let traced = |name: &str, total| TracedSource {
        name: name.to_owned(),
        count: 250,
        total_ns: Nanos::from_nanos(total),
        longest_ns: Nanos::from_nanos(9_000),
    };
    let accounts = Accounts {
        traced: vec![traced("local timer", 500_000), traced("softirq RCU", 100_000)],
        ..books(quiet_cpu())
    };
    let told = of_gap(&gap(&ticks(), SECOND), &accounts);
    let names: Vec<&str> = told.sources.iter().map(|source| source.name.as_str()).collect();
    assert_eq!(names, ["local timer", "softirq RCU"]);
    assert_eq!(told.sources[0].lost_ns.get().abs_diff(500_000) / 10, 0);
}

#[test]
fn without_gaps_nothing_is_lost() {
    let mut empty = gap(&[], SECOND);
    assert_eq!(of_gap(&empty, &books(quiet_cpu())), Attribution::default());
    empty.counter_hz = Hertz::from_hz(0);
    assert_eq!(of_gap(&empty, &Accounts::default()), Attribution::default());
}

fn any_accounts() -> impl Strategy<Value = Accounts> {
    let number = || prop_oneof![Just(0u64), 0u64..1000, 0u64..10_000_000_000, any::<u64>()];
    let maybe = move || prop::option::of(number());
    let traced = prop::collection::vec(number(), 0..12);
    (maybe(), maybe(), maybe(), maybe(), maybe(), number(), traced, any::<bool>()).prop_map(
        |(steal, delay, switches, ticks, interrupts, hz, traced, here)| Accounts {
            steal_ns: steal.map(Nanos::from_nanos),
            probe_run_delay_ns: delay.map(Nanos::from_nanos),
            probe_involuntary_switches: switches,
            tick_hz: Some(Hertz::from_hz(hz)),
            interrupts: vec![InterruptCount { name: "9".to_owned(), about: String::new(), count: hz }],
            rt_throttle: Some(RtThrottle {
                runtime_us: Micros::from_micros(hz / 2),
                period_us: Micros::from_micros(hz),
            }),
            per_cpu: vec![CpuAccount {
                cpu: u32::from(here),
                steal_ns: steal.map(Nanos::from_nanos),
                ticks,
                interrupts,
            }],
            traced: traced
                .into_iter()
                .map(|total| TracedSource {
                    name: "x".to_owned(),
                    count: 1,
                    total_ns: Nanos::from_nanos(total),
                    longest_ns: Nanos::from_nanos(total),
                })
                .collect(),
            ..Accounts::default()
        },
    )
}

proptest! {
    #[test]
    fn shares_sum_to_one_and_nothing_is_taken_twice(
        gaps in prop::collection::vec((0u64..SECOND, prop_oneof![0u64..5000, 0u64..100_000_000]), 0..200),
        accounts in any_accounts()) {
        let detail = gap(&gaps, SECOND);
        let told = of_gap(&detail, &accounts);
        let given: u64 = told.sources.iter().map(|source| source.lost_ns.get()).sum();
        prop_assert_eq!(given + told.unattributed_ns.get(), told.lost_ns.get());
        prop_assert!(told.sources.iter().all(|source| source.share > 0.0 && source.share <= 1.0 && !source.evidence.is_empty()));
        if told.lost_ns > Nanos::ZERO {
            let rest = told.unattributed_ns.as_f64() / told.lost_ns.as_f64();
            let shares: f64 = told.sources.iter().map(|source| source.share).sum();
            prop_assert!((shares + rest - 1.0).abs() < 1e-9, "{} + {}", shares, rest);
        } else {
            prop_assert!(told.sources.is_empty());
        }
        let pooled = Histogram::merge_all(&detail.batches);
        let lost_share = stats::influence::influence(&pooled, units::Ticks::from_ticks(1000));
        let expected = lost_share * pooled.sum() as f64;
        prop_assert!((told.lost_ns.as_f64() - expected).abs() <= 1.0 + expected * 1e-9);
    }
}
