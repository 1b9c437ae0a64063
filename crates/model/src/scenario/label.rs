//! What distinguishes a case, in words: the label that the file gives it, and what the sweep set in it, with the parameter's
//! name, a readable number and its unit.
//!
//! ```text
//!  "host.policy.slot_us" = 2000            slot 2 ms          the unit is in the key; all ASCII, so that --case can be typed
//!  "vm.A.weight" = 0.1, "vm.B.weight" = 2  A.weight 0.1, B.weight 2     as much of the path as tells them apart
//!  "host.policy" = { name = "credit", … }  credit             with what differs where two of the name are swept
//! ```

use std::collections::{BTreeMap, BTreeSet};

use toml::Value;

use super::change::written;
use units::scaled;

/// Endings of keys that name a time, with the nanoseconds of their unit.
const TIMES: [(&str, f64); 4] = [("_ns", 1.0), ("_us", 1e3), ("_ms", 1e6), ("_s", 1e9)];

/// A sweep: paths with their values.
pub(super) type Sweep = [(String, Vec<Value>)];

/// The labels of all cases, each unlike the others: of the label that the file gives a case, and what was set in it.
pub(super) fn labels(
    cases: &[(&str, &BTreeMap<String, Value>)],
    sweep: &Sweep,
    fallback: &str,
) -> Vec<String> {
    let label = |(named, settings): &(&str, &BTreeMap<String, Value>), exact: bool| {
        let named = Some(*named).filter(|named| !named.is_empty()).map(str::to_owned);
        let swept = sweep
            .iter()
            .filter_map(|(path, values)| Some(part(path, settings.get(path)?, values, sweep, exact)));
        let parts: Vec<String> = named.into_iter().chain(swept).collect();
        if parts.is_empty() { fallback.to_owned() } else { parts.join(", ") }
    };
    let mut labels: Vec<String> = cases.iter().map(|case| label(case, false)).collect();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for label in &labels {
        *counts.entry(label).or_default() += 1;
    }
    let is_shared: Vec<bool> =
        labels.iter().map(|label| counts.get(label.as_str()).is_some_and(|count| *count > 1)).collect();
    for ((place, case), _) in labels.iter_mut().zip(cases).zip(is_shared).filter(|(_, is_shared)| *is_shared)
    {
        *place = label(case, true);
    }
    let mut known: BTreeSet<String> = BTreeSet::new();
    for place in &mut labels {
        let numbered = (2u32..).map(|number| format!("{place} ({number})"));
        let free = std::iter::once(place.clone()).chain(numbered).find(|label| !known.contains(label));
        *place = free.unwrap_or_default();
        known.insert(place.clone());
    }
    labels
}

/// What a label says of one swept parameter; `exact` as it is written.
fn part(path: &str, value: &Value, values: &[Value], sweep: &Sweep, exact: bool) -> String {
    let key = shortest(path, sweep);
    match value {
        Value::Table(_) if exact => format!("{key} {value}"),
        Value::Table(table) => match name_of(value) {
            Some(name) => {
                let rivals: Vec<&Value> =
                    values.iter().filter(|other| *other != value && name_of(other) == Some(name)).collect();
                let differs =
                    |key: &str, value: &Value| rivals.iter().any(|other| other.get(key) != Some(value));
                let more = table.iter().filter(|(key, value)| differs(key, value));
                let more = more.map(|(key, value)| said(key, &written(value)));
                std::iter::once(name.to_owned()).chain(more).collect::<Vec<_>>().join(" ")
            }
            None => format!("{key} {value}"),
        },
        _ if exact => format!("{key} {}", written(value)),
        _ => said(key, &written(value)),
    }
}

/// The name of a policy, the kind of a barrier.
fn name_of(value: &Value) -> Option<&str> {
    value.get("name").or_else(|| value.get("kind")).and_then(Value::as_str)
}

/// The last keys of a path, as many as no other path of the sweep ends in.
fn shortest<'a>(path: &'a str, sweep: &Sweep) -> &'a str {
    let is_shared = |end: &str| {
        let ends_so =
            |other: &str| other == end || other.strip_suffix(end).is_some_and(|rest| rest.ends_with('.'));
        sweep.iter().filter(|(other, _)| ends_so(other)).count() > 1
    };
    ends(path).find(|end| !is_shared(end)).unwrap_or(path)
}

/// Ends of a path, the shortest first: `weight`, `A.weight`, `vm.A.weight`.
fn ends(path: &str) -> impl Iterator<Item = &str> {
    let dots = path.rmatch_indices('.').map(|(at, _)| at + 1);
    dots.chain(std::iter::once(0)).filter_map(|at| path.get(at..))
}

/// `slot 2 ms` of `slot_us` and `2000`: the unit that the key names, and a number that can be read.
fn said(key: &str, value: &str) -> String {
    let Some(number) = value.parse::<f64>().ok().filter(|number| number.is_finite()) else {
        return format!("{key} {value}");
    };
    match TIMES.into_iter().find_map(|(ending, nanos)| Some((key.strip_suffix(ending)?, nanos))) {
        Some((name, nanos)) => {
            let (value, unit) = scaled(number * nanos, 1000.0, &["ns", "us", "ms", "s"]);
            format!("{name} {} {unit}", readable(value))
        }
        None => format!("{key} {}", readable(number)),
    }
}

