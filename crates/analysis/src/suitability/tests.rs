//! Verdicts on made-up figures: each level, each kind of comparison, the worst neighbour, tails and miss rates.

use super::super::exceedance;
use super::super::made_run::{CPU, DISK, broken, cell, measured, run, with_late};
use super::*;
use model::classes::{Held, Suitability};
use model::journal::FailureKind;
use probes::ProbeKind;
use units::layout::Layout;
use units::scheduling::Scheduling;

const TAIL: &str = r#"
    [[class]]
    name = "rt"
    title = "Real time"
    about = "x"
    [class.deadline]
    deadline_us = 10_000
    miss_rate = 1e-3
    [[class.condition]]
    title = "in time"
    why = "y"
    neighbours = "all"
    tail = [
      { miss_rate = 1e-1, metric = "gap.bound_90_ns" },
      { miss_rate = 1e-3, metric = "gap.bound_99_9_ns" },
      { miss_rate = 1e-4, metric = "gap.bound_99_99_ns" },
      { miss_rate = 0.0, metric = "gap.max_gap_ns" },
    ]
"#;

fn class(conditions: &str) -> ClassSet {
    let text = format!("[[class]]\nname = \"c\"\ntitle = \"C\"\nabout = \"x\"\n{conditions}");
    ClassSet::from_toml(&text).unwrap()
}

fn condition(metric: &str, rest: &str) -> String {
    format!("[[class.condition]]\ntitle = \"{metric} is good\"\nwhy = \"y\"\nmetric = \"{metric}\"\n{rest}\n")
}

fn on_vm(run: &RunResults, set: &ClassSet) -> ClassVerdict {
    judge(run, set).into_iter().find(|verdict| verdict.platform == "vm").unwrap()
}

fn tail_run(alone: [f64; 4], beside: [f64; 4]) -> RunResults {
    let mut run = run();
    for (neighbour, values) in [(None, alone), (Some(CPU), beside)] {
        let cell = cell("vm", ProbeKind::Gap, neighbour);
        for (id, value) in ["bound_90_ns", "bound_99_9_ns", "bound_99_99_ns", "max_gap_ns"].iter().zip(values)
        {
            if value > 0.0 {
                measured(&mut run, &cell, id, value);
            }
        }
    }
    run
}

#[test]
fn a_tail_within_the_deadline_is_suited_and_says_how_far_it_is_from_it() {
    let run = tail_run([1e3, 1e4, 1e5, 1e6], [1e3, 5e6, 8e6, 9e6]);
    let verdict = on_vm(&run, &ClassSet::from_toml(TAIL).unwrap());
    assert_eq!(verdict.level, Suitability::Suited, "{}", verdict.sentence);
    let [condition] = verdict.conditions.as_slice() else { panic!("one condition") };
    let deciding = condition.decided_by.as_ref().unwrap();
    assert_eq!((deciding.cell.neighbour, deciding.metric.as_str()), (Some(CPU), "bound_99_9_ns"));
    assert!((condition.factor.unwrap() - 0.5).abs() < 0.01);
    assert!(verdict.would_change.contains("factor of 2.0") || verdict.would_change.contains("factor of 2 "));
    assert_eq!(condition.bound, "at most 10 ms, 1 in 1000 may be late");
}

#[test]
fn the_worst_neighbour_counts_and_what_helps_is_said() {
    let run = tail_run([1e3, 1e4, 1e5, 1e6], [1e3, 3e7, 8e7, 9e7]);
    let verdict = on_vm(&run, &ClassSet::from_toml(TAIL).unwrap());
    assert_eq!(verdict.level, Suitability::Unsuited);
    assert_eq!(verdict.conditions[0].broken_in, [cell("vm", ProbeKind::Gap, Some(CPU))]);
    assert!(verdict.sentence.contains("beside a cpu load in a second instance"), "{}", verdict.sentence);
    assert!(
        verdict.would_change.contains("Kept away from a cpu load in a second instance it is suited"),
        "{}",
        verdict.would_change
    );
    assert!(verdict.would_change.contains("a deadline of 30."), "{}", verdict.would_change);
}

