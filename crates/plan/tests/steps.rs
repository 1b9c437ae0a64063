//! The steps from one plan to the next, over random systems: between any two of them, and while one moves, every rule holds by the
//! check that knows nothing of the planner. And by hand: nobody is stopped who need not be, and who is away is so until its own start.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_possible_truncation,
    clippy::needless_for_each,
    reason = "tests panic and print; what they make is small"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use audit::{Rule, broken_rules};
use model::partition::NumberList;
use model::plan::{PLAN_SCHEMA_VERSION, Placed, Plan, Seat};
use model::system::{KnownHost, System};
use plan::{Answer, Question, Step, plan, steps};
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use units::Mebibytes;

type Random = Xoshiro256PlusPlus;

/// Random systems whose plans are led into one another.
const SYSTEMS: u64 = 600;
/// CPUs of a node.
const PER_NODE: u32 = 4;

/// Two or three hosts of two nodes with two caches each, and five to eight partitions.
fn text(random: &mut Random) -> String {
    let mut text = String::new();
    for host in ["a", "b", "c"].into_iter().take(random.random_range(2..=3)) {
        let _ = write!(
            text,
            "[host.{host}]\nreserve_memory_mib = 0\nfacts = {{ start_ms = {} }}\n\
             disk = [{{ name = \"d0\", bytes_per_s = 100, stall_ms = 9, stall_alone_ms = 3 }}, {{ name = \"d1\", bytes_per_s = 150 }}]\n\
             nic = [{{ name = \"n0\", node = 0, bytes_per_s = 200, receivers = 1 }}]\n",
            random.random_range(1..9)
        );
        for node in 0..2 {
            let first = node * PER_NODE;
            let _ = write!(
                text,
                "[[host.{host}.node]]\nnumber = {node}\ncpus = \"{first}-{}\"\nmemory_mib = 2400\n\
                 caches = [\"{first}-{}\", \"{}-{}\"]\n",
                first + 3,
                first + 1,
                first + 2,
                first + 3
            );
            if random.random_bool(0.3) {
                let _ =
                    writeln!(text, "cores = [\"{first}-{}\", \"{}-{}\"]", first + 1, first + 2, first + 3);
            }
        }
    }
    let count = random.random_range(5..=8);
    for at in 0..count {
        let _ = write!(
            text,
            "[partition.p{at}]\nprogram = [\"/bin/true\"]\ncpus = {}\nmemory_mib = {}\n[partition.p{at}.needs]\n",
            *[1, 1, 2, 2, 3].choose(random).unwrap(),
            random.random_range(128..1100)
        );
        let is_shared = random.random_bool(0.25);
        if is_shared {
            let _ = write!(text, "cpu = \"shared\"\nshare_percent = {}\n", random.random_range(10..90));
        }
        match random.random_range(0..8) {
            0 | 1 => {
                let level = *["cache", "cache", "node", "host"].choose(random).unwrap();
                let other = (at + 1) % count;
                let _ = write!(text, "isolation = \"{level}\"\nisolated_from = [\"p{other}\"]\n");
            }
            2 if !is_shared => text.push_str("isolation = \"core\"\n"),
            3 => text.push_str("replicas = 2\napart = \"cache\"\n"),
            4 => {
                let rate = random.random_range(20..60);
                let _ = writeln!(text, "disk = {{ bytes_per_s = {rate}, longest_stall_ms = 900 }}");
            }
            5 => text.push_str("network = { bytes_per_s = 20, receives = true }\n"),
            6 => {
                let other = (at + 2) % count;
                let _ = writeln!(text, "talks_to.p{other} = {{ bytes_per_s = 5, latency_us = 100 }}");
            }
            _ => {}
        }
    }
    text
}

fn hosts(system: &System) -> Vec<KnownHost> {
    system.hosts.iter().flat_map(|(name, host)| host.known(name, host.shape())).collect()
}

/// The best plan from one in which everybody is anywhere: one of the many that there are.
fn some_plan(
    system: &System,
    hosts: &[KnownHost],
    random: &mut Random,
    first: Option<&Plan>,
) -> Option<Plan> {
    let mut from = first.cloned();
    for placed in from.iter_mut().flat_map(|plan| &mut plan.partitions) {
        placed.host.clone_from(&hosts.choose(random).unwrap().name);
        for seat in &mut placed.seats {
            seat.node = random.random_range(0..2);
        }
    }
    let question = Question { system, hosts, from: from.as_ref(), proof: false, is_over: &|| false };
    match plan(&question) {
        Answer::Planned(planned) => Some(planned.plan),
        _ => None,
    }
}

