//! Looks at a value of a case by its path, and puts another one in its place.

use std::borrow::Cow;

use toml::Value;

use super::sweep::put;
use super::{Case, Impossible, Scenario};

impl Case {
    /// The value at `path` (`host.policy.quantum_us`, `vm.A.vcpus` or `vm.0.vcpus`); none where there is none, or where
    /// it was left out and has no default.
    pub fn value(&self, path: &str) -> Option<Value> {
        let root = as_table(&self.scenario).ok()?;
        path.split('.').try_fold(&root, |place, part| at(place, part)).cloned()
    }

    /// The same scenario with the number at `path` multiplied by `factor`, checked again.
    ///
    /// # Errors
    /// When there is no number at `path`, or the product is not allowed there.
    pub fn multiplied(&self, path: &str, factor: f64) -> Result<Scenario, Impossible> {
        let wrong = |problem: String| Impossible::new(path, problem);
        let product = match self.value(path) {
            Some(Value::Integer(value)) => {
                #[expect(clippy::cast_possible_truncation, reason = "checked against its bounds below")]
                let product = (value as f64 * factor).round() as i64;
                Value::Integer(product)
            }
            Some(Value::Float(value)) => Value::Float(value * factor),
            Some(other) => return Err(wrong(format!("{other} is no number that could be multiplied"))),
            None => return Err(wrong("there is no such value".to_owned())),
        };
        self.with(&[(path.to_owned(), product)])
    }

    /// The same scenario with these values at their paths, checked again.
    ///
    /// # Errors
    /// When something on the way is not there, or a value is not allowed there.
    pub fn with(&self, values: &[(String, Value)]) -> Result<Scenario, Impossible> {
        let (path, value) =
            values.first().map_or_else(Default::default, |(path, value)| (path.as_str(), value.to_string()));
        let mut root = as_table(&self.scenario).map_err(|error| Impossible::new(path, error.to_string()))?;
        for (path, value) in values {
            put(&mut root, path, value.clone()).map_err(|problem| Impossible::new(path, problem))?;
        }
        let mut changed: Scenario = root.try_into().map_err(|error: toml::de::Error| {
            Impossible::new(path, format!("{value}: {}", error.message()))
        })?;
        changed.seed = self.scenario.seed;
        changed.check()?;
        Ok(changed)
    }
}

/// The scenario as a table, with the defaults that depend on other keys. TOML has no integers beyond 2^63, which a seed may
/// be.
pub(super) fn as_table(scenario: &Scenario) -> Result<Value, toml::ser::Error> {
    let mut all = Scenario { seed: 0, ..scenario.clone() };
    if let Some(host) = &mut all.host {
        host.staggered = Some(host.is_staggered());
    }
    Value::try_from(all)
}

fn at<'a>(place: &'a Value, part: &str) -> Option<&'a Value> {
    match place {
        Value::Table(table) => table.get(part),
        Value::Array(list) => {
            let by_name = |entry: &Value| entry.get("name").and_then(Value::as_str) == Some(part);
            let number = part.parse::<usize>().ok().or_else(|| list.iter().position(by_name))?;
            list.get(number)
        }
        _ => None,
    }
}

/// A value as people write it: text without its quotes.
pub fn written(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        other => Cow::Owned(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::cases;
    use super::*;

    #[test]
    fn values_are_found_by_number_and_by_name_and_multiplied_within_bounds() {
        let text = "name = \"x\"\n[host]\ncpus = 4\npolicy = { name = \"equal-per-vm\", quantum_us = 100 }\n[[vm]]\n\
                    name = \"A\"\nvcpus = 3\nweight = 2.0\nthread = [{ run = { program = \"endless\" } }]\n";
        let case = cases(text, &[]).unwrap().remove(0);
        assert_eq!(case.value("vm.A.vcpus"), case.value("vm.0.vcpus"));
        assert_eq!(
            case.value("host.policy.name").as_ref().map(|name| written(name).into_owned()).unwrap(),
            "equal-per-vm"
        );
        assert_eq!(case.value("vm.B.vcpus"), None);
        assert_eq!(case.multiplied("vm.A.vcpus", 2.0).unwrap().vms[0].vcpus, 6);
        assert!((case.multiplied("vm.0.weight", 0.5).unwrap().vms[0].weight - 1.0).abs() < 1e-12);
        let refused = |path: &str, factor: f64| case.multiplied(path, factor).unwrap_err().to_string();
        assert!(refused("host.cpus", 1e4).contains("out of bounds"));
        assert!(refused("host.policy.name", 2.0).contains("no number"));
        assert!(refused("host.cpus", -2.0).starts_with("host.cpus: -8"));
        assert!(refused("host.none", 2.0).contains("no such value"));
    }
}
