//! A class of work as requirements of a partition, to begin with: each condition that has a limit of its own becomes one; what is held
//! against a baseline or an undisturbed measurement is listed as not tested here, with what tests it.

use model::classes::{Against, Beside, ClassSpec, Condition, Weight};
use model::requirement::{
    AsIs, DeclaredLoad, ON_HOST, RequiredLimit, RequiredLoad, RequiredMetric, Requirement, RequirementFile,
    Requirements, USUAL_BUDGET_S, USUAL_CONFIDENCE,
};
use units::Reason;
use units::metric::Unit;
use units::names::{LoadKind, LoadPlace};

/// What stands beside where a class says "all".
const ALL_LOADS: [LoadKind; 3] = [LoadKind::Cpu, LoadKind::Memory, LoadKind::Fork];

/// The requirements of a class for a partition of a set.
///
/// # Errors
/// A condition names a figure that no probe has.
pub fn requirements(class: &ClassSpec, set: &str, partition: &str) -> Result<RequirementFile, Reason> {
    let mut all = Requirements::new();
    let head = Requirement {
        text: format!("{partition} is fit for {}: {}", class.title.to_lowercase(), class.about),
        ..blank()
    };
    all.insert(class.name.clone(), head);
    for (number, condition) in (1..).zip(&class.conditions) {
        let mut one = of_condition(class, condition, partition)?;
        // What is only wanted does not make the class fail.
        one.parent = (condition.weight == Weight::Required).then(|| class.name.clone());
        all.insert(format!("{}.{number}", class.name), one);
    }
    Ok(RequirementFile { set: set.to_owned(), requirements: all })
}

fn of_condition(class: &ClassSpec, condition: &Condition, partition: &str) -> Result<Requirement, Reason> {
    let text = format!("{}. {}", capital(&condition.title), condition.why);
    let untested =
        |why: &str| Requirement { text: text.clone(), not_tested: Some(why.to_owned()), ..blank() };
    let against = match condition.against {
        Against::Value => None,
        Against::Baseline => Some("its value on the baseline"),
        Against::Undisturbed => Some("its value without the neighbour"),
        Against::FairShare => Some("a fair share"),
    };
    if let Some(against) = against {
        return Ok(untested(&format!(
            "it is held against {against}: bulkhead measure --require {} tests that",
            class.name
        )));
    }
    let base = Requirement {
        text: text.clone(),
        partition: Some(partition.to_owned()),
        load: Some(load(&condition.neighbours)),
        ..blank()
    };
    if let Some(deadline) = class.deadline.filter(|_| condition.metric.is_none()) {
        let Some(fitting) = condition.tail.iter().find(|entry| entry.miss_rate <= deadline.miss_rate) else {
            return Ok(untested("no figure of its tail fits the miss rate that is allowed"));
        };
        let metric: RequiredMetric = fitting.metric.to_string().parse()?;
        let limit: RequiredLimit = format!("{} us", deadline.deadline_us.get()).parse()?;
        return Ok(Requirement { metric: Some(metric), at_most: Some(limit), ..base });
    }
    let Some(name) = &condition.metric else { return Ok(untested("it has no figure")) };
    let metric: RequiredMetric = name.to_string().parse()?;
    let unit = metric.unit().unwrap_or(Unit::Count);
    let limit = |value: Option<f64>| value.map(|value| written(value, unit)).transpose();
    Ok(Requirement {
        metric: Some(metric),
        at_most: limit(condition.at_most)?,
        at_least: limit(condition.at_least)?,
        ..base
    })
}

fn written(value: f64, unit: Unit) -> Result<RequiredLimit, Reason> {
    let text = match unit {
        Unit::Nanoseconds => format!("{value} ns"),
        Unit::Bytes => format!("{value} B"),
        Unit::BytesPerSecond => format!("{value} B/s"),
        Unit::PerSecond => format!("{value} /s"),
        Unit::Hertz => format!("{value} Hz"),
        Unit::Share => format!("{} %", value * 100.0),
        Unit::Count => value.to_string(),
    };
    text.parse()
}

/// Loads of the host stand in for neighbours, because who they will be is not known here.
fn load(neighbours: &Beside) -> RequiredLoad {
    let kinds: Vec<LoadKind> = match neighbours {
        Beside::Alone => Vec::new(),
        Beside::All => ALL_LOADS.to_vec(),
        Beside::Named(patterns) => {
            let elsewhere = patterns.iter().filter(|pattern| pattern.place != Some(LoadPlace::Same));
            let mut kinds: Vec<LoadKind> = elsewhere
                .flat_map(|pattern| pattern.kind.map_or_else(|| ALL_LOADS.to_vec(), |kind| vec![kind]))
                .collect();
            kinds.sort_unstable();
            kinds.dedup();
            kinds
        }
    };
    let place = Some(ON_HOST.to_owned());
    let loads: Vec<DeclaredLoad> =
        kinds.into_iter().map(|kind| DeclaredLoad { kind, place: place.clone() }).collect();
    if loads.is_empty() { RequiredLoad::AsIs(AsIs::AsIs) } else { RequiredLoad::Declared(loads) }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

fn blank() -> Requirement {
    Requirement {
        text: String::new(),
        parent: None,
        partition: None,
        pair: None,
        network: None,
        host: false,
        metric: None,
        not_tested: None,
        at_most: None,
        at_least: None,
        exactly: None,
        load: None,
        failure: None,
        client: None,
        command: Vec::new(),
        inside: false,
        params: None,
        folder: None,
        over: None,
        paused: false,
        probe_partition: false,
        confidence: USUAL_CONFIDENCE,
        budget_s: USUAL_BUDGET_S,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::classes::shipped;

    #[test]
    fn every_shipped_class_becomes_requirements_that_are_read_back() {
        for class in shipped().expect("good").classes {
            let file = requirements(&class, "plant", "plc").expect(&class.name);
            assert_eq!(file.requirements.len(), 1 + class.conditions.len());
            let text = toml::to_string(&file).expect("TOML");
            let again = RequirementFile::from_toml(&text, "").map_err(|errors| errors.to_string());
            assert_eq!(again, Ok(file), "{}", class.name);
        }
    }

    #[test]
    fn a_tail_has_the_figure_that_fits_the_miss_rate() {
        let class = shipped()
            .expect("good")
            .classes
            .into_iter()
            .find(|class| class.name == "real-time")
            .expect("shipped");
        let all = requirements(&class, "plant", "plc").expect("good").requirements;
        let first = &all["real-time.1"];
        assert_eq!(
            first.metric.as_ref().map(ToString::to_string).as_deref(),
            Some("wakeup.response_p99_9_ns")
        );
        assert_eq!(first.limit_words(), "at most 10000 us");
        assert_eq!(first.parent.as_deref(), Some("real-time"));
        assert_eq!(all["real-time.3"].parent, None, "it is only wanted");
    }
}
