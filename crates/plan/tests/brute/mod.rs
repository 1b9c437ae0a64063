//! The best plan of a small system by trying all: places one by one, and CPUs of each node one by one. What a plan breaks and what it is
//! worth says `audit`, which has nothing of the planner.

use std::collections::BTreeMap;

use model::partition::NumberList;
use model::plan::{Goal, GoalValue, PLAN_SCHEMA_VERSION, Placed, Plan, PlannedHost, Seat, Spare};
use model::system::{Cpu, KnownHost, Level, NodeShape, System};
use units::Mebibytes;

/// A replica to be placed.
struct Piece {
    name: String,
    of: String,
    replica: u32,
    parts: u32,
}

/// Where one could be.
#[derive(Clone)]
struct Place {
    host: usize,
    nodes: Vec<usize>,
    disk: Option<String>,
    nic: Option<String>,
    spare: Option<Spare>,
}

/// More plans than that are not tried.
pub const MOST_PLANS: usize = 20_000;

pub struct Brute<'a> {
    system: &'a System,
    hosts: &'a [KnownHost],
    reserved: Vec<Vec<u32>>,
    pieces: Vec<Piece>,
}

/// Subsets of so many nodes.
fn subsets(count: usize, size: usize) -> Vec<Vec<usize>> {
    (0..1usize << count)
        .map(|bits| (0..count).filter(|node| bits >> node & 1 == 1).collect::<Vec<usize>>())
        .filter(|nodes| nodes.len() == size)
        .collect()
}

fn cores(node: &NodeShape) -> Vec<Vec<u32>> {
    if node.cores.is_empty() {
        node.cpus.numbers().iter().map(|cpu| vec![*cpu]).collect()
    } else {
        node.cores.iter().map(|core| core.numbers().to_vec()).collect()
    }
}

impl<'a> Brute<'a> {
    pub fn new(system: &'a System, hosts: &'a [KnownHost]) -> Self {
        let reserved = hosts.iter().map(reserved).collect();
        let mut brute = Self { system, hosts, reserved, pieces: Vec::new() };
        for of in system.set.partitions.keys() {
            let parts = brute.parts(of);
            for replica in 1..=system.needs[of].replicas {
                let name = system.replica_name(of, replica);
                brute.pieces.push(Piece { name, of: of.clone(), replica, parts });
            }
        }
        brute
    }

    /// Rule `nodes`: the least number of parts with which one fits somewhere.
    fn parts(&self, of: &str) -> u32 {
        let (entry, needs) = (&self.system.set.partitions[of], &self.system.needs[of]);
        let fits = |parts: u32, host: usize, at: usize| {
            let node = &self.hosts[host].shape.nodes[at];
            let free =
                node.cpus.numbers().iter().filter(|cpu| !self.reserved[host].contains(cpu)).count() as u32;
            let threads = node.cores.first().map_or(1, |core| core.numbers().len() as u32);
            let cpus = entry.cpus / parts;
            let cpus =
                if needs.isolation == Some(Level::Core) { cpus.div_ceil(threads) * threads } else { cpus };
            let kept = if at == 0 { self.hosts[host].reserve_memory.get() } else { 0 };
            let memory = entry.memory_mib.get().div_ceil(u64::from(parts));
            let plain = if entry.hugepages { 48 } else { memory + 48 };
            cpus <= free
                && plain + node.hugepages_mib.get() + kept <= node.memory_mib.get()
                && (!entry.hugepages || memory <= node.hugepages_mib.get())
        };
        (1..=4)
            .filter(|parts| entry.cpus % parts == 0)
            .find(|parts| {
                (0..self.hosts.len())
                    .any(|host| (0..self.hosts[host].shape.nodes.len()).any(|at| fits(*parts, host, at)))
            })
            .unwrap_or(9)
    }

    fn places(&self, piece: &Piece) -> Vec<Place> {
        let needs = &self.system.needs[&piece.of];
        let mut places = Vec::new();
        for (host, known) in self.hosts.iter().enumerate() {
            let shape = &known.shape;
            let disks: Vec<Option<String>> = if needs.disk.is_some() {
                shape.disks.iter().map(|disk| Some(disk.name.clone())).collect()
            } else {
                vec![None]
            };
            let nics: Vec<Option<String>> = if needs.network.is_some() {
                shape.nics.iter().map(|nic| Some(nic.name.clone())).collect()
            } else {
                vec![None]
            };
            for nodes in subsets(shape.nodes.len(), piece.parts as usize) {
                for disk in &disks {
                    for nic in &nics {
                        for spare in self.spares(piece, host) {
                            let (disk, nic) = (disk.clone(), nic.clone());
                            places.push(Place { host, nodes: nodes.clone(), disk, nic, spare });
                        }
                    }
                }
            }
        }
        places
    }

