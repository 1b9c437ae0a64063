//! Files of classes: what is shipped is good, what is wrong is named, nothing is lost on the way.

use super::*;
use probes::ProbeKind;

const SMALL: &str = r#"
    [[class]]
    name = "mine"
    title = "Mine"
    about = "What I do."

    [class.deadline]
    deadline_us = 500
    miss_rate = 1e-4

    [[class.condition]]
    title = "in time"
    why = "because"
    tail = [{ miss_rate = 1e-2, metric = "gap.bound_99_ns" }, { miss_rate = 0.0, metric = "gap.max_gap_ns" }]
    neighbours = "all"

    [[class.condition]]
    title = "fast"
    why = "because"
    metric = "cpu.time_one_thread_ns"
    against = "baseline"
    at_most = 1.5
    weight = "wanted"
"#;

#[test]
fn every_shipped_file_holds_the_class_of_its_name() {
    for (name, text) in shipped_texts() {
        assert_eq!(ClassSet::from_toml(text).unwrap().names(), [*name]);
    }
    assert_eq!(shipped().unwrap().names(), ["real-time", "hpc", "htc", "interactive"]);
}

#[test]
fn tightly_coupled_work_needs_all_eight_requirements_and_throughput_one_and_some() {
    let set = shipped().unwrap();
    let numbers = |name: &str, weight: Weight| {
        let class = set.classes.iter().find(|class| class.name == name).unwrap();
        let mut numbers: Vec<u8> = class
            .conditions
            .iter()
            .filter(|condition| condition.weight == weight)
            .filter_map(|condition| condition.requirement)
            .collect();
        numbers.dedup();
        numbers
    };
    assert_eq!(numbers("hpc", Weight::Required), [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(numbers("htc", Weight::Required), [1]);
    assert_eq!(numbers("htc", Weight::Some), [5, 7]);
}

#[test]
fn what_is_written_down_reads_back_the_same() {
    let set = shipped().unwrap().extended_by(ClassSet::from_toml(SMALL).unwrap());
    assert_eq!(ClassSet::from_toml(&set.to_toml().unwrap()).unwrap(), set);
}

#[test]
fn a_class_of_the_same_name_replaces_and_another_is_added() {
    let renamed = SMALL.replace("\"mine\"", "\"htc\"");
    let set = shipped().unwrap().extended_by(ClassSet::from_toml(&renamed).unwrap());
    assert_eq!(set.names(), ["real-time", "hpc", "htc", "interactive"]);
    assert_eq!(set.classes[2].title, "Mine");
    let set = set.extended_by(ClassSet::from_toml(SMALL).unwrap());
    assert_eq!(set.names().last(), Some(&"mine"));
}

#[test]
fn unknown_names_are_answered_with_the_nearest() {
    for (right, wrong, hint) in [
        ("at_most", "at_moost", "at_most"),
        ("[[class]]", "[[clas]]", "class"),
        ("\"wanted\"", "\"wantd\"", "wanted"),
        ("\"baseline\"", "\"baselin\"", "baseline"),
        ("cpu.time", "cpuu.time", "cpu"),
        ("[class.deadline]", "[class.deadlin]", "deadline"),
        ("\"all\"", "\"memry\"", "memory"),
    ] {
        let error = ClassSet::from_toml(&SMALL.replacen(right, wrong, 1)).unwrap_err().to_string();
        assert!(error.contains(&format!("did you mean \"{hint}\"?")), "{wrong}: {error}");
    }
}

#[test]
fn contradictions_are_named() {
    for (right, wrong, part) in [
        ("at_most = 1.5", "at_most = 1.5\nat_least = 1.0", "either at_most or at_least"),
        ("at_most = 1.5", "at_most = nan", "no number"),
        ("at_most = 1.5", "at_most = -1.0", "no number"),
        ("against = \"baseline\"", "against = \"undisturbed\"", "cannot be \"alone\""),
        ("metric = \"cpu", "tail = []\nmetric = \"cpuu", "cpuu"),
        ("deadline_us = 500", "deadline_us = 0", "out of bounds"),
        ("miss_rate = 1e-4", "miss_rate = 0.9", "out of bounds"),
        ("name = \"mine\"", "name = \"My class\"", "lower-case"),
        ("title = \"fast\"", "title = \"\"", "title must have"),
        ("miss_rate = 1e-2", "miss_rate = 0.0", "falling miss rates"),
        ("gap.bound_99_ns", "gap.lost_share", "no time"),
        ("weight = \"wanted\"", "weight = \"wanted\"\nrequirement = 9", "one of 1 to 8"),
    ] {
        let error = ClassSet::from_toml(&SMALL.replacen(right, wrong, 1)).unwrap_err().to_string();
        assert!(error.contains(part), "{wrong}: {error}");
    }
    let twice = ClassSet::from_toml(&format!("{SMALL}\n{SMALL}")).unwrap_err().to_string();
    assert!(twice.contains("there twice"), "{twice}");
    let no_deadline = SMALL.replace("[class.deadline]\n    deadline_us = 500\n    miss_rate = 1e-4", "");
    let error = ClassSet::from_toml(&no_deadline).unwrap_err().to_string();
    assert!(error.contains("no [class.deadline]"), "{error}");
    assert!(ClassSet::from_toml(&"#".repeat(MAX_FILE_BYTES + 1)).is_err());
    assert!(ClassSet::from_toml("").is_err(), "a file without a class is a mistake");
}

#[test]
fn every_condition_names_a_probe_that_exists() {
    let probes: std::collections::BTreeSet<ProbeKind> = shipped()
        .unwrap()
        .classes
        .iter()
        .flat_map(|class| &class.conditions)
        .flat_map(|condition| condition.metric.iter().chain(condition.tail.iter().map(|entry| &entry.metric)))
        .map(|metric| metric.probe)
        .collect();
    assert!(probes.len() >= 10, "{probes:?}");
}
