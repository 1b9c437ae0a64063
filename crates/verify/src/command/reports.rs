//! What a user's test printed of its tests: `JUnit` XML, or the Test Anything Protocol. What is not understood is said, never left out:
//! a report that ends in the middle, or says of itself that more failed than it names, is no report of success.
//!
//! Sources: `JUnit`'s XML as Jenkins and Surefire write it (suites may hold suites); testanything.org, versions 12 to 14.

use std::collections::BTreeSet;

use model::verification::TestCounts;
use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};
use units::Reason;

/// Tests that failed which are named.
const MOST_NAMED: usize = 3;
/// Letters of a name.
const LONGEST_NAME: usize = 200;
/// How a report of `JUnit` begins; that of several suites begins so, too.
const SUITE: &str = "<testsuite";
/// How a test of it begins.
const CASE: &str = "<testcase";
/// How what is none of it begins.
const COMMENT: &str = "<!--";

/// What was read, and why not all of it was.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Read {
    /// Tests and failures, where it printed any report.
    pub tests: Option<TestCounts>,
    /// What was not understood.
    pub unread: Option<String>,
}

/// All reports in an output: those of both kinds count together. Of one that is cut, nothing is missing that may have come later.
pub fn read(text: &str, is_cut: bool) -> Read {
    let (xml, unread) = junit(text);
    // Beside a report of the one kind, a line that begins with "ok" alone is none of the other.
    let beside = xml.is_some() || unread.is_some();
    let tests = match (xml, tap(text, is_cut, beside)) {
        (Some(xml), Some(tap)) => Some(both(xml, tap)),
        (xml, tap) => xml.or(tap),
    };
    Read { tests, unread }
}

fn both(mut one: TestCounts, other: TestCounts) -> TestCounts {
    one.all = one.all.saturating_add(other.all);
    one.failed = one.failed.saturating_add(other.failed);
    one.left_out = one.left_out.saturating_add(other.left_out);
    one.first_failed.extend(other.first_failed);
    one.first_failed.truncate(MOST_NAMED);
    one
}

/// So many more failed.
fn failed(counts: &mut TestCounts, name: &str, count: u64) {
    counts.failed = counts.failed.saturating_add(count);
    let name: String = name.trim().chars().filter(|sign| !sign.is_control()).take(LONGEST_NAME).collect();
    if count > 0 && !name.is_empty() && counts.first_failed.len() < MOST_NAMED {
        counts.first_failed.push(name);
    }
}

/// Counts of all documents of `JUnit`, one behind the other.
fn junit(text: &str) -> (Option<TestCounts>, Option<String>) {
    let (mut rest, mut counts, mut has_others) = (text, None, false);
    while let Some(element) = next_element(rest) {
        if element.starts_with(CASE) {
            has_others = true;
            rest = element.get(CASE.len()..).unwrap_or_default();
            continue;
        }
        let mut document = Document::default();
        match document.read(element, counts.get_or_insert_default()) {
            Ok(read) => rest = element.get(read..).unwrap_or_default(),
            Err(why) => return (counts, Some(format!("its JUnit is not understood: {why}"))),
        }
    }
    let is_unread = has_others && counts.is_some();
    (counts, is_unread.then(|| "its JUnit has a test outside of all suites".to_owned()))
}

/// The text from where a suite begins, or a test that is in none. What a comment holds is none; within one there is no "--" (XML 1.0,
/// § 2.5), so that a stray beginning hides nothing.
fn next_element(text: &str) -> Option<&str> {
    let mut rest = text;
    loop {
        rest = rest.get(rest.find('<')?..)?;
        if rest.starts_with(SUITE) || rest.starts_with(CASE) {
            return Some(rest);
        }
        let inside = rest.strip_prefix(COMMENT);
        let after = inside.and_then(|inside| inside.get(inside.find("--")?..)?.strip_prefix("-->"));
        rest = after.or_else(|| rest.get(1..))?;
    }
}

/// A suite that is open: its name, how many tests it says there are and failed, how many there were and had before.
struct OpenSuite {
    name: String,
    says: Numbers,
    before: Numbers,
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
}

impl Document {
    /// Reads until the first element is closed; how many bytes that were.
    fn read(&mut self, text: &str, counts: &mut TestCounts) -> Result<usize, Reason> {
        let mut reader = Reader::from_str(text);
        loop {
            match reader.read_event().map_err(|error| Reason::from(error.to_string()))? {
                Event::Start(start) => {
                    self.depth += 1;
                    self.open(&start, counts);
                }
                Event::Empty(start) => {
                    self.open(&start, counts);
                    self.close(start.local_name().as_ref(), counts);
                }
                Event::End(end) => {
                    self.depth = self.depth.saturating_sub(1);
                    self.close(end.local_name().as_ref(), counts);
                }
                Event::Eof => return Err("it is not ended".into()),
                _ => {}
            }
            if self.depth == 0 {
                let read = usize::try_from(reader.buffer_position()).unwrap_or(text.len());
                return Ok(read.max(SUITE.len()));
            }
        }
    }

