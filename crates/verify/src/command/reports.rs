//! What a user's test printed of its tests: `JUnit` XML, or the Test Anything Protocol. What is not understood is said, never left out:
//! a report that ends in the middle, or says of itself that more failed than it names, is no report of success.
//! Each kind has its file.

use model::verification::TestCounts;

mod junit;
mod tap;

/// Tests that failed which are named.
const MOST_NAMED: usize = 3;
/// Letters of a name.
const LONGEST_NAME: usize = 200;

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
    let documents = junit::read(text);
    // Beside a report of the one kind, a line that begins with "ok" alone is none of the other; within it, none is: what a test printed
    // there says what the test was about.
    let is_beside = documents.tests.is_some() || documents.unread.is_some();
    let tests = match (documents.tests, tap::counts(&documents.beside.join("\n"), is_cut, is_beside)) {
        (Some(xml), Some(tap)) => Some(both(xml, tap)),
        (xml, tap) => xml.or(tap),
    };
    Read { tests, unread: documents.unread }
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

#[cfg(test)]
mod tests;
