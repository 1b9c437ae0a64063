//! A simulation as a run's results, so that `report` and `compare` read it like a measured one: cases are platforms, the
//! first is the baseline, replications are rounds.

use std::collections::BTreeMap;

use model::SCHEMA_VERSION;
use model::experiment::{Experiment, PlatformSpec, Repeat};
use model::journal::{Cell, PlatformState};
use model::preflight::Preflight;
use model::results::{CellResult, MetricResult, RunResults};
use model::simulation::{CaseOutcome, SimulatedFigure, Simulation};
use probes::ProbeKind;
use probes::params::Probes;
use stats::interval::median_interval;
use stats::pairs::{compare, family_confidence};
use units::Nanos;
use units::facts::MachineFacts;
use units::metric::Comparison;
use units::names::PlatformKind;

/// Confidence of estimates, and of all headline comparisons together, as in measured runs.
const CONFIDENCE: f64 = 0.95;
/// Longest label of a platform.
const LABEL_MOST: usize = 40;

/// The results; `version` is that of whoever asks. They do not say when they were made, so that equal seeds give equal bytes.
pub fn results(simulation: &Simulation, version: &str) -> RunResults {
    let labels = labels(simulation);
    let platform = |(label, case): (&String, &CaseOutcome)| {
        let mut properties = vec![("case".to_owned(), case.label.clone())];
        properties.extend(case.settings.clone());
        PlatformState {
            label: label.clone(),
            kind: PlatformKind::Sim,
            unavailable: None,
            properties,
            facts: None,
            start_ns: None,
        }
    };
    let spec =
        |label: &String| PlatformSpec { label: label.clone(), ..PlatformSpec::of_kind(PlatformKind::Sim) };
    RunResults {
        schema_version: SCHEMA_VERSION,
        bulkhead_version: version.to_owned(),
        experiment: Experiment {
            name: simulation.scenario.clone(),
            baseline: labels.first().cloned(),
            seed: Some(simulation.seed),
            trace: false,
            repeat: Repeat {
                min: simulation.replications,
                max: simulation.replications,
                ..Repeat::default()
            },
            platforms: labels.iter().map(spec).collect(),
            probes: Probes::default(),
            layouts: Vec::new(),
            loads: Vec::new(),
        },
        started_unix_ns: Nanos::ZERO,
        measured_ns: Nanos::ZERO,
        complete: simulation.unfinished.is_none(),
        host: MachineFacts { architecture: "simulated".to_owned(), ..MachineFacts::default() },
        preflight: Preflight::default(),
        dirty: Vec::new(),
        platforms: labels.iter().zip(&simulation.cases).map(platform).collect(),
        made_up: Vec::new(),
        verdicts: Vec::new(),
        policies: Vec::new(),
        sessions: Vec::new(),
        lost: Vec::new(),
        clocks: Vec::new(),
        cells: cells(simulation, &labels),
        failures: Vec::new(),
        isolation: Vec::new(),
        classes: Vec::new(),
        simulation: Some(simulation.clone()),
    }
}

/// A label for each case, made of what labels may have, and unlike the others.
fn labels(simulation: &Simulation) -> Vec<String> {
    let mut labels: Vec<String> = Vec::new();
    for case in &simulation.cases {
        let mut label = String::new();
        for letter in case.label.chars() {
            if letter.is_ascii_alphanumeric() || letter == '_' {
                label.push(letter);
            } else if !label.is_empty() && !label.ends_with('-') {
                label.push('-');
            }
        }
        label.truncate(LABEL_MOST);
        let label = match label.trim_end_matches('-') {
            "" => "case".to_owned(),
            some => some.to_owned(),
        };
        let numbered = (2u32..).map(|number| {
            let ending = format!("#{number}");
            format!("{}{ending}", label.get(..LABEL_MOST - ending.len()).unwrap_or(&label))
        });
        let free = std::iter::once(label.clone()).chain(numbered).find(|label| !labels.contains(label));
        labels.push(free.unwrap_or(label));
    }
    labels
}

fn cells(simulation: &Simulation, labels: &[String]) -> Vec<CellResult> {
    let main = simulation.main_figures();
    let Some(first) = simulation.cases.first() else { return Vec::new() };
    let others = simulation.cases.iter().skip(1);
    let comparisons = others.flat_map(|case| &case.figures).filter(|figure| {
        main.contains(&figure.id.as_str())
            && first.figure(&figure.id).is_some_and(|base| !pairs(figure, base).is_empty())
    });
    let confidence = family_confidence(CONFIDENCE, comparisons.count().max(1));
    let mut cells = Vec::new();
    for (number, (case, label)) in simulation.cases.iter().zip(labels).enumerate() {
        let baseline = (number > 0).then_some(first);
        cells.extend(cells_of(case, label, baseline, &main, confidence));
    }
    cells
}