/// Everybody who runs, as a plan: by name, the place.
type Running = BTreeMap<String, Placed>;

/// The place that a step names, `b nodes 0-1`, with CPUs and devices to be found.
fn place(like: &Placed, words: &str) -> Placed {
    let mut words = words.split(' ');
    let host = words.next().unwrap().to_owned();
    let nodes: NumberList = words.next_back().unwrap().parse().unwrap();
    let mut seats = like.seats.clone();
    seats.iter_mut().zip(nodes.numbers()).for_each(|(seat, node)| seat.node = *node);
    Placed { host, seats, ..like.clone() }
}

/// Everything that is broken but for who is not there: a step does not name disks and CPUs, so all ways to give them are tried.
fn broken(system: &System, hosts: &[KnownHost], model: &Plan, running: &Running) -> Vec<String> {
    let mut plan = Plan { partitions: running.values().cloned().collect(), ..model.clone() };
    let with_disk: Vec<usize> =
        (0..plan.partitions.len()).filter(|at| plan.partitions[*at].disk.is_some()).collect();
    let mut best = Vec::new();
    for choice in 0..=1 << with_disk.len() {
        for (bit, at) in with_disk.iter().enumerate().filter(|_| choice > 0) {
            plan.partitions[*at].disk = Some(format!("d{}", (choice - 1) >> bit & 1));
        }
        best = with_any_cpus(system, hosts, &mut plan);
        if best.is_empty() {
            break;
        }
    }
    best
}

fn with_any_cpus(system: &System, hosts: &[KnownHost], plan: &mut Plan) -> Vec<String> {
    let told = |plan: &Plan| -> Vec<String> {
        let broken = broken_rules(system, hosts, plan);
        broken.iter().filter(|broken| broken.rule != Rule::Placed).map(ToString::to_string).collect()
    };
    let mut best = told(plan);
    for host in hosts {
        for node in &host.shape.nodes {
            for order in orders(node.cpus.numbers()) {
                if best.is_empty() {
                    return best;
                }
                let before = plan.clone();
                deal(system, plan, (&host.name, node.number, !node.cores.is_empty()), &order);
                let now = told(plan);
                if now.len() < best.len() {
                    best = now;
                } else {
                    *plan = before;
                }
            }
        }
    }
    best
}

/// All orders of four.
fn orders(of: &[u32]) -> Vec<Vec<u32>> {
    if of.is_empty() {
        return vec![Vec::new()];
    }
    let rest = |at: usize| of.iter().enumerate().filter(move |(other, _)| *other != at).map(|(_, cpu)| *cpu);
    let with = |at: usize| {
        orders(&rest(at).collect::<Vec<_>>()).into_iter().map(move |tail| [vec![of[at]], tail].concat())
    };
    (0..of.len()).flat_map(with).collect()
}

/// The CPUs of a node in this order to whoever has whole ones; those with whole cores have both threads; the pool has what it must.
fn deal(system: &System, plan: &mut Plan, (host, node, has_threads): (&str, u32, bool), order: &[u32]) {
    let mut cpus = order.to_vec();
    let (mut largest, mut milli) = (0, 0);
    for is_pool in [false, true] {
        let pool = cpus.iter().copied().take(largest.max(usize::div_ceil(milli, 1000)));
        let pool = NumberList::of(pool);
        for placed in plan.partitions.iter_mut().filter(|placed| placed.host == host) {
            let parts = placed.seats.len() as u32;
            let needs = system.needs.get(&placed.of).cloned().unwrap_or_default();
            let wanted = (system.set.partitions[&placed.of].cpus / parts) as usize;
            let share = needs.share_percent.filter(|_| needs.cpu == model::system::Cpu::Shared);
            for seat in placed.seats.iter_mut().filter(|seat| seat.node == node) {
                match share {
                    Some(_) if is_pool => seat.cpus = pool.clone(),
                    None if !is_pool => {
                        seat.cpus = NumberList::of(cpus.drain(..wanted.min(cpus.len())));
                        let is_core = needs.isolation == Some(model::system::Level::Core);
                        if is_core && has_threads && wanted % 2 == 1 && !cpus.is_empty() {
                            cpus.remove(0);
                        }
                    }
                    Some(share) => {
                        (largest, milli) = (largest.max(wanted), milli + 10 * wanted * share as usize);
                    }
                    None => {}
                }
            }
        }
    }
}

