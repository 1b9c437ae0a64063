//! Runs tests: looks first, then what is measured, round after round in turn so that a disturbance meets all of them, then what
//! breaks something. What is decided is not measured any more.
//!
//! ```text
//!  looks ─► A B C  A B C  A   C  …  (B is decided)  ─► failures, with --failures
//!            each round: on disk before the next begins
//! ```

use std::collections::BTreeSet;

use model::verification::{Observed, TestSpec, VerifyLine};
use units::Reason;

use crate::journal::VerifyJournal;
use crate::tester::{Batch, Tester};

/// What is told while it runs.
#[derive(Debug)]
pub enum Step<'a> {
    /// A round begins.
    Begins {
        /// The test in words.
        test: &'a str,
        /// Its round, from 1.
        round: usize,
        /// Tests that are done.
        done: usize,
        /// Tests in all.
        of: usize,
    },
    /// A round could not be done.
    Failed {
        /// The test in words.
        test: &'a str,
        /// Why.
        reason: &'a str,
    },
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunEnding {
    /// All that was wanted was done.
    Whole,
    /// The user interrupted; what was seen is kept.
    Interrupted,
}

struct Open {
    batch: Batch,
    words: String,
    is_done: bool,
}

/// What a run is made with.
pub struct Runner<'a> {
    /// Tests that are run.
    pub tests: Vec<TestSpec>,
    /// Ids of requirements that count for when a test is done.
    pub wanted: BTreeSet<String>,
    /// Whether parts may be made to fail.
    pub failures: bool,
    /// By whom tests are made.
    pub tester: Tester<'a>,
    /// Where everything that is seen is written down.
    pub journal: &'a mut VerifyJournal,
}

impl Runner<'_> {
    /// Runs all of it.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub fn run(&mut self, tell: &mut dyn FnMut(Step<'_>)) -> Result<RunEnding, Reason> {
        let specs = std::mem::take(&mut self.tests);
        let disturbs = |open: &Open| open.batch.spec.kind.disturbs();
        let mut all: Vec<Open> = specs.into_iter().map(Open::new).collect();
        for open in all.iter_mut().filter(|open| disturbs(open)) {
            open.is_done = !self.failures;
        }
        for breaks in [false, true] {
            loop {
                let mut went = false;
                for at in 0..all.len() {
                    let done = all.iter().filter(|open| open.is_done).count();
                    let of = all.len();
                    let Some(open) = all.get_mut(at).filter(|open| !open.is_done && disturbs(open) == breaks)
                    else {
                        continue;
                    };
                    tell(Step::Begins { test: &open.words, round: open.batch.rounds.len() + 1, done, of });
                    if self.round(&mut open.batch)? == RunEnding::Interrupted {
                        return Ok(RunEnding::Interrupted);
                    }
                    if let Some(Observed::Failed { reason }) =
                        open.batch.rounds.last().map(|round| &round.seen)
                    {
                        tell(Step::Failed { test: &open.words, reason: &reason.to_string() });
                    }
                    open.is_done = open.batch.is_done(&self.tester, &self.wanted);
                    went = true;
                }
                if !went {
                    break;
                }
            }
        }
        Ok(RunEnding::Whole)
    }

    fn round(&mut self, batch: &mut Batch) -> Result<RunEnding, Reason> {
        let Some(round) = self.tester.again(batch) else { return Ok(RunEnding::Interrupted) };
        self.journal
            .append(&VerifyLine::Round(Box::new(round.clone())))
            .map_err(|error| format!("the journal cannot be written: {error}"))?;
        Ok(RunEnding::Whole)
    }
}

impl Open {
    fn new(spec: TestSpec) -> Self {
        let words = spec.kind.to_string();
        Self { batch: Batch::new(spec), words, is_done: false }
    }
}
