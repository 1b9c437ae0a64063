//! The Test Anything Protocol, as `prove` has it: what a plan has and did not come, what came twice or beside the plan, a plan that is
//! missing and one too many, and a version that is not the first line count as failed.
//!
//! Sources: testanything.org, versions 12 to 14; the regular expressions of Perl's `TAP::Parser::Grammar` and the states of its
//! `TAP::Parser`, which match bytes: a letter outside of ASCII ends a word, and a space outside of ASCII is none.

use std::collections::BTreeSet;

use model::verification::TestCounts;

use super::failed;

/// From this version on a plan has nothing behind it but why all tests are skipped; no report names an earlier one.
const FIRST_NAMED: u64 = 13;
/// The last version.
const LAST: u64 = 14;
/// What an indented block of YAML begins and ends with, from the first named version on.
const YAML: [&str; 2] = ["---", "..."];

/// Counts of the points of the outermost level. Beside a report of another kind good points without a plan are lines like others.
pub(super) fn counts(text: &str, is_cut: bool, is_beside: bool) -> Option<TestCounts> {
    let mut report = Report { is_beside, ..Report::default() };
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if report.yaml(line, &mut lines) {
            continue;
        }
        // Where "not" is alone, it belongs to the next line.
        if line.trim_matches(is_space) == "not" {
            report.read(&format!("{line}{}", lines.next().unwrap_or_default()));
        } else {
            report.read(line);
        }
    }
    report.end(is_cut)
}

/// A report as far as it was read.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a rule of its own that later lines are held to")]
struct Report {
    counts: TestCounts,
    is_beside: bool,
    is_tap: bool,
    version: Option<u64>,
    planned: Option<u64>,
    surplus_plans: u64,
    /// Points before the plan.
    planned_after: u64,
    /// The plan is neither at the beginning nor at the end.
    is_between: bool,
    points: u64,
    numbers: BTreeSet<u64>,
    bails: u64,
    /// A line that says nothing is an error (`pragma +strict`).
    is_strict: bool,
}

impl Report {
    fn read(&mut self, line: &str) {
        if let Some((is_good, rest)) = point(line) {
            self.point(is_good, rest);
        } else if let Some(version) = version(line) {
            self.version(version);
        } else if let Some(planned) = plan(line, self.has_version()) {
            self.is_tap = true;
            self.surplus_plans += u64::from(self.planned.is_some());
            self.planned_after = self.points;
            self.planned = self.planned.or(Some(planned));
        } else if line.trim_start_matches(is_space).starts_with("Bail out!") {
            self.is_tap = true;
            self.bails += 1;
            self.fails(line);
        } else if let Some(pragmas) = pragmas(line).filter(|_| self.has_version()) {
            let last =
                pragmas.rev().find(|pragma| pragma.ends_with("strict") && pragma.len() == "+strict".len());
            self.is_strict = last.map_or(self.is_strict, |pragma| pragma.starts_with('+'));
        } else {
            if self.is_strict && !line.starts_with('#') {
                self.fails(&format!("what is none of TAP is an error (pragma +strict): {line}"));
            }
            // A plan or a version that is none: without another it is a report without a plan.
            let is_like_plan = line.strip_prefix("1..").is_some_and(|plan| number(plan).is_some());
            self.is_tap |= is_like_plan || line.starts_with("TAP version ");
        }
    }

    fn has_version(&self) -> bool {
        self.version.is_some_and(|version| version >= FIRST_NAMED)
    }

    /// Goes over a block of YAML, in which nothing else is what it looks like.
    fn yaml(&mut self, line: &str, lines: &mut std::str::Lines<'_>) -> bool {
        let begun = line.trim_start_matches(is_space);
        let indent = line.strip_suffix(begun).filter(|indent| !indent.is_empty() && self.has_version());
        let Some(indent) = indent.filter(|_| begun.starts_with(YAML[0])) else { return false };
        // What is less indented is none of it, and what is more is within one of its values.
        let mut inside = lines.map_while(|line| {
            let depth = line.chars().take_while(|sign| is_space(*sign)).count();
            line.get(indent.len()..)
                .filter(|_| depth >= indent.len())
                .map(|line| line.trim_end_matches(is_space))
        });
        let last = inside.find(|line| YAML.iter().any(|mark| line.starts_with(*mark)));
        if last != Some(YAML[1]) {
            self.fails("a block of YAML in it has no end");
        }
        true
    }

    /// Something that is no point failed.
    fn fails(&mut self, why: &str) {
        self.counts.all = self.counts.all.saturating_add(1);
        failed(&mut self.counts, why, 1);
    }

    fn version(&mut self, version: u64) {
        self.is_tap = true;
        if self.version.is_some() || self.planned.is_some() || self.points > 0 {
            self.fails("its version is not the first line");
            return;
        }
        self.version = Some(version);
        if !(FIRST_NAMED..=LAST).contains(&version) {
            self.fails(&format!("its version is {version}, and not {FIRST_NAMED} or {LAST}"));
        }
    }

