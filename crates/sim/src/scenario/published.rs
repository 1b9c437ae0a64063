//! Published figures beside the simulated ones: which cases they are about, what was simulated, and whether it holds.

use std::collections::BTreeMap;

use toml::Value;

use super::catalogue::{self, Yields};
use super::chance::is_random;
use super::study::Outcomes;
use model::scenario::{BoundSpec, Case, FigureSpec, Impossible};
use model::simulation::{Demand, PublishedOutcome};
use stats::summary::mean_with_half_width;
use units::metric::Unit;
use units::three_digits;

/// Confidence of intervals.
const CONFIDENCE: f64 = 0.95;
/// The key that stands for a case's own label in a file.
const LABEL: &str = "case";

/// A published figure and a case it is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pair {
    /// Number of the figure.
    pub figure: usize,
    /// Number of the case.
    pub case: usize,
    /// The case of the divisor.
    pub over_case: usize,
}

/// Every figure with each of its cases; one without any is an error unless that `may` be.
pub(super) fn pairs(cases: &[Case], may: bool) -> Result<Vec<Pair>, Impossible> {
    let figures = cases.first().map_or(&[][..], |case| &case.scenario.figures);
    let mut pairs = Vec::new();
    for (figure, spec) in figures.iter().enumerate() {
        let before = pairs.len();
        for (number, case) in cases.iter().enumerate().filter(|(_, case)| matches(case, &spec.case)) {
            let over_case = match nearest(cases, case, &spec.over_case) {
                _ if spec.over_case.is_empty() => number,
                Some(other) => other,
                None if may => continue,
                None => return Err(none(figure, "over_case", cases)),
            };
            pairs.push(Pair { figure, case: number, over_case });
        }
        if pairs.len() == before && !may {
            return Err(none(figure, "case", cases));
        }
        check_names(cases, pairs.get(before..).unwrap_or_default(), (figure, spec), may)?;
    }
    Ok(pairs)
}

/// Refuses a figure that is held against what none of its cases yields; a VM that is not there `may` be missed.
fn check_names(
    cases: &[Case],
    pairs: &[Pair],
    (number, spec): (usize, &FigureSpec),
    may: bool,
) -> Result<(), Impossible> {
    let of = |case: fn(&Pair) -> usize| {
        Yields::of(pairs.iter().filter_map(move |pair| Some(&cases.get(case(pair))?.scenario)))
    };
    let check = |key: &str, id: &str, yields: &Yields<'_>| match yields.have(id) {
        Ok(()) if !id.contains('*') => Ok(()),
        Err(_) if may && catalogue::is_one_somewhere(id) => Ok(()),
        wrong => {
            let why = wrong.err().map_or_else(|| "wanted a name without *".to_owned(), |why| why.to_string());
            let problem = format!("none of its cases yields the figure \"{id}\"; {why}");
            Err(Impossible::new(format!("figure.{number}.{key}"), problem))
        }
    };
    check("metric", &spec.metric, &of(|pair| pair.case))?;
    spec.over.as_ref().map_or(Ok(()), |over| check("over", over, &of(|pair| pair.over_case)))
}

fn none(figure: usize, key: &str, cases: &[Case]) -> Impossible {
    let known: Vec<String> = cases.iter().take(8).map(|case| format!("\"{}\"", case.label)).collect();
    let problem = format!("no case is like that; there are {}", known.join(", "));
    Impossible::new(format!("figure.{figure}.{key}"), problem)
}

/// Whether a case has all these values; the key `case` stands for its label in the file.
pub(super) fn matches(case: &Case, wanted: &BTreeMap<String, Value>) -> bool {
    wanted.iter().all(|(path, value)| match (path.as_str(), value.as_str()) {
        (LABEL, Some(label)) => {
            case.label.strip_prefix(label).is_some_and(|rest| rest.is_empty() || rest.starts_with(", "))
        }
        _ => case.value(path).is_some_and(|found| is_same(&found, value)),
    })
}

