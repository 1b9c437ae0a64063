//! What replicas have in common, or not: `core` to `near`.

use model::plan::Placed;

use super::*;

fn told(case: &Case, plan: &Plan) -> Vec<String> {
    case.broken(plan).iter().map(ToString::to_string).collect()
}

/// Two partitions on hosts a and b.
fn two(keys: &str, first: &str, second: &str) -> Case {
    Case::of(&(hosts(&["a", "b"]) + &partition("x", keys, first) + &partition("y", keys, second)))
}

#[test]
fn core() {
    let case = two("", "isolation = \"core\"", "");
    let plan = case.plan(vec![at("x", "a", &[seat(0, "1", 256)]), at("y", "a", &[seat(0, "2", 256)])]);
    let broken = case.breaks(&plan, Rule::Core, |plan| plan.partitions[1].seats[0] = seat(0, "5", 256));
    assert_eq!(broken, ["core: x, y: both have a core of node 0 of a"]);
    // Nobody asks for it: threads of a core are two CPUs.
    let case = two("", "", "");
    let plan = case.plan(vec![at("x", "a", &[seat(0, "1", 256)]), at("y", "a", &[seat(0, "5", 256)])]);
    assert_eq!(case.broken(&plan), []);
}

/// Where the second one may be, and where not, for each part of the world: host, node, CPU.
#[test]
fn isolation() {
    for (level, right, wrong) in [
        ("cache", ("a", 0, "2"), ("a", 0, "5")),
        ("node", ("a", 1, "8"), ("a", 0, "2")),
        ("socket", ("a", 1, "8"), ("a", 0, "2")),
        ("host", ("b", 0, "1"), ("a", 1, "8")),
        ("switch", ("b", 0, "1"), ("a", 1, "8")),
    ] {
        let place = |(host, node, cpus): (&str, u32, &str)| at("y", host, &[seat(node, cpus, 256)]);
        for asks in [["isolation = \"LEVEL\"", ""], ["", "isolation = \"LEVEL\", isolated_from = [\"x\"]"]] {
            let [first, second] = asks.map(|needs| needs.replace("LEVEL", level));
            let case = two("", &first, &second);
            let plan = case.plan(vec![at("x", "a", &[seat(0, "1", 256)]), place(right)]);
            let broken = case.breaks(&plan, Rule::Isolation, |plan| plan.partitions[1] = place(wrong));
            assert_eq!(broken.len(), 1, "{broken:?}");
            assert!(broken[0].starts_with("isolation: x, y: both have"), "{broken:?}");
        }
    }
}

#[test]
fn isolation_from_those_that_are_named_or_from_all() {
    let text = hosts(&["a"]) + &partition("y", "", "") + &partition("z", "", "");
    let places = |names: [&str; 3]| -> Vec<Placed> {
        names
            .into_iter()
            .zip(["1", "5", "3"])
            .map(|(name, cpu)| at(name, "a", &[seat(0, cpu, 256)]))
            .collect()
    };
    let named = |from: &str| {
        let needs = format!("isolation = \"node\", isolated_from = {from}");
        let case = Case::of(&(text.clone() + &partition("x", "", &needs)));
        told(&case, &case.plan(places(["x", "y", "z"])))
    };
    assert_eq!(named("[\"z\"]"), ["isolation: x, z: both have node 0 of a"]);
    assert_eq!(named("[\"y\", \"z\"]").len(), 2);
    // Its own replicas are others, too, unless others are named.
    for (from, wanted) in [("", 3), (", isolated_from = [\"x\"]", 1), (", isolated_from = [\"z\"]", 2)] {
        let needs = format!("replicas = 2, apart = \"cache\", isolation = \"node\"{from}");
        let case = Case::of(&(text.clone() + &partition("x", "", &needs)));
        let mut plan = case.plan(places(["x-1", "z", "x-2"]));
        plan.partitions.push(at("y", "a", &[seat(1, "9", 256)]));
        assert_eq!(told(&case, &plan).len(), wanted, "{from}: {:?}", told(&case, &plan));
    }
}

/// Its pool is at both caches, so a shared partition is.
#[test]
fn isolation_of_those_with_shared_cpus() {
    let case = two("", "isolation = \"cache\"", "cpu = \"shared\", share_percent = 50");
    let plan = case.plan(vec![at("x", "a", &[seat(0, "1", 256)]), at("y", "a", &[seat(0, "2-3", 256)])]);
    let broken =
        case.breaks(&plan, Rule::Isolation, |plan| plan.partitions[1].seats[0] = seat(0, "2-3,5", 256));
    assert_eq!(broken, ["isolation: x, y: both have a last-level cache of node 0 of a"]);
}

