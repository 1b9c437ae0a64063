//! Results as `JUnit` XML: a test case for each requirement, which the property `verifies` names. `StrictDoc` takes class and name, without
//! the first word, for the path of a file: `requirements/SET/ID`.
//!
//! | verdict | in `JUnit` |
//! | --- | --- |
//! | pass | success |
//! | fail, undecided, stale | failure, whose type is the verdict: an error is refused by some importers |
//! | not run, not applicable | skipped |

use std::time::Duration;

use model::verification::{RequirementResult, RequirementVerdict, Verification};
use quick_junit::{NonSuccessKind, Property, Report, TestCase, TestCaseStatus, TestSuite};
use units::Reason;

/// The class of all test cases.
const CLASS: &str = "bulkhead.requirements";

/// The file's text.
///
/// # Errors
/// It cannot be written as XML.
pub fn xml(verification: &Verification) -> Result<String, Reason> {
    let mut suite = TestSuite::new(verification.set.as_str());
    suite.add_test_cases(verification.requirements.iter().map(|one| case(&verification.set, one)));
    let mut report = Report::new("bulkhead verify");
    report.add_test_suite(suite);
    let text = report.to_string().map_err(|error| Reason::from(error.to_string()))?;
    Ok(text.replace(|sign: char| !is_char(sign), "\u{fffd}"))
}

/// Whether XML 1.0 (§ 2.2) has this character. What a test says may hold others, which no reference can write either; one that is left
/// makes the whole file no XML.
fn is_char(sign: char) -> bool {
    matches!(sign, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
}

/// Its name is not the requirement's alone: importers take both for ids, which must differ.
fn case(set: &str, one: &RequirementResult) -> TestCase {
    let own = one.direct.as_ref().filter(|judged| judged.verdict == one.verdict);
    let reason = match (own, one.verdict) {
        (Some(judged), _) => judged.reason.as_str(),
        (None, RequirementVerdict::NotApplicable) => "a part of it cannot be tested",
        (None, _) => "because of its parts",
    };
    let stopped = |kind| {
        let mut status = TestCaseStatus::non_success(kind);
        status.set_message(format!("{}: {reason}", one.verdict.as_str()));
        status.set_type(one.verdict.as_str());
        status
    };
    let status = match one.verdict {
        RequirementVerdict::Pass => TestCaseStatus::success(),
        RequirementVerdict::Fail | RequirementVerdict::Undecided | RequirementVerdict::Stale => {
            stopped(NonSuccessKind::Failure)
        }
        RequirementVerdict::NotRun | RequirementVerdict::NotApplicable => {
            let mut status = TestCaseStatus::skipped();
            status.set_message(format!("{}: {reason}", one.verdict.as_str()));
            status
        }
    };
    let mut case = TestCase::new(format!("{set}/{}", one.id), status);
    case.set_classname(CLASS);
    case.set_time(Duration::from_nanos(one.took_ns.get()));
    case.add_property(Property::new("verifies", one.id.as_str()));
    case.add_property(Property::new("text", one.requirement.text.as_str()));
    if let Some(metric) = &one.requirement.metric {
        case.add_property(Property::new("metric", metric.to_string()));
    }
    if let Some(test) = &one.test {
        case.add_property(Property::new("test", test.as_str()));
    }
    case
}

#[cfg(test)]
mod tests {
    use model::verification::VERIFICATION_VERSION;
    use units::Nanos;

    use super::*;

    #[test]
    fn what_is_no_character_of_xml_is_replaced() {
        let verification = Verification {
            schema_version: VERIFICATION_VERSION,
            bulkhead_version: String::new(),
            set: "a\u{fffe}b\u{ffff}c\u{1}é\u{1f600}<".to_owned(),
            started_unix_ns: Nanos::ZERO,
            took_ns: Nanos::ZERO,
            is_whole: true,
            basis: model::verification::Basis::new(),
            requirements: Vec::new(),
            tests: Vec::new(),
            history: Vec::new(),
        };
        let text = xml(&verification).unwrap();
        assert!(text.contains("name=\"a\u{fffd}b\u{fffd}cé\u{1f600}&lt;\""), "{text}");
        assert!(text.chars().all(is_char), "{text}");
        assert!(['\0', '\u{b}', '\u{1f}', '\u{fffe}', '\u{ffff}'].into_iter().all(|sign| !is_char(sign)));
    }
}
