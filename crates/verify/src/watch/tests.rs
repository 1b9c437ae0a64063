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
        Some(running) => Observed::Looked {
            values: [(metric, Ok(f64::from(u8::from(running))))].into(),
            why: BTreeMap::new(),
        },
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

/// How often looks and what is measured had their turn in ten minutes, and the longest that a look was due: a look takes 25 ms, a round so
/// much.
fn turns(round: Duration) -> (u32, u32, Duration) {
    let (began, every) = (Instant::now(), Duration::from_secs(1));
    let mut all = ["R", "L"].map(|id| Repeated::new(test_of(id), began));
    let mut budget = CpuBudget::new(2);
    let (mut looks, mut measured, mut longest) = (0, 0, Duration::ZERO);
    for step in 1..6000 {
        let now = began + NAP * step;
        for what in [Use::Looks, Use::Rounds] {
            let Some(number) = turn(&all, what, now) else { continue };
            let next = &mut all[number];
            if !budget.has_room(what, now - began, next.took.unwrap_or_default()) {
                continue;
            }
            let (count, took) = if what == Use::Looks {
                (&mut looks, Duration::from_millis(25))
            } else {
                (&mut measured, round)
            };
            *count += 1;
            if what == Use::Looks {
                longest = longest.max(now - next.due);
            }
            budget.take(what, took);
            *next = Repeated::new(next.batch.spec.clone(), now + every);
            next.took = Some(took);
        }
    }
    (looks, measured, longest)
}

/// Regression: on a slow host looks used all there was, and what is measured never came; where a round took seconds, looks waited for
/// minutes until there was room for the next one.
#[test]
fn neither_looks_nor_what_is_measured_keep_the_other_waiting() {
    // 6 s of CPU time for each in ten minutes.
    for (round_ms, wanted) in [(60, 90..=101), (2500, 2..=2)] {
        let (looks, measured, longest) = turns(Duration::from_millis(round_ms));
        assert!((230..=241).contains(&looks) && wanted.contains(&measured), "{looks}, {measured}");
        // 25 ms are what may be used in two and a half seconds, and those of the first one come at once.
        assert!(longest <= Duration::from_secs(5), "{longest:?}");
    }
}

proptest! {
    /// Whatever rounds take: begun only while there is room, all together use the share, and a round of each use.
    #[test]
    fn no_more_is_used_than_the_share_and_a_round(
        rounds in prop::collection::vec((any::<bool>(), 1_u64..5_000), 1..60), cpus in 1_u32..9,
    ) {
        let mut budget = CpuBudget::new(cpus);
        let (mut now, mut last) = (Duration::from_millis(1), [Duration::ZERO; 2]);
        for (is_look, took) in rounds {
            let what = if is_look { Use::Looks } else { Use::Rounds };
            while !budget.has_room(what, now, Duration::ZERO) {
                now += Duration::from_millis(100);
            }
            last[what as usize] = Duration::from_millis(took);
            budget.take(what, last[what as usize]);
            now += last[what as usize];
            let most = last.iter().sum::<Duration>().as_secs_f64();
            let used: Duration = budget.used.iter().sum();
            prop_assert!(used.as_secs_f64() <= (MOST_CPU * now.as_secs_f64()).mul_add(f64::from(cpus), most));
        }
    }
}
