//! Variables by how much they took part in conflicts lately, the busiest first.

use super::Var;

/// A binary heap that knows where each variable is.
#[derive(Debug, Default)]
pub(super) struct Heap {
    order: Vec<Var>,
    /// Where each variable is in `order`; `usize::MAX` for nowhere.
    place: Vec<usize>,
    score: Vec<f64>,
    step: f64,
}

const NOWHERE: usize = usize::MAX;
/// From here on all scores are made smaller.
const LARGEST: f64 = 1e100;
/// By how much newer conflicts count more than older ones.
const DECAY: f64 = 0.95;

impl Heap {
    pub(super) fn grow(&mut self, variables: usize) {
        if self.step == 0.0 {
            self.step = 1.0;
        }
        while self.place.len() < variables {
            let var = self.place.len() as Var;
            self.place.push(NOWHERE);
            self.score.push(0.0);
            self.insert(var);
        }
    }

    pub(super) fn insert(&mut self, var: Var) {
        if self.place[var as usize] == NOWHERE {
            self.place[var as usize] = self.order.len();
            self.order.push(var);
            self.up(self.order.len() - 1);
        }
    }

    pub(super) fn pop(&mut self) -> Option<Var> {
        let first = *self.order.first()?;
        let last = self.order.pop()?;
        self.place[first as usize] = NOWHERE;
        if first != last {
            self.order[0] = last;
            self.place[last as usize] = 0;
            self.down(0);
        }
        Some(first)
    }

    /// It took part in a conflict.
    pub(super) fn bump(&mut self, var: Var) {
        let step = self.step;
        self.add(var, step);
    }

    /// What it begins with.
    pub(super) fn add(&mut self, var: Var, score: f64) {
        self.score[var as usize] += score;
        if self.score[var as usize] > LARGEST {
            self.score.iter_mut().for_each(|score| *score /= LARGEST);
            self.step /= LARGEST;
        }
        let place = self.place[var as usize];
        if place != NOWHERE {
            self.up(place);
        }
    }

    pub(super) fn decay(&mut self) {
        self.step /= DECAY;
    }

    fn is_before(&self, a: Var, b: Var) -> bool {
        self.score[a as usize] > self.score[b as usize]
    }

    fn up(&mut self, mut at: usize) {
        while at > 0 {
            let parent = (at - 1) / 2;
            if !self.is_before(self.order[at], self.order[parent]) {
                break;
            }
            self.swap(at, parent);
            at = parent;
        }
    }

    fn down(&mut self, mut at: usize) {
        loop {
            let (left, right) = (2 * at + 1, 2 * at + 2);
            let mut best = at;
            for child in [left, right] {
                if child < self.order.len() && self.is_before(self.order[child], self.order[best]) {
                    best = child;
                }
            }
            if best == at {
                break;
            }
            self.swap(at, best);
            at = best;
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.order.swap(a, b);
        self.place[self.order[a] as usize] = a;
        self.place[self.order[b] as usize] = b;
    }
}