/// Numbers are the same whether or not they are written with a point.
fn is_same(a: &Value, b: &Value) -> bool {
    let number = |value: &Value| value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64));
    match (number(a), number(b)) {
        (Some(a), Some(b)) => (a - b).abs() <= 1e-9 * a.abs().max(b.abs()),
        _ => a == b,
    }
}

/// Of the cases with these values, the one that is most like `case` otherwise.
fn nearest(cases: &[Case], case: &Case, wanted: &BTreeMap<String, Value>) -> Option<usize> {
    let likeness = |other: &Case| {
        case.settings.iter().filter(|(path, value)| other.settings.get(*path) == Some(value)).count()
    };
    let candidates = cases.iter().enumerate().filter(|(_, other)| matches(other, wanted));
    // The first of those that are equally like it.
    candidates.rev().max_by_key(|(_, other)| likeness(other)).map(|(number, _)| number)
}

/// What was simulated, by replication.
fn values(pair: &Pair, spec: &FigureSpec, outcomes: &Outcomes<'_>, change: Option<usize>) -> Vec<f64> {
    let of = |case: usize, id: &str| -> BTreeMap<u32, f64> {
        // A case that has not what is changed yields what it yields anyway.
        let list = outcomes.get(&(case, change)).or_else(|| outcomes.get(&(case, None)));
        let value = |(number, replication): &(u32, &super::Replication)| {
            let figure = replication.figures.iter().find(|figure| figure.id == id)?;
            Some((*number, figure.value))
        };
        list.into_iter().flatten().filter_map(value).collect()
    };
    let own = of(pair.case, &spec.metric);
    if spec.over.is_none() && spec.over_case.is_empty() {
        return own.into_values().collect();
    }
    let others = of(pair.over_case, spec.over.as_ref().unwrap_or(&spec.metric));
    let ratio = |(number, value): (u32, f64)| others.get(&number).map(|other| value / other);
    own.into_iter().filter_map(ratio).filter(|ratio| ratio.is_finite()).collect()
}

/// Mean of what was simulated, with this change or none.
pub(super) fn mean(
    pair: &Pair,
    figures: &[FigureSpec],
    outcomes: &Outcomes<'_>,
    change: Option<usize>,
) -> Option<f64> {
    let spec = figures.get(pair.figure)?;
    mean_with_half_width(&values(pair, spec, outcomes, change), CONFIDENCE).map(|(mean, _)| mean)
}

/// Every published figure beside the simulated one.
pub(super) fn outcomes(cases: &[Case], pairs: &[Pair], outcomes: &Outcomes<'_>) -> Vec<PublishedOutcome> {
    let Some(first) = cases.first() else { return Vec::new() };
    let outcome = |pair: &Pair| {
        let spec = first.scenario.figures.get(pair.figure)?;
        let simulated = mean_with_half_width(&values(pair, spec, outcomes, None), CONFIDENCE);
        let is_certain = |case: usize| cases.get(case).is_some_and(|case| !is_random(&case.scenario));
        let is_certain = is_certain(pair.case) && is_certain(pair.over_case);
        let simulated = simulated.map(|(mean, half)| (mean, half.or_else(|| is_certain.then_some(0.0))));
        let unit = unit(pair, spec, outcomes);
        let predicted = predicted(spec, simulated);
        let holds = match spec.predicted_within {
            Some(_) => predicted.map_or(Some(false), |ends| lies_within(spec, ends)),
            None => holds(demand(spec), simulated),
        };
        let mut metrics = vec![spec.metric.clone()];
        metrics.extend(spec.over.iter().filter(|over| **over != spec.metric).cloned());
        Some(PublishedOutcome {
            title: spec.title.clone(),
            case: cases.get(pair.case).map(|case| case.label.clone()).unwrap_or_default(),
            metrics,
            source: spec.source.clone(),
            unit,
            published: spec.published,
            simulated: simulated.map(|(mean, _)| mean),
            half_width: simulated.and_then(|(_, half)| half),
            published_interval: spec.interval,
            predicted,
            label: spec.label,
            demand: demand(spec).or(predicted.map(|_| within(spec))),
            demanded: demanded(spec, unit),
            holds,
            undecided: (demand(spec).is_some() || spec.predicted_within.is_some()) && holds.is_none(),
        })
    };
    pairs.iter().filter_map(outcome).collect()
}

