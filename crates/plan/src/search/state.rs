//! Who is where, what is left of everything, and what a step would change.

mod free;

use std::collections::BTreeSet;

use model::system::{Device, Level};

use crate::problem::Problem;
use crate::site::Port;

/// What a plan is worth, by its goals: hosts, sockets spanned, traffic between hosts and between nodes, moves first.
pub type Worth = (i64, i64, i64, i64, i64);

/// No device has room.
struct Full;

/// Where a replica is, or is to be.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Place {
    /// Its nodes, ascending; none while it is nowhere.
    pub nodes: Vec<usize>,
    /// Its disk, of its host.
    pub disk: Option<usize>,
    /// Its card.
    pub card: Option<usize>,
}

/// A plan in the making.
#[derive(Debug, Clone)]
pub struct State {
    /// Nodes of each replica, ascending; none while it is nowhere.
    pub nodes: Vec<Vec<usize>>,
    /// The disk each has, of its host.
    pub disk: Vec<Option<usize>>,
    /// The card.
    pub card: Vec<Option<usize>>,
    milli: Vec<i64>,
    whole: Vec<i64>,
    memory: Vec<i64>,
    huge: Vec<i64>,
    /// Who is on each node.
    guests: Vec<Vec<usize>>,
    /// How many are on each host.
    on_host: Vec<usize>,
    /// By replica: who must not be met, at which level.
    foes: Vec<Vec<(Level, usize)>>,
    /// By replica: its talks.
    talks: Vec<Vec<usize>>,
    /// By replica: who must be on its host.
    friends: Vec<Vec<usize>>,
}

impl State {
    /// Nobody is anywhere.
    pub fn new(problem: &Problem) -> Self {
        let (pieces, nodes) = (problem.pieces.len(), problem.site.nodes.len());
        let mut foes = vec![Vec::new(); pieces];
        for meeting in problem.meetings.keys() {
            let (a, b) = meeting.pieces;
            foes[a].push((meeting.level, b));
            foes[b].push((meeting.level, a));
        }
        let mut talks = vec![Vec::new(); pieces];
        for (number, talk) in problem.talks.iter().enumerate() {
            talks[talk.pieces.0].push(number);
            talks[talk.pieces.1].push(number);
        }
        let mut friends = vec![Vec::new(); pieces];
        for group in &problem.together {
            for piece in group {
                friends[*piece].extend(group.iter().copied().filter(|other| other != piece));
            }
        }
        Self {
            nodes: vec![Vec::new(); pieces],
            disk: vec![None; pieces],
            card: vec![None; pieces],
            milli: vec![0; nodes],
            whole: vec![0; nodes],
            memory: vec![0; nodes],
            huge: vec![0; nodes],
            guests: vec![Vec::new(); nodes],
            on_host: vec![0; problem.site.hosts.len()],
            foes,
            talks,
            friends,
        }
    }

    /// The host it is on.
    pub fn host(&self, problem: &Problem, piece: usize) -> Option<usize> {
        self.nodes[piece].first().map(|node| problem.site.nodes[*node].host)
    }

    /// Those it speaks with.
    pub(super) fn speaks_with(&self, problem: &Problem, piece: usize) -> Vec<usize> {
        let other = |talk: &usize| {
            let (a, b) = problem.talks[*talk].pieces;
            if a == piece { b } else { a }
        };
        self.talks[piece].iter().map(other).collect()
    }

    /// Puts it there. It is nowhere, and has room there.
    pub fn put(&mut self, problem: &Problem, piece: usize, nodes: Vec<usize>) {
        let host = problem.site.nodes[nodes[0]].host;
        let disk = self.device(problem, piece, host, &nodes, Device::Disk).unwrap_or(None);
        let card = self.device(problem, piece, host, &nodes, Device::Nic).unwrap_or(None);
        self.put_at(problem, piece, Place { nodes, disk, card });
    }

