//! Verdicts of rounds: bounds, intervals, the worst that was seen, failures.

use super::*;
use model::requirement::RequirementFile;
use model::verification::{ClientCycles, Commanded, Outage, Responses, TestCounts};
use units::Nanos;

fn requirement(text: &str) -> Requirement {
    let text = format!("set = \"s\"\n[requirement.R]\ntext = \"x\"\n{text}");
    RequirementFile::from_toml(&text, "").expect("good").requirements.remove("R").expect("R")
}

fn number(comparator: &str) -> Requirement {
    requirement(&format!("metric = \"command\"\ncommand = [\"x\"]\nload = \"as-is\"\n{comparator}"))
}

fn round(seen: Observed) -> TestRound {
    let (test, none) = ("t".to_owned(), Nanos::ZERO);
    TestRound { test, round: 1, started_unix_ns: none, took_ns: none, seen, doses: Vec::new() }
}

fn printed(value: f64) -> TestRound {
    round(Observed::Commanded(Commanded { value: Some(value), ..Commanded::default() }))
}

#[test]
fn tests_of_a_command_that_failed_are_told_and_one_that_broke_passes_nothing() {
    let wanted = requirement("metric = \"command.failures\"\ncommand = [\"x\"]\nexactly = 0\n");
    let ran = |exit_code, failed, names: &[&str]| {
        let first_failed = names.iter().map(|name| (*name).to_owned()).collect();
        let tests = Some(TestCounts { all: 3, failed, left_out: 0, first_failed });
        let seen = Observed::Commanded(Commanded { exit_code, tests, ..Commanded::default() });
        let got = judged(&wanted, &[round(seen)]);
        (got.verdict, got.reason)
    };
    let told = |reason: &str| reason.to_owned();
    assert_eq!(ran(1, 2, &["late: 7 ms", "b"]), (RequirementVerdict::Fail, told("it is 2; late: 7 ms; b")));
    assert_eq!(ran(0, 0, &[]), (RequirementVerdict::Pass, told("it is 0")));
    let broke = told("no test failed, but it ended with 139");
    assert_eq!(ran(139, 0, &[]), (RequirementVerdict::Undecided, broke));
}

fn broken() -> TestRound {
    round(Observed::Failed { reason: "it broke".into() })
}

fn judged(requirement: &Requirement, rounds: &[TestRound]) -> Judged {
    judge(requirement, &rounds.iter().collect::<Vec<_>>())
}

#[test]
fn an_interval_decides_on_either_side_and_nothing_in_between() {
    let values = [9.0, 10.0, 11.0, 9.5, 10.5, 10.0, 9.8, 10.2, 9.9];
    let rounds: Vec<TestRound> = values.into_iter().map(printed).collect();
    for (limit, verdict) in [
        ("at_most = 12", RequirementVerdict::Pass),
        ("at_most = 8", RequirementVerdict::Fail),
        ("at_most = 10", RequirementVerdict::Undecided),
        ("at_least = 8", RequirementVerdict::Pass),
        ("at_least = 12", RequirementVerdict::Fail),
    ] {
        let got = judged(&number(limit), &rounds);
        assert_eq!(got.verdict, verdict, "{limit}: {got:?}");
        let margin = got.margin_percent.expect("a margin");
        assert_eq!(margin >= 0.0, verdict == RequirementVerdict::Pass, "{limit}: {margin}");
    }
}

#[test]
fn what_is_wanted_exactly_is_so_each_time_and_less_than_nothing_is_no_time() {
    let rounds = |values: &[f64]| values.iter().copied().map(printed).collect::<Vec<_>>();
    let mut lost = rounds(&[0.0; 20]);
    assert_eq!(judged(&number("exactly = 0"), &lost).verdict, RequirementVerdict::Pass);
    assert_eq!(judged(&number("exactly = 0"), &lost[..9]).verdict, RequirementVerdict::Undecided);
    lost.insert(3, printed(7.0));
    assert_eq!(judged(&number("exactly = 0"), &lost).verdict, RequirementVerdict::Fail, "most are none");
    let below = judged(&number("at_most = \"10 ms\""), &rounds(&[-5.0; 9]));
    assert_eq!((below.verdict, below.value), (RequirementVerdict::Undecided, None), "{below:?}");
    assert_eq!(judged(&number("at_most = 10"), &rounds(&[-5.0; 9])).verdict, RequirementVerdict::Pass);
}

