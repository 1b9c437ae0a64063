//! Makes tests: one round of one of them at a time, and says when there have been enough.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use model::partition::set::PartitionSet;
use model::requirement::{OutageMetric, RequiredMetric, Requirement, Requirements, Subject};
use model::verification::{Observed, RequirementVerdict, TestKind, TestRound, TestSpec};
use partition::set::folder::read_set;
use partition::set::root::state_root;
use partition::set::supervisor::now;
use platforms::{Broken, Cancel, PlatformContext};
use units::metric::Unit;
use units::{Nanos, Reason};

use crate::command::Place;
use crate::failure::Patience;
use crate::in_place::between;
use crate::in_place::{self, Agents, At, Doses};
use crate::look::LookedAt;
use crate::{client, command, failure, judge};

/// Rounds that fail in a row before a test is given up.
const MOST_FAILURES: usize = 3;
/// Failures that are made for one test at most: those that it takes, and as many again where some brought nothing.
const MOST_OUTAGES: usize = 2 * judge::LEAST_OUTAGES as usize;
/// Rounds of one test at most.
const MOST_ROUNDS: usize = 10_000;
/// Bytes of what a test's program printed that are kept whole.
const MOST_PRINTED: usize = 4 << 20;
/// Of each later round so many.
const LITTLE: usize = 1024;
/// How long an outage may last at least before it counts as one without an end.
const LEAST_PATIENCE: Duration = Duration::from_secs(60);
/// Seconds of a limit that count at most.
const MOST_PATIENCE_S: f64 = 86_400.0 / 1.5;
/// How long a failure of which nobody notices anything is waited for where no limit says how long that matters.
const UNNOTICED: Duration = Duration::from_secs(10);
/// At most so long where one says so.
const LONGEST_UNNOTICED: Duration = Duration::from_secs(30);

/// A test, and its rounds so far.
pub struct Batch {
    /// The test.
    pub spec: TestSpec,
    /// Its rounds, in their order.
    pub rounds: Vec<TestRound>,
    /// Time spent on them.
    pub spent: Duration,
    /// Bytes of what programs printed in them.
    printed: usize,
}

impl Batch {
    /// Without any round.
    pub const fn new(spec: TestSpec) -> Self {
        Self { spec, rounds: Vec::new(), spent: Duration::ZERO, printed: 0 }
    }

    /// What programs print is kept whole of the first rounds, and of the others its end.
    fn without_surplus(&mut self, seen: Observed) -> Observed {
        let Observed::Commanded(mut done) = seen else { return seen };
        if self.printed > MOST_PRINTED {
            done.output = command::tail(&done.output, LITTLE);
            done.errors = command::tail(&done.errors, LITTLE);
        }
        self.printed = self.printed.saturating_add(done.output.len()).saturating_add(done.errors.len());
        Observed::Commanded(done)
    }

    /// Whether no round is to follow: it is decided for those `wanted`, or given up.
    pub fn is_done(&self, tester: &Tester<'_>, wanted: &BTreeSet<String>) -> bool {
        if self.is_given_up(tester.budget(&self.spec)) {
            return true;
        }
        let rounds: Vec<&TestRound> = self.rounds.iter().collect();
        let count = u32::try_from(rounds.len()).unwrap_or(u32::MAX);
        let asked = self.spec.requirements.iter().filter(|id| wanted.contains(*id));
        asked.filter_map(|id| tester.requirements.get(id)).all(|requirement| {
            let judged = judge::judge(requirement, &rounds);
            let is_decided = matches!(judged.verdict, RequirementVerdict::Pass | RequirementVerdict::Fail);
            // What is looked at and not there is not there the next moment either.
            let is_seen = judge::is_seen_at_once(requirement) && self.last_failed() < rounds.len();
            is_seen || (is_decided && judge::may_decide(requirement, count))
        })
    }

    /// Whether it has had what it may have, decided or not.
    fn is_given_up(&self, budget: Duration) -> bool {
        // A few failures are what an outage takes, however long everything is until the next one can be made.
        let is_spent = match self.spec.kind {
            TestKind::Outage { .. } => self.rounds.len() >= MOST_OUTAGES,
            _ => self.spent >= budget,
        };
        is_spent || self.last_failed() >= MOST_FAILURES || self.rounds.len() >= MOST_ROUNDS
    }

    /// How many rounds have failed since the last one that did not.
    fn last_failed(&self) -> usize {
        self.rounds.iter().rev().take_while(|round| matches!(round.seen, Observed::Failed { .. })).count()
    }
}

/// Who makes tests.
pub struct Tester<'a> {
    /// The set's name.
    pub set: &'a str,
    /// The set that results of this run rest on; none where that is taken anew after each round.
    pub began_with: Option<&'a PartitionSet>,
    /// All requirements.
    pub requirements: &'a Requirements,
    /// Seed of everything random.
    pub seed: u64,
    /// Agents for probes and loads.
    pub agents: Agents<'a>,
    /// Where the user's own tests are called: the folder of their file.
    pub folder: &'a Path,
    /// What programs are started with.
    pub context: &'a PlatformContext,
    /// Set when the user interrupts.
    pub cancel: &'a Cancel,
}