    fn spares(&self, piece: &Piece, host: usize) -> Vec<Option<Spare>> {
        let needs = &self.system.needs[&piece.of];
        let has_other = needs.replicas > 1 && matches!(needs.apart(), Level::Host | Level::Switch);
        if needs.max_downtime_ms.is_none() || has_other {
            return vec![None];
        }
        let others = (0..self.hosts.len()).filter(|other| *other != host);
        let spare = |other: usize, nodes: Vec<usize>| Spare {
            host: self.hosts[other].name.clone(),
            nodes: NumberList::of(nodes.iter().map(|node| self.hosts[other].shape.nodes[*node].number)),
        };
        let mut all = Vec::new();
        for other in others {
            let nodes = subsets(self.hosts[other].shape.nodes.len(), piece.parts as usize);
            all.extend(nodes.into_iter().map(|nodes| Some(spare(other, nodes))));
        }
        all
    }

    /// What the best plan is worth: none where nothing is possible; an error where there is too much to try.
    pub fn best(&self, from: Option<&Plan>) -> Result<Option<[u64; 6]>, ()> {
        let places: Vec<Vec<Place>> = self.pieces.iter().map(|piece| self.places(piece)).collect();
        let plans: usize = places.iter().map(Vec::len).try_fold(1usize, usize::checked_mul).ok_or(())?;
        if plans > MOST_PLANS {
            return Err(());
        }
        let mut best: Option<[u64; 6]> = None;
        for mut number in 0..plans {
            let chosen: Vec<&Place> = places
                .iter()
                .map(|of| {
                    let place = &of[number % of.len()];
                    number /= of.len();
                    place
                })
                .collect();
            let Some(plan) = self.plan(&chosen) else { continue };
            if audit::broken_rules(self.system, self.hosts, &plan).is_empty() {
                let worth = audit::goals(self.system, self.hosts, &plan, from);
                best = Some(best.map_or(worth, |best| best.min(worth)));
            }
        }
        Ok(best)
    }

    fn plan(&self, chosen: &[&Place]) -> Option<Plan> {
        let mut seats: Vec<Vec<Seat>> = vec![Vec::new(); chosen.len()];
        for host in 0..self.hosts.len() {
            for node in 0..self.hosts[host].shape.nodes.len() {
                let is_here =
                    |piece: &usize| chosen[*piece].host == host && chosen[*piece].nodes.contains(&node);
                let guests: Vec<usize> = (0..chosen.len()).filter(is_here).collect();
                for (piece, cpus) in self.cpus(host, node, &guests)? {
                    let entry = &self.system.set.partitions[&self.pieces[piece].of];
                    let memory = entry.memory_mib.get().div_ceil(u64::from(self.pieces[piece].parts));
                    seats[piece].push(Seat {
                        node: self.hosts[host].shape.nodes[node].number,
                        cpus: NumberList::of(cpus),
                        memory_mib: Mebibytes::from_mib(memory),
                    });
                }
            }
        }
        let partitions =
            seats.into_iter().zip(chosen).zip(&self.pieces).map(|((seats, place), piece)| Placed {
                name: piece.name.clone(),
                of: piece.of.clone(),
                replica: piece.replica,
                host: self.hosts[place.host].name.clone(),
                seats,
                disk: place.disk.clone(),
                nic: place.nic.clone(),
                spare: place.spare.clone(),
            });
        let hosts = self.hosts.iter().zip(&self.reserved).map(|(host, reserved)| PlannedHost {
            name: host.name.clone(),
            reserved_cpus: NumberList::of(reserved.iter().copied()),
            from: None,
            set_file: None,
        });
        Some(Plan {
            schema_version: PLAN_SCHEMA_VERSION,
            system: self.system.set.name.clone(),
            goals: Goal::ALL.map(|goal| GoalValue { goal, value: 0, least: 0 }).to_vec(),
            hosts: hosts.collect(),
            partitions: partitions.collect(),
            talks: Vec::new(),
            predictions: Vec::new(),
            failures: Vec::new(),
            assumed: Vec::new(),
            notes: Vec::new(),
        })
    }

    /// CPUs of a node for these: the first of all ways that keeps the rules of cores, caches and the pool.
    fn cpus(&self, host: usize, node: usize, guests: &[usize]) -> Option<BTreeMap<usize, Vec<u32>>> {
        let shape = &self.hosts[host].shape.nodes[node];
        let free: Vec<u32> =
            shape.cpus.numbers().iter().copied().filter(|cpu| !self.reserved[host].contains(cpu)).collect();
        let is_shared = |piece: &&usize| self.system.needs[&self.pieces[**piece].of].cpu == Cpu::Shared;
        let whole: Vec<usize> = guests.iter().filter(|piece| !is_shared(piece)).copied().collect();
        let shared: Vec<usize> = guests.iter().filter(is_shared).copied().collect();
        self.choose(shape, &whole, &shared, &free, &mut BTreeMap::new())
    }

