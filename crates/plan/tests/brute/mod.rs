//! The best plan of a small system by trying all: places one by one, and CPUs of each node one by one. What a plan breaks and what it is
//! worth says `audit`, which has nothing of the planner.

use std::collections::BTreeMap;

use model::partition::NumberList;
use model::plan::{Goal, GoalValue, PLAN_SCHEMA_VERSION, Placed, Plan, PlannedHost, Rule, Seat, Spare};
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

/// Which of the rules about CPUs are kept.
#[derive(Clone, Copy)]
struct Keep(&'static [Rule]);

impl Keep {
    const ALL: Self = Self(&[Rule::Pool, Rule::Core, Rule::Isolation, Rule::Apart]);

    /// This rule, and those that it counts with.
    fn for_rule(rule: Rule) -> Self {
        Self(match rule {
            Rule::Isolation => &[Rule::Pool, Rule::Core, Rule::Isolation],
            Rule::Apart => &[Rule::Pool, Rule::Core, Rule::Apart],
            Rule::Pool => &[Rule::Pool, Rule::Core],
            Rule::Core => &[Rule::Core],
            _ => &[],
        })
    }

    fn has(self, rule: Rule) -> bool {
        self.0.contains(&rule)
    }
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

/// Which of these it can have; where there are none and it is there all the same, none.
fn choices(is_wanted: bool, names: Vec<&String>, anyhow: bool) -> Vec<Option<String>> {
    if !is_wanted || anyhow && names.is_empty() {
        return vec![None];
    }
    names.into_iter().cloned().map(Some).collect()
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

    /// Places that have what it needs; or `anyhow` all, so that it can be said what is wrong with it there.
    fn places(&self, piece: &Piece, anyhow: bool) -> Vec<Place> {
        let needs = &self.system.needs[&piece.of];
        let mut places = Vec::new();
        for (host, known) in self.hosts.iter().enumerate() {
            let shape = &known.shape;
            let disks = shape.disks.iter().map(|disk| &disk.name);
            let disks = choices(needs.disk.is_some(), disks.collect(), anyhow);
            let nics =
                choices(needs.network.is_some(), shape.nics.iter().map(|nic| &nic.name).collect(), anyhow);
            for nodes in subsets(shape.nodes.len(), piece.parts as usize) {
                for disk in &disks {
                    for nic in &nics {
                        for spare in self.spares(piece, host, anyhow) {
                            let (disk, nic) = (disk.clone(), nic.clone());
                            places.push(Place { host, nodes: nodes.clone(), disk, nic, spare });
                        }
                    }
                }
            }
        }
        places
    }

    fn spares(&self, piece: &Piece, host: usize, anyhow: bool) -> Vec<Option<Spare>> {
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
        if all.is_empty() && anyhow { vec![None] } else { all }
    }

    /// What the best plan is worth: none where nothing is possible; an error where there is too much to try.
    pub fn best(&self, from: Option<&Plan>) -> Result<Option<[u64; 6]>, ()> {
        let places: Vec<Vec<Place>> = self.pieces.iter().map(|piece| self.places(piece, false)).collect();
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
            let Some(plan) = self.plan(&chosen, |at, guests| self.cpus(Keep::ALL, at, guests)) else {
                continue;
            };
            if audit::broken_rules(self.system, self.hosts, &plan).is_empty() {
                let worth = audit::goals(self.system, self.hosts, &plan, from);
                best = Some(best.map_or(worth, |best| best.min(worth)));
            }
        }
        Ok(best)
    }

    /// All ways in which this one could be on these nodes of a host while all others stay on theirs.
    pub fn elsewhere(
        &self,
        plan: &Plan,
        name: &str,
        host: &str,
        nodes: &NumberList,
    ) -> Option<Other<'_, 'a>> {
        let of_piece = |piece: &Piece| -> Option<Vec<Place>> {
            let placed = plan.partitions.iter().find(|placed| placed.name == piece.name)?;
            let own = NumberList::of(placed.seats.iter().map(|seat| seat.node));
            let (host, nodes) = if piece.name == name { (host, nodes) } else { (placed.host.as_str(), &own) };
            let mut all = self.places(piece, true);
            all.retain(|place| {
                let shape = &self.hosts[place.host].shape;
                let numbers = place.nodes.iter().map(|node| shape.nodes[*node].number);
                self.hosts[place.host].name == host && NumberList::of(numbers) == *nodes
            });
            Some(all)
        };
        let places: Vec<Vec<Place>> = self.pieces.iter().map(of_piece).collect::<Option<_>>()?;
        Some(Other { brute: self, places })
    }

    /// Any CPUs: the first ones of the node.
    fn any_cpus(&self, (host, node): (usize, usize), guests: &[usize]) -> BTreeMap<usize, Vec<u32>> {
        let all = self.hosts[host].shape.nodes[node].cpus.numbers();
        let first = |piece: &usize| all.iter().copied().take(self.count(*piece)).collect();
        guests.iter().map(|piece| (*piece, first(piece))).collect()
    }

    fn plan(
        &self,
        chosen: &[&Place],
        cpus: impl Fn((usize, usize), &[usize]) -> Option<BTreeMap<usize, Vec<u32>>>,
    ) -> Option<Plan> {
        let mut seats: Vec<Vec<Seat>> = vec![Vec::new(); chosen.len()];
        for host in 0..self.hosts.len() {
            for node in 0..self.hosts[host].shape.nodes.len() {
                let is_here =
                    |piece: &usize| chosen[*piece].host == host && chosen[*piece].nodes.contains(&node);
                let guests: Vec<usize> = (0..chosen.len()).filter(is_here).collect();
                for (piece, cpus) in cpus((host, node), &guests)? {
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
                elsewhere: None,
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
    fn cpus(
        &self,
        keep: Keep,
        (host, node): (usize, usize),
        guests: &[usize],
    ) -> Option<BTreeMap<usize, Vec<u32>>> {
        let shape = &self.hosts[host].shape.nodes[node];
        let free: Vec<u32> =
            shape.cpus.numbers().iter().copied().filter(|cpu| !self.reserved[host].contains(cpu)).collect();
        let is_shared = |piece: &&usize| self.system.needs[&self.pieces[**piece].of].cpu == Cpu::Shared;
        let whole: Vec<usize> = guests.iter().filter(|piece| !is_shared(piece)).copied().collect();
        let shared: Vec<usize> = guests.iter().filter(is_shared).copied().collect();
        self.choose(keep, shape, &whole, &shared, &free, &mut BTreeMap::new())
    }

    fn count(&self, piece: usize) -> usize {
        let entry = &self.system.set.partitions[&self.pieces[piece].of];
        (entry.cpus / self.pieces[piece].parts) as usize
    }

    fn choose(
        &self,
        keep: Keep,
        shape: &NodeShape,
        whole: &[usize],
        shared: &[usize],
        free: &[u32],
        taken: &mut BTreeMap<usize, Vec<u32>>,
    ) -> Option<BTreeMap<usize, Vec<u32>>> {
        let Some((&piece, rest)) = whole.split_first() else {
            return self.with_pool(keep, shape, shared, free, taken);
        };
        for of in subsets(free.len(), self.count(piece)) {
            let cpus: Vec<u32> = of.iter().map(|place| free[*place]).collect();
            let left: Vec<u32> = free.iter().copied().filter(|cpu| !cpus.contains(cpu)).collect();
            taken.insert(piece, cpus);
            if let Some(found) = self.choose(keep, shape, rest, shared, &left, taken) {
                return Some(found);
            }
            taken.remove(&piece);
        }
        None
    }

    fn with_pool(
        &self,
        keep: Keep,
        shape: &NodeShape,
        shared: &[usize],
        free: &[u32],
        taken: &BTreeMap<usize, Vec<u32>>,
    ) -> Option<BTreeMap<usize, Vec<u32>>> {
        let pools: Vec<Vec<usize>> = if shared.is_empty() {
            vec![Vec::new()]
        } else if !keep.has(Rule::Pool) {
            vec![(0..free.len()).collect()]
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
            let is_enough = !keep.has(Rule::Pool)
                || sum <= 100 * cpus.len() && shared.iter().all(|piece| self.count(*piece) <= cpus.len());
            shared.iter().for_each(|piece| drop(all.insert(*piece, cpus.clone())));
            if is_enough && self.keeps_caches(keep, shape, &all) {
                return Some(all);
            }
        }
        None
    }

    fn keeps_caches(&self, keep: Keep, shape: &NodeShape, all: &BTreeMap<usize, Vec<u32>>) -> bool {
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
                let keeps_core =
                    !keep.has(Rule::Core) || needs.isolation != Some(Level::Core) || !meet(&cores);
                let wants = (keep.has(Rule::Isolation) && needs.isolation == Some(Level::Cache) && is_meant)
                    || keep.has(Rule::Apart) && is_apart;
                keeps_core && (!wants || !meet(&caches))
            }) && (!keep.has(Rule::Core)
                || needs.isolation != Some(Level::Core)
                || own.len() == cpus.len().div_ceil(threads))
        })
    }
}

/// One replica elsewhere, all others on their nodes; which disk, card and spare each has is open.
pub struct Other<'b, 'a> {
    brute: &'b Brute<'a>,
    places: Vec<Vec<Place>>,
}

impl Other<'_, '_> {
    /// In how many ways.
    pub fn ways(&self) -> usize {
        self.places.iter().map(Vec::len).product()
    }

    fn all(&self) -> impl Iterator<Item = Vec<&Place>> {
        (0..self.ways()).map(|mut number| {
            let one = |of: &'_ Vec<Place>| {
                let at = number % of.len();
                number /= of.len();
                at
            };
            let at: Vec<usize> = self.places.iter().map(one).collect();
            self.places.iter().zip(at).map(|(of, at)| &of[at]).collect()
        })
    }

    /// What it is worth in the first way that keeps all rules; none where there is no such way.
    pub fn worth(&self, from: Option<&Plan>) -> Option<[u64; 6]> {
        let Brute { system, hosts, .. } = self.brute;
        let plans = self.all().filter_map(|chosen| {
            self.brute.plan(&chosen, |at, guests| self.brute.cpus(Keep::ALL, at, guests))
        });
        let mut right = plans.filter(|plan| audit::broken_rules(system, hosts, plan).is_empty());
        right.next().map(|plan| audit::goals(system, hosts, &plan, from))
    }

    /// Whether this rule, whatever becomes of the others, is kept in any of the ways.
    pub fn can_keep(&self, rule: Rule) -> bool {
        let Brute { system, hosts, .. } = self.brute;
        let keeps = |plan: &Plan| audit::broken_rules(system, hosts, plan).iter().all(|one| one.rule != rule);
        let with = |chosen: &[&Place], keep: Keep| {
            self.brute.plan(chosen, |at, guests| self.brute.cpus(keep, at, guests))
        };
        self.all().any(|chosen| {
            let keep = Keep::for_rule(rule);
            let anyhow = || self.brute.plan(&chosen, |at, guests| Some(self.brute.any_cpus(at, guests)));
            match rule {
                Rule::Cpus | Rule::Pool | Rule::Core => with(&chosen, keep).is_some(),
                Rule::Isolation | Rule::Apart => {
                    let is_room = with(&chosen, Keep::for_rule(Rule::Pool)).is_some();
                    let found = if is_room { with(&chosen, keep) } else { anyhow() };
                    found.is_some_and(|plan| keeps(&plan))
                }
                _ => anyhow().is_some_and(|plan| keeps(&plan)),
            }
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
