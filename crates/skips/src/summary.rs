//! What `make test` says at its end: what was skipped and why, what failed, and a line of counts, made of what the test
//! programs printed and of the record of skips.

use std::collections::{BTreeMap, BTreeSet};

/// Program and test.
type Name = (String, String);

/// What the tests came to.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Tests that ran whole and passed.
    pub passed: usize,
    /// Tests that failed, programs that ended without a result, and steps that broke off without either.
    pub failed: BTreeSet<Name>,
    /// Tests that were left out, or a part of them: by need and reason.
    pub skipped: BTreeMap<(String, String), BTreeSet<Name>>,
}

impl Summary {
    /// Of the output of `cargo test`, the record of skips, and the steps that failed.
    pub fn new(said: &str, record: &str, broken: &str) -> Self {
        let mut summary = Self::default();
        let mut section = Section::default();
        for line in said.lines() {
            if let Some(next) = Section::beginning_with(line) {
                std::mem::replace(&mut section, next).close(&mut summary);
            } else {
                section.read(line);
            }
        }
        section.close(&mut summary);
        for line in record.lines() {
            let mut fields = line.splitn(4, '\t').map(str::to_owned);
            let mut next = || fields.next().unwrap_or_default();
            let (name, why) = ((next(), next()), (next(), next()));
            summary.skipped.entry(why).or_default().insert(name);
        }
        // Whoever skips has passed in the eyes of its program, unless what it did besides has failed.
        let skipped = summary.names_skipped().len();
        summary.passed = summary.passed.saturating_sub(skipped);
        if summary.failed.is_empty() {
            let steps = broken.lines().filter(|step| !step.is_empty());
            summary.failed.extend(steps.map(|step| (step.to_owned(), "broke off".to_owned())));
        }
        summary
    }

    fn names_skipped(&self) -> BTreeSet<&Name> {
        self.skipped.values().flatten().filter(|name| !self.failed.contains(*name)).collect()
    }

    /// In words; the counts are the last line.
    pub fn text(&self) -> String {
        use std::fmt::Write as _;
        let mut out = String::from("\n");
        for ((need, reason), names) in &self.skipped {
            let reason: String = reason.chars().take(300).collect();
            let _ = writeln!(out, "skipped {} for want of {need}: {reason}", names.len());
            for (program, test) in names {
                let _ = writeln!(out, "    {program} {test}");
            }
        }
        for (program, test) in &self.failed {
            let _ = writeln!(out, "FAILED {program} {test}");
        }
        let counts = (self.passed, self.failed.len(), self.names_skipped().len());
        let _ = writeln!(out, "{} passed, {} failed, {} skipped", counts.0, counts.1, counts.2);
        out
    }
}

/// The output of one test program.
#[derive(Default)]
struct Section {
    program: Option<String>,
    /// A program of examples in the documentation has several results.
    is_examples: bool,
    passed: Vec<usize>,
    failed: BTreeSet<String>,
}

impl Section {
    /// `     Running tests/exec.rs (target/…/deps/exec-0123456789abcdef)` or `   Doc-tests bulkhead`.
    fn beginning_with(line: &str) -> Option<Self> {
        if let Some(name) = line.strip_prefix("   Doc-tests ") {
            let program = Some(format!("examples of {name}"));
            return Some(Self { program, is_examples: true, ..Self::default() });
        }
        let path = line.strip_prefix("     Running ")?.rsplit_once('(')?.1.strip_suffix(')')?;
        let file = path.rsplit('/').next().unwrap_or(path);
        let program = file.rsplit_once('-').map_or(file, |(name, _)| name);
        Some(Self { program: Some(program.to_owned()), ..Self::default() })
    }

    fn read(&mut self, line: &str) {
        if let Some(result) = line.strip_prefix("test result: ") {
            let passed = result.split(". ").nth(1).and_then(|counts| counts.split(' ').next());
            self.passed.extend(passed.and_then(|count| count.parse::<usize>().ok()));
        } else if let Some(test) =
            line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED"))
        {
            self.failed.insert(test.trim_end_matches(" - should panic").to_owned());
        }
    }

    fn close(self, summary: &mut Summary) {
        let Some(program) = self.program else { return };
        summary.passed += if self.is_examples {
            self.passed.iter().sum()
        } else {
            // What a failed test showed of programs that it started comes before.
            self.passed.last().copied().unwrap_or(0)
        };
        if self.passed.is_empty() {
            summary.failed.insert((program.clone(), "ended without a result".to_owned()));
        }
        summary.failed.extend(self.failed.into_iter().map(|test| (program.clone(), test)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "   Compiling bulkhead\n     Running unittests src/lib.rs (target/x/release/deps/bulkhead-0a)\n\
        \nrunning 3 tests\ntest a ... ok\n\ntest result: ok. 3 passed; 0 failed; 1 ignored; 0 measured\n\n     \
        Running tests/exec.rs (target/x/release/deps/exec-1b)\ntest it_runs ... ok\ntest it_ends ... FAILED\n\
        ---- it_ends stdout ----\ntest result: ok. 900 passed; 0 failed\n\ntest result: FAILED. 1 passed; 1 failed\n\
        \x20    Running tests/mpi_suite.rs (target/x/release/deps/mpi_suite-2c)\n\
        \x20  Doc-tests bulkhead\ntest result: ok. 4 passed; 0 failed\ntest result: ok. 5 passed; 0 failed\n";

    #[test]
    fn what_passed_failed_and_was_skipped_is_counted_and_listed() {
        let record = "bulkhead\ta\tvm\tno QEMU\nbulkhead\ta\tvm\tno QEMU\nexec\tit_runs\tkvm\tno /dev/kvm\n\
                      exec\tit_ends\tvm\tno QEMU\n";
        let text = Summary::new(SAID, record, "cargo test\n").text();
        let wanted = "\nskipped 1 for want of kvm: no /dev/kvm\n    exec it_runs\n\
            skipped 2 for want of vm: no QEMU\n    bulkhead a\n    exec it_ends\n\
            FAILED exec it_ends\nFAILED mpi_suite ended without a result\n11 passed, 2 failed, 2 skipped\n";
        assert_eq!(text, wanted);
    }

    #[test]
    fn a_step_that_broke_before_its_tests_is_a_failure() {
        let broken = Summary::new("error: could not compile\n", "", "cargo test --doc\n");
        assert!(
            broken.text().ends_with("FAILED cargo test --doc broke off\n0 passed, 1 failed, 0 skipped\n")
        );
        assert_eq!(Summary::new("", "", "").text(), "\n0 passed, 0 failed, 0 skipped\n");
    }
}
