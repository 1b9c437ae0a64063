//! A problem as sums of 0/1 variables.
//!
//! ```text
//!  x[piece][node]  it has a part there ─┬► room: CPUs, memory            ─┐
//!  h[piece][host]  it is on that host  ─┼► apart, caches: who must not meet│
//!  (both the same where a host has      ├► devices: disks, cards           ├─► Formula
//!   one node)                           ├► talks: latencies, what crosses  │
//!                                       ├► spares: who takes over          │
//!                                       └► goals, symmetry                ─┘
//! ```
//! Every variable knows to which node or host it belongs and what it is there, so that what two equal nodes can exchange is known.

mod apart;
mod caches;
mod covers;
mod devices;
mod goals;
mod room;
mod spares;
mod symmetry;
mod talks;

use std::collections::BTreeMap;

use model::plan::Rule;

use crate::pb::{AtLeast, Formula, Lit, Solver, Var};
use crate::problem::Problem;
use crate::search::State;

/// What a variable is at its place: which kind, of whom, and which of several.
type Role = (u8, usize, usize);

/// Kinds of variables, in the order in which blocks have them: what blocks are sorted by comes first.
mod kind {
    pub(super) const HOST: u8 = 0;
    pub(super) const NODE: u8 = 1;
    pub(super) const SOCKET: u8 = 2;
    pub(super) const USED: u8 = 3;
    pub(super) const DISK: u8 = 4;
    pub(super) const CARD: u8 = 5;
    pub(super) const LEAVES: u8 = 6;
    pub(super) const COMMON_NODE: u8 = 7;
    pub(super) const COMMON_SOCKET: u8 = 8;
    pub(super) const FIRST: u8 = 9;
    pub(super) const COUNT: u8 = 10;
    pub(super) const AT_CACHE: u8 = 11;
    pub(super) const CORES: u8 = 12;
    pub(super) const SPARE_NODE: u8 = 13;
    pub(super) const SPARE_HOST: u8 = 14;
}

/// Where a variable belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum At {
    Node(usize),
    Socket(usize),
    Host(usize),
}

/// What a constraint is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// What variables mean, and that replicas have as many nodes of one host as they must: whoever is put somewhere keeps it.
    Given,
    /// A rule.
    Rule(Rule),
    /// How CPUs are counted by cache, for rules that ask who has which.
    Caches,
    /// What goals are: always met, but for nodes that are used beyond all there is.
    Goals,
}

/// A problem as a formula, and what its variables mean.
#[derive(Debug)]
pub struct Encoded {
    /// The formula.
    pub formula: Formula,
    /// Whether a replica has a part on a node; none where it cannot.
    pub x: Vec<Vec<Option<Lit>>>,
    /// Which disk of all hosts it has.
    pub disks: Vec<Vec<(usize, usize, Lit)>>,
    /// Which card.
    pub cards: Vec<Vec<(usize, usize, Lit)>>,
    /// Nodes where it has its spare.
    pub spares: Vec<Vec<(usize, Lit)>>,
    /// CPUs by cache, of those for whom it matters.
    pub counts: Vec<Count>,
    /// What constraints are there for, by the first of each run of them.
    pub groups: Vec<(usize, Group)>,
}

/// How many CPUs somebody has at a cache.
#[derive(Debug, Clone)]
pub struct Count {
    /// The node.
    pub node: usize,
    /// Who; none for the pool.
    pub piece: Option<usize>,
    /// The cache, by its place among those of the node.
    pub cache: usize,
    /// Bits of the number.
    pub terms: Vec<(i64, Lit)>,
}

impl Encoded {
    /// Begins with this plan, exchanged so that it is sorted as the formula wants it.
    pub fn suggest(&self, state: &State, solver: &mut Solver) {
        let mut values = vec![false; self.formula.variables as usize];
        for (piece, nodes) in state.nodes.iter().enumerate() {
            for lit in nodes.iter().filter_map(|node| self.x[piece][*node]) {
                values[lit.var() as usize] = true;
            }
        }
        for symmetry in &self.formula.symmetries {
            let is_true = |var: &Var| values[*var as usize];
            let mut order: Vec<usize> = (0..symmetry.blocks.len()).collect();
            order.sort_by_key(|block| {
                symmetry.blocks[*block].iter().take(symmetry.rows).position(is_true).unwrap_or(usize::MAX)
            });
            let moved: Vec<Vec<bool>> =
                order.iter().map(|block| symmetry.blocks[*block].iter().map(is_true).collect()).collect();
            for (block, moved) in symmetry.blocks.iter().zip(moved) {
                for (var, value) in block.iter().zip(moved) {
                    values[*var as usize] = value;
                }
            }
        }
        for x in self.x.iter().flatten().flatten() {
            let is_true = values[x.var() as usize];
            solver.suggest(if is_true { *x } else { !*x }, if is_true { 1.0 } else { 0.0 });
        }
    }
}

struct Encoder<'a> {
    problem: &'a Problem,
    formula: Formula,
    /// Variables that belong somewhere.
    places: BTreeMap<At, BTreeMap<Role, Var>>,
    x: Vec<Vec<Option<Lit>>>,
    h: Vec<Vec<Option<Lit>>>,
    used: Vec<Option<Lit>>,
    disks: Vec<Vec<(usize, usize, Lit)>>,
    cards: Vec<Vec<(usize, usize, Lit)>>,
    spares: Vec<Vec<(usize, Lit)>>,
    counts: Vec<Count>,
    /// Whether the two of a talk are on different hosts; none where they cannot be.
    crosses: Vec<Option<Lit>>,
    /// By two who speak, the lower one first: true where they have no node, and no socket, in common.
    apart: BTreeMap<(usize, usize), (Lit, Option<Lit>)>,
    /// Constraints by piece: on one host at least; and of each host: as many parts as it has.
    placing: Vec<(Option<usize>, Vec<usize>)>,
    /// What constraints from this one on are there for.
    groups: Vec<(usize, Group)>,
    /// Constraints that hold a node's CPUs, and in how many thousandths they count; and its memory.
    holding: Vec<(usize, Held)>,
}

