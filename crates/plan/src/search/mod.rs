//! A good plan soon, without proof: what the exact search begins with, and what is left of it where there is too much for that.
//!
//! ```text
//!  largest first, where it costs least ─ no room for one? it goes first the next time ─┐ again, MOST_TRIES times
//!     ▲                                                                                │
//!     └────────────────────────────────────────────────────────────────────────────────┘
//!  all placed ─► move one, or exchange two, while that is better ─► shake a few, again: the best of it
//! ```
//! First: best-fit decreasing, with failed ones to the front (Joslin and Clements, "Squeaky wheel optimization", 1999); then
//! iterated local search (Lourenço, Martin, Stützle 2003).

mod floor;
mod state;

use std::cmp::Reverse;

use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::problem::Problem;

pub use floor::floors;
pub use state::{Place, State};

/// How often it begins anew until all are placed.
const MOST_TRIES: usize = 200;

/// A plan that keeps all rules, or none that was found.
pub fn soon(problem: &Problem, shakes: usize, is_over: &dyn Fn() -> bool) -> Option<State> {
    let mut state = place_all(problem, is_over)?;
    climb(problem, &mut state, is_over);
    // The same each time: equal systems have equal plans.
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut best = state.clone();
    let mut worth = best.worth(problem);
    for _ in 0..shakes {
        if is_over() {
            break;
        }
        let mut other = best.clone();
        if shake(problem, &mut other, &mut random) {
            climb(problem, &mut other, is_over);
            let now = other.worth(problem);
            if now <= worth {
                (best, worth) = (other, now);
            }
        }
    }
    Some(best)
}

/// Largest first, those that found no room earlier before that.
fn place_all(problem: &Problem, is_over: &dyn Fn() -> bool) -> Option<State> {
    let count = problem.pieces.len();
    let mut urgency = vec![0u32; count];
    let sizes: Vec<i64> = (0..count).map(|piece| size(problem, piece)).collect();
    for _ in 0..MOST_TRIES {
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_by_key(|piece| (Reverse(urgency[*piece]), Reverse(sizes[*piece]), *piece));
        let mut state = State::new(problem);
        let mut lacking = Vec::new();
        for piece in order {
            match state.cheapest(problem, piece) {
                Some(nodes) => state.put(problem, piece, nodes),
                None => lacking.push(piece),
            }
        }
        if lacking.is_empty() {
            return Some(state);
        }
        lacking.iter().for_each(|piece| urgency[*piece] += 1);
        if is_over() {
            return None;
        }
    }
    None
}

/// What it takes of the largest node, in thousandths.
fn size(problem: &Problem, piece: usize) -> i64 {
    let one = &problem.pieces[piece];
    let nodes = &problem.site.nodes;
    let share = |taken: i64, there: i64| if there > 0 { 1000 * taken / there } else { 0 };
    let cpus = nodes.iter().map(|node| share(one.milli(node), 1000 * node.cpus())).max().unwrap_or(0);
    let memory = nodes.iter().map(|node| share(one.plain_memory(), node.memory)).max().unwrap_or(0);
    (cpus + memory) * i64::from(one.parts.max(1))
}

/// Moves one or exchanges two while it is better.
fn climb(problem: &Problem, state: &mut State, is_over: &dyn Fn() -> bool) {
    loop {
        let mut is_better = false;
        for piece in 0..problem.pieces.len() {
            if is_over() {
                return;
            }
            is_better |= state.improve(problem, piece);
        }
        if !is_better {
            return;
        }
    }
}

/// Takes a few away and puts them where there is room.
fn shake(problem: &Problem, state: &mut State, random: &mut Xoshiro256PlusPlus) -> bool {
    let count = problem.pieces.len();
    if count < 2 {
        return false;
    }
    let mut out = vec![random.random_range(0..count)];
    // Neighbours in talk are moved along: alone, none of them would gain.
    for _ in 0..random.random_range(1..=4) {
        let near: Vec<usize> = state.speaks_with(problem, out[out.len() - 1]);
        let next = match near.choose(random) {
            Some(next) => *next,
            None => random.random_range(0..count),
        };
        if !out.contains(&next) {
            out.push(next);
        }
    }
    out.iter().for_each(|piece| state.take(problem, *piece));
    for piece in out {
        let places = state.places(problem, piece);
        let Some(chosen) = places.choose(random) else { return false };
        state.put(problem, piece, chosen.clone());
    }
    true
}
