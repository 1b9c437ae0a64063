//! One measurement: instances fetched, neighbour under load, probe run, doses collected, instances parked again.
//!
//! ```text
//!  neighbour: fetch ─ begin ───────────────────────────── finish (dose) ─ park
//!  measured:  fetch ───────── begin ─ probe ─ finish ──────────────────── park      one, or all of a layout (`together`)
//!                             │◄── duration ──►│
//! ```

use std::time::Instant;

use super::demand::{crowding, deadline_of};
use super::effect::under_load;
use super::event::Event;
use super::fleet::{Fleet, Seat};
use super::host_cpu::tell;
use super::host_memory::Before;
use super::joint::{Member, Together, together};
use super::network::peer;
use analysis::joint::start_skew;
use model::experiment::Experiment;
use model::journal::{Cell, Failure, FailureKind, InstanceLife, Outcome, PlatformState, Skew};
use platforms::host::watch::Watch;
use platforms::{Broken, Cancel, Instance};
use probes::ProbeKind;
use probes::job::{Dose, Job, JobReply, LoadSpec, Part, Peer, PlacedDose};
use probes::params::ProbeSpec;
use units::accounts::HostAccount;
use units::facts::MachineFacts;
use units::layout::Layout;
use units::names::{LoadPlace, PlatformKind};
use units::{Millis, Nanos};

/// What is written down of an instance that did not break itself.
const ENDED: &str = "it was ended because another instance of its layout broke";

/// A neighbour outlives the probe's deadline by this much.
const NEIGHBOUR_GRACE_MS: u64 = 60_000;

/// What one measurement is made with.
pub(super) struct Bench<'a> {
    pub(super) experiment: &'a Experiment,
    pub(super) fleet: &'a mut Fleet,
    pub(super) host: &'a MachineFacts,
    pub(super) states: &'a [PlatformState],
    pub(super) seed: u64,
    pub(super) cancel: &'a Cancel,
}

/// What came of it.
pub(super) struct Attempt {
    pub(super) outcome: Outcome,
    pub(super) others: Vec<Outcome>,
    pub(super) start_skew_ns: Option<Skew>,
    pub(super) doses: Vec<PlacedDose>,
    pub(super) host: Option<HostAccount>,
    pub(super) instances: Vec<InstanceLife>,
    /// From the request to the reply; none when it did not come to a request.
    pub(super) duration: Option<Nanos>,
    /// What the measured instance says of itself and how long it took to start.
    pub(super) met: Option<(MachineFacts, Nanos)>,
}

/// What is measured: the cell looked up in the experiment.
struct Wanted {
    /// Place of the platform in the experiment.
    index: usize,
    kind: PlatformKind,
    probe: ProbeSpec,
    layout: Option<Layout>,
    /// Loads in the measured instances themselves.
    same: Vec<LoadSpec>,
    /// A load elsewhere.
    elsewhere: Option<(LoadPlace, LoadSpec)>,
}

impl Wanted {
    /// The seats of the instances that are measured.
    fn seats(&self) -> Vec<Seat> {
        match self.layout {
            None => vec![Seat::Measured(self.index)],
            Some(layout) => (0..layout.instances())
                .map(|rank| Seat::Member { platform: self.index, layout, rank })
                .collect(),
        }
    }

    fn needs_network(&self) -> bool {
        matches!(self.probe.kind(), ProbeKind::Net | ProbeKind::Mpi)
    }
}

/// An instance with its seat.
type Seated = (Seat, Box<dyn Instance>);

/// An instance under load beside the measured one.
struct Beside {
    seat: Seat,
    instance: Box<dyn Instance>,
    place: LoadPlace,
}

