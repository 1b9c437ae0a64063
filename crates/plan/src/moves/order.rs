//! In which order partitions move, found by trying orders.
//!
//! ```text
//!  nobody stopped, each moves once ─► one moves over a third place ─► two ─► three ─► one stopped ─► two ─► three ─► careful order
//!     each: depth first; a state that was seen is not tried again; all of it ends after so many looks at places
//! ```
//! The careful order, for what is too large: whoever can moves; where nobody can, the smallest is stopped.

use std::collections::BTreeSet;

use crate::problem::Problem;
use crate::search::{Place, State};

/// (Moves over a third place, stopped) that are tried, one after the other.
const LEVELS: [(u8, u8); 7] = [(0, 0), (1, 0), (2, 0), (3, 0), (0, 1), (0, 2), (0, 3)];
/// Looks at whether a place is free, at most; those of one level leave half of the rest.
const MOST_LOOKS: usize = 200_000;

/// One that may have to move.
#[derive(Debug, Clone)]
pub struct Mover {
    /// The replica.
    pub piece: usize,
    /// Where it is; nowhere for one that is new or whose host is gone.
    pub from: Place,
    /// Where it goes.
    pub to: Place,
}

/// What is done, by the mover's number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// It moves to where it goes, or starts there.
    Go(usize),
    /// It moves there for a while.
    Over(usize, Place),
    /// It is ended, and starts again later.
    Stop(usize),
}

/// What is done, in order, so that each is where it goes.
pub fn order(problem: &Problem, movers: &[Mover]) -> Vec<Act> {
    let mut state = State::new(problem);
    for mover in movers {
        state.put_at(problem, mover.piece, mover.from.clone());
    }
    let left: Vec<usize> = (0..movers.len())
        .filter(|mover| movers[*mover].from != movers[*mover].to && !movers[*mover].to.nodes.is_empty())
        .collect();
    let mut looks = MOST_LOOKS;
    for (detours, stops) in LEVELS {
        let mut search = Search {
            problem,
            movers,
            state: state.clone(),
            left: left.clone(),
            looks: looks / 2,
            seen: BTreeSet::new(),
            acts: Vec::new(),
        };
        if search.goes_on(detours, stops) {
            return search.acts;
        }
        looks -= looks / 2 - search.looks;
    }
    careful(problem, movers, state, left)
}

/// Where one of those that are left is, as far as it matters for what can still be done.
type Seen = (Vec<(usize, Place)>, u8, u8);

struct Search<'a> {
    problem: &'a Problem,
    movers: &'a [Mover],
    state: State,
    /// Who is not where it goes yet.
    left: Vec<usize>,
    looks: usize,
    seen: BTreeSet<Seen>,
    acts: Vec<Act>,
}

