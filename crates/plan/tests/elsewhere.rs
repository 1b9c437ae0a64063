//! Where else each could be, of systems made for it: rules that only together refuse a place, more places than are looked at, nothing
//! said where there was no time. That it agrees with trying all is for `small`.

#![allow(clippy::unwrap_used, reason = "tests panic")]

mod systems;

use std::cell::Cell;
use std::fmt::Write as _;

use model::partition::NumberList;
use model::plan::{Elsewhere, Plan, Rule};
use model::system::System;
use plan::{Answer, Question, plan};
use systems::{Kind, file, hosts};

/// The plan of this file, with as much time as `is_over` gives.
fn planned(text: &str, is_over: &dyn Fn() -> bool) -> Plan {
    let system = System::from_toml(text, "system").unwrap();
    let hosts = hosts(&system);
    let question = Question { system: &system, hosts: &hosts, from: None, proof: false, is_over };
    let Answer::Planned(planned) = plan(&question) else { panic!("no plan") };
    let plan = planned.plan;
    assert_eq!(audit::wrong_elsewhere(&system, &hosts, &plan, None), [""; 0]);
    plan
}

fn of<'a>(plan: &'a Plan, name: &str) -> &'a Elsewhere {
    let placed = plan.partitions.iter().find(|placed| placed.name == name).unwrap();
    placed.elsewhere.as_ref().unwrap()
}

#[test]
fn rules_that_only_together_refuse_a_place_are_not_named_each() {
    // Node 1 has a disk near by, which is too slow; the quick one is far from there.
    let text = r#"
[host.a]
disk = [{ name = "quick", node = 0, bytes_per_s = 1000 }, { name = "slow", node = 1, bytes_per_s = 10 }]
[[host.a.node]]
number = 0
cpus = "0-3"
memory_mib = 8192
[[host.a.node]]
number = 1
cpus = "4-7"
memory_mib = 8192
[partition.db]
program = ["/bin/true"]
needs = { disk = { bytes_per_s = 100 }, near = ["disk"] }
"#;
    let plan = planned(text, &|| false);
    let db = of(&plan, "db");
    assert_eq!((db.places, db.possible, db.refused.len()), (1, 0, 1));
    assert_eq!((db.refused[0].nodes.clone(), db.refused[0].rules.clone()), (NumberList::of([1]), vec![]));
    let without = planned(&text.replace(", near = [\"disk\"]", ""), &|| false);
    assert_eq!(of(&without, "db").possible, 1);
}

#[test]
fn cores_kept_whole_are_told_from_cpus_that_are_taken() {
    let text = r#"
[[host.a.node]]
number = 0
cpus = "0-3"
cores = ["0-1", "2-3"]
memory_mib = 8192
[[host.a.node]]
number = 1
cpus = "4-7"
cores = ["4-5", "6-7"]
memory_mib = 8192
[partition.whole]
program = ["/bin/true"]
cpus = 1
needs = { isolation = "core" }
[partition.three]
program = ["/bin/true"]
cpus = 3
[partition.four]
program = ["/bin/true"]
cpus = 1
"#;
    let plan = planned(text, &|| false);
    assert_eq!(of(&plan, "whole").refused[0].rules, [Rule::Core]);
    let plan = planned(&text.replace("isolation = \"core\"", ""), &|| false);
    let taken = |name: &str| of(&plan, name).refused.iter().map(|one| one.rules.clone()).collect::<Vec<_>>();
    assert_eq!(taken("three"), [[Rule::Cpus]]);
}

#[test]
fn as_many_places_as_are_looked_at_are_counted() {
    let mut text = String::from("[host.a]\n");
    for node in 0..12 {
        let _ = write!(
            text,
            "[[host.a.node]]\nnumber = {node}\ncpus = \"{}-{}\"\nmemory_mib = 4096\n",
            4 * node,
            4 * node + 3
        );
    }
    text.push_str("[partition.wide]\nprogram = [\"/bin/true\"]\ncpus = 16\nmemory_mib = 4096\n");
    let plan = planned(&text, &|| false);
    let wide = of(&plan, "wide");
    // 4 of 12 nodes, but for its own.
    assert_eq!((wide.places, wide.looked_at), (494, 100));
    assert_eq!((wide.possible, wide.refused.len(), wide.not_known), (100, 0, 0));
    assert_eq!(wide.best.as_ref().unwrap().goals, []);
}

#[test]
fn what_takes_long_to_find_out_is_not_known_instead_of_refused() {
    // Eleven who need a disk each, and ten disks: whoever tries them one by one does not see it soon.
    let mut text = String::from("[[host.a.node]]\nnumber = 0\ncpus = \"0-15\"\nmemory_mib = 8192\n");
    for disk in 0..10 {
        let _ = write!(text, "[[host.a.disk]]\nname = \"d{disk}\"\nbytes_per_s = 125\n");
    }
    text.push_str("[[host.b.node]]\nnumber = 0\ncpus = \"0-15\"\nmemory_mib = 8192\n");
    text.push_str("[[host.b.disk]]\nname = \"d\"\nbytes_per_s = 125\n");
    let mut partition = |name: &str, needs: &str| {
        let _ = write!(text, "[partition.{name}]\nprogram = [\"/bin/true\"]\nneeds = {{ {needs} }}\n");
    };
    for number in 0..10 {
        partition(&format!("of-a-{number}"), "hosts = [\"a\"], disk = { bytes_per_s = 100 }");
    }
    partition("of-b", "hosts = [\"b\"]");
    partition("z", "disk = { bytes_per_s = 100 }, talks_to = { of-b = { bytes_per_s = 1 } }");
    let plan = planned(&text, &|| false);
    let z = of(&plan, "z");
    assert_eq!((z.places, z.looked_at, z.possible, z.not_known), (1, 1, 0, 1));
    assert!(z.refused.is_empty() && z.best.is_none());
}

#[test]
fn where_the_time_is_over_nothing_is_said_but_that() {
    let kind = Kind { hosts: 1, nodes: 4, cpus_per_node: 8, partitions: 10, load: 0.6, talks: 1.0 };
    let text = file(&kind, 3);
    let all = planned(&text, &|| false);
    assert!(all.partitions.iter().all(|placed| placed.elsewhere.is_some()) && all.notes.is_empty());
    // Some are looked at, then it is over.
    let asked = Cell::new(0u64);
    let count = || {
        asked.set(asked.get() + 1);
        false
    };
    let _ = planned(&text, &count);
    let most = asked.get() - 8;
    asked.set(0);
    let is_over = || {
        asked.set(asked.get() + 1);
        asked.get() > most
    };
    let some = planned(&text, &is_over);
    let told = some.partitions.iter().filter(|placed| placed.elsewhere.is_some()).count();
    assert!((1..10).contains(&told), "{told}");
    for (placed, of_all) in some.partitions.iter().zip(&all.partitions) {
        assert!(placed.elsewhere.is_none() || placed.elsewhere == of_all.elsewhere, "{}", placed.name);
    }
    assert!(some.notes.iter().any(|note| note.contains("the time was over")), "{:?}", some.notes);
}

#[test]
fn of_a_system_too_large_to_prove_it_is_said_that_nothing_is_said() {
    let kind = Kind { hosts: 64, nodes: 2, cpus_per_node: 32, partitions: 300, load: 0.3, talks: 0.0 };
    let plan = planned(&file(&kind, 0), &|| false);
    assert!(plan.partitions.iter().all(|placed| placed.elsewhere.is_none()));
    assert_eq!(plan.notes.len(), 1, "{:?}", plan.notes);
}
