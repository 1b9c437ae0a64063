//! One measurement: instances fetched, neighbour under load, probe run, doses collected, instances parked again.
//!
//! ```text
//!  neighbour: fetch ─ begin ───────────────────────────── finish (dose) ─ park
//!  measured:  fetch ───────── begin ─ probe ─ finish ──────────────────── park
//!                             │◄── duration ──►│
//! ```

use std::time::Instant;

use super::demand::deadline;
use super::event::Event;
use super::fleet::{Fleet, Seat};
use crate::model::experiment::Experiment;
use crate::model::facts::MachineFacts;
use crate::model::job::{Dose, Job, JobReply, LoadSpec, PlacedDose};
use crate::model::journal::{Cell, Failure, FailureKind, Outcome, PlatformState};
use crate::model::names::{LoadKind, LoadPlace};
use crate::model::params::ProbeSpec;
use crate::model::units::{Millis, Nanos};
use crate::platforms::{Broken, Cancel, Instance};

/// A neighbour outlives the probe's deadline by this much.
const NEIGHBOUR_GRACE_MS: u64 = 60_000;

/// After this long each part of a mixed load has had its turn, in a translated guest on a busy host as well.
const A_TURN_FOR_EACH: Nanos = Nanos::from_nanos(5_000_000_000);

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
    pub(super) doses: Vec<PlacedDose>,
    /// From the request to the reply; none when it did not come to a request.
    pub(super) duration: Option<Nanos>,
    /// What the measured instance says of itself and how long it took to start.
    pub(super) met: Option<(MachineFacts, Nanos)>,
}

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
            doses: Vec::new(),
            duration: None,
            met: None,
        };
        match self.measure(cell, &mut attempt, on_event) {
            Ok(outcome) => attempt.outcome = under_load(outcome, &attempt.doses),
            Err(Broken::Failed(failure)) => attempt.outcome = Outcome::Failed(failure),
            Err(Broken::Interrupted) => return None,
        }
        Some(attempt)
    }

    fn measure(
        &mut self,
        cell: &Cell,
        attempt: &mut Attempt,
        on_event: &mut dyn FnMut(&Event),
    ) -> Result<Outcome, Broken> {
        let index = self.states.iter().position(|state| state.label == cell.platform);
        let probe = self.experiment.probes.specs().into_iter().find(|spec| spec.kind() == cell.probe);
        let (Some(index), Some(probe)) = (index, probe) else {
            return Err(failure(FailureKind::Start, format!("{cell:?} is not in the experiment")).into());
        };
        let load = self.load_of(cell);
        let seat = Seat::Measured(index);
        let instance = self.fleet.checkout(seat, on_event)?;
        attempt.met = Some((instance.facts().clone(), instance.start_time()));
        let beside = match &load {
            Some((place, load)) if *place != LoadPlace::Same => {
                match self.neighbour(*place, index, load, &probe, on_event) {
                    Ok(beside) => Some(beside),
                    Err(broken) => {
                        self.fleet.give_back(seat, instance);
                        return Err(blamed_on_neighbour(broken));
                    }
                }
            }
            _ => None,
        };
        let same: Vec<LoadSpec> =
            load.into_iter().filter(|(place, _)| *place == LoadPlace::Same).map(|(_, load)| load).collect();
        let measured = self.probe(seat, instance, &probe, same, attempt);
        // The neighbour's dose is fetched in any case: it must be stopped.
        let dosed = beside.map(|beside| self.dose(beside)).transpose();
        let outcome = measured?;
        attempt.doses.extend(dosed.map_err(blamed_on_neighbour)?.unwrap_or_default());
        Ok(outcome)
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
        index: usize,
        load: &LoadSpec,
        probe: &ProbeSpec,
        on_event: &mut dyn FnMut(&Event),
    ) -> Result<Beside, Broken> {
        let seat = if place == LoadPlace::Host { Seat::Host } else { Seat::Neighbour(index) };
        let mut instance = self.fleet.checkout(seat, on_event)?;
        let deadline = deadline(probe, self.host).get().saturating_add(NEIGHBOUR_GRACE_MS);
        let job = Job {
            id: self.fleet.next_job(seat),
            probe: None,
            loads: vec![load.clone()],
            seed: self.seed,
            deadline_ms: Millis::from_millis(deadline),
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

    fn probe(
        &mut self,
        seat: Seat,
        mut instance: Box<dyn Instance>,
        probe: &ProbeSpec,
        loads: Vec<LoadSpec>,
        attempt: &mut Attempt,
    ) -> Result<Outcome, Broken> {
        let wanted_doses = loads.len();
        let deadline_ms = deadline(probe, instance.facts());
        let id = self.fleet.next_job(seat);
        let job =
            Job { id, probe: Some(probe.clone()), loads, seed: self.seed, deadline_ms, ..Job::default() };
        let asked = Instant::now();
        let reply = instance.begin(&job, self.cancel).and_then(|()| instance.finish(self.cancel));
        attempt.duration = Some(Nanos::from_duration(asked.elapsed()));
        match reply.and_then(|reply| checked(reply, probe, wanted_doses)) {
            Ok((outcome, doses)) => {
                self.fleet.give_back(seat, instance);
                attempt.doses.extend(placed(LoadPlace::Same, doses));
                Ok(outcome)
            }
            Err(broken) => {
                instance.end();
                Err(broken)
            }
        }
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

/// A measurement beside a load that did nothing was made undisturbed: it does not count as one under load.
fn under_load(outcome: Outcome, doses: &[PlacedDose]) -> Outcome {
    match (&outcome, doses.iter().find_map(without_effect)) {
        (Outcome::Done(_), Some(reason)) => Outcome::Failed(failure(FailureKind::Neighbour, reason)),
        _ => outcome,
    }
}

/// Says so when a load did nothing. One that was mixed of several may leave a part out while its turn has not come,
/// but not for long.
fn without_effect(placed: &PlacedDose) -> Option<String> {
    let dose = &placed.dose;
    if dose.kind == LoadKind::Idle {
        return None;
    }
    let place = match placed.place {
        LoadPlace::Same => "in the measured instance",
        LoadPlace::Second => "in a second instance",
        LoadPlace::Host => "on the host",
    };
    let is_nothing = |rate_per_s: f64| rate_per_s.is_nan() || rate_per_s <= 0.0;
    let (who, unit) = if is_nothing(dose.rate_per_s) {
        (format!("the {} load", dose.kind), &dose.unit)
    } else if dose.elapsed_ns >= A_TURN_FOR_EACH {
        let part = dose.parts.iter().find(|part| is_nothing(part.rate_per_s))?;
        (format!("the {} part of the {} load", part.kind, dose.kind), &part.unit)
    } else {
        return None;
    };
    Some(format!(
        "{who} {place} did nothing: 0 {unit} with {} threads in {}, so this was not measured beside it; let the probe \
         run longer, or look at what keeps that load from working",
        dose.threads, dose.elapsed_ns
    ))
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
        Some(Err(reason)) => Ok((Outcome::Failed(failure(FailureKind::Refused, reason)), Vec::new())),
    }
}

fn failure(kind: FailureKind, reason: String) -> Failure {
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
    use crate::model::job::DosePart;

    fn dose(kind: LoadKind, rate_per_s: f64, elapsed_ms: u64, parts: &[f64]) -> PlacedDose {
        let of = |((kind, unit), rate_per_s): (&(LoadKind, &str), &f64)| DosePart {
            kind: *kind,
            rate_per_s: *rate_per_s,
            unit: (*unit).to_owned(),
        };
        let dose = Dose {
            kind,
            threads: 2,
            elapsed_ns: Nanos::from_nanos(elapsed_ms * 1_000_000),
            rate_per_s,
            unit: kind.unit().to_owned(),
            cpu_time_ns: Nanos::ZERO,
            way: None,
            parts: kind.parts().iter().zip(parts).map(of).collect(),
        };
        PlacedDose { place: LoadPlace::Second, dose }
    }

    #[test]
    fn a_load_or_part_that_did_nothing_is_named() {
        assert_eq!(without_effect(&dose(LoadKind::Idle, 0.0, 9000, &[])), None);
        assert_eq!(without_effect(&dose(LoadKind::Cpu, 1e-3, 1, &[])), None);
        for nothing in [0.0, -1.0, f64::NAN] {
            let reason = without_effect(&dose(LoadKind::Cpu, nothing, 1, &[])).unwrap();
            assert!(reason.contains("the cpu load in a second instance did nothing: 0 rounds"), "{reason}");
        }
        let parts = [1.0, 1.0, 1.0, 0.0];
        assert_eq!(without_effect(&dose(LoadKind::Mixed, 3.0, 100, &parts)), None, "its turn may come");
        let reason = without_effect(&dose(LoadKind::Mixed, 3.0, 5001, &parts)).unwrap();
        assert!(reason.contains("the network part of the mixed load"), "{reason}");
    }

    #[test]
    fn a_failure_stays_what_it_was() {
        let broken = Outcome::Failed(failure(FailureKind::Died, "killed".to_owned()));
        assert_eq!(under_load(broken.clone(), &[dose(LoadKind::Cpu, 0.0, 1, &[])]), broken);
    }
}
