//! Who speaks with whom: rules `latency`, `uplink`, `link`, and what crosses hosts.

use model::plan::Rule;

use super::{At, Encoder, Group, kind};
use crate::pb::Lit;
use crate::problem::Talk;

impl Encoder<'_> {
    pub(super) fn talks(&mut self) {
        let talks = &self.problem.talks;
        for (number, talk) in talks.iter().enumerate() {
            self.group(Group::Given);
            self.cross(number, talk);
            self.group(Group::Rule(Rule::Latency));
            self.latency(talk);
        }
        self.group(Group::Rule(Rule::Uplink));
        for host in 0..self.problem.site.hosts.len() {
            self.uplink(host);
        }
        self.group(Group::Rule(Rule::Link));
        for link in 0..self.problem.site.links.len() {
            self.link(link);
        }
    }

    /// Whether the two are on different hosts: exactly.
    fn cross(&mut self, number: usize, talk: &Talk) {
        let hosts = self.problem.site.hosts.len();
        if hosts < 2 {
            return;
        }
        let crosses = self.formula.variable();
        self.crosses[number] = Some(crosses);
        let (a, b) = talk.pieces;
        for host in 0..hosts {
            match (self.h[a][host], self.h[b][host]) {
                (Some(a), Some(b)) => {
                    self.clause([!crosses, !a, !b]);
                    self.clause([crosses, !a, b]);
                    self.clause([crosses, a, !b]);
                }
                (Some(one), None) | (None, Some(one)) => self.clause([crosses, !one]),
                (None, None) => {}
            }
        }
    }

    fn latency(&mut self, talk: &Talk) {
        let Some(most) = talk.latency else { return };
        let site = &self.problem.site;
        let (a, b) = talk.pieces;
        for host in 0..site.hosts.len() {
            let here = &site.hosts[host];
            if here.channel_us() > most {
                // Not even on one node: then not both on this host, unless between nodes it is quicker, which is no reason to part.
                self.never_on_one_node(a, b, host);
            }
            if here.channel_far_us() > most {
                self.on_one_node(a, b, host);
            }
            for other in 0..site.hosts.len() {
                if other != host
                    && site.network_us(host, other) > most
                    && let (Some(first), Some(second)) = (self.h[a][host], self.h[b][other])
                {
                    self.clause([!first, !second]);
                }
            }
        }
    }

    fn never_on_one_node(&mut self, a: usize, b: usize, host: usize) {
        for node in self.problem.site.hosts[host].nodes.clone() {
            if let (Some(first), Some(second)) = (self.x[a][node], self.x[b][node]) {
                self.clause([!first, !second]);
            }
        }
    }

    /// If both are on this host, they have a node in common.
    fn on_one_node(&mut self, a: usize, b: usize, host: usize) {
        let (Some(first), Some(second)) = (self.h[a][host], self.h[b][host]) else { return };
        let common: Vec<Lit> =
            self.problem.site.hosts[host].nodes.clone().filter_map(|node| self.common(a, b, node)).collect();
        self.clause(common.into_iter().chain([!first, !second]));
    }

    /// True only if both have a part on this node.
    pub(super) fn common(&mut self, a: usize, b: usize, node: usize) -> Option<Lit> {
        let (first, second) = (self.x[a][node]?, self.x[b][node]?);
        let role = (kind::COMMON_NODE, a.min(b), a.max(b));
        if let Some(var) = self.places.get(&At::Node(node)).and_then(|roles| roles.get(&role)) {
            return Some(Lit::new(*var));
        }
        let common = self.variable(At::Node(node), role);
        self.clause([!common, first]);
        self.clause([!common, second]);
        Some(common)
    }

    /// A host's cards together carry what leaves it.
    fn uplink(&mut self, host: usize) {
        let problem = self.problem;
        let cards = &problem.site.hosts[host].cards;
        if cards.is_empty() || self.crosses.iter().all(Option::is_none) {
            return;
        }
        let all = cards.iter().fold(0i64, |sum, card| sum.saturating_add(card.rate));
        let mut terms: Vec<(i64, Lit)> = Vec::new();
        for piece in 0..problem.pieces.len() {
            if let Some(h) = self.h[piece][host] {
                terms.push((problem.network_rate(piece), h));
            }
        }
        let most: i64 = terms.iter().map(|term| term.0).sum::<i64>()
            + problem.talks.iter().map(|talk| talk.rate).sum::<i64>();
        if most <= all {
            return;
        }
        for (number, talk) in problem.talks.iter().enumerate().filter(|(_, talk)| talk.rate > 0) {
            let leaves = self.variable(At::Host(host), (kind::LEAVES, number, 0));
            let (a, b) = talk.pieces;
            let (a, b) = (self.h[a][host], self.h[b][host]);
            for (here, there) in [(a, b), (b, a)] {
                if let Some(here) = here {
                    self.clause([leaves, !here].into_iter().chain(there));
                }
            }
            terms.push((talk.rate, leaves));
        }
        self.at_most(terms, all);
    }

    fn link(&mut self, number: usize) {
        let problem = self.problem;
        let link = problem.site.links[number];
        let Some(most) = link.rate else { return };
        let mut terms = Vec::new();
        for talk in problem.talks.iter().filter(|talk| talk.rate > 0) {
            let over = self.formula.variable();
            let (a, b) = talk.pieces;
            for (first, second) in [(a, b), (b, a)] {
                if let (Some(first), Some(second)) =
                    (self.h[first][link.hosts.0], self.h[second][link.hosts.1])
                {
                    self.clause([over, !first, !second]);
                }
            }
            terms.push((talk.rate, over));
        }
        self.at_most(terms, most);
    }
}
