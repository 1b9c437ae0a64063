//! How long will it take? Said before the first measurement, from what the same measurements took on this host, and
//! where nobody made them yet, from typical costs scaled by what is known of the platform. Pure.
//!
//! ```text
//!  durations.json ─► exactly this measurement?  ─yes─► its median
//!                       │no
//!  cost ────────────► typical × how far typical was off for this probe, for this platform, or for the pilot's work
//! ```
//! The pilot: a platform of which nothing is known runs a fixed loop for a moment before the prediction; it says how fast
//! its CPUs work. Its instance is started for it, which is needed anyway, and says how long further starts will take.

use std::collections::BTreeMap;
use std::time::Duration;

use super::cost::{Flavour, flavour, measurement, start};
use super::demand::crowding;
use super::durations::Durations;
use super::eta::{certain, remaining};
use super::history::History;
use super::plan::Plan;
use super::seed::Seed;
use super::survey::measured;
use model::experiment::Experiment;
use model::journal::{Cell, PlatformState};
use model::prediction::Prediction;
use probes::params::{FwqParams, ProbeSpec};
use units::Nanos;
use units::facts::MachineFacts;
use units::names::LoadPlace;

/// What the typical machine takes for one round of the pilot's loop.
const PILOT_ROUND_NS: f64 = 0.5;

/// The pilot: some 20 ms in a process.
pub(super) fn pilot() -> ProbeSpec {
    ProbeSpec::Fwq(FwqParams { iterations: 400_000, samples: 100 })
}

/// How many times as slow as typical a platform works, by the samples of its pilot.
pub(super) fn slowness(samples_ns: &[Nanos], iterations: u64, flavour: Flavour) -> Option<f64> {
    let mut samples: Vec<Nanos> = samples_ns.to_vec();
    samples.sort_unstable();
    let median = samples.get(samples.len() / 2)?.as_f64();
    // Typical costs take a translated guest's slowness into account already.
    let typical = iterations as f64 * PILOT_ROUND_NS * if flavour == Flavour::Translated { 8.0 } else { 1.0 };
    (median > 0.0).then(|| (median / typical).clamp(0.05, 20.0))
}

/// One platform, as far as time goes.
struct Known {
    key: String,
    flavour: Flavour,
    cpus: u32,
    /// How many times as slow as typical it works.
    slowness: f64,
    /// How long its first instance took to start, where one was started.
    start: Option<Duration>,
}

/// Predicts.
pub struct Oracle<'a> {
    experiment: &'a Experiment,
    host: &'a MachineFacts,
    durations: &'a Durations,
    platforms: BTreeMap<String, Known>,
}

impl<'a> Oracle<'a> {
    /// For these platforms, as surveyed.
    pub fn new(
        experiment: &'a Experiment,
        host: &'a MachineFacts,
        states: &[PlatformState],
        durations: &'a Durations,
    ) -> Self {
        let platforms = states.iter().map(|state| {
            let spec = experiment.platforms.iter().find(|spec| spec.label == state.label);
            let known = Known {
                key: platform_key(experiment, host, state),
                flavour: flavour(state),
                cpus: spec.and_then(|spec| spec.cpus).unwrap_or(host.cpus),
                slowness: 1.0,
                start: state.start_ns.map(Nanos::to_duration),
            };
            (state.label.clone(), known)
        });
        Self { experiment, host, durations, platforms: platforms.collect() }
    }

    /// Takes in what a pilot found.
    pub(super) fn with_slowness(mut self, slowness: &BTreeMap<String, f64>) -> Self {
        for (label, factor) in slowness {
            if let Some(known) = self.platforms.get_mut(label) {
                known.slowness = *factor;
            }
        }
        self
    }

    /// Takes in how long the pilots' instances took to start.
    pub(super) fn with_starts(mut self, starts: &[(String, Duration)]) -> Self {
        for (label, took) in starts {
            if let Some(known) = self.platforms.get_mut(label) {
                known.start = Some(*took);
            }
        }
        self
    }

