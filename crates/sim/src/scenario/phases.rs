//! Searches the phase that is worst for each real-time task: what the offsets of all tasks are, against each other and against the
//! grids of the host, and when the periods of servers and quotas begin (slots begin with the simulation). One alignment shows one response; the worst
//! one that a search finds is still not a bound.
//!
//! ```text
//!  as written, all at once ─┐
//!                           ├─► batch of alignments ─► simulated ─► learn: the worst response of each task, and where
//!  drawn, or the worst one  │                                          │
//!  of a task with one ──────┘◄─────────────────────────────────────────┘
//!  offset changed
//! ```
//! Method: random restarts and one-coordinate steps from the best so far (stochastic hill climbing), the victims in turns. A step sets
//! an offset to one drawn anew, or to another task's, so that both are released at once, or moves it by a little: responses jump where
//! releases meet, and rise slowly before. An offset is drawn from 0 to the longest period of tasks and host, since a longer one meets the
//! same grids again.

use std::collections::BTreeMap;

use super::Replication;
use crate::random::Stream;
use model::scenario::{Case, PolicySpec, ProgramSpec, Scenario, TaskSpec, VmSpec};
use units::Micros;

/// Of the alignments after the first two, one in so many is drawn anew.
const RESTARTS: u64 = 3;
/// A small step is this part of the longest period at most.
const SMALL: u64 = 50;
/// Which randomness of a scenario is drawn for it.
const PHASES: u64 = 3;

/// Where something is whose phase is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// A task: number of its VM's entry and of its thread's.
    Task(usize, usize),
    /// The period of a VM's budget, limit or reservation: number of its entry.
    Server(usize),
}

/// Offsets of all tasks, then phases of all servers, in the order of the scenario.
pub type Offsets = Vec<Micros>;

/// The worst that was found for a task.
#[derive(Debug, Clone, PartialEq)]
pub struct Worst {
    /// Longest response, nanoseconds.
    pub response_ns: f64,
    /// Largest share of jobs that missed their deadline, of all alignments.
    pub missed_share: f64,
    /// Where the longest response was found.
    pub offsets: Offsets,
}

/// A search over one case.
#[derive(Debug, Clone)]
pub struct Search {
    case: Case,
    places: Vec<Place>,
    longest: u64,
    random: Stream,
    made: u64,
    found: BTreeMap<String, Worst>,
}

impl Search {
    /// None for a case without tasks.
    pub fn new(case: &Case) -> Option<Self> {
        let scenario = &case.scenario;
        let places = places(scenario);
        let tasks = places.iter().filter_map(|place| task(scenario, *place));
        let of_tasks = tasks.flat_map(|task| [task.period_us.get(), task.offset_us.get()]).max()?;
        let longest = of_tasks.max(host_period(scenario).unwrap_or(0));
        let random = Stream::new(scenario.seed, &[PHASES]);
        Some(Self { case: case.clone(), places, longest, random, made: 0, found: BTreeMap::new() })
    }

    /// The next alignments, as many as this.
    pub fn batch(&mut self, count: usize) -> Vec<Offsets> {
        (0..count).map(|_| self.next()).collect()
    }

    fn next(&mut self) -> Offsets {
        self.made += 1;
        let victims: Vec<&Worst> = self.found.values().collect();
        let best = self
            .made
            .checked_rem(victims.len() as u64)
            .and_then(|turn| victims.get(usize::try_from(turn).ok()?));
        let best = best.map(|worst| worst.offsets.clone());
        match (self.made, best) {
            (1, _) => self.written(),
            (2, _) => vec![Micros::from_micros(0); self.places.len()],
            (made, Some(best)) if made % RESTARTS != 0 => self.step(best),
            _ => {
                (0..self.places.len()).map(|_| Micros::from_micros(self.random.below(self.longest))).collect()
            }
        }
    }

    fn written(&self) -> Offsets {
        let scenario = &self.case.scenario;
        let offset = |place: &Place| match place {
            Place::Task(..) => task(scenario, *place).map(|task| task.offset_us),
            Place::Server(vm) => scenario.vms.get(*vm).and_then(|vm| vm.phase_us),
        };
        self.places.iter().map(|place| offset(place).unwrap_or_default()).collect()
    }

