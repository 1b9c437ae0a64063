//! A plan that keeps all rules, changed a thousand times: what must be found then is said beside each change, with its reason.

use std::collections::BTreeMap;

use model::partition::NumberList;
use model::plan::Placed;
use model::system::Cpu;
use units::Mebibytes;

use super::*;
use crate::random::Random;
use crate::{goals, wrong_claims};

/// Of every kind somebody: divided, doubled, whole cores, shared, with a disk and a spare, with a channel.
fn plant() -> (Case, Plan) {
    let deadline = "deadline = { period_us = 1000, runtime_us = 100, within_us = 200, miss_rate = 0.01 }";
    let shared = "cpu = \"shared\", share_percent = 50";
    let text = hosts(&["a", "b", "c"])
        + &partition("big", "cpus = 12\nmemory_mib = 5001", "")
        + &partition("web", "cpus = 2", "replicas = 2, talks_to = { db = { bytes_per_s = 100 } }")
        + &partition("rt", "cpus = 3", &format!("isolation = \"core\", {deadline}"))
        + &partition("s1", "cpus = 2", shared)
        + &partition("s2", "", shared)
        + &partition("db", "", "disk = { bytes_per_s = 10 }, near = [\"disk\"], max_downtime_ms = 60000")
        + &partition("plc", "", "network = { bytes_per_s = 10, receives = true }")
        + &partition("log", "", "")
        + "[channel.c]\nwriter = \"plc\"\nreaders = [\"log\"]\nsize_mib = 16\n";
    let case = Case::of(&text);
    let plan = case.plan(vec![
        at("big", "c", &[seat(0, "1-3,5-7", 2501), seat(1, "8-13", 2501)]),
        at("web-1", "a", &[seat(0, "1-2", 256)]),
        at("web-2", "b", &[seat(0, "1-2", 256)]),
        at("rt", "a", &[seat(1, "8,12,9", 256)]),
        at("s1", "b", &[seat(1, "8-10", 256)]),
        at("s2", "b", &[seat(1, "8-10", 256)]),
        spare(disk(at("db", "a", &[seat(1, "10", 256)]), "near"), "b", &[1]),
        nic(at("plc", "b", &[seat(0, "5", 256)]), "eth0"),
        at("log", "b", &[seat(0, "6", 256)]),
    ]);
    (case, plan)
}

fn chosen<T>(random: &mut Random, list: &mut [T]) -> usize {
    random.below(list.len().max(1))
}

/// Changes one thing; the rule that it breaks, or none where this change is none here.
type Change = fn(&Case, &mut Plan, &mut Random) -> Option<Rule>;

fn any<'p>(plan: &'p mut Plan, random: &mut Random) -> Option<&'p mut Placed> {
    let place = chosen(random, &mut plan.partitions);
    plan.partitions.get_mut(place)
}

fn any_seat<'p>(plan: &'p mut Plan, random: &mut Random) -> Option<&'p mut model::plan::Seat> {
    let placed = any(plan, random)?;
    let place = chosen(random, &mut placed.seats);
    placed.seats.get_mut(place)
}

fn is_shared(case: &Case, placed: &Placed) -> bool {
    case.system.needs[&placed.of].cpu == Cpu::Shared
}