#[test]
fn apart() {
    for (needs, right, wrong) in [
        ("", ("b", 0, "1"), ("a", 1, "8")),
        (", apart = \"host\"", ("b", 0, "1"), ("a", 1, "8")),
        (", apart = \"switch\"", ("b", 0, "1"), ("a", 1, "8")),
        (", apart = \"socket\"", ("a", 1, "8"), ("a", 0, "2")),
        (", apart = \"node\"", ("a", 1, "8"), ("a", 0, "2")),
        (", apart = \"cache\"", ("a", 0, "2"), ("a", 0, "5")),
    ] {
        let case = Case::of(&(hosts(&["a", "b"]) + &partition("x", "", &format!("replicas = 2{needs}"))));
        let place = |(host, node, cpus): (&str, u32, &str)| at("x-2", host, &[seat(node, cpus, 256)]);
        let plan = case.plan(vec![at("x-1", "a", &[seat(0, "1", 256)]), place(right)]);
        let broken = case.breaks(&plan, Rule::Apart, |plan| plan.partitions[1] = place(wrong));
        assert!(broken[0].starts_with("apart: x-1, x-2: both have"), "{broken:?}");
    }
    // Two hosts at one switch.
    let text = hosts(&["a", "b"]).replace("reserve_cpus", "switch = \"s\"\nreserve_cpus");
    let case = Case::of(&(text + &partition("x", "", "replicas = 2, apart = \"switch\"")));
    let plan = case.plan(
        ["a", "b"]
            .into_iter()
            .zip(["x-1", "x-2"])
            .map(|(host, name)| at(name, host, &[seat(0, "1", 256)]))
            .collect(),
    );
    assert_eq!(told(&case, &plan), ["apart: x-1, x-2: both have switch s"]);
}

#[test]
fn alone() {
    let disk = |name: &str, more: &str| format!("[[partition.{name}.disk]]\nfile = \"/srv/d\"\n{more}\n");
    let case = |first: &str, second: &str| {
        Case::of(
            &(hosts(&["a", "b"])
                + &partition("x", first, "replicas = 2, apart = \"cache\"")
                + &partition("y", second, "")),
        )
    };
    let plan = |case: &Case, second: &str| {
        case.plan(vec![
            at("x-1", "a", &[seat(0, "1", 256)]),
            at("x-2", second, &[seat(0, "2", 256)]),
            at("y", "a", &[seat(1, "9", 256)]),
        ])
    };
    for (keys, what) in [("ports = [\"8080:80\"]", "port 8080"), ("save = \"/srv/s\"", "the folder /srv/s")] {
        let case = case(keys, "");
        let right = plan(&case, "b");
        let broken = case.breaks(&right, Rule::Alone, |plan| plan.partitions[1].host = "a".to_owned());
        assert_eq!(broken, [format!("alone: x-1, x-2: both want {what} of a")]);
    }
    let case = |more: &str| {
        Case::of(
            &(hosts(&["a", "b"])
                + &partition("x", "", "replicas = 2, apart = \"cache\"")
                + &disk("x", more)
                + &partition("y", "", "")),
        )
    };
    let written = case("");
    assert_eq!(
        told(&written, &plan(&written, "a")),
        ["alone: x-1, x-2: both want the disk /srv/d, not both to read only, of a"]
    );
    let read = case("read_only = true");
    assert_eq!(told(&read, &plan(&read, "a")), Vec::<String>::new());
}

/// Partitions of a set have different ports; those of one number at two addresses are two.
#[test]
fn alone_with_addresses() {
    let ports = |first: &str, second: &str| {
        let [first, second] = [first, second].map(|port| format!("ports = [\"{port}\"]"));
        let mut case = two("", "", "");
        case.system =
            Case::of(&(hosts(&["a", "b"]) + &partition("x", &first, "") + &partition("y", "", ""))).system;
        let other = Case::of(&(hosts(&["a", "b"]) + &partition("y", &second, ""))).system;
        case.system.set.partitions.extend(other.set.partitions);
        let plan = case.plan(vec![at("x", "a", &[seat(0, "1", 256)]), at("y", "a", &[seat(0, "2", 256)])]);
        told(&case, &plan).len()
    };
    assert_eq!(ports("127.0.0.1:80:80", "127.0.0.2:80:80"), 0);
    assert_eq!(ports("127.0.0.1:80:80", "0.0.0.0:80:81"), 1);
    assert_eq!(ports("80:80", "81:80"), 0);
}

#[test]
fn channel() {
    let text = hosts(&["a", "b"]) + &partition("x", "", "") + &partition("y", "", "");
    let case = Case::of(&(text + "[channel.c]\nwriter = \"x\"\nreaders = [\"y\"]\nsize_mib = 1\n"));
    let plan = case.plan(vec![at("x", "a", &[seat(0, "1", 256)]), at("y", "a", &[seat(0, "2", 256)])]);
    let broken = case.breaks(&plan, Rule::Channel, |plan| plan.partitions[1].host = "b".to_owned());
    assert_eq!(broken, ["channel: x, y: channel \"c\" is memory of one host, and they are on a, b"]);
}

