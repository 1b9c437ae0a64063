//! Placing one partition after the other, as two that are in use do, from what they document. Written here, not run from there.
//!
//! - *first fit*: Nova fits a guest of one NUMA cell into the host's cells in their order, and takes the first with
//!   enough free CPUs and memory (`numa_fit_instance_to_host`, with `packing_host_numa_cells_allocation_strategy`).
//! - *spread*: the same with that option false, its default since 2023.1: cells with most free CPUs first, then most free memory.
//! - *hints*: Kubernetes' Topology Manager, policy `restricted`, scope `pod`: CPU Manager and Memory Manager each name all sets of
//!   nodes with enough of theirs, preferred those as small as the resource needs of an empty host; the pairs' bitwise and;
//!   preferred before others, narrow before wide, then the lower mask. What is not preferred is not admitted. `best-effort`
//!   would admit it and split over nodes what may not be split: no plan either.
//!
//! Neither of the two knows who must not share a node or who speaks with whom. To their favour the first is kept: a node with
//! somebody whom a partition must not meet is none for it.

use model::system::{KnownHost, System};

const OVERHEAD_MIB: u64 = 48;

/// A way to place.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Method {
    FirstFit,
    Spread,
    Hints,
}

impl Method {
    pub const ALL: [Self; 3] = [Self::FirstFit, Self::Spread, Self::Hints];

    pub const fn name(self) -> &'static str {
        match self {
            Self::FirstFit => "first fit (Nova)",
            Self::Spread => "spread (Nova)",
            Self::Hints => "hints (Kubernetes)",
        }
    }
}

/// A node, and what is left of it: CPUs and MiB.
struct Room {
    cpus: (u64, u64),
    memory: (u64, u64),
    guests: Vec<String>,
}

/// The node of each partition, by their order in the file, or that one of them was not placed.
pub fn place(method: Method, system: &System, host: &KnownHost) -> Option<Vec<(String, usize)>> {
    let mut rooms: Vec<Room> = host
        .shape
        .nodes
        .iter()
        .enumerate()
        .map(|(number, node)| {
            let cpus = node.cpus.numbers().len() as u64;
            let reserved = if number == 0 { host.reserve_memory.get() } else { 0 };
            let memory = node.memory_mib.get().saturating_sub(reserved);
            Room { cpus: (cpus, cpus), memory: (memory, memory), guests: Vec::new() }
        })
        .collect();
    let mut placed = Vec::new();
    for (name, entry) in &system.set.partitions {
        let (cpus, memory) = (u64::from(entry.cpus), entry.memory_mib.get() + OVERHEAD_MIB);
        let may = |room: &Room| {
            room.guests.iter().all(|guest| !is_foe(system, name, guest) && !is_foe(system, guest, name))
        };
        let fits = |room: &Room| may(room) && room.cpus.1 >= cpus && room.memory.1 >= memory;
        let node = match method {
            Method::FirstFit => rooms.iter().position(fits),
            Method::Spread => {
                let mut order: Vec<usize> = (0..rooms.len()).filter(|node| fits(&rooms[*node])).collect();
                order.sort_by_key(|node| std::cmp::Reverse((rooms[*node].cpus.1, rooms[*node].memory.1)));
                order.first().copied()
            }
            Method::Hints => {
                let of_cpus =
                    hints(&rooms, cpus, |room| if may(room) { room.cpus } else { (room.cpus.0, 0) });
                let of_memory = hints(&rooms, memory, |room| room.memory);
                merged(&of_cpus, &of_memory)
            }
        }?;
        let room = rooms.get_mut(node)?;
        room.cpus.1 = room.cpus.1.checked_sub(cpus)?;
        room.memory.1 = room.memory.1.checked_sub(memory)?;
        room.guests.push(name.clone());
        placed.push((name.clone(), node));
    }
    Some(placed)
}

fn is_foe(system: &System, who: &str, whom: &str) -> bool {
    system.needs.get(who).is_some_and(|needs| needs.isolated_from.iter().any(|name| name == whom))
}

/// Sets of nodes with enough free, and whether each is preferred: as few nodes as it takes of an empty host. What a node has in
/// all, and what is free of it, is `of`.
fn hints(rooms: &[Room], wanted: u64, of: impl Fn(&Room) -> (u64, u64)) -> Vec<(u64, bool)> {
    let within = |mask: u64| rooms.iter().enumerate().filter(move |(node, _)| mask >> node & 1 == 1);
    let masks = || 1..1u64 << rooms.len();
    let all = |mask: u64| within(mask).map(|(_, room)| of(room).0).sum::<u64>();
    let free = |mask: u64| within(mask).map(|(_, room)| of(room).1).sum::<u64>();
    let least = masks().filter(|mask| all(*mask) >= wanted).map(u64::count_ones).min().unwrap_or(0);
    masks().filter(|mask| free(*mask) >= wanted).map(|mask| (mask, mask.count_ones() == least)).collect()
}

/// The best set of both: none where that is not preferred, or is more than one node.
fn merged(cpus: &[(u64, bool)], memory: &[(u64, bool)]) -> Option<usize> {
    let pairs = cpus.iter().flat_map(|a| memory.iter().map(move |b| (a.0 & b.0, a.1 && b.1)));
    let best = pairs
        .filter(|(mask, _)| *mask != 0)
        .min_by_key(|(mask, is_preferred)| (!is_preferred, mask.count_ones(), *mask))?;
    (best.1 && best.0.is_power_of_two()).then(|| best.0.trailing_zeros() as usize)
}

/// Bytes per second between nodes, twice between sockets: what the goal `between_nodes` counts.
pub fn traffic(system: &System, host: &KnownHost, placed: &[(String, usize)]) -> u64 {
    let node_of = |name: &str| placed.iter().find(|(other, _)| other == name).map(|(_, node)| *node);
    let socket = |node: usize| host.shape.nodes[node].socket;
    let mut sum = 0;
    for (name, needs) in &system.needs {
        for (other, talk) in &needs.talks_to {
            let (Some(a), Some(b)) = (node_of(name), node_of(other)) else { continue };
            let times = if a == b {
                0
            } else if socket(a) == socket(b) {
                1
            } else {
                2
            };
            sum += times * talk.bytes_per_s.get();
        }
    }
    sum
}
