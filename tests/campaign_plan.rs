//! The order and the stop rule: properties that hold for every seed, every prefix of a run, every outcome.

use std::collections::BTreeSet;
use std::time::Duration;

use bulkhead::campaign::event::Stop;
use bulkhead::campaign::history::{Entry, Finding, History};
use bulkhead::campaign::plan::{Group, Next, Plan};
use bulkhead::model::experiment::Experiment;
use bulkhead::model::journal::{Cell, LookRounds, VerdictLook};
use bulkhead::stats::pairs::compare;
use bulkhead::units::Nanos;
use bulkhead::units::metric::Better;
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

fn experiment(seed: u64, min: u32, max: u32, target: f64, budget_s: u32) -> Experiment {
    let text = format!(
        "seed = {seed}\n[repeat]\nmin = {min}\nmax = {max}\ntarget_percent = {target:?}\nbudget_s = {budget_s}\n\
         [[platform]]\nlabel = \"a\"\nkind = \"fake\"\n[[platform]]\nlabel = \"b\"\nkind = \"fake\"\n\
         [[platform]]\nlabel = \"c\"\nkind = \"fake\"\n\
         [probe.gap]\n[probe.fwq]\n[probe.fork]\n[[load]]\nkind = \"cpu\"\nprobes = [\"gap\"]"
    );
    Experiment::from_toml(&text).unwrap()
}

fn plan(experiment: &Experiment) -> Plan {
    Plan::new(experiment, &["a".to_owned(), "b".to_owned(), "c".to_owned()], "a")
}

/// A value that is a function of the measurement alone, as deterministic platforms yield it.
fn finding(cell: &Cell, round: u32, noise: u64) -> Finding {
    let text = format!("{cell:?}{round}");
    let hash =
        text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
    match hash % 11 {
        0 => Finding::Failed,
        1 => Finding::NoFigure,
        _ => Finding::Value(1000.0 + (hash >> 8 & 0xff) as f64 * noise as f64 / 100.0),
    }
}

/// A look that asks for two rounds of gaps beside the load and one of `fork`; the third asks for nothing.
fn look_at(plan: &Plan, history: &History) -> VerdictLook {
    let number = u32::try_from(history.looks().len()).unwrap() + 1;
    let mut rounds = Vec::new();
    let wanted = |group: &Group| group.neighbour.is_some() || group.probe.as_str() == "fork";
    for group in plan.groups().filter(|group| wanted(group) && number < 3) {
        let from_round = plan.next_round(group, history);
        let until_round = from_round + if group.neighbour.is_some() { 2 } else { 1 };
        let Group { probe, neighbour, layout } = group;
        // What `fork` costs is open on two platforms only.
        let platforms: &[&str] = if neighbour.is_some() { &["a", "b", "c"] } else { &["a", "c"] };
        let platforms = platforms.iter().map(ToString::to_string).collect();
        rounds.push(LookRounds { probe, neighbour, layout, platforms, from_round, until_round });
    }
    VerdictLook { number, measurements: history.len() as u64, rounds }
}

const SECOND: Nanos = Nanos::from_nanos(1_000_000_000);