/// Memory and CPUs of each node while one is at two places.
fn fits_twice(system: &System, hosts: &[KnownHost], running: &Running, twice: &Placed) -> bool {
    let mut memory: BTreeMap<(String, u32), u64> = BTreeMap::new();
    let mut milli: BTreeMap<(String, u32), u64> = BTreeMap::new();
    for placed in running.values().chain([twice]) {
        let parts = placed.seats.len() as u64;
        let entry = &system.set.partitions[&placed.of];
        let needs = system.needs.get(&placed.of).cloned().unwrap_or_default();
        let each = 10
            * u64::from(
                needs.share_percent.filter(|_| needs.cpu == model::system::Cpu::Shared).unwrap_or(100),
            );
        for seat in &placed.seats {
            let key = (placed.host.clone(), seat.node);
            *memory.entry(key.clone()).or_default() += entry.memory_mib.get().div_ceil(parts) + 48;
            *milli.entry(key).or_default() += each * u64::from(entry.cpus) / parts;
        }
    }
    let node = |host: &str, number: u32| {
        let host = hosts.iter().find(|known| known.name == host).unwrap();
        host.shape.nodes.iter().find(|node| node.number == number).unwrap().clone()
    };
    memory.iter().all(|((host, number), used)| *used <= node(host, *number).memory_mib.get())
        && milli.iter().all(|((host, number), used)| {
            *used <= 1000 * u64::from(PER_NODE) && node(host, *number).cpus.numbers().len() == 4
        })
}

/// What a walk through the steps has seen.
#[derive(Debug, Default)]
struct Seen {
    moves: usize,
    detours: usize,
    stops: usize,
}

/// Takes the steps one by one, and looks at each state.
fn walk(system: &System, hosts: &[KnownHost], from: &Plan, to: &Plan, seen: &mut Seen, what: &str) {
    let by_name =
        |plan: &Plan| plan.partitions.iter().map(|one| (one.name.clone(), one.clone())).collect::<Running>();
    let (mut running, goes) = (by_name(from), by_name(to));
    let told = steps(system, hosts, from, to);
    let mut stopped: BTreeMap<String, Placed> = BTreeMap::new();
    let (mut clock, mut since) = (0, BTreeMap::new());
    let start_ms = |host: &str| {
        let host = hosts.iter().find(|known| known.name == host).unwrap();
        host.shape.facts.start_ms.unwrap().high().get()
    };
    for step in &told {
        match step {
            Step::Move { name, from, to, for_now } => {
                let was = running[name].clone();
                assert_eq!(place(&was, from).host, was.host, "{what}: {step:?}");
                let next = place(&was, to);
                assert!(fits_twice(system, hosts, &running, &next), "{what}: {step:?} of {told:?}");
                (seen.moves, seen.detours) = (seen.moves + 1, seen.detours + usize::from(*for_now));
                clock += start_ms(&next.host);
                let is_there = next.host == goes[name].host && !for_now;
                running.insert(name.clone(), if is_there { goes[name].clone() } else { next });
            }
            Step::Stop { name, .. } => {
                seen.stops += 1;
                since.insert(name.clone(), clock);
                stopped.insert(name.clone(), running.remove(name).unwrap());
            }
            Step::Start { name, to, away_ms } => {
                let next = goes[name].clone();
                assert_eq!(place(&next, to).host, next.host, "{what}: {step:?}");
                clock += start_ms(&next.host);
                assert_eq!(*away_ms, since.get(name).map(|since| clock - since), "{what}: {told:?}");
                stopped.remove(name);
                running.insert(name.clone(), next);
            }
            Step::End { name, .. } => drop(running.remove(name)),
        }
        let wrong = broken(system, hosts, from, &running);
        assert_eq!(wrong, Vec::<String>::new(), "{what}: after {step:?} of {told:?}");
    }
    let nodes = |running: &Running| -> Vec<(String, String, Vec<u32>)> {
        let of = |one: &Placed| {
            (one.name.clone(), one.host.clone(), one.seats.iter().map(|seat| seat.node).collect())
        };
        running.values().map(of).collect()
    };
    assert_eq!(nodes(&running), nodes(&goes), "{what}: {told:?}");
}

