//! From one plan to the next: which partition moves when, so that nobody is away if that can be helped.
//!
//! ```text
//!  where each is, where each goes ─► order: nobody is stopped? ─► with one, two, three moves over a third place? ─► with few stopped?
//!                                                                  └─ too many to try: the careful order
//! ```
//! A replica that moves is started at its new place while it still runs at the old one. Steps are taken one after the other.

mod order;

use std::collections::BTreeSet;

use model::plan::{Placed, Plan};
use model::system::{KnownHost, System};

use crate::problem::Problem;
use crate::search::Place;
use order::{Act, Mover, order};

/// One step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// It starts at its new place, and is ended at the old one.
    Move {
        /// The replica.
        name: String,
        /// Where it was.
        from: String,
        /// Where it is then.
        to: String,
        /// Whether it only makes room there: it moves once more.
        for_now: bool,
    },
    /// It is ended at its old place: until it starts again it is away.
    Stop {
        /// The replica.
        name: String,
        /// Where it was.
        from: String,
    },
    /// One that is new, was stopped, or was on a host that is gone, starts.
    Start {
        /// The replica.
        name: String,
        /// Where.
        to: String,
        /// How long it is away at least, in milliseconds: until all steps are done from the one that has stopped it, or from the
        /// first where its host is gone; none for one that was nowhere.
        away_ms: Option<u64>,
    },
    /// One that is not wanted any more is ended.
    End {
        /// The replica.
        name: String,
        /// Where it was.
        from: String,
    },
}

/// The steps from `from` to `to`.
pub fn steps(system: &System, hosts: &[KnownHost], from: &Plan, to: &Plan) -> Vec<Step> {
    let mut problem = Problem::new(system, hosts, &BTreeSet::new());
    problem.was = problem.nodes_in(from);
    let stands = places_in(&problem, from);
    let goes = places_in(&problem, to);
    let movers: Vec<Mover> = (0..problem.pieces.len())
        .map(|piece| Mover { piece, from: stands[piece].clone(), to: goes[piece].clone() })
        .collect();
    let acts = order(&problem, &movers);
    let mut steps = gone(&problem, from);
    steps.extend(Words { problem: &problem, took: 0, since: vec![0; movers.len()] }.of(&movers, &acts));
    steps
}

/// Where each replica is in a plan; nowhere for those that are not in it, or on a host or node that is gone.
fn places_in(problem: &Problem, plan: &Plan) -> Vec<Place> {
    let place = |(piece, nodes): (usize, Option<BTreeSet<usize>>)| {
        let nodes: Vec<usize> = nodes.into_iter().flatten().collect();
        let Some(first) = nodes.first() else { return Place::default() };
        let host = &problem.site.hosts[problem.site.nodes[*first].host];
        let is_it = |placed: &&Placed| placed.name == problem.pieces[piece].name;
        let placed = plan.partitions.iter().find(is_it);
        let named = |name: Option<&String>, ports: &[crate::site::Port]| {
            name.and_then(|name| ports.iter().position(|port| port.name == *name))
        };
        let disk = named(placed.and_then(|placed| placed.disk.as_ref()), &host.disks);
        let card = named(placed.and_then(|placed| placed.nic.as_ref()), &host.cards);
        Place { nodes, disk, card }
    };
    problem.nodes_in(plan).into_iter().enumerate().map(place).collect()
}

/// Acts in words, with how long each takes.
struct Words<'a> {
    problem: &'a Problem,
    /// Milliseconds that all steps so far have taken.
    took: u64,
    /// By replica: when it was stopped.
    since: Vec<u64>,
}

impl Words<'_> {
    fn of(&mut self, movers: &[Mover], acts: &[Act]) -> Vec<Step> {
        let mut at: Vec<&Place> = movers.iter().map(|mover| &mover.from).collect();
        let mut steps = Vec::new();
        for act in acts {
            let (mover, to, for_now) = match act {
                Act::Go(mover) => (*mover, Some(&movers[*mover].to), false),
                Act::Over(mover, place) => (*mover, Some(place), true),
                Act::Stop(mover) => (*mover, None, false),
            };
            let name = self.problem.pieces[movers[mover].piece].name.clone();
            let from = place_of(self.problem, &at[mover].nodes);
            let Some(to) = to else {
                steps.push(Step::Stop { name, from });
                self.since[mover] = self.took;
                at[mover] = NOWHERE;
                continue;
            };
            let was = std::mem::replace(&mut at[mover], to);
            if was.nodes == to.nodes {
                // Its throughput is counted at another device: nothing is done.
                continue;
            }
            self.took += self.starts_in(to);
            steps.push(if was.nodes.is_empty() {
                let was_there = self.problem.was[movers[mover].piece].is_some();
                let away_ms = was_there.then(|| self.took - self.since[mover]);
                Step::Start { name, to: place_of(self.problem, &to.nodes), away_ms }
            } else {
                Step::Move { name, from, to: place_of(self.problem, &to.nodes), for_now }
            });
        }
        steps
    }

    /// Milliseconds until one that is started there runs.
    fn starts_in(&self, place: &Place) -> u64 {
        let site = &self.problem.site;
        place.nodes.first().map_or(0, |node| site.hosts[site.nodes[*node].host].start_ms().unsigned_abs())
    }
}

/// Of who is stopped.
const NOWHERE: &Place = &Place { nodes: Vec::new(), disk: None, card: None };

fn place_of(problem: &Problem, nodes: &[usize]) -> String {
    let Some(first) = nodes.first() else { return "nowhere".to_owned() };
    let host = &problem.site.hosts[problem.site.nodes[*first].host];
    let numbers = model::partition::NumberList::of(nodes.iter().map(|node| problem.site.nodes[*node].number));
    let word = if nodes.len() > 1 { "nodes" } else { "node" };
    format!("{} {word} {numbers}", host.name)
}

/// Those of the old plan that nobody wants any more, on hosts that are still there.
fn gone(problem: &Problem, from: &Plan) -> Vec<Step> {
    let is_wanted = |name: &str| problem.pieces.iter().any(|piece| piece.name == name);
    let has_host = |name: &str| problem.site.hosts.iter().any(|host| host.name == name);
    from.partitions
        .iter()
        .filter(|placed| !is_wanted(&placed.name) && has_host(&placed.host))
        .map(|placed| Step::End { name: placed.name.clone(), from: placed.host.clone() })
        .collect()
}