    /// Puts it there with these devices. It is nowhere.
    pub fn put_at(&mut self, problem: &Problem, piece: usize, place: Place) {
        let Place { nodes, disk, card } = place;
        let Some(host) = nodes.first().map(|node| problem.site.nodes[*node].host) else { return };
        (self.disk[piece], self.card[piece]) = (disk, card);
        self.count(problem, piece, &nodes, 1);
        self.on_host[host] += 1;
        nodes.iter().for_each(|node| self.guests[*node].push(piece));
        self.nodes[piece] = nodes;
    }

    /// Where it is.
    pub fn place(&self, piece: usize) -> Place {
        Place { nodes: self.nodes[piece].clone(), disk: self.disk[piece], card: self.card[piece] }
    }

    /// Takes it away.
    pub fn take(&mut self, problem: &Problem, piece: usize) {
        let nodes = std::mem::take(&mut self.nodes[piece]);
        let Some(first) = nodes.first() else { return };
        self.on_host[problem.site.nodes[*first].host] -= 1;
        self.count(problem, piece, &nodes, -1);
        nodes.iter().for_each(|node| self.guests[*node].retain(|guest| *guest != piece));
        (self.disk[piece], self.card[piece]) = (None, None);
    }

    fn count(&mut self, problem: &Problem, piece: usize, nodes: &[usize], sign: i64) {
        let one = &problem.pieces[piece];
        for (place, &node) in nodes.iter().enumerate() {
            let here = &problem.site.nodes[node];
            self.milli[node] += sign * one.milli(here);
            self.whole[node] += sign * one.whole(here);
            self.memory[node] += sign * (one.plain_memory() + if place == 0 { one.channels } else { 0 });
            self.huge[node] += sign * if one.huge { one.memory } else { 0 };
        }
    }

    /// Whether a part of it has room on a node, whoever else is there.
    fn has_room(&self, problem: &Problem, piece: usize, node: usize, is_first: bool) -> bool {
        let (one, here) = (&problem.pieces[piece], &problem.site.nodes[node]);
        let channels = if is_first { one.channels } else { 0 };
        let pool = self.guests[node]
            .iter()
            .filter(|guest| problem.pieces[**guest].share.is_some())
            .map(|guest| problem.pieces[*guest].cpus)
            .chain(one.share.map(|_| one.cpus))
            .max()
            .unwrap_or(0);
        self.milli[node] + one.milli(here) <= 1000 * here.cpus()
            && self.whole[node] + one.whole(here) + pool <= here.cpus()
            && self.memory[node] + one.plain_memory() + channels <= here.memory
            && (!one.huge || self.huge[node] + one.memory <= here.huge)
    }

    /// Whether it may be on these nodes of one host with all who are placed.
    fn may_be(&self, problem: &Problem, piece: usize, nodes: &[usize]) -> bool {
        let host = problem.site.nodes[nodes[0]].host;
        self.may_meet(problem, piece, nodes, Level::Cache)
            && self.device(problem, piece, host, nodes, Device::Disk).is_ok()
            && self.device(problem, piece, host, nodes, Device::Nic).is_ok()
    }

    /// The same but for its devices. For those who must have nothing of this level in common a node in common is too much; what
    /// is below is not looked at.
    fn may_meet(&self, problem: &Problem, piece: usize, nodes: &[usize], least: Level) -> bool {
        let site = &problem.site;
        let host = site.nodes[nodes[0]].host;
        let meets = |(level, other): &(Level, usize)| {
            let theirs = &self.nodes[*other];
            let Some(there) = theirs.first().map(|node| site.nodes[*node].host) else { return false };
            match level {
                level if *level < least => false,
                Level::Core => false,
                Level::Cache | Level::Node => theirs.iter().any(|node| nodes.contains(node)),
                Level::Socket => theirs
                    .iter()
                    .any(|a| nodes.iter().any(|b| site.nodes[*a].socket == site.nodes[*b].socket)),
                Level::Host => there == host,
                Level::Switch => site.hosts[there].switch == site.hosts[host].switch,
            }
        };
        let is_together = self.friends[piece]
            .iter()
            .all(|friend| self.host(problem, *friend).is_none_or(|there| there == host));
        is_together
            && !self.foes[piece].iter().any(meets)
            && self.talks[piece].iter().all(|talk| self.is_quick(problem, *talk, piece, nodes))
            && self.can_carry(problem, piece, host)
    }

