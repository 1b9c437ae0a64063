//! From a scenario file to its cases: a table into which `[[case]]` and `[sweep]` put values.
//!
//! ```text
//!  text ─► table ─► × [[case]] (named sets of values) ─► × [sweep] (every combination) ─► Scenario, checked ─► Case
//!                                                              at fault: path ─► line in the file
//! ```

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use super::blame::Blame;
use super::free::written;
use super::mistake::{has_no_empty_part, mistake, syntax};
use super::place::line_of;
use super::{Impossible, Scenario, label};
use units::Reason;

/// Most cases of a file.
pub const MOST_CASES: usize = 10_000;
/// Largest file that is read.
pub const MAX_BYTES: usize = 4 << 20;

/// One case of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// What distinguishes it, in words; the scenario's name if nothing does.
    pub label: String,
    /// What was put in, by path.
    pub settings: BTreeMap<String, Value>,
    /// The scenario.
    pub scenario: Scenario,
    /// Paths of its parameters that somebody wrote down; all others are defaults.
    pub written: BTreeSet<String>,
}

/// Why a file holds no scenario.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{problem}", .line.map(|line| format!("line {line}: ")).unwrap_or_default())]
pub struct ScenarioError {
    /// The line, counted from 1, where one can be named.
    pub line: Option<usize>,
    /// What is wrong, and what was wanted.
    pub problem: String,
}

/// A named set of values.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct NamedCase {
    label: String,
    #[serde(default)]
    set: BTreeMap<String, Value>,
}

/// A range instead of a list: `{ from = 2, to = 200, factor = 10 }`, `{ from = 0.5, to = 2, step = 0.25 }`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Range {
    from: Number,
    to: Number,
    step: Option<Number>,
    factor: Option<Number>,
}

/// A whole number or another one.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(untagged)]
enum Number {
    Whole(i64),
    Real(f64),
}

impl Number {
    const fn whole(self) -> Option<i64> {
        match self {
            Self::Whole(whole) => Some(whole),
            Self::Real(_) => None,
        }
    }

    const fn real(self) -> f64 {
        match self {
            Self::Whole(whole) => whole as f64,
            Self::Real(real) => real,
        }
    }
}

/// Reads a file; `overrides` are put in last, by path, as a command line gives them. They are the same in all cases: labels
/// do not name them, so that cases keep their labels, and what is overridden is not swept.
///
/// # Errors
/// The first thing that is wrong, with its line.
pub fn cases(text: &str, overrides: &[(String, Value)]) -> Result<Vec<Case>, ScenarioError> {
    if text.len() > MAX_BYTES {
        let problem = format!("{} bytes are too many for a scenario; allowed are {MAX_BYTES}", text.len());
        return Err(ScenarioError { line: None, problem });
    }
    let mut table: Table = text.parse().map_err(|error| syntax(text, &error))?;
    let at = |path: &str, problem: String| ScenarioError { line: line_of(text, path), problem };
    let named: Vec<NamedCase> = match table.remove("case") {
        None => vec![NamedCase::default()],
        Some(value) => {
            value.try_into().map_err(|error: toml::de::Error| at("case", error.message().to_owned()))?
        }
    };
    let sweep: Vec<(String, Vec<Value>)> = match table.remove("sweep") {
        None => Vec::new(),
        Some(Value::Table(sweep)) => sweep
            .into_iter()
            .filter(|(path, _)| overrides.iter().all(|(overridden, _)| overridden != path))
            .map(|(path, values)| {
                listed(&values)
                    .map(|values| (path.clone(), values))
                    .map_err(|problem| at("sweep", format!("sweep.\"{path}\": {problem}")))
            })
            .collect::<Result<_, _>>()?,
        Some(_) => return Err(at("sweep", "sweep: wanted a table of paths with lists of values".to_owned())),
    };
    let count = sweep.iter().try_fold(named.len(), |count, (_, values)| count.checked_mul(values.len()));
    match count {
        Some(1..=MOST_CASES) => {}
        _ => return Err(at("sweep", format!("the sweep has no cases, or more than {MOST_CASES}"))),
    }
    check_apart(&named, &sweep).map_err(|(path, problem)| at(&path, problem))?;
    let (mut cases, mut given) = (Vec::new(), Vec::new());
    for (number, named) in named.iter().enumerate() {
        for values in combinations(&sweep) {
            let mut settings = named.set.clone();
            settings.extend(values);
            settings.extend(overrides.iter().cloned());
            cases.push(case(text, &table, (number, named), settings, overrides, &sweep)?);
            given.push(named.label.as_str());
        }
    }
    let of_cases: Vec<_> = given.into_iter().zip(cases.iter().map(|case: &Case| &case.settings)).collect();
    let fallback = cases.first().map_or("", |case| case.scenario.name.as_str());
    let labels = label::labels(&of_cases, &sweep, fallback);
    for (case, label) in cases.iter_mut().zip(labels) {
        case.label = label;
    }
    Ok(cases)
}