    /// Under which key a measurement's duration is kept.
    pub fn key_of(&self, cell: &Cell) -> Option<String> {
        let platform = self.platforms.get(&cell.platform)?;
        let probe = self.experiment.probe_of(cell)?;
        let load = self.experiment.loads.iter().find(|load| Some(load.neighbour()) == cell.neighbour);
        let threads =
            load.and_then(|load| load.threads).map_or_else(String::new, |threads| threads.to_string());
        let beside =
            cell.neighbour.map_or_else(|| "alone".to_owned(), |n| format!("{}@{}{threads}", n.kind, n.place));
        let layout = cell.layout.map_or_else(|| "1".to_owned(), |layout| layout.to_string());
        let parameters = hash(&serde_json::to_string(&probe).unwrap_or_default());
        Some(format!("{}|{}|{parameters}|{beside}|{layout}", platform.key, cell.probe))
    }

    /// Under which key it is kept how the pairs of this measurement and the baseline's scatter.
    pub(super) fn spread_key(&self, cell: &Cell, baseline: &str) -> Option<String> {
        Some(format!("{}|{}", self.key_of(cell)?, self.platforms.get(baseline)?.key))
    }

    /// Under which key a platform's start is kept.
    pub fn start_key(&self, label: &str) -> Option<String> {
        self.platforms.get(label).map(|platform| format!("{}|start", platform.key))
    }

    /// Whether nothing is known of a platform, so that a pilot is worth its time; fakes need none.
    pub(super) fn wants_pilot(&self, label: &str) -> bool {
        let is_real = self.platforms.get(label).is_some_and(|platform| platform.flavour != Flavour::Fake);
        is_real && self.start_key(label).is_some_and(|key| self.durations.get(&key).is_none())
    }

    /// What runs a platform's code.
    pub(super) fn flavour(&self, label: &str) -> Option<Flavour> {
        self.platforms.get(label).map(|platform| platform.flavour)
    }

    fn known(&self, cell: &Cell) -> Option<Duration> {
        self.durations.get(&self.key_of(cell)?)
    }

    /// What a measurement takes on a typical machine; nothing that was measured on this one enters.
    fn typical(&self, cell: &Cell) -> Duration {
        let (Some(platform), Some(probe)) =
            (self.platforms.get(&cell.platform), self.experiment.probe_of(cell))
        else {
            return Duration::ZERO;
        };
        let facts = MachineFacts { cpus: platform.cpus, ..self.host.clone() };
        let crowding = cell.layout.map_or(1, |l| crowding(l.instances(), platform.cpus, self.host.cpus));
        let flavour = platform.flavour;
        measurement(&probe, &facts, flavour, platform.slowness, (cell.neighbour, cell.layout), crowding)
    }

    /// How long each of these measurements takes, and whether that is known from earlier ones.
    pub fn costs(&self, cells: &[Cell]) -> BTreeMap<Cell, (Duration, bool)> {
        let known: Vec<(&Cell, f64, f64)> = cells
            .iter()
            .filter_map(|cell| {
                Some((cell, self.known(cell)?.as_secs_f64(), self.typical(cell).as_secs_f64()))
            })
            .collect();
        // How far the typical cost is off where it is known: for this probe on this platform, else for the platform.
        let off = |same: &dyn Fn(&Cell) -> bool| {
            let (real, typical) = known
                .iter()
                .filter(|(cell, ..)| same(cell))
                .fold((0.0, 0.0), |(real, typical), (_, r, t)| (real + r, typical + t));
            (typical > 0.0).then(|| (real / typical).clamp(0.02, 50.0))
        };
        cells
            .iter()
            .map(|cell| {
                if let Some(duration) = self.known(cell) {
                    return (cell.clone(), (duration, true));
                }
                let here = |other: &Cell| other.platform == cell.platform;
                let factor = off(&|other| here(other) && other.probe == cell.probe).or_else(|| off(&here));
                let duration = self.typical(cell).mul_f64(factor.unwrap_or(1.0));
                (cell.clone(), (duration, false))
            })
            .collect()
    }