impl Search<'_> {
    /// Whether all can come to where they go, with so many moves over a third place and so many stopped. The acts are those then;
    /// otherwise everything is as before.
    fn goes_on(&mut self, detours: u8, stops: u8) -> bool {
        if self.left.is_empty() {
            return true;
        }
        let places = self.left.iter().map(|mover| (*mover, self.state.place(self.movers[*mover].piece)));
        if self.looks == 0 || !self.seen.insert((places.collect(), detours, stops)) {
            return false;
        }
        for at in 0..self.left.len() {
            let mover = self.left[at];
            if self.is_free(mover, &self.movers[mover].to) {
                self.left.remove(at);
                if self.tries(Act::Go(mover), detours, stops) {
                    return true;
                }
                self.left.insert(at, mover);
            }
        }
        detours > 0 && self.over_a_third(detours, stops) || stops > 0 && self.with_one_stopped(detours, stops)
    }

    /// Those that stay where they are can make room as well: they come back.
    fn over_a_third(&mut self, detours: u8, stops: u8) -> bool {
        let stays = (0..self.movers.len()).filter(|mover| !self.left.contains(mover));
        for mover in self.left.iter().copied().chain(stays).collect::<Vec<usize>>() {
            let Mover { piece, from, to } = &self.movers[mover];
            // Once is enough for each.
            if self.state.place(*piece) != *from || from.nodes.is_empty() || self.looks == 0 {
                continue;
            }
            self.looks = self.looks.saturating_sub(self.problem.site.nodes.len());
            let is_more = !self.left.contains(&mover);
            for place in self.state.third_places(self.problem, *piece, to) {
                self.left.extend(is_more.then_some(mover));
                if self.tries(Act::Over(mover, place), detours - 1, stops) {
                    return true;
                }
                self.left.truncate(self.left.len() - usize::from(is_more));
            }
        }
        false
    }

    fn with_one_stopped(&mut self, detours: u8, stops: u8) -> bool {
        for mover in running(self.problem, self.movers, &self.state, &self.left) {
            if self.tries(Act::Stop(mover), detours, stops - 1) {
                return true;
            }
        }
        false
    }

    /// Does it and goes on; takes it back where that leads nowhere.
    fn tries(&mut self, act: Act, detours: u8, stops: u8) -> bool {
        let mover = match &act {
            Act::Go(mover) | Act::Over(mover, _) | Act::Stop(mover) => *mover,
        };
        let piece = self.movers[mover].piece;
        let was = self.state.place(piece);
        apply(self.problem, self.movers, &mut self.state, &act);
        self.acts.push(act);
        if self.goes_on(detours, stops) {
            return true;
        }
        self.acts.pop();
        self.state.take(self.problem, piece);
        self.state.put_at(self.problem, piece, was);
        false
    }

    fn is_free(&mut self, mover: usize, place: &Place) -> bool {
        self.looks = self.looks.saturating_sub(1);
        is_free(self.problem, &mut self.state, self.movers[mover].piece, place)
    }
}

/// Whether it can go there now. Who stays on its nodes is not there twice meanwhile.
fn is_free(problem: &Problem, state: &mut State, piece: usize, place: &Place) -> bool {
    let was = state.place(piece);
    if was.nodes != place.nodes {
        return state.is_free_for(problem, piece, place);
    }
    state.take(problem, piece);
    let is_free = state.is_free_for(problem, piece, place);
    state.put_at(problem, piece, was);
    is_free
}

fn apply(problem: &Problem, movers: &[Mover], state: &mut State, act: &Act) {
    let (mover, to) = match act {
        Act::Go(mover) => (*mover, movers[*mover].to.clone()),
        Act::Over(mover, place) => (*mover, place.clone()),
        Act::Stop(mover) => (*mover, Place::default()),
    };
    state.take(problem, movers[mover].piece);
    state.put_at(problem, movers[mover].piece, to);
}

/// Those of some who run, in the order in which they are stopped: who may be away, then the smallest, first.
fn running(problem: &Problem, movers: &[Mover], state: &State, some: &[usize]) -> Vec<usize> {
    let runs = |mover: &usize| !state.nodes[movers[*mover].piece].is_empty();
    let mut running: Vec<usize> = some.iter().copied().filter(runs).collect();
    running.sort_by_key(|mover| {
        let one = &problem.pieces[movers[*mover].piece];
        (problem.needs[one.partition].max_downtime_ms.is_some(), one.cpus, one.memory)
    });
    running
}

/// The careful order.
fn careful(problem: &Problem, movers: &[Mover], mut state: State, mut left: Vec<usize>) -> Vec<Act> {
    let mut acts = Vec::new();
    while !left.is_empty() {
        let can = |mover: &usize| is_free(problem, &mut state, movers[*mover].piece, &movers[*mover].to);
        let act = match left.iter().position(can) {
            Some(at) => Act::Go(left.remove(at)),
            None => match running(problem, movers, &state, &left).first() {
                Some(mover) => Act::Stop(*mover),
                // Nobody runs who is in the way: what is left was in the way of nobody.
                None => Act::Go(left.remove(0)),
            },
        };
        apply(problem, movers, &mut state, &act);
        acts.push(act);
    }
    acts
}
