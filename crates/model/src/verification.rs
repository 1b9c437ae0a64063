//! What a verification writes: a journal of what was seen, a line each, and what that means for each requirement.
//!
//! ```text
//!  requirements.toml ─► tests ─► rounds ─► journal.jsonl ─┐ (raw: details, counts, exit codes)
//!                                                         ├─► judged ─► verify.json ─► verify.html, junit.xml
//!  what it rests on: program, kernel, QEMU, set, place ───┘
//! ```

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::requirement::{
    Client, Comparator, InjectedFailure, OneOrMore, RequiredLoad, Requirement, Subject,
};
use probes::job::{Dose, ProbeReport};
use probes::params::ProbeSpec;
use units::histogram::Histogram;
use units::metric::Unit;
use units::{Nanos, Reason};

/// Version of these formats.
pub const VERIFICATION_VERSION: u32 = 1;
/// Longest line of a journal that is read, in bytes.
pub const LONGEST_LINE: usize = 16 << 20;

/// A test: what is done to see whether requirements hold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TestSpec {
    /// The same for the same test, also in another run.
    pub id: String,
    /// What is done.
    pub kind: TestKind,
    /// Requirements that it decides, ascending.
    pub requirements: Vec<String>,
}

/// What a test does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum TestKind {
    /// A probe in a partition beside its program, or on the host.
    Probe {
        /// Where.
        subject: Subject,
        /// Which, with its parameters.
        probe: ProbeSpec,
        /// Beside what.
        load: RequiredLoad,
        /// Folder for the files of the probe `disk`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        folder: Option<String>,
        /// Network over which a pair talks, where it was said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        over: Option<String>,
        /// Whether the partition's program stands still meanwhile.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        paused: bool,
        /// Whether it is done in a partition of its own.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        probe_partition: bool,
    },
    /// A look at what kernel and supervisors say.
    Look {
        /// At whom.
        subject: Subject,
    },
    /// A program of the user's.
    Command {
        /// About whom it is.
        subject: Subject,
        /// The program and its arguments.
        command: Vec<String>,
        /// Whether it runs in the partition.
        inside: bool,
        /// Beside what.
        load: RequiredLoad,
    },
    /// A client outside asks, and waits for its answers.
    Responses {
        /// About whom it is.
        subject: Subject,
        /// Who asks.
        client: Client,
        /// Beside what.
        load: RequiredLoad,
    },
    /// Clients outside ask as fast as they are answered.
    Capacity {
        /// About whom it is.
        subject: Subject,
        /// Who asks, and how many at once.
        client: Client,
        /// Beside what.
        load: RequiredLoad,
    },
    /// Parts fail, and a client outside waits until it is answered again.
    Outage {
        /// Which part, or which at once.
        failure: OneOrMore<InjectedFailure>,
        /// Who asks.
        client: Client,
        /// Beside what.
        #[serde(default, skip_serializing_if = "RequiredLoad::is_as_is")]
        load: RequiredLoad,
    },
}

impl TestKind {
    /// Whether something does not go on meanwhile as it does otherwise.
    pub const fn disturbs(&self) -> bool {
        matches!(self, Self::Outage { .. } | Self::Probe { paused: true, .. })
    }
}

impl fmt::Display for TestKind {
    /// `wakeup in db, beside cpu@host`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Look { subject } => write!(f, "a look at {subject}"),
            Self::Probe { subject: Subject::Pair([one, other]), probe, load, over, .. } => {
                let over = over.as_ref().map_or_else(String::new, |over| format!(" over {over}"));
                write!(f, "{} between {one} and {other}{over}, {load}", probe.kind())
            }
            Self::Probe { subject, probe, load, paused, probe_partition, .. } => {
                let place = match (probe_partition, paused) {
                    (false, false) => format!("in {subject}"),
                    (false, true) => format!("in {subject}, its program paused"),
                    (true, false) => format!("in a partition placed as {subject}, beside it"),
                    (true, true) => format!("in a partition placed as {subject}, which is paused"),
                };
                write!(f, "{} {place}, {load}", probe.kind())
            }
            Self::Command { subject, command, inside, load } => {
                let place = if *inside { format!(" in {subject}") } else { String::new() };
                write!(f, "{}{place}, {load}", command.join(" "))
            }
            Self::Responses { client, load, .. } => {
                write!(f, "answers of {} asked every {} ms, {load}", client.at, client.period_ms.get())
            }
            Self::Capacity { client, load, .. } => {
                write!(f, "answers of {} asked by {} at once, {load}", client.at, client.concurrency)
            }
            Self::Outage { failure, client, load } => {
                let verb = if failure.all().len() > 1 { "fail" } else { "fails" };
                write!(f, "{failure} {verb}, {} asked every {} ms", client.at, client.period_ms.get())?;
                if load.is_as_is() { Ok(()) } else { write!(f, ", {load}") }
            }
        }
    }
}

