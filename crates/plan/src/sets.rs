//! A set per host, which `up` takes unchanged: each replica as a partition of its own, with its CPUs, node, weight and limits.
//!
//! ```text
//!  a part per node of one that passes messages ─► a partition each, BULKHEAD_PART and BULKHEAD_PARTS say which
//!  several nodes of one that shares memory     ─► one partition with as many nodes of its own
//!  shared CPUs                                 ─► the pool as its CPUs, its share as its weight
//! ```
//! What a set cannot say is told.

use std::collections::{BTreeMap, BTreeSet};

use model::partition::NumberList;
use model::partition::set::{PartitionEntry, PartitionSet};
use model::plan::{Placed, Plan};
use model::system::{Model, Needs, System};
use units::{Bytes, Mebibytes};

/// Which part of a replica a partition is, and how many there are.
const PART: &str = "BULKHEAD_PART";
const PARTS: &str = "BULKHEAD_PARTS";

/// The sets by host, and what they do not say.
pub fn sets(system: &System, plan: &Plan) -> (BTreeMap<String, PartitionSet>, Vec<String>) {
    let (mut sets, mut notes) = (BTreeMap::new(), Vec::new());
    let hosts: BTreeSet<&str> = plan.partitions.iter().map(|placed| placed.host.as_str()).collect();
    for host in &hosts {
        let here: Vec<&Placed> = plan.partitions.iter().filter(|placed| placed.host == **host).collect();
        let parts: Vec<(&Placed, Vec<String>)> =
            here.iter().map(|placed| (*placed, part_names(system, placed))).collect();
        let mut set = PartitionSet {
            name: system.set.name.clone(),
            accelerator: system.set.accelerator,
            boot_deadline_s: system.set.boot_deadline_s,
            networks: BTreeMap::new(),
            partitions: BTreeMap::new(),
            channels: BTreeMap::new(),
        };
        for (placed, names) in &parts {
            for (number, name) in names.iter().enumerate() {
                let entry = entry(system, placed, names.len(), number, &parts, &mut notes);
                for network in entry.plugs().map(|plug| plug.network) {
                    if let Some(known) = system.set.networks.get(&network) {
                        set.networks.insert(network, known.clone());
                    }
                }
                set.partitions.insert(name.clone(), entry);
            }
        }
        let is_here = |name: &String| here.iter().any(|placed| placed.of == *name);
        let channels = system.set.channels.iter().filter(|(_, channel)| is_here(&channel.writer));
        set.channels = channels.map(|(name, channel)| (name.clone(), channel.clone())).collect();
        sets.insert((*host).to_owned(), set);
    }
    for network in system.set.networks.keys() {
        let on: Vec<&str> = sets
            .iter()
            .filter(|(_, set)| set.networks.contains_key(network))
            .map(|(host, _)| host.as_str())
            .collect();
        if on.len() > 1 {
            notes.push(format!(
                "network {network} is there on {} apart: a switch joins partitions of one host; between hosts they speak by ports",
                on.join(" and ")
            ));
        }
    }
    notes.sort();
    notes.dedup();
    (sets, notes)
}

fn part_names(system: &System, placed: &Placed) -> Vec<String> {
    let model = system.needs.get(&placed.of).map_or(Model::SharedMemory, |needs| needs.model);
    if placed.seats.len() > 1 && model == Model::MessagePassing {
        placed.seats.iter().map(|seat| format!("{}-n{}", placed.name, seat.node)).collect()
    } else {
        vec![placed.name.clone()]
    }
}

fn entry(
    system: &System,
    placed: &Placed,
    parts: usize,
    number: usize,
    here: &[(&Placed, Vec<String>)],
    notes: &mut Vec<String>,
) -> PartitionEntry {
    let mut entry = system.set.partitions.get(&placed.of).cloned().unwrap_or_default();
    let needs = system.needs.get(&placed.of).cloned().unwrap_or_default();
    let seats =
        if parts > 1 { placed.seats.get(number..=number).unwrap_or_default() } else { &placed.seats[..] };
    if let [seat] = seats {
        entry.node = Some(seat.node);
    }
    if parts > 1 {
        entry.env.insert(PART.to_owned(), number.to_string());
        entry.env.insert(PARTS.to_owned(), parts.to_string());
        entry.memory_mib = seats.first().map_or(entry.memory_mib, |seat| seat.memory_mib);
        entry.cpus /= parts as u32;
    } else if seats.len() > 1 {
        entry.guest_nodes = seats.len() as u32;
        let each = seats.first().map_or(0, |seat| seat.memory_mib.get());
        entry.memory_mib = Mebibytes::from_mib(each * seats.len() as u64);
        notes.push(format!(
            "{}: its threads share memory, so it is not split; its memory is not bound to its {} nodes",
            placed.name,
            seats.len()
        ));
    }
    entry.pin = Some(NumberList::of(seats.iter().flat_map(|seat| seat.cpus.numbers().to_vec())));
    entry.cpu_weight = needs.cpu_weight(entry.cpus);
    limit(&mut entry, &needs, placed, notes);
    entry.after = after(system, placed, &entry, here, notes);
    entry
}

/// What was promised of a disk and a card is also all that it gets.
fn limit(entry: &mut PartitionEntry, needs: &Needs, placed: &Placed, notes: &mut Vec<String>) {
    if let Some(disk) = needs.disk {
        if entry.disks.is_empty() {
            notes.push(format!(
                "{}: its files are not held to {} per second, only disks of its own ([[partition.{}.disk]]) are",
                placed.name, disk.bytes_per_s, placed.of
            ));
        }
        let each = Bytes::from_bytes(disk.bytes_per_s.get() / entry.disks.len().max(1) as u64);
        for one in &mut entry.disks {
            one.bytes_per_s = Some(one.bytes_per_s.map_or(each, |limit| limit.min(each)));
        }
    }
    if let Some(network) = needs.network {
        if entry.cards.is_empty() {
            notes.push(format!(
                "{}: what it sends is not held to {} per second, only a card of its own ([[partition.{}.card]]) is",
                placed.name, network.bytes_per_s, placed.of
            ));
        }
        for card in entry.cards.iter_mut().filter(|card| card.network != "user") {
            let rate = network.bytes_per_s;
            card.bytes_per_s = Some(card.bytes_per_s.map_or(rate, |limit| limit.min(rate)));
        }
    }
}

/// Who is waited for: those of this host.
fn after(
    system: &System,
    placed: &Placed,
    entry: &PartitionEntry,
    here: &[(&Placed, Vec<String>)],
    notes: &mut Vec<String>,
) -> Vec<String> {
    let mut after = Vec::new();
    for other in &entry.after {
        let names: Vec<String> =
            here.iter().filter(|(one, _)| one.of == *other).flat_map(|(_, names)| names.clone()).collect();
        if names.is_empty() && system.set.partitions.contains_key(other) {
            notes.push(format!("{} does not wait for {other}, which is on another host", placed.name));
        }
        after.extend(names);
    }
    after
}
