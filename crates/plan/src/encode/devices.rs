//! Disks and cards: rules `disk`, `network`, `near`.

use model::plan::Rule;
use model::system::Device;

use super::{At, Encoder, Group, kind};
use crate::pb::Lit;
use crate::site::Port;

impl Encoder<'_> {
    pub(super) fn devices(&mut self) {
        for piece in 0..self.problem.pieces.len() {
            let needs = &self.problem.needs[self.problem.pieces[piece].partition];
            if needs.disk.is_some() {
                self.disks[piece] = self.choose(piece, kind::DISK, |host| &host.disks);
                self.near(piece, Device::Disk);
            }
            if needs.network.is_some() {
                self.cards[piece] = self.choose(piece, kind::CARD, |host| &host.cards);
                self.near(piece, Device::Nic);
            }
        }
        for host in 0..self.problem.site.hosts.len() {
            self.group(Group::Rule(Rule::Disk));
            for disk in 0..self.problem.site.hosts[host].disks.len() {
                self.hold_disk(host, disk);
            }
            self.group(Group::Rule(Rule::Network));
            for card in 0..self.problem.site.hosts[host].cards.len() {
                self.hold_card(host, card);
            }
        }
    }

    /// One device of the host it is on.
    fn choose(
        &mut self,
        piece: usize,
        kind: u8,
        of: impl Fn(&crate::site::Host) -> &Vec<Port>,
    ) -> Vec<(usize, usize, Lit)> {
        let mut all = Vec::new();
        for host in 0..self.problem.site.hosts.len() {
            let Some(h) = self.h[piece][host] else { continue };
            let count = of(&self.problem.site.hosts[host]).len();
            if count == 1 {
                all.push((host, 0, h));
                continue;
            }
            let lacking = if kind == kind::DISK { Rule::Disk } else { Rule::Network };
            self.group(if count == 0 { Group::Rule(lacking) } else { Group::Given });
            let mut here = Vec::new();
            for device in 0..count {
                let one = self.variable(At::Host(host), (kind, piece, device));
                self.clause([!one, h]);
                here.push(one);
                all.push((host, device, one));
            }
            self.clause(here.iter().copied().chain([!h]));
            self.at_most(here.into_iter().map(|one| (1, one)), 1);
        }
        all
    }

    /// A part of it is on the node of what it was given.
    fn near(&mut self, piece: usize, device: Device) {
        let problem = self.problem;
        if !problem.needs[problem.pieces[piece].partition].near.contains(&device) {
            return;
        }
        self.group(Group::Rule(Rule::Near));
        let given = match device {
            Device::Disk => self.disks[piece].clone(),
            Device::Nic => self.cards[piece].clone(),
        };
        for (host, number, lit) in given {
            let host = &problem.site.hosts[host];
            let port = if device == Device::Disk { &host.disks[number] } else { &host.cards[number] };
            match port.node.map(|node| self.x[piece][node]) {
                None => {}
                Some(Some(x)) => self.clause([!lit, x]),
                Some(None) => self.clause([!lit]),
            }
        }
    }

    fn hold_disk(&mut self, host: usize, disk: usize) {
        let problem = self.problem;
        let port = &problem.site.hosts[host].disks[disk];
        let takers = takers(&self.disks, host, disk);
        self.at_most(takers.iter().map(|(piece, lit)| (problem.disk_rate(*piece), *lit)), port.rate);
        for (piece, lit) in &takers {
            let stall = problem.longest_stall(*piece);
            if stall < port.longest_stall(true) {
                self.clause([!*lit]);
            }
            if stall < port.longest_stall(false) {
                for (_, other) in takers.iter().filter(|(other, _)| other != piece) {
                    self.clause([!*lit, !*other]);
                }
            }
        }
    }

    fn hold_card(&mut self, host: usize, card: usize) {
        let problem = self.problem;
        let port = &problem.site.hosts[host].cards[card];
        let takers = takers(&self.cards, host, card);
        let need = |piece: usize| problem.needs[problem.pieces[piece].partition].network;
        self.at_most(takers.iter().map(|(piece, lit)| (problem.network_rate(*piece), *lit)), port.rate);
        let receiving = takers.iter().filter(|(piece, _)| need(*piece).is_some_and(|need| need.receives));
        self.at_most(receiving.map(|(_, lit)| (1, *lit)), port.receivers);
    }
}

/// Who can have a device of a host.
fn takers(of: &[Vec<(usize, usize, Lit)>], host: usize, device: usize) -> Vec<(usize, Lit)> {
    let here = |taken: &&(usize, usize, Lit)| taken.0 == host && taken.1 == device;
    let of_piece = |(piece, all): (usize, &Vec<(usize, usize, Lit)>)| {
        all.iter().find(here).map(|(_, _, lit)| (piece, *lit))
    };
    of.iter().enumerate().filter_map(of_piece).collect()
}
