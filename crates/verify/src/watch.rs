//! Whether requirements still hold while a set runs: what is cheap, again and again, within a share of the host's CPU time; whatever
//! is different is told once.
//!
//! ```text
//!  a test ─► due, a period after it was last done ─► when its half of the budget has room
//!   ├ a look: first
//!   └ measured: when the host is idle, too (or was not for a period) ─► a round ─► … ─► decided
//!  decided ─► as before: nothing     another verdict: told, with until when it was the old one
//! ```
//! The budget fills with time and is emptied by what was used: half of it by looks, so that no round of seconds keeps them waiting, half by
//! what is measured. What the program takes to begin and between rounds counts with the looks. A round waits until there is room for what
//! the last one took, the first one of a test for what the longest of others did; when it takes more, the next ones wait longer.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use model::requirement::Requirements;
use model::verification::{Observed, RequirementResult, RequirementVerdict, TestKind, TestRound, TestSpec};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use platforms::host;
use units::Nanos;

use crate::judge::judge;
use crate::tester::{Batch, Tester};

/// Share of the host's CPU time that is used at most.
pub const MOST_CPU: f64 = 0.01;
/// From this share of its CPUs on a host is idle.
const IDLE: f64 = 0.5;
/// How long is looked whether it is.
const LOOK: Duration = Duration::from_millis(500);
/// How long is slept at most before is seen whether the user interrupts.
const NAP: Duration = Duration::from_millis(100);
/// So often in a row a requirement must be undecided until that is told.
const UNDECIDED_IN_A_ROW: u32 = 2;

/// What CPU time is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Looks.
    Looks,
    /// Rounds of what is measured.
    Rounds,
}

/// CPU time that may be used: a share of that of all CPUs since it began, half of it for each use.
#[derive(Debug)]
pub struct CpuBudget {
    cpus: u32,
    used: [Duration; 2],
}

impl CpuBudget {
    /// Nothing used yet, on so many CPUs.
    pub const fn new(cpus: u32) -> Self {
        Self { cpus, used: [Duration::ZERO; 2] }
    }

    /// Takes what was used.
    pub fn take(&mut self, what: Use, used: Duration) {
        let sum = &mut self.used[what as usize];
        *sum = sum.saturating_add(used);
    }

    /// The share that was used after so much time.
    pub fn share(&self, elapsed: Duration) -> f64 {
        self.share_of(self.used.iter().sum(), elapsed)
    }

    fn share_of(&self, used: Duration, elapsed: Duration) -> f64 {
        used.as_secs_f64() / (elapsed.as_secs_f64() * f64::from(self.cpus)).max(f64::MIN_POSITIVE)
    }

    /// Whether there is room for so much more.
    pub fn has_room(&self, what: Use, elapsed: Duration, more: Duration) -> bool {
        self.share_of(self.used[what as usize].saturating_add(more), elapsed) < MOST_CPU / 2.0
    }
}

/// What a requirement was found to be, and since when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Standing {
    verdict: RequirementVerdict,
    /// When it was last seen to be that.
    seen_unix_ns: Option<Nanos>,
    undecided: u32,
}

/// A requirement that is not what it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// Which.
    pub id: String,
    /// What it was.
    pub was: RequirementVerdict,
    /// When it was last seen to be that; none where nothing was seen before.
    pub until_unix_ns: Option<Nanos>,
    /// What it is.
    pub is: RequirementVerdict,
    /// When that was first seen.
    pub since_unix_ns: Nanos,
    /// Why, in a sentence.
    pub reason: String,
}

/// What all requirements were found to be.
#[derive(Debug, Default)]
pub struct Standings(BTreeMap<String, Standing>);

impl Standings {
    /// As earlier verifications say.
    pub fn of(results: &[RequirementResult]) -> Self {
        let standing = |one: &RequirementResult| {
            let verdict = one.direct.as_ref().map_or(RequirementVerdict::NotRun, |judged| judged.verdict);
            (one.id.clone(), Standing { verdict, seen_unix_ns: one.seen_unix_ns, undecided: 0 })
        };
        Self(results.iter().map(standing).collect())
    }

