//! Runs tests: looks first, then what is measured, round after round in turn so that a disturbance meets all of them, then what
//! breaks something. What is decided is not measured any more.
//!
//! ```text
//!  looks ─► A B C  A B C  A   C  …  (B is decided)  ─► failures, with --failures
//!            each round: on disk before the next begins
//! ```

use std::collections::BTreeSet;
use std::time::{Duration, Instant, SystemTime};

use model::requirement::Requirements;
use model::verification::{Observed, RequirementVerdict, TestKind, TestRound, TestSpec, VerifyLine};
use platforms::{Broken, Cancel, PlatformContext};
use units::metric::Unit;
use units::{Nanos, Reason};

use crate::in_place::{self, Agents, At, Doses};
use crate::journal::VerifyJournal;
use crate::judge;
use crate::look::LookedAt;
use crate::{command, failure};
use partition::set::root::state_root;

/// Rounds that fail in a row before a test is given up.
const MOST_FAILURES: usize = 3;
/// Rounds of one test at most.
const MOST_ROUNDS: usize = 10_000;
/// How long an outage may last at least before it counts as one without an end.
const LEAST_PATIENCE: Duration = Duration::from_secs(60);

/// What is to be run.
pub struct Order<'a> {
    /// The set's name.
    pub set: &'a str,
    /// All requirements.
    pub requirements: &'a Requirements,
    /// Of these the tests that are run now.
    pub tests: Vec<TestSpec>,
    /// Ids of requirements that count for when a test is done.
    pub wanted: BTreeSet<String>,
    /// Whether parts may be made to fail.
    pub failures: bool,
    /// Seed of everything random.
    pub seed: u64,
}

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
    spec: TestSpec,
    words: String,
    rounds: Vec<TestRound>,
    spent: Duration,
    is_done: bool,
}

/// What a run is made with.
pub struct Runner<'a> {
    /// What is to be run.
    pub order: Order<'a>,
    /// Agents for probes and loads.
    pub agents: Agents<'a>,
    /// What programs are started with.
    pub context: &'a PlatformContext,
    /// Where everything that is seen is written down.
    pub journal: &'a mut VerifyJournal,
    /// Set when the user interrupts.
    pub cancel: &'a Cancel,
}

