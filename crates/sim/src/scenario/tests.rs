//! Studies: the same bytes on any number of threads, pairs, published figures, assumptions.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Changes, Options, Replication, Study, Watch};
use model::scenario::{FigureLabel, cases};
use model::simulation::{Demand, Origin, Simulation, Unfinished};

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
label = "predicted"
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

const KEPT: Options = Options { stretches: 100, watched: 0, may_miss: false, changes: Changes::Stated };

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
    let assumption = &simulation.assumptions[0];
    assert_eq!((assumption.key.as_str(), assumption.value.as_str()), ("vm.B.weight", "1.0"));
    let [(half, light), (triple, heavy)] = assumption.sensitivity.as_slice() else { panic!("two factors") };
    assert_eq!((*half, *triple, light.len()), (0.5, 3.0, simulation.published.len()));
    let own = simulation.published[0].simulated.unwrap();
    // The other one weighs half as much, or three times as much.
    assert!(light[0].unwrap() > own + 0.05 && heavy[0].unwrap() < own - 0.1, "{light:?} {own} {heavy:?}");
}

#[test]
fn the_whole_interval_decides_whether_a_figure_holds() {
    let held = |published: f64, tolerance: f64, replications: u32| {
        let text = FILE
            .replace(
                "published = 0.5\ntolerance = 0.1",
                &format!("published = {published}\ntolerance = {tolerance}"),
            )
            .replace("replications = 3", &format!("replications = {replications}"));
        let study = Study::new(cases(&text, &[]).unwrap(), Options::default()).unwrap();
        let figure = simulated(&study, 2).published[0].clone();
        assert_eq!(figure.label, FigureLabel::Predicted);
        (figure.holds, figure.undecided, figure.simulated.unwrap(), figure.half_width)
    };
    let (_, _, mean, half) = held(0.5, 0.1, 3);
    let half = half.unwrap();
    assert!(half > 1e-6);
    assert_eq!(held(mean, 1.1 * half, 3).0, Some(true));
    // The mean is within, a part of the interval is not.
    assert_eq!(held(mean, 0.5 * half, 3).0, None);
    assert!(held(mean, 0.5 * half, 3).1);
    // The mean is outside, a part of the interval is not.
    assert_eq!(held(mean + half, 0.5 * half, 3).0, None);
    assert_eq!(held(mean + 2.0 * half, 0.5 * half, 3).0, Some(false));
    assert_eq!(held(mean, 0.5, 1).0, None);
    assert!(held(mean, 0.5, 1).1, "one replication has no interval");
}

#[test]
fn what_is_demanded_may_be_another_value_than_the_published_one() {
    let text = FILE.replace("published = 3\n", "published = 3\ndemand = 0.5\n");
    let study = Study::new(cases(&text, &[]).unwrap(), Options::default()).unwrap();
    let figure = &simulated(&study, 2).published[1];
    assert!((figure.published - 3.0).abs() < 1e-12 && figure.holds == Some(true), "{figure:?}");
    assert_eq!(figure.demanded, "at least 0.500");
    assert_eq!(figure.demand, Some(Demand { least: Some(0.5), most: None }));
    let unclear = text.replace("bound = \"at-least\"\n", "");
    let wrong = cases(&unclear, &[]).unwrap_err();
    assert!(wrong.problem.contains("figure.1.demand") && wrong.problem.contains("at-most"), "{wrong}");
}

#[test]
fn every_parameter_is_listed_with_its_origin_and_defaults_are_changed_by_a_little() {
    let options = Options { changes: Changes::All, ..KEPT };
    let study = Study::new(cases(FILE, &[]).unwrap(), options).unwrap();
    let simulation = simulated(&study, 2);
    let of = |key: &str| simulation.assumptions.iter().find(|one| one.key == key);
    let switch = of("host.switch_ns").unwrap();
    assert_eq!((switch.origin, switch.value.as_str()), (Origin::Default, "0"));
    let [tried] = switch.tried.as_slice() else { panic!("one change of {switch:?}") };
    assert_eq!((tried.change.as_str(), tried.simulated.len()), ("set to 1000", simulation.published.len()));
    // A microsecond at every change of turns is lost to both.
    assert_ne!(tried.simulated[0], simulation.published[0].simulated);
    assert_eq!(of("host.staggered").unwrap().tried[0].change, "set to true");
    let question = of("vm.*.reserved_cpus").unwrap();
    assert!(question.tried.is_empty() && question.untried.is_some(), "{question:?}");
    let quantum = of("host.policy.quantum_us").unwrap();
    assert_eq!((quantum.origin, quantum.value.as_str()), (Origin::Set, "1000, 4000"));
    // There are no locks; B's weight is assumed, A's is a default of its own.
    assert!(of("host.mhz").is_none() && of("vm.*.weight").is_none());
    assert_eq!(of("vm.A.weight").map(|weight| weight.origin), Some(Origin::Default));
}