impl Bench<'_> {
    /// Makes the measurement; none when the user interrupted it.
    pub(super) fn attempt(&mut self, cell: &Cell, on_event: &mut dyn FnMut(&Event)) -> Option<Attempt> {
        let mut attempt = Attempt {
            outcome: Outcome::Failed(failure(FailureKind::Start, "it was not tried".to_owned())),
            others: Vec::new(),
            start_skew_ns: None,
            doses: Vec::new(),
            host: None,
            instances: Vec::new(),
            duration: None,
            met: None,
        };
        match self.measure(cell, &mut attempt, on_event) {
            Ok(()) => attempt.outcome = under_load(attempt.outcome, &attempt.others, &attempt.doses),
            Err(Broken::Failed(failure)) => attempt.outcome = Outcome::Failed(failure),
            Err(Broken::Interrupted) => return None,
        }
        Some(attempt)
    }

    fn wanted(&self, cell: &Cell) -> Option<Wanted> {
        let index = self.states.iter().position(|state| state.label == cell.platform)?;
        let probe = self.experiment.probe_of(cell)?;
        let load = self.load_of(cell);
        let (same, elsewhere) = match load {
            Some((LoadPlace::Same, load)) => (vec![load], None),
            other => (Vec::new(), other),
        };
        let kind = self.states.get(index)?.kind;
        Some(Wanted { index, kind, probe, layout: cell.layout, same, elsewhere })
    }

    fn measure(
        &mut self,
        cell: &Cell,
        attempt: &mut Attempt,
        on_event: &mut dyn FnMut(&Event),
    ) -> Result<(), Broken> {
        let Some(wanted) = self.wanted(cell) else {
            return Err(failure(FailureKind::Start, format!("{cell:?} is not in the experiment")).into());
        };
        let instances = self.fetch(&wanted, on_event)?;
        attempt.instances = instances.iter().map(|(seat, _)| self.fleet.life(*seat)).collect();
        if let Some((_, first)) = instances.first() {
            attempt.met = Some((first.facts().clone(), first.start_time()));
        }
        let beside = match &wanted.elsewhere {
            Some((place, load)) => match self.neighbour(*place, &wanted, load, on_event) {
                Ok(beside) => Some(beside),
                Err(broken) => {
                    self.return_all(instances);
                    return Err(blamed_on_neighbour(broken));
                }
            },
            None => None,
        };
        let measured = match wanted.layout {
            None => self.alone(&wanted, instances, attempt),
            Some(layout) => self.in_layout(&wanted, layout, instances, attempt),
        };
        // The neighbour's dose is fetched in any case: it must be stopped.
        let fetched = beside.map(|beside| self.dose(beside)).transpose();
        measured?;
        match fetched {
            Ok(doses) => attempt.doses.extend(doses.unwrap_or_default()),
            Err(broken) => return Err(blamed_on_neighbour(broken)),
        }
        Ok(())
    }

    /// The instances that are measured, running; either all or none.
    fn fetch(&mut self, wanted: &Wanted, on_event: &mut dyn FnMut(&Event)) -> Result<Vec<Seated>, Broken> {
        if let Some(layout) = wanted.layout {
            self.fleet.make_room(wanted.index, layout);
        }
        let mut fetched = Vec::new();
        for seat in wanted.seats() {
            if wanted.probe.wants_fresh_instance() {
                self.fleet.vacate(seat);
            }
            match self.fleet.checkout(seat, on_event) {
                Ok(instance) => fetched.push((seat, instance)),
                Err(broken) => {
                    self.return_all(fetched);
                    return Err(broken);
                }
            }
        }
        Ok(fetched)
    }

    fn return_all(&mut self, instances: Vec<(Seat, Box<dyn Instance>)>) {
        for (seat, instance) in instances {
            self.fleet.give_back(seat, instance);
        }
    }

    fn load_of(&self, cell: &Cell) -> Option<(LoadPlace, LoadSpec)> {
        let neighbour = cell.neighbour?;
        let entry = self.experiment.loads.iter().find(|load| load.neighbour() == neighbour);
        let threads = entry.and_then(|entry| entry.threads);
        Some((neighbour.place, LoadSpec { kind: neighbour.kind, threads }))
    }

    /// An instance that carries the load; it runs when this returns.
    fn neighbour(
        &mut self,
        place: LoadPlace,
        wanted: &Wanted,
        load: &LoadSpec,
        on_event: &mut dyn FnMut(&Event),
    ) -> Result<Beside, Broken> {
        let seat = if place == LoadPlace::Host { Seat::Host } else { Seat::Neighbour(wanted.index) };
        let mut instance = self.fleet.checkout(seat, on_event)?;
        let deadline = self.deadline(wanted, self.host).get().saturating_add(NEIGHBOUR_GRACE_MS);
        let job = Job {
            id: self.fleet.next_job(seat),
            probe: None,
            loads: vec![load.clone()],
            seed: self.seed,
            deadline_ms: Millis::from_millis(deadline),
            line: self.fleet.line(seat, load.kind),
            ..Job::default()
        };
        match instance.begin(&job, self.cancel) {
            Ok(()) => Ok(Beside { seat, instance, place }),
            Err(broken) => {
                instance.end();
                Err(broken)
            }
        }
    }

    /// When an instance that sees `facts` gives the probe up; the more instances share the host, the later.
    fn deadline(&self, wanted: &Wanted, facts: &MachineFacts) -> Millis {
        let instances = wanted.layout.map_or(1, Layout::instances);
        deadline_of(&wanted.probe, facts, crowding(instances, facts.cpus, self.host.cpus))
    }

    fn job(&mut self, wanted: &Wanted, seat: Seat, facts: &MachineFacts) -> Job {
        let id = self.fleet.next_job(seat);
        let line = wanted.same.iter().find_map(|load| self.fleet.line(seat, load.kind));
        Job {
            id,
            probe: Some(wanted.probe.clone()),
            loads: wanted.same.clone(),
            seed: self.seed,
            deadline_ms: self.deadline(wanted, facts),
            part: None,
            clock: None,
            line,
            fresh: id == 1,
            trace: self.experiment.trace,
        }
    }

    /// One instance that measures alone.
    fn alone(
        &mut self,
        wanted: &Wanted,
        instances: Vec<(Seat, Box<dyn Instance>)>,
        attempt: &mut Attempt,
    ) -> Result<(), Broken> {
        let Some((seat, mut instance)) = instances.into_iter().next() else {
            return Err(failure(FailureKind::Start, "there is no instance to measure".to_owned()).into());
        };
        let facts = instance.facts().clone();
        let job = self.job(wanted, seat, &facts);
        let memory = Before::look(instance.as_mut(), Some(wanted.probe.kind()));
        let asked = Instant::now();
        let reply = instance.begin(&job, self.cancel).and_then(|()| {
            let watch = Watch::start(&instance.processes(), wanted.kind);
            let reply = instance.finish(self.cancel);
            attempt.host = watch.stop();
            reply
        });
        attempt.duration = Some(Nanos::from_duration(asked.elapsed()));
        memory.look_again(instance.as_mut(), &mut attempt.host);
        match reply.and_then(|reply| checked(reply, &wanted.probe, wanted.same.len())) {
            Ok((outcome, doses)) => {
                self.fleet.give_back(seat, instance);
                attempt.outcome = outcome;
                attempt.doses.extend(placed(LoadPlace::Same, doses));
                Ok(())
            }
            Err(broken) => {
                instance.end();
                Err(broken)
            }
        }
    }

    /// All instances of a layout at once.
    fn in_layout(
        &mut self,
        wanted: &Wanted,
        layout: Layout,
        instances: Vec<(Seat, Box<dyn Instance>)>,
        attempt: &mut Attempt,
    ) -> Result<(), Broken> {
        let members = match self.members(wanted, layout, instances) {
            Ok(members) => members,
            Err((instances, reason)) => {
                self.return_all(instances);
                return Err(failure(FailureKind::Refused, reason).into());
            }
        };
        let needs_all = wanted.probe.is_made_together();
        let asked = Instant::now();
        let Together { members, replies, host, logs } =
            together(members, wanted.kind, needs_all, self.cancel);
        attempt.duration = Some(Nanos::from_duration(asked.elapsed()));
        attempt.host = host;
        let mut interrupted = false;
        let mut outcomes = Vec::new();
        for (member, reply) in members.into_iter().zip(replies) {
            let Member { seat, mut instance, .. } = member;
            match reply.and_then(|reply| checked(reply, &wanted.probe, wanted.same.len())) {
                Ok((outcome, doses)) => {
                    self.fleet.give_back(seat, instance);
                    attempt.doses.extend(placed(LoadPlace::Same, doses));
                    outcomes.push(outcome);
                }
                Err(broken) => {
                    instance.end();
                    match broken {
                        Broken::Failed(failure) => outcomes.push(Outcome::Failed(failure)),
                        Broken::Interrupted => {
                            interrupted = true;
                            outcomes.push(Outcome::Failed(failure(FailureKind::Died, ENDED.to_owned())));
                        }
                    }
                }
            }
        }
        // Members are also interrupted when one broke that the others need, and they did not end by themselves.
        if interrupted && self.cancel.is_cancelled() {
            return Err(Broken::Interrupted);
        }
        tell(&mut outcomes, &logs);
        attempt.start_skew_ns = start_skew(&outcomes);
        (attempt.outcome, attempt.others) =
            if needs_all { whole(outcomes) } else { each_for_itself(outcomes) };
        Ok(())
    }

    /// The jobs of a layout's members, and how they reach each other.
    #[expect(clippy::type_complexity, reason = "who fails gives the instances back")]
    fn members(
        &mut self,
        wanted: &Wanted,
        layout: Layout,
        instances: Vec<(Seat, Box<dyn Instance>)>,
    ) -> Result<Vec<Member<Seat>>, (Vec<(Seat, Box<dyn Instance>)>, String)> {
        let mut peers: Vec<Peer> = Vec::new();
        let mut clocks = Vec::new();
        if wanted.needs_network() {
            for (rank, (seat, _)) in (0..).zip(&instances) {
                match self.fleet.reached_at(*seat) {
                    Ok(Some((address, port))) => {
                        peers.push(peer(layout.host_of(rank), address));
                        clocks.push(port.map(|port| port.clock));
                    }
                    Ok(None) => {}
                    Err(reason) => return Err((instances, reason.into())),
                }
            }
        }
        let members = (0..).zip(instances).map(|(rank, (seat, instance))| {
            let mut job = self.job(wanted, seat, instance.facts());
            job.part = Some(Part { rank, ranks: layout.instances(), peers: peers.clone() });
            job.clock = clocks.get(rank as usize).copied().flatten();
            Member { seat, instance, job }
        });
        Ok(members.collect())
    }

    /// Stops the neighbour and says how strong it was.
    fn dose(&mut self, beside: Beside) -> Result<Vec<PlacedDose>, Broken> {
        let Beside { seat, mut instance, place } = beside;
        match instance.finish(self.cancel) {
            Ok(reply) if reply.doses.len() == 1 => {
                self.fleet.give_back(seat, instance);
                Ok(placed(place, reply.doses).collect())
            }
            Ok(reply) => {
                instance.end();
                let reason = format!("it was asked for 1 load and answered with {} doses", reply.doses.len());
                Err(failure(FailureKind::Garbage, reason).into())
            }
            Err(broken) => {
                instance.end();
                Err(broken)
            }
        }
    }
}