/// Follows the plan, forgetting everything but the history at each step in which `interrupts` says so.
fn complete(plan: &Plan, noise: u64, interrupted_after: &BTreeSet<usize>) -> (BTreeSet<(Cell, u32)>, Stop) {
    let mut history = History::default();
    let mut done = BTreeSet::new();
    loop {
        match plan.next(&history) {
            Next::Done(stop) => return (done, stop),
            Next::Look => history.add_look(look_at(plan, &history)),
            Next::Measure { round, cells } => {
                assert!(!cells.is_empty());
                for cell in cells {
                    let entry = Entry { duration: SECOND, finding: finding(&cell, round, noise) };
                    assert!(done.insert((cell.clone(), round)), "{cell:?} twice in round {round}");
                    history.insert(&cell, round, entry);
                    if interrupted_after.contains(&done.len()) {
                        break;
                    }
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn every_round_has_every_cell_once_and_pairs_are_adjacent(seed in 0..u64::MAX / 2, round in 0u32..1000) {
        let experiment = experiment(seed, 1, 1000, 1.0, 100);
        let order = plan(&experiment).order(round);
        let wanted: BTreeSet<Cell> = experiment.cells().into_iter().collect();
        prop_assert_eq!(order.len(), wanted.len());
        prop_assert_eq!(order.iter().cloned().collect::<BTreeSet<_>>(), wanted);
        for group in order.chunks(3) {
            prop_assert!(group.iter().all(|cell| Group::from(cell) == Group::from(&group[0])));
        }
    }

    #[test]
    fn the_order_is_a_function_of_seed_and_round(seed in 0..u64::MAX / 2, round in 0u32..100) {
        let order = |seed, min, round| plan(&experiment(seed, min, 1000, 1.0, 100)).order(round);
        prop_assert_eq!(order(seed, 1, round), order(seed, 5, round));
    }

    #[test]
    fn any_interruption_leads_to_the_same_set(
        seed in 0..u64::MAX / 2,
        noise in 0u64..300,
        stops in proptest::collection::btree_set(1usize..200, 0..20),
    ) {
        let mut experiment = experiment(seed, 3, 12, 3.0, 100);
        for until_decided in [false, true] {
            experiment.repeat.until_decided = until_decided;
            let plan = plan(&experiment);
            prop_assert_eq!(complete(&plan, noise, &BTreeSet::new()), complete(&plan, noise, &stops));
        }
    }
}

#[test]
fn seeds_and_rounds_differ_in_their_order() {
    let order = |seed, round| plan(&experiment(seed, 1, 9, 1.0, 9)).order(round);
    let distinct: BTreeSet<Vec<Cell>> = (0..50).flat_map(|seed| [order(seed, 0), order(seed, 1)]).collect();
    assert!(distinct.len() > 95, "{} of 100 orders differ", distinct.len());
}

#[test]
fn each_platform_comes_first_about_equally_often() {
    let experiment = experiment(1, 1, 1000, 1.0, 100);
    let plan = plan(&experiment);
    let first = |round| plan.order(round).iter().step_by(3).filter(|cell| cell.platform == "b").count();
    let share = (0..300).map(first).sum::<usize>() as f64 / 1200.0;
    // 1200 draws of 1/3: five standard deviations are 0.068.
    assert!((share - 1.0 / 3.0).abs() < 0.068, "{share}");
}

#[test]
fn what_does_not_scatter_settles_after_the_least_rounds() {
    let (done, stop) = complete_with(&experiment(1, 3, 12, 3.0, 1000), |_, _| Finding::Value(5.0));
    assert_eq!(stop, Stop::Settled);
    assert_eq!(done.len(), 12 * 3);
}

#[test]
fn what_scatters_goes_on_until_the_most_rounds() {
    let (done, stop) = complete_with(&experiment(1, 3, 12, 3.0, 1000), swinging);
    assert_eq!(stop, Stop::RoundsUsedUp);
    assert_eq!(done.len(), 12 * 12);
}

#[test]
fn what_decides_verdicts_comes_after_the_least_rounds_and_comes_alone() {
    let mut experiment = experiment(1, 3, 3, 3.0, 1000);
    experiment.repeat.until_decided = true;
    let (made, stop) = followed(&plan(&experiment), |_| Duration::from_secs(1), |_, _| Finding::Value(5.0));
    assert_eq!(stop, Stop::Settled);
    // Four groups on three platforms; then twice two rounds beside the load and one of `fork` on two, though there are three at most.
    let (least, asked) = made.split_at(3 * 12);
    assert!(least.iter().all(|(_, round)| *round < 3));
    let count = |probe: &str, beside: bool| {
        let is_meant = |cell: &Cell| cell.probe.as_str() == probe && cell.neighbour.is_some() == beside;
        asked.iter().filter(|(cell, _)| is_meant(cell)).count()
    };
    assert_eq!(
        [count("gap", true), count("fork", false), count("gap", false), count("fwq", false)],
        [12, 4, 0, 0]
    );
    experiment.repeat.budget_s = 36;
    let (made, stop) = followed(&plan(&experiment), |_| Duration::from_secs(1), |_, _| Finding::Value(5.0));
    assert_eq!((made.len(), stop), (36, Stop::Settled), "the budget ends it, and every figure is known");
}

/// Rounds that were asked for on some platforms alone take none away from the others.
#[test]
fn the_most_rounds_are_counted_for_each_platform_and_group() {
    let mut experiment = experiment(1, 3, 8, 3.0, 100_000);
    experiment.repeat.until_decided = false;
    let plan = plan(&experiment).with_verdicts(true);
    let (made, stop) = followed(&plan, |_| Duration::from_secs(1), swinging);
    assert_eq!(stop, Stop::RoundsUsedUp);
    let of_fork = |platform: &str| {
        made.iter().filter(|(cell, _)| cell.probe.as_str() == "fork" && cell.platform == platform).count()
    };
    // Two rounds of `fork` were asked for on `a` and `c` alone.
    assert_eq!(["a", "b", "c"].map(of_fork), [8, 6, 8], "b has no pairs any more once a has had its rounds");
    let cells: BTreeSet<&Cell> = made.iter().map(|(cell, _)| cell).collect();
    for cell in cells {
        let count = made.iter().filter(|(other, _)| other == cell).count();
        assert!(count <= 8, "{cell:?}: {count}");
    }
}

/// What is left to decide a verdict may be little once the budget is used up: it has a tenth of it more, and figures have not.
#[test]
fn verdicts_have_a_tenth_of_the_budget_more_and_figures_have_not() {
    let experiment = experiment(1, 3, 1000, 3.0, 100);
    for wanted in [0_u32, 2, 50] {
        let plan = plan(&experiment).with_verdicts(true);
        let fork = plan.groups().find(|group| group.probe.as_str() == "fork").unwrap();
        let (mut history, mut late) = (History::default(), Vec::new());
        let stop = loop {
            let is_over = history.spent().as_f64() >= 100.0 * SECOND.as_f64();
            match plan.next(&history) {
                Next::Done(stop) => break stop,
                Next::Look => {
                    let from_round = plan.next_round(fork, &history);
                    let Group { probe, neighbour, layout } = fork;
                    let (platforms, until_round) =
                        (vec!["a".to_owned(), "c".to_owned()], from_round + wanted);
                    let asked = LookRounds { probe, neighbour, layout, platforms, from_round, until_round };
                    let rounds = if is_over && late.is_empty() { vec![asked] } else { Vec::new() };
                    let measurements = history.len() as u64;
                    history.add_look(VerdictLook { measurements, rounds, ..VerdictLook::default() });
                }
                Next::Measure { round, cells } => {
                    for cell in cells {
                        let entry = Entry { duration: SECOND, finding: swinging(&cell, round) };
                        history.insert(&cell, round, entry);
                        late.extend(is_over.then_some(cell));
                    }
                }
            }
        };
        assert_eq!(stop, Stop::BudgetUsedUp);
        assert!(late.iter().all(|cell| Group::from(cell) == fork && cell.platform != "b"), "{late:?}");
        let most = 2 * wanted as usize;
        assert!(late.len() == most || (most > 10 && (4..=10).contains(&late.len())), "{wanted}: {late:?}");
    }
}

/// The interval of a figure that is measured until it is narrow is right about as often as it says.
#[test]
fn an_interval_that_says_when_to_stop_is_right_nearly_as_often_as_it_says() {
    for (scatter, truth, least) in [(0.1, 1.3, 0.915), (0.05, 1.05, 0.915), (0.02, 1.0, 0.93)] {
        let covered = (0..1500).filter(|seed| covers(*seed, scatter, truth)).count();
        let share = covered as f64 / 1500.0;
        println!("scatter {scatter}, {truth} ×: {:.1} %", share * 100.0);
        assert!(share >= least, "scatter {scatter}, {truth} ×: {share}");
    }
}

/// Whether the ratio of a figure lies in its interval, after as many rounds as the plan wants.
fn covers(seed: u64, scatter: f64, truth: f64) -> bool {
    let text = format!(
        "seed = {seed}\n[repeat]\nmin = 5\nmax = 200\ntarget_percent = 3.0\nbudget_s = 1000000\n\
         [[platform]]\nlabel = \"a\"\nkind = \"fake\"\n[[platform]]\nlabel = \"b\"\nkind = \"fake\"\n[probe.fork]"
    );
    let plan = Plan::new(&Experiment::from_toml(&text).unwrap(), &["a".to_owned(), "b".to_owned()], "a");
    let value = |cell: &Cell, round: u32| {
        let is_other = cell.platform == "b";
        let mut random =
            Xoshiro256PlusPlus::seed_from_u64(seed * 1000 + u64::from(round) * 2 + u64::from(is_other));
        let radius = (-2.0 * (1.0 - random.random::<f64>()).ln()).sqrt();
        let normal = radius * (std::f64::consts::TAU * random.random::<f64>()).cos();
        // Both scatter: their ratio as was asked for.
        (if is_other { truth } else { 1.0 }) * (normal * scatter / std::f64::consts::SQRT_2).exp()
    };
    let (made, _) =
        followed(&plan, |_| Duration::from_secs(1), |cell, round| Finding::Value(value(cell, round)));
    let rounds = made.iter().filter(|(cell, _)| cell.platform == "b");
    let pairs: Vec<(f64, f64)> = rounds
        .map(|(cell, round)| {
            let baseline = Cell { platform: "a".to_owned(), ..cell.clone() };
            (value(cell, *round), value(&baseline, *round))
        })
        .collect();
    compare(&pairs, Better::Lower, 0.95).ratio.estimate().is_some_and(|ratio| ratio.contains(truth))
}

#[test]
fn one_group_that_scatters_does_not_keep_the_others() {
    let only_fork = swinging_of(|cell| cell.probe.as_str() == "fork");
    let (done, _) = complete_with(&experiment(1, 3, 12, 3.0, 1000), only_fork);
    let forks = done.iter().filter(|(cell, _)| cell.probe.as_str() == "fork").count();
    assert_eq!((forks, done.len() - forks), (36, 27));
}

#[test]
fn a_platform_that_always_breaks_does_not_keep_the_others_repeating() {
    let one_breaks =
        |cell: &Cell, _| if cell.platform == "b" { Finding::Failed } else { Finding::Value(3.0) };
    let (done, stop) = complete_with(&experiment(1, 3, 12, 3.0, 1000), one_breaks);
    assert_eq!((done.len(), stop), (36, Stop::Settled));
}

#[test]
fn the_budget_ends_it_between_rounds_but_never_before_the_least() {
    // Measurements of a second: six in a round of gap, three in one of fwq and of fork.
    for (budget_s, measurements) in [(1, 36), (36, 36), (37, 42), (60, 60)] {
        let (done, stop) = complete_with(&experiment(1, 3, 12, 3.0, budget_s), swinging);
        assert_eq!((done.len(), stop), (measurements, Stop::BudgetUsedUp), "budget of {budget_s} s");
    }
}

#[test]
fn what_is_short_is_repeated_as_often_as_it_has_the_same_time() {
    let cost = |cell: &Cell| Duration::from_millis(if cell.probe.as_str() == "fork" { 100 } else { 1000 });
    let plan = plan(&experiment(1, 3, 1000, 3.0, 100)).with_costs(cost);
    let (order, _) = followed(&plan, cost, swinging);
    let count = |probe: &str| order.iter().filter(|(cell, _)| cell.probe.as_str() == probe).count();
    // 25 s for each of the four groups.
    let (gap, fwq, fork) = (count("gap"), count("fwq"), count("fork"));
    assert!(fork.abs_diff(250) < 20 && fwq.abs_diff(25) < 4 && gap.abs_diff(50) < 8, "{gap} {fwq} {fork}");
    // All along the run, once all have their least rounds: in every tenth of it about a tenth of them.
    let further: Vec<_> = order.iter().skip(36).collect();
    for part in further.chunks(further.len().div_ceil(10)) {
        let forks = part.iter().filter(|(cell, _)| cell.probe.as_str() == "fork").count();
        assert!(forks * 10 > part.len() * 6, "{forks} of {}", part.len());
    }
}

#[test]
fn the_time_of_what_is_known_goes_to_the_others() {
    let only_fork = swinging_of(|cell| cell.probe.as_str() == "fork");
    let (done, stop) = complete_with(&experiment(1, 3, 1000, 3.0, 120), only_fork);
    let forks = done.iter().filter(|(cell, _)| cell.probe.as_str() == "fork").count();
    // 27 of 120 measurements settle the others.
    assert_eq!((forks, stop), (93, Stop::BudgetUsedUp));
}

#[test]
fn what_is_asked_for_at_least_comes_before_the_budget_is_spent_elsewhere() {
    let cost = |cell: &Cell| Duration::from_secs(if cell.probe.as_str() == "fork" { 10 } else { 1 });
    // Three rounds of each are 27 s of nine cells and 90 s of fork.
    let plan = plan(&experiment(1, 3, 1000, 3.0, 125)).with_costs(cost);
    let (made, _) = followed(&plan, cost, swinging);
    let spent: Duration = made.iter().map(|(cell, _)| cost(cell)).sum();
    assert!(spent <= Duration::from_secs(132), "{spent:?}");
}

#[test]
fn what_others_are_compared_with_goes_on_with_them() {
    let only_beside = swinging_of(|cell| cell.neighbour.is_some());
    let (done, _) = complete_with(&experiment(1, 3, 20, 3.0, 10_000), only_beside);
    let count = |wanted: &dyn Fn(&Cell) -> bool| done.iter().filter(|(cell, _)| wanted(cell)).count();
    assert_eq!(count(&|cell| cell.neighbour.is_some()), 60);
    assert_eq!(count(&|cell| cell.probe.as_str() == "gap" && cell.neighbour.is_none()), 60);
    assert_eq!(count(&|cell| cell.probe.as_str() != "gap"), 18);
}

#[test]
fn a_platform_whose_figure_is_decided_is_measured_no_more_and_the_others_go_on() {
    // c takes three times as long for sure, known to ± 5 %; b is not known.
    let finding = |cell: &Cell, round: u32| match cell.platform.as_str() {
        "c" => Finding::Value(3.0 + 0.1 * f64::from(round % 2)),
        _ => swinging(cell, round),
    };
    let against_baseline = |cell: &Cell, round| match cell.platform.as_str() {
        "a" => Finding::Value(1.0),
        _ => finding(cell, round),
    };
    let (done, _) = complete_with(&experiment(1, 6, 24, 1.0, 10_000), against_baseline);
    let of = |platform: &str| done.iter().filter(|(cell, _)| cell.platform == platform).count();
    assert_eq!((of("a"), of("b"), of("c")), (4 * 24, 4 * 24, 4 * 6));
}

#[test]
fn a_small_difference_must_be_known_better_than_a_large_one() {
    // A spread of ± 2 % about a difference of 4 %, and about one of 200 %.
    let about = |value: f64, round: u32| Finding::Value(value * (0.98 + 0.04 * f64::from(round % 2)));
    let finding = |cell: &Cell, round: u32| match cell.platform.as_str() {
        "a" => Finding::Value(1.0),
        "b" => about(1.04, round),
        _ => about(3.0, round),
    };
    let (done, _) = complete_with(&experiment(1, 6, 200, 0.1, 10_000), finding);
    let of = |platform: &str| done.iter().filter(|(cell, _)| cell.platform == platform).count();
    assert_eq!(of("c"), 4 * 6);
    assert!(of("b") > 4 * 12, "{}", of("b"));
}

#[test]
fn what_can_be_decided_within_the_budget_comes_before_what_cannot() {
    // fork is nearly known after the least rounds, the others are far from it.
    let finding = |cell: &Cell, round: u32| match (cell.probe.as_str(), cell.platform.as_str()) {
        (_, "a") => Finding::Value(1.0),
        ("fork", _) => Finding::Value(0.95 + 0.1 * f64::from(round % 2)),
        _ => swinging(cell, round),
    };
    let plan = plan(&experiment(1, 6, 1000, 3.0, 180));
    let (made, _) = followed(&plan, |_| Duration::from_secs(1), finding);
    let further: Vec<&str> = made.iter().skip(6 * 12).map(|(cell, _)| cell.probe.as_str()).collect();
    let first = further.iter().take(30).filter(|probe| **probe == "fork").count();
    assert!(first > 15, "{first} of the first 30 are fork: {further:?}");
    assert!(further.iter().rev().take(20).all(|probe| *probe != "fork"), "then it is known");
}

#[test]
fn platforms_come_the_other_way_round_in_the_second_of_two_rounds() {
    let plan = plan(&experiment(3, 1, 1000, 1.0, 100));
    let of_fork = |round| -> Vec<Cell> {
        plan.order(round).into_iter().filter(|cell| cell.probe.as_str() == "fork").collect()
    };
    for round in (0..20).step_by(2) {
        let mut back = of_fork(round + 1);
        back.reverse();
        assert_eq!(of_fork(round), back, "round {round}");
    }
}

/// A figure that is another one in every second round, and on the baseline the other way round.
fn swinging(cell: &Cell, round: u32) -> Finding {
    Finding::Value(if round.is_multiple_of(2) == (cell.platform == "a") { 1.0 } else { 100.0 })
}

/// One that is so of some cells, and else always the same.
fn swinging_of(which: impl Fn(&Cell) -> bool) -> impl Fn(&Cell, u32) -> Finding {
    move |cell, round| if which(cell) { swinging(cell, round) } else { Finding::Value(1.0) }
}

/// Follows a plan to its end, whose measurements take what `cost` says; what was measured, in order, and why it ended.
fn followed(
    plan: &Plan,
    cost: impl Fn(&Cell) -> Duration,
    finding: impl Fn(&Cell, u32) -> Finding,
) -> (Vec<(Cell, u32)>, Stop) {
    let (mut history, mut made) = (History::default(), Vec::new());
    loop {
        let (round, cells) = match plan.next(&history) {
            Next::Done(stop) => return (made, stop),
            Next::Look => {
                history.add_look(look_at(plan, &history));
                continue;
            }
            Next::Measure { round, cells } => (round, cells),
        };
        for cell in cells {
            let duration = Nanos::from_duration(cost(&cell));
            history.insert(&cell, round, Entry { duration, finding: finding(&cell, round) });
            made.push((cell, round));
        }
    }
}

fn complete_with(
    experiment: &Experiment,
    finding: impl Fn(&Cell, u32) -> Finding,
) -> (BTreeSet<(Cell, u32)>, Stop) {
    let (made, stop) = followed(&plan(experiment), |_| Duration::from_secs(1), finding);
    let count = made.len();
    let done: BTreeSet<(Cell, u32)> = made.into_iter().collect();
    assert_eq!(done.len(), count, "nothing twice");
    (done, stop)
}
