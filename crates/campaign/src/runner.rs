//! Runs a campaign: asks the plan what is next, has it measured, writes it down, tells what happened.
//!
//! ```text
//!  survey ─► plan.next ─► measure ─► journal.append ─► history.add ─┐
//!               ▲                                                   │
//!               └───────────────────────────────────────────────────┘
//!  interrupted: nothing is recorded for the measurement that was running; every instance is ended
//! ```

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use super::cost::Flavour;
use super::decide::Verdicts;
use super::demand::{probes_in, room_for_loads, room_for_members, room_for_probes};
use super::durations::Durations;
use super::error::CampaignError;
use super::eta::{Eta, eta};
use super::event::{Event, Stop};
use super::fleet::{Fleet, MemberRoom, Rooms};
use super::floods::Floods;
use super::foresee::spreads_of;
use super::history::History;
use super::journal::{Contents, Journal, JournalError};
use super::learn::Learner;
use super::measure::{Attempt, Bench};
use super::pilot::run_pilot;
use super::plan::{Next, Plan};
use super::predict::{Oracle, plan_of};
use super::rundir::RunDir;
use super::seed::Seed;
use super::survey::{gone, measured, settle_baseline, survey};
use model::classes::ClassSet;
use model::experiment::{Experiment, PlatformSpec};
use model::journal::{Cell, Failure, FailureKind, Header, JournalLine, Measurement, Outcome, PlatformState};
use platforms::{Cancel, Platform};
use probes::ProbeKind;
use units::Nanos;
use units::facts::MachineFacts;
use units::layout::Layout;
use units::names::LoadPlace;

/// What a run is made with, beside its directory.
pub struct Setup {
    /// The experiment's platforms, in its order.
    pub platforms: Vec<(PlatformSpec, Box<dyn Platform>)>,
    /// A native platform that carries loads at place `host`; needed only when the experiment has such loads.
    pub host: Option<Box<dyn Platform>>,
    /// Host and preflight of this session.
    pub header: Header,
    /// Where it is kept how long measurements take on this host; without it every prediction is a guess.
    pub durations: Option<PathBuf>,
    /// What platforms are held against: `repeat.until_decided` measures until those verdicts are decided.
    pub classes: ClassSet,
    /// Set when the user interrupts.
    pub cancel: Cancel,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunEnd {
    /// Why.
    pub stop: Stop,
    /// Measurements in the journal.
    pub measurements: usize,
}

/// Runs, or goes on running, what `rundir` describes, until the plan or the user ends it.
///
/// Failures of what is measured are recorded and do not end it; errors are only those of the run itself, a full disk
/// for example. Whatever is in the journal then is whole, and [`super::conclude()`] makes results of it.
///
/// # Errors
/// When nothing can be measured here, or the journal cannot be written (disk full).
pub fn run(rundir: &RunDir, setup: Setup, on_event: &mut dyn FnMut(&Event)) -> Result<RunEnd, CampaignError> {
    check_setup(rundir.experiment(), &setup)?;
    let (mut journal, contents) = rundir.open_journal()?;
    if rundir.is_resumed() {
        let measurements = contents.measurements.len();
        on_event(&Event::Resumed {
            measurements,
            swept: rundir.swept().to_vec(),
            lost: contents.lost.clone(),
        });
    }
    rundir.fresh_scratch()?;
    journal.append(&JournalLine::Header(Box::new(setup.header.clone())))?;
    let already = contents.measurements.len();
    let Some(mut runner) = Runner::prepare(rundir, setup, journal, contents, on_event)? else {
        return Ok(ended(Stop::Interrupted, already, on_event));
    };
    let stop = match runner.foresee(on_event) {
        Ok(Stop::Interrupted) => Ok(Stop::Interrupted),
        Ok(_) => runner.rounds(on_event),
        Err(error) => Err(error),
    };
    runner.fleet.end();
    runner.look_back(stop.as_ref().is_ok_and(|stop| *stop != Stop::Interrupted), on_event);
    Ok(ended(stop?, runner.history.len(), on_event))
}

fn ended(stop: Stop, measurements: usize, on_event: &mut dyn FnMut(&Event)) -> RunEnd {
    on_event(&Event::Finished { stop });
    RunEnd { stop, measurements }
}

fn check_setup(experiment: &Experiment, setup: &Setup) -> Result<(), CampaignError> {
    let labels = |specs: &mut dyn Iterator<Item = &PlatformSpec>| {
        specs.map(|spec| spec.label.as_str()).collect::<Vec<_>>().join(", ")
    };
    let wanted = labels(&mut experiment.platforms.iter());
    let got = labels(&mut setup.platforms.iter().map(|(spec, _)| spec));
    if wanted != got {
        return Err(CampaignError::OtherPlatforms { wanted, got });
    }
    if setup.host.is_none() && experiment.loads.iter().any(|load| load.place == LoadPlace::Host) {
        return Err(CampaignError::NoHostPlatform);
    }
    Ok(())
}

struct Runner<'a> {
    experiment: &'a Experiment,
    plan: Plan,
    history: History,
    journal: Journal,
    states: Vec<PlatformState>,
    fleet: Fleet,
    header: Header,
    learner: Learner,
    verdicts: Verdicts<'a>,
    cancel: Cancel,
}