#[test]
fn assumptions_are_changed_to_their_values_or_by_a_little_where_none_is_stated() {
    let tried = |lines: &str, changes: Changes| {
        let text = FILE.replace("try_factors = [0.5, 3.0]", lines);
        let options = Options { changes, ..KEPT };
        let simulation = simulated(&Study::new(cases(&text, &[]).unwrap(), options).unwrap(), 2);
        simulation.assumptions[0].changes().map(|(words, _)| words).collect::<Vec<_>>()
    };
    assert_eq!(tried("try_values = [2.5, 7.0]", Changes::All), ["set to 2.5", "set to 7.0"]);
    assert_eq!(tried("", Changes::All), ["times 0.5"]);
    assert!(tried("", Changes::Stated).is_empty());
    assert!(tried("try_values = [2.5, 7.0]", Changes::None).is_empty());
    let wrong = FILE.replace("try_factors = [0.5, 3.0]", "try_values = [\"heavy\"]");
    let wrong = Study::new(cases(&wrong, &[]).unwrap(), KEPT).unwrap_err();
    assert_eq!(wrong.path, "assumption.0.try_values");
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

#[test]
fn a_brake_stops_a_host_in_the_middle_of_a_moment_and_says_what_was_had() {
    let text = r#"
name = "large"
host = { cpus = 2, policy = { name = "credit2", slice_us = 1000 } }
[[vm]]
name = "A"
count = 9
vcpus = 100
thread = [{ run = { program = "endless" } }]
"#;
    let scenario = cases(text, &[]).unwrap().remove(0).scenario;
    let brake = crate::brake::Brake::default();
    brake.pull();
    let stopped = Watch::new(&scenario, 1, 0).finish(&brake);
    let words = stopped.trouble.unwrap();
    assert!(stopped.interrupted && stopped.events == 0 && words.contains("nobody waits"), "{words}");
    assert!(
        words.ends_with("CPUs had so far: A-1 0.000, A-2 0.000, A-3 0.000, A-4 0.000, 5 more VMs"),
        "{words}"
    );
}

#[test]
fn what_cannot_differ_is_simulated_once_and_counts_for_all_replications() {
    let text = FILE.replace("jitter_us = 5000", "jitter_us = 0");
    let study = Study::new(cases(&text, &[]).unwrap(), KEPT).unwrap();
    // Two cases, and two changes of the one that figures are about and the other that is their divisor.
    assert_eq!(study.jobs().len(), 2 + 2 * 2);
    let simulation = simulated(&study, 2);
    assert_eq!(simulation.once, ["short", "long"]);
    let case = &simulation.cases[1];
    let values = &case.figure("vm.A.cpus").unwrap().values;
    assert!(
        values.len() == 3 && values.iter().all(|(_, value)| value.to_bits() == values[0].1.to_bits()),
        "{values:?}"
    );
    let one =
        Study::new(cases(&text.replace("replications = 3", "replications = 1"), &[]).unwrap(), KEPT).unwrap();
    let one = simulated(&one, 1);
    assert_eq!(one.cases[1].events, case.events, "it was simulated once");
    // It has an interval, of no width: with one replication, too.
    assert!(
        one.published[0].half_width == Some(0.0) && one.published[0].holds.is_some(),
        "{:?}",
        one.published[0]
    );
    // What would be random where a parameter is changed is simulated as often as is said.
    let staggered = text.replace("key = \"vm.B.weight\"", "key = \"host.staggered\"");
    let staggered = staggered.replace("try_factors = [0.5, 3.0]", "try_values = [true]");
    assert_eq!(Study::new(cases(&staggered, &[]).unwrap(), KEPT).unwrap().jobs().len(), 2 + 2 * 3);
}

#[test]
fn what_was_done_of_an_interrupted_study_is_told_and_no_more() {
    let study = study();
    let all: Vec<Replication> = (0..study.jobs().len()).map(|number| study.run(number)).collect();
    let whole = study.conclude(&all);
    assert_eq!(whole.unfinished, None);
    // Two replications of the first case: the figure about the second one, and changes, are not there.
    let some: Vec<Option<Replication>> =
        all.iter().enumerate().map(|(at, one)| (at < 2).then(|| one.clone())).collect();
    let partly = study.conclude_partly(&some);
    assert_eq!(partly.unfinished, Some(Unfinished { done: 2, of: study.jobs().len() as u64 }));
    let values = |simulation: &Simulation| simulation.cases[0].figure("vm.A.cpus").unwrap().values.clone();
    assert_eq!(values(&partly), values(&whole)[..2]);
    assert!(
        partly.cases[1].figures.is_empty() && partly.published.iter().all(|figure| figure.case == "short")
    );
    let assumed = &partly.assumptions[0];
    assert!(assumed.changes().next().is_none() && assumed.untried.is_some(), "{assumed:?}");
    // One that was interrupted on its way is not done.
    let mut broken: Vec<Option<Replication>> = all.into_iter().map(Some).collect();
    broken[0].as_mut().unwrap().interrupted = true;
    let broken = study.conclude_partly(&broken);
    assert_eq!(values(&broken), values(&whole)[1..]);
}

#[test]
fn figures_that_nothing_yields_are_refused_before_anything_runs() {
    let of = |text: &str, may_miss: bool| Study::new(cases(text, &[]).unwrap(), Options { may_miss, ..KEPT });
    let typo = FILE.replacen("metric = \"vm.A.cpus\"", "metric = \"vm.A.cpu\"", 1);
    for may_miss in [false, true] {
        let wrong = of(&typo, may_miss).unwrap_err();
        assert_eq!(wrong.path, "figure.0.metric");
        assert!(wrong.problem.contains("did you mean 'vm.A.cpus'?"), "{wrong}");
    }
    let over = FILE.replace("over_case = {", "over = \"vm.A.spin_ns\"\nover_case = {");
    let wrong = of(&over, false).unwrap_err();
    assert!(
        wrong.path == "figure.1.over"
            && wrong.problem.contains("only a VM with locks, or with unmap yields it"),
        "{wrong}"
    );
    // Somebody may have taken the VM away.
    let gone = FILE.replacen("metric = \"vm.A.cpus\"", "metric = \"vm.C.cpus\"", 1);
    assert!(of(&gone, false).is_err() && of(&gone, true).is_ok());
}