    /// Predicts what is left of a run when `left` of `round` comes next.
    pub fn predict(&self, plan: &Plan, history: &History, round: u32, left: &[Cell]) -> Prediction {
        let all: Vec<Cell> = plan.order(round);
        let costs = self.costs(&all);
        let cost = |cell: &Cell| costs.get(cell).map_or(Duration::ZERO, |(duration, _)| *duration);
        let eta = remaining(plan, history, round, left, &cost);
        let certain = certain(plan, history, round, left);
        let starts = self.starts(&certain);
        let count = |only_known: bool| {
            let counted = certain
                .iter()
                .filter(|(cell, _)| !only_known || costs.get(cell).is_some_and(|(_, is_known)| *is_known));
            counted.map(|(_, times)| *times).fold(0, u32::saturating_add)
        };
        Prediction {
            least_ns: Nanos::from_duration(eta.at_least.saturating_add(starts)),
            most_ns: Nanos::from_duration(eta.at_most.saturating_add(starts)),
            measurements: count(false),
            known: count(true),
        }
    }

    /// Time for starting every instance that these measurements need, once, and anew for each that wants a fresh one.
    fn starts(&self, certain: &[(Cell, u32)]) -> Duration {
        let mut total = Duration::ZERO;
        for (label, platform) in &self.platforms {
            let here: Vec<&(Cell, u32)> =
                certain.iter().filter(|(cell, _)| cell.platform == *label).collect();
            let each = self
                .start_key(label)
                .and_then(|key| self.durations.get(&key))
                .or(platform.start)
                .unwrap_or_else(|| start(platform.flavour));
            total = total.saturating_add(each.saturating_mul(self.starts_of(&here)));
        }
        total
    }

    fn starts_of(&self, cells: &[&(Cell, u32)]) -> u32 {
        let uses = |wanted: &dyn Fn(&Cell) -> bool| u32::from(cells.iter().any(|(cell, _)| wanted(cell)));
        let mut starts = uses(&|cell| cell.layout.is_none())
            + uses(&|cell| cell.neighbour.is_some_and(|neighbour| neighbour.place == LoadPlace::Second));
        let mut layouts: Vec<_> = cells.iter().filter_map(|(cell, _)| cell.layout).collect();
        layouts.sort_unstable();
        layouts.dedup();
        starts += layouts.iter().map(|layout| layout.instances()).sum::<u32>();
        for (cell, times) in cells {
            if self.experiment.probe_of(cell).is_some_and(|probe| probe.wants_fresh_instance()) {
                let instances = cell.layout.map_or(1, units::layout::Layout::instances);
                starts = starts.saturating_add(times.saturating_mul(instances));
            }
        }
        starts
    }
}

/// The plan of a run on this host, told what its measurements take on a typical machine.
pub(super) fn plan_of(
    experiment: &Experiment,
    host: &MachineFacts,
    states: &[PlatformState],
    baseline: &str,
) -> Plan {
    let nothing = Durations::default();
    let oracle = Oracle::new(experiment, host, states, &nothing);
    Plan::new(experiment, &measured(states), baseline).with_costs(|cell| oracle.typical(cell))
}

/// A platform as far as its speed goes: kind, what the survey settled on, its settings and the host.
fn platform_key(experiment: &Experiment, host: &MachineFacts, state: &PlatformState) -> String {
    let property = |wanted: &str| {
        state.properties.iter().find(|(name, _)| name == wanted).map_or("", |(_, value)| value.as_str())
    };
    let spec = experiment.platforms.iter().find(|spec| spec.label == state.label);
    let settings = spec.map(|spec| {
        let mut spec = spec.clone();
        spec.label = String::new();
        serde_json::to_string(&spec).unwrap_or_default()
    });
    let machine = format!("{:?}{}{:?}", host.cpu_model, host.cpus, host.kernel);
    let about = format!("{}{}{machine}", settings.unwrap_or_default(), property("runtime"));
    format!("{}{}-{}", state.kind, property("accelerator"), hash(&about))
}

