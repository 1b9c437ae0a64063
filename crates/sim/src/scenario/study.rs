//! A whole scenario file as a flat list of independent jobs, and their outcomes put together again.
//!
//! ```text
//!  cases ─► jobs: case × replication (× a parameter changed) ─► Replication each, on any thread, in any order
//!                                                                               │ by the job's number
//!                                                    Simulation ◄── conclude ◄──┘
//! ```
//! A case in which nothing is random is one job, whose outcome is that of every replication. The same replication of every case
//! has the same seed, so that cases differ by what the sweep changed and by nothing
//! else: their values are pairs.

use std::collections::{BTreeMap, BTreeSet};

use super::assumed::Tries;
use super::chance::is_random;
use super::published::{self, Pair};
use super::watch::Watch;
use super::{Replication, run};
use crate::brake::Brake;
use crate::nodes::NoiseTrace;
use crate::random::Stream;
use model::scenario::{Case, Impossible, NoiseSpec, Scenario, written};
use model::simulation::{CaseOutcome, SimulatedFigure, Simulation, TimeLine, Unfinished, WaitTimes};
use units::Nanos;

/// Most jobs of a study.
const MOST_JOBS: usize = 2_000_000;
/// Most stretches of who ran where that a case keeps.
const MOST_STRETCHES: usize = 1200;
/// Stretches that all cases together keep.
const STRETCHES_IN_ALL: usize = 24_000;
/// Different troubles of a case that are told.
const MOST_TROUBLES: usize = 5;
/// Which randomness of a scenario is drawn for its replications.
const REPLICATIONS: u64 = 1;

/// One simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Job {
    /// Number of the case.
    pub case: usize,
    /// Number of the replication.
    pub replication: u32,
    /// Number of the change that is tried; none for the scenario as it stands.
    pub factor: Option<usize>,
}

/// Which parameters are changed to see how much depends on them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Changes {
    /// None.
    None,
    /// Those of which the file states how.
    #[default]
    Stated,
    /// All others, too, by a little.
    All,
}

/// How a study is made.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Stretches of who ran where that the first replication of the watched case keeps at least.
    pub stretches: usize,
    /// Number of the case that somebody wants to look at.
    pub watched: usize,
    /// Whether a published figure may be about a case that is not there: somebody changed the file's values.
    pub may_miss: bool,
    /// Which changes of parameters are tried.
    pub changes: Changes,
}

/// A scenario file, ready to be simulated.
#[derive(Debug, Clone, PartialEq)]
pub struct Study {
    cases: Vec<Case>,
    pairs: Vec<Pair>,
    tries: Tries,
    jobs: Vec<Job>,
    stretches: usize,
    watched: usize,
    traces: BTreeMap<TraceName, NoiseTrace>,
}

/// What a scenario calls a recorded trace: the file or run, and the platform of a run.
pub type TraceName = (String, Option<String>);

/// The recorded trace that a scenario names, if it names one.
fn trace_name(scenario: &Scenario) -> Option<TraceName> {
    match scenario.nodes.as_ref().map(|nodes| &nodes.noise) {
        Some(NoiseSpec::Trace { file, platform }) => Some((file.clone(), platform.clone())),
        _ => None,
    }
}

/// Outcomes by case and change, each with its replication's number.
pub(super) type Outcomes<'a> = BTreeMap<(usize, Option<usize>), Vec<(u32, &'a Replication)>>;

impl Study {
    /// Lists the jobs of these cases.
    ///
    /// # Errors
    /// When an assumption or a published figure names what is not there.
    pub fn new(cases: Vec<Case>, options: Options) -> Result<Self, Impossible> {
        let pairs = published::pairs(&cases, options.may_miss)?;
        let mut wanted: Vec<usize> = pairs.iter().flat_map(|pair| [pair.case, pair.over_case]).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let tries = Tries::new(&cases, &wanted, options.changes, options.may_miss)?;
        let of = |(case, factor, count): (usize, Option<usize>, u32)| {
            (0..count).map(move |replication| Job { case, replication, factor })
        };
        let plain = || cases.iter().enumerate().map(|(number, case)| (number, None, runs(&case.scenario)));
        let changed = || {
            let all = tries.changes.iter().enumerate();
            all.flat_map(|(number, change)| {
                change.scenarios.iter().map(move |(case, scenario)| (*case, Some(number), runs(scenario)))
            })
        };
        let count: usize = plain().chain(changed()).map(|(.., count)| count as usize).sum();
        if count > MOST_JOBS {
            let problem =
                format!("cases, replications and factors make {count} simulations; allowed are {MOST_JOBS}");
            return Err(Impossible::new("replications", problem));
        }
        let jobs: Vec<Job> = plain().chain(changed()).flat_map(of).collect();
        let Options { stretches, watched, .. } = options;
        Ok(Self { cases, pairs, tries, jobs, stretches, watched, traces: BTreeMap::new() })
    }

