//! From journals to verdicts of all requirements: their own, those of their parts, and which of them are stale. Pure.
//!
//! ```text
//!  runs ─► the last one that saw its test ─► judge ─┐
//!            └ what that rested on, against today ──┴► direct: as judged, or stale ─┐
//!                                        parts ─► the worst of them: inherited ─────┴► the worse of both
//! ```

use std::collections::{BTreeMap, BTreeSet};

use images::Digest;
use model::requirement::{PlacementProperty, RequiredMetric, Requirement, Requirements, Subject};
use model::verification::{
    Basis, Change, Judged, RequirementResult, RequirementVerdict, TestRound, TestSpec, VerifyHeader,
};
use units::Nanos;

use crate::judge::judge;
use crate::trace;

/// Changes that a reason names.
const MOST_NAMED: usize = 6;

/// What one verification saw.
#[derive(Debug, Clone, PartialEq)]
pub struct VerifyRun {
    /// What it began with.
    pub header: VerifyHeader,
    /// What was seen, in that order.
    pub rounds: Vec<TestRound>,
    /// Whether it came to its end.
    pub is_ended: bool,
}

/// The results of all requirements and the tests that decide them, from what all runs saw, the last one last; as of a moment at
/// which results would rest on `today`.
pub fn conclude(
    requirements: &Requirements,
    runs: &[VerifyRun],
    today: &Basis,
) -> (Vec<RequirementResult>, Vec<TestSpec>) {
    let tests = trace::of(requirements);
    let of_requirement: BTreeMap<&str, &TestSpec> =
        tests.iter().flat_map(|test| test.requirements.iter().map(move |id| (id.as_str(), test))).collect();
    let seen: Vec<BTreeMap<&str, Vec<&TestRound>>> = runs.iter().map(by_test).collect();
    let one = |(id, requirement): (&String, &Requirement)| {
        let test = of_requirement.get(id.as_str());
        let last = test.and_then(|test| last_with(requirement, runs, &seen, &test.id));
        result(id, requirement, test.copied(), last, today)
    };
    let mut results: Vec<RequirementResult> = requirements.iter().map(one).collect();
    inherit(&mut results);
    (results, tests)
}

fn by_test(run: &VerifyRun) -> BTreeMap<&str, Vec<&TestRound>> {
    let mut all: BTreeMap<&str, Vec<&TestRound>> = BTreeMap::new();
    for round in &run.rounds {
        all.entry(&round.test).or_default().push(round);
    }
    all
}

