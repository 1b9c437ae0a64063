//! CPUs and memory of each node: rules `cpus`, `pool`, `memory`.

use model::plan::Rule;

use super::{At, Encoder, Group, Held, kind};
use crate::pb::Lit;

impl Encoder<'_> {
    pub(super) fn rooms(&mut self) {
        for node in 0..self.problem.site.nodes.len() {
            self.group(Group::Rule(Rule::Cpus));
            self.cpus_of(node);
            self.group(Group::Rule(Rule::Memory));
            self.memory_of(node);
        }
    }

    /// Who can be on a node.
    pub(super) fn guests(&self, node: usize) -> Vec<(usize, Lit)> {
        self.x.iter().enumerate().filter_map(|(piece, nodes)| Some((piece, nodes[node]?))).collect()
    }

    /// A sum over a node that is at most what is there, and nothing while its host is not in use.
    fn hold(&mut self, node: usize, terms: Vec<(i64, Lit)>, most: i64, held: Option<Held>) {
        let place = match self.used[self.problem.site.nodes[node].host] {
            Some(used) if most > 0 => self.at_most(terms.into_iter().chain([(-most, used)]), 0),
            _ => self.at_most(terms, most.max(0)),
        };
        self.holding.extend(place.zip(held));
    }

    fn cpus_of(&mut self, node: usize) {
        let problem = self.problem;
        let here = &problem.site.nodes[node];
        let guests = self.guests(node);
        let milli = guests.iter().map(|(piece, x)| (problem.pieces[*piece].milli(here), *x));
        let is_whole = guests.iter().all(|(piece, _)| problem.pieces[*piece].share.is_none());
        if is_whole {
            let terms = milli.map(|(milli, x)| (milli / 1000, x)).collect();
            self.hold(node, terms, here.cpus(), Some(Held::Cpus(1000)));
            return;
        }
        let terms = milli.collect();
        self.hold(node, terms, 1000 * here.cpus(), Some(Held::Cpus(1)));
        // The pool is what whole ones leave: as large as the largest who shares it.
        self.group(Group::Rule(Rule::Pool));
        let whole: Vec<(i64, Lit)> =
            guests.iter().map(|(piece, x)| (problem.pieces[*piece].whole(here), *x)).collect();
        for (piece, x) in guests.iter().filter(|(piece, _)| problem.pieces[*piece].share.is_some()) {
            let size = problem.pieces[*piece].cpus;
            self.at_most(whole.iter().copied().chain([(size, *x)]), here.cpus());
        }
    }

    fn memory_of(&mut self, node: usize) {
        let problem = self.problem;
        let here = &problem.site.nodes[node];
        let guests = self.guests(node);
        let mut plain: Vec<(i64, Lit)> =
            guests.iter().map(|(piece, x)| (problem.pieces[*piece].plain_memory(), *x)).collect();
        for (piece, _) in guests.iter().filter(|(piece, _)| problem.pieces[*piece].channels > 0) {
            let first = self.first(*piece, node);
            plain.push((problem.pieces[*piece].channels, first));
        }
        if !self.memory_follows(node) {
            self.hold(node, plain, here.memory, Some(Held::Memory));
        }
        let huge: Vec<(i64, Lit)> = guests
            .iter()
            .filter(|(piece, _)| problem.pieces[*piece].huge)
            .map(|(piece, x)| (problem.pieces[*piece].memory, *x))
            .collect();
        if !huge.is_empty() {
            self.hold(node, huge, here.huge, None);
        }
    }

    /// Whether whoever can be on a node takes no larger share of its memory than of its CPUs: then memory is never what is
    /// short, nor what is fullest, and a node that has less of it because the host keeps some is still like the others.
    pub(super) fn memory_follows(&self, node: usize) -> bool {
        let here = &self.problem.site.nodes[node];
        self.guests(node).iter().all(|(piece, _)| {
            let one = &self.problem.pieces[*piece];
            let (memory, cpus) = (i128::from(one.plain_memory()), i128::from(one.milli(here)));
            one.channels == 0 && memory * i128::from(1000 * here.cpus()) <= cpus * i128::from(here.memory)
        })
    }

    /// Whether a node is the first of a replica's nodes.
    pub(super) fn first(&mut self, piece: usize, node: usize) -> Lit {
        let Some(x) = self.x[piece][node] else { return self.never() };
        if self.problem.pieces[piece].parts < 2 {
            return x;
        }
        let role = (kind::FIRST, piece, 0);
        if let Some(var) = self.places.get(&At::Node(node)).and_then(|roles| roles.get(&role)) {
            return Lit::new(*var);
        }
        let first = self.variable(At::Node(node), role);
        let within = self.group(Group::Given);
        let host = self.problem.site.nodes[node].host;
        let before: Vec<Lit> = (self.problem.site.hosts[host].nodes.start..node)
            .filter_map(|other| self.x[piece][other])
            .collect();
        self.clause([!first, x]);
        before.iter().for_each(|other| self.clause([!first, !*other]));
        self.clause(before.into_iter().chain([!x, first]));
        self.group(within);
        first
    }

    /// A variable that is false.
    pub(super) fn never(&mut self) -> Lit {
        let never = self.formula.variable();
        self.clause([!never]);
        never
    }
}