const CHANGES: [(&str, Change); 22] = [
    ("its seat is said to be of another node, whose CPUs are others", |_, plan, random| {
        let placed = any(plan, random)?;
        let [seat] = placed.seats.as_mut_slice() else { return None };
        seat.node = 1 - seat.node;
        Some(Rule::Cpus)
    }),
    ("its seat is of a node that there is not", |_, plan, random| {
        any_seat(plan, random)?.node = 2 + random.below(1 << 30);
        Some(Rule::Nodes)
    }),
    ("a CPU is dropped: too few whole ones, or others than those who share with it", |_, plan, random| {
        let seat = any_seat(plan, random)?;
        let drop = random.below(seat.cpus.numbers().len());
        let rest = seat.cpus.numbers().iter().enumerate().filter(|(place, _)| *place != drop);
        seat.cpus = NumberList::of(rest.map(|(_, cpu)| *cpu));
        Some(Rule::Cpus)
    }),
    ("CPUs of two nodes are exchanged, and belong to the other one each", |_, plan, random| {
        let (first, second) = (random.below(9), random.below(9));
        let seats = |plan: &Plan, place: usize| plan.partitions.get(place)?.seats.first().cloned();
        let (mut a, mut b) = (seats(plan, first)?, seats(plan, second)?);
        if a.node == b.node {
            return None;
        }
        let (lowest, highest) = (*a.cpus.numbers().first()?, *b.cpus.numbers().last()?);
        let exchanged = |list: &NumberList, from: u32, to: u32| {
            NumberList::of(list.numbers().iter().map(|cpu| if *cpu == from { to } else { *cpu }))
        };
        (a.cpus, b.cpus) = (exchanged(&a.cpus, lowest, highest), exchanged(&b.cpus, highest, lowest));
        plan.partitions[first].seats[0] = a;
        plan.partitions[second].seats[0] = b;
        Some(Rule::Cpus)
    }),
    ("a whole part has one CPU more than it needs", |case, plan, random| {
        let cpu = random.below(20);
        let placed = any(plan, random)?;
        if is_shared(case, placed) || placed.seats[0].cpus.numbers().contains(&cpu) {
            return None;
        }
        let cpus = placed.seats[0].cpus.numbers().iter().copied().chain([cpu]);
        placed.seats[0].cpus = NumberList::of(cpus);
        Some(Rule::Cpus)
    }),
    ("a CPU is somebody else's, too", |case, plan, random| {
        let (first, second) = (random.below(9), random.below(9));
        let (a, b) = (plan.partitions.get(first)?.clone(), plan.partitions.get(second)?.clone());
        if first == second || a.host != b.host || a.seats[0].node != b.seats[0].node || is_shared(case, &a) {
            return None;
        }
        let (mine, other) = (a.seats[0].cpus.numbers(), *b.seats[0].cpus.numbers().first()?);
        plan.partitions[first].seats[0].cpus = NumberList::of(mine.iter().skip(1).copied().chain([other]));
        Some(Rule::Cpus)
    }),
    ("a CPU is one of the host's own", |_, plan, random| {
        let seat = any_seat(plan, random).filter(|seat| seat.node == 0)?;
        let rest = seat.cpus.numbers().iter().skip(1).copied();
        seat.cpus = NumberList::of(rest.chain([4 * random.below(2)]));
        Some(Rule::Reserved)
    }),
    ("memory is another", |_, plan, random| {
        let seat = any_seat(plan, random)?;
        let numbers = [0, 1, seat.memory_mib.get() + 1, seat.memory_mib.get() - 1, u64::MAX];
        seat.memory_mib = Mebibytes::from_mib(numbers[random.below(5)]);
        Some(Rule::Nodes)
    }),
    ("memory is beyond any node", |_, plan, random| {
        any_seat(plan, random)?.memory_mib = Mebibytes::from_mib(u64::MAX - random.below(1 << 40));
        Some(Rule::Memory)
    }),
    ("a replica is not there", |_, plan, random| {
        let place = chosen(random, &mut plan.partitions);
        plan.partitions.remove(place);
        Some(Rule::Placed)
    }),
    ("a replica is there twice", |_, plan, random| {
        let copy = any(plan, random)?.clone();
        plan.partitions.push(copy);
        Some(Rule::Placed)
    }),
    ("a replica has another name", |_, plan, random| {
        any(plan, random)?.name.push('x');
        Some(Rule::Placed)
    }),
    ("a replica has another number", |_, plan, random| {
        any(plan, random)?.replica += 1 + random.below(1 << 31);
        Some(Rule::Placed)
    }),
    ("a host is none", |_, plan, random| {
        any(plan, random)?.host.push('x');
        Some(Rule::Placed)
    }),
    ("two replicas that must be apart are on one host", |_, plan, _| {
        plan.partitions[1].host = plan.partitions[2].host.clone();
        Some(Rule::Apart)
    }),
    ("two who have a channel in common are on two hosts", |_, plan, random| {
        let host = ["a", "c"][random.below(2)];
        plan.partitions[7 + random.below(2)].host = host.to_owned();
        Some(Rule::Channel)
    }),
    ("a part is there twice", |_, plan, random| {
        let placed = any(plan, random)?;
        let copy = placed.seats[0].clone();
        placed.seats.push(copy);
        Some(Rule::Nodes)
    }),
    ("a part is not there", |_, plan, random| {
        any(plan, random)?.seats.pop();
        Some(Rule::Nodes)
    }),
    (
        "whole cores have somebody else: each CPU of that node beside them is a thread of another core",
        |_, plan, _| {
            plan.partitions[6].seats[0].cpus = NumberList::of([13]);
            Some(Rule::Core)
        },
    ),
    (
        "who needs a disk or card has none or one that is not there; who needs none has one",
        |case, plan, random| {
            let name = [None, Some("near".to_owned()), Some("eth0".to_owned()), Some("x".to_owned())];
            let name = name[random.below(4)].clone();
            let placed = any(plan, random)?;
            let needs = &case.system.needs[&placed.of];
            if random.below(2) == 0 {
                placed.disk = name;
                (needs.disk.is_some() != (placed.disk.as_deref() == Some("near"))
                    || placed.disk.as_deref().is_some_and(|name| name != "near"))
                .then_some(Rule::Disk)
            } else {
                placed.nic = name;
                (needs.network.is_some() != (placed.nic.as_deref() == Some("eth0"))
                    || placed.nic.as_deref().is_some_and(|name| name != "eth0"))
                .then_some(Rule::Network)
            }
        },
    ),
    ("a spare is missing, on its own host, on none, or somebody's who needs none", |_, plan, random| {
        let place = random.below(9);
        let placed = plan.partitions.get_mut(place)?;
        let (host, nodes) = [("a", "1"), ("b", "0-1"), ("x", "1"), ("b", ""), ("b", "7")][random.below(5)];
        let wrong = spare(placed.clone(), host, nodes.parse::<NumberList>().expect("a list").numbers());
        *placed =
            if place == 6 && random.below(2) == 0 { Placed { spare: None, ..placed.clone() } } else { wrong };
        Some(Rule::Downtime)
    }),
    ("the host's own CPUs are others", |_, plan, random| {
        let place = chosen(random, &mut plan.hosts);
        let lists = ["", "0", "0-1", "0,4-5", "8191"];
        plan.hosts.get_mut(place)?.reserved_cpus = lists[random.below(5)].parse().expect("a list");
        Some(Rule::Reserved)
    }),
];