    /// Takes what a test saw; what is different now. Undecided counts when it is that twice in a row.
    pub fn take(
        &mut self,
        requirements: &Requirements,
        test: &TestSpec,
        rounds: &[TestRound],
    ) -> Vec<Changed> {
        let (Some(first), Some(last)) = (rounds.first(), rounds.last()) else { return Vec::new() };
        let all: Vec<&TestRound> = rounds.iter().collect();
        let mut changed = Vec::new();
        for id in &test.requirements {
            let Some(requirement) = requirements.get(id) else { continue };
            let judged = judge(requirement, &all);
            let unknown = Standing { verdict: RequirementVerdict::NotRun, seen_unix_ns: None, undecided: 0 };
            let was = *self.0.get(id).unwrap_or(&unknown);
            let undecided =
                if judged.verdict == RequirementVerdict::Undecided { was.undecided + 1 } else { 0 };
            let is_passing =
                (1..UNDECIDED_IN_A_ROW).contains(&undecided) && was.verdict != RequirementVerdict::NotRun;
            if is_passing {
                self.0.insert(id.clone(), Standing { undecided, ..was });
                continue;
            }
            let seen_unix_ns = Some(last.started_unix_ns);
            self.0.insert(id.clone(), Standing { verdict: judged.verdict, seen_unix_ns, undecided });
            if judged.verdict != was.verdict {
                changed.push(Changed {
                    id: id.clone(),
                    was: was.verdict,
                    until_unix_ns: was.seen_unix_ns,
                    is: judged.verdict,
                    since_unix_ns: first.started_unix_ns,
                    reason: judged.reason,
                });
            }
        }
        changed
    }
}

/// Whether a test may be repeated while a set is at work: it adds no load, and breaks nothing.
pub fn is_cheap(test: &TestSpec) -> bool {
    match &test.kind {
        _ if test.kind.disturbs() => false,
        TestKind::Look { .. } => true,
        // A partition of its own boots.
        TestKind::Probe { probe_partition: true, .. }
        | TestKind::Capacity { .. }
        | TestKind::Outage { .. } => false,
        TestKind::Probe { load, .. } | TestKind::Command { load, .. } | TestKind::Responses { load, .. } => {
            load.declared().is_empty()
        }
    }
}

/// A test that is repeated.
struct Repeated {
    batch: Batch,
    due: Instant,
    /// When it was due, or its last round ended.
    waits_since: Instant,
    /// What its last round used; none before that.
    took: Option<Duration>,
}

impl Repeated {
    fn new(test: TestSpec, due: Instant) -> Self {
        Self { batch: Batch::new(test), due, waits_since: due, took: None }
    }

    const fn uses(&self) -> Use {
        if matches!(self.batch.spec.kind, TestKind::Look { .. }) { Use::Looks } else { Use::Rounds }
    }
}

impl CatchingUp {
    /// All but the one that was told are due now.
    fn after(told: &str, all: &mut [Repeated]) -> Self {
        let mut wanted = BTreeSet::new();
        for one in all.iter_mut().filter(|one| one.batch.spec.id != told) {
            // What has begun was seen before, and begins anew.
            one.batch = Batch::new(one.batch.spec.clone());
            one.due = Instant::now();
            wanted.insert(one.batch.spec.id.clone());
        }
        Self { wanted, rounds: Vec::new() }
    }

    /// Takes a test that was done; whether it was the last one.
    fn take(&mut self, done: &Batch) -> bool {
        if !self.wanted.remove(&done.spec.id) {
            return false;
        }
        self.rounds.extend(done.rounds.iter().cloned());
        self.wanted.is_empty()
    }
}

/// Repeats tests.
pub struct Watch<'a> {
    /// By whom they are made.
    pub tester: Tester<'a>,
    /// What is known of requirements.
    pub standings: Standings,
    /// Ids of requirements that count for when a test is done.
    pub wanted: BTreeSet<String>,
    /// How long after a test was done it is due again.
    pub every: Duration,
    /// What may be used.
    pub budget: CpuBudget,
}

/// What is told of a change rests on the set as it is then, so that everything else would look stale: it is done once more, and kept.
/// Tests that have not been done since, and the rounds of those that have.
#[derive(Debug, Default)]
struct CatchingUp {
    wanted: BTreeSet<String>,
    rounds: Vec<TestRound>,
}