/// What a constraint holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Held {
    /// CPUs in units of so many thousandths.
    Cpus(i64),
    /// Memory.
    Memory,
}

/// The formula of a problem.
pub fn encode(problem: &Problem) -> Encoded {
    let (pieces, nodes, hosts) = (problem.pieces.len(), problem.site.nodes.len(), problem.site.hosts.len());
    let mut encoder = Encoder {
        problem,
        formula: Formula::default(),
        places: BTreeMap::new(),
        x: vec![vec![None; nodes]; pieces],
        h: vec![vec![None; hosts]; pieces],
        used: vec![None; hosts],
        disks: vec![Vec::new(); pieces],
        cards: vec![Vec::new(); pieces],
        spares: vec![Vec::new(); pieces],
        counts: Vec::new(),
        crosses: vec![None; problem.talks.len()],
        apart: BTreeMap::new(),
        placing: vec![(None, Vec::new()); pieces],
        groups: vec![(0, Group::Given)],
        holding: Vec::new(),
    };
    (0..pieces).for_each(|piece| encoder.place(piece));
    encoder.hosts_in_use();
    encoder.rooms();
    encoder.keep_apart();
    encoder.keep_caches();
    encoder.devices();
    encoder.talks();
    encoder.spares();
    encoder.goals();
    encoder.symmetries();
    encoder.covers();
    let Encoder { formula, x, disks, cards, spares, counts, groups, .. } = encoder;
    Encoded { formula, x, disks, cards, spares, counts, groups }
}

impl Encoder<'_> {
    /// What constraints are there for from now on; returns what those before were.
    fn group(&mut self, group: Group) -> Group {
        let before = self.groups.last().map_or(Group::Given, |(_, before)| *before);
        if group != before {
            self.groups.push((self.formula.constraints.len(), group));
        }
        before
    }

    fn variable(&mut self, at: At, role: Role) -> Lit {
        let lit = self.formula.variable();
        self.places.entry(at).or_default().insert(role, lit.var());
        lit
    }

    fn clause(&mut self, lits: impl IntoIterator<Item = Lit>) {
        self.formula.add(AtLeast::clause(lits));
    }

    fn at_most(&mut self, terms: impl IntoIterator<Item = (i64, Lit)>, most: i64) -> Option<usize> {
        self.formula.add(AtLeast::at_most(terms, most))
    }

    fn at_least(&mut self, terms: impl IntoIterator<Item = (i64, Lit)>, least: i64) -> Option<usize> {
        self.formula.add(AtLeast::of(terms, least))
    }

    /// Both are true, or neither.
    fn same(&mut self, a: Lit, b: Lit) {
        self.clause([a, !b]);
        self.clause([!a, b]);
    }

    /// `all` is true exactly if one of them is.
    fn any(&mut self, all: Lit, of: &[Lit]) {
        self.clause(of.iter().copied().chain([!all]));
        of.iter().for_each(|one| self.clause([!*one, all]));
    }

    /// Rule `placed` and `nodes`: one host, `parts` different nodes of it.
    fn place(&mut self, piece: usize) {
        let problem = self.problem;
        let one = &problem.pieces[piece];
        let parts = one.parts as usize;
        for &host in &one.hosts {
            let nodes = problem.site.hosts[host].nodes.clone();
            let fitting: Vec<usize> =
                nodes.clone().filter(|node| parts > 0 && one.fits(&problem.site.nodes[*node])).collect();
            if fitting.len() < parts || parts == 0 {
                continue;
            }
            for &node in &fitting {
                self.x[piece][node] = Some(self.variable(At::Node(node), (kind::NODE, piece, 0)));
            }
            let xs = self.at(piece, host);
            if nodes.len() == 1 {
                self.h[piece][host] = xs.first().copied();
                continue;
            }
            let h = self.variable(At::Host(host), (kind::HOST, piece, 0));
            self.h[piece][host] = Some(h);
            // As many parts as it has, if it is there at all.
            let sum = |sign: i64| xs.iter().map(move |x| (sign, *x));
            let there = self.at_least(sum(1).chain([(-(parts as i64), h)]), 0);
            self.placing[piece].1.extend(there);
            self.at_least(sum(-1).chain([(parts as i64, h)]), 0);
            xs.iter().for_each(|x| self.clause([!*x, h]));
        }
        let hs: Vec<Lit> = self.h[piece].iter().flatten().copied().collect();
        self.placing[piece].0 = self.formula.add(AtLeast::clause(hs.iter().copied()));
        if hs.len() > 1 {
            self.at_most(hs.into_iter().map(|h| (1, h)), 1);
        }
    }

    /// Its variables on a host.
    fn at(&self, piece: usize, host: usize) -> Vec<Lit> {
        self.problem.site.hosts[host].nodes.clone().filter_map(|node| self.x[piece][node]).collect()
    }

    /// A host is in use if somebody is there.
    fn hosts_in_use(&mut self) {
        for host in 0..self.used.len() {
            let used = self.variable(At::Host(host), (kind::USED, 0, 0));
            self.used[host] = Some(used);
            let there: Vec<Lit> = self.h.iter().filter_map(|hosts| hosts[host]).collect();
            there.into_iter().for_each(|h| self.clause([!h, used]));
        }
    }
}