fn hash(text: &str) -> String {
    format!("{:08x}", Seed::of_run(0).with_text(text).get() >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use probes::ProbeKind;

    const TEXT: &str = "seed = 1\n[repeat]\nmin = 2\nmax = 2\n[[platform]]\nlabel = \"a\"\nkind = \"native\"\n\
                        [[platform]]\nlabel = \"b\"\nkind = \"vm\"\n[probe.gap]\n[probe.fwq]\n[probe.pages]\n\
                        [[load]]\nkind = \"cpu\"\nprobes = [\"gap\"]\n";

    fn experiment(text: &str) -> Experiment {
        Experiment::from_toml(text).unwrap()
    }

    fn states(experiment: &Experiment) -> Vec<PlatformState> {
        let state = |spec: &model::experiment::PlatformSpec| PlatformState {
            label: spec.label.clone(),
            kind: spec.kind,
            unavailable: None,
            properties: vec![("accelerator".to_owned(), "tcg".to_owned())],
            facts: None,
            start_ns: None,
        };
        experiment.platforms.iter().map(state).collect()
    }

    fn host() -> MachineFacts {
        MachineFacts { cpus: 2, ..MachineFacts::default() }
    }

    fn seconds(duration: Duration) -> f64 {
        duration.as_secs_f64()
    }

    #[test]
    fn what_was_measured_here_is_predicted_to_the_second() {
        let experiment = experiment(TEXT);
        let (host, states) = (host(), states(&experiment));
        let plan = Plan::new(&experiment, &["a".to_owned(), "b".to_owned()], "a");
        let mut durations = Durations::default();
        let mut took = BTreeMap::new();
        let nothing = Durations::default();
        let oracle = Oracle::new(&experiment, &host, &states, &nothing);
        for (cell, each) in experiment.cells().iter().zip(1u64..) {
            took.insert(oracle.key_of(cell).unwrap(), vec![Duration::from_secs(each)]);
        }
        for label in ["a", "b"] {
            took.insert(oracle.start_key(label).unwrap(), vec![Duration::from_secs(100)]);
        }
        assert_eq!(took.len(), 10, "every key is its own: {:?}", took.keys());
        durations.learn(&took);
        let oracle = Oracle::new(&experiment, &host, &states, &durations);
        let predicted = oracle.predict(&plan, &History::default(), 0, &plan.order(0));
        // Two rounds of 1 + … + 8 s; per platform: the measured instance, the neighbour, and a fresh one per round.
        assert_eq!(predicted.least_ns.get(), (2 * 36 + 2 * 4 * 100) * 1_000_000_000);
        assert_eq!((predicted.measurements, predicted.known), (16, 16));
        assert_eq!(predicted.most_ns, predicted.least_ns);
        assert!(!oracle.wants_pilot("a") && !oracle.wants_pilot("b"));
    }

    #[test]
    fn starts_take_what_the_pilots_took_or_an_earlier_session_and_what_runs_learnt_counts_for_more() {
        let experiment = experiment(TEXT);
        let (host, mut states) = (host(), states(&experiment));
        let plan = Plan::new(&experiment, &["a".to_owned(), "b".to_owned()], "a");
        let predicted = |oracle: Oracle<'_>| {
            let predicted = oracle.predict(&plan, &History::default(), 0, &plan.order(0));
            seconds(predicted.least_ns.to_duration())
        };
        let nothing = Durations::default();
        let oracle = |states: &[PlatformState]| Oracle::new(&experiment, &host, states, &nothing);
        let typical = predicted(oracle(&states));
        let hundred = [("b".to_owned(), Duration::from_secs(100))];
        let piloted = predicted(oracle(&states).with_starts(&hundred));
        // The measured instance, the neighbour, and a fresh one in each of two rounds.
        let more = 4.0 * (100.0 - seconds(start(Flavour::Translated)));
        assert!((piloted - typical - more).abs() < 1e-6, "{piloted} {typical}");
        states[1].start_ns = Some(Nanos::from_duration(Duration::from_secs(100)));
        assert!((predicted(oracle(&states)) - piloted).abs() < 1e-6, "an earlier session's start");
        let mut learnt = Durations::default();
        let key = oracle(&states).start_key("b").unwrap();
        learnt.learn(&BTreeMap::from([(key, vec![Duration::from_secs(1)])]));
        let known = Oracle::new(&experiment, &host, &states, &learnt);
        assert!(predicted(known.with_starts(&hundred)) < typical, "what was learnt");
    }

    #[test]
    fn other_parameters_settings_loads_and_hosts_are_other_keys() {
        let base = experiment(TEXT);
        let of = |experiment: &Experiment, host: &MachineFacts| {
            let (durations, states) = (Durations::default(), states(experiment));
            let oracle = Oracle::new(experiment, host, &states, &durations);
            let cell = experiment.cells().into_iter().find(|cell| cell.platform == "b").unwrap();
            oracle.key_of(&cell).unwrap()
        };
        let wanted = of(&base, &host());
        assert_eq!(of(&experiment(&TEXT.replace("seed = 1", "seed = 2")), &host()), wanted);
        let longer = experiment(&TEXT.replace("[probe.gap]", "[probe.gap]\nduration_ms = 77"));
        let larger = experiment(&TEXT.replace("kind = \"vm\"", "kind = \"vm\"\ncpus = 7"));
        let elsewhere = MachineFacts { cpus: 3, ..host() };
        for other in [of(&longer, &host()), of(&larger, &host()), of(&base, &elsewhere)] {
            assert_ne!(other, wanted);
        }
    }

    #[test]
    fn the_unknown_is_scaled_by_what_is_known_of_its_probe_then_of_its_platform_then_by_the_pilot() {
        let experiment = experiment(TEXT);
        let (host, states) = (host(), states(&experiment));
        let cell = |probe, platform: &str, beside: bool| {
            let wanted = |cell: &Cell| {
                cell.probe == probe && cell.platform == platform && cell.neighbour.is_some() == beside
            };
            experiment.cells().into_iter().find(wanted).unwrap()
        };
        let [alone, beside] = [false, true].map(|beside| cell(ProbeKind::Gap, "a", beside));
        let [fwq, far] = ["a", "b"].map(|platform| cell(ProbeKind::Fwq, platform, false));
        let nothing = Durations::default();
        let typical = Oracle::new(&experiment, &host, &states, &nothing);
        let of = |oracle: &Oracle<'_>, cell: &Cell| seconds(oracle.costs(&experiment.cells())[cell].0);
        let mut durations = Durations::default();
        let thrice = typical.typical(&alone) * 3;
        durations.learn(&BTreeMap::from([(typical.key_of(&alone).unwrap(), vec![thrice])]));
        let oracle = Oracle::new(&experiment, &host, &states, &durations);
        for scaled in [&alone, &beside, &fwq] {
            assert!((of(&oracle, scaled) / of(&typical, scaled) - 3.0).abs() < 1e-6, "{scaled:?}");
        }
        assert!((of(&oracle, &far) / of(&typical, &far) - 1.0).abs() < 1e-9, "of b nothing is known");
        let slowness = BTreeMap::from([("b".to_owned(), 2.0)]);
        let piloted = Oracle::new(&experiment, &host, &states, &nothing).with_slowness(&slowness);
        let ratio = of(&piloted, &far) / of(&typical, &far);
        assert!((1.5..2.0).contains(&ratio), "its work counts twice, what comes with it does not: {ratio}");
        assert!(typical.wants_pilot("a") && typical.wants_pilot("b"));
    }

    #[test]
    fn a_pilot_says_how_slow_a_platform_works() {
        let samples = |nanos| vec![Nanos::from_nanos(nanos); 11];
        let process = slowness(&samples(400_000), 400_000, Flavour::Process).unwrap();
        assert!((process - 2.0).abs() < 1e-9);
        let translated = slowness(&samples(1_600_000), 400_000, Flavour::Translated).unwrap();
        assert!((translated - 1.0).abs() < 1e-9, "its slowness is in the typical costs already");
        assert_eq!(slowness(&[], 1, Flavour::Process), None);
        assert_eq!(slowness(&samples(0), 1, Flavour::Process), None);
    }
}
