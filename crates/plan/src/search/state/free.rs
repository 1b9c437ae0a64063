//! Whether a place is free for somebody who comes while all others run: what a step of a re-plan asks. Unlike the search it looks
//! at the devices that a plan names, and at caches.
//!
//! ```text
//!  room of its nodes, with itself where it is ─► whom it must not meet, talks, links ─► its disk, its card ─► caches can be dealt out
//! ```

use model::system::{Device, Level};

use super::{Place, State};
use crate::problem::Problem;
use crate::site::Port;

/// Ways to deal out the caches of a node that are tried.
const MOST_WAYS: u32 = 20_000;

impl State {
    /// Whether it could be there now with these devices, beside all others and beside itself where it is. Looks at caches, too.
    pub(crate) fn is_free_for(&self, problem: &Problem, piece: usize, place: &Place) -> bool {
        let nodes = &place.nodes;
        let Some(first) = nodes.first() else { return false };
        let host = &problem.site.hosts[problem.site.nodes[*first].host];
        let needs = &problem.needs[problem.pieces[piece].partition];
        let has_room = |(place, node): (usize, &usize)| self.has_room(problem, piece, *node, place == 0);
        let has_port = |device, ports: &[Port], taken: &[Option<usize>], port: Option<usize>| {
            port.is_some_and(|port| self.port_fits(problem, piece, nodes, device, (ports, taken, port)))
        };
        // Rule `alone`, with itself: two of it would hold the same port, folder or disk.
        let is_there_twice = self.host(problem, piece) == Some(problem.site.nodes[*first].host);
        nodes.iter().enumerate().all(has_room)
            && !(is_there_twice && problem.is_single[problem.pieces[piece].partition])
            && self.may_meet(problem, piece, nodes, Level::Node)
            && (needs.disk.is_none() || has_port(Device::Disk, &host.disks, &self.disk, place.disk))
            && (needs.network.is_none() || has_port(Device::Nic, &host.cards, &self.card, place.card))
            && nodes.iter().all(|node| self.caches_fit(problem, piece, *node))
    }

    /// Whether caches can be dealt out on a node with it there as well.
    fn caches_fit(&self, problem: &Problem, piece: usize, node: usize) -> bool {
        let guests: Vec<usize> = self.guests[node].iter().copied().chain([piece]).collect();
        let must_not_meet = |a: usize, b: usize| self.foes[a].contains(&(Level::Cache, b));
        fit(problem, node, &guests, &must_not_meet)
    }

    /// Where else it could be for a while, beside itself where it is.
    pub(crate) fn third_places(&self, problem: &Problem, piece: usize, target: &Place) -> Vec<Place> {
        let with_devices = |nodes: Vec<usize>| {
            let host = problem.site.nodes[nodes[0]].host;
            let device = |device| self.device(problem, piece, host, &nodes, device).ok();
            let (disk, card) = (device(Device::Disk)?, device(Device::Nic)?);
            Some(Place { nodes, disk, card })
        };
        let is_third = |place: &Place| place.nodes != self.nodes[piece] && place.nodes != target.nodes;
        let places = self.places(problem, piece).into_iter().filter_map(with_devices);
        places.filter(|place| is_third(place) && self.is_free_for(problem, piece, place)).collect()
    }
}

/// Somebody who wants CPUs of a node, or all who share its pool.
struct Taker {
    who: Vec<usize>,
    /// CPUs at least; of whole cores all their threads.
    cpus: i64,
    /// It takes as many at once: those of a core, or one.
    step: i64,
}

/// Whether each of `guests` can have its CPUs of the node so that no two that must not meet have a cache in common. Tries all ways;
/// where there are too many it is said that they cannot.
fn fit(
    problem: &Problem,
    node: usize,
    guests: &[usize],
    must_not_meet: &dyn Fn(usize, usize) -> bool,
) -> bool {
    let here = &problem.site.nodes[node];
    if !guests.iter().any(|a| guests.iter().any(|b| must_not_meet(*a, *b))) {
        return true;
    }
    let is_shared = |piece: &&usize| problem.pieces[**piece].share.is_some();
    let mut takers: Vec<Taker> = Vec::new();
    for piece in guests.iter().filter(|piece| !is_shared(piece)) {
        let one = &problem.pieces[*piece];
        let step = if one.cores { i64::from(here.threads) } else { 1 };
        takers.push(Taker { who: vec![*piece], cpus: one.whole(here), step });
    }
    let pool: Vec<usize> = guests.iter().filter(is_shared).copied().collect();
    if let Some(largest) = pool.iter().map(|piece| problem.pieces[*piece].cpus).max() {
        let milli: i64 = pool.iter().map(|piece| problem.pieces[*piece].milli(here)).sum();
        takers.push(Taker { who: pool, cpus: largest.max((milli + 999) / 1000), step: 1 });
    }
    let meet = |a: &Taker, b: &Taker| a.who.iter().any(|a| b.who.iter().any(|b| must_not_meet(*a, *b)));
    // A pool is one for all who share.
    if takers.iter().any(|taker| meet(taker, taker)) {
        return false;
    }
    let of_cache = |cache: &Vec<u32>| {
        here.cores
            .iter()
            .filter(|core| core.iter().all(|cpu| cache.contains(cpu)))
            .map(Vec::len)
            .sum::<usize>() as i64
    };
    let mut deal = Deal {
        left: here.caches.iter().map(of_cache).collect(),
        at: vec![Vec::new(); here.caches.len()],
        meets: takers.iter().map(|a| takers.iter().map(|b| meet(a, b)).collect()).collect(),
        ways: MOST_WAYS,
    };
    let wanted = takers.first().map_or(0, |taker| taker.cpus);
    deal.goes_on(&takers, 0, 0, wanted)
}

/// Caches of a node that are being dealt out.
struct Deal {
    /// CPUs left of each.
    left: Vec<i64>,
    /// Who is at each.
    at: Vec<Vec<usize>>,
    meets: Vec<Vec<bool>>,
    ways: u32,
}

impl Deal {
    /// Whether a taker that still wants so many can have them from this cache on, and all after it theirs.
    fn goes_on(&mut self, takers: &[Taker], taker: usize, cache: usize, wanted: i64) -> bool {
        let Some(one) = takers.get(taker) else { return true };
        if wanted <= 0 {
            let next = takers.get(taker + 1).map_or(0, |next| next.cpus);
            return self.goes_on(takers, taker + 1, 0, next);
        }
        if cache == self.left.len() || self.ways == 0 {
            return false;
        }
        self.ways -= 1;
        let is_met = self.at[cache].iter().any(|other| self.meets[taker][*other]);
        let most = if is_met { 0 } else { self.left[cache].min(wanted) / one.step * one.step };
        let mut count = most;
        while count > 0 {
            self.left[cache] -= count;
            self.at[cache].push(taker);
            let fits = self.goes_on(takers, taker, cache + 1, wanted - count);
            self.at[cache].pop();
            self.left[cache] += count;
            if fits {
                return true;
            }
            count -= one.step;
        }
        self.goes_on(takers, taker, cache + 1, wanted)
    }
}