impl Tester<'_> {
    /// Makes a test once more; none when the user interrupts.
    pub fn again<'b>(&mut self, batch: &'b mut Batch) -> Option<&'b TestRound> {
        let number = u32::try_from(batch.rounds.len() + 1).unwrap_or(u32::MAX);
        let test = &batch.spec.clone();
        let (began, started_unix_ns) = (Instant::now(), now());
        let (seen, doses) = match self.see(test, number, judge::longest_of(&batch.rounds)) {
            Ok(seen) => seen,
            Err(Broken::Interrupted) => return None,
            Err(Broken::Failed(failure)) => (in_place::failed(&failure), Vec::new()),
        };
        let seen = self.replaced().map_or(seen, |reason| Observed::Failed { reason });
        let seen = batch.without_surplus(seen);
        let took_ns = Nanos::from_duration(began.elapsed());
        batch.spent += took_ns.to_duration();
        batch.rounds.push(TestRound {
            test: test.id.clone(),
            round: number,
            started_unix_ns,
            took_ns,
            seen,
            doses,
        });
        batch.rounds.last()
    }

    /// `least`: how long rounds of a capacity are by now.
    fn see(&mut self, test: &TestSpec, number: u32, least: Duration) -> Result<(Observed, Doses), Broken> {
        if self.cancel.is_cancelled() {
            return Err(Broken::Interrupted);
        }
        let seed = self.seed.wrapping_add(u64::from(number));
        match &test.kind {
            TestKind::Look { subject } => {
                let looked = LookedAt::now(&state_root(), self.set);
                let values =
                    looked.map_or_else(|reason| Observed::Failed { reason }, |looked| looked.at(subject));
                Ok((values, Doses::new()))
            }
            TestKind::Probe { subject: Subject::Pair(pair), probe, load, over, .. } => {
                let looked = LookedAt::now(&state_root(), self.set);
                let ends = looked.and_then(|looked| between::ends(&looked.set, pair, over.as_deref()));
                match ends {
                    Ok(ends) => self.agents.between(&ends, probe, load, seed),
                    Err(reason) => Ok((Observed::Failed { reason }, Doses::new())),
                }
            }
            TestKind::Probe { subject, probe, load, folder, paused, probe_partition, .. } => {
                let (folder, is_apart) = (folder.as_deref(), *probe_partition);
                let at = At { subject, folder, paused: *paused, is_apart };
                self.agents.measure(&at, probe, load, seed)
            }
            TestKind::Command { subject, command, inside, load } => {
                let (limit, context, cancel) = (self.budget(test), self.context, self.cancel);
                let name = inside.then(|| format!("{}/{subject}", self.set));
                let place = name.as_deref().map_or(Place::Here(self.folder), Place::In);
                let run = || command::run(command, place, context, limit, cancel);
                self.agents.beside(subject, load, limit, seed, run)
            }
            TestKind::Responses { subject, client, load } => {
                let cancel = self.cancel;
                let ask =
                    || told(client::responses(client, number == 1, cancel), Observed::Responses, cancel);
                self.agents.beside(subject, load, client::longest(client), seed, ask)
            }
            TestKind::Capacity { subject, client, load } => {
                let cancel = self.cancel;
                let ask = || told(client::capacity(client, least, cancel), Observed::Responses, cancel);
                self.agents.beside(subject, load, client::longest_capacity(client), seed, ask)
            }
            TestKind::Outage { failure, client, load } => {
                self.agents.leave();
                let patience = self.patience(test);
                let (set, exe, cancel) = (self.set, &self.context.exe, self.cancel);
                let make = || {
                    told(failure::make(set, failure, client, patience, exe, cancel), Observed::Outage, cancel)
                };
                let longest = patience.longest + failure::LONGEST_BESIDES;
                self.agents.beside(&Subject::Set, load, longest, seed, make)
            }
        }
    }

    /// That what was seen is of no set, or of another one than this run began with.
    fn replaced(&self) -> Option<Reason> {
        let was = self.began_with?;
        let what = match read_set(&state_root().join(&was.name)) {
            Some(is) if is.set == *was => return None,
            Some(_) => "replaced by another one of this name",
            None => "taken down",
        };
        Some(format!("set \"{}\" was {what} while it was verified: verify again", was.name).into())
    }

    /// Seconds that may be spent on a test: the most that one of its requirements allows.
    pub fn budget(&self, test: &TestSpec) -> Duration {
        let of = |id: &String| self.requirements.get(id).map(|one| u64::from(one.budget_s));
        Duration::from_secs(test.requirements.iter().filter_map(of).max().unwrap_or(1))
    }

    /// How long the end of an outage is waited for: longer than any of its requirements allows.
    fn patience(&self, test: &TestSpec) -> Patience {
        patience(test.requirements.iter().filter_map(|id| self.requirements.get(id)))
    }
}