#[test]
fn a_stricter_miss_rate_asks_for_a_stricter_figure() {
    let run = tail_run([1e3, 1e4, 1e5, 1e6], [1e3, 5e6, 2e7, 9e7]);
    for (rate, level, metric) in [
        ("1e-1", Suitability::Suited, "bound_90_ns"),
        ("1e-3", Suitability::Suited, "bound_99_9_ns"),
        ("5e-4", Suitability::Unsuited, "bound_99_99_ns"),
        ("1e-9", Suitability::Unsuited, "max_gap_ns"),
    ] {
        let set = ClassSet::from_toml(&TAIL.replacen("1e-3", rate, 1)).unwrap();
        let verdict = on_vm(&run, &set);
        let deciding = verdict.conditions[0].decided_by.as_ref().unwrap();
        assert_eq!((verdict.level, deciding.metric.as_str()), (level, metric), "{rate}");
    }
}

#[test]
fn where_the_figure_is_missing_a_stricter_one_may_say_yes_and_a_looser_one_no() {
    let set = ClassSet::from_toml(TAIL).unwrap();
    // No bound_99_9: bound_99_99 is short enough.
    let verdict = on_vm(&tail_run([1e3, 0.0, 1e5, 1e6], [1e3, 0.0, 8e6, 9e7]), &set);
    assert_eq!(verdict.level, Suitability::Suited);
    // bound_90 is too long already.
    let verdict = on_vm(&tail_run([1e3, 0.0, 0.0, 1e6], [2e7, 0.0, 0.0, 9e7]), &set);
    assert_eq!(verdict.level, Suitability::Unsuited);
    // The longest gap being short proves nothing for a share.
    let verdict = on_vm(&tail_run([1e3, 0.0, 0.0, 1e6], [1e3, 0.0, 0.0, 9e6]), &set);
    assert_eq!(verdict.level, Suitability::Unknown);
}

/// Wake-ups without a quantile, alone and beside a neighbour: this share of so many draws was late.
fn late_run(alone: (f64, u64), beside: (f64, u64)) -> RunResults {
    let mut run = run();
    for (neighbour, (share, draws)) in [(None, alone), (Some(CPU), beside)] {
        let cell = cell("vm", ProbeKind::Wakeup, neighbour);
        measured(&mut run, &cell, "max_gap_ns", 2e6);
        with_late(&mut run, &cell, share, draws);
    }
    run
}

#[test]
fn where_a_tail_has_no_interval_the_share_beyond_the_deadline_decides() {
    let set = ClassSet::from_toml(&TAIL.replace("gap.", "wakeup.")).unwrap();
    for (beside, level, words) in [
        ((0.0, 3000), Suitability::Suited, "with 95 % confidence at most 1 in 1000 activations is later"),
        (
            (0.01, 3000),
            Suitability::Unsuited,
            "1 in 100 activations is later than 10 ms, with 95 % confidence at least 1 in 139",
        ),
        (
            (0.0, 300),
            Suitability::Unknown,
            "at most 1 in 100 activations is later than 10 ms; at most 1 in 1000 may be",
        ),
    ] {
        let verdict = on_vm(&late_run((0.0, 3000), beside), &set);
        assert_eq!(verdict.level, level, "{}", verdict.sentence);
        assert!(verdict.conditions[0].measured.contains(words), "{}", verdict.conditions[0].measured);
    }
    // What was seen at other times than the deadline says nothing of it, and a share that must be none cannot be shown.
    let strict = ClassSet::from_toml(&TAIL.replace("gap.", "wakeup.").replacen("1e-3", "0.0", 1)).unwrap();
    let verdict = on_vm(&late_run((0.0, 3000), (0.0, 3000)), &strict);
    assert_eq!(verdict.conditions[0].decided_by.as_ref().unwrap().metric, "max_gap_ns");
}

#[test]
fn an_undecided_verdict_says_how_much_measuring_decides_it() {
    let set = ClassSet::from_toml(&TAIL.replace("gap.", "wakeup.")).unwrap();
    // 2995 draws are needed, nine rounds gave 300 and take a second each: 81 more rounds, in both cells.
    let verdict = on_vm(&late_run((0.0, 300), (0.0, 300)), &set);
    let open: Vec<_> = verdict.conditions[0].open.iter().map(|open| open.needs_rounds).collect();
    assert_eq!(open, [Some(81), Some(81)]);
    assert_eq!(verdict.needs_words().as_deref(), Some("3 min"));
    assert!(verdict.sentence.contains("undecided (needs 3 min more): "), "{}", verdict.sentence);
    assert!(verdict.would_change.contains("3 min more of measuring"), "{}", verdict.would_change);
    // One that leans towards broken is enough.
    let verdict = on_vm(&late_run((0.0, 300), (0.003, 300)), &set);
    let [_, leaning] = verdict.conditions[0].open.as_slice() else { panic!("two are open") };
    assert!(leaning.leans_broken);
    assert_eq!(verdict.needs_ns, leaning.needs_ns);
    // One that lies on the bound is never decided, and keeps the whole from being.
    let verdict = on_vm(&late_run((0.0, 300), (0.001, 300)), &set);
    assert_eq!((verdict.level, verdict.needs_ns), (Suitability::Unknown, None));
    assert!(verdict.sentence.contains("it lies on the bound"), "{}", verdict.sentence);
}