    /// Recorded traces that the cases name, each once.
    pub fn wanted_traces(&self) -> BTreeSet<TraceName> {
        self.cases.iter().filter_map(|case| trace_name(&case.scenario)).collect()
    }

    /// Hands over a recorded trace; a case whose trace is missing ends with that as its trouble.
    pub fn give_trace(&mut self, name: TraceName, trace: NoiseTrace) {
        self.traces.insert(name, trace);
    }

    /// Recorded traces that were handed over.
    pub fn traces(&self) -> impl Iterator<Item = (&TraceName, &NoiseTrace)> {
        self.traces.iter()
    }

    /// The cases.
    pub fn cases(&self) -> &[Case] {
        &self.cases
    }

    /// The jobs; what each yields depends on nothing but its number.
    pub fn jobs(&self) -> &[Job] {
        &self.jobs
    }

    /// Number of the job that somebody wants to look at: the first replication of the watched case.
    pub fn watched(&self) -> usize {
        let is_it = |job: &Job| job.case == self.watched && job.replication == 0 && job.factor.is_none();
        self.jobs.iter().position(is_it).unwrap_or(0)
    }

    /// Does the job with this number.
    pub fn run(&self, number: usize) -> Replication {
        self.run_until(number, &Brake::default())
    }

    /// Does the job with this number unless the brake is pulled before its end.
    pub fn run_until(&self, number: usize, brake: &Brake) -> Replication {
        let Some((scenario, seed, stretches)) = self.parts(number) else { return Replication::default() };
        let trace = trace_name(scenario).and_then(|name| self.traces.get(&name));
        run(scenario, seed, stretches, trace, brake)
    }

    /// What the job with this number is, in words.
    pub fn job_name(&self, number: usize) -> String {
        let Some(job) = self.jobs.get(number) else { return format!("job {number}") };
        let case = self.cases.get(job.case).map_or("?", |case| case.label.as_str());
        let changed = if job.factor.is_some() { ", a parameter changed" } else { "" };
        format!("{case}, replication {}{changed}", job.replication + 1)
    }

    /// Begins the job with this number for somebody who wants to look; none when it has no host with VMs.
    pub fn watch(&self, number: usize) -> Option<Watch<'_>> {
        let (scenario, seed, stretches) = self.parts(number)?;
        scenario.host.as_ref()?;
        Some(Watch::new(scenario, seed, stretches))
    }

    /// Scenario, seed, and how many stretches are kept of a job.
    fn parts(&self, number: usize) -> Option<(&Scenario, u64, usize)> {
        let job = self.jobs.get(number)?;
        let changed = job.factor.and_then(|factor| self.tries.changes.get(factor)?.scenarios.get(&job.case));
        let scenario = changed.or_else(|| self.cases.get(job.case).map(|case| &case.scenario))?;
        let seed = Stream::new(scenario.seed, &[REPLICATIONS, job.replication.into()]).seed();
        let stretches = match (job.factor, job.replication, job.case) {
            (None, 0, case) if case == self.watched => self.stretches.max(self.kept_stretches()),
            (None, 0, _) => self.kept_stretches(),
            _ => 0,
        };
        Some((scenario, seed, stretches))
    }

    fn kept_stretches(&self) -> usize {
        (STRETCHES_IN_ALL / self.cases.len().max(1)).min(MOST_STRETCHES)
    }

    /// Puts the outcomes of all jobs, in the jobs' order, together.
    pub fn conclude(&self, replications: &[Replication]) -> Simulation {
        self.concluded(replications.iter().map(Some))
    }

    /// Puts the outcomes of the jobs that were done, in the jobs' order, together. Published figures are those of cases of
    /// which a replication was done, changes of parameters those that were made wholly.
    pub fn conclude_partly(&self, replications: &[Option<Replication>]) -> Simulation {
        self.concluded(replications.iter().map(|one| one.as_ref().filter(|one| !one.interrupted)))
    }

    fn concluded<'a>(&self, replications: impl Iterator<Item = Option<&'a Replication>>) -> Simulation {
        let mut outcomes: Outcomes<'a> = BTreeMap::new();
        let mut undone: BTreeSet<Option<usize>> = BTreeSet::new();
        let mut done = 0;
        for (number, (job, replication)) in self.jobs.iter().zip(replications).enumerate() {
            let Some(replication) = replication else {
                undone.insert(job.factor);
                continue;
            };
            done += 1;
            let list = outcomes.entry((job.case, job.factor)).or_default();
            let same = match self.parts(number) {
                Some((scenario, ..)) if !is_random(scenario) => 0..scenario.replications,
                _ => job.replication..job.replication + 1,
            };
            list.extend(same.map(|same| (same, replication)));
        }
        let first = self.cases.first().map(|case| &case.scenario);
        let cases = self.cases.iter().enumerate().map(|(number, case)| {
            let of_case = outcomes.get(&(number, None)).map_or(&[][..], Vec::as_slice);
            case_outcome(case, of_case, self.kept_stretches())
        });
        let is_there = |pair: &&Pair| {
            undone.is_empty()
                || [pair.case, pair.over_case].iter().all(|case| outcomes.contains_key(&(*case, None)))
        };
        let pairs: Vec<Pair> = self.pairs.iter().filter(is_there).copied().collect();
        let is_made = |change: usize| !undone.contains(&None) && !undone.contains(&Some(change));
        let once = self.cases.iter().filter(|case| !is_random(&case.scenario));
        let of = self.jobs.len() as u64;
        Simulation {
            calibrated: first.is_some_and(|scenario| scenario.calibrated.is_some()),
            calibrated_from: first.and_then(|scenario| scenario.calibrated.clone()),
            scenario: first.map(|scenario| scenario.name.clone()).unwrap_or_default(),
            about: first.map(|scenario| scenario.about.clone()).unwrap_or_default(),
            seed: first.map_or(0, |scenario| scenario.seed),
            replications: first.map_or(0, |scenario| scenario.replications),
            cases: cases.collect(),
            published: published::outcomes(&self.cases, &pairs, &outcomes),
            assumptions: self.tries.outcomes(&self.cases, &pairs, &outcomes, &is_made),
            phases: Vec::new(),
            once: once.map(|case| case.label.clone()).collect(),
            unfinished: (done < of).then_some(Unfinished { done, of }),
        }
    }
}