    fn step(&mut self, mut offsets: Offsets) -> Offsets {
        let mut any = |count: usize| usize::try_from(self.random.below(count.max(1) as u64)).unwrap_or(0);
        let (of, other, how) = (any(offsets.len()), any(offsets.len()), any(3));
        let small = (self.longest / SMALL).max(1);
        let moved = |from: u64, random: &mut Stream| {
            (from + self.longest + random.below(2 * small + 1) - small) % self.longest
        };
        let now = offsets.get(of).map_or(0, |offset| offset.get());
        let to = match how {
            0 => self.random.below(self.longest),
            1 if other != of => offsets.get(other).map_or(0, |offset| offset.get()),
            _ => moved(now, &mut self.random),
        };
        if let Some(offset) = offsets.get_mut(of) {
            *offset = Micros::from_micros(to);
        }
        offsets
    }

    /// The case with these offsets, simulated once, with a seed of its own where anything is drawn.
    pub fn case_with(&self, offsets: &Offsets, number: u64) -> Case {
        let mut case = self.case.clone();
        case.scenario.replications = 1;
        case.scenario.seed = Stream::new(case.scenario.seed, &[PHASES, number]).seed();
        case.scenario.figures.clear();
        case.scenario.assumptions.clear();
        for (place, offset) in self.places.iter().zip(offsets) {
            let (Place::Task(vm, _) | Place::Server(vm)) = place;
            let Some(vm) = case.scenario.vms.get_mut(*vm) else { continue };
            match place {
                Place::Server(_) => vm.phase_us = Some(*offset),
                Place::Task(_, thread) => {
                    if let Some(ProgramSpec::Periodic(task)) =
                        vm.threads.get_mut(*thread).map(|it| &mut it.run)
                    {
                        task.offset_us = *offset;
                    }
                }
            }
        }
        case
    }

    /// Takes in what an alignment yielded.
    pub fn learn(&mut self, offsets: &Offsets, outcome: &Replication) {
        let value = |task: &str, what: &str| {
            let id = format!("{task}.{what}");
            outcome.figures.iter().find(|figure| figure.id == id).map_or(0.0, |figure| figure.value)
        };
        for figure in &outcome.figures {
            let Some(task) = figure.id.strip_suffix(".response_max_ns") else { continue };
            let missed = value(task, "missed_share");
            let worst = self.found.entry(task.to_owned()).or_insert_with(|| Worst {
                response_ns: 0.0,
                missed_share: 0.0,
                offsets: offsets.clone(),
            });
            worst.missed_share = worst.missed_share.max(missed);
            if figure.value > worst.response_ns {
                worst.response_ns = figure.value;
                worst.offsets.clone_from(offsets);
            }
        }
    }

    /// What was found, by task (`vm.A.thread.0`).
    pub const fn found(&self) -> &BTreeMap<String, Worst> {
        &self.found
    }

    /// Paths of the offsets, as `--set` takes them.
    pub fn paths(&self) -> Vec<String> {
        let name = |vm: usize| self.case.scenario.vms.get(vm).map_or("", |vm| vm.name.as_str());
        let path = |place: &Place| match place {
            Place::Task(vm, thread) => format!("vm.{}.thread.{thread}.run.offset_us", name(*vm)),
            Place::Server(vm) => format!("vm.{}.phase_us", name(*vm)),
        };
        self.places.iter().map(path).collect()
    }
}

fn places(scenario: &Scenario) -> Vec<Place> {
    let of_vm = |vm: usize| {
        let threads = scenario.vms.get(vm).map_or(0, |vm| vm.threads.len());
        (0..threads).map(move |thread| Place::Task(vm, thread))
    };
    let tasks = (0..scenario.vms.len()).flat_map(of_vm).filter(|place| task(scenario, *place).is_some());
    let policy = scenario.host.as_ref().map(|host| &host.policy);
    let has_period = |vm: &VmSpec| policy.is_some_and(|policy| vm.has_period(policy));
    let servers = scenario.vms.iter().enumerate().filter(|(_, vm)| has_period(vm));
    tasks.chain(servers.map(|(vm, _)| Place::Server(vm))).collect()
}

fn task(scenario: &Scenario, place: Place) -> Option<&TaskSpec> {
    let Place::Task(vm, thread) = place else { return None };
    match &scenario.vms.get(vm)?.threads.get(thread)?.run {
        ProgramSpec::Periodic(task) => Some(task),
        _ => None,
    }
}