#[test]
fn an_interval_that_contains_the_bound_gets_narrower_like_the_root_of_the_rounds() {
    let mut run = run();
    let disk = cell("vm", ProbeKind::Disk, None);
    measured(&mut run, &disk, "longest_stall_ns", 1000.0);
    run.cells[0].took_ns = Some(units::Nanos::from_nanos(2_000_000_000));
    let estimate = *run.cells[0].metrics[0].estimate.estimate().unwrap();
    // Half as far from the value as the interval's end: four times as many rounds as nine.
    let bound = (estimate.value * estimate.high).sqrt();
    let set = |bound: f64| class(&condition("disk.longest_stall_ns", &format!("at_most = {bound:.9}")));
    let verdict = on_vm(&run, &set(bound));
    assert_eq!(verdict.conditions[0].open[0].needs_rounds, Some(27), "{}", verdict.sentence);
    assert_eq!(verdict.needs_words().as_deref(), Some("54 s"));
    let verdict = on_vm(&run, &set(estimate.value));
    assert_eq!(verdict.needs_ns, None);
    assert!(verdict.reason.contains("it lies on the bound"), "{}", verdict.reason);
}

#[test]
fn without_a_neighbour_a_promise_beside_neighbours_is_not_made() {
    let mut run = tail_run([1e3, 1e4, 1e5, 1e6], [0.0; 4]);
    let set = ClassSet::from_toml(TAIL).unwrap();
    let verdict = on_vm(&run, &set);
    assert_eq!(verdict.level, Suitability::Unknown);
    assert!(verdict.would_change.contains("add a [[load]]"), "{}", verdict.would_change);
    // An idle neighbour is a control and none.
    let idle = Neighbour { kind: units::names::LoadKind::Idle, ..CPU };
    measured(&mut run, &cell("vm", ProbeKind::Gap, Some(idle)), "bound_99_9_ns", 1e4);
    assert_eq!(on_vm(&run, &set).level, Suitability::Unknown);
}

#[test]
fn an_instance_that_dies_beside_a_neighbour_is_not_suited() {
    let mut run = tail_run([1e3, 1e4, 1e5, 1e6], [1e3, 1e4, 1e5, 1e6]);
    let set = ClassSet::from_toml(TAIL).unwrap();
    broken(&mut run, &cell("vm", ProbeKind::Gap, Some(DISK)), FailureKind::Died);
    let verdict = on_vm(&run, &set);
    assert_eq!(verdict.level, Suitability::Unsuited);
    assert!(verdict.sentence.contains("did not survive: the reason"), "{}", verdict.sentence);
    // One that could not be measured says nothing about the platform.
    run.cells.pop();
    run.failures.pop();
    broken(&mut run, &cell("vm", ProbeKind::Gap, Some(DISK)), FailureKind::Refused);
    assert_eq!(on_vm(&run, &set).level, Suitability::Unknown);
}

#[test]
fn an_interval_that_contains_the_bound_decides_nothing() {
    let mut run = run();
    measured(&mut run, &cell("vm", ProbeKind::Disk, None), "longest_stall_ns", 1000.0);
    for (bound, held) in [(1020.0, Held::Yes), (1000.0, Held::Unclear), (980.0, Held::No)] {
        let set = class(&condition("disk.longest_stall_ns", &format!("at_most = {bound:.1}")));
        let verdict = on_vm(&run, &set);
        assert_eq!(verdict.conditions[0].held, held, "{bound}: {}", verdict.conditions[0].measured);
    }
    let set = class(&condition("disk.longest_stall_ns", "at_least = 1020.0"));
    assert_eq!(on_vm(&run, &set).level, Suitability::Unsuited);
}