/// Whoever interrupts may have seen what would come: an earlier verdict is none.
#[test]
fn before_the_first_look_and_between_looks_nothing_is_decided_but_when_the_time_is_over() {
    let wanted = number("at_most = 5\nbudget_s = 3");
    let lucky: Vec<TestRound> = [1.1, 1.2, 1.3, 1.2, 1.1].into_iter().map(printed).collect();
    assert_eq!(judged(&wanted, &lucky).verdict, RequirementVerdict::Undecided);
    let second = Nanos::from_duration(Duration::from_secs(1));
    let slow: Vec<TestRound> = lucky.iter().map(|one| TestRound { took_ns: second, ..one.clone() }).collect();
    assert_eq!(judged(&wanted, &slow).verdict, RequirementVerdict::Pass);
    assert_eq!(judged(&wanted, &slow[..2]).verdict, RequirementVerdict::Undecided);
    // Undecided at 6, and at 8 nobody looks.
    let mut open: Vec<TestRound> = [1.0, 9.0, 1.0, 9.0, 1.0, 9.0].into_iter().map(printed).collect();
    open.extend([1.0, 1.0].map(printed));
    assert_eq!(judged(&wanted, &open), judged(&wanted, &open[..6]));
}

#[test]
fn a_test_that_fails_now_and_then_has_failed() {
    let wanted = requirement("metric = \"command.failures\"\ncommand = [\"x\"]\nexactly = 0\n");
    let ran = |failed| {
        let tests = Some(TestCounts { all: 3, failed, left_out: 0, first_failed: Vec::new() });
        round(Observed::Commanded(Commanded { tests, ..Commanded::default() }))
    };
    assert_eq!(judged(&wanted, &[ran(1), ran(1), ran(0)]).verdict, RequirementVerdict::Fail);
    assert_eq!(judged(&wanted, &[ran(0), ran(0)]).verdict, RequirementVerdict::Pass);
    assert_eq!(judged(&wanted, &[ran(0), broken(), ran(0)]).verdict, RequirementVerdict::Undecided);
}

#[test]
fn an_outage_that_we_ended_has_no_end() {
    let wanted = |metric: &str| {
        requirement(&format!(
            "metric = \"outage.{metric}\"\nat_most = \"1 min\"\nfailure = \"qemu.a\"\nclient = {{ kind = \"http\", at = \"127.0.0.1:80\" }}\n"
        ))
    };
    let seconds = |count| Nanos::from_duration(Duration::from_secs(count));
    let outage = |again: Option<u64>, restored: Option<u64>| {
        round(Observed::Outage(Outage {
            failed_unix_ns: None,
            answered_before: 20,
            first_missing_ns: Some(seconds(0)),
            answered_again_ns: again.map(seconds),
            restored_ns: restored.map(seconds),
            asked: 100,
            lost: 1,
            doubled: None,
            waited_ns: seconds(9),
            undone: if restored.is_some() { "all came back by itself" } else { "a was started again by us" }
                .to_owned(),
        }))
    };
    let good = outage(Some(5), Some(6));
    for (metric, last, verdict) in [
        ("duration_ns", outage(Some(5), None), RequirementVerdict::Pass),
        ("duration_ns", outage(None, None), RequirementVerdict::Fail),
        ("switchover_ns", outage(None, None), RequirementVerdict::Fail),
        ("restoration_ns", outage(Some(5), None), RequirementVerdict::Fail),
        ("restoration_ns", good.clone(), RequirementVerdict::Pass),
    ] {
        let is_by_us = last != good;
        let got = judged(&wanted(metric), &[good.clone(), good.clone(), last]);
        assert_eq!(got.verdict, verdict, "{metric}: {got:?}");
        assert_eq!(got.reason.contains("a was started again by us"), is_by_us, "{got:?}");
        assert!(!got.reason.contains("by itself,") && !got.reason.contains("all came back"), "{got:?}");
    }
}

/// Regression: of a service that never came back few requests were lost, because nobody asked for long, and nothing came twice.
#[test]
fn what_never_comes_back_loses_without_end_and_says_nothing_of_what_is_doubled() {
    let wanted = |metric: &str, limit: &str| {
        requirement(&format!(
            "metric = \"outage.{metric}\"\n{limit}\nfailure = \"qemu.a\"\nclient = {{ kind = \"echo\", at = \"127.0.0.1:80\" }}\n"
        ))
    };
    let outage = |again: Option<Nanos>| {
        round(Observed::Outage(Outage {
            failed_unix_ns: None,
            answered_before: 20,
            first_missing_ns: Some(Nanos::ZERO),
            answered_again_ns: again,
            restored_ns: again,
            asked: 100,
            lost: 18,
            doubled: Some(0),
            waited_ns: Nanos::from_nanos(2_000_000_000),
            undone: "web was started again by us".to_owned(),
        }))
    };
    let of = |wanted: &Requirement, again: Option<Nanos>| {
        judged(wanted, &[outage(again), outage(again), outage(again)]).verdict
    };
    let again = Some(Nanos::from_nanos(1_000_000_000));
    let (lost, doubled) = (wanted("lost", "at_most = 40"), wanted("doubled", "exactly = 0"));
    assert_eq!((of(&lost, again), of(&doubled, again)), (RequirementVerdict::Pass, RequirementVerdict::Pass));
    assert_eq!(
        (of(&lost, None), of(&doubled, None)),
        (RequirementVerdict::Fail, RequirementVerdict::Undecided)
    );
}

