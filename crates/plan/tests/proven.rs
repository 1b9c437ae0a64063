//! Systems of the size that the mark speaks of (8 nodes, 32 partitions): their plans are proven best, and what checks plans and
//! certificates agrees. How soon is for the bench `speed`.

mod systems;

use audit::certificate::{Verdict, check, goals_match, places_match};
use model::system::System;
use plan::{Answer, Question, plan};
use systems::{Kind, file, hosts};

#[test]
fn plans_of_full_hosts_are_proven_best_and_accepted() {
    for (load, seed) in [(0.6, 0), (0.6, 1), (0.85, 0), (0.95, 0)] {
        let kind = Kind { hosts: 1, nodes: 8, cpus_per_node: 16, partitions: 32, load, talks: 1.0 };
        let system = System::from_toml(&file(&kind, seed), "system.toml").unwrap();
        let hosts = hosts(&system);
        let question =
            Question { system: &system, hosts: &hosts, from: None, proof: true, is_over: &|| false };
        let Answer::Planned(planned) = plan(&question) else { panic!("load {load}, seed {seed}: no plan") };
        assert_eq!(audit::broken_rules(&system, &hosts, &planned.plan), [], "load {load}, seed {seed}");
        let mut wrong = audit::wrong_claims(&system, &hosts, &planned.plan, None);
        let of = planned.plan.goals.iter().filter(|goal| goal.value != goal.least);
        wrong.extend(of.map(|goal| format!("{goal:?}")));
        match check(planned.certificate.unwrap_or_default().as_bytes()) {
            Ok(Verdict::Optimal { goals, places }) => {
                wrong.extend(goals_match(&planned.plan, &goals));
                wrong.extend(places_match(&planned.plan, &places));
            }
            other => panic!("load {load}, seed {seed}: {other:?}"),
        }
        assert!(wrong.is_empty(), "load {load}, seed {seed}: {wrong:?}");
    }
}

/// Constraints over all pieces were once kept for each of their variables: 4 GB and more for this one.
#[test]
fn equal_nodes_of_a_large_host_are_found_in_little_memory() {
    const MOST_KIB: u64 = 1 << 20;
    let kind = Kind { hosts: 1, nodes: 32, cpus_per_node: 16, partitions: 200, load: 0.85, talks: 1.0 };
    let system = System::from_toml(&file(&kind, 1), "system.toml").unwrap();
    let hosts = hosts(&system);
    let asked = std::cell::Cell::new(0);
    // Whatever it finds in a moment will do.
    let is_over = || {
        asked.set(asked.get() + 1);
        asked.get() > 400
    };
    plan(&Question { system: &system, hosts: &hosts, from: None, proof: false, is_over: &is_over });
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
    let peak: u64 = peak.unwrap().trim().parse().unwrap();
    assert!(peak < MOST_KIB, "{peak} KiB");
}