    fn point(&mut self, is_good: bool, rest: &str) {
        // "ok, begun" alone is a line like others, and in a report it is a point.
        let is_plain = rest.is_empty() || rest.starts_with(is_space);
        self.is_tap |= !is_good || (is_plain && !self.is_beside);
        self.counts.all += 1;
        self.points += 1;
        self.is_between |= self.planned.is_some() && self.planned_after > 0;
        let points = self.points;
        let number = number(rest.trim_start_matches(is_space)).map_or(points, |(number, _)| number);
        let is = |word: &str| directive(rest).is_some_and(|directive| begins(directive, word));
        if !self.numbers.insert(number) {
            failed(&mut self.counts, &format!("test {number} came twice"), 1);
        } else if number != points {
            failed(&mut self.counts, &format!("test {number} came as the {points}th"), 1);
        } else if is_good && is("skip") {
            self.counts.left_out += 1;
        } else if !is_good && !is("todo") {
            failed(&mut self.counts, description(rest), 1);
        }
    }

    fn end(mut self, is_cut: bool) -> Option<TestCounts> {
        if !self.is_tap {
            return None;
        }
        match self.planned {
            // What was to come after it has a name already.
            None if self.bails > 0 => {}
            _ if is_cut => {}
            None => self.fails("it printed no plan: whether all tests ran is not known"),
            Some(planned) => self.hold_to(planned),
        }
        Some(self.counts)
    }

    fn hold_to(&mut self, planned: u64) {
        let missing = planned.saturating_sub(self.points.saturating_add(self.bails));
        let surplus = self.numbers.iter().filter(|number| **number > planned || **number == 0).count() as u64;
        let counts = &mut self.counts;
        failed(counts, &format!("{missing} of {planned} tests did not come"), missing);
        failed(counts, &format!("{surplus} tests are beyond the plan of {planned}"), surplus);
        failed(counts, "its plan is neither at the beginning nor at the end", u64::from(self.is_between));
        failed(counts, "it printed more than one plan", self.surplus_plans);
        let unnamed = self.surplus_plans.saturating_add(u64::from(self.is_between));
        counts.all = counts.all.saturating_add(missing).saturating_add(unnamed);
    }
}

/// What Perl's `\s` matches in bytes.
fn is_space(sign: char) -> bool {
    matches!(sign, ' ' | '\t'..='\r')
}

/// What Perl's `\w` matches in bytes.
fn is_word(sign: char) -> bool {
    sign.is_ascii_alphanumeric() || sign == '_'
}

/// The number that a text begins with, and what is behind it. One that is too large is the largest.
fn number(text: &str) -> Option<(u64, &str)> {
    let rest = text.trim_start_matches(|sign: char| sign.is_ascii_digit());
    let digits = text.strip_suffix(rest).filter(|digits| !digits.is_empty())?;
    Some((digits.parse().unwrap_or(u64::MAX), rest))
}

/// Whether a text begins with a word, in whatever case.
fn begins(text: &str, word: &str) -> bool {
    let (head, behind) = (text.get(..word.len()), text.get(word.len()..));
    head.is_some_and(|head| head.eq_ignore_ascii_case(word))
        && behind.is_none_or(|behind| !behind.starts_with(is_word))
}

/// Whether a test is good, and what is behind `ok`.
fn point(line: &str) -> Option<(bool, &str)> {
    let (is_good, rest) = match line.strip_prefix("not ok") {
        Some(rest) => (false, rest),
        None => (true, line.strip_prefix("ok")?),
    };
    (!rest.starts_with(is_word)).then_some((is_good, rest))
}

fn version(line: &str) -> Option<u64> {
    let mut words = line.split(is_space).filter(|word| !word.is_empty());
    let is = |word: Option<&str>, wanted: &str| word.is_some_and(|word| word.eq_ignore_ascii_case(wanted));
    let is_named = !line.starts_with(is_space) && is(words.next(), "tap") && is(words.next(), "version");
    let (version, rest) = number(words.next()?)?;
    (is_named && rest.is_empty() && words.next().is_none()).then_some(version)
}

/// How many tests a plan has; behind it stands nothing, or why they are not to be made.
fn plan(line: &str, has_version: bool) -> Option<u64> {
    let (planned, rest) = number(line.strip_prefix("1..")?)?;
    let tail = rest.trim_start_matches(is_space);
    let is_plan = if has_version {
        tail.strip_prefix('#').is_some_and(|why| begins(why.trim_start_matches(is_space), "skip"))
    } else {
        planned == 0
    };
    (is_plan || tail.is_empty()).then_some(planned)
}

/// What a line switches on (`+`) and off.
fn pragmas(line: &str) -> Option<impl DoubleEndedIterator<Item = &str>> {
    let named = line.strip_prefix("pragma").filter(|named| named.starts_with(is_space))?;
    let all = || named.split(',').map(|pragma| pragma.trim_matches(is_space));
    let is_one = |pragma: &str| {
        let name = pragma.strip_prefix(['+', '-']).unwrap_or_default();
        !name.is_empty() && name.chars().all(is_word)
    };
    all().all(is_one).then(all)
}

/// What stands behind the first `#` that is not escaped.
fn directive(rest: &str) -> Option<&str> {
    let mut is_escaped = false;
    for (at, sign) in rest.char_indices() {
        match sign {
            '\\' => is_escaped = !is_escaped,
            '#' if !is_escaped => return rest.get(at + 1..).map(|rest| rest.trim_start_matches(is_space)),
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