fn patience<'a>(requirements: impl Iterator<Item = &'a Requirement>) -> Patience {
    let (mut longest, mut unnoticed, mut settles) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
    for requirement in requirements {
        let (Some(RequiredMetric::Outage(metric)), Some((_, limit))) =
            (&requirement.metric, requirement.limit())
        else {
            continue;
        };
        let is_time = limit.unit == Unit::Nanoseconds;
        let limit = Duration::from_secs_f64((limit.value / 1e9).clamp(0.0, MOST_PATIENCE_S));
        if is_time {
            longest = longest.max(limit);
        }
        // When all parts run again is not asked of the client.
        if *metric != OutageMetric::Restoration {
            let matters = if is_time { limit.min(LONGEST_UNNOTICED) } else { UNNOTICED };
            unnoticed = unnoticed.max(matters);
        }
        if matches!(metric, OutageMetric::Lost | OutageMetric::Doubled) {
            settles = UNNOTICED;
        }
    }
    let shortest = longest + longest / 2;
    Patience { longest: shortest.max(LEAST_PATIENCE), shortest, unnoticed, settles }
}

/// What a client told, or why it told nothing; nothing at all where the user has interrupted it.
fn told<T>(outcome: Result<T, Reason>, seen: fn(T) -> Observed, cancel: &Cancel) -> Result<Observed, Broken> {
    if cancel.is_cancelled() {
        return Err(Broken::Interrupted);
    }
    Ok(outcome.map_or_else(|reason| Observed::Failed { reason }, seen))
}

#[cfg(test)]
mod tests {
    use model::requirement::RequirementFile;
    use model::verification::Commanded;

    use super::*;
    use crate::trace;

    const TEXT: &str = r#"
set = "s"
[requirement.C]
text = "x"
metric = "command"
command = ["one"]
load = "as-is"
at_most = 2
[requirement.D]
text = "x"
metric = "outage.doubled"
exactly = 0
failure = "qemu.db"
client = { kind = "echo", at = "127.0.0.1:7000" }
"#;

    fn batch(id: &str) -> Batch {
        let wanted = RequirementFile::from_toml(TEXT, "").expect("good").requirements;
        let mut tests = trace::of(&wanted).into_iter();
        Batch::new(tests.find(|test| test.requirements.contains(&id.to_owned())).expect("its test"))
    }

    fn see(batch: &mut Batch, seen: Observed) {
        let test = batch.spec.id.clone();
        let (started_unix_ns, took_ns) = (Nanos::ZERO, Nanos::ZERO);
        batch.rounds.push(TestRound { test, round: 1, started_unix_ns, took_ns, seen, doses: Vec::new() });
    }

    /// Regression: where a service did not come back, `doubled` was never decided, and its QEMU was killed up to 10,000 times.
    #[test]
    fn outages_that_decide_nothing_come_to_an_end() {
        let mut batch = batch("D");
        for number in 0..MOST_OUTAGES {
            assert!(!batch.is_given_up(Duration::ZERO), "after {number}");
            see(&mut batch, Observed::Commanded(Commanded::default()));
        }
        assert!(batch.is_given_up(Duration::MAX), "of outages there are as many, whatever they take");
    }

    /// Regression: what nobody noticed within two seconds had missed no answer, whatever a lease was still good for.
    #[test]
    fn what_nobody_notices_is_waited_for_as_long_as_it_matters() {
        let wanted = RequirementFile::from_toml(TEXT, "").expect("good").requirements;
        let of = |metric: &str, limit: &str| {
            let text = TEXT.replace("outage.doubled", metric).replace("exactly = 0", limit);
            let wanted = RequirementFile::from_toml(&text, "").expect("good").requirements;
            let patience = patience(wanted.values());
            [patience.longest, patience.shortest, patience.unnoticed, patience.settles]
                .map(|time| time.as_millis())
        };
        assert_eq!(of("outage.doubled", "exactly = 0"), [60_000, 0, 10_000, 10_000]);
        assert_eq!(of("outage.duration_ns", "at_most = \"4 s\""), [60_000, 6_000, 4_000, 0]);
        assert_eq!(of("outage.duration_ns", "at_most = \"2 min\""), [180_000, 180_000, 30_000, 0]);
        assert_eq!(of("outage.restoration_ns", "at_most = \"2 min\""), [180_000, 180_000, 0, 0]);
        assert_eq!(patience([&wanted["C"], &wanted["D"]].into_iter()).unnoticed, UNNOTICED);
    }

    #[test]
    fn what_has_spent_its_time_or_fails_again_and_again_is_given_up() {
        let mut batch = batch("C");
        let failed = || Observed::Failed { reason: "it is gone".into() };
        for seen in [failed(), failed(), Observed::Commanded(Commanded::default()), failed(), failed()] {
            see(&mut batch, seen);
            assert!(!batch.is_given_up(Duration::MAX) && batch.is_given_up(Duration::ZERO));
        }
        see(&mut batch, failed());
        assert!(batch.is_given_up(Duration::MAX), "three in a row");
    }
}
