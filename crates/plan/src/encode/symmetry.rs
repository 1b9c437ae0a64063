//! Nodes, sockets and hosts that can be exchanged: found by what they are, and kept only if exchanging them changes nothing.
//!
//! ```text
//!  nodes of a socket, then sockets of a host, then hosts: neighbours with the same roles ─► exchanged in all constraints and goals
//!                                                            ─► the same set? a block more : the next group begins
//! ```

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use super::{At, Encoder, Role};
use crate::pb::{AtLeast, Symmetry, Var};

/// Constraints in a formula with more of which nothing is exchanged: it would take longer than it saves.
const MOST_CONSTRAINTS: usize = 400_000;

/// Where in a block a variable is: node by node, and what it is there.
type Spot = (usize, usize, Role);

struct Known<'a> {
    /// How often each is there.
    counts: HashMap<Rc<AtLeast>, u32>,
    /// The same, each with its place.
    constraints: Vec<Rc<AtLeast>>,
    goals: &'a [crate::pb::Objective],
    /// Constraints by variable.
    with: Vec<Vec<usize>>,
}

impl Encoder<'_> {
    pub(super) fn symmetries(&mut self) {
        if self.formula.constraints.len() > MOST_CONSTRAINTS {
            return;
        }
        let site = &self.problem.site;
        let mut groups: Vec<Vec<BTreeMap<Spot, Var>>> = Vec::new();
        for socket in 0..site.sockets {
            let nodes = (0..site.nodes.len()).filter(|node| site.nodes[*node].socket == socket);
            groups.push(nodes.map(|node| self.block(&[At::Node(node)])).collect());
        }
        for host in &site.hosts {
            let mut sockets: Vec<usize> = host.nodes.clone().map(|node| site.nodes[node].socket).collect();
            sockets.sort_unstable();
            sockets.dedup();
            groups.push(sockets.into_iter().map(|socket| self.block(&self.of_socket(socket))).collect());
        }
        groups.push((0..site.hosts.len()).map(|host| self.block(&self.of_host(host))).collect());
        let mut found = Vec::new();
        let goals = self.formula.goals.clone();
        let mut known = Known::new(&self.formula.constraints, &goals, self.formula.variables);
        for group in groups.into_iter().filter(|group| group.len() > 1) {
            let mut run: Vec<BTreeMap<Spot, Var>> = Vec::new();
            let mut runs = Vec::new();
            for block in group {
                if run.last().is_some_and(|last| !known.can_exchange(last, &block)) {
                    runs.push(std::mem::take(&mut run));
                }
                run.push(block);
            }
            runs.push(run);
            for run in runs.into_iter().filter(|run| run.len() > 1) {
                let symmetry = of_blocks(&run);
                if symmetry.rows == 0 {
                    continue;
                }
                symmetry.sorted().into_iter().for_each(|constraint| known.add(constraint));
                found.push(symmetry);
            }
        }
        self.formula.symmetries = found;
    }

    fn of_socket(&self, socket: usize) -> Vec<At> {
        let nodes = &self.problem.site.nodes;
        let of = (0..nodes.len()).filter(|node| nodes[*node].socket == socket).map(At::Node);
        std::iter::once(At::Socket(socket)).chain(of).collect()
    }

    fn of_host(&self, host: usize) -> Vec<At> {
        let nodes = self.problem.site.hosts[host].nodes.clone();
        let mut sockets: Vec<usize> = nodes.map(|node| self.problem.site.nodes[node].socket).collect();
        sockets.sort_unstable();
        sockets.dedup();
        std::iter::once(At::Host(host))
            .chain(sockets.into_iter().flat_map(|socket| self.of_socket(socket)))
            .collect()
    }

    /// All variables of these places, by their roles and then by where among the places they are.
    fn block(&self, places: &[At]) -> BTreeMap<Spot, Var> {
        let mut block = BTreeMap::new();
        for (at, place) in places.iter().enumerate() {
            for (role, var) in self.places.get(place).into_iter().flatten() {
                // What says that a piece is there at all comes first, whatever it is.
                let rank = usize::from(role.0 > super::kind::NODE);
                block.insert((rank, at, *role), *var);
            }
        }
        block
    }
}

impl<'a> Known<'a> {
    fn new(constraints: &[AtLeast], goals: &'a [crate::pb::Objective], variables: u32) -> Self {
        let mut known = Self {
            counts: HashMap::new(),
            constraints: Vec::new(),
            goals,
            with: vec![Vec::new(); variables as usize],
        };
        constraints.iter().for_each(|constraint| known.add(constraint.clone()));
        known
    }

    fn add(&mut self, constraint: AtLeast) {
        let place = self.constraints.len();
        for (_, lit) in &constraint.terms {
            self.with[lit.var() as usize].push(place);
        }
        let constraint = Rc::new(constraint);
        self.constraints.push(Rc::clone(&constraint));
        *self.counts.entry(constraint).or_default() += 1;
    }

    /// Whether exchanging the two changes no constraint and no goal.
    fn can_exchange(&self, a: &BTreeMap<Spot, Var>, b: &BTreeMap<Spot, Var>) -> bool {
        if a.is_empty() || !a.keys().eq(b.keys()) {
            return false;
        }
        let mut to: HashMap<Var, Var> = HashMap::new();
        for (first, second) in a.values().zip(b.values()) {
            to.insert(*first, *second);
            to.insert(*second, *first);
        }
        let exchanged = |terms: &[(i64, crate::pb::Lit)]| -> Vec<(i64, crate::pb::Lit)> {
            let mut terms: Vec<_> = terms
                .iter()
                .map(|(coefficient, lit)| {
                    let var = to.get(&lit.var()).copied().unwrap_or(lit.var());
                    let same = crate::pb::Lit::new(var);
                    (*coefficient, if lit.is_negative() { !same } else { same })
                })
                .collect();
            terms.sort_by_key(|(_, lit)| lit.var());
            terms
        };
        let is_there = |constraint: &AtLeast| {
            let moved = AtLeast { terms: exchanged(&constraint.terms), least: constraint.least };
            moved == *constraint || self.counts.get(&moved) == self.counts.get(constraint)
        };
        let places: BTreeSet<usize> =
            to.keys().flat_map(|var| self.with[*var as usize].iter().copied()).collect();
        places.into_iter().all(|place| is_there(&self.constraints[place]))
            && self.goals.iter().all(|goal| exchanged(&goal.terms) == goal.terms)
    }
}

/// Sorted by what says that pieces are there.
fn of_blocks(run: &[BTreeMap<Spot, Var>]) -> Symmetry {
    let rows = run[0].keys().filter(|(rank, ..)| *rank == 0).count();
    Symmetry { rows, blocks: run.iter().map(|block| block.values().copied().collect()).collect() }
}
