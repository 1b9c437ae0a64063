//! Who must not meet, from nodes to switches: rules `isolation`, `apart`, `alone`; and who must be on one host: `channel`.

use model::plan::Rule;
use model::system::Level;

use super::{Encoder, Group};
use crate::pb::Lit;

impl Encoder<'_> {
    pub(super) fn keep_apart(&mut self) {
        for (meeting, rule) in &self.problem.meetings {
            self.group(Group::Rule(*rule));
            let (a, b) = meeting.pieces;
            match meeting.level {
                Level::Core => {}
                Level::Cache => self.apart_at_single_caches(a, b),
                Level::Node => self.apart_by(a, b, |_, node| node),
                Level::Socket => self.apart_by(a, b, |site, node| site.nodes[node].socket),
                Level::Host => self.apart_by_host(a, b, |_, host| host),
                Level::Switch => self.apart_by_host(a, b, |site, host| site.hosts[host].switch),
            }
        }
        self.group(Group::Rule(Rule::Channel));
        for channel in &self.problem.together {
            for pair in channel.windows(2) {
                for host in 0..self.problem.site.hosts.len() {
                    match (self.h[pair[0]][host], self.h[pair[1]][host]) {
                        (Some(a), Some(b)) if a != b => self.same(a, b),
                        (Some(one), None) | (None, Some(one)) => self.clause([!one]),
                        _ => {}
                    }
                }
            }
        }
    }

    /// No node of one and node of the other that are the same by `of`.
    fn apart_by(&mut self, a: usize, b: usize, of: impl Fn(&crate::site::Site, usize) -> usize) {
        let site = &self.problem.site;
        for host in &site.hosts {
            for first in host.nodes.clone() {
                for second in host.nodes.clone() {
                    if of(site, first) == of(site, second) {
                        self.not_both(self.x[a][first], self.x[b][second]);
                    }
                }
            }
        }
    }

    fn apart_by_host(&mut self, a: usize, b: usize, of: impl Fn(&crate::site::Site, usize) -> usize) {
        let site = &self.problem.site;
        for first in 0..site.hosts.len() {
            for second in 0..site.hosts.len() {
                if of(site, first) == of(site, second) {
                    self.not_both(self.h[a][first], self.h[b][second]);
                }
            }
        }
    }

    /// Where a node has one cache, a cache in common is the node in common.
    fn apart_at_single_caches(&mut self, a: usize, b: usize) {
        for node in 0..self.problem.site.nodes.len() {
            if self.problem.site.nodes[node].caches.len() < 2 {
                self.not_both(self.x[a][node], self.x[b][node]);
            }
        }
    }

    fn not_both(&mut self, a: Option<Lit>, b: Option<Lit>) {
        if let (Some(a), Some(b)) = (a, b) {
            self.clause([!a, !b]);
        }
    }
}