/// No two cases of a file are the same: the path at fault, and what is wrong.
fn check_apart(named: &[NamedCase], sweep: &[(String, Vec<Value>)]) -> Result<(), (String, String)> {
    let mut known = BTreeSet::new();
    if let Some((number, twice)) = named.iter().enumerate().find(|(_, case)| !known.insert(&case.label)) {
        let problem = format!("two cases are called \"{}\"; wanted a label of its own for each", twice.label);
        return Err((format!("case.{number}.label"), format!("case.{number}.label: {problem}")));
    }
    for (path, values) in sweep {
        let mut known = BTreeSet::new();
        if let Some(twice) = values.iter().find(|value| !known.insert(value.to_string())) {
            return Err(("sweep".to_owned(), format!("sweep.\"{path}\": {twice} stands there twice")));
        }
    }
    Ok(())
}

fn case(
    text: &str,
    table: &Table,
    (number, named): (usize, &NamedCase),
    settings: BTreeMap<String, Value>,
    overrides: &[(String, Value)],
    sweep: &label::Sweep,
) -> Result<Case, ScenarioError> {
    let mut root = Value::Table(table.clone());
    for (path, value) in &settings {
        if let Err(problem) = put(&mut root, path, value.clone()) {
            let case = (number, named.label.as_str());
            return Err(Blame { text, root: &root, table, case, sweep, settings: &settings, overrides }
                .at(path, &problem.to_string()));
        }
    }
    let is_short = name_alone(&mut root);
    let case = (number, named.label.as_str());
    let blame = Blame { text, root: &root, table, case, sweep, settings: &settings, overrides };
    // Written out and read again, so that a mistake is told with its place; that of a plain file is its own.
    let is_plain =
        !is_short && settings.is_empty() && !table.is_empty() && sweep.is_empty() && named.label.is_empty();
    let whole = if is_plain {
        text.to_owned()
    } else {
        toml::to_string(&root).map_err(|error| ScenarioError { line: None, problem: error.to_string() })?
    };
    let scenario: Scenario = toml::from_str(&whole).map_err(|error| {
        let (at, problem) = mistake(&whole, &error);
        at.filter(|_| !is_plain)
            .map_or_else(|| syntax(&whole, &error), |at| blame.at_byte(&whole, at, &problem))
    })?;
    scenario.check().map_err(|Impossible { path, problem }| blame.at(&path, &problem))?;
    Ok(Case { label: String::new(), settings, scenario, written: written(&root) })
}

/// Writes `policy = "credit"` out, whose other keys have defaults; says whether it did.
pub(super) fn name_alone(root: &mut Value) -> bool {
    let policy = root.get_mut("host").and_then(|host| host.get_mut("policy"));
    let Some(policy @ Value::String(_)) = policy else { return false };
    let name = std::mem::replace(policy, Value::Table(Table::new()));
    if let Value::Table(table) = policy {
        table.insert("name".to_owned(), name);
    }
    true
}

fn listed(values: &Value) -> Result<Vec<Value>, Reason> {
    match values {
        Value::Array(list) if !list.is_empty() => Ok(list.clone()),
        Value::Table(_) => {
            let range: Range =
                values.clone().try_into().map_err(|error: toml::de::Error| error.message().to_owned())?;
            range_of(&range)
        }
        _ => Err("wanted a list of values, or a range { from, to, step or factor }".into()),
    }
}