/// A ratio is a number, whatever it is of.
fn unit(pair: &Pair, spec: &FigureSpec, outcomes: &Outcomes<'_>) -> Unit {
    if spec.over.is_some() || !spec.over_case.is_empty() {
        return Unit::Count;
    }
    let list = outcomes.get(&(pair.case, None)).into_iter().flatten();
    let mut figures = list.flat_map(|(_, replication)| &replication.figures);
    figures.find(|figure| figure.id == spec.metric).map_or(Unit::Count, |figure| figure.unit)
}

/// Both ends of what is predicted: the factors times the mean, and the interval of that mean besides, as independent of them.
fn predicted(spec: &FigureSpec, simulated: Option<(f64, Option<f64>)>) -> Option<[f64; 2]> {
    let ([low, high], (mean, half)) = (spec.predicted_within?, simulated?);
    let (half, middle) = (half.unwrap_or(0.0), mean * f64::midpoint(low, high));
    let reach = (mean * (high - low) / 2.0).hypot(half);
    Some([middle - reach, middle + reach])
}

/// Whether the published value lies where it is predicted; none where it lies beside that and its own interval reaches in.
fn lies_within(spec: &FigureSpec, [low, high]: [f64; 2]) -> Option<bool> {
    let reaches = |[from, to]: [f64; 2]| from <= high && to >= low;
    if (low..=high).contains(&spec.published) {
        Some(true)
    } else if spec.interval.is_some_and(reaches) {
        None
    } else {
        Some(false)
    }
}

/// Between which values the simulated mean itself must lie for the published value to lie where it is predicted.
fn within(spec: &FigureSpec) -> Demand {
    let over = |factor: f64| Some(spec.published / factor).filter(|end| end.is_finite());
    let [low, high] = spec.predicted_within.unwrap_or([1.0, 1.0]);
    Demand { least: over(high), most: over(low) }
}

/// What is demanded, in words; empty where nothing is.
fn demanded(spec: &FigureSpec, unit: Unit) -> String {
    let off = spec.tolerance.map(|tolerance| match unit {
        Unit::Share => format!("{} points", three_digits(tolerance * 100.0)),
        _ => unit.format(tolerance),
    });
    let wanted = unit.format(spec.demand.unwrap_or(spec.published));
    if spec.predicted_within.is_some() {
        return "measured lies in it".to_owned();
    }
    match (spec.bound, off) {
        (None, None) => String::new(),
        (None, Some(off)) if spec.demand.is_none() => format!("± {off}"),
        (None, Some(off)) => format!("{wanted} ± {off}"),
        (Some(BoundSpec::AtLeast), None) => format!("at least {wanted}"),
        (Some(BoundSpec::AtLeast), Some(off)) => format!("at least {wanted} less {off}"),
        (Some(BoundSpec::AtMost), None) => format!("at most {wanted}"),
        (Some(BoundSpec::AtMost), Some(off)) => format!("at most {wanted} and {off}"),
    }
}

/// Between which values the simulated one must lie; none where nothing is demanded.
fn demand(spec: &FigureSpec) -> Option<Demand> {
    if spec.tolerance.is_none() && spec.bound.is_none() {
        return None;
    }
    let wanted = spec.demand.unwrap_or(spec.published);
    let off = spec.tolerance.unwrap_or(0.0);
    Some(Demand {
        least: (spec.bound != Some(BoundSpec::AtMost)).then_some(wanted - off),
        most: (spec.bound != Some(BoundSpec::AtLeast)).then_some(wanted + off),
    })
}

/// Whether what is demanded holds for the whole interval, or for none of it; what was not simulated does not. None where
/// nothing is demanded, where the interval lies on both sides of an end, and of one replication in which something is random, which
/// has no interval.
fn holds(demand: Option<Demand>, simulated: Option<(f64, Option<f64>)>) -> Option<bool> {
    match (demand?, simulated) {
        (_, None) => Some(false),
        (_, Some((_, None))) => None,
        (demand, Some((mean, Some(half)))) => demand.is_met_by_interval(mean, half),
    }
}
