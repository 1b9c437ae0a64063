//! What each replica has for itself: `placed` to `memory`, `deadline`, `downtime`.

use super::*;

fn one_web(keys: &str, needs: &str) -> Case {
    Case::of(&(hosts(&["a", "b"]) + &partition("web", keys, needs)))
}

fn is_told(told: &[String], what: &str) {
    assert!(told.iter().any(|told| told.contains(what)), "{what}: {told:#?}");
}

#[test]
fn placed() {
    let case = one_web("", "replicas = 2, hosts = [\"a\", \"b\"]");
    let plan =
        case.plan(vec![at("web-1", "a", &[seat(0, "1", 256)]), at("web-2", "b", &[seat(0, "1", 256)])]);
    let breaks = |change: &dyn Fn(&mut Plan)| case.breaks(&plan, Rule::Placed, |plan| change(plan));
    is_told(&breaks(&|plan| drop(plan.partitions.pop())), "web-2: wanted one place for it, got 0");
    is_told(
        &breaks(&|plan| plan.partitions[0].host = "z".to_owned()),
        "web-1: it is on host \"z\", and there is none",
    );
    is_told(
        &breaks(&|plan| plan.partitions[0].name = "wob-1".to_owned()),
        "wob-1: the system has no such replica",
    );
    is_told(
        &breaks(&|plan| plan.partitions[0].of = "wob".to_owned()),
        "web-1: the system has no such replica",
    );
    is_told(
        &breaks(&|plan| plan.partitions[0].replica = 2),
        "web-1: the system has no such replica (number 2",
    );
    is_told(
        &breaks(&|plan| plan.partitions[1].replica = 0),
        "web-2: the system has no such replica (number 0",
    );
    is_told(
        &breaks(&|plan| plan.partitions.push(at("more", "a", &[seat(0, "2", 1)]))),
        "more: the system has no such",
    );
    let twice = |plan: &mut Plan| {
        let mut second = plan.partitions[1].clone();
        second.host = "z".to_owned();
        plan.partitions.push(second);
    };
    is_told(&breaks(&twice), "web-2: wanted one place for it, got 2");
}

#[test]
fn placed_on_one_of_its_hosts_or_of_a_kind_of_them() {
    let shape = TWO_NODES.replace("NAME", "rack");
    let text = hosts(&["a"]) + &format!("[host.rack]\ncount = 3{shape}");
    for (hosts, right, wrong) in [
        ("[\"rack\"]", "rack-3", "a"),
        ("[\"rack-2\"]", "rack-2", "rack-3"),
        ("[\"a\"]", "a", "rack-1"),
        ("[\"a\", \"rack-2\"]", "rack-2", "rack-1"),
    ] {
        let case = Case::of(&(text.clone() + &partition("web", "", &format!("hosts = {hosts}"))));
        let plan = case.plan(vec![at("web", right, &[seat(0, "1", 256)])]);
        let told = case.breaks(&plan, Rule::Placed, |plan| plan.partitions[0].host = wrong.to_owned());
        is_told(&told, &format!("and is on {wrong}"));
    }
}

#[test]
fn nodes() {
    // A node has 6 or 8 CPUs that are free: 12 CPUs are two parts of 6, 5000 MiB are more than a node's and two parts of 2500.
    let case = one_web("cpus = 12\nmemory_mib = 5001", "");
    let plan = case.plan(vec![at("web", "a", &[seat(0, "1-3,5-7", 2501), seat(1, "8-13", 2501)])]);
    let breaks = |change: &dyn Fn(&mut Plan)| case.breaks(&plan, Rule::Nodes, |plan| change(plan));
    is_told(&breaks(&|plan| drop(plan.partitions[0].seats.pop())), "web: wanted parts on 2 nodes, got 1");
    is_told(&breaks(&|plan| plan.partitions[0].seats[1].node = 7), "web: a has no node 7");
    is_told(
        &breaks(&|plan| plan.partitions[0].seats[1].memory_mib = units::Mebibytes::from_mib(2500)),
        "wanted 2501 MiB",
    );
    let mut twice = plan.clone();
    twice.partitions[0].seats[1].node = 0;
    let told: Vec<String> = case.broken(&twice).iter().map(ToString::to_string).collect();
    is_told(&told, "nodes: web: it has two parts on node 0 of a");
    // It follows from the system: in a node that is large enough it is not divided.
    let case = one_web("cpus = 6", "");
    let plan = case.plan(vec![at("web", "a", &[seat(0, "1-3,5-7", 256)])]);
    let divided = vec![seat(0, "1-3", 128), seat(1, "8-10", 128)];
    let mut changed = plan.clone();
    changed.partitions[0].seats = divided;
    assert_eq!(case.broken(&plan), []);
    assert!(case.broken(&changed).iter().any(|broken| broken.rule == Rule::Nodes));
    // Nothing has room for a seventh of it.
    let case = one_web("cpus = 7\nmemory_mib = 500000", "");
    let plan = case.plan(vec![at("web", "a", &[seat(0, "1-7", 500_000)])]);
    is_told(
        &case.broken(&plan).iter().map(ToString::to_string).collect::<Vec<_>>(),
        "no node of any host has room",
    );
}