impl<'a> Runner<'a> {
    /// Surveys and plans; none when interrupted meanwhile.
    fn prepare(
        rundir: &'a RunDir,
        setup: Setup,
        mut journal: Journal,
        contents: Contents,
        on_event: &mut dyn FnMut(&Event),
    ) -> Result<Option<Self>, CampaignError> {
        let Setup { mut platforms, host, header, durations, classes, cancel } = setup;
        let experiment = rundir.experiment();
        // A survey that found nothing made no measurement: look again.
        let before = contents.platforms.filter(|states| !measured(states).is_empty());
        let states = survey(&mut platforms, before.as_deref(), &cancel, on_event);
        if cancel.is_cancelled() {
            return Ok(None);
        }
        journal.append(&JournalLine::Platforms { platforms: states.clone() })?;
        let baseline = settle_baseline(experiment, &states, on_event)?;
        let rooms = Rooms {
            measured: room_for_probes(experiment, &header.host),
            neighbour: room_for_loads(experiment, LoadPlace::Second, &header.host),
            host: room_for_loads(experiment, LoadPlace::Host, &header.host),
            floods: Floods::of(experiment),
            members: member_rooms(experiment, &header.host),
        };
        let mut fleet = Fleet::new(platforms, host, rooms, rundir.scratch(), cancel.clone());
        let lives = contents.measurements.iter().flat_map(|measurement| &measurement.instances);
        let last_start = lives.map(|life| life.start).max();
        fleet.number_starts_from(last_start.map_or(0, |last| last.saturating_add(1)));
        for (index, state) in states.iter().enumerate() {
            if let Some(reason) = gone(state) {
                fleet.give_up_platform(index, &format!("not available after the resume: {reason}"));
            }
        }
        fleet.give_up_large_layouts();
        let host = contents.headers.first().map_or(&header.host, |first| &first.host);
        let plan = plan_of(experiment, host, &states, &baseline).with_verdicts(!classes.classes.is_empty());
        let history = History::of(&contents.measurements)
            .with_lost_lines(!contents.lost.is_empty())
            .with_looks(&contents.looks);
        let learner = Learner::new(durations);
        let verdicts = Verdicts::new(rundir, classes);
        let runner =
            Self { experiment, plan, history, journal, states, fleet, header, learner, verdicts, cancel };
        Ok(Some(runner))
    }

    /// Says how long the rest will take. `Interrupted` when the user ended it meanwhile.
    fn foresee(&mut self, on_event: &mut dyn FnMut(&Event)) -> Result<Stop, CampaignError> {
        let (round, cells) = match self.plan.next(&self.history) {
            Next::Measure { round, cells } => (round, cells),
            Next::Look => (0, Vec::new()),
            Next::Done(_) => return Ok(Stop::Settled),
        };
        let durations = self.learner.known();
        let oracle = Oracle::new(self.experiment, &self.header.host, &self.states, &durations);
        let unknown: Vec<(usize, String, Flavour)> = self
            .states
            .iter()
            .enumerate()
            .filter(|(_, state)| state.unavailable.is_none() && oracle.wants_pilot(&state.label))
            .filter_map(|(index, state)| Some((index, state.label.clone(), oracle.flavour(&state.label)?)))
            .collect();
        let mut slowness = BTreeMap::new();
        for (index, label, flavour) in unknown {
            if self.cancel.is_cancelled() {
                return Ok(Stop::Interrupted);
            }
            on_event(&Event::PilotStarted { platform: label.clone() });
            if let Some(factor) = run_pilot(&mut self.fleet, index, flavour, &self.cancel, on_event) {
                slowness.insert(label, factor);
            }
        }
        let starts = self.fleet.take_starts();
        let oracle = oracle.with_slowness(&slowness).with_starts(&starts);
        let predicted = oracle.predict(&self.plan, &self.history, round, &cells);
        self.journal.append(&JournalLine::Predicted { predicted })?;
        on_event(&Event::Predicted { predicted });
        self.learn_starts(&starts);
        self.learner.begin(predicted);
        Ok(Stop::Settled)
    }

