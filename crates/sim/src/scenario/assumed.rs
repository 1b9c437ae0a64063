//! Parameters whose values nobody measured: all that a scenario assumes, leaves at a default, or sets without a word on
//! it, and what is changed to see how much the published figures depend on each.
//!
//! ```text
//!  [[assumption]] ─► its try_factors, its try_values, or a small change ─┐
//!  defaults       ─► a small change, unless they belong to the question ─┴─► Change: a scenario for each case that figures need
//!  set            ─► only listed: the file is what is asked
//! ```

use std::collections::{BTreeMap, BTreeSet};

use super::published::{self, Pair};
use super::study::{Changes, Outcomes, runs};
use model::scenario::{
    AssumptionSpec, Case, Impossible, Parameter, Scenario, is_question, small_change, written,
};
use model::simulation::{AssumptionOutcome, Origin, Tried};
use units::Reason;

/// Different values of a parameter that are told.
const MOST_VALUES: usize = 4;
/// Parameters that are listed.
const MOST_LISTED: usize = 400;
/// Small changes may take this many times the simulations that the cases themselves take.
const MOST_TIMES: usize = 4;

/// A parameter that is told of.
#[derive(Debug, Clone, PartialEq)]
struct Told {
    key: String,
    value: String,
    origin: Origin,
    why: String,
    interval: Option<[f64; 2]>,
    untried: Option<String>,
    /// Where it stands, with numbers for members of lists; several where VMs have the same.
    paths: Vec<String>,
}

/// What a change is.
#[derive(Debug, Clone, PartialEq)]
enum Kind {
    /// A stated factor.
    Times(f64),
    /// Another change, in words.
    Words(String),
}

/// A parameter changed.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Change {
    told: usize,
    kind: Kind,
    /// The changed scenario of each case that figures are drawn from and that has the parameter.
    pub scenarios: BTreeMap<usize, Scenario>,
}

/// All parameters and all changes of them.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tries {
    told: Vec<Told>,
    pub changes: Vec<Change>,
}

impl Tries {
    /// Lists parameters and their changes in the `wanted` cases, as far as they are asked for.
    ///
    /// # Errors
    /// An assumption is about what is not there, though it must be (`may_miss`: the command line took it away), or what it tries is not
    /// allowed there.
    pub fn new(
        cases: &[Case],
        wanted: &[usize],
        changes: Changes,
        may_miss: bool,
    ) -> Result<Self, Impossible> {
        let assumptions = cases.first().map_or(&[][..], |case| &case.scenario.assumptions);
        let mut tries = Self { told: Vec::new(), changes: Vec::new() };
        for (number, spec) in assumptions.iter().enumerate() {
            let told = assumed(cases, number, spec, may_miss)?;
            let is_there = told.untried.is_none();
            tries.told.push(told);
            if is_there && changes != Changes::None {
                tries.changes.extend(stated(cases, wanted, number, spec)?);
            }
        }
        let covered: Vec<String> = tries.told.iter().flat_map(|told| told.paths.clone()).collect();
        tries.told.extend(unspoken(cases, &covered));
        match changes {
            Changes::All => tries.add_small_changes(cases, wanted),
            Changes::Stated => {}
            Changes::None => tries.leave_out(),
        }
        Ok(tries)
    }

    fn leave_out(&mut self) {
        for told in self.told.iter_mut().filter(|told| told.origin != Origin::Set) {
            told.untried = Some("--no-sensitivity".to_owned());
        }
    }

    fn add_small_changes(&mut self, cases: &[Case], wanted: &[usize]) {
        let mut left = MOST_TIMES * cases.iter().map(|case| runs(&case.scenario) as usize).sum::<usize>();
        for (number, told) in self.told.iter_mut().enumerate() {
            let is_stated = self.changes.iter().any(|change| change.told == number);
            if is_stated || told.untried.is_some() || told.origin == Origin::Set || wanted.is_empty() {
                continue;
            }
            if told.origin == Origin::Default && told.paths.iter().all(|path| is_question(path)) {
                told.untried = Some("part of the question".to_owned());
                continue;
            }
            let change = match small(cases, wanted, number, &told.paths) {
                Ok(change) => change,
                Err(why) => {
                    told.untried = Some(why.into());
                    continue;
                }
            };
            let cost: usize = change.scenarios.values().map(|scenario| runs(scenario) as usize).sum();
            if cost > left {
                told.untried = Some("left out, so that the simulation does not take far longer".to_owned());
                continue;
            }
            left -= cost;
            self.changes.push(change);
        }
    }