    fn open(&mut self, start: &BytesStart<'_>, counts: &mut TestCounts) {
        let text = |name: &str| {
            let found = start.try_get_attribute(name).ok().flatten();
            found.map(|value| String::from_utf8_lossy(&value.value).into_owned()).unwrap_or_default()
        };
        let number = |name: &str| text(name).trim().parse::<u64>().unwrap_or(0);
        match (start.local_name().as_ref(), &mut self.case) {
            (b"testsuite" | b"testsuites", None) => self.suites.push(OpenSuite {
                name: text("name"),
                says: Numbers {
                    all: number("tests"),
                    failed: number("failures").saturating_add(number("errors")),
                },
                before: Numbers { all: counts.all, failed: counts.failed },
            }),
            // Of the suite itself: what it does before all its tests, for one.
            (b"failure" | b"error", None) => {
                let name = self.suites.last().map(|suite| suite.name.clone()).unwrap_or_default();
                counts.all = counts.all.saturating_add(1);
                failed(counts, &format!("{name}: {}", text("message")), 1);
            }
            (b"testcase", None) => self.case = Some(OpenCase { name: text("name"), ..OpenCase::default() }),
            (b"failure" | b"error", Some(case)) => case.failure = Some(text("message")),
            (b"skipped", Some(case)) => case.is_left_out = true,
            _ => {}
        }
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
                let missing = suite.says.all.saturating_sub(counts.all.saturating_sub(suite.before.all));
                counts.all = counts.all.saturating_add(missing);
                failed(counts, &format!("{missing} tests of {} did not come", suite.name), missing);
            }
            _ => {}
        }
    }
}

/// Counts of the Test Anything Protocol: points of the outermost level. What a plan has and did not come, what came twice or beside the
/// plan, a plan that is missing and one too many count as failed, as `prove` has it. Beside a report of another kind good points without
/// a plan are lines like others.
fn tap(text: &str, is_cut: bool, beside: bool) -> Option<TestCounts> {
    let (mut counts, mut planned, mut is_tap) = (TestCounts::default(), None, false);
    let (mut numbers, mut points, mut bailed, mut surplus_plans) = (BTreeSet::new(), 0, false, 0);
    // Of a plan that is neither at the beginning nor at the end.
    let (mut planned_after, mut is_between) = (0, false);
    for line in text.lines() {
        if let Some(plan) = line.strip_prefix("1..") {
            let number = plan.split_whitespace().next().unwrap_or_default().parse::<u64>().ok();
            surplus_plans += u64::from(planned.is_some() && number.is_some());
            planned_after = points;
            planned = planned.or(number);
            is_tap |= planned.is_some();
        } else if line.starts_with("TAP version ") {
            is_tap = true;
        } else if line.trim_start().starts_with("Bail out!") {
            counts.all += 1;
            failed(&mut counts, line, 1);
            (is_tap, bailed) = (true, true);
        } else if let Some((is_good, rest)) = point(line) {
            is_tap |= !(beside && is_good);
            counts.all += 1;
            points += 1;
            is_between |= planned.is_some() && planned_after > 0;
            let number = number_of(rest).unwrap_or(points);
            let directive = directive(rest).map(|directive| directive.trim().to_ascii_lowercase());
            let is = |word: &str| {
                let after = directive.as_ref().and_then(|directive| directive.strip_prefix(word));
                after.is_some_and(|after| {
                    !after.starts_with(|sign: char| sign.is_alphanumeric() || sign == '_')
                })
            };
            if !numbers.insert(number) {
                failed(&mut counts, &format!("test {number} came twice"), 1);
            } else if number != points {
                failed(&mut counts, &format!("test {number} came as the {points}th"), 1);
            } else if is_good && is("skip") {
                counts.left_out += 1;
            } else if !is_good && !is("todo") {
                failed(&mut counts, description(rest), 1);
            }
        }
    }
    if !is_tap {
        return None;
    }
    match planned {
        // What was to come after it has a name already.
        None if bailed => {}
        _ if is_cut => {}
        None => {
            counts.all += 1;
            failed(&mut counts, "it printed no plan: whether all tests ran is not known", 1);
        }
        Some(planned) => {
            let missing = planned.saturating_sub(counts.all);
            let surplus = numbers.iter().filter(|number| **number > planned || **number == 0).count() as u64;
            failed(&mut counts, &format!("{missing} of {planned} tests did not come"), missing);
            failed(&mut counts, &format!("{surplus} tests are beyond the plan of {planned}"), surplus);
            counts.all = counts.all.saturating_add(missing).saturating_add(surplus_plans);
            counts.all += u64::from(is_between);
            failed(&mut counts, "its plan is neither at the beginning nor at the end", u64::from(is_between));
            failed(&mut counts, "it printed more than one plan", surplus_plans);
        }
    }
    Some(counts)
}

/// The number behind `ok`.
fn number_of(rest: &str) -> Option<u64> {
    rest.split_whitespace().next()?.parse().ok()
}

/// What stands behind the first `#` that is not escaped.
fn directive(rest: &str) -> Option<&str> {
    let mut is_escaped = false;
    for (at, sign) in rest.char_indices() {
        match sign {
            '\\' => is_escaped = !is_escaped,
            '#' if !is_escaped => return rest.get(at + 1..),
            _ => is_escaped = false,
        }
    }
    None
}

/// What stands behind a point's number: ` 2 - it is late`.
fn description(rest: &str) -> &str {
    let behind = rest.trim_start().trim_start_matches(|sign: char| sign.is_ascii_digit()).trim_start();
    behind.strip_prefix("- ").unwrap_or(behind)
}

fn point(line: &str) -> Option<(bool, &str)> {
    let (is_good, rest) = match line.strip_prefix("not ok") {
        Some(rest) => (false, rest),
        None => (true, line.strip_prefix("ok")?),
    };
    (rest.is_empty() || rest.starts_with(' ')).then_some((is_good, rest))
}

#[cfg(test)]
mod tests;