/// How near a failure is to its cause: who broke comes before who complains that others are gone, and before who was
/// ended because of that.
fn distance(failed: &Failure) -> u8 {
    match failed.kind {
        _ if failed.reason == ENDED => 2,
        FailureKind::Refused => 1,
        _ => 0,
    }
}

/// The outcome of a layout is its first instance's, unless one broke: then it is that one's, with its number.
fn whole(mut outcomes: Vec<Outcome>) -> (Outcome, Vec<Outcome>) {
    let all = outcomes.len();
    let failures = outcomes.iter().enumerate().filter_map(|(rank, outcome)| match outcome {
        Outcome::Failed(failed) => Some((rank, failed)),
        Outcome::Done(_) => None,
    });
    let broken = failures.min_by_key(|(_, failed)| distance(failed)).map(|(rank, failed)| Failure {
        reason: format!("instance {} of {all}: {}", rank + 1, failed.reason),
        ..failed.clone()
    });
    let others = outcomes.split_off(1.min(all));
    let first = outcomes.pop();
    (broken.map_or_else(|| first.unwrap_or_else(nobody), Outcome::Failed), others)
}

/// The outcome of a layout whose instances measure each for itself is the first one's; who broke is named.
fn each_for_itself(mut outcomes: Vec<Outcome>) -> (Outcome, Vec<Outcome>) {
    let all = outcomes.len();
    for (rank, outcome) in outcomes.iter_mut().enumerate() {
        if let Outcome::Failed(failed) = outcome {
            failed.reason = format!("instance {} of {all}: {}", rank + 1, failed.reason);
        }
    }
    let others = outcomes.split_off(1.min(all));
    (outcomes.pop().unwrap_or_else(nobody), others)
}

