//! A verification with every verdict, as its page and its screen show it.

use std::collections::BTreeMap;

use model::requirement::{RequirementFile, Subject};
use model::verification::{
    Acceptance, Change, Judged, RequirementResult, RequirementVerdict, TestKind, TestSpec,
    VERIFICATION_VERSION, Verification,
};
use units::Nanos;
use units::metric::Unit;

use super::screen;
use crate::terminal::Style;
use crate::verification_page;

const FILE: &str = r#"
set = "plant"
[requirement.T]
text = "The controller reacts in time."
[requirement."T.1"]
text = "99.9 % of activations are answered within 10 ms, while the host is busy."
parent = "T"
partition = "plc"
metric = "wakeup.response_p99_9_ns"
at_most = "10 ms"
load = ["cpu@host", "memory@db"]
[requirement."T.2"]
text = "It lies where it was planned."
parent = "T"
partition = "plc"
metric = "placement.differences"
exactly = 0
[requirement."T.3"]
text = "The same work takes no longer beside neighbours."
parent = "T"
partition = "plc"
metric = "fwq.quantum_p99_ns"
at_most = "2 ms"
load = "as-is"
[requirement.D]
text = "Data is kept and found."
[requirement."D.1"]
text = "The database writes 30 MB/s."
parent = "D"
partition = "db"
metric = "disk.write_fsync_bytes_per_s"
at_least = "30 MB/s"
load = "as-is"
folder = "/var/lib/db"
[requirement."D.2"]
text = "A dead database answers again within 10 s."
parent = "D"
metric = "outage.duration_ns"
at_most = "10 s"
failure = "qemu.db"
client = { kind = "http", at = "127.0.0.1:8080" }
[requirement."D.3"]
text = "Its own acceptance test passes."
parent = "D"
metric = "command.failures"
exactly = 0
command = ["./acceptance", "--tap"]
[requirement.N]
text = "Both links of the control network are there."
network = "control"
metric = "network.links_up"
exactly = 2
[requirement.H]
text = "Memory is never overcommitted."
host = true
metric = "host.memory_overcommitted_bytes"
at_most = "0 B"
[requirement.X]
text = "It survives <b>a fire</b>."
not_tested = "nobody burns the laboratory"
"#;

fn judged(
    verdict: RequirementVerdict,
    value: f64,
    ends: Option<(f64, f64)>,
    margin: Option<f64>,
    reason: &str,
) -> Judged {
    Judged {
        verdict,
        value: Some(value),
        low: ends.map(|ends| ends.0),
        high: ends.map(|ends| ends.1),
        confidence: ends.map(|_| 0.967),
        margin_percent: margin,
        rounds: if ends.is_some() { 9 } else { 1 },
        failed_rounds: 0,
        reason: reason.to_owned(),
    }
}

fn of(id: &str) -> Option<Judged> {
    let none = |verdict, reason: &str| Judged {
        verdict,
        value: None,
        rounds: 0,
        ..judged(verdict, 0.0, None, None, reason)
    };
    Some(match id {
        "T.1" => judged(
            RequirementVerdict::Pass,
            6.1e6,
            Some((5.2e6, 7.8e6)),
            Some(22.0),
            "6.10 ms [5.20 ms … 7.80 ms] after 9 rounds",
        ),
        "T.2" => judged(RequirementVerdict::Fail, 1.0, None, None, "it is 1"),
        "T.3" => judged(
            RequirementVerdict::Undecided,
            2.0e6,
            Some((1.7e6, 2.2e6)),
            Some(-10.0),
            "2.00 ms [1.70 ms … 2.20 ms] holds the limit after 48 rounds",
        ),
        "D.1" => judged(
            RequirementVerdict::Stale,
            4.1e7,
            Some((3.5e7, 4.4e7)),
            Some(17.0),
            "it was pass: 41 MB/s; since then changed: kernel",
        ),
        "D.2" => none(RequirementVerdict::NotRun, "failures are made with --failures alone"),
        "D.3" | "H" => judged(RequirementVerdict::Pass, 0.0, None, None, "it is 0"),
        "N" => judged(RequirementVerdict::Pass, 2.0, None, None, "it is 2"),
        "X" => none(RequirementVerdict::NotApplicable, "nobody burns the laboratory"),
        _ => return None,
    })
}