#[test]
fn disks() {
    let needs = "disk = { bytes_per_s = 400, longest_stall_ms = 500 }";
    let case = two("", needs, "");
    let plan = |name: &str| {
        case.plan(vec![disk(at("x", "a", &[seat(0, "1", 256)]), name), at("y", "a", &[seat(0, "2", 256)])])
    };
    let right = plan("near");
    let breaks = |change: &dyn Fn(&mut Plan)| case.breaks(&right, Rule::Disk, |plan| change(plan));
    assert_eq!(breaks(&|plan| plan.partitions[0].disk = None), ["disk: x: it needs a disk, and has none"]);
    assert_eq!(
        breaks(&|plan| plan.partitions[0].disk = Some("sdz".to_owned())),
        ["disk: x: a has no disk \"sdz\""]
    );
    let extra = |plan: &mut Plan| plan.partitions[1].disk = Some("near".to_owned());
    assert_eq!(breaks(&extra), ["disk: y: it needs no disk, and has \"near\""]);
    let slow = breaks(&|plan| plan.partitions[0].disk = Some("anywhere".to_owned()));
    assert_eq!(slow.len(), 2, "80 of 100 bytes/s, and 1000 ms that are assumed: {slow:?}");
    // 400 + 400 is four fifths of 1001, rounded down; alone it stalls for 100 ms, with others for 500.
    for (second, longest, wanted) in [(400, 500, 0), (401, 500, 1), (400, 499, 1), (0, 100, 0), (0, 99, 1)] {
        let second = if second == 0 { String::new() } else { format!("disk = {{ bytes_per_s = {second} }}") };
        let is_alone = second.is_empty();
        let case = two("", &needs.replace("500", &longest.to_string()), &second);
        let y = at("y", "a", &[seat(0, "2", 256)]);
        let y = if is_alone { y } else { disk(y, "near") };
        let plan = case.plan(vec![disk(at("x", "a", &[seat(0, "1", 256)]), "near"), y]);
        let broken = case.broken(&plan);
        assert!(
            broken.len() == wanted && broken.iter().all(|one| one.rule == Rule::Disk),
            "{longest}: {broken:?}"
        );
    }
}

#[test]
fn network() {
    let case = |rate: u32, more: &str| {
        let needs = |rate: u32| format!("network = {{ bytes_per_s = {rate}, receives = true }}");
        let text = hosts(&["a", "b"]).replace("bytes_per_s = 1000\n", &format!("bytes_per_s = 1000\n{more}"));
        let text = text
            + &partition("w", "", "")
            + &partition("x", "", &needs(rate))
            + &partition("y", "", &needs(500));
        Case::of(&(text + &partition("z", "", "network = { bytes_per_s = 0, receives = true }")))
    };
    let plan = |case: &Case, third: &str| {
        let place =
            |(name, host, cpus): (&str, &str, &str)| nic(at(name, host, &[seat(0, cpus, 256)]), "eth0");
        let mut all: Vec<_> = [("x", "a", "1"), ("y", "a", "2"), ("z", third, "3")].map(place).to_vec();
        all.push(at("w", "a", &[seat(0, "5", 256)]));
        case.plan(all)
    };
    let right = case(500, "");
    let breaks =
        |change: &dyn Fn(&mut Plan)| right.breaks(&plan(&right, "b"), Rule::Network, |plan| change(plan));
    assert_eq!(
        breaks(&|plan| plan.partitions[0].nic = None),
        ["network: x: it needs a network card, and has none"]
    );
    assert_eq!(
        breaks(&|plan| plan.partitions[0].nic = Some("e".to_owned())),
        ["network: x: a has no network card \"e\""]
    );
    let extra = |plan: &mut Plan| plan.partitions[3].nic = Some("eth0".to_owned());
    assert_eq!(breaks(&extra), ["network: w: it needs no network card, and has \"eth0\""]);
    let many = breaks(&|plan| plan.partitions[2].host = "a".to_owned());
    assert_eq!(many, ["network: x, y, z: 3 receive through card \"eth0\" of a, which is predictable for 2"]);
    let three = case(500, "receivers = 3\n");
    assert_eq!(told(&three, &plan(&three, "a")), Vec::<String>::new());
    // What one card cannot carry, all cards of a host cannot, either, where it has one.
    let fast = case(501, "");
    let broken = fast.broken(&plan(&fast, "b"));
    assert_eq!(broken.iter().map(|broken| broken.rule).collect::<Vec<_>>(), [Rule::Network, Rule::Uplink]);
}