/// The longest period of the host's own, microseconds.
fn host_period(scenario: &Scenario) -> Option<u64> {
    let vms = u64::try_from(scenario.vms.len()).unwrap_or(u64::MAX);
    let of_policy = match &scenario.host.as_ref()?.policy {
        PolicySpec::EqualPerVm { quantum_us }
        | PolicySpec::Proportional { quantum_us }
        | PolicySpec::PerThread { quantum_us } => quantum_us.get().saturating_mul(vms),
        PolicySpec::Slots { slot_us, round, .. } => slot_us.get().saturating_mul(round.len() as u64),
        PolicySpec::Credit { slice_us, .. } => slice_us.get().saturating_mul(vms),
        PolicySpec::Credit2 { slice_us, .. } | PolicySpec::Gang { slice_us } => {
            slice_us.get().saturating_mul(vms)
        }
        PolicySpec::Eevdf { period_us, .. } => period_us.get(),
        PolicySpec::Table { length_us, .. } => length_us.map_or(102_703, Micros::get),
        PolicySpec::Rtds {} | PolicySpec::Deadline { .. } => 0,
    };
    let of_vms = scenario.vms.iter().filter_map(|vm| vm.period_us).map(Micros::get);
    of_vms.chain([of_policy]).max()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::brake::Brake;
    use crate::scenario::run;
    use model::scenario::cases;

    /// Two VMs in slots of 10 ms each, on one CPU.
    fn slots(task: &str) -> Case {
        let text = format!(
            "name = \"x\"\n[host]\ncpus = 1\npolicy = {{ name = \"slots\", slot_us = 10000, round = [\"A\", \"B\"] }}\n\
             [[vm]]\nname = \"A\"\nvcpus = 1\nthread = [{{ run = {task} }}]\n\
             [[vm]]\nname = \"B\"\nvcpus = 1\nthread = [{{ run = {{ program = \"endless\" }} }}]\n"
        );
        cases(&text, &[]).unwrap().remove(0)
    }

    fn searched(case: &Case, budget: u64) -> Search {
        let mut search = Search::new(case).unwrap();
        for number in 0..budget {
            let offsets = search.batch(1).remove(0);
            let case = search.case_with(&offsets, number);
            let outcome = run(&case.scenario, case.scenario.seed, 0, None, &Brake::default());
            search.learn(&offsets, &outcome);
        }
        search
    }

    #[test]
    fn a_job_that_comes_just_before_its_slot_ends_is_found() {
        // As written it comes with its slot and takes 1 ms; a microsecond of work left at the slot's end waits for 10 ms.
        let case = slots(r#"{ program = "periodic", period_us = 20000, work_us = 1000, jobs = 5 }"#);
        let worst = searched(&case, 200).found()["vm.A.thread.0"].clone();
        assert!((10.8e6..=11e6).contains(&worst.response_ns), "{worst:?}");
        let offset = worst.offsets[0].get() % 20_000;
        assert!((9001..=10_200).contains(&offset), "{worst:?}");
    }

    #[test]
    fn the_first_two_alignments_are_as_written_and_all_at_once_and_the_same_seed_searches_the_same() {
        let task = r#"{ program = "periodic", period_us = 20000, work_us = 1000, offset_us = 3, jobs = 5 }"#;
        let all = |seed: u64| {
            let mut case = slots(task);
            case.scenario.seed = seed;
            Search::new(&case).unwrap().batch(20)
        };
        assert_eq!((all(1)[0][0].get(), all(1)[1][0].get()), (3, 0));
        assert_eq!(all(1), all(1));
        assert_ne!(all(1), all(2));
        assert!(all(3).iter().all(|offsets| offsets[0].get() < 20_000));
        assert_eq!(Search::new(&slots(task)).unwrap().paths(), ["vm.A.thread.0.run.offset_us"]);
    }

    #[test]
    fn when_a_server_s_period_begins_is_part_of_the_search() {
        // 3 ms of work, 2 ms of budget: the last one waits for the next period, which begins at 3 ms as written.
        let text = "name = \"x\"\n[host]\ncpus = 1\npolicy = { name = \"rtds\" }\n\
             [[vm]]\nname = \"A\"\nvcpus = 1\nbudget_us = 2000\nperiod_us = 10000\nphase_us = 3000\n\
             thread = [{ run = { program = \"periodic\", period_us = 50000, work_us = 3000, jobs = 1 } }]\n";
        let case = cases(text, &[]).unwrap().remove(0);
        let written = searched(&case, 1);
        assert_eq!(written.paths(), ["vm.A.thread.0.run.offset_us", "vm.A.phase_us"]);
        assert!((written.found()["vm.A.thread.0"].response_ns - 4e6).abs() < 1.0);
        let worst = searched(&case, 200).found()["vm.A.thread.0"].response_ns;
        assert!((10.9e6..=11e6).contains(&worst), "{worst}");
    }

    #[test]
    fn without_a_task_there_is_nothing_to_search() {
        assert!(Search::new(&slots(r#"{ program = "endless" }"#)).is_none());
    }
}
