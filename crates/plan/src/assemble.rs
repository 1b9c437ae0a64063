//! From the solution of a formula, or a plan that was found soon, to a plan as it is written.

use std::collections::{BTreeMap, BTreeSet};

use model::partition::NumberList;
use model::plan::{
    Goal, GoalValue, PLAN_SCHEMA_VERSION, Placed, Plan, PlannedHost, PlannedTalk, Seat, Spare,
};
use model::system::System;
use units::{Bytes, Mebibytes, Micros};

use crate::cpus::{Guest, assign};
use crate::encode::Encoded;
use crate::foresee::{failures, predictions};
use crate::problem::Problem;

/// Where everybody is, before it is known on which CPUs.
#[derive(Debug, Clone, Default)]
pub struct Places {
    /// Nodes of each replica, ascending.
    pub nodes: Vec<Vec<usize>>,
    /// The disk of its host that each has.
    pub disk: Vec<Option<usize>>,
    /// The card.
    pub card: Vec<Option<usize>>,
    /// Nodes of each spare.
    pub spare: Vec<Vec<usize>>,
    /// CPUs by cache, by node and replica; of the pool where there is none.
    pub counts: BTreeMap<(usize, Option<usize>), Vec<i64>>,
}

impl Places {
    /// Those that a solution says.
    pub fn of_solution(problem: &Problem, encoded: &Encoded, values: &[bool]) -> Self {
        let is_true = |lit: &crate::pb::Lit| values[lit.var() as usize] != lit.is_negative();
        let device = |given: &Vec<(usize, usize, crate::pb::Lit)>| {
            given.iter().find(|(_, _, lit)| is_true(lit)).map(|(_, device, _)| *device)
        };
        let nodes = |nodes: &Vec<Option<crate::pb::Lit>>| -> Vec<usize> {
            (0..nodes.len()).filter(|node| nodes[*node].as_ref().is_some_and(is_true)).collect()
        };
        let mut places = Self {
            nodes: encoded.x.iter().map(nodes).collect(),
            disk: encoded.disks.iter().map(device).collect(),
            card: encoded.cards.iter().map(device).collect(),
            spare: encoded
                .spares
                .iter()
                .map(|of| of.iter().filter(|(_, lit)| is_true(lit)).map(|(node, _)| *node).collect())
                .collect(),
            counts: BTreeMap::new(),
        };
        for count in &encoded.counts {
            let caches = problem.site.nodes[count.node].caches.len();
            let of = places.counts.entry((count.node, count.piece)).or_insert_with(|| vec![0; caches]);
            of[count.cache] = count.terms.iter().filter(|(_, lit)| is_true(lit)).map(|term| term.0).sum();
        }
        places
    }
}

/// The plan.
pub fn plan(system: &System, problem: &Problem, places: &Places, goals: Vec<GoalValue>) -> Plan {
    let site = &problem.site;
    let mut seats: Vec<Vec<Seat>> = vec![Vec::new(); problem.pieces.len()];
    for node in 0..site.nodes.len() {
        let guests: Vec<Guest> = (0..problem.pieces.len())
            .filter(|piece| places.nodes[*piece].contains(&node))
            .map(|piece| Guest { piece, by_cache: places.counts.get(&(node, Some(piece))).cloned() })
            .collect();
        let pool = places.counts.get(&(node, None)).map(Vec::as_slice);
        for (piece, cpus) in assign(problem, node, &guests, pool) {
            seats[piece].push(Seat {
                node: site.nodes[node].number,
                cpus: NumberList::of(cpus),
                memory_mib: Mebibytes::from_mib(problem.pieces[piece].memory.unsigned_abs()),
            });
        }
    }
    let names: Vec<&String> = system.set.partitions.keys().collect();
    let mut partitions = Vec::new();
    for (piece, seats) in seats.into_iter().enumerate() {
        let one = &problem.pieces[piece];
        let Some(first) = places.nodes[piece].first() else { continue };
        let host = &site.hosts[site.nodes[*first].host];
        let spare = places.spare[piece].first().map(|node| Spare {
            host: site.hosts[site.nodes[*node].host].name.clone(),
            nodes: NumberList::of(places.spare[piece].iter().map(|node| site.nodes[*node].number)),
        });
        partitions.push(Placed {
            name: one.name.clone(),
            of: names[one.partition].clone(),
            replica: one.replica,
            host: host.name.clone(),
            seats,
            disk: places.disk[piece].map(|disk| host.disks[disk].name.clone()),
            nic: places.card[piece].map(|card| host.cards[card].name.clone()),
            spare,
            elsewhere: None,
        });
    }
    partitions.sort_by(|a, b| a.name.cmp(&b.name));
    let names: Vec<String> = names.into_iter().cloned().collect();
    Plan {
        schema_version: PLAN_SCHEMA_VERSION,
        system: system.set.name.clone(),
        goals,
        hosts: hosts(system, problem, places),
        partitions,
        talks: problem.talks.iter().map(|talk| told(problem, places, talk)).collect(),
        predictions: predictions(problem, places),
        failures: failures(problem, places, &names),
        assumed: site.assumed(),
        notes: Vec::new(),
    }
}

fn hosts(system: &System, problem: &Problem, places: &Places) -> Vec<PlannedHost> {
    let site = &problem.site;
    let used: BTreeSet<usize> = places.nodes.iter().flatten().map(|node| site.nodes[*node].host).collect();
    let one = |(number, host): (usize, &crate::site::Host)| PlannedHost {
        name: host.name.clone(),
        reserved_cpus: host.reserved.clone(),
        from: system
            .hosts
            .get(&host.name)
            .and_then(|entry| entry.from.clone())
            .filter(|from| is_machine(from)),
        set_file: used.contains(&number).then(|| format!("{}.set.toml", host.name)),
    };
    site.hosts.iter().enumerate().map(one).collect()
}

/// Whether it is a machine, not a description of one.
fn is_machine(from: &str) -> bool {
    from == "here" || from.starts_with("ssh:")
}

fn told(problem: &Problem, places: &Places, talk: &crate::problem::Talk) -> PlannedTalk {
    let (a, b) = talk.pieces;
    let way = problem.site.way(&places.nodes[a], &places.nodes[b]);
    PlannedTalk {
        from: problem.pieces[a].name.clone(),
        to: problem.pieces[b].name.clone(),
        bytes_per_s: Bytes::from_bytes(talk.rate.unsigned_abs()),
        within: way.within,
        latency_us: Micros::from_micros(way.latency.high()),
    }
}

/// The values of goals, as they are written.
pub fn goal_values(goals: &[(i64, i64)]) -> Vec<GoalValue> {
    Goal::ALL
        .into_iter()
        .zip(goals)
        .map(|(goal, (value, least))| GoalValue {
            goal,
            value: value.unsigned_abs(),
            least: least.unsigned_abs(),
        })
        .collect()
}
