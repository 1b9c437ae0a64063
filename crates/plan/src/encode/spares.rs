//! Who takes over when a host dies: rule `downtime`.
//!
//! ```text
//!  s[piece][node]   a part of its spare is there: as many nodes as it has, all of one host, which is not its own
//!  takes[piece][dead host][node]   it is on that host and its spare is here: room for it on top of all who are here
//! ```

use model::plan::Rule;
use model::system::Level;

use super::{At, Encoder, Group, kind};
use crate::pb::Lit;
use crate::site::as_i64;

impl Encoder<'_> {
    pub(super) fn spares(&mut self) {
        let problem = self.problem;
        self.group(Group::Rule(Rule::Downtime));
        let detect = problem.site.detect_ms();
        let mut with_spare = Vec::new();
        for piece in 0..problem.pieces.len() {
            let needs = &problem.needs[problem.pieces[piece].partition];
            let Some(most) = needs.max_downtime_ms else { continue };
            let most = as_i64(most.get());
            if needs.replicas > 1 && matches!(needs.apart(), Level::Host | Level::Switch) {
                // Another replica is there already; what it takes is to notice.
                if detect > most {
                    self.formula.add_conflict();
                }
                continue;
            }
            self.place_spare(piece, most - detect);
            with_spare.push(piece);
        }
        if with_spare.is_empty() {
            return;
        }
        for node in 0..problem.site.nodes.len() {
            for dead in 0..problem.site.hosts.len() {
                if dead != problem.site.nodes[node].host {
                    self.room_for(node, dead, &with_spare);
                }
            }
        }
    }

    fn place_spare(&mut self, piece: usize, start_within: i64) {
        let problem = self.problem;
        let one = &problem.pieces[piece];
        let parts = i64::from(one.parts);
        let mut on_hosts = Vec::new();
        for &host in &one.hosts {
            let here = &problem.site.hosts[host];
            if here.start_ms() > start_within {
                continue;
            }
            // What a node must have for it is what `room_for` says.
            let nodes = here.nodes.clone();
            if (nodes.len() as i64) < parts || parts == 0 {
                continue;
            }
            let on_host = self.variable(At::Host(host), (kind::SPARE_HOST, piece, 0));
            on_hosts.push(on_host);
            if let Some(h) = self.h[piece][host] {
                self.clause([!h, !on_host]);
            }
            let mut there = Vec::new();
            for node in nodes {
                let spare = self.variable(At::Node(node), (kind::SPARE_NODE, piece, 0));
                self.clause([!spare, on_host]);
                self.spares[piece].push((node, spare));
                there.push(spare);
            }
            self.at_least(there.iter().map(|lit| (1, *lit)).chain([(-parts, on_host)]), 0);
            self.at_most(there.iter().map(|lit| (1, *lit)).chain([(-parts, on_host)]), 0);
        }
        self.clause(on_hosts.iter().copied());
        self.at_most(on_hosts.into_iter().map(|lit| (1, lit)), 1);
    }

    /// On a node: all who are there, and those whom a dead host leaves to it.
    fn room_for(&mut self, node: usize, dead: usize, with_spare: &[usize]) {
        let problem = self.problem;
        let here = &problem.site.nodes[node];
        let mut takers: Vec<(usize, Lit)> = Vec::new();
        for &piece in with_spare {
            let spare = self.spares[piece].iter().find(|(at, _)| *at == node).map(|(_, lit)| *lit);
            let (Some(spare), Some(h)) = (spare, self.h[piece][dead]) else { continue };
            let here_then = self.formula.variable();
            self.clause([here_then, !spare, !h]);
            takers.push((piece, here_then));
        }
        if takers.is_empty() {
            return;
        }
        let guests = self.guests(node);
        let all = || guests.iter().chain(&takers).copied();
        self.at_most(all().map(|(piece, lit)| (problem.pieces[piece].milli(here), lit)), 1000 * here.cpus());
        let mut plain: Vec<(i64, Lit)> =
            all().map(|(piece, lit)| (problem.pieces[piece].plain_memory(), lit)).collect();
        let huge = all().filter(|(piece, _)| problem.pieces[*piece].huge);
        let huge: Vec<(i64, Lit)> = huge.map(|(piece, lit)| (problem.pieces[piece].memory, lit)).collect();
        for (piece, _) in guests.iter().filter(|(piece, _)| problem.pieces[*piece].channels > 0) {
            let first = self.first(*piece, node);
            plain.push((problem.pieces[*piece].channels, first));
        }
        self.at_most(plain, here.memory.max(0));
        self.at_most(huge, here.huge);
    }
}
