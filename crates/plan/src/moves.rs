//! In which order replicas move from one plan to another, so that nobody is without what it needs meanwhile; or who is, and for how long.
//!
//! ```text
//!  who still has to move ─ its new place has room for it beside all who are there now? ─ yes: it moves, what it leaves is free ─┐
//!     ▲                     nobody's has ─► one is stopped, and starts again when its new place is free                       │
//!     └────────────────────────────────────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//! A replica that moves is started at its new place while it still runs at the old one.

use std::collections::BTreeSet;

use model::plan::Plan;
use model::system::{KnownHost, System};

use crate::problem::Problem;
use crate::search::State;

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
        /// How long it is away at least, in milliseconds: none for one that was nowhere.
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
    let nodes = |of: &Option<BTreeSet<usize>>| of.iter().flatten().copied().collect::<Vec<usize>>();
    let target: Vec<Vec<usize>> = problem.nodes_in(to).iter().map(nodes).collect();
    let mut state = State::new(&problem);
    let mut waiting: Vec<usize> = Vec::new();
    let mut steps: Vec<Step> = gone(&problem, from);
    for (piece, target) in target.iter().enumerate() {
        let was = nodes(&problem.was[piece]);
        if !was.is_empty() {
            state.put(&problem, piece, was.clone());
        }
        if was != *target {
            waiting.push(piece);
        }
    }
    let mut stopped: BTreeSet<usize> = BTreeSet::new();
    while !waiting.is_empty() {
        let free = waiting.iter().position(|piece| state.is_free_for(&problem, *piece, &target[*piece]));
        let Some(place) = free else {
            // The smallest of those that run is away for a while.
            let runs = |piece: &&usize| !state.nodes[**piece].is_empty();
            let Some(&piece) = waiting.iter().filter(runs).min_by_key(|piece| {
                let one = &problem.pieces[**piece];
                (problem.needs[one.partition].max_downtime_ms.is_some(), one.cpus, one.memory)
            }) else {
                // Nobody runs who is in the way: what is left was in the way of nobody.
                let piece = waiting.remove(0);
                steps.push(start(&problem, piece, &target[piece], &stopped));
                continue;
            };
            steps.push(Step::Stop {
                name: problem.pieces[piece].name.clone(),
                from: place_of(&problem, &state.nodes[piece]),
            });
            state.take(&problem, piece);
            stopped.insert(piece);
            continue;
        };
        let piece = waiting.remove(place);
        let was = state.nodes[piece].clone();
        let name = problem.pieces[piece].name.clone();
        if was.is_empty() {
            steps.push(start(&problem, piece, &target[piece], &stopped));
        } else {
            steps.push(Step::Move {
                name,
                from: place_of(&problem, &was),
                to: place_of(&problem, &target[piece]),
            });
            state.take(&problem, piece);
        }
        if !target[piece].is_empty() {
            state.put(&problem, piece, target[piece].clone());
        }
    }
    steps
}

fn start(problem: &Problem, piece: usize, target: &[usize], stopped: &BTreeSet<usize>) -> Step {
    let host = target.first().map(|node| &problem.site.hosts[problem.site.nodes[*node].host]);
    let was_there = problem.was[piece].is_some() || stopped.contains(&piece);
    let away = host.filter(|_| was_there).map(|host| host.start_ms().unsigned_abs());
    Step::Start { name: problem.pieces[piece].name.clone(), to: place_of(problem, target), away_ms: away }
}

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