#[test]
fn between_the_steps_every_rule_holds() {
    let mut all = Seen::default();
    let (mut walked, mut seed) = (0, 0);
    let mut changed = BTreeSet::new();
    while walked < SYSTEMS {
        seed += 1;
        let mut random = Random::seed_from_u64(seed);
        let text = text(&mut random);
        let system = System::from_toml(&text, "s").unwrap();
        let hosts = hosts(&system);
        let Some(first) = some_plan(&system, &hosts, &mut random, None) else { continue };
        let Some(from) = some_plan(&system, &hosts, &mut random, Some(&first)) else { continue };
        let Some(to) = some_plan(&system, &hosts, &mut random, Some(&first)) else { continue };
        walk(&system, &hosts, &from, &to, &mut all, &format!("seed {seed}\n{text}"));
        walked += 1;
        changed.insert(all.moves);
    }
    println!("{walked} systems: {all:?}, {} with moves", changed.len());
    assert!(all.moves > 500 && all.detours > 5 && all.stops > 5, "what is to be seen must happen: {all:?}");
}

/// One host with so many nodes of four CPUs at two caches, which takes 900 ms to start somebody; and partitions: name, CPUs, more of it.
fn by_hand(nodes: u32, partitions: &[(&str, u32, &str)]) -> System {
    let mut text = String::from("[host.a]\nfacts = { start_ms = 900 }\n");
    for node in 0..nodes {
        let first = node * PER_NODE;
        let _ = write!(
            text,
            "[[host.a.node]]\nnumber = {node}\ncpus = \"{first}-{}\"\nmemory_mib = 4096\ncaches = [\"{first}-{}\", \"{}-{}\"]\n",
            first + 3,
            first + 1,
            first + 2,
            first + 3
        );
    }
    for (name, cpus, more) in partitions {
        let _ = write!(
            text,
            "[partition.{name}]\nprogram = [\"/bin/true\"]\ncpus = {cpus}\nmemory_mib = 128\n[partition.{name}.needs]\n{more}\n"
        );
    }
    System::from_toml(&text, "s").unwrap()
}

/// A plan as far as steps look at it: who is on which node.
fn at(places: &[(&str, u32)]) -> Plan {
    let one = |(name, node): &(&str, u32)| Placed {
        name: (*name).to_owned(),
        of: (*name).to_owned(),
        replica: 1,
        host: "a".to_owned(),
        seats: vec![Seat { node: *node, cpus: NumberList::default(), memory_mib: Mebibytes::from_mib(128) }],
        disk: None,
        nic: None,
        elsewhere: None,
        spare: None,
    };
    Plan {
        schema_version: PLAN_SCHEMA_VERSION,
        system: "s".to_owned(),
        goals: Vec::new(),
        hosts: Vec::new(),
        partitions: places.iter().map(one).collect(),
        talks: Vec::new(),
        predictions: Vec::new(),
        failures: Vec::new(),
        assumed: Vec::new(),
        notes: Vec::new(),
    }
}

/// The steps in short: `x 0>2~` moves on later, `x 0>` is stopped, `x >1 1800` starts after that many milliseconds.
fn short(system: &System, from: &[(&str, u32)], to: &[(&str, u32)]) -> Vec<String> {
    let node = |place: &str| place.rsplit(' ').next().unwrap().to_owned();
    let told = steps(system, &hosts(system), &at(from), &at(to));
    let words = told.iter().map(|step| match step {
        Step::Move { name, from, to, for_now } => {
            format!("{name} {}>{}{}", node(from), node(to), if *for_now { "~" } else { "" })
        }
        Step::Stop { name, from } => format!("{name} {}>", node(from)),
        Step::Start { name, to, away_ms } => {
            format!("{name} >{}{}", node(to), away_ms.map(|ms| format!(" {ms}")).unwrap_or_default())
        }
        Step::End { name, .. } => format!("{name} ends"),
    });
    words.collect()
}

