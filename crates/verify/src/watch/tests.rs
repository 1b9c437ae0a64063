//! What is told of a requirement that is looked at again and again, and what may be used for it.

use super::*;
use model::requirement::RequirementFile;
use model::verification::Observed;
use proptest::prelude::*;

const TEXT: &str = r#"
set = "s"
[requirement.R]
text = "x"
partition = "db"
metric = "placement.running"
exactly = 1
[requirement.L]
text = "x"
metric = "command"
command = ["x"]
load = ["cpu@host"]
at_most = 2
[requirement.O]
text = "x"
metric = "outage.duration_ns"
at_most = "1 s"
failure = "qemu.db"
client = { kind = "http", at = "127.0.0.1:80" }
"#;

fn wanted() -> Requirements {
    RequirementFile::from_toml(TEXT, "").expect("it is right").requirements
}

fn test_of(id: &str) -> TestSpec {
    let all = crate::trace::of(&wanted());
    all.into_iter().find(|test| test.requirements.iter().any(|one| one == id)).expect("there")
}

/// A look at a moment: it ran, it did not, or nothing could be seen.
fn look(at: u64, running: Option<bool>) -> Vec<TestRound> {
    let metric = "placement.running".to_owned();
    let seen = match running {
        Some(running) => Observed::Looked { values: [(metric, Ok(f64::from(u8::from(running))))].into() },
        None => Observed::Failed { reason: "it is gone".into() },
    };
    let (test, started_unix_ns) = (test_of("R").id, Nanos::from_nanos(at));
    vec![TestRound { test, round: 1, started_unix_ns, took_ns: Nanos::ZERO, seen, doses: Vec::new() }]
}

/// What is told of looks, one at each moment from 1 on: when, what it was until when, what it is.
fn told(looks: &[Option<bool>]) -> Vec<(u64, RequirementVerdict, Option<u64>, RequirementVerdict)> {
    let (requirements, test) = (wanted(), test_of("R"));
    let mut standings = Standings::default();
    let moments = (1..).zip(looks);
    let changes = moments.flat_map(|(at, running)| standings.take(&requirements, &test, &look(at, *running)));
    changes.map(|one| (one.since_unix_ns.get(), one.was, one.until_unix_ns.map(Nanos::get), one.is)).collect()
}

#[test]
fn what_is_different_is_told_once_with_until_when_it_was_not() {
    use RequirementVerdict::{Fail, NotRun, Pass, Undecided};
    let (up, down, unseen) = (Some(true), Some(false), None);
    assert_eq!(
        told(&[up, up, down, down, down, up]),
        [(1, NotRun, None, Pass), (3, Pass, Some(2), Fail), (6, Fail, Some(5), Pass)]
    );
    // What could not be seen once says nothing; twice, it is told.
    assert_eq!(told(&[up, unseen, up, unseen, up]), [(1, NotRun, None, Pass)]);
    assert_eq!(told(&[up, unseen, unseen, unseen]), [(1, NotRun, None, Pass), (3, Pass, Some(1), Undecided)]);
    assert_eq!(told(&[up, unseen, down]), [(1, NotRun, None, Pass), (3, Pass, Some(1), Fail)]);
    assert_eq!(told(&[unseen, up]), [(1, NotRun, None, Undecided), (2, Undecided, Some(1), Pass)]);
}

#[test]
fn a_watch_goes_on_with_what_was_verified_before() {
    let requirements = wanted();
    let (results, _) = crate::conclude::conclude(&requirements, &[], &BTreeMap::new());
    let mut standings = Standings::of(&results);
    let changed = standings.take(&requirements, &test_of("R"), &look(5, Some(true)));
    assert_eq!(changed.len(), 1, "it was not run before");
    assert_eq!(standings.take(&requirements, &test_of("R"), &look(6, Some(true))), []);
    assert_eq!(standings.take(&requirements, &test_of("R"), &[]), []);
}

#[test]
fn only_what_adds_nothing_is_cheap() {
    assert_eq!(["R", "L", "O"].map(|id| is_cheap(&test_of(id))), [true, false, false]);
}

/// Regression: on a slow host looks used all there was, and what is measured never came.
#[test]
fn where_looks_alone_use_all_there_is_the_others_have_their_turn() {
    let (began, every) = (Instant::now(), Duration::from_secs(1));
    let mut all = ["R", "L"].map(|id| Repeated::new(test_of(id), began));
    let mut budget = CpuBudget::new(2);
    let (mut looks, mut measured) = (0, 0);
    for step in 1..6000 {
        let now = began + NAP * step;
        let Some(next) = turn(&mut all, now, every) else { continue };
        if !budget.has_room(now - began, next.took) {
            continue;
        }
        let (count, took) = if next.is_look() { (&mut looks, 25) } else { (&mut measured, 60) };
        *count += 1;
        budget.take(Duration::from_millis(took));
        *next = Repeated::new(next.batch.spec.clone(), now + every);
        next.took = Duration::from_millis(took);
    }
    // 12 s of CPU time in ten minutes: by turns, 141 of each.
    assert!((130..=150).contains(&looks) && (130..=150).contains(&measured), "{looks}, {measured}");
}

proptest! {
    /// Whatever rounds take: begun only while there is room, all together use the share and one round.
    #[test]
    fn no_more_is_used_than_the_share_and_a_round(rounds in prop::collection::vec(1_u64..5_000, 1..60), cpus in 1_u32..9) {
        let mut budget = CpuBudget::new(cpus);
        let (mut now, mut last) = (Duration::from_millis(1), Duration::ZERO);
        for took in rounds {
            while !budget.has_room(now, Duration::ZERO) {
                now += Duration::from_millis(100);
            }
            last = Duration::from_millis(took);
            let without = budget.used;
            budget.take(last);
            now += last;
            prop_assert!(without.as_secs_f64() <= MOST_CPU * f64::from(cpus) * now.as_secs_f64());
        }
        prop_assert!(budget.used.as_secs_f64() <= (MOST_CPU * now.as_secs_f64()).mul_add(f64::from(cpus), last.as_secs_f64()));
    }
}