/// Who is decided stays so while its test goes on for the sake of others.
#[test]
fn the_first_look_that_decides_counts() {
    let wanted = number("at_most = 12");
    let mut rounds: Vec<TestRound> = [9.0, 10.0, 11.0, 9.5, 10.5, 10.0].into_iter().map(printed).collect();
    let first = judged(&wanted, &rounds);
    assert_eq!(first.verdict, RequirementVerdict::Pass);
    rounds.extend((0..30).map(|_| printed(1e6)));
    assert_eq!(judged(&wanted, &rounds), first);
}

#[test]
fn looks_are_few_and_only_there_is_decided() {
    let wanted = number("at_most = 12");
    let looks: Vec<u32> = (1..=50).filter(|count| may_decide(&wanted, *count)).collect();
    assert_eq!(looks, [6, 9, 14, 21, 32, 48]);
    let seen = requirement("metric = \"placement.running\"\npartition = \"a\"\nexactly = 1");
    assert!(may_decide(&seen, 1));
}

#[test]
fn what_fails_as_often_as_not_decides_nothing() {
    let wanted = number("at_most = 12");
    let mut rounds: Vec<TestRound> = (0..6).map(|_| printed(1.0)).collect();
    assert_eq!(judged(&wanted, &rounds).verdict, RequirementVerdict::Pass);
    rounds.splice(0..0, (0..6).map(|_| broken()));
    let got = judged(&wanted, &rounds);
    assert_eq!((got.verdict, got.failed_rounds), (RequirementVerdict::Undecided, 6), "{got:?}");
    let got = judged(&wanted, &[broken()]);
    assert_eq!(
        (got.verdict, got.value, got.reason.as_str()),
        (RequirementVerdict::Undecided, None, "it broke")
    );
    assert_eq!(judged(&wanted, &[]).verdict, RequirementVerdict::NotRun);
}

#[test]
fn the_worst_of_three_outages_counts_and_one_without_an_end_is_as_long_as_was_waited() {
    let wanted = requirement(
        "metric = \"outage.duration_ns\"\nat_most = \"10 s\"\nfailure = \"qemu.a\"\nclient = { kind = \"greeting\", at = \"127.0.0.1:1\" }",
    );
    let outage = |again: Option<u64>| {
        round(Observed::Outage(Outage {
            failed_unix_ns: None,
            answered_before: 20,
            first_missing_ns: Some(Nanos::from_nanos(1_000_000)),
            answered_again_ns: again.map(|s| Nanos::from_nanos(s * 1_000_000_000)),
            restored_ns: None,
            asked: 100,
            lost: 3,
            doubled: None,
            waited_ns: Nanos::from_nanos(60_000_000_000),
            undone: String::new(),
        }))
    };
    let good = [outage(Some(2)), outage(Some(9)), outage(Some(3))];
    assert_eq!(judged(&wanted, &good[..2]).verdict, RequirementVerdict::Undecided);
    let got = judged(&wanted, &good);
    assert_eq!(
        (got.verdict, got.value, got.margin_percent),
        (RequirementVerdict::Pass, Some(9e9), Some(10.0))
    );
    assert_eq!(judged(&wanted, &[outage(Some(2)), outage(None)]).verdict, RequirementVerdict::Fail);
}