fn nobody() -> Outcome {
    Outcome::Failed(failure(FailureKind::Start, "there is no instance to measure".to_owned()))
}

fn placed(place: LoadPlace, doses: Vec<Dose>) -> impl Iterator<Item = PlacedDose> {
    doses.into_iter().map(move |dose| PlacedDose { place, dose })
}

/// A reply that answers what was asked; a guest may send any.
fn checked(reply: JobReply, probe: &ProbeSpec, doses: usize) -> Result<(Outcome, Vec<Dose>), Broken> {
    let wanted = probe.kind();
    let garbage = |reason: String| Err(failure(FailureKind::Garbage, reason).into());
    match reply.report {
        None => garbage(format!("it was asked for probe {wanted} and answered without a report")),
        Some(Ok(report)) if report.detail.kind() != wanted => {
            garbage(format!("it was asked for probe {wanted} and answered with {}", report.detail.kind()))
        }
        Some(Ok(_)) if reply.doses.len() != doses => {
            garbage(format!("it was asked for {doses} loads and answered with {} doses", reply.doses.len()))
        }
        Some(Ok(report)) => Ok((Outcome::Done(Box::new(report)), reply.doses)),
        Some(Err(reason)) => Ok((Outcome::Failed(failure(FailureKind::Refused, reason.into())), Vec::new())),
    }
}

