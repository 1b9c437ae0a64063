//! Disks and network cards: rules `disk`, `network`, `near`.

use std::collections::BTreeMap;

use model::system::{CardShape, Device, DiskShape};

use super::{Found, Rule};
use crate::world::{Seen, Total, World};

/// Longest stall of a disk that was not measured, in ms.
const USUAL_STALL_MS: u64 = 1000;
/// Partitions that can receive through a card which does not say.
const USUAL_RECEIVERS: u32 = 2;

fn disk_of<'a>(seen: &Seen<'a>) -> Option<&'a DiskShape> {
    let name = seen.placed.disk.as_ref()?;
    seen.host.known.shape.disks.iter().find(|disk| disk.name == *name)
}

fn card_of<'a>(seen: &Seen<'a>) -> Option<&'a CardShape> {
    let name = seen.placed.nic.as_ref()?;
    seen.host.known.shape.nics.iter().find(|card| card.name == *name)
}

/// Who needs a device has one that there is, nobody else has.
fn has_if_needed(
    seen: &Seen<'_>,
    rule: Rule,
    what: &str,
    is_needed: bool,
    got: Option<&String>,
    is_there: bool,
    found: &mut Found,
) {
    let name = seen.placed.name.as_str();
    match got {
        None if is_needed => found.add(rule, &[name], || format!("it needs a {what}, and has none")),
        Some(got) if !is_needed => {
            found.add(rule, &[name], || format!("it needs no {what}, and has \"{got}\""));
        }
        Some(got) if !is_there => {
            found.add(rule, &[name], || format!("{} has no {what} \"{got}\"", seen.host_name()));
        }
        _ => {}
    }
}

/// Disks give four fifths of their rates away, and stall no longer than is allowed.
pub(super) fn disk(world: &World<'_>, found: &mut Found) {
    let mut users: BTreeMap<(&str, &str), (&DiskShape, Vec<&Seen<'_>>)> = BTreeMap::new();
    for seen in &world.seen {
        let disk = disk_of(seen);
        has_if_needed(
            seen,
            Rule::Disk,
            "disk",
            seen.needs.disk.is_some(),
            seen.placed.disk.as_ref(),
            disk.is_some(),
            found,
        );
        if let Some(disk) = disk.filter(|_| seen.needs.disk.is_some()) {
            users.entry((seen.host_name(), &disk.name)).or_insert_with(|| (disk, Vec::new())).1.push(seen);
        }
    }
    for ((host, name), (disk, users)) in users {
        let rates = users.iter().filter_map(|seen| seen.needs.disk);
        let wanted: Total = rates.map(|need| Total::from(need.bytes_per_s.get())).sum();
        let there = Total::from(disk.bytes_per_s.low().get()) * 4 / 5;
        let names: Vec<&str> = users.iter().map(|seen| seen.placed.name.as_str()).collect();
        if wanted > there {
            found.add(Rule::Disk, &names, || {
                format!("{wanted} bytes/s are wanted of disk \"{name}\" of {host}, which gives {there} away")
            });
        }
        let of_several = disk.stall_ms.map_or(USUAL_STALL_MS, |stall| stall.high().get());
        let stall = if users.len() == 1 {
            disk.stall_alone_ms.map_or(of_several, |stall| stall.high().get())
        } else {
            of_several
        };
        for seen in users {
            let longest = seen.needs.disk.and_then(|need| need.longest_stall_ms).map(units::Millis::get);
            if let Some(longest) = longest.filter(|longest| *longest < stall) {
                found.add(Rule::Disk, &[&seen.placed.name], || {
                    format!("it stands stalls of {longest} ms, and disk \"{name}\" of {host} has some of {stall} ms")
                });
            }
        }
    }
}

/// Cards carry what is needed of them, and predictably for few.
pub(super) fn network(world: &World<'_>, found: &mut Found) {
    let mut users: BTreeMap<(&str, &str), (&CardShape, Vec<&Seen<'_>>)> = BTreeMap::new();
    for seen in &world.seen {
        let card = card_of(seen);
        let is_needed = seen.needs.network.is_some();
        has_if_needed(
            seen,
            Rule::Network,
            "network card",
            is_needed,
            seen.placed.nic.as_ref(),
            card.is_some(),
            found,
        );
        if let Some(card) = card.filter(|_| is_needed) {
            users.entry((seen.host_name(), &card.name)).or_insert_with(|| (card, Vec::new())).1.push(seen);
        }
    }
    for ((host, name), (card, users)) in users {
        let needs = || users.iter().filter_map(|seen| Some((seen, seen.needs.network?)));
        let wanted: Total = needs().map(|(_, need)| Total::from(need.bytes_per_s.get())).sum();
        let names: Vec<&str> = users.iter().map(|seen| seen.placed.name.as_str()).collect();
        if wanted > Total::from(card.bytes_per_s.get()) {
            found.add(Rule::Network, &names, || {
                format!(
                    "{wanted} bytes/s are wanted of card \"{name}\" of {host}, which carries {}",
                    card.bytes_per_s.get()
                )
            });
        }
        let receivers = needs().filter(|(_, need)| need.receives).map(|(seen, _)| seen.placed.name.as_str());
        let (receivers, most) = (receivers.collect::<Vec<_>>(), card.receivers.unwrap_or(USUAL_RECEIVERS));
        if receivers.len() as u64 > u64::from(most) {
            found.add(Rule::Network, &receivers, || {
                format!(
                    "{} receive through card \"{name}\" of {host}, which is predictable for {most}",
                    receivers.len()
                )
            });
        }
    }
}

/// A device that must be near is at one of the replica's nodes, or nobody knows where.
pub(super) fn near(world: &World<'_>, found: &mut Found) {
    for seen in &world.seen {
        for device in &seen.needs.near {
            let (what, name, node) = match device {
                Device::Disk => ("disk", &seen.placed.disk, disk_of(seen).and_then(|disk| disk.node)),
                Device::Nic => ("network card", &seen.placed.nic, card_of(seen).and_then(|card| card.node)),
            };
            if let Some(node) = node.filter(|node| !seen.nodes().contains(node)) {
                let nodes: Vec<String> = seen.nodes().iter().map(ToString::to_string).collect();
                found.add(Rule::Near, &[&seen.placed.name], || {
                    let name = name.as_deref().unwrap_or_default();
                    format!(
                        "its {what} \"{name}\" is at node {node} of {}, and it is on {}",
                        seen.host_name(),
                        nodes.join(", ")
                    )
                });
            }
        }
    }
}