#[test]
fn ratios_to_the_baseline_come_from_pairs_and_the_baseline_is_itself() {
    let mut run = run();
    measured(&mut run, &cell("native", ProbeKind::Cpu, None), "time_all_cpus_ns", 1e6);
    measured(&mut run, &cell("vm", ProbeKind::Cpu, None), "time_all_cpus_ns", 1.08e6);
    let set = class(&condition("cpu.time_all_cpus_ns", "against = \"baseline\"\nat_most = 1.1"));
    let verdicts = judge(&run, &set);
    assert_eq!(verdicts.iter().map(|v| v.level).collect::<Vec<_>>(), [Suitability::Suited; 2]);
    assert!(verdicts[0].conditions[0].measured.contains("the baseline itself"));
    assert!(verdicts[1].conditions[0].measured.contains("1.08 × the baseline"));
    let strict = class(&condition("cpu.time_all_cpus_ns", "against = \"baseline\"\nat_most = 1.05"));
    assert_eq!(on_vm(&run, &strict).level, Suitability::Unsuited);
}

#[test]
fn a_fair_share_is_one_nth_beside_a_neighbour_and_among_instances() {
    let mut run = run();
    let alone = cell("vm", ProbeKind::Cpu, None);
    let four = model::journal::Cell { layout: Layout::new(1, 4), ..alone.clone() };
    measured(&mut run, &alone, "time_all_cpus_ns", 1e6);
    measured(&mut run, &cell("vm", ProbeKind::Cpu, Some(CPU)), "time_all_cpus_ns", 2e6);
    let fair =
        condition("cpu.time_all_cpus_ns", "against = \"fair-share\"\nat_least = 0.95\nneighbours = \"all\"");
    assert_eq!(on_vm(&run, &class(&fair)).level, Suitability::Suited);
    measured(&mut run, &four, "time_all_cpus_ns", 5e6);
    let verdict = on_vm(&run, &class(&fair));
    assert_eq!(verdict.level, Suitability::Unsuited, "4/5 of a quarter");
    assert!(verdict.sentence.contains("0.800 × its fair share"), "{}", verdict.sentence);
    assert!(verdict.sentence.contains("in layout 1x4"), "{}", verdict.sentence);
}

#[test]
fn levels_follow_from_required_some_and_wanted_conditions() {
    let mut run = run();
    for (probe, id) in [
        (ProbeKind::Cpu, "time_one_thread_ns"),
        (ProbeKind::Syscall, "call_ns"),
        (ProbeKind::Fork, "fork_ns"),
        (ProbeKind::Fwq, "quantum_ns"),
    ] {
        measured(&mut run, &cell("vm", probe, None), id, 100.0);
    }
    let make = |required: u32, some: [u32; 2], wanted: u32| {
        let at = |bound: u32, weight: &str| format!("at_most = {bound}.0\nweight = \"{weight}\"");
        class(
            &[
                condition("cpu.time_one_thread_ns", &at(required, "required")),
                condition("syscall.call_ns", &at(some[0], "some")),
                condition("fork.fork_ns", &at(some[1], "some")),
                condition("fwq.quantum_ns", &at(wanted, "wanted")),
            ]
            .concat(),
        )
    };
    let (good, bad) = (200, 50);
    for (set, level, decider) in [
        (make(good, [good, good], good), Suitability::Suited, 0),
        (make(good, [bad, good], good), Suitability::Suited, 0),
        (make(good, [bad, 80], good), Suitability::Unsuited, 1),
        (make(good, [bad, 100], good), Suitability::Unknown, 2),
        (make(good, [good, good], bad), Suitability::Limited, 3),
        (make(good, [good, good], 100), Suitability::Suited, 0),
        (make(100, [good, good], bad), Suitability::Unknown, 0),
        (make(bad, [bad, bad], bad), Suitability::Unsuited, 0),
    ] {
        let verdict = on_vm(&run, &set);
        assert_eq!((verdict.level, verdict.decided_by), (level, Some(decider)), "{}", verdict.sentence);
    }
}

#[test]
fn what_was_not_measured_is_said_with_the_probe_to_add() {
    let mut run = run();
    measured(&mut run, &cell("vm", ProbeKind::Cpu, None), "time_one_thread_ns", 100.0);
    let set = class(
        &[
            condition("frames.frame_p99_ns", "at_most = 1.0"),
            condition("cpu.time_one_thred_ns", "at_most = 1.0"),
        ]
        .concat(),
    );
    let verdict = on_vm(&run, &set);
    assert_eq!(verdict.level, Suitability::Unknown);
    assert!(verdict.would_change.contains("add [probe.frames]"), "{}", verdict.would_change);
    assert!(
        verdict.conditions[1].measured.contains("did you mean \"time_one_thread_ns\"?"),
        "{}",
        verdict.conditions[1].measured
    );
}