/// Whole numbers where all that is given is whole.
fn range_of(range: &Range) -> Result<Vec<Value>, Reason> {
    let Range { from, to, step, factor } = *range;
    let (by_step, by_factor) = (step.is_some(), factor.is_some());
    let by = step.or(factor).map_or(0.0, Number::real);
    let goes_on = (by_step && by > 0.0) || (by_factor && by > 1.0 && from.real() > 0.0);
    if by_step == by_factor || !goes_on || !by.is_finite() {
        return Err("a range wants either a step above 0 or a factor above 1 (and to begin above 0)".into());
    }
    let whole = (from.whole(), to.whole(), step.or(factor).and_then(Number::whole));
    let values: Vec<Value> = if let (Some(first), Some(last), Some(by)) = whole {
        let next = |value: &i64| if by_step { value.checked_add(by) } else { value.checked_mul(by) };
        let all = std::iter::successors(Some(first), next).take_while(|value| *value <= last);
        all.take(MOST_CASES + 1).map(Value::Integer).collect()
    } else {
        // Each from the first one, so that rounding does not add up; the last counts where it is met but for rounding.
        let (first, last) = (from.real(), to.real() + 1e-9 * to.real().abs());
        let at = |number: u32| {
            if by_step { by.mul_add(f64::from(number), first) } else { first * by.powf(f64::from(number)) }
        };
        let all = (0u32..).map(at).take_while(|value| *value <= last);
        all.take(MOST_CASES + 1).map(Value::Float).collect()
    };
    if values.is_empty() {
        Err(format!("from {} to {} there is nothing", from.real(), to.real()).into())
    } else {
        Ok(values)
    }
}

/// Every combination, the last path varying fastest.
fn combinations(sweep: &[(String, Vec<Value>)]) -> Vec<Vec<(String, Value)>> {
    let mut all = vec![Vec::new()];
    for (path, values) in sweep {
        let longer = |combination: Vec<(String, Value)>| {
            values.iter().map(move |value| {
                let mut longer = combination.clone();
                longer.push((path.clone(), value.clone()));
                longer
            })
        };
        all = all.into_iter().flat_map(longer).collect();
    }
    all
}

/// Puts `value` at `path`; what the path leads through must be there, its last key need not. A policy may be a name alone.
pub(super) fn put(root: &mut Value, path: &str, value: Value) -> Result<(), Reason> {
    has_no_empty_part(path)?;
    let (parents, last) = path.rsplit_once('.').unwrap_or(("", path));
    let mut place = root;
    for part in parents.split('.').filter(|part| !part.is_empty()) {
        place = step(place, part).ok_or_else(|| format!("there is no \"{part}\" on the way"))?;
    }
    if let (Value::String(name), "host.policy") = (&*place, parents) {
        *place = Value::Table(Table::from_iter([("name".to_owned(), Value::String(name.clone()))]));
    }
    match place {
        Value::Table(table) => {
            table.insert(last.to_owned(), value);
            Ok(())
        }
        _ => match step(place, last) {
            Some(there) => {
                *there = value;
                Ok(())
            }
            None => Err(format!("there is no \"{last}\"").into()),
        },
    }
}

