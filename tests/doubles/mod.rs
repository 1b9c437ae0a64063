//! A platform whose every answer a test decides: for replies that no well-behaved agent sends.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};

use bulkhead::campaign::journal::{Contents, read};
use bulkhead::campaign::{Event, RunDir, RunEnd, Setup};
use bulkhead::model::SCHEMA_VERSION;
use bulkhead::model::experiment::{Experiment, PlatformSpec};
use bulkhead::model::journal::{Cell, Failure, FailureKind, Header, PlatformState};
use bulkhead::model::preflight::Preflight;
use bulkhead::platforms::{Broken, Cancel, Instance, InstanceSpec, Platform};
use bulkhead::probes::ProbeKind;
use bulkhead::probes::detail::{Detail, FwqDetail, GapDetail};
use bulkhead::probes::job::{Dose, Job, JobReply, ProbeReport};
use bulkhead::units::facts::{ClockFacts, MachineFacts, OwnCost};
use bulkhead::units::histogram::Histogram;
use bulkhead::units::{Bytes, Hertz, Nanos};

/// What an instance is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    Start,
    Begin,
    StartAt,
    Finish,
    Pause,
    Resume,
}

/// Where and when it is asked.
pub struct Moment<'a> {
    pub ask: Ask,
    /// 0 is the measured instance, 1 a neighbour, the members of layouts follow.
    pub instance: u32,
    /// Starts of this platform so far, this one included.
    pub start: u32,
    /// The job at hand.
    pub job: Option<&'a Job>,
}