impl Watch<'_> {
    /// Repeats these tests until the user interrupts. `tell` gets every test that found something else, with its rounds, and, once all others
    /// have been done again after that, their rounds.
    ///
    /// # Errors
    /// Those of `tell`.
    pub fn run<E>(
        &mut self,
        tests: Vec<TestSpec>,
        mut tell: impl FnMut(&[TestRound], &[Changed]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut catching_up = CatchingUp::default();
        self.repeat(tests, &mut catching_up, &mut tell)?;
        if catching_up.rounds.is_empty() { Ok(()) } else { tell(&catching_up.rounds, &[]) }
    }

    fn repeat<E>(
        &mut self,
        tests: Vec<TestSpec>,
        catching_up: &mut CatchingUp,
        tell: &mut impl FnMut(&[TestRound], &[Changed]) -> Result<(), E>,
    ) -> Result<(), E> {
        let began = Instant::now();
        let mut all: Vec<Repeated> = tests.into_iter().map(|test| Repeated::new(test, began)).collect();
        let mut counted = Duration::ZERO;
        loop {
            if self.tester.cancel.is_cancelled() {
                return Ok(());
            }
            let Some(next) = self.next(&mut all, began) else {
                std::thread::sleep(NAP);
                continue;
            };
            let (own, started) = (own_cpu_time(), Instant::now());
            let Some(round) = self.tester.again(&mut next.batch) else { return Ok(()) };
            // What broke has waited, mostly.
            let is_broken = matches!(round.seen, Observed::Failed { .. });
            let is_done = next.batch.is_done(&self.tester, &self.wanted);
            next.waits_since = Instant::now();
            let (what, id) = (next.uses(), next.batch.spec.id.clone());
            if is_done {
                let anew = Repeated::new(next.batch.spec.clone(), Instant::now() + self.every);
                let done = std::mem::replace(next, anew).batch;
                let changed = self.standings.take(self.tester.requirements, &done.spec, &done.rounds);
                if changed.is_empty() {
                    if catching_up.take(&done) {
                        tell(&std::mem::take(&mut catching_up.rounds), &[])?;
                    }
                } else {
                    tell(&done.rounds, &changed)?;
                    *catching_up = CatchingUp::after(&done.spec.id, &mut all);
                }
            }
            // What is measured keeps a CPU of its place busy; a look, and what is done about it, is our own time.
            let there = if what == Use::Looks || is_broken { Duration::ZERO } else { started.elapsed() };
            let took = own_cpu_time().saturating_sub(own).max(there);
            if let Some(it) = all.iter_mut().find(|one| one.batch.spec.id == id) {
                it.took = Some(took);
            }
            self.budget.take(what, took);
            // What this program took until its first round, and between rounds.
            self.budget.take(Use::Looks, own.saturating_sub(counted));
            counted = own_cpu_time();
            if is_done && all.iter().all(|one| one.batch.rounds.is_empty()) {
                // Nothing of ours waits in partitions.
                self.tester.agents.leave();
            }
        }
    }

    /// The test that is to be made now.
    fn next<'t>(&self, all: &'t mut [Repeated], began: Instant) -> Option<&'t mut Repeated> {
        let now = Instant::now();
        let is_idle = |due: Instant| {
            now.duration_since(due) >= self.every || host::idle_share(LOOK).is_none_or(|idle| idle >= IDLE)
        };
        let number = [Use::Looks, Use::Rounds].into_iter().find_map(|what| {
            let first = turn(all, what, now)?;
            let took = all[first].took.unwrap_or_else(|| longest(all, what));
            let may = self.budget.has_room(what, began.elapsed(), took)
                && (what == Use::Looks || is_idle(all[first].due));
            may.then_some(first)
        })?;
        all.get_mut(number)
    }
}

/// Whose turn it is: who has waited longest of those that are due.
fn turn(all: &[Repeated], what: Use, now: Instant) -> Option<usize> {
    let due = all.iter().enumerate().filter(|(_, one)| one.uses() == what && one.due <= now);
    due.min_by_key(|(_, one)| one.waits_since).map(|(number, _)| number)
}

/// What the longest round of any took.
fn longest(all: &[Repeated], what: Use) -> Duration {
    all.iter().filter(|one| one.uses() == what).filter_map(|one| one.took).max().unwrap_or_default()
}

/// CPU time of this process and of those it has ended.
fn own_cpu_time() -> Duration {
    let of = |who| {
        getrusage(who)
            .map_or(0, |usage| usage.user_time().num_microseconds() + usage.system_time().num_microseconds())
    };
    let all = of(UsageWho::RUSAGE_SELF).saturating_add(of(UsageWho::RUSAGE_CHILDREN));
    Duration::from_micros(u64::try_from(all).unwrap_or(0))
}

#[cfg(test)]
mod tests;