/// A key of a table, a number in a list, or the name of a list's entry.
fn step<'a>(place: &'a mut Value, part: &str) -> Option<&'a mut Value> {
    match place {
        Value::Table(table) => table.get_mut(part),
        Value::Array(list) => {
            let by_name = |entry: &Value| entry.get("name").and_then(Value::as_str) == Some(part);
            let at = part.parse::<usize>().ok().or_else(|| list.iter().position(by_name))?;
            list.get_mut(at)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = r#"
name = "two"

[host]
cpus = 8
policy = { name = "equal-per-vm", quantum_us = 1000 }

[[vm]]
name = "A"
vcpus = 4
thread = [{ run = { program = "endless" } }]

[[vm]]
name = "B"
vcpus = 8
thread = [{ run = { program = "endless" } }]
"#;

    fn error(text: &str) -> (Option<usize>, String) {
        let error = cases(text, &[]).unwrap_err();
        (error.line, error.problem)
    }

    #[test]
    fn a_policy_may_be_its_name_alone() {
        let policy = |case: &Case| case.scenario.host.as_ref().unwrap().policy.clone();
        let long = r#"{ name = "equal-per-vm", quantum_us = 1000 }"#;
        for name in ["equal-per-vm", "proportional", "per-thread", "credit", "credit2", "eevdf", "gang"] {
            let found = cases(&TWO.replace(long, &format!("\"{name}\"")), &[]).unwrap();
            assert_eq!(policy(&found[0]).name(), name);
            let put = [("host.policy".to_owned(), Value::String(name.to_owned()))];
            assert_eq!(policy(&cases(TWO, &put).unwrap()[0]), policy(&found[0]), "{name}");
        }
        let (line, problem) = error(&TWO.replace(long, "\"lottery\""));
        assert!(
            line == Some(6) && problem.contains("lottery") && problem.contains("credit2"),
            "{line:?} {problem}"
        );
        // What a policy needs is still asked for.
        let (_, problem) = error(&TWO.replace(long, "\"slots\""));
        assert!(problem.contains("slot_us"), "{problem}");
    }

    #[test]
    fn a_plain_file_is_one_case_and_a_sweep_is_every_combination() {
        let plain = cases(TWO, &[]).unwrap();
        assert_eq!((plain.len(), plain[0].label.as_str()), (1, "two"));
        let swept = format!(
            "{TWO}\n[[case]]\nlabel = \"small\"\nset = {{ \"host.cpus\" = 2 }}\n[[case]]\nlabel = \"big\"\n[sweep]\n\"vm.B.vcpus\" = \
             {{ from = 1, to = 4, factor = 2 }}\n\"host.policy\" = [{{ name = \"credit\", slice_us = 30000, boost = true, ratelimit_us = \
             1000 }}]\n"
        );
        let all = cases(&swept, &[("vm.0.weight".to_owned(), Value::Float(3.0))]).unwrap();
        assert_eq!(all.len(), 6);
        assert_eq!(all[1].label, "small, credit, vcpus 2");
        let fixed = cases(&swept, &[("vm.B.vcpus".to_owned(), Value::Integer(4))]).unwrap();
        let labels: Vec<&str> = fixed.iter().map(|case| case.label.as_str()).collect();
        assert_eq!(labels, ["small, credit", "big, credit"]);
        let last = &all[5].scenario;
        assert_eq!((last.host.as_ref().unwrap().cpus, last.vms[1].vcpus), (8, 4));
        assert!((last.vms[0].weight - 3.0).abs() < 1e-12);
    }

    #[test]
    fn ranges_are_of_whole_and_of_other_numbers() {
        let of = |range: &str| {
            let text = format!("{TWO}\n[sweep]\n\"vm.B.weight\" = {range}\n");
            cases(&text, &[])
                .map(|cases| cases.iter().map(|case| case.scenario.vms[1].weight).collect::<Vec<f64>>())
        };
        let near = |got: Vec<f64>, wanted: &[f64]| {
            got.len() == wanted.len()
                && got.iter().zip(wanted).all(|(got, wanted)| (got - wanted).abs() < 1e-9)
        };
        assert!(near(of("{ from = 0.5, to = 4, factor = 2 }").unwrap(), &[0.5, 1.0, 2.0, 4.0]));
        assert!(near(of("{ from = 0.1, to = 0.5, step = 0.2 }").unwrap(), &[0.1, 0.3, 0.5]));
        assert!(near(of("{ from = 1.0, to = 3.5, step = 1 }").unwrap(), &[1.0, 2.0, 3.0]));
        for bad in [
            "{ from = 1.0, to = 2.0 }",
            "{ from = 1.0, to = 2.0, step = 0.0 }",
            "{ from = 1.0, to = 2.0, step = 1, factor = 2 }",
            "{ from = 1.0, to = 2.0, factor = inf }",
            "{ from = 1.0, to = 2.0, step = nan }",
            "{ from = nan, to = 2.0, step = 1.0 }",
            "{ from = 3.0, to = 2.0, step = 1.0 }",
        ] {
            assert!(of(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let (line, problem) = error(&TWO.replace("quantum_us = 1000", "quantum_us = 0"));
        assert_eq!(line, Some(6));
        assert!(problem.starts_with("host.policy.quantum_us: 0 is out of bounds"), "{problem}");
        let (line, problem) = error(&TWO.replace("name = \"B\"", "name = \"B\"\ncpus = [3, 9]"));
        assert_eq!((line, problem.as_str()), (Some(15), "vm.1.cpus: there is no CPU 9: the host has 0 to 7"));
        let (line, problem) = error(&TWO.replace("cpus = 8\npolicy", "cpu = 8\npolicy"));
        assert_eq!(line, Some(5));
        assert!(problem.contains("unknown field `cpu`"), "{problem}");
        let (line, problem) = error(
            &TWO.replace("vcpus = 4", "vcpus = 4\nreserved_cpus = 4.0\nweight = 2.0")
                .replace("cpus = 8\npolicy", "cpus = 2\npolicy"),
        );
        assert_eq!(line, Some(11));
        assert!(problem.contains("reservations of \"A\" are 4 CPUs in all"), "{problem}");
        assert!(problem.contains("2 of the host's CPUs (0-1)"), "{problem}");
        let crowded = TWO.replace("name = \"A\"", "name = \"A\"\ncpus = [1, 2]\nreserved_cpus = 1.5");
        let crowded = crowded.replace("name = \"B\"", "name = \"B\"\ncpus = [2]\nreserved_cpus = 1.0");
        let (line, problem) = error(&crowded);
        assert_eq!(line, Some(18));
        assert!(
            problem.contains("\"A\", \"B\" are 2.5 CPUs in all") && problem.contains("(1-2)"),
            "{problem}"
        );
        let (line, problem) = error(&format!("{TWO}\n[sweep]\n\"vm.C.vcpus\" = [1]\n"));
        assert_eq!(line, Some(19));
        assert!(problem.contains("there is no \"C\" on the way"), "{problem}");
        assert!(error(&format!("{TWO}\n[sweep]\n\"vm.B.vcpus\" = []\n")).1.contains("wanted a list"));
        assert!(error("name = \"x\"").1.contains("exactly one of [host], [nodes] and [memory], got 0"));
    }

    #[test]
    fn what_is_wrong_in_a_case_is_told_with_its_own_line_and_case() {
        let lines = TWO.lines().count();
        let case = |label: &str, set: &str| format!("\n[[case]]\nlabel = \"{label}\"\nset = {{ {set} }}");
        // The second of two cases, by name and by a table of which one part is wrong.
        let good = case("good", "\"vm.A.cpus\" = [1], \"host.policy.quantum_us\" = 5");
        for (set, path) in [
            ("\"vm.A.cpus\" = [97]", "vm.0.cpus"),
            ("\"vm.1.vcpus\" = 0", "vm.1.vcpus"),
            ("\"host.policy\" = { name = \"credit2\", slice_us = 0 }", "host.policy.slice_us"),
            ("\"host.cpus\" = \"four\"", "host.cpus"),
        ] {
            let (line, problem) = error(&format!("{TWO}{good}{}", case("bad", set)));
            assert_eq!(line, Some(lines + 7), "{set}: {problem}");
            assert!(problem.starts_with(&format!("case \"bad\": {path}: ")), "{problem}");
        }
        // In what is common to all cases, and in a sweep.
        let (line, problem) =
            error(&format!("{}{good}", TWO.replace("vcpus = 4", "vcpus = 4\nwieght = 2.0")));
        assert_eq!(line, Some(11), "{problem}");
        assert!(problem.contains("unknown field `wieght`"), "{problem}");
        let (line, problem) =
            error(&format!("{TWO}{good}\n[sweep]\n\"host.cpus\" = [8]\n\"vm.B.weight\" = [1.0, -2.0]\n"));
        assert_eq!(line, Some(lines + 7), "{problem}");
        // On the command line.
        let told =
            cases(TWO, &[("vm.A.cpus".to_owned(), Value::Array(vec![Value::Integer(97)]))]).unwrap_err();
        assert_eq!(told.line, None);
        assert!(
            told.problem.starts_with("--set vm.A.cpus: vm.0.cpus: there is no CPU 97"),
            "{}",
            told.problem
        );
    }
}