    fn is_quick(&self, problem: &Problem, talk: usize, piece: usize, nodes: &[usize]) -> bool {
        let talk = &problem.talks[talk];
        let Some(most) = talk.latency else { return true };
        let other = if talk.pieces.0 == piece { talk.pieces.1 } else { talk.pieces.0 };
        let theirs = &self.nodes[other];
        theirs.is_empty() || problem.site.way(theirs, nodes).latency.high() <= most.unsigned_abs()
    }

    /// The device it would have: none wanted, one of those with room, or an error if there is none.
    fn device(
        &self,
        problem: &Problem,
        piece: usize,
        host: usize,
        nodes: &[usize],
        device: Device,
    ) -> Result<Option<usize>, Full> {
        let needs = |piece: usize| &problem.needs[problem.pieces[piece].partition];
        let (ports, taken) = match device {
            Device::Disk if needs(piece).disk.is_some() => (&problem.site.hosts[host].disks, &self.disk),
            Device::Nic if needs(piece).network.is_some() => (&problem.site.hosts[host].cards, &self.card),
            _ => return Ok(None),
        };
        let fits = |port: &usize| self.port_fits(problem, piece, nodes, device, (ports, taken, *port));
        (0..ports.len()).find(fits).map(Some).ok_or(Full)
    }

    /// Whether one of the ports of its host has room for it, with what others have of them.
    fn port_fits(
        &self,
        problem: &Problem,
        piece: usize,
        nodes: &[usize],
        device: Device,
        (ports, taken, port): (&[Port], &[Option<usize>], usize),
    ) -> bool {
        let needs = |piece: usize| &problem.needs[problem.pieces[piece].partition];
        let host = nodes.first().map(|node| problem.site.nodes[*node].host);
        let takers = || {
            (0..taken.len()).filter(move |other| {
                *other != piece && taken[*other] == Some(port) && self.host(problem, *other) == host
            })
        };
        let Some(here) = ports.get(port) else { return false };
        let is_near = needs(piece).near.contains(&device);
        if is_near && here.node.is_some_and(|node| !nodes.contains(&node)) {
            return false;
        }
        let rate = |piece: usize| match device {
            Device::Disk => problem.disk_rate(piece),
            Device::Nic => problem.network_rate(piece),
        };
        let sum: i64 = takers().map(rate).sum();
        let fits = sum + rate(piece) <= here.rate;
        fits && match device {
            Device::Nic => {
                let receives = |piece: usize| needs(piece).network.is_some_and(|need| need.receives);
                let count = takers().filter(|other| receives(*other)).count() as i64;
                !receives(piece) || count < here.receivers
            }
            Device::Disk => {
                let stall = |piece: usize| problem.longest_stall(piece);
                let is_alone = takers().next().is_none();
                let least = takers().map(stall).min().unwrap_or(i64::MAX).min(stall(piece));
                least >= here.longest_stall(is_alone)
            }
        }
    }

    /// Whether cards and links of its host still carry all, with it there.
    fn can_carry(&self, problem: &Problem, piece: usize, host: usize) -> bool {
        let site = &problem.site;
        let is_limited = site.links.iter().any(|link| link.rate.is_some())
            || site.hosts.iter().any(|host| !host.cards.is_empty());
        if !is_limited || site.hosts.len() < 2 {
            return true;
        }
        let at = |one: usize| if one == piece { Some(host) } else { self.host(problem, one) };
        let mut leaves = vec![0i64; site.hosts.len()];
        for one in 0..problem.pieces.len() {
            if let Some(host) = at(one) {
                leaves[host] += problem.network_rate(one);
            }
        }
        let mut over = vec![0i64; site.links.len()];
        for talk in &problem.talks {
            if let (Some(a), Some(b)) = (at(talk.pieces.0), at(talk.pieces.1))
                && a != b
            {
                leaves[a] += talk.rate;
                leaves[b] += talk.rate;
                for (number, link) in site.links.iter().enumerate() {
                    over[number] += if link.joins(a, b) { talk.rate } else { 0 };
                }
            }
        }
        let carries = |(host, leaves): (usize, &i64)| {
            let cards = &site.hosts[host].cards;
            cards.is_empty() || *leaves <= cards.iter().map(|card| card.rate).sum::<i64>()
        };
        leaves.iter().enumerate().all(carries)
            && site.links.iter().zip(&over).all(|(link, over)| link.rate.is_none_or(|rate| *over <= rate))
    }