    /// What became of the published figures by the changes that were made, which are all unless somebody interrupted.
    pub fn outcomes(
        &self,
        cases: &[Case],
        pairs: &[Pair],
        outcomes: &Outcomes<'_>,
        is_made: &dyn Fn(usize) -> bool,
    ) -> Vec<AssumptionOutcome> {
        let figures = cases.first().map_or(&[][..], |case| &case.scenario.figures);
        let simulated = |change: usize| -> Vec<Option<f64>> {
            pairs.iter().map(|pair| published::mean(pair, figures, outcomes, Some(change))).collect()
        };
        let outcome = |(number, told): (usize, &Told)| {
            let (mut sensitivity, mut tried, mut untried) = (Vec::new(), Vec::new(), told.untried.clone());
            for (at, change) in self.changes.iter().enumerate().filter(|(_, change)| change.told == number) {
                if !is_made(at) {
                    untried = Some("interrupted before".to_owned());
                    continue;
                }
                match &change.kind {
                    Kind::Times(factor) => sensitivity.push((*factor, simulated(at))),
                    Kind::Words(words) => {
                        tried.push(Tried { change: words.clone(), simulated: simulated(at) });
                    }
                }
            }
            AssumptionOutcome {
                key: told.key.clone(),
                value: told.value.clone(),
                origin: told.origin,
                why: told.why.clone(),
                interval: told.interval,
                sensitivity,
                tried,
                untried,
            }
        };
        self.told.iter().enumerate().map(outcome).collect()
    }
}

/// What a file says of an assumption.
fn assumed(cases: &[Case], number: usize, spec: &AssumptionSpec, may_miss: bool) -> Result<Told, Impossible> {
    let about = || cases.iter().filter(|case| published::matches(case, &spec.case));
    let values: Vec<String> =
        about().filter_map(|case| Some(written(&case.value(&spec.key)?).into_owned())).collect();
    if values.is_empty() && !may_miss {
        let problem = format!("no case has a value at \"{}\"", spec.key);
        return Err(Impossible::new(format!("assumption.{number}.key"), problem));
    }
    let is_estimated =
        spec.interval.is_some() || cases.first().is_some_and(|case| case.scenario.calibrated.is_some());
    Ok(Told {
        key: spec.key.clone(),
        untried: values.is_empty().then(|| "no case has it with what was set".to_owned()),
        value: if values.is_empty() { "none".to_owned() } else { listed(values) },
        origin: if is_estimated { Origin::Estimated } else { Origin::Assumed },
        why: spec.why.clone(),
        interval: spec.interval,
        paths: vec![about().next().map_or_else(|| spec.key.clone(), |case| case.numbered(&spec.key))],
    })
}

/// The changes that a file asks for.
fn stated(
    cases: &[Case],
    wanted: &[usize],
    told: usize,
    spec: &AssumptionSpec,
) -> Result<Vec<Change>, Impossible> {
    let wrong = |key: &str, what: String, wrong: &Impossible| {
        Impossible::new(format!("assumption.{told}.{key}"), format!("{what}: {wrong}"))
    };
    let all = |change: &dyn Fn(&Case) -> Result<Scenario, Impossible>| {
        let with = wanted.iter().filter_map(|number| Some((*number, cases.get(*number)?)));
        let with =
            with.filter(|(_, case)| case.value(&spec.key).is_some() && published::matches(case, &spec.case));
        let of = |case: &Case, Impossible { path, problem }| {
            let problem =
                if cases.len() > 1 { format!("{problem} (case \"{}\")", case.label) } else { problem };
            Impossible::new(path, problem)
        };
        with.map(|(number, case)| Ok((number, change(case).map_err(|wrong| of(case, wrong))?)))
            .collect::<Result<BTreeMap<_, _>, Impossible>>()
    };
    let mut changes = Vec::new();
    for factor in &spec.try_factors {
        let scenarios = all(&|case| case.multiplied(&spec.key, *factor))
            .map_err(|error| wrong("try_factors", format!("times {factor}"), &error))?;
        changes.push(Change { told, kind: Kind::Times(*factor), scenarios });
    }
    for value in &spec.try_values {
        let words = format!("set to {}", written(value));
        let scenarios = all(&|case| case.with(&[(spec.key.clone(), value.clone())]))
            .map_err(|error| wrong("try_values", words.clone(), &error))?;
        changes.push(Change { told, kind: Kind::Words(words), scenarios });
    }
    Ok(changes)
}

/// What the cases have at a path.
#[derive(Default)]
struct Found {
    values: Vec<String>,
    is_written: bool,
}