    /// Compares with what was said, and keeps what was learnt. A journal that cannot take one more line (disk full) has
    /// said so already.
    fn look_back(&mut self, is_done: bool, on_event: &mut dyn FnMut(&Event)) {
        let starts = self.fleet.take_starts();
        self.learn_starts(&starts);
        if let Some((predicted, took)) = self.learner.so_far() {
            let took_ns = Nanos::from_duration(took);
            let _ = self.journal.append(&JournalLine::Took { took_ns, is_done: Some(is_done) });
            on_event(&Event::Took { predicted, took });
        }
        let nothing = Durations::default();
        let oracle = Oracle::new(self.experiment, &self.header.host, &self.states, &nothing);
        self.learner.add_spreads(spreads_of(&self.plan, &self.history, &oracle));
        if let Err(error) = self.learner.save() {
            on_event(&Event::NotLearnt { reason: error.to_string() });
        }
    }

    /// Takes down how long instances took to start; returns the sum.
    fn learn_starts(&mut self, starts: &[(String, Duration)]) -> Duration {
        let nothing = Durations::default();
        let oracle = Oracle::new(self.experiment, &self.header.host, &self.states, &nothing);
        for (label, took) in starts {
            self.learner.add(oracle.start_key(label), *took);
        }
        starts.iter().map(|(_, took)| *took).sum()
    }

    /// Takes down how long a measurement took that began at `began`, starts of instances left out. What broke is no
    /// measure for what works.
    fn learn(&mut self, measurement: &Measurement, began: Instant) {
        let starts = self.fleet.take_starts();
        let starting = self.learn_starts(&starts);
        if measurement.broke().is_none() {
            let nothing = Durations::default();
            let oracle = Oracle::new(self.experiment, &self.header.host, &self.states, &nothing);
            let key = oracle.key_of(&measurement.cell);
            self.learner.add(key, began.elapsed().saturating_sub(starting));
        }
    }

    fn rounds(&mut self, on_event: &mut dyn FnMut(&Event)) -> Result<Stop, CampaignError> {
        loop {
            match self.plan.next(&self.history) {
                Next::Done(stop) => return Ok(stop),
                Next::Look => {
                    let look = self.verdicts.look(&self.plan, &self.history, on_event)?;
                    self.journal.append(&JournalLine::Look(look.clone()))?;
                    self.history.add_look(look);
                }
                Next::Measure { round, cells } => {
                    if self.round(round, &cells, on_event)? == Stop::Interrupted {
                        return Ok(Stop::Interrupted);
                    }
                    self.verdicts.tell(&self.plan, &self.history, on_event)?;
                }
            }
        }
    }

    /// Makes the rest of a round; `Interrupted` when the user ended it.
    fn round(
        &mut self,
        round: u32,
        cells: &[Cell],
        on_event: &mut dyn FnMut(&Event),
    ) -> Result<Stop, CampaignError> {
        for (done, cell) in cells.iter().enumerate() {
            let left = cells.get(done..).unwrap_or_default();
            self.announce(cell, round, left, on_event);
            let began = Instant::now();
            let Some(measurement) = self.measure(cell, round, on_event)? else {
                return Ok(Stop::Interrupted);
            };
            let measurement = self.record(measurement)?;
            self.learn(&measurement, began);
            told(&measurement, on_event);
            self.history.add(&measurement);
        }
        Ok(Stop::Settled)
    }

    fn announce(&self, cell: &Cell, round: u32, left: &[Cell], on_event: &mut dyn FnMut(&Event)) {
        let done = self.history.len();
        let eta = eta(&self.plan, &self.history, round, left);
        let groups_by_platforms = self.plan.groups().count() * self.plan.platforms().len();
        let unmeasured = groups_by_platforms * self.plan.repeat().min as usize;
        let planned_total = eta.map_or(unmeasured, |eta: Eta| done + eta.certain);
        on_event(&Event::MeasurementStarted {
            cell: cell.clone(),
            round,
            index: done + 1,
            planned_total,
            eta,
        });
    }