/// A line of a verification's journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "line", rename_all = "kebab-case")]
pub enum VerifyLine {
    /// The first line.
    Header(VerifyHeader),
    /// What a test saw once.
    Round(Box<TestRound>),
    /// The run has come to its end; where there is none, it was interrupted or killed.
    End,
}

/// What a verification begins with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VerifyHeader {
    /// [`VERIFICATION_VERSION`].
    pub schema_version: u32,
    /// The program's version.
    pub bulkhead_version: String,
    /// When it began, nanoseconds since 1970.
    pub started_unix_ns: Nanos,
    /// The set.
    pub set: String,
    /// Seed of everything random.
    pub seed: u64,
    /// What all of it rests on.
    pub basis: Basis,
}

/// What results rest on: a digest or version by name, `kernel`, `qemu`, `partition.db`, `place.db` for example.
pub type Basis = BTreeMap<String, String>;

/// What a test saw once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TestRound {
    /// Which test.
    pub test: String,
    /// Its round, from 1.
    pub round: u32,
    /// When it began, nanoseconds since 1970.
    pub started_unix_ns: Nanos,
    /// How long it took.
    pub took_ns: Nanos,
    /// What was seen.
    pub seen: Observed,
    /// How strong each declared load beside it was, with its place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doses: Vec<(String, Dose)>,
}

/// What was seen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "seen", rename_all = "kebab-case")]
pub enum Observed {
    /// A probe's report.
    Measured {
        /// The report.
        report: Box<ProbeReport>,
    },
    /// Values of properties, by the metric's name, or why there is none.
    Looked {
        /// The values.
        values: BTreeMap<String, Result<f64, Reason>>,
        /// Why one of them is what it is, where there is something to say: for readers, no verdict is made of it.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        why: BTreeMap<String, String>,
    },
    /// What a command did.
    Commanded(Commanded),
    /// How long a client waited for its answers.
    Responses(Responses),
    /// What a client saw of a failure.
    Outage(Outage),
    /// It could not be done.
    Failed {
        /// Why.
        reason: Reason,
    },
}

/// What a command did.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Commanded {
    /// Its exit code; 128 and the number of the signal that ended it.
    pub exit_code: i32,
    /// The number it printed, if it printed one.
    pub value: Option<f64>,
    /// Tests and failures, if it printed `JUnit` or TAP.
    pub tests: Option<TestCounts>,
    /// Why not all of its reports were read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unread: Option<String>,
    /// Bytes that it printed in all: where `output` has as many, it is all of it. Journals of before 2026-11-30 have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub printed_bytes: Option<u64>,
    /// The end of what it printed, at most 64 KiB.
    pub output: String,
    /// The end of its error output, at most 64 KiB.
    pub errors: String,
}

/// Tests that a command made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TestCounts {
    /// All of them.
    pub all: u64,
    /// Those that failed or broke.
    pub failed: u64,
    /// Those that were left out.
    pub left_out: u64,
    /// The first of those that failed, as the program names them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub first_failed: Vec<String>,
}

/// How long a client outside waited for the answers of a round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Responses {
    /// From when a request was due until its answer had come; what never was answered counts with all the time that it was waited for.
    pub response_ns: Histogram,
    /// Requests in all.
    pub asked: u64,
    /// Those that were not answered in time.
    pub missing: u64,
    /// Of a round in which clients asked as fast as they were answered: what each had.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<ClientCycles>,
}

/// What a client had in whole cycles, from one answer to a later one; of all clients together since 2026-12-01, of each its own before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClientCycles {
    /// Answers that came in time, the one with which the first cycle began not counted.
    pub answers: u64,
    /// How long that took.
    pub over_ns: Nanos,
}

impl ClientCycles {
    /// Answers a second; no finite number where they took no time.
    pub fn per_s(&self) -> f64 {
        self.answers as f64 / self.over_ns.to_duration().as_secs_f64()
    }
}