/// What a test makes of it; none is the usual answer.
pub type Script = Arc<dyn Fn(&Moment<'_>) -> Option<Result<JobReply, Broken>> + Send + Sync>;

/// What was done, `label.instance ask`.
pub type Log = Arc<Mutex<Vec<String>>>;

pub struct Double {
    pub label: String,
    pub unavailable: Option<String>,
    pub script: Script,
    pub log: Log,
    pub starts: u32,
    pub hosts: u32,
}

impl Double {
    pub fn obedient(label: &str) -> Self {
        Self::scripted(label, |_| None)
    }

    pub fn scripted(
        label: &str,
        script: impl Fn(&Moment<'_>) -> Option<Result<JobReply, Broken>> + Send + Sync + 'static,
    ) -> Self {
        let (script, log) = (Arc::new(script), Log::default());
        let hosts = bulkhead::units::layout::MAX_HOSTS;
        Self { label: label.to_owned(), unavailable: None, script, log, starts: 0, hosts }
    }

    pub fn absent(label: &str, why: &str) -> Self {
        Self { unavailable: Some(why.to_owned()), ..Self::obedient(label) }
    }
}

impl Platform for Double {
    fn hosts(&self) -> u32 {
        self.hosts
    }

    fn survey(&mut self, _: &Cancel) -> PlatformState {
        PlatformState {
            label: self.label.clone(),
            kind: bulkhead::units::names::PlatformKind::Fake,
            unavailable: self.unavailable.clone(),
            properties: Vec::new(),
            facts: None,
            start_ns: None,
        }
    }

    fn start(&mut self, spec: &InstanceSpec, _: &Cancel) -> Result<Box<dyn Instance>, Broken> {
        assert!(spec.scratch.is_dir(), "the scratch folder exists before the start");
        self.starts += 1;
        let instance = DoubleInstance {
            label: self.label.clone(),
            number: spec.number,
            start: self.starts,
            script: self.script.clone(),
            log: self.log.clone(),
            facts: MachineFacts { cpus: 2, ..MachineFacts::default() },
            job: None,
            paused: false,
            ended: false,
        };
        instance.ask(Ask::Start).map_or(Ok(()), |answer| answer.map(|_| ()))?;
        Ok(Box::new(instance))
    }
}

struct DoubleInstance {
    label: String,
    number: u32,
    start: u32,
    script: Script,
    log: Log,
    facts: MachineFacts,
    job: Option<Job>,
    paused: bool,
    ended: bool,
}

impl DoubleInstance {
    fn ask(&self, ask: Ask) -> Option<Result<JobReply, Broken>> {
        self.log.lock().expect("no thread panicked").push(format!("{}.{} {ask:?}", self.label, self.number));
        let moment = Moment { ask, instance: self.number, start: self.start, job: self.job.as_ref() };
        (self.script)(&moment)
    }

    fn simple(&self, ask: Ask) -> Result<(), Broken> {
        self.ask(ask).map_or(Ok(()), |answer| answer.map(|_| ()))
    }
}

impl Instance for DoubleInstance {
    fn facts(&self) -> &MachineFacts {
        &self.facts
    }

    fn start_time(&self) -> Nanos {
        Nanos::from_nanos(1_000_000)
    }

    fn resume(&mut self) -> Result<(), Broken> {
        self.paused = false;
        self.simple(Ask::Resume)
    }

    fn pause(&mut self) -> Result<(), Broken> {
        assert!(self.job.is_none(), "{}.{} is paused while a job runs", self.label, self.number);
        self.paused = true;
        self.simple(Ask::Pause)
    }

    fn begin(&mut self, job: &Job, _: &Cancel) -> Result<(), Broken> {
        assert!(
            !self.paused && !self.ended && self.job.is_none(),
            "a job for an instance that cannot take it"
        );
        self.job = Some(job.clone());
        self.simple(Ask::Begin)
    }

    fn start_at(&mut self, at: Nanos) -> Result<(), Broken> {
        assert!(
            self.job.as_ref().is_some_and(|job| job.part.is_some()),
            "only jobs with a part wait for a start"
        );
        assert!(at.get() > 0);
        self.simple(Ask::StartAt)
    }

    fn finish(&mut self, _: &Cancel) -> Result<JobReply, Broken> {
        let answer = self.ask(Ask::Finish);
        let mut job = self.job.take().expect("finish follows begin");
        // Platforms differ, as real ones do.
        job.seed = job.seed.wrapping_add(self.label.bytes().map(u64::from).sum::<u64>() * 57);
        answer.unwrap_or_else(|| Ok(reply(&job)))
    }

    fn end(&mut self) {
        self.ended = true;
    }
}

/// The usual answer to a job: values that depend on the job's seed alone.
pub fn reply(job: &Job) -> JobReply {
    let doses = job
        .loads
        .iter()
        .map(|load| Dose {
            kind: load.kind,
            threads: load.threads.unwrap_or(2),
            elapsed_ns: Nanos::from_nanos(1000),
            rate_per_s: 5.0,
            unit: "rounds".to_owned(),
            cpu_time_ns: Nanos::ZERO,
            way: None,
            interrupts_per_s: None,
            soft_interrupts_per_s: None,
            parts: Vec::new(),
        })
        .collect();
    JobReply { report: job.probe.as_ref().map(|probe| Ok(report(probe.kind(), job.seed))), doses }
}

/// A report of `kind` whose figures depend on `seed`: a fixed work quantum of 1 µs ± 10 %, or a gap histogram.
pub fn report(kind: ProbeKind, seed: u64) -> ProbeReport {
    let spread = seed % 200;
    let detail = match kind {
        ProbeKind::Gap => Detail::Gap(GapDetail {
            counter_hz: Hertz::from_hz(1_000_000_000),
            observed_ns: Nanos::from_nanos(1_000_000),
            cpu: Some(0),
            batches: (0..8).map(|_| Histogram::from_values([20, 21, 22 + spread])).collect(),
            worst: Vec::new(),
        }),
        _ => Detail::Fwq(FwqDetail {
            iterations: 1000,
            cpu: None,
            samples_ns: (0..100).map(|i| Nanos::from_nanos(900 + spread + i % 7)).collect(),
        }),
    };
    ProbeReport {
        clock: ClockFacts { name: "tsc".to_owned(), read_ns: 20.0, resolution_ns: 1.0 },
        cost: OwnCost { per_sample_ns: 20.0, cpu_time_ns: Nanos::ZERO, memory_bytes: Bytes::from_bytes(0) },
        detail,
        notes: vec!["pinning was refused".to_owned()],
        outside: None,
        accounts: None,
    }
}

/// A failure as a platform reports it.
pub fn broken(kind: FailureKind, reason: &str) -> Broken {
    Broken::Failed(Failure { kind, reason: reason.to_owned(), console: vec!["last words".to_owned()] })
}

/// Two fake platforms, `a` and `b`, and what else the text says; `repeat` is `min max`.
pub fn experiment(rounds: (u32, u32), rest: &str) -> Experiment {
    let text = format!(
        "seed = 7\n[repeat]\nmin = {}\nmax = {}\ntarget_percent = 0.1\n\
         [[platform]]\nlabel = \"a\"\nkind = \"fake\"\n[[platform]]\nlabel = \"b\"\nkind = \"fake\"\n{rest}",
        rounds.0, rounds.1
    );
    Experiment::from_toml(&text).expect("a valid experiment")
}

pub fn header() -> Header {
    Header {
        schema_version: SCHEMA_VERSION,
        bulkhead_version: "0.0.0".to_owned(),
        started_unix_ns: Nanos::from_nanos(1),
        host: MachineFacts { cpus: 2, ..MachineFacts::default() },
        preflight: Preflight::default(),
    }
}

/// Set up with these platforms, in order.
pub fn setup(experiment: &Experiment, doubles: Vec<Double>, host: Option<Double>) -> Setup {
    let boxed = |double| Box::new(double) as Box<dyn Platform>;
    let platforms: Vec<(PlatformSpec, Box<dyn Platform>)> =
        experiment.platforms.iter().cloned().zip(doubles.into_iter().map(boxed)).collect();
    Setup {
        platforms,
        host: host.map(boxed),
        header: header(),
        durations: None,
        classes: bulkhead::model::classes::ClassSet::default(),
        cancel: Cancel::new(),
    }
}

/// Runs with obedient doubles unless given; returns the end and every event.
pub fn run(rundir: &RunDir, setup: Setup) -> (RunEnd, Vec<Event>) {
    let mut events = Vec::new();
    let end = bulkhead::campaign::run(rundir, setup, &mut |event| events.push(event.clone()));
    (end.expect("the run itself works"), events)
}

pub fn obedient(experiment: &Experiment) -> Setup {
    let doubles = experiment.platforms.iter().map(|spec| Double::obedient(&spec.label)).collect();
    setup(experiment, doubles, Some(Double::obedient("host")))
}

pub fn contents(dir: &Path) -> Contents {
    read(&dir.join("journal.jsonl")).expect("a readable journal")
}

/// Which measurements a journal has.
pub fn set_of(contents: &Contents) -> BTreeSet<(Cell, u32)> {
    let set: BTreeSet<_> = contents.measurements.iter().map(|m| (m.cell.clone(), m.round)).collect();
    assert_eq!(set.len(), contents.measurements.len(), "none twice");
    set
}

/// Names in a directory, sorted.
pub fn names_in(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(dir)
        .expect("a directory")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}