    /// One measurement; none when the user interrupted.
    fn measure(
        &mut self,
        cell: &Cell,
        round: u32,
        on_event: &mut dyn FnMut(&Event),
    ) -> Result<Option<Measurement>, CampaignError> {
        if self.cancel.is_cancelled() {
            return Ok(None);
        }
        let seed = Seed::of_run(self.experiment.seed.unwrap_or_default()).with_text("data");
        let mut bench = Bench {
            experiment: self.experiment,
            fleet: &mut self.fleet,
            host: &self.header.host,
            states: &self.states,
            seed: seed.with(round.into()).with_group(cell).get(),
            cancel: &self.cancel,
        };
        let started_unix_ns = unix_now();
        let before = Instant::now();
        let Some(attempt) = bench.attempt(cell, on_event) else {
            return Ok(None);
        };
        let Attempt { outcome, others, start_skew_ns, doses, host, instances, duration, met } = attempt;
        let duration_ns = duration.unwrap_or_else(|| Nanos::from_duration(before.elapsed()));
        if let Some((facts, start_time)) = met {
            self.meet(&cell.platform, facts, start_time)?;
        }
        Ok(Some(Measurement {
            cell: cell.clone(),
            round,
            started_unix_ns,
            duration_ns,
            doses,
            outcome,
            others,
            start_skew_ns,
            host,
            instances,
        }))
    }

    /// Keeps what an instance turned out to be, the first time one of its platform answers.
    fn meet(&mut self, label: &str, facts: MachineFacts, start_time: Nanos) -> Result<(), CampaignError> {
        let Some(state) = self.states.iter_mut().find(|state| state.label == label) else { return Ok(()) };
        if state.facts.is_some() && state.start_ns.is_some() {
            return Ok(());
        }
        state.facts = Some(facts);
        state.start_ns = Some(start_time);
        self.journal.append(&JournalLine::Platforms { platforms: self.states.clone() })?;
        Ok(())
    }

    /// Writes a measurement down; one that cannot be written as it is (an agent sent infinities) is a failure.
    fn record(&mut self, measurement: Measurement) -> Result<Measurement, CampaignError> {
        match self.journal.append_measurement(&measurement) {
            Ok(()) => Ok(measurement),
            Err(JournalError::Unwritable { bytes, reason }) => {
                let reason = format!("its report of {bytes} bytes cannot be written down: {reason}");
                let failure = Failure { kind: FailureKind::Garbage, reason, console: Vec::new() };
                let outcome = Outcome::Failed(failure);
                let (doses, others) = (Vec::new(), Vec::new());
                let failed =
                    Measurement { outcome, doses, others, start_skew_ns: None, host: None, ..measurement };
                self.journal.append_measurement(&failed)?;
                Ok(failed)
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// What the members of each layout need, in the experiment's order.
fn member_rooms(experiment: &Experiment, host: &MachineFacts) -> Vec<MemberRoom> {
    let mut layouts: Vec<Layout> = Vec::new();
    for layout in experiment.cells().into_iter().filter_map(|cell| cell.layout) {
        if !layouts.contains(&layout) {
            layouts.push(layout);
        }
    }
    let floods = Floods::of(experiment).measured;
    let networked = |layout| {
        probes_in(experiment, layout)
            .iter()
            .any(|probe| matches!(probe.kind(), ProbeKind::Net | ProbeKind::Mpi))
    };
    layouts
        .into_iter()
        .map(|layout| MemberRoom {
            layout,
            room: room_for_members(experiment, layout, host),
            networked: floods || networked(layout),
        })
        .collect()
}

fn told(measurement: &Measurement, on_event: &mut dyn FnMut(&Event)) {
    let (cell, round) = (measurement.cell.clone(), measurement.round);
    if let Some(failure) = measurement.broke() {
        return on_event(&Event::MeasurementFailed { cell, round, failure: failure.clone() });
    }
    for (_, failure) in measurement.broken_instances() {
        on_event(&Event::InstanceBroke { cell: cell.clone(), round, failure: failure.clone() });
    }
    on_event(&Event::MeasurementDone { cell, round, duration: measurement.duration_ns.to_duration() });
}

fn unix_now() -> Nanos {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(Nanos::ZERO, Nanos::from_duration)
}