#[test]
fn nodes_give_no_more_whole_cores_than_are_needed() {
    let case = one_web("cpus = 3", "isolation = \"core\"");
    let plan = case.plan(vec![at("web", "a", &[seat(0, "1,2,5", 256)])]);
    let told = case.breaks(&plan, Rule::Nodes, |plan| plan.partitions[0].seats[0] = seat(0, "1-3", 256));
    is_told(&told, "wanted 2 whole cores of node 0, got 3");
    // Seven CPUs are four cores, and a node has three that are free, or four.
    let case = one_web("cpus = 7", "isolation = \"core\"");
    assert_eq!(case.broken(&case.plan(vec![at("web", "a", &[seat(1, "8-14", 256)])])), []);
}

#[test]
fn memory_of_the_first_node_is_less_by_what_is_reserved() {
    // 8192 - 1024 - 48, and 4096 - 48 without huge pages.
    for (keys, mib, is_one) in [
        ("", 7120, true),
        ("", 7121, false),
        ("hugepages = true", 4096, true),
        ("hugepages = true", 4097, false),
    ] {
        let case = one_web(&format!("cpus = 2\nmemory_mib = {mib}\n{keys}"), "");
        let node = u32::from(!keys.is_empty());
        let cpus = ["1-2", "8-9"][node as usize];
        let plan = case.plan(vec![at("web", "a", &[seat(node, cpus, mib)])]);
        assert_eq!(case.broken(&plan).is_empty(), is_one, "{keys} {mib}: {:?}", case.broken(&plan));
        let is_divided = case.broken(&plan).iter().any(|broken| broken.rule == Rule::Nodes);
        assert_ne!(is_divided, is_one, "{keys} {mib}: what does not fit must be in two parts");
    }
}

#[test]
fn reserved() {
    let case = one_web("", "");
    let plan = case.plan(vec![at("web", "a", &[seat(0, "1", 256)])]);
    assert_eq!(plan.hosts[0].reserved_cpus.to_string(), "0,4");
    let told = case.breaks(&plan, Rule::Reserved, |plan| plan.partitions[0].seats[0] = seat(0, "4", 256));
    is_told(&told, "web: it has CPU 4, which is a's own");
    let told =
        case.breaks(&plan, Rule::Reserved, |plan| plan.hosts[1].reserved_cpus = "0-1".parse().unwrap());
    is_told(&told, "the own CPUs of \"b\" are \"0,4\", got \"0-1\"");
    // The first core is that of the lowest CPU, wherever it stands.
    let turned =
        hosts(&["a"]).replace("\"0,4\", \"1,5\", \"2,6\", \"3,7\"", "\"3,7\", \"1,5\", \"4,0\", \"2,6\"");
    assert!(turned.contains("\"4,0\""));
    let case = Case::of(&(turned + &partition("web", "", "")));
    let plan = case.plan(vec![at("web", "a", &[seat(0, "3", 256)])]);
    assert_eq!((case.broken(&plan), plan.hosts[0].reserved_cpus.to_string()), (vec![], "0,4".to_owned()));
    // Nine are four whole cores of the first node, and one of the second.
    let text = hosts(&["a"]).replace("reserve_cpus = 2", "reserve_cpus = 9") + &partition("web", "", "");
    let case = Case::of(&text);
    let plan = case.plan(vec![at("web", "a", &[seat(1, "9", 256)])]);
    assert_eq!((case.broken(&plan), plan.hosts[0].reserved_cpus.to_string()), (vec![], "0-8,12".to_owned()));
}

