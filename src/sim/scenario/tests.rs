//! Studies: the same bytes on any number of threads, pairs, published figures, assumptions.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Options, Replication, Study};
use crate::model::scenario::cases;
use crate::model::simulation::Simulation;

const FILE: &str = r#"
name = "two"
about = "Two VMs share a CPU."
seed = 7
replications = 3

[host]
cpus = 1
policy = { name = "equal-per-vm", quantum_us = 1000 }

[[vm]]
name = "A"
vcpus = 1
thread = [{ run = { program = "fwq", work_us = 700, samples = 20, jitter_us = 5000 } }]

[[vm]]
name = "B"
vcpus = 1
thread = [{ run = { program = "endless" } }]

[[case]]
label = "short"
[[case]]
label = "long"
set = { "host.policy.quantum_us" = 4000 }

[[figure]]
title = "half of it"
metric = "vm.A.cpus"
case = { case = "long" }
published = 0.5
tolerance = 0.1
source = "arithmetic"

[[figure]]
title = "as much as with short turns"
metric = "vm.A.cpus"
over_case = { "host.policy.quantum_us" = 1000 }
published = 3
bound = "at-least"
source = "nobody"

[[figure]]
title = "only shown"
metric = "vm.A.sample_max_ns"
case = { "host.policy.quantum_us" = 4000.0 }
published = 1
source = "nobody"

[[assumption]]
key = "vm.B.weight"
why = "Nobody says."
try_factors = [0.5, 3.0]
"#;

const KEPT: Options = Options { stretches: 100, watched: 0, may_miss: false };

fn study() -> Study {
    Study::new(cases(FILE, &[]).unwrap(), KEPT).unwrap()
}

/// Every job, by so many threads, each taking the next one that nobody has taken.
fn simulated(study: &Study, threads: usize) -> Simulation {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<Option<Replication>>> = Mutex::new(vec![None; study.jobs().len()]);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    // From the last to the first, so that the order is not that of the list even with one thread.
                    let taken = next.fetch_add(1, Ordering::SeqCst);
                    let Some(number) = study.jobs().len().checked_sub(taken + 1) else { break };
                    let replication = study.run(number);
                    done.lock().unwrap()[number] = Some(replication);
                }
            });
        }
    });
    let done: Vec<Replication> = done.into_inner().unwrap().into_iter().map(Option::unwrap).collect();
    study.conclude(&done)
}

#[test]
fn the_same_seed_gives_the_same_bytes_on_any_number_of_threads() {
    let study = study();
    // Two cases and, for each of two factors, two cases, three times each.
    assert_eq!(study.jobs().len(), 18);
    let (one, four) = (simulated(&study, 1), simulated(&study, 4));
    assert_eq!(serde_json::to_string(&one).unwrap(), serde_json::to_string(&four).unwrap());
    let mut other = cases(FILE, &[]).unwrap();
    for case in &mut other {
        case.scenario.seed = 8;
    }
    let other = simulated(&Study::new(other, KEPT).unwrap(), 2);
    assert_ne!(other.cases[0].figures, one.cases[0].figures);
}

#[test]
fn the_same_replication_of_every_case_has_the_same_seed() {
    // Cases that do not differ yield the same, replication by replication, and the replications differ.
    let same = FILE.replace(
        "set = { \"host.policy.quantum_us\" = 4000 }",
        "set = { \"host.policy.quantum_us\" = 1000 }",
    );
    let same = same.replace("\"host.policy.quantum_us\" = 4000.0", "\"host.policy.quantum_us\" = 1000.0");
    let simulation = simulated(&Study::new(cases(&same, &[]).unwrap(), Options::default()).unwrap(), 2);
    let (short, long) = (&simulation.cases[0], &simulation.cases[1]);
    assert_eq!(short.figures, long.figures);
    let mean = short.figure("vm.A.sample_mean_ns").unwrap();
    assert_eq!(mean.values.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [0, 1, 2]);
    let differ = |a: usize, b: usize| (mean.values[a].1 - mean.values[b].1).abs() > 1.0;
    assert!(differ(0, 1) && differ(1, 2), "{:?}", mean.values);
}

#[test]
fn published_figures_are_held_against_the_cases_they_are_about() {
    let simulation = simulated(&study(), 2);
    let rows: Vec<(&str, &str, Option<bool>, &str)> = simulation
        .published
        .iter()
        .map(|figure| (figure.title.as_str(), figure.case.as_str(), figure.holds, figure.demanded.as_str()))
        .collect();
    assert_eq!(
        rows,
        [
            ("half of it", "long", Some(true), "± 0.100"),
            ("as much as with short turns", "short", Some(false), "at least 3"),
            ("as much as with short turns", "long", Some(false), "at least 3"),
            ("only shown", "long", None, ""),
        ]
    );
    assert_eq!(
        (simulation.published[1].simulated, simulation.published[1].half_width),
        (Some(1.0), Some(0.0))
    );
    assert!(simulation.published[0].half_width.unwrap() > 0.0);
    assert!(!simulation.is_met() && !simulation.had_trouble());
    assert_eq!(simulation.main_figures()[..2], ["vm.A.cpus", "vm.A.host_share"]);
}

#[test]
fn assumptions_are_changed_by_their_factors() {
    let simulation = simulated(&study(), 2);
    let [assumption] = simulation.assumptions.as_slice() else { panic!("one assumption") };
    assert_eq!((assumption.key.as_str(), assumption.value.as_str()), ("vm.B.weight", "1.0"));
    let [(half, light), (triple, heavy)] = assumption.sensitivity.as_slice() else { panic!("two factors") };
    assert_eq!((*half, *triple, light.len()), (0.5, 3.0, simulation.published.len()));
    let own = simulation.published[0].simulated.unwrap();
    // The other one weighs half as much, or three times as much.
    assert!(light[0].unwrap() > own + 0.05 && heavy[0].unwrap() < own - 0.1, "{light:?} {own} {heavy:?}");
}

#[test]
fn what_is_not_there_is_refused_before_anything_runs() {
    let refused = |text: &str| Study::new(cases(text, &[]).unwrap(), Options::default()).unwrap_err();
    let wrong = refused(&FILE.replace("key = \"vm.B.weight\"", "key = \"vm.B.height\""));
    assert_eq!(wrong.path, "assumption.0.key");
    let wrong = refused(&FILE.replace("case = { case = \"long\" }", "case = { case = \"lon\" }"));
    assert_eq!(wrong.path, "figure.0.case");
    assert!(wrong.problem.contains("\"short\", \"long\""), "{wrong}");
    let wrong = refused(&FILE.replace("try_factors = [0.5", "try_factors = [1e9"));
    assert!(wrong.to_string().contains("times 1000000000: vm.1.weight"), "{wrong}");
}