/// Quantiles are those of all rounds together: that of a round of forty requests says nothing of one in a thousand.
#[test]
fn what_a_client_waits_is_judged_by_the_quantile_of_all_rounds() {
    let client = "client = { kind = \"http\", at = \"127.0.0.1:1\" }\nload = \"as-is\"";
    let wanted =
        |metric: &str, limit: &str| requirement(&format!("metric = \"{metric}\"\n{limit}\n{client}"));
    // One in a hundred takes 30 to 59 ms, all others 1 to 2.
    let rounds = |count: u64| -> Vec<TestRound> {
        let of = |round: u64| {
            let took = (0..200).map(|at| match at % 100 {
                0 => 30_000_000 + (at / 4 + round) % 60 * 500_000,
                _ => 1_000_000 + (at + round) * 4000,
            });
            Observed::Responses(Responses {
                response_ns: Histogram::from_values(took),
                asked: 200,
                missing: 0,
                clients: Vec::new(),
            })
        };
        (0..count).map(|number| round(of(number))).collect()
    };
    let verdict = |metric, limit, count| {
        let got = judged(&wanted(metric, limit), &rounds(count));
        println!("{metric} {limit} after {count}: {}", got.reason);
        got.verdict
    };
    assert_eq!(verdict("response.p90_ns", "at_most = \"10 ms\"", 6), RequirementVerdict::Pass);
    assert_eq!(verdict("response.p90_ns", "at_most = \"1 ms\"", 6), RequirementVerdict::Fail);
    assert_eq!(verdict("response.p99_9_ns", "at_most = \"100 ms\"", 6), RequirementVerdict::Undecided);
    assert_eq!(verdict("response.p99_9_ns", "at_most = \"100 ms\"", 48), RequirementVerdict::Pass);
    assert_eq!(verdict("response.p99_9_ns", "at_most = \"20 ms\"", 48), RequirementVerdict::Fail);
    assert_eq!(verdict("response.longest_ns", "at_most = \"40 ms\"", 1), RequirementVerdict::Fail);
    assert_eq!(verdict("response.longest_ns", "at_most = \"60 ms\"", 10), RequirementVerdict::Pass);
    assert_eq!(verdict("response.missing", "exactly = 0", 10), RequirementVerdict::Pass);
    assert_eq!(verdict("response.missing", "exactly = 0", 9), RequirementVerdict::Undecided);
}

/// Each client has a rate of its own, by its own time; together they are what the server can.
#[test]
fn a_capacity_is_what_came_in_time_a_second() {
    let client = "client = { kind = \"http\", at = \"127.0.0.1:1\" }\nload = \"as-is\"";
    let wanted = requirement(&format!("metric = \"capacity.answers_per_s\"\nat_least = \"40 /s\"\n{client}"));
    let seen = |clients: &[(u64, u64)]| {
        let one = |(answers, ms): &(u64, u64)| {
            let over_ns = Nanos::from_nanos(ms * 1_000_000);
            ClientCycles { answers: *answers, over_ns }
        };
        Observed::Responses(Responses {
            response_ns: Histogram::from_values([1_000_000]),
            asked: 1,
            missing: 0,
            clients: clients.iter().map(one).collect(),
        })
    };
    let verdict = |clients: &[(u64, u64)]| {
        let rounds: Vec<TestRound> = (0..6).map(|_| round(seen(clients))).collect();
        judged(&wanted, &rounds).verdict
    };
    // 30 a second of one client and 15 of another, whatever either took for it; 30 and 9.
    assert_eq!(verdict(&[(60, 2000), (45, 3000)]), RequirementVerdict::Pass);
    assert_eq!(verdict(&[(60, 2000), (27, 3000)]), RequirementVerdict::Fail);
    assert_eq!(verdict(&[]), RequirementVerdict::Undecided);
    assert_eq!(verdict(&[(60, 0)]), RequirementVerdict::Undecided);
}

/// Regression: of a server that pauses for 3 s after 12 s, most rounds saw no pause, and a rate of 80 passed as 100.
#[test]
fn rounds_that_saw_less_than_the_longest_do_not_count() {
    let client = "client = { kind = \"http\", at = \"127.0.0.1:1\" }\nload = \"as-is\"";
    let wanted = requirement(&format!("metric = \"capacity.answers_per_s\"\nat_least = \"92 /s\"\n{client}"));
    let seen = |(answers, ms): (u64, u64)| {
        let clients = vec![ClientCycles { answers, over_ns: Nanos::from_nanos(ms * 1_000_000) }];
        let response_ns = Histogram::from_values([1_000_000]);
        round(Observed::Responses(Responses { response_ns, asked: 1, missing: 0, clients }))
    };
    let (short, long) = ((210, 2100), (1200, 15_000));
    let verdict = |all: &[(u64, u64)]| {
        let rounds: Vec<TestRound> = all.iter().map(|one| seen(*one)).collect();
        assert_eq!(longest_of(&rounds), Duration::from_millis(all.iter().map(|one| one.1).max().unwrap()));
        let judged = judged(&wanted, &rounds);
        let left_out =
            all.iter().filter(|one| one.1 * 2 < all.iter().map(|one| one.1).max().unwrap()).count();
        assert_eq!(
            judged.reason.contains(&format!("; {left_out} rounds less than half")),
            left_out > 0,
            "{judged:?}"
        );
        judged.verdict
    };
    assert_eq!(verdict(&[short; 6]), RequirementVerdict::Pass);
    assert_eq!(verdict(&[short, short, short, short, short, long]), RequirementVerdict::Undecided, "of one");
    assert_eq!(verdict(&[short, short, short, long, long, long, long, long, long]), RequirementVerdict::Fail);
}