fn talking(talk: &str, links: &str) -> (Case, Plan) {
    let text =
        hosts(&["a", "b"]) + links + &partition("x", "", &format!("talks_to = {{ y = {{ {talk} }} }}"));
    let case = Case::of(&(text + &partition("y", "", "network = { bytes_per_s = 100 }")));
    let plan =
        case.plan(vec![at("x", "a", &[seat(0, "1", 256)]), nic(at("y", "a", &[seat(0, "2", 256)]), "eth0")]);
    (case, plan)
}

fn to_b(plan: &mut Plan) {
    plan.partitions[1].host = "b".to_owned();
}

fn to_node_1(plan: &mut Plan) {
    plan.partitions[1].seats[0] = seat(1, "8", 256);
}

#[test]
fn uplink() {
    let (case, plan) = talking("bytes_per_s = 901", "");
    assert_eq!(
        case.breaks(&plan, Rule::Uplink, to_b),
        ["uplink: 1001 bytes/s go out of b and into it, and its cards carry 1000 together"]
    );
    let (case, mut plan) = talking("bytes_per_s = 900", "");
    to_b(&mut plan);
    assert_eq!(told(&case, &plan), Vec::<String>::new());
}

#[test]
fn links() {
    for between in ["\"a\", \"b\"", "\"b\", \"a\""] {
        let link = format!("[[link]]\nbetween = [{between}]\nbytes_per_s = 50\n");
        let (case, plan) = talking("bytes_per_s = 51", &link);
        let broken = case.breaks(&plan, Rule::Link, to_b);
        assert!(
            broken[0].contains("51 bytes/s go between") && broken[0].contains("carries 50"),
            "{broken:?}"
        );
        let (case, mut plan) = talking("bytes_per_s = 50", &link);
        to_b(&mut plan);
        assert_eq!(told(&case, &plan), Vec::<String>::new());
    }
}

/// What was not measured takes 5, 10, 500 µs.
#[test]
fn latency() {
    let asked = |most: u32, links: &str| talking(&format!("bytes_per_s = 1, latency_us = {most}"), links);
    let (case, plan) = asked(5, "");
    let broken = case.breaks(&plan, Rule::Latency, to_node_1);
    assert_eq!(
        broken,
        ["latency: x, y: wanted messages in 5 µs; they are within a host, where one takes 10 µs"]
    );
    let (case, plan) = asked(499, "");
    assert!(case.breaks(&plan, Rule::Latency, to_b)[0].contains("within a switch, where one takes 500 µs"));
    assert!(!told(&asked(4, "").0, &plan).is_empty());
    let holds = |(case, mut plan): (Case, Plan), change: fn(&mut Plan)| {
        change(&mut plan);
        case.broken(&plan).is_empty()
    };
    assert!(holds(asked(10, ""), to_node_1) && holds(asked(500, ""), to_b));
    let link = "[[link]]\nbetween = [\"a\", \"b\"]\nlatency_us = 40\n";
    assert!(holds(asked(40, link), to_b) && !holds(asked(39, link), to_b));
    // The slower of the two hosts counts, and a link that does not say is none.
    let (mut case, mut plan) = asked(600, "[[link]]\nbetween = [\"a\", \"b\"]\n");
    to_b(&mut plan);
    for (host, slow, is_met) in [(0, 600, true), (1, 601, false)] {
        case.hosts[host].shape.facts.network_us =
            Some(model::system::Interval::One(units::Micros::from_micros(slow)));
        assert_eq!(case.broken(&plan).is_empty(), is_met);
    }
}

#[test]
fn near() {
    let needs = "disk = { bytes_per_s = 1 }, network = { bytes_per_s = 1 }";
    let case = |near: &str| two("", &format!("{needs}, near = {near}"), "");
    let place = |case: &Case, node: u32, cpu: &str, name: &str| {
        let x = at("x", "a", &[seat(node, cpu, 256)]);
        case.plan(vec![nic(disk(x, name), "eth0"), at("y", "a", &[seat(0, "2", 256)])])
    };
    let of_disk = case("[\"disk\"]");
    let plan = place(&of_disk, 1, "8", "near");
    let broken = of_disk.breaks(&plan, Rule::Near, |plan| plan.partitions[0].seats[0] = seat(0, "1", 256));
    assert_eq!(broken, ["near: x: its disk \"near\" is at node 1 of a, and it is on 0"]);
    assert_eq!(
        told(&of_disk, &place(&of_disk, 0, "1", "anywhere")),
        Vec::<String>::new(),
        "nobody knows where it is"
    );
    let of_card = case("[\"nic\"]");
    let broken = of_card.breaks(&place(&of_card, 0, "1", "near"), Rule::Near, |plan| {
        plan.partitions[0].seats[0] = seat(1, "8", 256);
    });
    assert_eq!(broken, ["near: x: its network card \"eth0\" is at node 0 of a, and it is on 1"]);
}