#[test]
fn each_of_a_thousand_mutants_is_found() {
    let (case, plan) = plant();
    assert_eq!(case.broken(&plan), []);
    let mut random = Random::new(21);
    let mut times: BTreeMap<&str, u32> = BTreeMap::new();
    while times.values().sum::<u32>() < 2000 {
        let (why, change) = CHANGES[random.below(CHANGES.len())];
        let mut changed = plan.clone();
        let Some(rule) = change(&case, &mut changed, &mut random) else { continue };
        let broken = case.broken(&changed);
        assert!(
            broken.iter().any(|broken| broken.rule == rule),
            "{why}: {}: {broken:#?}\n{changed:#?}",
            rule.word()
        );
        *times.entry(why).or_default() += 1;
    }
    assert!(times.len() == CHANGES.len() && times.values().all(|times| *times >= 10), "{times:#?}");
}

/// Whatever a plan says there is an answer: names, numbers and lists by chance, the right ones among them.
#[test]
fn whatever_a_plan_says_there_is_an_answer() {
    let (case, plan) = plant();
    let mut random = Random::new(3);
    let names = ["web-1", "web", "db", "s1", "", "x", "big", "plc", "rt"];
    let hosts = ["a", "b", "c", "", "x"];
    let lists = ["", "0-15", "1-2", "0", "8191", "8-13", "0-8191", "1-3,5-7"];
    let mut rules = std::collections::BTreeSet::new();
    for _ in 0..400 {
        let mut wild = plan.clone();
        for _ in 0..random.below(12) {
            let mut pick = |list: &[&str]| list[random.below(list.len())].to_owned();
            let (name, of, host, other) = (pick(&names), pick(&names), pick(&hosts), pick(&hosts));
            let (cpus, more, nodes) = (pick(&lists), pick(&lists), pick(&lists));
            let numbers = [0, 1, 2, u32::MAX, u32::MAX - 1];
            let mut number = || numbers[random.below(5)];
            let (first, second, replica) = (number(), number(), number());
            let mib = [0, 256, u64::MAX, u64::MAX - 7][random.below(4)];
            let seats = [seat(first, &cpus, mib), seat(second, &more, 256)];
            let seats = &seats[..random.below(3)];
            let mut placed =
                spare(at("x", &host, seats), &other, nodes.parse::<NumberList>().expect("a list").numbers());
            (placed.name, placed.of, placed.replica) = (name, of, replica);
            match random.below(4) {
                0 => placed.spare = None,
                1 => placed.disk = Some("near".to_owned()),
                2 => placed.nic = Some("eth0".to_owned()),
                _ => {}
            }
            match any(&mut wild, &mut random).filter(|_| replica > 1) {
                Some(one) => (one.seats, one.host, one.spare) = (placed.seats, placed.host, placed.spare),
                None => wild.partitions.push(placed),
            }
        }
        for claim in &mut wild.goals {
            (claim.value, claim.least) = (u64::MAX, random.below(3));
        }
        wild.hosts.truncate(random.below(4));
        assert!(goals(&case.system, &case.hosts, &wild, Some(&plan))[1] <= 3);
        assert!(wrong_claims(&case.system, &case.hosts, &wild, Some(&plan)).len() >= 6);
        rules.extend(case.broken(&wild).iter().map(|broken| broken.rule));
    }
    assert!(rules.len() > 10, "{rules:?}");
}
