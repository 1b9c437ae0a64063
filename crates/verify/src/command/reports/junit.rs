//! `JUnit`'s XML as Jenkins and Surefire write it: suites may hold suites. Elements are known by their local names. What a document
//! declares for itself, entities or attributes, is not expanded: such a document is not understood.
//!
//! Sources: XML 1.0, § 2.5 and § 4.6; `GoogleTest`'s and `CTest`'s writers, which mark a test that did not run by `status` or `result`.

use std::collections::BTreeMap;

use model::verification::TestCounts;
use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};
use units::Reason;

use super::failed;

/// How what is none of a report begins.
const COMMENT: &str = "<!--";
/// How declarations begin whose effect on a document is not known without reading them.
const DECLARATIONS: [&str; 2] = ["<!ENTITY", "<!ATTLIST"];
/// Values of `status` and `result` of a test that did not run.
const NOT_RUN: [&str; 6] = ["notrun", "not run", "disabled", "suppressed", "skipped", "ignored"];
/// And of one that failed, whether it has an element that says so or not.
const FAILED: [&str; 6] = ["failed", "failure", "fail", "error", "errored", "false"];
/// And of one that did not. What says something else is not understood.
const GOOD: [&str; 12] = [
    "",
    "run",
    "completed",
    "executed",
    "passed",
    "pass",
    "success",
    "successful",
    "succeeded",
    "ok",
    "done",
    "true",
];

/// What was read of all documents, one behind the other.
#[derive(Debug, Default)]
pub(super) struct Documents<'a> {
    /// Tests and failures, where there is any document.
    pub tests: Option<TestCounts>,
    /// What was not understood.
    pub unread: Option<String>,
    /// What stands before, between and behind them.
    pub beside: Vec<&'a str>,
}

/// Reads all documents in a text.
pub(super) fn read(text: &str) -> Documents<'_> {
    let (mut rest, mut unread) = (text, None);
    let mut all = Documents::default();
    while let Some((found, element)) = next_element(rest) {
        let read = match found {
            Found::Suite => match Document::default().read(element, all.tests.get_or_insert_default()) {
                Ok(read) => {
                    all.beside.extend(rest.strip_suffix(element));
                    read
                }
                Err(why) => {
                    all.unread = Some(format!("its JUnit is not understood: {why}"));
                    break;
                }
            },
            Found::Case => {
                unread = Some("its JUnit has a test outside of all suites");
                1
            }
            Found::Declaration => {
                unread = Some("its JUnit is not understood: it declares entities or attributes of its own");
                1
            }
        };
        rest = element.get(read..).unwrap_or_default();
    }
    all.beside.push(rest);
    let unread = unread.filter(|_| all.tests.is_some()).map(str::to_owned);
    all.unread = all.unread.or(unread);
    all
}

/// What is found where something begins with `<`.
enum Found {
    Suite,
    /// A test that is in no suite.
    Case,
    Declaration,
}

/// The text from where a suite begins, or a test that is in none. What a comment holds is none; within one there is no "--" (XML 1.0,
/// § 2.5), so that a stray beginning hides nothing.
fn next_element(text: &str) -> Option<(Found, &str)> {
    let mut rest = text;
    loop {
        rest = rest.get(rest.find('<')?..)?;
        if let Some(found) = found(rest) {
            return Some((found, rest));
        }
        let inside = rest.strip_prefix(COMMENT);
        let after = inside.and_then(|inside| inside.get(inside.find("--")?..)?.strip_prefix("-->"));
        rest = after.or_else(|| rest.get(1..))?;
    }
}

/// What a text begins with.
fn found(text: &str) -> Option<Found> {
    if DECLARATIONS.iter().any(|declaration| text.starts_with(*declaration)) {
        return Some(Found::Declaration);
    }
    let ends_name = |sign: char| sign.is_ascii_whitespace() || matches!(sign, '<' | '/' | '>');
    let name = text.strip_prefix('<')?.split(ends_name).next()?;
    match name.split_once(':').map_or(name, |(_, local)| local) {
        "testsuite" | "testsuites" => Some(Found::Suite),
        "testcase" => Some(Found::Case),
        _ => None,
    }
}

/// A suite that is open: its name, how many tests it says there are and failed, how many there were and had before.
struct OpenSuite {
    name: String,
    says: Numbers,
    before: Numbers,
    /// Cases before whose `status` is not `run`.
    others_before: u64,
    says_failed: bool,
}

#[derive(Clone, Copy)]
struct Numbers {
    all: u64,
    failed: u64,
}

/// A test case that is open, and whether it failed or was left out.
#[derive(Default)]
struct OpenCase {
    name: String,
    failure: Option<String>,
    is_left_out: bool,
}

/// A document as far as it was read.
#[derive(Default)]
struct Document {
    suites: Vec<OpenSuite>,
    case: Option<OpenCase>,
    depth: usize,
    /// Cases whose `status` is not `run`, as that of all is of those who count assertions where others count tests (doctest, Catch2).
    others: u64,
}

