//! What plans are compared by: `docs/plan.md`, "What is best". And bounds that follow from sums of all rooms.

use model::plan::Goal;

use super::{At, Encoder, Group, Held, kind};
use crate::pb::{AtLeast, Derived, Lit, Objective};
use crate::problem::Talk;

/// Bits of a percentage.
const PERCENT_BITS: u32 = 7;

impl Encoder<'_> {
    pub(super) fn goals(&mut self) {
        self.group(Group::Goals);
        self.hosts_hold_all();
        for goal in Goal::ALL {
            let terms = match goal {
                Goal::Moves => self.moves(),
                Goal::Hosts => self.used.iter().flatten().map(|used| (1, *used)).collect(),
                Goal::SocketsSpanned => self.spanned(),
                Goal::BetweenHosts => self.between_hosts(),
                Goal::BetweenNodes => self.between_nodes(),
                Goal::FullestNode => self.fullest(),
            };
            // One literal may stand for several.
            let AtLeast { terms, .. } = AtLeast::of(terms, 0);
            self.formula.goals.push(Objective { name: goal.word(), terms });
        }
    }

    fn moves(&mut self) -> Vec<(i64, Lit)> {
        let mut terms = Vec::new();
        for piece in 0..self.problem.pieces.len() {
            let Some(was) = &self.problem.was[piece] else { continue };
            let moved = self.formula.variable();
            let is_possible = was.len() == self.problem.pieces[piece].parts as usize
                && was.iter().all(|node| self.x[piece][*node].is_some());
            if is_possible {
                for node in was {
                    if let Some(x) = self.x[piece][*node] {
                        self.clause([x, moved]);
                    }
                }
            } else {
                self.clause([moved]);
            }
            terms.push((1, moved));
        }
        terms
    }

    /// Whether a replica has a node of a socket.
    fn socket(&mut self, piece: usize, socket: usize) -> Option<Lit> {
        let role = (kind::SOCKET, piece, 0);
        if let Some(var) = self.places.get(&At::Socket(socket)).and_then(|roles| roles.get(&role)) {
            return Some(Lit::new(*var));
        }
        let nodes = &self.problem.site.nodes;
        let xs: Vec<Lit> = (0..nodes.len())
            .filter(|node| nodes[*node].socket == socket)
            .filter_map(|node| self.x[piece][node])
            .collect();
        let is_one = nodes.iter().filter(|node| node.socket == socket).count() == 1;
        match xs.as_slice() {
            [] => None,
            [x] if is_one => Some(*x),
            _ => {
                let there = self.variable(At::Socket(socket), role);
                self.any(there, &xs);
                Some(there)
            }
        }
    }

    fn spanned(&mut self) -> Vec<(i64, Lit)> {
        let mut terms = Vec::new();
        for piece in 0..self.problem.pieces.len() {
            if self.problem.pieces[piece].parts > 1 {
                for socket in 0..self.problem.site.sockets {
                    terms.extend(self.socket(piece, socket).map(|there| (1, there)));
                }
            }
        }
        terms
    }

    fn between_hosts(&self) -> Vec<(i64, Lit)> {
        let rates = self.problem.talks.iter().map(|talk| talk.rate);
        rates.zip(&self.crosses).filter_map(|(rate, crosses)| Some((rate, (*crosses)?))).collect()
    }

    fn between_nodes(&mut self) -> Vec<(i64, Lit)> {
        let problem = self.problem;
        let mut terms = Vec::new();
        for (number, talk) in problem.talks.iter().enumerate().filter(|(_, talk)| talk.rate > 0) {
            if problem.site.hosts.iter().all(|host| host.nodes.len() < 2) {
                continue;
            }
            let (far, further) = self.apart(number, talk);
            let is_one_each = problem.site.sockets == problem.site.nodes.len();
            terms.push((if is_one_each { 2 * talk.rate } else { talk.rate }, far));
            terms.extend(further.map(|further| (talk.rate, further)));
        }
        terms
    }

    /// Whether the two of a talk are on one host and have no node in common; and no socket, where that is something else.
    fn apart(&mut self, number: usize, talk: &Talk) -> (Lit, Option<Lit>) {
        let site = &self.problem.site;
        let (a, b) = talk.pieces;
        let pair = (a.min(b), a.max(b));
        // Two that speak both ways are apart both ways.
        if let Some(known) = self.apart.get(&pair) {
            return *known;
        }
        let far = self.formula.variable();
        self.far(number, talk, far, false);
        let has_sockets = site.sockets != site.nodes.len() && site.sockets > site.hosts.len();
        let further = has_sockets.then(|| self.formula.variable());
        if let Some(further) = further {
            self.far(number, talk, further, true);
        }
        self.apart.insert(pair, (far, further));
        (far, further)
    }

    /// `far` is true where the two are on one host and have no node, or no socket, in common.
    fn far(&mut self, number: usize, talk: &Talk, far: Lit, by_socket: bool) {
        let problem = self.problem;
        let (a, b) = talk.pieces;
        let or: Vec<Lit> = [far].into_iter().chain(self.crosses[number]).collect();
        let is_single = problem.pieces[a].parts < 2 && problem.pieces[b].parts < 2;
        for host in 0..problem.site.hosts.len() {
            let mut places: Vec<(Option<Lit>, Option<Lit>)> = Vec::new();
            let mut common: Vec<Lit> = Vec::new();
            let nodes = problem.site.hosts[host].nodes.clone();
            if by_socket {
                let mut sockets: Vec<usize> = nodes.map(|node| problem.site.nodes[node].socket).collect();
                sockets.dedup();
                sockets.sort_unstable();
                sockets.dedup();
                for socket in sockets {
                    places.push((self.socket(a, socket), self.socket(b, socket)));
                    if !is_single {
                        common.extend(self.common_socket(a, b, socket));
                    }
                }
            } else {
                for node in nodes {
                    places.push((self.x[a][node], self.x[b][node]));
                    if !is_single {
                        common.extend(self.common(a, b, node));
                    }
                }
            }
            if is_single {
                for (first, second) in places.iter().flat_map(|(a, b)| [(*a, *b), (*b, *a)]) {
                    if let Some(first) = first {
                        self.clause(or.iter().copied().chain([!first]).chain(second));
                    }
                }
            } else if let (Some(first), Some(second)) = (self.h[a][host], self.h[b][host]) {
                self.clause(or.iter().copied().chain(common).chain([!first, !second]));
            }
        }
    }

    /// True only if both have a node of this socket.
    fn common_socket(&mut self, a: usize, b: usize, socket: usize) -> Option<Lit> {
        let (first, second) = (self.socket(a, socket)?, self.socket(b, socket)?);
        let common = self.variable(At::Socket(socket), (kind::COMMON_SOCKET, a.min(b), a.max(b)));
        self.clause([!common, first]);
        self.clause([!common, second]);
        Some(common)
    }

    /// Percent of the fullest node, bit by bit.
    fn fullest(&mut self) -> Vec<(i64, Lit)> {
        let problem = self.problem;
        let bits: Vec<(i64, Lit)> =
            (0..PERCENT_BITS).map(|bit| (1i64 << bit, self.formula.variable())).collect();
        let (mut cpus, mut memory) = (Vec::new(), Vec::new());
        for node in 0..problem.site.nodes.len() {
            let here = &problem.site.nodes[node];
            let guests = self.guests(node);
            let size = |factor: i64| bits.iter().map(move |(bit, lit)| (-bit * factor, *lit));
            let milli: Vec<(i64, Lit)> =
                guests.iter().map(|(piece, x)| (problem.pieces[*piece].milli(here), *x)).collect();
            // Thousandths used, times 100, against thousandths there, times percent: both by 10.
            let ten = |milli: i64| milli / 10;
            let is_even = milli.iter().all(|(milli, _)| milli % 10 == 0);
            let (scale, by): (i64, &dyn Fn(i64) -> i64) =
                if is_even { (1, &ten) } else { (10, &|milli| milli) };
            let terms: Vec<(i64, Lit)> = milli.iter().map(|(milli, x)| (by(*milli), *x)).collect();
            // In units of 10 thousandths, or of one.
            let place = self.at_most(terms.into_iter().chain(size(here.cpus() * scale)), 0);
            cpus.extend(place.map(|place| (place, Held::Cpus(10 / scale))));
            if self.memory_follows(node) {
                continue;
            }
            let mut plain: Vec<(i64, Lit)> =
                guests.iter().map(|(piece, x)| (100 * problem.pieces[*piece].plain_memory(), *x)).collect();
            for (piece, _) in guests.iter().filter(|(piece, _)| problem.pieces[*piece].channels > 0) {
                let first = self.first(*piece, node);
                plain.push((100 * problem.pieces[*piece].channels, first));
            }
            let place = self.at_most(plain.into_iter().chain(size(here.memory.max(0))), 0);
            memory.extend(place.map(|place| (place, Held::Memory)));
        }
        let there = |of: &dyn Fn(&crate::site::Node) -> i64| problem.site.nodes.iter().map(of).sum::<i64>();
        // Both in the unit of their sums: thousandths of CPUs, hundredths of MiB.
        self.add_up(&cpus, 1, 10 * there(&|node| node.cpus()));
        self.add_up(&memory, 100, there(&|node| node.memory.max(0)));
        bits
    }

    /// All rooms that are in use together hold all pieces: so many hosts at least.
    pub(super) fn hosts_hold_all(&mut self) {
        let is_cpus = |held: &Held| matches!(held, Held::Cpus(_));
        let most = |of: &dyn Fn(&crate::site::Node) -> i64| {
            let sites = self.problem.site.hosts.iter();
            sites.map(|host| host.nodes.clone().map(|node| of(&self.problem.site.nodes[node])).sum()).max()
        };
        let cpus: i64 = most(&|node| 1000 * node.cpus()).unwrap_or(0);
        let memory: i64 = most(&|node| node.memory.max(0)).unwrap_or(0);
        let (of_cpus, of_memory): (Vec<_>, Vec<_>) =
            self.holding.clone().into_iter().partition(|(_, held)| is_cpus(held));
        self.add_up(&of_cpus, 1, cpus);
        self.add_up(&of_memory, 1, memory);
    }

    /// The sum of constraints that hold rooms, with the pieces that all have to be somewhere: what is left says what it takes.
    /// Memory counts `times` over.
    fn add_up(&mut self, rooms: &[(usize, Held)], times: i64, divisor: i64) {
        let problem = self.problem;
        let Some((_, first)) = rooms.first() else { return };
        let unit = |held: &Held| match held {
            Held::Cpus(milli) => *milli,
            Held::Memory => 1,
        };
        let mut parts: Vec<(i64, usize)> = rooms.iter().map(|(place, held)| (unit(held), *place)).collect();
        for (piece, (placed, there)) in self.placing.iter().enumerate() {
            let one = &problem.pieces[piece];
            let needs = |node: &crate::site::Node| match first {
                Held::Cpus(_) => one.milli(node),
                Held::Memory => times * one.plain_memory(),
            };
            let least = problem.site.nodes.iter().map(needs).min().unwrap_or(0);
            let Some(placed) = placed.filter(|_| least > 0 && one.parts > 0) else { continue };
            parts.extend(there.iter().map(|place| (least, *place)));
            parts.push((least * i64::from(one.parts), placed));
        }
        if divisor > 0 {
            self.formula.derived.push(Derived { divisor, parts });
        }
    }
}