impl Runner<'_> {
    /// Runs all of it.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub fn run(&mut self, tell: &mut dyn FnMut(Step<'_>)) -> Result<RunEnding, Reason> {
        let specs = std::mem::take(&mut self.order.tests);
        let mut all: Vec<Open> = specs.into_iter().map(Open::new).collect();
        let is_outage = |open: &Open| matches!(open.spec.kind, TestKind::Outage { .. });
        for open in all.iter_mut().filter(|open| is_outage(open)) {
            open.is_done = !self.order.failures;
        }
        for breaks in [false, true] {
            loop {
                let mut went = false;
                for at in 0..all.len() {
                    let done = all.iter().filter(|open| open.is_done).count();
                    let of = all.len();
                    let Some(open) =
                        all.get_mut(at).filter(|open| !open.is_done && is_outage(open) == breaks)
                    else {
                        continue;
                    };
                    tell(Step::Begins { test: &open.words, round: open.rounds.len() + 1, done, of });
                    if self.round(open)? == RunEnding::Interrupted {
                        return Ok(RunEnding::Interrupted);
                    }
                    if let Some(Observed::Failed { reason }) = open.rounds.last().map(|round| &round.seen) {
                        tell(Step::Failed { test: &open.words, reason: &reason.to_string() });
                    }
                    open.is_done = self.is_done(open);
                    went = true;
                }
                if !went {
                    break;
                }
            }
        }
        Ok(RunEnding::Whole)
    }

    fn round(&mut self, open: &mut Open) -> Result<RunEnding, Reason> {
        let number = u32::try_from(open.rounds.len() + 1).unwrap_or(u32::MAX);
        let (began, started_unix_ns) = (Instant::now(), now());
        let (seen, doses) = match self.see(open, number) {
            Ok(seen) => seen,
            Err(Broken::Interrupted) => return Ok(RunEnding::Interrupted),
            Err(Broken::Failed(failure)) => (in_place::failed(&failure), Vec::new()),
        };
        let took = began.elapsed();
        open.spent += took;
        let round = TestRound {
            test: open.spec.id.clone(),
            round: number,
            started_unix_ns,
            took_ns: Nanos::from_duration(took),
            seen,
            doses,
        };
        self.journal
            .append(&VerifyLine::Round(Box::new(round.clone())))
            .map_err(|error| format!("the journal cannot be written: {error}"))?;
        open.rounds.push(round);
        Ok(RunEnding::Whole)
    }

    fn see(&mut self, open: &Open, number: u32) -> Result<(Observed, Doses), Broken> {
        if self.cancel.is_cancelled() {
            return Err(Broken::Interrupted);
        }
        let seed = self.order.seed.wrapping_add(u64::from(number));
        match &open.spec.kind {
            TestKind::Look { subject } => {
                let looked = LookedAt::now(&state_root(), self.order.set);
                let values =
                    looked.map_or_else(|reason| Observed::Failed { reason }, |looked| looked.at(subject));
                Ok((values, Doses::new()))
            }
            TestKind::Probe { subject, probe, load, folder } => {
                let at = At { subject, folder: folder.as_deref() };
                self.agents.measure(&at, probe, load, seed)
            }
            TestKind::Command { subject, command, inside, load } => {
                let (limit, context, cancel) = (self.budget(open), self.context, self.cancel);
                let name = inside.then(|| format!("{}/{subject}", self.order.set));
                let run = || command::run(command, name.as_deref(), context, limit, cancel);
                self.agents.beside(subject, load, limit, seed, run)
            }
            TestKind::Outage { failure, client } => {
                self.agents.leave();
                let limit = self.patience(open);
                let outage =
                    failure::make(self.order.set, failure, client, limit, &self.context.exe, self.cancel);
                Ok((outage.map_or_else(|reason| Observed::Failed { reason }, Observed::Outage), Doses::new()))
            }
        }
    }

    /// Seconds that may be spent on a test: the most that one of its requirements allows.
    fn budget(&self, open: &Open) -> Duration {
        let of = |id: &String| self.order.requirements.get(id).map(|one| u64::from(one.budget_s));
        Duration::from_secs(open.spec.requirements.iter().filter_map(of).max().unwrap_or(1))
    }

    /// How long the end of an outage is waited for: longer than any of its requirements allows.
    fn patience(&self, open: &Open) -> Duration {
        let limits = open.spec.requirements.iter().filter_map(|id| self.order.requirements.get(id)?.limit());
        let times = limits.filter(|(_, limit)| limit.unit == Unit::Nanoseconds).map(|(_, limit)| limit.value);
        let longest = times.fold(0.0, f64::max);
        Duration::from_secs_f64((longest * 1.5 / 1e9).clamp(0.0, 86_400.0)).max(LEAST_PATIENCE)
    }

    fn is_done(&self, open: &Open) -> bool {
        let rounds: Vec<&TestRound> = open.rounds.iter().collect();
        let last = rounds.iter().rev().take_while(|round| matches!(round.seen, Observed::Failed { .. }));
        if last.count() >= MOST_FAILURES || rounds.len() >= MOST_ROUNDS || open.spent >= self.budget(open) {
            return true;
        }
        let count = u32::try_from(rounds.len()).unwrap_or(u32::MAX);
        let wanted = open.spec.requirements.iter().filter(|id| self.order.wanted.contains(*id));
        wanted.filter_map(|id| self.order.requirements.get(id)).all(|requirement| {
            let judged = judge::judge(requirement, &rounds);
            judge::may_decide(requirement, count)
                && matches!(judged.verdict, RequirementVerdict::Pass | RequirementVerdict::Fail)
        })
    }
}

impl Open {
    fn new(spec: TestSpec) -> Self {
        let words = spec.kind.to_string();
        Self { spec, words, rounds: Vec::new(), spent: Duration::ZERO, is_done: false }
    }
}

/// Nanoseconds since 1970.
fn now() -> Nanos {
    Nanos::from_duration(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default())
}
