//! Worths that are reckoned by hand, and claims that are wrong.

use super::*;
use crate::certificate::{Place, ProvenGoal, goals_match, places_match};
use crate::fixture::*;
use model::plan::{Elsewhere, OtherPlace};
use units::{Bytes, Micros};

/// One that spans the two nodes of a, one on each node of b.
fn three() -> (Case, Plan) {
    let talks = |to: &str, rate: u32| format!("talks_to = {{ {to} = {{ bytes_per_s = {rate} }} }}");
    let text = hosts(&["a", "b"])
        + &partition("x", "cpus = 12\nmemory_mib = 5001", &talks("y", 100))
        + &partition("y", "cpus = 2", &talks("z", 30))
        + &partition("z", "memory_mib = 3000", &talks("y", 5));
    let case = Case::of(&text);
    let mut plan = case.plan(vec![
        at("x", "a", &[seat(0, "1-3,5-7", 2501), seat(1, "8-13", 2501)]),
        at("y", "b", &[seat(0, "1-2", 256)]),
        at("z", "b", &[seat(1, "8", 3000)]),
    ]);
    plan.talks = vec![
        talk("x", "y", 100, Level::Switch, 500),
        talk("y", "z", 30, Level::Host, 10),
        talk("z", "y", 5, Level::Host, 10),
    ];
    for (claim, value) in plan.goals.iter_mut().zip([0, 2, 2, 100, 70, 100]) {
        (claim.value, claim.least) = (value, value);
    }
    (case, plan)
}

fn worth(case: &Case, plan: &Plan) -> [u64; 6] {
    goals(&case.system, &case.hosts, plan, None)
}

#[test]
fn a_plan_is_worth_what_its_places_are() {
    let (case, plan) = three();
    assert_eq!(case.broken(&plan), []);
    assert_eq!(worth(&case, &plan), [0, 2, 2, 100, 70, 100]);
    // What crosses no socket counts once, what stays in a node not at all.
    let text = hosts(&["a"]).replace("socket = 1", "socket = 0");
    let text =
        text + &partition("x", "", "talks_to = { y = { bytes_per_s = 100 } }") + &partition("y", "", "");
    let case = Case::of(&text);
    let plan = |node: u32, cpu: &str| {
        case.plan(vec![at("x", "a", &[seat(0, "1", 256)]), at("y", "a", &[seat(node, cpu, 256)])])
    };
    // One CPU of six is 16.7 %.
    assert_eq!(worth(&case, &plan(1, "8")), [0, 1, 0, 0, 100, 17]);
    assert_eq!(worth(&case, &plan(0, "2")), [0, 1, 0, 0, 0, 34]);
}

#[test]
fn moves_are_of_those_who_were_there_before() {
    let (case, plan) = three();
    let moves = |change: &dyn Fn(&mut Plan)| {
        let mut from = plan.clone();
        change(&mut from);
        goals(&case.system, &case.hosts, &plan, Some(&from))[0]
    };
    assert_eq!(moves(&|_| {}), 0);
    assert_eq!(moves(&|from| from.partitions[0].host = "b".to_owned()), 1);
    assert_eq!(moves(&|from| from.partitions[1].seats[0].node = 1), 1);
    assert_eq!(moves(&|from| from.partitions[0].seats.reverse()), 0);
    assert_eq!(
        moves(&|from| from.partitions[1].seats[0] = seat(0, "5-6", 1)),
        0,
        "other CPUs of a node are no move"
    );
    assert_eq!(moves(&|from| from.partitions[2].name = "old".to_owned()), 0);
    assert_eq!(moves(&|from| from.partitions.clear()), 0);
}

#[test]
fn the_fullest_node_is_that_of_cpus_or_memory() {
    for (keys, needs, node, cpus, mib, wanted) in [
        ("cpus = 2", "", 0, "1-2", 256, 34),
        // 3048 of 4096 MiB.
        ("memory_mib = 3000", "", 1, "8", 3000, 75),
        // Two whole cores of three.
        ("cpus = 3", "isolation = \"core\"", 0, "1,5,2", 256, 67),
        // Half of two CPUs, of six.
        ("cpus = 2", "cpu = \"shared\", share_percent = 50", 0, "1-3", 256, 17),
        // QEMU's own of what is no huge page: 48 of 4096; one CPU of eight is more.
        ("memory_mib = 4096\nhugepages = true", "", 1, "8", 4096, 13),
    ] {
        let case = Case::of(&(hosts(&["a"]) + &partition("x", keys, needs)));
        let plan = case.plan(vec![at("x", "a", &[seat(node, cpus, mib)])]);
        assert_eq!((case.broken(&plan), worth(&case, &plan)[5]), (vec![], wanted), "{keys} {needs}");
    }
    // A channel is its writer's, and all of the first node is the host's own but for the rest of 7168 MiB.
    let text = hosts(&["a"]) + &partition("x", "", "") + &partition("y", "", "");
    let case = Case::of(&(text + "[channel.c]\nwriter = \"x\"\nreaders = [\"y\"]\nsize_mib = 1024\n"));
    let plan = case.plan(vec![at("x", "a", &[seat(0, "1", 3000)]), at("y", "a", &[seat(1, "8", 256)])]);
    assert_eq!(worth(&case, &plan)[5], 57, "3000 + 48 + 1024 of 7168");
}