/// What could not even be tried.
pub(super) fn not_started(reason: String) -> Broken {
    failure(FailureKind::Start, reason).into()
}

pub(super) fn failure(kind: FailureKind, reason: String) -> Failure {
    Failure { kind, reason, console: Vec::new() }
}

/// A neighbour that broke spoils the measurement: without its dose the figure says nothing.
fn blamed_on_neighbour(broken: Broken) -> Broken {
    match broken {
        Broken::Failed(failed) => Broken::Failed(Failure {
            kind: FailureKind::Neighbour,
            reason: format!("the neighbour broke: {}", failed.reason),
            console: failed.console,
        }),
        Broken::Interrupted => Broken::Interrupted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_instance_that_broke_is_told_not_those_that_were_ended_or_lost_it() {
        let failed = |kind, reason: &str| Outcome::Failed(failure(kind, reason.to_owned()));
        let outcomes = vec![
            failed(FailureKind::Died, ENDED),
            failed(FailureKind::Refused, "instance 3 is gone"),
            failed(FailureKind::Died, "killed by SIGKILL"),
        ];
        let (Outcome::Failed(told), others) = whole(outcomes) else { panic!("all failed") };
        assert_eq!((told.reason.as_str(), others.len()), ("instance 3 of 3: killed by SIGKILL", 2));
    }
}