#[test]
fn figures_of_other_priorities_leave_a_condition_open_and_say_what_to_do() {
    let mut run = run();
    for (platform, value) in [("native", 100.0), ("vm", 101.0)] {
        measured(&mut run, &cell(platform, ProbeKind::Wakeup, None), "response_p99_ns", value);
    }
    let wanted = condition("wakeup.response_p99_ns", "against = \"baseline\"\nat_most = 1.5");
    assert_eq!(on_vm(&run, &class(&wanted)).level, Suitability::Suited);
    run.cells[0].scheduling = vec![Scheduling::Fifo { priority: 80 }];
    run.cells[1].scheduling = vec![Scheduling::Normal];
    let verdict = on_vm(&run, &class(&wanted));
    assert_eq!((verdict.level, verdict.conditions[0].held), (Suitability::Unknown, Held::NotMeasured));
    assert!(verdict.reason.contains("not comparable: normal priority against FIFO 80"), "{}", verdict.reason);
    assert!(verdict.would_change.contains("CAP_SYS_NICE"), "{}", verdict.would_change);
}

#[test]
fn what_was_left_out_is_named_with_the_command_that_measures_it() {
    let mut run = run();
    for platform in ["native", "vm"] {
        measured(&mut run, &cell(platform, ProbeKind::Cpu, None), "time_all_cpus_ns", 1e6);
        measured(&mut run, &cell(platform, ProbeKind::Gap, None), "lost_share", 0.01);
    }
    let conditions = [
        condition("linpack.solve_ns", "against = \"baseline\"\nat_most = 1.1"),
        condition("cpu.time_all_cpus_ns", "against = \"baseline\"\nat_most = 1.1"),
        condition("linpack.residual_count", "at_most = 1.1\nweight = \"wanted\""),
        condition("gap.lost_share", "at_most = 0.05\nneighbours = \"@second\""),
    ];
    let verdict = on_vm(&run, &class(&conditions.join("")));
    assert_eq!(verdict.level, Suitability::Unknown);
    let words = verdict.missing_words().unwrap();
    assert_eq!(words, "not measured: linpack, gap beside a neighbour");
    let command = "bulkhead measure --experiment full --probe linpack --probe cpu --probe gap";
    assert_eq!(verdict.measure_with.as_deref(), Some(command));
    // A broken condition decides, and what is missing is told all the same.
    let slow = condition("cpu.time_all_cpus_ns", "at_most = 1.0");
    let verdict = on_vm(&run, &class(&[conditions[0].as_str(), slow.as_str()].join("")));
    assert_eq!((verdict.level, verdict.missing.len()), (Suitability::Unsuited, 1));
    let whole = on_vm(&run, &class(&conditions[1]));
    assert_eq!((whole.missing_words(), whole.measure_with), (None, None));
}

#[test]
fn that_none_was_missed_proves_no_more_than_how_many_there_were() {
    let set = class(&condition("wakeup.missed_share", "at_most = 0.01"));
    for (draws, level) in [(100, Suitability::Unknown), (1000, Suitability::Suited)] {
        let mut run = run();
        let cell = cell("vm", ProbeKind::Wakeup, None);
        measured(&mut run, &cell, "missed_share", 0.0);
        with_late(&mut run, &cell, 0.0, draws);
        let verdict = on_vm(&run, &set);
        assert_eq!(verdict.level, level, "{draws}: {}", verdict.sentence);
        assert_eq!(verdict.needs_ns.is_some(), level == Suitability::Unknown, "{draws}");
    }
    // Half of a hundred is too many, whatever the rounds have in their middle.
    let mut run = run();
    let cell = cell("vm", ProbeKind::Wakeup, None);
    measured(&mut run, &cell, "missed_share", 0.0);
    with_late(&mut run, &cell, 0.5, 100);
    assert_eq!(on_vm(&run, &set).level, Suitability::Unsuited);
}

#[test]
fn a_share_of_missed_ones_is_that_of_all_rounds_and_never_surely_none() {
    let mut run = run();
    let cell = cell("vm", ProbeKind::Wakeup, None);
    measured(&mut run, &cell, "missed_share", 0.0);
    with_late(&mut run, &cell, 0.0, 100);
    let known = run.cells.iter().find_map(|result| result.exceedance.as_ref()).unwrap();
    let none = exceedance::missed(known, 0.0).unwrap();
    assert_eq!((none.value, none.low), (0.0, 0.0));
    assert!((0.02..0.05).contains(&none.high), "{none:?}");
    let some = exceedance::missed(known, 0.07).unwrap();
    assert!((some.value - 0.07).abs() < 1e-9 && some.low <= 0.07 && some.high >= 0.07, "{some:?}");
}