#[test]
fn cpus() {
    let text = hosts(&["a"]) + &partition("web", "cpus = 2", "") + &partition("db", "", "");
    let shared = "cpu = \"shared\", share_percent = 50";
    let text = text + &partition("x", "cpus = 2", shared) + &partition("y", "", shared);
    let case = Case::of(&text);
    let plan = case.plan(vec![
        at("web", "a", &[seat(0, "1-2", 256)]),
        at("db", "a", &[seat(0, "5", 256)]),
        at("x", "a", &[seat(1, "8-9", 256)]),
        at("y", "a", &[seat(1, "8-9", 256)]),
    ]);
    let breaks = |place: usize, cpus: &str| {
        case.breaks(&plan, Rule::Cpus, |plan| plan.partitions[place].seats[0].cpus = cpus.parse().unwrap())
    };
    is_told(&breaks(0, "1-3"), "web: wanted 2 whole CPUs on node 0, got 3");
    is_told(&breaks(0, ""), "web: wanted 2 whole CPUs on node 0, got 0");
    is_told(&breaks(0, "1,10"), "web: CPU 10 is none of node 0 of a");
    is_told(&breaks(0, "1,99"), "web: CPU 99 is none of node 0 of a");
    is_told(&breaks(0, "1,5"), "web, db: both have CPU 5 of a");
    is_told(&breaks(1, "8"), "db, x: both have CPU 8 of a");
    is_told(
        &breaks(3, "8-10"),
        "x, y: shared CPUs of node 1 of a are the same for all, got \"8-9\" and \"8-10\"",
    );
}

#[test]
fn pool() {
    let shared = |percent: u32| format!("cpu = \"shared\", share_percent = {percent}");
    // 2 × 60 + 80 percent are two CPUs.
    let text = hosts(&["a"]) + &partition("x", "cpus = 2", &shared(60)) + &partition("y", "", &shared(80));
    let plan = |case: &Case, cpus: &str| {
        case.plan(["x", "y"].map(|name| at(name, "a", &[seat(0, cpus, 256)])).to_vec())
    };
    let case = Case::of(&text);
    assert_eq!(case.broken(&plan(&case, "1-2")), []);
    let small = plan(&case, "1");
    let told: Vec<String> = case.broken(&small).iter().map(ToString::to_string).collect();
    assert!(case.broken(&small).iter().all(|broken| broken.rule == Rule::Pool));
    is_told(&told, "x: it has 2 CPUs, and node 0 of a shares 1");
    is_told(&told, "x, y: they want 200 percent of a CPU of node 0 of a, which shares 1");
    let case = Case::of(&text.replace("= 80", "= 81"));
    let told: Vec<String> = case.broken(&plan(&case, "1-2")).iter().map(ToString::to_string).collect();
    assert_eq!(told, ["pool: x, y: they want 201 percent of a CPU of node 0 of a, which shares 2"]);
    assert_eq!(case.broken(&plan(&case, "1-3")), []);
}