/// A cell for each probe that measures what some of the case's figures say.
fn cells_of(
    case: &CaseOutcome,
    label: &str,
    baseline: Option<&CaseOutcome>,
    main: &[&str],
    confidence: f64,
) -> Vec<CellResult> {
    let mut by_probe: BTreeMap<ProbeKind, Vec<MetricResult>> = BTreeMap::new();
    for figure in &case.figures {
        let against = baseline.map(|baseline| against(figure, baseline.figure(&figure.id), confidence));
        let values: Vec<f64> = figure.values.iter().map(|(_, value)| *value).collect();
        by_probe.entry(figure.probe).or_default().push(MetricResult {
            id: figure.id.clone(),
            title: figure.title.clone(),
            unit: figure.unit,
            better: figure.better,
            headline: main.contains(&figure.id.as_str()),
            samples: figure.values.clone(),
            estimate: median_interval(&values, CONFIDENCE, 0),
            against_baseline: against,
            against_undisturbed: None,
            at_most: None,
            against_alone: None,
        });
    }
    let cell = |(probe, metrics): (ProbeKind, Vec<MetricResult>)| {
        let cell = Cell { probe, neighbour: None, platform: label.to_owned(), layout: None };
        let done = metrics.iter().map(|metric| metric.samples.len()).max().unwrap_or(0);
        CellResult {
            done: u32::try_from(done).unwrap_or(u32::MAX),
            metrics,
            notes: case.troubles.iter().chain(&case.notes).cloned().collect(),
            ..CellResult::unmeasured(&cell)
        }
    };
    by_probe.into_iter().map(cell).collect()
}

fn against(figure: &SimulatedFigure, base: Option<&SimulatedFigure>, confidence: f64) -> Comparison {
    let pairs = base.map(|base| pairs(figure, base)).unwrap_or_default();
    compare(&pairs, figure.better, confidence)
}

/// `(this, baseline)` of each replication in which both yielded a value; they had the same seed.
fn pairs(figure: &SimulatedFigure, base: &SimulatedFigure) -> Vec<(f64, f64)> {
    let others: BTreeMap<u32, f64> = base.values.iter().copied().collect();
    figure.values.iter().filter_map(|(number, value)| Some((*value, *others.get(number)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Options, Study};
    use super::*;
    use model::scenario::cases;
    use units::metric::Difference;

    const FILE: &str = "name = \"x\"\nreplications = 6\n[host]\ncpus = 1\npolicy = { name = \"equal-per-vm\", quantum_us = 500 }\n\
                        [[vm]]\nname = \"A\"\nvcpus = 1\nthread = [{ run = { program = \"fwq\", work_us = 700, samples = 5, \
                        jitter_us = 900 } }]\n[[vm]]\nname = \"B\"\nvcpus = 1\nthread = [{ run = { program = \"endless\" } }]\n\
                        [[case]]\nlabel = \"a, b: c\"\n[[case]]\nlabel = \"a b c\"\nset = { \"vm.B.weight\" = 9.0 }\n\
                        [[case]]\nlabel = \"…\"\n";

    #[test]
    fn cases_are_platforms_with_labels_of_their_own_and_compared_with_the_first() {
        let study = Study::new(cases(FILE, &[]).unwrap(), Options::default()).unwrap();
        let replications: Vec<_> = (0..study.jobs().len()).map(|number| study.run(number)).collect();
        let run = results(&study.conclude(&replications), "0");
        let labels: Vec<&str> = run.platforms.iter().map(|platform| platform.label.as_str()).collect();
        assert_eq!(labels, ["a-b-c", "a-b-c#2", "case"]);
        let wall = |platform: &str| {
            let of = |cell: &&CellResult| cell.cell.platform == platform && cell.cell.probe == ProbeKind::Fwq;
            let metrics = &run.cells.iter().find(of).unwrap().metrics;
            metrics.iter().find(|metric| metric.id == "vm.A.wall_ns").unwrap()
        };
        assert!(wall("a-b-c").against_baseline.is_none() && wall("a-b-c").headline);
        let heavier = wall("a-b-c#2").against_baseline.as_ref().unwrap();
        assert_eq!((heavier.pairs, heavier.difference), (6, Difference::Worse));
        let same = wall("case").against_baseline.as_ref().unwrap();
        assert_eq!(same.difference, Difference::NotFound);
    }
}
