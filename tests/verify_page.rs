//! `verify.html` of 2,000 requirements and 10,000 results in a real browser: it opens, asks nobody, says everything, and stays within
//! its window and its sheet of paper, whatever ids and sentences look like.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use bulkhead::model::requirement::{RequirementFile, Subject};
use bulkhead::model::verification::{
    Judged, RequirementResult, RequirementVerdict, TestKind, TestSpec, VERIFICATION_VERSION, Verification,
};
use bulkhead::report::verification_page;
use bulkhead::units::Nanos;

use crate::browser::cdp::start_or_skip;
use crate::verdict::{Judge, Mark};

const REQUIREMENTS: usize = 2000;
/// Results of each.
const ROUNDS: u32 = 5;
/// How often the page is opened.
const OPENED: usize = 12;
/// Width of a sheet of A4 in CSS pixels, without the margins that are usual.
const SHEET: u32 = 718;

/// As long as an id may be, every hundredth without a place to break it.
fn id(at: usize) -> String {
    let fill = if at.is_multiple_of(100) { "W" } else { "x." };
    let tail = format!("R{at}");
    let head: String = fill.repeat(64).chars().take(64 - tail.len()).collect();
    if at.is_multiple_of(50) { format!("{head}{tail}") } else { tail }
}

fn wanted() -> RequirementFile {
    let mut text = "set = \"plant\"\n".to_owned();
    for at in 0..REQUIREMENTS {
        let sentence = match at % 4 {
            0 => "漢字だけの文は、どこで折り返すのか。".repeat(4),
            1 => "unbroken".repeat(30),
            2 => "It answers <b>in time</b> & is not interrupted.".to_owned(),
            _ => "99.9 % of activations are answered within 10 ms, while the host is busy.".to_owned(),
        };
        let parent =
            if at % 10 == 0 { String::new() } else { format!("parent = \"{}\"\n", id(at - at % 10)) };
        let _ = write!(
            text,
            "[requirement.\"{}\"]\ntext = \"{sentence}\"\n{parent}partition = \"plc\"\nmetric = \"wakeup.response_p99_9_ns\"\n\
             at_most = \"10 ms\"\nload = [\"cpu@host\", \"memory@db\"]\n",
            id(at)
        );
    }
    RequirementFile::from_toml(&text, "").unwrap_or_else(|errors| panic!("{errors:?}"))
}

fn verification() -> Verification {
    let verdicts = [
        RequirementVerdict::Pass,
        RequirementVerdict::Fail,
        RequirementVerdict::Undecided,
        RequirementVerdict::Stale,
        RequirementVerdict::NotRun,
    ];
    let requirements = wanted().requirements.into_iter().enumerate().map(|(at, (id, requirement))| {
        let (comparator, limit) = requirement.limit().expect("it has one");
        let verdict = verdicts[at % verdicts.len()];
        RequirementResult {
            test: Some(format!("test-{at}")),
            unit: Some(limit.unit),
            comparator: Some(comparator),
            limit: Some(limit.value),
            direct: Some(Judged {
                verdict,
                value: Some(6.1e6),
                low: Some(5.2e6),
                high: Some(7.8e6),
                confidence: Some(0.967),
                margin_percent: Some(22.0),
                rounds: ROUNDS,
                failed_rounds: 1,
                reason: "6.10 ms [5.20 ms … 7.80 ms] after 5 rounds".to_owned(),
            }),
            inherited: None,
            verdict,
            changed: Vec::new(),
            rests_on: BTreeMap::from([("kernel".to_owned(), "6.1.0-56".to_owned())]),
            seen_unix_ns: Some(Nanos::from_nanos(1_764_208_800_000_000_000)),
            took_ns: Nanos::from_nanos(4_200_000_000),
            id,
            requirement,
        }
    });
    let requirements: Vec<RequirementResult> = requirements.collect();
    let kind = TestKind::Look { subject: Subject::Partition("plc".to_owned()) };
    let spec = |(at, one): (usize, &RequirementResult)| TestSpec {
        id: format!("test-{at}"),
        kind: kind.clone(),
        requirements: vec![one.id.clone()],
    };
    Verification {
        schema_version: VERIFICATION_VERSION,
        bulkhead_version: "0.1.0".to_owned(),
        set: "plant".to_owned(),
        started_unix_ns: Nanos::from_nanos(1_764_208_800_000_000_000),
        took_ns: Nanos::from_nanos(95_000_000_000),
        is_whole: true,
        basis: BTreeMap::from([("kernel".to_owned(), "6.1.0-56".to_owned())]),
        tests: requirements.iter().enumerate().map(spec).collect(),
        requirements,
        history: Vec::new(),
    }
}

#[test]
fn two_thousand_requirements_are_read_on_screens_and_on_paper() {
    let Some(mut browser) = start_or_skip() else { return };
    let verification = verification();
    let html = verification_page::html(&verification);
    println!("{} bytes", html.len());
    assert!(html.len() < 5_000_000, "{} bytes", html.len());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("verify.html");
    fs::write(&file, html).unwrap();
    let mut opened_ms = Vec::new();
    for _ in 0..OPENED {
        browser.open(&file);
        assert_eq!(browser.complaints(), Vec::<String>::new());
        assert_eq!(browser.requests().len(), 1, "itself alone: {:?}", browser.requests());
        let ready = browser.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd");
        opened_ms.push(ready.as_f64().unwrap());
    }
    let what = "page of 2,000 requirements and 10,000 results opens, ms";
    Judge::default().rounds(what, &opened_ms, Mark::AtMost(1000.0));
    let text = browser.evaluate("document.body.textContent");
    let text = text.as_str().unwrap();
    assert!(verification.requirements.iter().all(|one| text.contains(&one.id)), "all are there");
    assert!(text.contains("<b>in time</b> & is not"), "sentences as they were written");
    for (width, medium) in [(1280, "screen"), (390, "screen"), (SHEET, "print")] {
        browser.show_as(width, 900, "light", medium);
        browser.open(&file);
        // Wider than the page is only what scrolls in a box of its own, which paper does not have.
        let beyond = browser.evaluate(
            "[...document.querySelectorAll('body *')].filter(e => !e.closest('.scroll, nav') || matchMedia('print').matches) \
             .filter(e => e.getBoundingClientRect().right > innerWidth + 1) \
             .slice(0, 5).map(e => e.outerHTML.slice(0, 300)).join('\\n')",
        );
        assert_eq!(beyond, serde_json::json!(""), "{width} on {medium}");
        let wide =
            browser.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth");
        assert_eq!(wide, serde_json::json!(0), "{width} on {medium}");
        if let Some(folder) = std::env::var_os("BULKHEAD_WRITE_PAGE") {
            let shot = browser.call("Page.captureScreenshot", &serde_json::json!({}));
            fs::write(Path::new(&folder).join(format!("verify-{width}.b64")), shot["data"].as_str().unwrap())
                .unwrap();
        }
        if medium == "print" {
            let hidden = browser.evaluate(
                "[...document.querySelectorAll('body *:not(nav *)')].filter(e => e.scrollWidth > e.clientWidth + 1 && \
                 getComputedStyle(e).overflowX !== 'visible').map(e => e.className || e.tagName).join(' ')",
            );
            assert_eq!(hidden, serde_json::json!(""), "cut off on paper");
        }
    }
}