/// One of every kind.
pub fn example() -> Verification {
    let file = RequirementFile::from_toml(FILE, "").expect("good");
    let kernel = Change { what: "kernel".to_owned(), was: "6.1.0-55".to_owned(), is: "6.1.0-56".to_owned() };
    let requirements = file.requirements.into_iter().map(|(id, requirement)| {
        let direct = of(&id);
        let inherited = match id.as_str() {
            "T" => Some(RequirementVerdict::Fail),
            "D" => Some(RequirementVerdict::Stale),
            _ => None,
        };
        let verdict =
            direct.as_ref().map(|judged| judged.verdict).max(inherited).unwrap_or(RequirementVerdict::NotRun);
        let limit = requirement.limit().map(|(comparator, limit)| (comparator, limit.value, limit.unit));
        RequirementResult {
            test: requirement.metric.as_ref().map(|_| format!("test-{id}")),
            unit: limit.map(|limit| limit.2),
            comparator: limit.map(|limit| limit.0),
            limit: limit.map(|limit| limit.1),
            direct,
            inherited,
            verdict,
            changed: if id == "D.1" { vec![kernel.clone()] } else { Vec::new() },
            rests_on: BTreeMap::new(),
            seen_unix_ns: None,
            took_ns: Nanos::from_nanos(4_200_000_000),
            id,
            requirement,
        }
    });
    let requirements: Vec<RequirementResult> = requirements.collect();
    let tests = requirements.iter().filter_map(|one| {
        let kind = TestKind::Look { subject: Subject::Partition("plc".to_owned()) };
        Some(TestSpec { id: one.test.clone()?, kind, requirements: vec![one.id.clone()] })
    });
    let counts = [("pass".to_owned(), 7), ("fail".to_owned(), 1)].into();
    let changed = vec![Change { what: "T.2".to_owned(), was: "pass".to_owned(), is: "fail".to_owned() }];
    Verification {
        schema_version: VERIFICATION_VERSION,
        bulkhead_version: "0.1.0".to_owned(),
        set: "plant".to_owned(),
        started_unix_ns: Nanos::from_nanos(1_764_208_800_000_000_000),
        took_ns: Nanos::from_nanos(95_000_000_000),
        is_whole: true,
        basis: [
            ("kernel".to_owned(), "6.1.0-56".to_owned()),
            ("place.plc".to_owned(), "CPUs 2 usual, 256 MiB".to_owned()),
        ]
        .into(),
        tests: tests.collect(),
        requirements,
        history: vec![Acceptance {
            started_unix_ns: Nanos::from_nanos(1_764_108_800_000_000_000),
            counts,
            changed,
        }],
    }
}

const PLAIN: Style = Style { width: 80, colour: false };

#[test]
fn the_screen_says_the_answer_first_and_fits_eighty_columns() {
    insta::assert_snapshot!("screen", screen(&example(), PLAIN, false));
    insta::assert_snapshot!("screen_full", screen(&example(), PLAIN, true));
    for text in [screen(&example(), PLAIN, false), screen(&example(), PLAIN, true)] {
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
}

#[test]
fn the_page_tells_what_was_not_tested_before_what_fails_and_escapes_everything() {
    let page = verification_page::html(&example());
    let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("no {text}"));
    assert!(at("h-untested") < at("h-fails") && at("h-fails") < at("h-requirements"));
    assert!(at("nobody burns the laboratory") < at("h-fails"));
    assert!(!page.contains("<b>a fire"), "texts are escaped");
    assert!(page.contains("&lt;b&gt;a fire") && page.contains("6.1.0-55 → 6.1.0-56"));
    if let Some(folder) = std::env::var_os("BULKHEAD_WRITE_PAGE") {
        std::fs::write(std::path::Path::new(&folder).join("verify.html"), page).expect("written");
    }
}

#[test]
fn two_thousand_requirements_make_a_page_below_five_megabytes() {
    let example = example();
    let tested: Vec<&RequirementResult> =
        example.requirements.iter().filter(|one| one.test.is_some()).collect();
    let mut large = example.clone();
    let each = |at: usize| {
        let mut one = tested[at % tested.len()].clone();
        one.id = format!("R{at}");
        one.test = Some(format!("test-{at}"));
        one.requirement.parent = (!at.is_multiple_of(10)).then(|| format!("R{}", at - at % 10));
        one
    };
    large.requirements = (0..2000).map(each).collect();
    let kind = example.tests[0].kind.clone();
    large.tests = (0..2000)
        .map(|at| TestSpec {
            id: format!("test-{at}"),
            kind: kind.clone(),
            requirements: vec![format!("R{at}")],
        })
        .collect();
    let page = verification_page::html(&large);
    assert!(page.len() < 5_000_000, "{}", page.len());
    if let Some(folder) = std::env::var_os("BULKHEAD_WRITE_PAGE") {
        std::fs::write(std::path::Path::new(&folder).join("large.html"), page).expect("written");
    }
    assert_eq!(super::tree(&large).len(), 2000);
    assert_eq!(Unit::Count.format(2000.0), "2000");
}
