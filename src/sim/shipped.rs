//! The scenarios of nodes and of memory that are shipped: they can be read, and what they demand holds.

use std::collections::BTreeMap;

use toml::Value;

use super::scenario::Replication;
use super::{nodes, paging};
use crate::model::scenario::{BoundSpec, Case, FigureSpec, cases};

const NODES: &str = include_str!("../../scenarios/noise-at-scale.toml");
const MEMORY: &str = include_str!("../../scenarios/cold-warm-numa.toml");
/// More nodes than that would take an unoptimised test too long; closed forms hold below as above.
const MOST_NODES: u32 = 10_000;

/// Whether a figure is about a case: `case` stands for its label, all else is a path.
fn is_about(case: &Case, wanted: &BTreeMap<String, Value>) -> bool {
    let scenario = Value::try_from(&case.scenario).unwrap();
    wanted.iter().all(|(path, value)| {
        if path == "case" {
            let label = value.as_str().unwrap();
            return case
                .label
                .strip_prefix(label)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(", "));
        }
        path.split('.').try_fold(&scenario, |place, part| place.get(part)) == Some(value)
    })
}

fn mean(replications: &[Replication], id: &str, case: &Case) -> f64 {
    let value = |replication: &Replication| {
        let figure = replication.figures.iter().find(|figure| figure.id == id);
        figure.unwrap_or_else(|| panic!("{}: no {id}", case.label)).value
    };
    replications.iter().map(value).sum::<f64>() / replications.len() as f64
}

/// Holds every demand of a file against its cases; says how many there were.
fn hold(text: &str) -> usize {
    let cases = cases(text, &[]).unwrap();
    let runs: Vec<(&Case, Vec<Replication>)> = cases
        .iter()
        .filter(|case| case.scenario.nodes.as_ref().is_none_or(|nodes| nodes.count <= MOST_NODES))
        .map(|case| {
            let one = |seed| match (&case.scenario.nodes, &case.scenario.memory) {
                (Some(nodes), _) => nodes::run(nodes, None, seed),
                (_, Some(memory)) => paging::run(memory, seed),
                _ => panic!("{}: neither nodes nor memory", case.label),
            };
            (case, (0..u64::from(case.scenario.replications)).map(one).collect())
        })
        .collect();
    let mut held = 0;
    for figure in &cases[0].scenario.figures {
        assert!(cases.iter().any(|case| is_about(case, &figure.case)), "about no case: {}", figure.title);
        for (case, own) in runs.iter().filter(|(case, _)| is_about(case, &figure.case)) {
            let got = simulated(figure, (case, own), &runs);
            let off = figure.tolerance.unwrap_or(0.0) + 1e-12;
            let holds = match figure.bound {
                None => (got - figure.published).abs() <= off,
                Some(BoundSpec::AtLeast) => got >= figure.published - off,
                Some(BoundSpec::AtMost) => got <= figure.published + off,
            };
            println!("{}: {}: {got} of {}", case.label, figure.title, figure.published);
            assert!(holds, "{}: {}: {got}, published {}", case.label, figure.title, figure.published);
            held += 1;
        }
    }
    held
}

fn simulated(
    figure: &FigureSpec,
    (case, own): (&Case, &[Replication]),
    runs: &[(&Case, Vec<Replication>)],
) -> f64 {
    let value = mean(own, &figure.metric, case);
    let over = figure.over.as_ref().unwrap_or(&figure.metric);
    if !figure.over_case.is_empty() {
        let (case, other) = runs.iter().find(|(case, _)| is_about(case, &figure.over_case)).unwrap();
        return value / mean(other, over, case);
    }
    if figure.over.is_some() { value / mean(own, over, case) } else { value }
}

#[test]
fn noise_at_scale_keeps_what_it_demands() {
    assert!(hold(NODES) > 15);
}

#[test]
fn cold_and_warm_keep_what_they_demand() {
    assert_eq!(hold(MEMORY), 12);
}