/// The last run that saw a test, and its rounds. One that was cut off before it could decide takes nothing back of what an earlier one
/// had decided.
fn last_with<'a>(
    requirement: &Requirement,
    runs: &'a [VerifyRun],
    seen: &'a [BTreeMap<&str, Vec<&'a TestRound>>],
    test: &str,
) -> Option<(&'a VerifyRun, &'a [&'a TestRound])> {
    let both = runs.iter().zip(seen).rev();
    let mut saw = both.filter_map(|(run, seen)| Some((run, seen.get(test)?.as_slice())));
    let last = saw.next()?;
    let decides = |rounds: &[&TestRound]| {
        matches!(judge(requirement, rounds).verdict, RequirementVerdict::Pass | RequirementVerdict::Fail)
    };
    if last.0.is_ended || decides(last.1) {
        return Some(last);
    }
    // One that came to its end undecided is as far as any goes.
    let before = saw.find(|(run, rounds)| run.is_ended || decides(rounds));
    Some(before.filter(|(_, rounds)| decides(rounds)).unwrap_or(last))
}

fn result(
    id: &str,
    requirement: &Requirement,
    test: Option<&TestSpec>,
    last: Option<(&VerifyRun, &[&TestRound])>,
    today: &Basis,
) -> RequirementResult {
    let rounds = last.map_or(&[][..], |(_, rounds)| rounds);
    let mut direct = test.map(|_| judge(requirement, rounds));
    let is = rests_on(id, requirement, today);
    let was = last.map(|(run, _)| rests_on(id, requirement, &run.header.basis));
    let changed = was.as_ref().map(|was| differences(was, &is)).unwrap_or_default();
    let is_decided =
        |judged: &&mut Judged| matches!(judged.verdict, RequirementVerdict::Pass | RequirementVerdict::Fail);
    if let (Some(judged), false) = (direct.as_mut().filter(is_decided), changed.is_empty()) {
        let what: Vec<&str> = changed.iter().take(MOST_NAMED).map(|change| change.what.as_str()).collect();
        let more = changed.len().saturating_sub(MOST_NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        judged.reason = format!(
            "it was {}: {}; since then changed: {}{more}",
            judged.verdict.as_str(),
            judged.reason,
            what.join(", ")
        );
        judged.verdict = RequirementVerdict::Stale;
    }
    if let Some(why) = &requirement.not_tested {
        direct = Some(Judged {
            verdict: RequirementVerdict::NotApplicable,
            reason: why.clone(),
            ..judge(requirement, &[])
        });
    }
    RequirementResult {
        id: id.to_owned(),
        requirement: requirement.clone(),
        unit: requirement.limit().map(|(_, limit)| limit.unit),
        comparator: requirement.limit().map(|(comparator, _)| comparator),
        limit: requirement.limit().map(|(_, limit)| limit.value),
        test: test.map(|test| test.id.clone()),
        verdict: direct.as_ref().map_or(RequirementVerdict::NotRun, |judged| judged.verdict),
        direct,
        inherited: None,
        changed,
        rests_on: was.unwrap_or(is),
        seen_unix_ns: rounds.last().map(|round| round.started_unix_ns),
        took_ns: rounds.iter().fold(Nanos::ZERO, |sum, round| sum.saturating_add(round.took_ns)),
    }
}

/// What a requirement's result rests on, of all that there is: what runs everything, the requirement itself, its subject, and where
/// something is measured, or the host or who shares its CPUs is asked, all that runs beside it.
fn rests_on(id: &str, requirement: &Requirement, all: &Basis) -> Basis {
    let own = format!("requirement.{id}");
    let subjects: BTreeSet<String> = match requirement.subject() {
        Subject::Partition(name) => [name].into(),
        Subject::Pair(pair) => pair.into(),
        Subject::Network(_) | Subject::Host | Subject::Set => BTreeSet::new(),
    };
    let looks = match requirement.metric {
        // Who else may run there hangs on all others.
        Some(RequiredMetric::Placement(property)) => property != PlacementProperty::SharedCpus,
        Some(RequiredMetric::Pair(_) | RequiredMetric::Network(_)) => true,
        _ => false,
    };
    let is_host = matches!(requirement.metric, Some(RequiredMetric::Host(_)));
    let counts = |key: &str| match key.split_once('.') {
        None => true,
        Some(("requirement", _)) => key == own,
        Some(("command", of)) => of == id,
        // What the host has left hangs on what partitions may take, not on where they are; of other sets only the place is known, size and all.
        Some((kind, _)) if is_host => matches!(kind, "partition" | "neighbour"),
        Some(("network", name)) => !looks || requirement.network.as_deref() == Some(name),
        Some((_, name)) => !looks || subjects.contains(name),
    };
    all.iter().filter(|(key, _)| counts(key)).map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// What differs between two.
pub fn differences(was: &Basis, is: &Basis) -> Vec<Change> {
    let keys: BTreeSet<&String> = was.keys().chain(is.keys()).collect();
    let value = |of: &Basis, key: &String| of.get(key).cloned().unwrap_or_default();
    let change = |key: &String| Change { what: key.clone(), was: value(was, key), is: value(is, key) };
    keys.into_iter().map(change).filter(|change| change.was != change.is).collect()
}

/// A requirement as it goes into what results rest on.
pub fn digest(requirement: &Requirement) -> String {
    Digest::of(serde_json::to_string(requirement).unwrap_or_default().as_bytes()).short().to_owned()
}

/// The worst of all parts, and of theirs.
fn inherit(results: &mut [RequirementResult]) {
    let place: BTreeMap<&str, usize> =
        results.iter().enumerate().map(|(at, one)| (one.id.as_str(), at)).collect();
    let parent = |one: &RequirementResult| place.get(one.requirement.parent.as_deref()?).copied();
    let parents: Vec<Option<usize>> = results.iter().map(parent).collect();
    // Each hands its own verdict to all above it; circles were refused, and end here at the latest.
    let mut inherited = vec![None; results.len()];
    for (at, one) in results.iter().enumerate() {
        let Some(judged) = &one.direct else { continue };
        let above = |at: &usize| parents.get(*at).copied().flatten();
        for parent in std::iter::successors(above(&at), above).take(results.len()) {
            if let Some(worst) = inherited.get_mut(parent) {
                *worst = (*worst).max(Some(judged.verdict));
            }
        }
    }
    for (one, inherited) in results.iter_mut().zip(inherited) {
        let direct = one.direct.as_ref().map(|judged| judged.verdict);
        one.inherited = inherited;
        one.verdict = direct.max(inherited).unwrap_or(RequirementVerdict::NotRun);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::requirement::RequirementFile;
    use model::verification::{Commanded, Observed, VERIFICATION_VERSION};
    use proptest::prelude::*;

    const TEXT: &str = r#"
set = "s"
[requirement.A]
text = "x"
[requirement."A.1"]
text = "x"
parent = "A"
metric = "command"
command = ["one"]
load = "as-is"
at_most = 2
[requirement."A.1.1"]
text = "x"
parent = "A.1"
metric = "placement.running"
partition = "db"
exactly = 1
[requirement.B]
text = "x"
not_tested = "nobody can"
"#;

    fn basis(pairs: &[(&str, &str)]) -> Basis {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn run(requirements: &Requirements, basis: &Basis, seen: &[(&str, Observed, u32)]) -> VerifyRun {
        let tests = trace::of(requirements);
        let id_of = |id: &str| {
            tests
                .iter()
                .find(|test| test.requirements.iter().any(|one| one == id))
                .expect("a test")
                .id
                .clone()
        };
        let none = Nanos::ZERO;
        let rounds = seen.iter().flat_map(|(id, seen, count)| {
            let round = TestRound {
                test: id_of(id),
                round: 1,
                started_unix_ns: none,
                took_ns: none,
                seen: seen.clone(),
                doses: Vec::new(),
            };
            (0..*count).map(move |_| round.clone())
        });
        let header = VerifyHeader {
            schema_version: VERIFICATION_VERSION,
            bulkhead_version: String::new(),
            started_unix_ns: none,
            set: "s".to_owned(),
            seed: 0,
            basis: basis.clone(),
        };
        VerifyRun { header, rounds: rounds.collect(), is_ended: true }
    }

    fn printed(value: f64) -> Observed {
        Observed::Commanded(Commanded { value: Some(value), ..Commanded::default() })
    }

    fn running(value: f64) -> Observed {
        Observed::Looked {
            values: [("placement.running".to_owned(), Ok(value))].into(),
            why: BTreeMap::new(),
        }
    }

    fn verdicts(
        requirements: &Requirements,
        runs: &[VerifyRun],
        today: &Basis,
    ) -> Vec<(String, RequirementVerdict)> {
        let (results, _) = conclude(requirements, runs, today);
        results.into_iter().map(|one| (one.id, one.verdict)).collect()
    }

    fn wanted() -> Requirements {
        RequirementFile::from_toml(TEXT, "").expect("good").requirements
    }

    #[test]
    fn parents_are_as_good_as_the_worst_of_their_parts_and_of_their_own_test() {
        let wanted = wanted();
        let today = basis(&[("kernel", "1"), ("place.db", "x")]);
        for (value, runs, all) in [
            (1.0, 1.0, [RequirementVerdict::Pass, RequirementVerdict::Pass, RequirementVerdict::Pass]),
            (1.0, 0.0, [RequirementVerdict::Fail, RequirementVerdict::Fail, RequirementVerdict::Fail]),
            (9.0, 1.0, [RequirementVerdict::Fail, RequirementVerdict::Fail, RequirementVerdict::Pass]),
        ] {
            let run = run(&wanted, &today, &[("A.1", printed(value), 6), ("A.1.1", running(runs), 1)]);
            let (results, _) = conclude(&wanted, &[run], &today);
            let got: Vec<RequirementVerdict> = results.iter().map(|one| one.verdict).collect();
            assert_eq!(got, [&all[..], &[RequirementVerdict::NotApplicable]].concat(), "{value} {runs}");
            let middle = &results[1];
            assert_eq!(middle.inherited, Some(all[2]));
            assert_eq!(results[0].direct, None);
        }
        let got = verdicts(&wanted, &[], &today);
        assert!(got.iter().take(3).all(|(_, verdict)| *verdict == RequirementVerdict::NotRun), "{got:?}");
    }

    #[test]
    fn only_what_rested_on_what_has_changed_is_stale_and_seeing_it_again_helps() {
        let wanted = wanted();
        let was =
            basis(&[("kernel", "1"), ("place.db", "x"), ("place.other", "y"), ("requirement.A.1", "r")]);
        let all = [("A.1", printed(1.0), 6), ("A.1.1", running(1.0), 1)];
        let first = run(&wanted, &was, &all);
        let changed = |key: &str| {
            let mut is = was.clone();
            is.insert(key.to_owned(), "other".to_owned());
            is
        };
        let stale = |today: &Basis| -> Vec<String> {
            let all = verdicts(&wanted, std::slice::from_ref(&first), today);
            all.into_iter()
                .filter(|(_, verdict)| *verdict == RequirementVerdict::Stale)
                .map(|(id, _)| id)
                .collect()
        };
        assert_eq!(stale(&was), Vec::<String>::new());
        assert_eq!(stale(&changed("kernel")), ["A", "A.1", "A.1.1"]);
        assert_eq!(stale(&changed("place.other")), ["A", "A.1"], "who is only looked at has no neighbours");
        assert_eq!(stale(&changed("place.db")), ["A", "A.1", "A.1.1"]);
        assert_eq!(stale(&changed("requirement.A.1")), ["A", "A.1"]);
        let today = changed("kernel");
        let (results, _) = conclude(&wanted, std::slice::from_ref(&first), &today);
        let change = Change { what: "kernel".to_owned(), was: "1".to_owned(), is: "other".to_owned() };
        assert_eq!(results[1].changed, [change]);
        let again = run(&wanted, &today, &all[..1]);
        let got = verdicts(&wanted, &[first.clone(), again], &today);
        assert_eq!(
            got.into_iter().map(|(_, verdict)| verdict).collect::<Vec<_>>(),
            [
                RequirementVerdict::Stale,
                RequirementVerdict::Stale,
                RequirementVerdict::Stale,
                RequirementVerdict::NotApplicable
            ],
            "its part is still stale"
        );
    }

    #[test]
    fn a_run_that_was_cut_off_takes_nothing_back() {
        let wanted = wanted();
        let today = basis(&[("kernel", "1")]);
        let of = |value: f64, count: u32, is_ended: bool| VerifyRun {
            is_ended,
            ..run(&wanted, &today, &[("A.1", printed(value), count)])
        };
        let own = |one: &RequirementResult| one.direct.as_ref().expect("a test of its own").verdict;
        let verdict = |runs: &[VerifyRun]| own(&conclude(&wanted, runs, &today).0[1]);
        let fail = of(9.0, 6, true);
        assert_eq!(verdict(&[fail.clone(), of(1.0, 2, false)]), RequirementVerdict::Fail);
        assert_eq!(verdict(&[fail.clone(), of(1.0, 2, true)]), RequirementVerdict::Undecided);
        assert_eq!(verdict(&[fail.clone(), of(1.0, 6, false)]), RequirementVerdict::Pass);
        assert_eq!(verdict(&[fail, of(1.0, 2, true), of(1.0, 2, false)]), RequirementVerdict::Undecided);
        assert_eq!(verdict(&[of(1.0, 2, false)]), RequirementVerdict::Undecided);
    }

    /// Walks down from one to all below it.
    fn worst(at: usize, parents: &[usize], own: &[u8]) -> RequirementVerdict {
        let verdicts = [RequirementVerdict::Pass, RequirementVerdict::Fail, RequirementVerdict::NotRun];
        let below = (at + 1..parents.len()).filter(|child| parents[*child] == at && parents[*child] < *child);
        let mine = verdicts[usize::from(own[at])];
        below.map(|child| worst(child, parents, own)).fold(mine, RequirementVerdict::max)
    }

    proptest! {
        /// A chain or tree of any form: each verdict is the worst of all below, found by walking down instead of up.
        #[test]
        fn verdicts_of_trees_are_those_of_brute_force(parents in prop::collection::vec(0_usize..20, 1..20), own in prop::collection::vec(0_u8..3, 20)) {
            let mut all = Requirements::new();
            for (at, parent) in parents.iter().enumerate() {
                let mut one = wanted().remove("A.1.1").expect("there");
                one.parent = (*parent < at).then(|| format!("R{parent:02}"));
                one.partition = Some(format!("p{at:02}"));
                all.insert(format!("R{at:02}"), one);
            }
            let today = Basis::new();
            let ids: Vec<String> = all.keys().cloned().collect();
            let seen: Vec<(&str, Observed, u32)> = ids.iter().zip(&own)
                .map(|(id, own)| (id.as_str(), running(f64::from(u8::from(*own == 0))), u32::from(*own < 2)))
                .collect();
            let got = verdicts(&all, &[run(&all, &today, &seen)], &today);
            for (at, (_, verdict)) in got.iter().enumerate() {
                prop_assert_eq!(*verdict, worst(at, &parents, &own), "{}", at);
            }
        }
    }
}
