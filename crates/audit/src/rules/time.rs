//! What must be done in time: rules `deadline`, `downtime`.

use std::collections::{BTreeMap, BTreeSet};

use model::plan::Spare;
use model::system::{DeadlineNeed, Level};

use super::room::lacks_memory;
use super::{Found, Rule};
use crate::world::{Host, Load, NodeName, Seen, Total, World};

/// How long a start takes, and until a dead host is noticed, in ms, where it was not measured.
const USUAL_START_MS: u64 = 60_000;
const USUAL_DETECT_MS: u64 = 5_000;

/// Whether a deadline can be kept on a host, by what was measured of its wake-ups.
fn keeps(host: &Host<'_>, deadline: &DeadlineNeed) -> bool {
    host.known.shape.facts.wakeup.iter().any(|wakeup| {
        let done = Total::from(wakeup.latency_us.high().get()) + Total::from(deadline.runtime_us.get());
        wakeup.miss_rate <= deadline.miss_rate && done <= Total::from(deadline.within_us.get())
    })
}

/// Periodic work is done in time often enough.
pub(super) fn deadline(world: &World<'_>, found: &mut Found) {
    for seen in &world.seen {
        let Some(deadline) = seen.needs.deadline.filter(|deadline| !keeps(seen.host, deadline)) else {
            continue;
        };
        found.add(Rule::Deadline, &[&seen.placed.name], || {
            let DeadlineNeed { runtime_us, within_us, miss_rate, .. } = deadline;
            let (runtime, within, host) = (runtime_us.get(), within_us.get(), seen.host_name());
            let wakeup = &seen.host.known.shape.facts.wakeup;
            let least = wakeup.iter().filter(|one| one.miss_rate <= miss_rate).map(|one| one.latency_us.high().get()).min();
            match least {
                Some(late) => format!(
                    "its {runtime} µs are to be done within {within} µs, and on {host} it is woken up {late} µs late"
                ),
                None => format!("nothing is known of {host} that says when it is woken up but for {miss_rate} of cases"),
            }
        });
    }
}

/// The longest time until a dead host is noticed.
fn detect_ms(world: &World<'_>) -> u64 {
    let each = world
        .hosts
        .values()
        .map(|host| host.known.shape.facts.detect_ms.map_or(USUAL_DETECT_MS, |ms| ms.high().get()));
    each.max().unwrap_or(USUAL_DETECT_MS)
}

/// Who must be back soon has another replica elsewhere, or a spare that is up in time and has room.
pub(super) fn downtime(world: &World<'_>, found: &mut Found) {
    let detect = detect_ms(world);
    for seen in &world.seen {
        let name = seen.placed.name.as_str();
        let mut add = |problem: String| found.add(Rule::Downtime, &[name], || problem);
        let is_doubled = seen.needs.replicas > 1 && matches!(seen.needs.apart(), Level::Host | Level::Switch);
        match (seen.needs.max_downtime_ms.map(units::Millis::get), &seen.placed.spare) {
            (None, Some(_)) => add("it may be away for any time, and has a spare".to_owned()),
            (Some(most), spare) if is_doubled && detect <= most => {
                if spare.is_some() {
                    add("its other replicas go on, so it needs no spare, and has one".to_owned());
                }
            }
            (Some(most), None) => {
                add(format!(
                    "it may be away for {most} ms, and there is neither a spare nor a replica that goes on"
                ));
            }
            (Some(most), Some(spare)) => {
                wrong_spare(world, seen, spare, most, detect).into_iter().for_each(add);
            }
            (None, None) => {}
        }
    }
    room_for_spares(world, found);
}

/// What is wrong with a spare, but for its room.
fn wrong_spare(world: &World<'_>, seen: &Seen<'_>, spare: &Spare, most: u64, detect: u64) -> Vec<String> {
    let Some(host) = world.hosts.get(spare.host.as_str()) else {
        return vec![format!("its spare is on host \"{}\", and there is none", spare.host)];
    };
    let mut wrong = Vec::new();
    let name = &spare.host;
    if *name == seen.placed.host {
        wrong.push(format!("its spare is on {name}, where it is itself"));
    }
    if !host.is_one_of(world.system, seen.needs) {
        wrong.push(format!("it may be on {}, and its spare is on {name}", seen.needs.hosts.join(", ")));
    }
    if seen.needs.deadline.is_some_and(|deadline| !keeps(host, &deadline)) {
        wrong.push(format!("its deadline cannot be kept on {name}, where its spare is"));
    }
    let start = host.known.shape.facts.start_ms.map_or(USUAL_START_MS, |ms| ms.high().get());
    let away = Total::from(start) + Total::from(detect);
    if away > Total::from(most) {
        wrong.push(format!("it may be away for {most} ms, and its spare on {name} is up after {away} ms"));
    }
    let nodes = spare.nodes.numbers();
    if let Some(node) = nodes.iter().find(|node| !host.nodes.contains_key(node)) {
        wrong.push(format!("its spare is on node {node} of {name}, and there is none"));
    }
    if seen.parts.is_some_and(|parts| parts as usize != nodes.len()) {
        let parts = seen.parts.unwrap_or_default();
        wrong.push(format!("wanted {parts} nodes for its spare on {name}, got {}", nodes.len()));
    }
    wrong
}

/// Whatever host dies: who is on a node, and who comes to it then, fit together.
fn room_for_spares(world: &World<'_>, found: &mut Found) {
    let there = world.loads();
    // By the host that dies, and the node that then takes over.
    let mut then: BTreeMap<(&str, NodeName<'_>), (Load, BTreeSet<&str>)> = BTreeMap::new();
    for seen in &world.seen {
        let Some(spare) = &seen.placed.spare else { continue };
        let Some(host) = world.hosts.get(spare.host.as_str()).filter(|_| spare.host != seen.placed.host)
        else {
            continue;
        };
        let nodes = spare.nodes.numbers().iter().filter_map(|number| host.nodes.get(number));
        for (place, node) in nodes.enumerate() {
            let name = (host.known.name.as_str(), node.shape.number);
            let usual = || (there.get(&name).copied().unwrap_or_default(), BTreeSet::new());
            let (load, who) = then.entry((seen.host_name(), name)).or_insert_with(usual);
            load.add(world.system, seen, node, seen.part_mib(), place == 0);
            who.insert(&seen.placed.name);
        }
    }
    for ((dead, name), (load, who)) in then {
        let Some(node) = world.node(name) else { continue };
        let (wanted, cpus) = (load.cpu_percent, Total::from(node.free_cpus()) * 100);
        let of_cpus =
            (wanted > cpus).then(|| format!("{wanted} percent of a CPU are wanted there, and it has {cpus}"));
        let who: Vec<&str> = who.into_iter().collect();
        for problem in lacks_memory(&load, node).into_iter().chain(of_cpus) {
            let (host, number) = name;
            found.add(Rule::Downtime, &who, || {
                format!("when {dead} dies they come to node {number} of {host}: {problem}")
            });
        }
    }
}