/// What a client outside saw of a failure. Times count from the moment at which the part was made to fail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Outage {
    /// When it was made to fail, nanoseconds since 1970, to hold logs of the application against; journals of before 2026-11-27 have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_unix_ns: Option<Nanos>,
    /// Requests that were answered before the failure.
    pub answered_before: u64,
    /// When the first request was made that was not answered in time; none if all were.
    pub first_missing_ns: Option<Nanos>,
    /// When the first answer came after which none was missing; none if there was no such within the time.
    pub answered_again_ns: Option<Nanos>,
    /// When all parts ran as before; none if they did not by themselves, or if none had stopped. Journals of before 2026-11-30 have when
    /// verify had put them back.
    pub restored_ns: Option<Nanos>,
    /// Requests in all.
    pub asked: u64,
    /// Those that were never answered, answers that came late not counted.
    pub lost: u64,
    /// Those that were answered more than once; none where the client cannot know.
    pub doubled: Option<u64>,
    /// How long was waited for the end.
    pub waited_ns: Nanos,
    /// What was undone and how, for the reader.
    pub undone: String,
}

/// What a requirement turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum RequirementVerdict {
    /// It holds.
    Pass,
    /// It cannot be asked here, or not of all its parts: worse than one that holds, because nobody has seen that it does.
    NotApplicable,
    /// Nothing was done to see.
    NotRun,
    /// It was seen once, but what that rested on has changed.
    Stale,
    /// What was seen does not decide.
    Undecided,
    /// It does not hold.
    Fail,
}

impl RequirementVerdict {
    /// All of them, the worst last.
    pub const ALL: [Self; 6] =
        [Self::Pass, Self::NotApplicable, Self::NotRun, Self::Stale, Self::Undecided, Self::Fail];

    /// As it is shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotApplicable => "not applicable",
            Self::Pass => "pass",
            Self::NotRun => "not run",
            Self::Stale => "stale",
            Self::Undecided => "undecided",
            Self::Fail => "fail",
        }
    }
}

/// What a test's rounds say of one requirement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Judged {
    /// Whether it holds.
    pub verdict: RequirementVerdict,
    /// The value, in the base of its unit.
    pub value: Option<f64>,
    /// Lower end of its interval.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// Confidence of the interval.
    pub confidence: Option<f64>,
    /// How far the safe end is from the limit, in percent of that; negative on the wrong side.
    pub margin_percent: Option<f64>,
    /// Rounds that have a value.
    pub rounds: u32,
    /// Rounds that failed.
    pub failed_rounds: u32,
    /// Why, in a sentence.
    pub reason: String,
}

/// A requirement, what came of it, and what that rests on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RequirementResult {
    /// Its id.
    pub id: String,
    /// As it was written.
    pub requirement: Requirement,
    /// The metric's unit.
    pub unit: Option<Unit>,
    /// Its comparator.
    pub comparator: Option<Comparator>,
    /// The limit, in the base of the unit.
    pub limit: Option<f64>,
    /// The test that decides it.
    pub test: Option<String>,
    /// Of its own test; none for one that only has parts.
    pub direct: Option<Judged>,
    /// The worst of its parts, if it has any.
    pub inherited: Option<RequirementVerdict>,
    /// The worse of both.
    pub verdict: RequirementVerdict,
    /// What has changed since it was seen, where it is stale: each with what it was and is.
    #[serde(default)]
    pub changed: Vec<Change>,
    /// What it rests on.
    pub rests_on: Basis,
    /// When it was last seen, nanoseconds since 1970.
    pub seen_unix_ns: Option<Nanos>,
    /// Time spent on its test.
    pub took_ns: Nanos,
}

/// What has changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Change {
    /// What.
    pub what: String,
    /// What it was, empty if it was not there.
    pub was: String,
    /// What it is, empty if it is not there any more.
    pub is: String,
}

/// `verify.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Verification {
    /// [`VERIFICATION_VERSION`].
    pub schema_version: u32,
    /// The program's version.
    pub bulkhead_version: String,
    /// The set.
    pub set: String,
    /// When it began, nanoseconds since 1970.
    pub started_unix_ns: Nanos,
    /// How long it took.
    pub took_ns: Nanos,
    /// Whether all that was wanted was done; false when it was interrupted.
    pub is_whole: bool,
    /// What all of it rests on.
    pub basis: Basis,
    /// All requirements, by id.
    pub requirements: Vec<RequirementResult>,
    /// All tests.
    pub tests: Vec<TestSpec>,
    /// What was different at the verification before, where there was one.
    #[serde(default)]
    pub history: Vec<Acceptance>,
}

/// An earlier verification in the same folder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Acceptance {
    /// When it began, nanoseconds since 1970.
    pub started_unix_ns: Nanos,
    /// How many requirements had which verdict.
    pub counts: BTreeMap<String, u32>,
    /// Requirements whose verdict is another one since: what it was and is.
    pub changed: Vec<Change>,
}

impl Verification {
    /// How many requirements have this verdict.
    pub fn count(&self, verdict: RequirementVerdict) -> usize {
        self.requirements.iter().filter(|one| one.verdict == verdict).count()
    }
}