/// Every parameter that no assumption covers: first defaults, then what the file sets. VMs and threads that have the same
/// are told as one.
fn unspoken(cases: &[Case], covered: &[String]) -> Vec<Told> {
    let is_covered = |path: &str| {
        covered
            .iter()
            .any(|key| path.strip_prefix(key).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
    };
    let mut found: BTreeMap<String, Found> = BTreeMap::new();
    for case in cases {
        let all = case.parameters().into_iter().filter(|parameter| !is_covered(&parameter.path));
        for Parameter { path, value, is_written } in all {
            let found = found.entry(path).or_default();
            found.is_written |= is_written;
            let text = written(&value).into_owned();
            // One more than is told, so that it is seen that there are more.
            if found.values.len() <= MOST_VALUES && !found.values.contains(&text) {
                found.values.push(text);
            }
        }
    }
    let mut alike: BTreeMap<String, Vec<(String, Found)>> = BTreeMap::new();
    for (path, found) in found {
        alike.entry(pattern(&path)).or_default().push((path, found));
    }
    let mut told: Vec<Told> =
        alike.into_iter().flat_map(|(pattern, found)| told_together(cases, &pattern, found)).collect();
    told.sort_by_key(|told| told.origin == Origin::Set);
    if told.len() > MOST_LISTED {
        let rest = told.split_off(MOST_LISTED);
        told.push(Told {
            key: "…".to_owned(),
            value: format!("{} more parameters", rest.len()),
            origin: Origin::Set,
            why: String::new(),
            interval: None,
            untried: None,
            paths: Vec::new(),
        });
    }
    told
}

/// `vm.*.thread.*.priority` of `vm.0.thread.1.priority`.
fn pattern(path: &str) -> String {
    let part = |part: &str| if part.parse::<u32>().is_ok() { "*".to_owned() } else { part.to_owned() };
    path.split('.').map(part).collect::<Vec<_>>().join(".")
}

/// One line where all have the same, a line each otherwise.
fn told_together(cases: &[Case], pattern: &str, found: Vec<(String, Found)>) -> Vec<Told> {
    let is_same = found.windows(2).all(|pair| match pair {
        [(_, one), (_, other)] => (&one.values, one.is_written) == (&other.values, other.is_written),
        _ => true,
    });
    let told = |key: String, paths: Vec<String>, found: Found| Told {
        key,
        value: listed(found.values),
        origin: if found.is_written { Origin::Set } else { Origin::Default },
        why: String::new(),
        interval: None,
        untried: None,
        paths,
    };
    if is_same && found.len() > 1 {
        let (paths, mut found): (Vec<String>, Vec<Found>) = found.into_iter().unzip();
        return found.pop().map(|same| told(pattern.to_owned(), paths, same)).into_iter().collect();
    }
    let named = |path: &str| cases.first().map_or_else(|| path.to_owned(), |case| case.named(path));
    found.into_iter().map(|(path, found)| told(named(&path), vec![path], found)).collect()
}

/// A small change at all these paths, in every wanted case where it is allowed; why there is none otherwise.
fn small(cases: &[Case], wanted: &[usize], told: usize, paths: &[String]) -> Result<Change, Reason> {
    let mut words: BTreeSet<String> = BTreeSet::new();
    let mut scenarios = BTreeMap::new();
    let mut refused = None;
    for (number, case) in wanted.iter().filter_map(|number| Some((*number, cases.get(*number)?))) {
        let there = case.parameters();
        let here = there.iter().filter(|parameter| paths.contains(&parameter.path));
        let changes: Vec<_> =
            here.filter_map(|at| Some((at.path.clone(), small_change(&at.path, &at.value)?))).collect();
        if changes.is_empty() {
            continue;
        }
        let values: Vec<_> = changes.iter().map(|(path, (value, _))| (path.clone(), value.clone())).collect();
        match case.with(&values) {
            Ok(scenario) => {
                scenarios.insert(number, scenario);
                words.extend(changes.into_iter().map(|(_, (_, words))| words));
            }
            Err(why) => refused = Some(why.to_string()),
        }
    }
    if scenarios.is_empty() {
        return Err(refused
            .unwrap_or_else(|| "no published figure is of a case that has it as a number".to_owned())
            .into());
    }
    let words: Vec<String> = words.into_iter().collect();
    Ok(Change { told, kind: Kind::Words(words.join(" or ")), scenarios })
}

/// Different values, a few of them.
fn listed(values: Vec<String>) -> String {
    let mut different: Vec<String> = Vec::new();
    for value in values {
        if !different.contains(&value) {
            different.push(value);
        }
    }
    if different.len() > MOST_VALUES {
        different.truncate(MOST_VALUES);
        different.push("…".to_owned());
    }
    different.join(", ")
}