/// How often a scenario is simulated.
pub(super) fn runs(scenario: &Scenario) -> u32 {
    if is_random(scenario) { scenario.replications } else { scenario.replications.min(1) }
}

fn case_outcome(case: &Case, replications: &[(u32, &Replication)], stretches: usize) -> CaseOutcome {
    let settings = case.settings.iter().map(|(path, value)| (path.clone(), written(value).into_owned()));
    let first = replications.first().and_then(|(_, replication)| replication.time_line.as_ref());
    // One that stands for all was simulated once.
    let count = if is_random(&case.scenario) { replications.len() } else { 1 };
    let made = replications.get(..count.min(replications.len())).unwrap_or_default();
    CaseOutcome {
        label: case.label.clone(),
        settings: settings.collect(),
        figures: figures(replications),
        waits: waits(made),
        time_line: first.map(|line| shortened(line, stretches)).filter(|line| !line.stretches.is_empty()),
        troubles: each_once(made.iter().filter_map(|(_, replication)| replication.trouble.as_ref())),
        notes: each_once(made.iter().flat_map(|(_, replication)| &replication.notes)),
        events: made.iter().map(|(_, replication)| replication.events).sum(),
    }
}

/// Figures in the order in which they first appear.
fn figures(replications: &[(u32, &Replication)]) -> Vec<SimulatedFigure> {
    let mut figures: Vec<SimulatedFigure> = Vec::new();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for (number, replication) in replications {
        for figure in &replication.figures {
            let place = *places.entry(&figure.id).or_insert(figures.len());
            if place == figures.len() {
                figures.push(SimulatedFigure {
                    id: figure.id.clone(),
                    title: figure.title.clone(),
                    unit: figure.unit,
                    better: figure.better,
                    probe: figure.probe,
                    is_exact: figure.is_exact,
                    values: Vec::new(),
                });
            }
            if let Some(known) = figures.get_mut(place) {
                known.values.push((*number, figure.value));
            }
        }
    }
    figures
}

fn waits(replications: &[(u32, &Replication)]) -> Vec<WaitTimes> {
    let mut all: Vec<WaitTimes> = Vec::new();
    for waits in replications.iter().flat_map(|(_, replication)| &replication.waits) {
        let Some(known) = all.iter_mut().find(|known| known.vm == waits.vm) else {
            all.push(waits.clone());
            continue;
        };
        let bins = known.counts.len().max(waits.counts.len());
        known.counts.resize(bins, 0);
        known.time_ns.resize(bins, Nanos::from_nanos(0));
        for (sum, more) in known.counts.iter_mut().zip(&waits.counts) {
            *sum = sum.saturating_add(*more);
        }
        for (sum, more) in known.time_ns.iter_mut().zip(&waits.time_ns) {
            *sum = sum.saturating_add(*more);
        }
    }
    all
}

fn shortened(line: &TimeLine, most: usize) -> TimeLine {
    let kept = line.stretches.len().min(most);
    let left_out = line.left_out.saturating_add((line.stretches.len() - kept) as u64);
    let stretches = line.stretches.iter().take(kept).copied().collect();
    TimeLine { cpus: line.cpus, vcpus: line.vcpus.clone(), stretches, left_out }
}

/// Troubles or notes of replications, each once.
fn each_once<'a>(words: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut told: Vec<String> = Vec::new();
    let mut more = 0u32;
    for words in words {
        if told.contains(words) {
            continue;
        }
        if told.len() < MOST_TROUBLES {
            told.push(words.clone());
        } else {
            more += 1;
        }
    }
    if more > 0 {
        told.push(format!("the like in {more} more replications"));
    }
    told
}