    fn count(&self, piece: usize) -> usize {
        let entry = &self.system.set.partitions[&self.pieces[piece].of];
        (entry.cpus / self.pieces[piece].parts) as usize
    }

    fn choose(
        &self,
        shape: &NodeShape,
        whole: &[usize],
        shared: &[usize],
        free: &[u32],
        taken: &mut BTreeMap<usize, Vec<u32>>,
    ) -> Option<BTreeMap<usize, Vec<u32>>> {
        let Some((&piece, rest)) = whole.split_first() else {
            return self.with_pool(shape, shared, free, taken);
        };
        for of in subsets(free.len(), self.count(piece)) {
            let cpus: Vec<u32> = of.iter().map(|place| free[*place]).collect();
            let left: Vec<u32> = free.iter().copied().filter(|cpu| !cpus.contains(cpu)).collect();
            taken.insert(piece, cpus);
            if let Some(found) = self.choose(shape, rest, shared, &left, taken) {
                return Some(found);
            }
            taken.remove(&piece);
        }
        None
    }

    fn with_pool(
        &self,
        shape: &NodeShape,
        shared: &[usize],
        free: &[u32],
        taken: &BTreeMap<usize, Vec<u32>>,
    ) -> Option<BTreeMap<usize, Vec<u32>>> {
        let pools: Vec<Vec<usize>> = if shared.is_empty() {
            vec![Vec::new()]
        } else {
            (1..=free.len()).flat_map(|size| subsets(free.len(), size)).collect()
        };
        for pool in pools {
            let mut all = taken.clone();
            let cpus: Vec<u32> = pool.iter().map(|place| free[*place]).collect();
            let sum: usize = shared
                .iter()
                .map(|piece| {
                    let needs = &self.system.needs[&self.pieces[*piece].of];
                    self.count(*piece) * needs.share_percent.unwrap_or(100) as usize
                })
                .sum();
            let is_enough =
                sum <= 100 * cpus.len() && shared.iter().all(|piece| self.count(*piece) <= cpus.len());
            shared.iter().for_each(|piece| drop(all.insert(*piece, cpus.clone())));
            if is_enough && self.keeps_caches(shape, &all) {
                return Some(all);
            }
        }
        None
    }

    fn keeps_caches(&self, shape: &NodeShape, all: &BTreeMap<usize, Vec<u32>>) -> bool {
        let touched = |cpus: &Vec<u32>, groups: &[Vec<u32>]| -> Vec<usize> {
            (0..groups.len()).filter(|group| cpus.iter().any(|cpu| groups[*group].contains(cpu))).collect()
        };
        let caches: Vec<Vec<u32>> = if shape.caches.is_empty() {
            vec![shape.cpus.numbers().to_vec()]
        } else {
            shape.caches.iter().map(|cache| cache.numbers().to_vec()).collect()
        };
        let cores = cores(shape);
        all.iter().all(|(a, cpus)| {
            let needs = &self.system.needs[&self.pieces[*a].of];
            let own = touched(cpus, &cores);
            let threads = shape.cores.first().map_or(1, |core| core.numbers().len());
            all.iter().filter(|(b, _)| *b != a).all(|(b, theirs)| {
                let meet = |groups: &[Vec<u32>]| {
                    touched(cpus, groups).iter().any(|group| touched(theirs, groups).contains(group))
                };
                let is_meant =
                    needs.isolated_from.is_empty() || needs.isolated_from.contains(&self.pieces[*b].of);
                let is_apart = self.pieces[*a].of == self.pieces[*b].of && needs.apart() == Level::Cache;
                let keeps_core = needs.isolation != Some(Level::Core) || !meet(&cores);
                let wants = (needs.isolation == Some(Level::Cache) && is_meant) || is_apart;
                keeps_core && (!wants || !meet(&caches))
            }) && (needs.isolation != Some(Level::Core) || own.len() == cpus.len().div_ceil(threads))
        })
    }
}

fn reserved(host: &KnownHost) -> Vec<u32> {
    let mut reserved = Vec::new();
    for node in &host.shape.nodes {
        let mut cores = cores(node);
        cores.sort();
        for core in cores {
            if reserved.len() < host.reserve_cpus as usize {
                reserved.extend(core);
            }
        }
    }
    reserved
}