    /// All places where it may be; of several parts, the nodes with most room of each host and of each socket.
    pub(super) fn places(&self, problem: &Problem, piece: usize) -> Vec<Vec<usize>> {
        let one = &problem.pieces[piece];
        let parts = one.parts as usize;
        let mut places = Vec::new();
        for &host in &one.hosts {
            let nodes = problem.site.hosts[host].nodes.clone();
            let free: Vec<usize> =
                nodes.filter(|node| parts > 0 && self.has_room(problem, piece, *node, true)).collect();
            if parts == 1 {
                places.extend(free.into_iter().map(|node| vec![node]));
                continue;
            }
            let sockets: BTreeSet<Option<usize>> =
                free.iter().map(|node| Some(problem.site.nodes[*node].socket)).chain([None]).collect();
            for socket in sockets {
                let mut of: Vec<usize> = free
                    .iter()
                    .copied()
                    .filter(|node| socket.is_none_or(|socket| problem.site.nodes[*node].socket == socket))
                    .collect();
                of.sort_by_key(|node| (self.milli[*node], *node));
                of.truncate(parts);
                of.sort_unstable();
                if of.len() == parts && parts > 0 {
                    places.push(of);
                }
            }
        }
        places.retain(|nodes| self.may_be(problem, piece, nodes));
        places
    }

    /// What it would cost there.
    fn cost(&self, problem: &Problem, piece: usize, nodes: &[usize]) -> Worth {
        let site = &problem.site;
        let host = site.nodes[nodes[0]].host;
        let moved = problem.was[piece].as_ref().is_some_and(|was| !was.iter().eq(nodes.iter()));
        let opened = i64::from(self.on_host[host] == 0);
        let spanned = if nodes.len() > 1 {
            nodes.iter().map(|node| site.nodes[*node].socket).collect::<BTreeSet<usize>>().len() as i64
        } else {
            0
        };
        let (mut hosts, mut between) = (0, 0);
        for talk in &self.talks[piece] {
            let talk = &problem.talks[*talk];
            let other = if talk.pieces.0 == piece { talk.pieces.1 } else { talk.pieces.0 };
            let Some(there) = self.host(problem, other) else { continue };
            if there != host {
                hosts += talk.rate;
            } else if !self.nodes[other].iter().any(|node| nodes.contains(node)) {
                let near = self.nodes[other]
                    .iter()
                    .any(|a| nodes.iter().any(|b| site.nodes[*a].socket == site.nodes[*b].socket));
                between += if near { talk.rate } else { 2 * talk.rate };
            }
        }
        (i64::from(moved), opened, spanned, hosts, between)
    }

    /// The place that costs least; of those the fullest.
    pub(super) fn cheapest(&self, problem: &Problem, piece: usize) -> Option<Vec<usize>> {
        let left = |nodes: &Vec<usize>| -> i64 {
            nodes.iter().map(|node| 1000 * problem.site.nodes[*node].cpus() - self.milli[*node]).sum()
        };
        let places = self.places(problem, piece);
        places.into_iter().min_by_key(|nodes| (self.cost(problem, piece, nodes), left(nodes)))
    }

