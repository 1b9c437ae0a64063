//! Who must not be where others are, and who must: rules `core`, `isolation`, `apart`, `alone`, `channel`.

use std::collections::{BTreeMap, BTreeSet};

use model::system::Level;

use super::{Found, Rule};
use crate::world::{Seen, World};

/// A part of the world, of any size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Spot<'a> {
    Core(&'a str, u32, (bool, u64)),
    Cache(&'a str, u32, usize),
    Node(&'a str, u32),
    Socket(&'a str, u32),
    Host(&'a str),
    Switch(&'a str),
}

/// Parts of the world of one size in which a replica is. Who shares CPUs has those of all who share there: they have the same ones.
fn spots<'a>(seen: &Seen<'a>, level: Level) -> BTreeSet<Spot<'a>> {
    let host = seen.host_name();
    let cpus = || {
        let each = |(node, cpus): (_, &'a [u32])| cpus.iter().map(move |cpu| (node, *cpu));
        seen.seats().map(|(node, seat)| (node, seat.cpus.numbers())).flat_map(each)
    };
    match level {
        Level::Core => {
            cpus().map(|(node, cpu)| Spot::Core(host, node.shape.number, node.core_key(cpu))).collect()
        }
        Level::Cache => {
            cpus().map(|(node, cpu)| Spot::Cache(host, node.shape.number, node.cache_key(cpu))).collect()
        }
        Level::Node => seen.nodes().into_iter().map(|node| Spot::Node(host, node)).collect(),
        Level::Socket => seen.sockets().into_iter().map(|socket| Spot::Socket(host, socket)).collect(),
        Level::Host => BTreeSet::from([Spot::Host(host)]),
        Level::Switch => BTreeSet::from([Spot::Switch(&seen.host.known.switch)]),
    }
}

/// In words.
fn told(spot: Spot<'_>) -> String {
    match spot {
        Spot::Core(host, node, _) => format!("a core of node {node} of {host}"),
        Spot::Cache(host, node, _) => format!("a last-level cache of node {node} of {host}"),
        Spot::Node(host, node) => format!("node {node} of {host}"),
        Spot::Socket(host, socket) => format!("socket {socket} of {host}"),
        Spot::Host(host) => format!("host {host}"),
        Spot::Switch(switch) => format!("switch {}", switch.trim_end_matches('/')),
    }
}

/// Pairs of replicas that have a part of the world in common although one of the two does not want that, each told once.
fn in_common(
    world: &World<'_>,
    rule: Rule,
    level: Level,
    keeps_off: impl Fn(&Seen<'_>, &Seen<'_>) -> bool,
    found: &mut Found,
) {
    let mut there: BTreeMap<Spot<'_>, Vec<usize>> = BTreeMap::new();
    for (number, seen) in world.seen.iter().enumerate() {
        for spot in spots(seen, level) {
            there.entry(spot).or_default().push(number);
        }
    }
    let mut told_of = BTreeSet::new();
    for (spot, numbers) in &there {
        for (place, first) in numbers.iter().enumerate() {
            for second in numbers.iter().skip(place + 1) {
                let (Some(a), Some(b)) = (world.seen.get(*first), world.seen.get(*second)) else { continue };
                let is_broken = keeps_off(a, b) || keeps_off(b, a);
                if is_broken && told_of.len() <= super::MOST_TOLD && told_of.insert((*first, *second)) {
                    found.add(rule, &[&a.placed.name, &b.placed.name], || {
                        format!("both have {}", told(*spot))
                    });
                }
            }
        }
    }
}

/// Who has whole cores shares none. The host's own are whole cores, and nobody else's by `reserved`.
pub(super) fn core(world: &World<'_>, found: &mut Found) {
    let keeps_off = |seen: &Seen<'_>, _: &Seen<'_>| seen.needs.isolation == Some(Level::Core);
    if world.seen.iter().any(|seen| keeps_off(seen, seen)) {
        in_common(world, Rule::Core, Level::Core, keeps_off, found);
    }
}

/// Who asks to be isolated has no such part of the world in common with those it names, or with anybody.
pub(super) fn isolation(world: &World<'_>, found: &mut Found) {
    for level in [Level::Cache, Level::Node, Level::Socket, Level::Host, Level::Switch] {
        let keeps_off = |seen: &Seen<'_>, other: &Seen<'_>| {
            let from = &seen.needs.isolated_from;
            seen.needs.isolation == Some(level) && (from.is_empty() || from.contains(&other.placed.of))
        };
        if world.seen.iter().any(|seen| seen.needs.isolation == Some(level)) {
            in_common(world, Rule::Isolation, level, keeps_off, found);
        }
    }
}

/// Replicas of a partition are apart.
pub(super) fn apart(world: &World<'_>, found: &mut Found) {
    for level in [Level::Core, Level::Cache, Level::Node, Level::Socket, Level::Host, Level::Switch] {
        let keeps_off = |seen: &Seen<'_>, other: &Seen<'_>| {
            seen.needs.replicas > 1 && seen.needs.apart() == level && seen.placed.of == other.placed.of
        };
        if world.seen.iter().any(|seen| seen.needs.replicas > 1 && seen.needs.apart() == level) {
            in_common(world, Rule::Apart, level, keeps_off, found);
        }
    }
}

/// What a host has once is one replica's there: ports, saved folders, files of disks that are written to.
pub(super) fn alone(world: &World<'_>, found: &mut Found) {
    let has_any = |seen: &&Seen<'_>| {
        !seen.entry.ports.is_empty() || seen.entry.save.is_some() || !seen.entry.disks.is_empty()
    };
    let mut by_host: BTreeMap<&str, Vec<&Seen<'_>>> = BTreeMap::new();
    for seen in world.seen.iter().filter(has_any) {
        by_host.entry(seen.host_name()).or_default().push(seen);
    }
    for (host, there) in by_host {
        for (number, a) in there.iter().enumerate() {
            for b in there.iter().skip(number + 1) {
                if let Some(what) = clash(a, b) {
                    let names = [a.placed.name.as_str(), b.placed.name.as_str()];
                    found.add(Rule::Alone, &names, || format!("both want {what} of {host}"));
                }
            }
        }
    }
}

/// What both want for themselves.
fn clash(a: &Seen<'_>, b: &Seen<'_>) -> Option<String> {
    let port = a.entry.ports.iter().find(|port| b.entry.ports.iter().any(|other| port.clashes(other)));
    let save = a.entry.save.as_ref().filter(|save| b.entry.save.as_ref() == Some(save));
    let is_written = |disk: &&model::partition::DiskSpec| {
        let mut others = b.entry.disks.iter().filter(|other| other.file == disk.file);
        others.any(|other| !(other.read_only && disk.read_only))
    };
    let disk = a.entry.disks.iter().find(is_written);
    port.map(|port| format!("port {}", port.host.port()))
        .or_else(|| save.map(|save| format!("the folder {}", save.display())))
        .or_else(|| disk.map(|disk| format!("the disk {}, not both to read only,", disk.file.display())))
}

/// All partitions of a channel are on one host.
pub(super) fn channel(world: &World<'_>, found: &mut Found) {
    for (name, channel) in &world.system.set.channels {
        let has =
            |seen: &&Seen<'_>| channel.writer == seen.placed.of || channel.readers.contains(&seen.placed.of);
        let members: Vec<&Seen<'_>> = world.seen.iter().filter(has).collect();
        let hosts: BTreeSet<&str> = members.iter().map(|seen| seen.host_name()).collect();
        if hosts.len() > 1 {
            let names: Vec<&str> = members.iter().map(|seen| seen.placed.name.as_str()).collect();
            let hosts: Vec<&str> = hosts.into_iter().collect();
            found.add(Rule::Channel, &names, || {
                format!("channel \"{name}\" is memory of one host, and they are on {}", hosts.join(", "))
            });
        }
    }
}
