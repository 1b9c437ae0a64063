//! What follows from what is decided: clauses watch two of their literals, sums count what is left.
//!
//! ```text
//!  a literal becomes false ─┬► clauses that watch it: another one, or the other watched literal is true, or a conflict
//!                           └► sums that have it: slack −= coefficient; < 0: a conflict; < a coefficient: that literal is true
//! ```

use super::Lit;
use super::solver::{Reason, Solver};

/// Who watches a literal, and one more literal of it: where that is true, nothing needs to be looked at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Watch {
    pub(super) clause: u32,
    pub(super) blocker: Lit,
}

/// A sum with what is left of it.
#[derive(Debug)]
pub(super) struct Sum {
    /// By coefficients, the largest first.
    pub(super) terms: Vec<(i64, Lit)>,
    /// What all literals that are not false can give, less what is wanted.
    pub(super) slack: i64,
}

impl Solver {
    /// All that follows; the constraint that cannot be met any more.
    pub(super) fn propagate(&mut self) -> Option<Reason> {
        while let Some(&lit) = self.trail.get(self.head) {
            let falsified = !lit;
            self.head += 1;
            self.propagations += 1;
            let conflict = self.count(falsified).or_else(|| self.look(falsified));
            if conflict.is_some() {
                return conflict;
            }
        }
        None
    }

    /// Sums that have it. All are counted before any is acted upon, so that undoing knows what was counted.
    fn count(&mut self, falsified: Lit) -> Option<Reason> {
        let mut is_tight = false;
        let occurrences = std::mem::take(&mut self.occurrences[falsified.index()]);
        for (sum, coefficient) in &occurrences {
            let sum = &mut self.sums[*sum as usize];
            sum.slack -= coefficient;
            is_tight |= sum.slack < sum.terms[0].0;
        }
        let mut conflict = None;
        if is_tight {
            for (number, _) in &occurrences {
                if self.tighten(*number) {
                    conflict = Some(Reason::Sum(*number));
                    break;
                }
            }
        }
        self.occurrences[falsified.index()] = occurrences;
        conflict
    }

    /// What a sum forces now; whether it cannot be met.
    pub(super) fn tighten(&mut self, number: u32) -> bool {
        let slack = self.sums[number as usize].slack;
        if slack < 0 {
            return true;
        }
        let mut at = 0;
        while let Some(&(coefficient, lit)) = self.sums[number as usize].terms.get(at) {
            if coefficient <= slack {
                break;
            }
            if self.value(lit).is_none() {
                self.assign(lit, Reason::Sum(number));
            }
            at += 1;
        }
        false
    }

    /// Clauses that watch it.
    fn look(&mut self, falsified: Lit) -> Option<Reason> {
        let mut watches = std::mem::take(&mut self.watches[falsified.index()]);
        let (mut kept, mut at, mut conflict) = (0, 0, None);
        while at < watches.len() {
            let watch = watches[at];
            at += 1;
            if self.value(watch.blocker) == Some(true) {
                watches[kept] = watch;
                kept += 1;
                continue;
            }
            let clause = &mut self.clauses[watch.clause as usize].lits;
            if clause[0] == falsified {
                clause.swap(0, 1);
            }
            let first = clause[0];
            let values = &self.values;
            let is_true = |lit: Lit| values[lit.index()] == 1;
            let is_false = |lit: Lit| values[lit.index()] == -1;
            if is_true(first) {
                watches[kept] = Watch { blocker: first, ..watch };
                kept += 1;
                continue;
            }
            if let Some(other) = (2..clause.len()).find(|place| !is_false(clause[*place])) {
                clause.swap(1, other);
                let other = clause[1];
                self.watches[other.index()].push(Watch { blocker: first, ..watch });
                continue;
            }
            watches[kept] = watch;
            kept += 1;
            if is_false(first) {
                conflict = Some(Reason::Clause(watch.clause));
                break;
            }
            self.assign(first, Reason::Clause(watch.clause));
        }
        while at < watches.len() {
            watches[kept] = watches[at];
            kept += 1;
            at += 1;
        }
        watches.truncate(kept);
        self.watches[falsified.index()] = watches;
        conflict
    }

    /// Literals that were false and because of which this constraint made `forced` true, or cannot be met: of sums as few as are
    /// enough, those with the largest coefficients.
    pub(super) fn explain(&self, reason: Reason, forced: Option<Lit>, into: &mut Vec<Lit>) {
        into.clear();
        match reason {
            Reason::Decision => {}
            Reason::Clause(number) => {
                let lits = &self.clauses[number as usize].lits;
                into.extend(lits.iter().copied().filter(|lit| Some(*lit) != forced));
            }
            Reason::Sum(number) => {
                let sum = &self.sums[number as usize];
                let before = forced.map_or(usize::MAX, |lit| self.places[lit.var() as usize]);
                // What must be lost for it: with all literals there, the sum is above what is wanted by so much.
                let all: i64 = sum.terms.iter().map(|(coefficient, _)| *coefficient).sum();
                let mut left = all - self.wanted(number);
                let enough = forced.map_or(0, |lit| {
                    sum.terms.iter().find(|(_, term)| *term == lit).map_or(0, |(coefficient, _)| *coefficient)
                });
                for (coefficient, lit) in &sum.terms {
                    if left < enough {
                        break;
                    }
                    let is_lost = self.value(*lit) == Some(false) && self.places[lit.var() as usize] < before;
                    if is_lost {
                        into.push(*lit);
                        left -= coefficient;
                    }
                }
            }
        }
    }
}
