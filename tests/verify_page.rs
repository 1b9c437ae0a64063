//! `verify.html` of 2,000 requirements and 12,000 results in a real browser: it opens, asks nobody, says everything, and stays within
//! its window and its sheet of paper, whatever ids and sentences look like.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use bulkhead::model::requirement::RequirementFile;
use bulkhead::model::verification::{
    Commanded, Observed, RequirementVerdict, TestRound, VERIFICATION_VERSION, Verification, VerifyHeader,
};
use bulkhead::report::verification_page;
use bulkhead::units::Nanos;
use bulkhead::verify::conclude::{VerifyRun, conclude};

use crate::browser::cdp::start_or_skip;
use crate::verdict::{Judge, Mark};

const REQUIREMENTS: usize = 2000;
/// Results of each, as many as a verdict of what is measured takes.
const ROUNDS: u32 = 6;
/// When it all was, in nanoseconds since 1970.
const MOMENT: Nanos = Nanos::from_nanos(1_764_208_800_000_000_000);
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
            "[requirement.\"{}\"]\ntext = \"{sentence}\"\n{parent}metric = \"command\"\nat_most = 100\n\
             command = [\"./test\", \"{at}\"]\nload = [\"cpu@host\", \"memory@db\"]\n",
            id(at)
        );
    }
    RequirementFile::from_toml(&text, "").unwrap_or_else(|errors| panic!("{errors:?}"))
}

/// What comes of 12,000 rounds: of five requirements two pass, one fails, of one no round could be made, one was edited since.
/// Each tenth has the nine after it as its parts.
fn verification() -> Verification {
    let wanted = wanted().requirements;
    let (before, _) = conclude(&wanted, &[], &BTreeMap::new());
    let basis = |edition: &str| {
        let edited = before.iter().skip(3).step_by(5);
        edited.map(|one| (format!("requirement.{}", one.id), edition.to_owned())).collect::<BTreeMap<_, _>>()
    };
    let seen = |at: usize, round: u32| match at % 5 {
        2 => Observed::Failed { reason: "./test cannot be started".into() },
        kind => {
            let value = f64::from(round) + if kind == 1 { 150.0 } else { 50.0 };
            Observed::Commanded(Commanded { value: Some(value), ..Commanded::default() })
        }
    };
    let rounds = before.iter().enumerate().flat_map(|(at, one)| {
        (1..=ROUNDS).map(move |round| TestRound {
            test: one.test.clone().expect("each has one"),
            round,
            started_unix_ns: MOMENT,
            took_ns: Nanos::from_nanos(4_200_000_000),
            seen: seen(at, round),
            doses: Vec::new(),
        })
    });
    let header = VerifyHeader {
        schema_version: VERIFICATION_VERSION,
        bulkhead_version: "0.1.0".to_owned(),
        started_unix_ns: MOMENT,
        set: "plant".to_owned(),
        seed: 0,
        basis: basis("as it was"),
    };
    let run = VerifyRun { header, rounds: rounds.collect(), is_ended: true };
    assert_eq!(run.rounds.len(), REQUIREMENTS * ROUNDS as usize);
    let today = basis("as it is");
    let (requirements, tests) = conclude(&wanted, &[run], &today);
    Verification {
        schema_version: VERIFICATION_VERSION,
        bulkhead_version: "0.1.0".to_owned(),
        set: "plant".to_owned(),
        started_unix_ns: MOMENT,
        took_ns: Nanos::from_nanos(95_000_000_000),
        is_whole: true,
        basis: today,
        tests,
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
    for verdict in [
        RequirementVerdict::Pass,
        RequirementVerdict::Fail,
        RequirementVerdict::Undecided,
        RequirementVerdict::Stale,
    ] {
        assert!(verification.count(verdict) >= REQUIREMENTS / 10, "{verdict:?}");
    }
    let what = "page of 2,000 requirements and 12,000 results opens, ms";
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
        if medium == "print" {
            let hidden = browser.evaluate(
                "[...document.querySelectorAll('body *:not(nav *)')].filter(e => e.scrollWidth > e.clientWidth + 1 && \
                 getComputedStyle(e).overflowX !== 'visible').map(e => e.className || e.tagName).join(' ')",
            );
            assert_eq!(hidden, serde_json::json!(""), "cut off on paper");
        }
    }
}