impl Document {
    /// Reads until the first element is closed; how many bytes that were.
    fn read(&mut self, text: &str, counts: &mut TestCounts) -> Result<usize, Reason> {
        let mut reader = Reader::from_str(text);
        loop {
            match reader.read_event().map_err(|error| Reason::from(error.to_string()))? {
                Event::Start(start) => {
                    self.depth += 1;
                    self.open(&start, counts)?;
                }
                Event::Empty(start) => {
                    self.open(&start, counts)?;
                    self.close(start.local_name().as_ref(), counts);
                }
                Event::End(end) => {
                    self.depth = self.depth.saturating_sub(1);
                    self.close(end.local_name().as_ref(), counts);
                }
                // A failure may be what it stands for.
                Event::GeneralRef(entity)
                    if !entity.is_char_ref()
                        && !matches!(&*entity, b"amp" | b"lt" | b"gt" | b"apos" | b"quot") =>
                {
                    let name = String::from_utf8_lossy(&entity);
                    return Err(format!("&{name}; is none of XML's own entities").into());
                }
                Event::DocType(_) => return Err("a document type is inside of it".into()),
                Event::Eof => return Err("it is not ended".into()),
                _ => {}
            }
            if self.depth == 0 {
                let read = usize::try_from(reader.buffer_position()).unwrap_or(text.len());
                return Ok(read.max(1));
            }
        }
    }

    fn open(&mut self, start: &BytesStart<'_>, counts: &mut TestCounts) -> Result<(), Reason> {
        let values = attributes(start)?;
        let text = |name: &str| values.get(name).cloned().unwrap_or_default();
        let number = |name: &str| number(name, &text(name));
        match (start.local_name().as_ref(), &mut self.case) {
            (b"testsuite" | b"testsuites", None) => self.suites.push(OpenSuite {
                name: text("name"),
                says: Numbers {
                    all: number("tests")?,
                    failed: number("failures")?.saturating_add(number("errors")?).max(number("failed")?),
                },
                before: Numbers { all: counts.all, failed: counts.failed },
                others_before: self.others,
                says_failed: state(&values)? == Ended::Badly,
            }),
            // Of the suite itself: what it does before all its tests, for one.
            (b"failure" | b"error", None) => {
                let name = self.suites.last().map(|suite| suite.name.clone()).unwrap_or_default();
                counts.all = counts.all.saturating_add(1);
                failed(counts, &format!("{name}: {}", text("message")), 1);
            }
            (b"testcase", None) => {
                let ended = state(&values)?;
                let failure = (ended == Ended::Badly).then(String::new);
                self.others += u64::from(text("status") != "run");
                let is_left_out = ended == Ended::NotRun;
                self.case = Some(OpenCase { name: text("name"), is_left_out, failure });
            }
            (b"failure" | b"error", Some(case)) => case.failure = Some(text("message")),
            (b"skipped" | b"disabled", Some(case)) => case.is_left_out = true,
            _ => {}
        }
        Ok(())
    }

    fn close(&mut self, name: &[u8], counts: &mut TestCounts) {
        match name {
            b"testcase" => {
                let Some(case) = self.case.take() else { return };
                counts.all = counts.all.saturating_add(1);
                match case.failure {
                    Some(said) if said.is_empty() => failed(counts, &case.name, 1),
                    Some(said) => failed(counts, &format!("{}: {said}", case.name), 1),
                    None => counts.left_out = counts.left_out.saturating_add(u64::from(case.is_left_out)),
                }
            }
            b"testsuite" | b"testsuites" if self.case.is_none() => {
                let Some(suite) = self.suites.pop() else { return };
                let named = counts.failed.saturating_sub(suite.before.failed);
                let unnamed = suite.says.failed.saturating_sub(named);
                counts.all = counts.all.saturating_add(unnamed);
                failed(counts, &format!("{} says that {unnamed} more failed", suite.name), unnamed);
                let came = counts.all.saturating_sub(suite.before.all);
                let counts_assertions = came > 0 && self.others == suite.others_before;
                let missing = if counts_assertions { 0 } else { suite.says.all.saturating_sub(came) };
                counts.all = counts.all.saturating_add(missing);
                failed(counts, &format!("{missing} tests of {} did not come", suite.name), missing);
                if suite.says_failed && counts.failed == suite.before.failed {
                    counts.all = counts.all.saturating_add(1);
                    failed(counts, &format!("{} says that it failed", suite.name), 1);
                }
            }
            _ => {}
        }
    }
}

/// How a test or suite ended, as its own attributes have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    Well,
    Badly,
    NotRun,
}

fn state(values: &BTreeMap<String, String>) -> Result<Ended, Reason> {
    let mut ended = Ended::Well;
    for name in ["status", "result", "success"] {
        let value = values.get(name).map(|value| value.trim().to_ascii_lowercase()).unwrap_or_default();
        let is_one_of = |all: &[&str]| all.contains(&value.as_str());
        if is_one_of(&FAILED) {
            return Ok(Ended::Badly);
        } else if is_one_of(&NOT_RUN) {
            ended = Ended::NotRun;
        } else if !is_one_of(&GOOD) {
            return Err(format!("{name}=\"{value}\" says neither that it failed nor that it did not").into());
        }
    }
    Ok(ended)
}

/// All attributes of an element, unescaped. All are read, so that none that cannot be is taken for one that says nothing.
fn attributes(start: &BytesStart<'_>) -> Result<BTreeMap<String, String>, Reason> {
    let mut values = BTreeMap::new();
    for attribute in start.attributes() {
        let attribute = attribute.map_err(|error| Reason::from(error.to_string()))?;
        let value = attribute.normalized_value(XmlVersion::Implicit1_0);
        let value = value.map_err(|error| Reason::from(error.to_string()))?;
        let name = String::from_utf8_lossy(attribute.key.as_ref()).into_owned();
        values.insert(name, value.into_owned());
    }
    Ok(values)
}

/// How many an attribute says; one that is missing or empty says nothing.
fn number(name: &str, value: &str) -> Result<u64, Reason> {
    match value.trim() {
        "" => Ok(0),
        value => value.parse::<u64>().map_err(|_| format!("{name} is no number: {value}").into()),
    }
}