    /// Moves it, or exchanges it with another one, if that is better.
    pub(super) fn improve(&mut self, problem: &Problem, piece: usize) -> bool {
        let was = self.nodes[piece].clone();
        self.take(problem, piece);
        let before = self.cost(problem, piece, &was);
        let places = self.places(problem, piece);
        let best = places.into_iter().map(|nodes| (self.cost(problem, piece, &nodes), nodes)).min();
        if let Some((cost, nodes)) = best
            && cost < before
        {
            self.put(problem, piece, nodes);
            return true;
        }
        self.put(problem, piece, was.clone());
        if was.len() > 1 {
            return false;
        }
        self.exchange(problem, piece, was[0])
    }

    /// Exchanges it with somebody on a node of those it speaks with.
    fn exchange(&mut self, problem: &Problem, piece: usize, was: usize) -> bool {
        let mut nodes: Vec<usize> =
            self.speaks_with(problem, piece).iter().flat_map(|other| self.nodes[*other].clone()).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes.retain(|node| *node != was);
        for node in nodes {
            for other in self.guests[node].clone() {
                if self.nodes[other].len() != 1 {
                    continue;
                }
                self.take(problem, piece);
                self.take(problem, other);
                let is_free = |state: &Self, one: usize, node: usize| {
                    problem.pieces[one].hosts.contains(&problem.site.nodes[node].host)
                        && state.has_room(problem, one, node, true)
                        && state.may_be(problem, one, &[node])
                };
                if is_free(self, piece, node) {
                    self.put(problem, piece, vec![node]);
                    let is_possible = is_free(self, other, was);
                    self.take(problem, piece);
                    if is_possible {
                        let now = self.pair(problem, piece, node, other, was);
                        if now < self.pair(problem, piece, was, other, node) {
                            self.put(problem, piece, vec![node]);
                            self.put(problem, other, vec![was]);
                            return true;
                        }
                    }
                }
                self.put(problem, piece, vec![was]);
                self.put(problem, other, vec![node]);
            }
        }
        false
    }

    /// What two cost together at these nodes; both are nowhere.
    fn pair(&mut self, problem: &Problem, a: usize, at_a: usize, b: usize, at_b: usize) -> Worth {
        let first = self.cost(problem, a, &[at_a]);
        self.put(problem, a, vec![at_a]);
        let second = self.cost(problem, b, &[at_b]);
        self.take(problem, a);
        (first.0 + second.0, first.1 + second.1, first.2 + second.2, first.3 + second.3, first.4 + second.4)
    }

    /// What all of it is worth.
    pub fn worth(&self, problem: &Problem) -> Worth {
        let mut sum = (0, self.on_host.iter().filter(|count| **count > 0).count() as i64, 0, 0, 0);
        for piece in 0..self.nodes.len() {
            if self.nodes[piece].is_empty() {
                continue;
            }
            let cost = self.cost(problem, piece, &self.nodes[piece]);
            sum = (sum.0 + cost.0, sum.1, sum.2 + cost.2, sum.3 + cost.3, sum.4 + cost.4);
        }
        // Each talk was seen from both ends.
        (sum.0, sum.1, sum.2, sum.3 / 2, sum.4 / 2)
    }

    /// What it is worth by all goals with this one elsewhere; it stays there.
    pub fn worth_with(&mut self, problem: &Problem, piece: usize, nodes: &[usize]) -> [i64; 6] {
        self.take(problem, piece);
        self.put(problem, piece, nodes.to_vec());
        let (moves, hosts, spanned, between_hosts, between_nodes) = self.worth(problem);
        [moves, hosts, spanned, between_hosts, between_nodes, self.fullest(problem)]
    }

    /// Percent of the fullest node, rounded up.
    pub fn fullest(&self, problem: &Problem) -> i64 {
        let percent = |used: i64, there: i64| if there > 0 { (100 * used + there - 1) / there } else { 0 };
        let one = |node: usize| {
            let here = &problem.site.nodes[node];
            percent(self.milli[node], 1000 * here.cpus()).max(percent(self.memory[node], here.memory))
        };
        (0..problem.site.nodes.len()).map(one).max().unwrap_or(0)
    }
}