#[test]
fn replicas_speak_in_pairs_or_all_with_all() {
    for (first, second, wanted) in [
        (2, 2, vec![("x-1", "y-1", 100), ("x-2", "y-2", 100)]),
        (1, 1, vec![("x", "y", 100)]),
        (1, 3, vec![("x", "y-1", 34), ("x", "y-2", 34), ("x", "y-3", 34)]),
        (
            3,
            2,
            vec![
                ("x-1", "y-1", 17),
                ("x-1", "y-2", 17),
                ("x-2", "y-1", 17),
                ("x-2", "y-2", 17),
                ("x-3", "y-1", 17),
                ("x-3", "y-2", 17),
            ],
        ),
    ] {
        let needs = |count: u32, talks: &str| format!("replicas = {count}{talks}");
        let talks = ", talks_to = { y = { bytes_per_s = 100 } }";
        let text = hosts(&["a"])
            + &partition("x", "", &needs(first, talks))
            + &partition("y", "", &needs(second, ""));
        assert_eq!(spoken(&Case::of(&text)), wanted.into_iter().map(owned).collect::<Vec<_>>());
    }
    // With itself: each two of them once.
    let text = hosts(&["a"]) + &partition("x", "", "replicas = 3, talks_to = { x = { bytes_per_s = 100 } }");
    let wanted = [("x-1", "x-2", 34), ("x-1", "x-3", 34), ("x-2", "x-3", 34)];
    assert_eq!(spoken(&Case::of(&text)), wanted.map(owned));
}

fn owned((from, to, rate): (&str, &str, u64)) -> (String, String, u64) {
    (from.to_owned(), to.to_owned(), rate)
}

fn spoken(case: &Case) -> Vec<(String, String, u64)> {
    let names = case.system.set.partitions.keys().flat_map(|of| {
        (1..=case.system.replicas(of))
            .map(|replica| case.system.replica_name(of, replica))
            .collect::<Vec<_>>()
    });
    let plan = case.plan(names.map(|name| at(&name, "a", &[seat(0, "1", 256)])).collect());
    let hosts = Host::all(&case.hosts);
    let world = World::of(&case.system, &hosts, &plan);
    let talks = world.talks().into_iter();
    talks.map(|talk| (talk.from.placed.name.clone(), talk.to.placed.name.clone(), talk.rate)).collect()
}

/// What is changed, and what is told then.
type Change<'a> = (&'a dyn Fn(&mut Plan), &'a str);

#[test]
fn wrong_claims_are_told() {
    let (case, plan) = three();
    let wrong = |plan: &Plan| wrong_claims(&case.system, &case.hosts, plan, None);
    assert_eq!(wrong(&plan), Vec::<String>::new());
    let changes: [Change<'_>; 17] = [
        (&|plan| plan.schema_version = 9, "schema_version is 9, wanted 1"),
        (&|plan| plan.system = "other".to_owned(), "a plan of \"other\", not of \"plant\""),
        (&|plan| plan.goals.truncate(5), "goals: wanted moves, hosts"),
        (&|plan| plan.goals.swap(0, 1), "goals: wanted moves, hosts"),
        (&|plan| plan.goals[1].value = 3, "hosts says 3, and is 2"),
        (&|plan| plan.goals[5].value = 101, "fullest_node says 101, and is 100"),
        (&|plan| plan.goals[1].least = 3, "hosts says that none is below 3, and is 2 itself"),
        (&|plan| plan.hosts[0].set_file = None, "hosts: \"a\" has partitions and no set_file"),
        (&|plan| plan.hosts[0].name = "z".to_owned(), "hosts: there is no host \"z\""),
        (&|plan| drop(plan.hosts.remove(1)), "hosts: \"b\" is missing"),
        (&|plan| plan.hosts.push(plan.hosts[0].clone()), "hosts: \"a\" is there twice"),
        (&|plan| drop(plan.talks.pop()), "talks: from \"z\" to \"y\" is missing"),
        (
            &|plan| plan.talks.push(talk("x", "z", 1, Level::Switch, 1)),
            "talks: nobody needs one from \"x\" to \"z\"",
        ),
        (&|plan| plan.talks.push(plan.talks[0].clone()), "talks: from \"x\" to \"y\" is there twice"),
        (
            &|plan| plan.talks[0].bytes_per_s = Bytes::from_bytes(99),
            "bytes_per_s from \"x\" to \"y\" says 99, and is 100",
        ),
        (
            &|plan| plan.talks[1].latency_us = Micros::from_micros(5),
            "latency_us from \"y\" to \"z\" says 5, and is 10",
        ),
        (&|plan| plan.talks[1].within = Level::Node, "says within a node, and is within a host"),
    ];
    for (change, told) in changes {
        let mut claims = plan.clone();
        change(&mut claims);
        let wrong = wrong(&claims);
        assert!(wrong.iter().any(|wrong| wrong.contains(told)), "{told}: {wrong:?}");
        assert_eq!(
            wrong.len(),
            1 + usize::from(told.contains("\"z\"") && told.contains("no host")),
            "{wrong:?}"
        );
    }
    let mut emptied = plan.clone();
    emptied.partitions.truncate(1);
    assert!(
        wrong(&emptied)
            .iter()
            .any(|wrong| wrong == "hosts: \"b\" has no partitions, and set_file \"b.set.toml\"")
    );
}