#[test]
fn two_that_change_places_go_over_a_third_that_has_room_and_only_without_one_somebody_is_away() {
    let change = |nodes: u32| {
        let system = by_hand(nodes, &[("x", 3, ""), ("y", 3, "")]);
        short(&system, &[("x", 0), ("y", 1)], &[("x", 1), ("y", 0)])
    };
    assert_eq!(change(3), ["x 0>2~", "y 1>0", "x 2>1"]);
    // It is away until the other has moved and itself has started.
    assert_eq!(change(2), ["x 0>", "y 1>0", "x >1 1800"]);
    // Whoever may not be away is not the one.
    let system = by_hand(2, &[("x", 3, "replicas = 1\nmax_downtime_ms = 90000"), ("y", 3, "")]);
    assert_eq!(short(&system, &[("x", 0), ("y", 1)], &[("x", 1), ("y", 0)]), ["y 1>", "x 0>1", "y >0 1800"]);
}

#[test]
fn a_third_place_is_not_gone_to_where_another_order_does() {
    // Whoever goes first decides: x to node 0 would leave no room for y, whose place z waits for.
    let system = by_hand(4, &[("x", 1, ""), ("y", 1, ""), ("z", 1, ""), ("stays", 2, ""), ("full", 3, "")]);
    let from = [("x", 2), ("y", 1), ("z", 0), ("stays", 0), ("full", 1)];
    let to = [("x", 0), ("y", 0), ("z", 1), ("stays", 0), ("full", 1)];
    assert_eq!(short(&system, &from, &to), ["y 1>0", "z 0>1", "x 2>0"]);
}

#[test]
fn those_that_must_not_have_a_cache_in_common_can_have_a_node_in_common() {
    let both = |x: u32, y: u32| {
        let system = by_hand(2, &[("x", x, "isolation = \"cache\"\nisolated_from = [\"y\"]"), ("y", y, "")]);
        short(&system, &[("x", 0), ("y", 1)], &[("x", 0), ("y", 0)])
    };
    assert_eq!(both(2, 2), ["y 1>0"]);
    // Three CPUs are at both caches: there is no such plan, so it is not free, however long one looks.
    assert_eq!(both(3, 1), ["y 1>", "y >0 900"]);
}

#[test]
fn who_was_on_a_host_that_is_gone_is_away_until_all_before_it_have_started() {
    let system = by_hand(1, &[("x", 1, ""), ("y", 1, ""), ("new", 1, "")]);
    let mut from = at(&[("x", 0), ("y", 0)]);
    from.partitions.iter_mut().for_each(|placed| "gone".clone_into(&mut placed.host));
    let told = steps(&system, &hosts(&system), &from, &at(&[("x", 0), ("y", 0), ("new", 0)]));
    let away: BTreeMap<String, Option<u64>> = told
        .iter()
        .map(|step| match step {
            Step::Start { name, away_ms, .. } => (name.clone(), *away_ms),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(away["new"], None);
    assert_eq!(away["x"].max(away["y"]).unwrap() - away["x"].min(away["y"]).unwrap(), 900, "{told:?}");
}

#[test]
fn who_stays_makes_room_for_a_while() {
    // Where x could go meanwhile is s, which has room beside t.
    let system = by_hand(4, &[("s", 1, ""), ("t", 3, ""), ("x", 4, ""), ("y", 4, "")]);
    let from = [("s", 2), ("t", 3), ("x", 0), ("y", 1)];
    let to = [("s", 2), ("t", 3), ("x", 1), ("y", 0)];
    assert_eq!(short(&system, &from, &to), ["s 2>3~", "x 0>2~", "y 1>0", "x 2>1", "s 3>2"]);
}

#[test]
fn who_has_what_a_host_has_once_is_not_there_twice_for_a_moment() {
    let mut system = by_hand(2, &[("x", 1, ""), ("y", 1, "")]);
    assert_eq!(short(&system, &[("x", 0), ("y", 0)], &[("x", 1), ("y", 0)]), ["x 0>1"]);
    system.set.partitions.get_mut("x").unwrap().save = Some("/var/x".into());
    assert_eq!(short(&system, &[("x", 0), ("y", 0)], &[("x", 1), ("y", 0)]), ["x 0>", "x >1 900"]);
}
