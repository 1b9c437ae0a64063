//! From a conflict to a clause that would have avoided it, and the level to go back to.

use super::Lit;
use super::solver::{Reason, Solver};

/// What is learned from a conflict.
#[derive(Debug)]
pub(super) struct Lesson {
    /// The clause; the first literal is the one that follows after going back, the second of the level gone back to.
    pub(super) lits: Vec<Lit>,
    /// The level to go back to.
    pub(super) level: u32,
    /// Of how many levels its literals are.
    pub(super) levels: u32,
}

impl Solver {
    /// The clause of the first unique implication point. At least one decision has been made.
    pub(super) fn analyze(&mut self, conflict: Reason) -> Lesson {
        let here = self.level();
        let (mut lits, mut reason_lits) = (vec![Lit::new(0)], Vec::new());
        let (mut open, mut at, mut reason, mut forced) = (0u32, self.trail.len(), conflict, None);
        loop {
            self.note_use(reason);
            self.explain(reason, forced, &mut reason_lits);
            for &lit in &reason_lits {
                let var = lit.var() as usize;
                if self.seen[var] || self.levels[var] == 0 {
                    continue;
                }
                self.seen[var] = true;
                self.heap.bump(lit.var());
                if self.levels[var] == here {
                    open += 1;
                } else {
                    lits.push(lit);
                }
            }
            let next = loop {
                at -= 1;
                if self.seen[self.trail[at].var() as usize] {
                    break self.trail[at];
                }
            };
            self.seen[next.var() as usize] = false;
            open -= 1;
            if open == 0 {
                lits[0] = !next;
                break;
            }
            reason = self.reasons[next.var() as usize];
            forced = Some(next);
        }
        let all: Vec<Lit> = lits.clone();
        self.minimize(&mut lits);
        all.iter().for_each(|lit| self.seen[lit.var() as usize] = false);
        self.finish(lits)
    }

    /// Leaves out what follows from the rest.
    fn minimize(&mut self, lits: &mut Vec<Lit>) {
        self.seen[lits[0].var() as usize] = true;
        let (mut extra, mut reason_lits, mut marked) = (Vec::new(), Vec::new(), Vec::new());
        let mut kept = 1;
        for at in 1..lits.len() {
            if !self.is_implied(lits[at], &mut extra, &mut reason_lits, &mut marked) {
                lits[kept] = lits[at];
                kept += 1;
            }
        }
        lits.truncate(kept);
        marked.iter().for_each(|var| self.seen[*var as usize] = false);
    }

    /// Whether all ways from it lead to literals of the clause. What was found to is marked as if it were of it.
    fn is_implied(
        &mut self,
        lit: Lit,
        stack: &mut Vec<Lit>,
        reason_lits: &mut Vec<Lit>,
        marked: &mut Vec<u32>,
    ) -> bool {
        if self.reasons[lit.var() as usize] == Reason::Decision {
            return false;
        }
        stack.clear();
        stack.push(lit);
        let began = marked.len();
        while let Some(one) = stack.pop() {
            let reason = self.reasons[one.var() as usize];
            self.explain(reason, Some(!one), reason_lits);
            for &before in reason_lits.iter() {
                let var = before.var() as usize;
                if self.seen[var] || self.levels[var] == 0 {
                    continue;
                }
                if self.reasons[var] == Reason::Decision {
                    for var in marked.drain(began..) {
                        self.seen[var as usize] = false;
                    }
                    return false;
                }
                self.seen[var] = true;
                marked.push(before.var());
                stack.push(before);
            }
        }
        true
    }

    fn finish(&mut self, mut lits: Vec<Lit>) -> Lesson {
        let level_of = |lit: &Lit| self.levels[lit.var() as usize];
        let mut level = 0;
        if let Some(place) = (1..lits.len()).max_by_key(|place| level_of(&lits[*place])) {
            level = level_of(&lits[place]);
            lits.swap(1, place);
        }
        let mut of: Vec<u32> = lits.iter().map(level_of).collect();
        of.sort_unstable();
        of.dedup();
        Lesson { levels: of.len() as u32, lits, level }
    }
}