#[test]
fn wrong_claims_of_other_places_are_told() {
    let text = hosts(&["a"]) + &partition("x", "", "talks_to = { y = { bytes_per_s = 100 } }");
    let case = Case::of(&(text + &partition("y", "", "")));
    let wrong = |node: u32, (to, nodes): (&str, &str), goals: &[(Goal, u64)]| {
        let mut plan =
            case.plan(vec![at("x", "a", &[seat(0, "1", 256)]), at("y", "a", &[seat(node, "2", 256)])]);
        let goals = goals.iter().map(|&(goal, value)| OtherValue { goal, value }).collect();
        plan.partitions[1].elsewhere = Some(Elsewhere {
            places: 1,
            looked_at: 1,
            possible: 1,
            not_known: 0,
            best: Some(OtherPlace { host: to.to_owned(), nodes: nodes.parse().unwrap(), goals }),
            refused: Vec::new(),
        });
        wrong_elsewhere(&case.system, &case.hosts, &plan, None)
    };
    // The two nodes are of two sockets.
    let right = [(Goal::BetweenNodes, 200), (Goal::FullestNode, 17)];
    assert_eq!(wrong(0, ("a", "1"), &right), [""; 0]);
    for lie in [&right[..1], &[], &[(Goal::BetweenNodes, 100), right[1]], &[right[1], right[0]]] {
        assert_eq!(wrong(0, ("a", "1"), lie), ["y: what its place at a 1 would cost is not so"]);
    }
    for (host, nodes) in [("a", "0"), ("a", "0-1"), ("a", "7"), ("b", "0")] {
        let told = wrong(0, (host, nodes), &right);
        assert_eq!(told, [format!("y has no other place at {host} {nodes}")]);
    }
    let better = [(Goal::BetweenNodes, 0), (Goal::FullestNode, 34)];
    assert_eq!(wrong(1, ("a", "0"), &better), ["y would be better at a 0"]);
}

#[test]
fn a_certificate_is_that_of_a_plan_or_not() {
    let (_, plan) = three();
    let place = |replica: &str, host: &str, node: u32| Place {
        replica: replica.to_owned(),
        host: host.to_owned(),
        node,
    };
    let places = [place("x", "a", 0), place("x", "a", 1), place("y", "b", 0), place("z", "b", 1)];
    assert_eq!(places_match(&plan, &places), Vec::<String>::new());
    assert_eq!(
        places_match(&plan, &places[1..]),
        ["\"x\" on node 0 of \"a\" is in the plan, not in the certificate's solution"]
    );
    let mut other = places.to_vec();
    other[3].node = 0;
    assert_eq!(places_match(&plan, &other).len(), 2);
    let goals = |change: &dyn Fn(&mut Vec<ProvenGoal>)| {
        let claims = plan.goals.iter();
        let mut goals: Vec<ProvenGoal> = claims
            .map(|claim| ProvenGoal {
                name: claim.goal.word().to_owned(),
                least: claim.least,
                value: claim.value,
            })
            .collect();
        change(&mut goals);
        goals_match(&plan, &goals)
    };
    assert_eq!(goals(&|_| {}), Vec::<String>::new());
    assert_eq!(goals(&|goals| drop(goals.pop())), ["fullest_node: the certificate says nothing of it"]);
    assert_eq!(
        goals(&|goals| goals[4].least = 69),
        ["between_nodes: the plan says 70 with at least 70, the certificate proves 70 with at least 69"]
    );
    assert!(goals(&|goals| goals.swap(1, 2))[0].contains("in another order"));
    assert_eq!(goals(&|goals| goals[1].name = "host".to_owned()).len(), 2);
}