#[test]
fn memory() {
    // With a channel and twice QEMU's own: 3500 + 3500 + 72 + 96 is 7168.
    let text = hosts(&["a"])
        + &partition("web", "memory_mib = 3500", "")
        + &partition("db", "memory_mib = 3500", "");
    let case = |mib: u64, size: u64| {
        let text = text.replacen("3500", &mib.to_string(), 1);
        Case::of(&(text + &format!("[channel.c]\nwriter = \"web\"\nreaders = [\"db\"]\nsize_mib = {size}\n")))
    };
    let plan = |case: &Case, mib: u64| {
        case.plan(vec![at("web", "a", &[seat(0, "1", mib)]), at("db", "a", &[seat(0, "2", 3500)])])
    };
    let right = case(3508, 64);
    assert_eq!(right.broken(&plan(&right, 3508)), []);
    for (mib, size, wanted) in [(3509, 64, 7169), (3508, 128, 7232)] {
        let wrong = case(mib, size);
        let told: Vec<String> = wrong.broken(&plan(&wrong, mib)).iter().map(ToString::to_string).collect();
        let wanted =
            format!("memory: web, db: node 0 of a: {wanted} MiB of memory are wanted there, and it has 7168");
        assert_eq!(told, [wanted]);
    }
    // Huge pages are no memory for others, and their owner takes QEMU's own from the rest.
    let huge = |mib: u64, plain: u64| {
        let keys = format!("memory_mib = {mib}\nhugepages = true");
        let text = hosts(&["a"])
            + &partition("web", &keys, "")
            + &partition("db", &format!("memory_mib = {plain}"), "");
        let case = Case::of(&text);
        let plan =
            case.plan(vec![at("web", "a", &[seat(1, "8", mib)]), at("db", "a", &[seat(1, "9", plain)])]);
        case.broken(&plan).iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(huge(4096, 4000), Vec::<String>::new());
    is_told(&huge(4096, 4001), "4097 MiB of memory are wanted there, and it has 4096");
}

#[test]
fn deadline() {
    let needs = |within: u32, rate: &str| {
        format!(
            "deadline = {{ period_us = 1000, runtime_us = 100, within_us = {within}, miss_rate = {rate} }}"
        )
    };
    for (within, rate, is_kept) in [
        (150, "0.001", true),
        (149, "0.001", false),
        (150, "0.0009", false),
        (300, "0.0009", true),
        (299, "0.0009", false),
    ] {
        let case = one_web("", &needs(within, rate));
        let plan = case.plan(vec![at("web", "a", &[seat(0, "1", 256)])]);
        let broken = case.broken(&plan);
        assert_eq!(broken.is_empty(), is_kept, "{within} {rate}: {broken:?}");
        assert!(broken.iter().all(|broken| broken.rule == Rule::Deadline));
    }
    let mut case = one_web("", &needs(500, "0.1"));
    let plan = case.plan(vec![at("web", "a", &[seat(0, "1", 256)])]);
    assert_eq!(case.broken(&plan), []);
    case.hosts[0].shape.facts.wakeup.clear();
    is_told(&[case.broken(&plan)[0].to_string()], "deadline: web: nothing is known of a");
    let told = case.broken(&case.plan(vec![at("web", "b", &[seat(0, "1", 256)])]));
    assert_eq!(told, [], "the other host is another one");
}

#[test]
fn downtime() {
    let case = one_web("", "max_downtime_ms = 22000");
    let plan = case.plan(vec![spare(at("web", "a", &[seat(0, "1", 256)]), "b", &[1])]);
    let breaks = |change: &dyn Fn(&mut model::plan::Spare)| {
        case.breaks(&plan, Rule::Downtime, |plan| {
            change(plan.partitions[0].spare.as_mut().expect("it has one"));
        })
    };
    is_told(&breaks(&|spare| spare.host = "a".to_owned()), "web: its spare is on a, where it is itself");
    is_told(
        &breaks(&|spare| spare.host = "z".to_owned()),
        "web: its spare is on host \"z\", and there is none",
    );
    is_told(
        &breaks(&|spare| spare.nodes = "2".parse().unwrap()),
        "its spare is on node 2 of b, and there is none",
    );
    is_told(
        &breaks(&|spare| spare.nodes = "0-1".parse().unwrap()),
        "wanted 1 nodes for its spare on b, got 2",
    );
    is_told(
        &case.breaks(&plan, Rule::Downtime, |plan| plan.partitions[0].spare = None),
        "neither a spare nor",
    );
    // 20 s of start, and 2 s until it is noticed, by the slowest of all.
    let mut slower = one_web("", "max_downtime_ms = 22000");
    slower.hosts[0].shape.facts.detect_ms =
        Some(model::system::Interval::One(units::Millis::from_millis(2001)));
    is_told(
        &[slower.broken(&plan)[0].to_string()],
        "it may be away for 22000 ms, and its spare on b is up after 22001 ms",
    );
    let free = one_web("", "");
    is_told(&[free.broken(&plan)[0].to_string()], "it may be away for any time, and has a spare");
    let bound = one_web("", "max_downtime_ms = 22000, hosts = [\"a\"]");
    is_told(&[bound.broken(&plan)[0].to_string()], "it may be on a, and its spare is on b");
    let due = "deadline = { period_us = 1000, runtime_us = 100, within_us = 200, miss_rate = 0.01 }";
    let mut due = one_web("", &format!("max_downtime_ms = 22000, {due}"));
    assert_eq!(due.broken(&plan), []);
    due.hosts[1].shape.facts.wakeup.clear();
    is_told(&[due.broken(&plan)[0].to_string()], "its deadline cannot be kept on b");
}

#[test]
fn downtime_of_replicas_that_go_on() {
    let needs = |most: u32, apart: &str| format!("replicas = 2, max_downtime_ms = {most}{apart}");
    let placed = || vec![at("web-1", "a", &[seat(0, "1", 256)]), at("web-2", "b", &[seat(0, "1", 256)])];
    let case = one_web("", &needs(2000, ""));
    let plan = case.plan(placed());
    let told = case.breaks(&plan, Rule::Downtime, |plan| {
        plan.partitions[0] = spare(plan.partitions[0].clone(), "b", &[0]);
    });
    is_told(&told, "so it needs no spare, and has one");
    for wrong in [needs(1999, ""), needs(60_000, ", apart = \"node\"")] {
        let case = one_web("", &wrong);
        let broken = case.broken(&plan);
        assert_eq!(
            broken.iter().map(|broken| broken.rule).collect::<Vec<_>>(),
            [Rule::Downtime; 2],
            "{wrong}"
        );
    }
}

/// Each dead host by itself: spares of two hosts may have the same room.
#[test]
fn downtime_keeps_room_for_those_of_one_host_at_a_time() {
    let needs = "max_downtime_ms = 60000";
    let text = |cpus: u32, mib: u32| {
        let keys = format!("cpus = {cpus}\nmemory_mib = {mib}");
        hosts(&["a", "b", "c"])
            + &partition("x", &keys, needs)
            + &partition("y", &keys, needs)
            + &partition("z", "cpus = 2", "")
    };
    let plan = |case: &Case, mib: u64, cpus: [&str; 2], second: &str| {
        case.plan(vec![
            spare(at("x", "a", &[seat(0, cpus[0], mib)]), "c", &[1]),
            spare(at("y", second, &[seat(1, cpus[1], mib)]), "c", &[1]),
            at("z", "c", &[seat(1, "8-9", 256)]),
        ])
    };
    let case = Case::of(&text(6, 3000));
    assert_eq!(case.broken(&plan(&case, 3000, ["1-3,5-7", "8-13"], "b")), []);
    let told: Vec<String> =
        case.broken(&plan(&case, 3000, ["1-3,5-7", "8-13"], "a")).iter().map(ToString::to_string).collect();
    is_told(
        &told,
        "x, y: when a dies they come to node 1 of c: 1400 percent of a CPU are wanted there, and it has 800",
    );
    is_told(
        &told,
        "x, y: when a dies they come to node 1 of c: 6400 MiB of memory are wanted there, and it has 4096",
    );
    assert!(told.iter().all(|told| told.starts_with("downtime")));
}

/// Its channel comes with it: 3024 + 48 + 1024 MiB are what the second node has without its huge pages.
#[test]
fn downtime_keeps_room_for_channels() {
    for (mib, wanted) in [(3024, None), (3025, Some("4097 MiB of memory are wanted there, and it has 4096"))]
    {
        let keys = format!("memory_mib = {mib}");
        let text =
            hosts(&["a", "b"]) + &partition("x", &keys, "max_downtime_ms = 60000") + &partition("y", "", "");
        let case = Case::of(&(text + "[channel.c]\nwriter = \"x\"\nreaders = [\"y\"]\nsize_mib = 1024\n"));
        let x = spare(at("x", "a", &[seat(0, "1", mib)]), "b", &[1]);
        let plan = case.plan(vec![x, at("y", "a", &[seat(0, "2", 256)])]);
        let told: Vec<String> = case.broken(&plan).iter().map(ToString::to_string).collect();
        match wanted {
            Some(wanted) => is_told(&told, wanted),
            None => assert_eq!(told, Vec::<String>::new()),
        }
    }
}
