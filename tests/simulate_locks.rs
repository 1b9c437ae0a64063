//! Lock-holder preemption against its published figures: what the scenario files say, simulated.
//!
//! The guest's free parameters are set from the single guest's column and stated sources; the two-guest figures must come
//! out of them (Friebel and Biemueller, How to Deal with Lock Holder Preemption, 2008).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use bulkhead::model::scenario::{BoundSpec, Case, FigureSpec, cases};
use bulkhead::model::simulation::WaitTimes;
use bulkhead::sim::scenario::{Replication, Wanted, run_host};

/// Each case of the first file is simulated with these; where one run is as telling as several, with the first one only.
const SEEDS: &[u64] = &[1, 2];

/// Means over the seeds, by case and figure, and the first seed's waiting times.
struct Simulated {
    cases: Vec<Case>,
    means: BTreeMap<(String, String), f64>,
    waits: BTreeMap<String, WaitTimes>,
}

impl Simulated {
    fn of(name: &str, seeds: &[u64]) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios").join(name);
        let cases =
            cases(&fs::read_to_string(path).expect("the scenario is there"), &[]).expect("it is right");
        let (mut means, mut waits) = (BTreeMap::new(), BTreeMap::new());
        for case in &cases {
            for seed in seeds {
                let Replication { figures, waits: of_seed, trouble, .. } =
                    run_host(&case.scenario, *seed, Wanted::default());
                assert_eq!(trouble, None, "{}", case.label);
                for figure in figures {
                    *means.entry((case.label.clone(), figure.id)).or_default() +=
                        figure.value / seeds.len() as f64;
                }
                if let Some(first) = of_seed.into_iter().next() {
                    waits.entry(case.label.clone()).or_insert(first);
                }
            }
        }
        Self { cases, means, waits }
    }

    fn mean(&self, case: &str, figure: &str) -> f64 {
        self.means[&(case.to_owned(), format!("vm.kernbench.{figure}"))]
    }

    /// Every published figure that demands something holds.
    fn check_published(&self) {
        let value = |case: &BTreeMap<String, toml::Value>, metric: &str| {
            let label = case["case"].as_str().expect("a label").to_owned();
            self.means[&(label, metric.to_owned())]
        };
        for figure in &self.cases[0].scenario.figures {
            let FigureSpec { title, metric, over, case, over_case, published, tolerance, bound, .. } = figure;
            let mut got = value(case, metric);
            if !over_case.is_empty() {
                got /= value(over_case, over.as_ref().unwrap_or(metric));
            }
            let holds = match (bound, tolerance) {
                (Some(BoundSpec::AtLeast), _) => got >= *published,
                (Some(BoundSpec::AtMost), _) => got <= *published,
                (None, Some(tolerance)) => (got - published).abs() <= *tolerance,
                (None, None) => true,
            };
            assert!(holds, "{title}: {got}, published {published}");
        }
    }
}

fn in_bins(waits: &WaitTimes, bins: std::ops::Range<usize>) -> u64 {
    waits.counts[bins].iter().sum()
}

#[test]
#[cfg_attr(debug_assertions, ignore = "a minute in debug builds, seconds in release builds")]
fn lock_holder_preemption_is_as_published() {
    let simulated = Simulated::of("lock-holder-preemption.toml", SEEDS);
    simulated.check_published();
    let spin = |case: &str| simulated.mean(case, "spin_share");
    let guest = |case: &str| simulated.mean(case, "cpu_ns");
    assert!(guest("helping") < guest("single guest") && guest("single guest") < guest("two guests"));
    assert!(simulated.mean("helping", "wall_ns") < simulated.mean("two guests", "wall_ns"));
    for remedy in ["pause-loop exiting", "delayed preemption", "co-scheduling"] {
        assert!(spin(remedy) < 0.01 && guest(remedy) < guest("two guests"), "{remedy}");
    }
    // Alone, waits end before 2^16 cycles, almost all.
    let alone = &simulated.waits["single guest"];
    assert!(in_bins(alone, 16..64) * 1000 < in_bins(alone, 0..64), "{alone:?}");
    assert_eq!(in_bins(alone, 22..64), 0);
    // Two humps: below 2^16 cycles, and from 2^24 to 2^26, with little between.
    let two = &simulated.waits["two guests"];
    let (first, valley, second) = (in_bins(two, 0..16), in_bins(two, 16..22), in_bins(two, 24..26));
    assert!(first > 20 * second && second > 4 * valley, "{first} {valley} {second}");
    assert!(second > in_bins(two, 16..24) && second > 10 * in_bins(two, 26..64), "{two:?}");
    // Nearly all of the time is waited in the second one.
    let time = |bins: std::ops::Range<usize>| two.time_ns[bins].iter().map(|time| time.get()).sum::<u64>();
    assert!(10 * time(23..64) > 9 * time(0..64));
    // Helping takes it away.
    assert!(in_bins(&simulated.waits["helping"], 24..64) * 10 < second);
}

#[test]
#[cfg_attr(debug_assertions, ignore = "a minute in debug builds, seconds in release builds")]
fn ticket_locks_collapse_and_helping_saves_them() {
    let simulated = Simulated::of("ticket-locks.toml", &SEEDS[..1]);
    simulated.check_published();
    let guest = |case: &str| simulated.mean(case, "cpu_ns");
    // The published order: without tickets, tickets with helping, tickets.
    assert!(guest("test-and-set") < guest("ticket") && guest("helping") < guest("ticket"));
    assert!(simulated.mean("helping", "spin_share") > 0.01, "a good part of the waiting is left");
    // Only who holds the lock is left on, so who waits is preempted as before.
    assert!(guest("delayed preemption") > 10.0 * guest("test-and-set"));
    for remedy in ["pause-loop exiting", "co-scheduling", "halting"] {
        let ratio = simulated.mean(remedy, "wall_ns") / simulated.mean("test-and-set", "wall_ns");
        assert!(ratio < 1.1, "{remedy}: {ratio}");
    }
}