/// Nanoseconds in the unit that a key names; none where it names no time.
pub fn nanos_per(key: &str) -> Option<f64> {
    TIMES.into_iter().find(|(ending, _)| key.ends_with(ending)).map(|(_, nanos)| nanos)
}

/// Six digits at most.
fn readable(number: f64) -> f64 {
    if number.fract() == 0.0 { number } else { format!("{number:.5e}").parse().unwrap_or(number) }
}

/// A label without what it says of the parameter at `path`, whose value is written so.
pub fn without(label: &str, path: &str, value: &str) -> String {
    for end in ends(path) {
        for part in [said(end, value), format!("{end} {value}")] {
            let rest = match label.split_once(&part) {
                Some((before, after)) if after.is_empty() || after.starts_with(", ") => (before, after),
                _ => continue,
            };
            match rest {
                ("", after) => return after.trim_start_matches(", ").to_owned(),
                (before, after) => {
                    if let Some(before) = before.strip_suffix(", ") {
                        return format!("{before}{after}");
                    }
                }
            }
        }
    }
    label.to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::cases;
    use super::without;

    const TWO: &str = "name = \"two\"\n[host]\ncpus = 8\npolicy = { name = \"equal-per-vm\", quantum_us = 1000 }\n[[vm]]\nname = \"A\"\n\
                       vcpus = 4\nthread = [{ run = { program = \"endless\" } }]\n[[vm]]\nname = \"B\"\nvcpus = 8\n\
                       thread = [{ run = { program = \"endless\" } }]\n";

    fn labels(more: &str) -> Vec<String> {
        cases(&format!("{TWO}{more}"), &[]).unwrap().into_iter().map(|case| case.label).collect()
    }

    #[test]
    fn parameters_have_names_readable_numbers_and_units() {
        assert_eq!(
            labels("[sweep]\n\"host.policy.quantum_us\" = [500, 2000, 30000000]\n"),
            ["quantum 500 us", "quantum 2 ms", "quantum 30 s"]
        );
        assert_eq!(
            labels("[sweep]\n\"vm.B.weight\" = { from = 0.1, to = 0.5, step = 0.2 }\n"),
            ["weight 0.1", "weight 0.3", "weight 0.5"]
        );
        assert_eq!(
            labels("[sweep]\n\"vm.A.weight\" = [1.0]\n\"vm.B.weight\" = [2.0]\n\"vm.B.vcpus\" = [3]\n"),
            ["A.weight 1, vcpus 3, B.weight 2"]
        );
    }

    #[test]
    fn every_label_is_one_of_its_own() {
        assert_eq!(
            labels(
                "[sweep]\n\"host.policy\" = [{ name = \"credit2\", slice_us = 1000 }, { name = \"credit2\", slice_us = 2000 }, \
                 { name = \"gang\", slice_us = 2000 }]\n"
            ),
            ["credit2 slice 1 ms", "credit2 slice 2 ms", "gang"]
        );
        // The same but for what a label leaves out: then as they are written.
        assert_eq!(
            labels("[sweep]\n\"vm.B.weight\" = [1.00000001, 1.00000002, 2.0]\n"),
            ["weight 1.00000001", "weight 1.00000002", "weight 2"]
        );
        // What a named case and a sweep say may come to the same.
        let named =
            "[[case]]\nlabel = \"x, vcpus 1\"\n[[case]]\nlabel = \"x\"\n[sweep]\n\"vm.B.vcpus\" = [1]\n";
        assert_eq!(labels(named), ["x, vcpus 1, vcpus 1", "x, vcpus 1"]);
        let wrong = |more: &str| cases(&format!("{TWO}{more}"), &[]).unwrap_err().to_string();
        assert_eq!(
            wrong("[[case]]\nlabel = \"x\"\n[[case]]\nlabel = \"x\"\n"),
            "line 16: case.1.label: two cases are called \"x\"; wanted a label of its own for each"
        );
        assert!(
            wrong("[sweep]\n\"vm.B.vcpus\" = [1, 2, 1]\n")
                .contains("sweep.\"vm.B.vcpus\": 1 stands there twice")
        );
    }

    #[test]
    fn a_label_without_one_parameter_says_what_is_left() {
        let path = "host.policy.slot_us";
        assert_eq!(without("slot 2 ms", path, "2000"), "");
        assert_eq!(without("small, slot 2 ms, vcpus 3", path, "2000"), "small, vcpus 3");
        assert_eq!(without("slot 20 ms, vcpus 3", path, "2000"), "slot 20 ms, vcpus 3");
        assert_eq!(without("B.weight 2, vcpus 3", "vm.B.weight", "2.0"), "vcpus 3");
        assert_eq!(without("count 10, loaded", "nodes.count", "10"), "loaded");
    }
}
