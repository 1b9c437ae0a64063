//! The constraints that are there, and what propagation finds from them.
//!
//! ```text
//!  assign a literal ─┬► slack of each sum that has its negative shrinks ─► below the largest coefficient: looked at
//!                    └► clauses that watch its negative look for another literal to watch
//! ```
//! The slack of a sum is what its literals that are not false can still give, less what is wanted; it is counted on, not computed
//! anew. Of a clause two literals are watched, which are not false unless the other one is true (Moskewicz et al., Chaff, 2001; the
//! counters are those of Dixon and Ginsberg, 2002).
//!
//! What follows without any assumption, the *root*, is kept. Which constraints it rests on is kept as well: when one of those is
//! deleted, the root is found anew without it.
//!
//! Sound: a literal is assigned only if its constraint cannot be met without it, and a conflict is a constraint that cannot be met; so
//! what [`Engine::refutes`] refutes is false in every solution of the constraints that are there.

use units::Reason;

use super::constraint::{Body, Draft};
use super::words::Lit;

/// Most memory that the constraints that are there take, in bytes.
const MOST_BYTES: usize = 2 << 30;

/// A constraint with what is known of it.
#[derive(Debug)]
pub(super) struct Held {
    /// What it is made of.
    pub body: Body,
    /// What the sum must reach.
    pub side: i128,
    /// What those that are not false give, less the side; of sums alone.
    slack: i128,
    /// It is to be looked at.
    is_pending: bool,
    /// The root rests on it.
    is_support: bool,
}

/// A clause that watches a literal.
#[derive(Debug, Clone, Copy)]
struct Watch {
    id: u32,
    /// Another literal of it: while that is true there is nothing to do.
    blocker: Lit,
}

/// A sum that has a literal.
#[derive(Debug, Clone, Copy)]
struct Occurrence {
    id: u32,
    coef: u64,
}

/// All constraints, and which literals are true.
#[derive(Debug, Default)]
pub(super) struct Engine {
    held: Vec<Held>,
    /// By literal: 1 true, -1 false, 0 open.
    values: Vec<i8>,
    watches: Vec<Vec<Watch>>,
    occurrences: Vec<Vec<Occurrence>>,
    /// True literals, in the order in which they became so.
    trail: Vec<Lit>,
    /// How many of them clauses have looked at.
    looked_at: usize,
    pending: Vec<u32>,
    /// What the root rests on.
    supports: Vec<u32>,
    /// Sums, and clauses of fewer than two literals: what says something before anything is assumed.
    starters: Vec<u32>,
    /// The constraint that cannot be met.
    conflict: Option<u32>,
    /// Literals of the trail that are the root's; none while the root is being found.
    root: Option<usize>,
    /// There is a conflict without any assumption.
    is_contradictory: bool,
    /// The root rests on something that was deleted.
    is_stale: bool,
    /// What those that are there take, and what is left of those that are gone, in bytes.
    bytes: usize,
    dust: usize,
}

/// About what a constraint takes with all that is kept of it, in bytes.
fn size(body: &Body) -> usize {
    match body {
        Body::Gone => 0,
        Body::Clause(lits) => 128 + size_of_val(&**lits),
        Body::Linear(terms) => 128 + size_of_val(&**terms) + terms.len() * size_of::<Occurrence>(),
    }
}

impl Engine {
    /// Room for so many variables.
    pub fn grow(&mut self, variables: usize) {
        let lits = variables * 2;
        if self.values.len() < lits {
            self.values.resize(lits, 0);
            self.watches.resize_with(lits, Vec::new);
            self.occurrences.resize_with(lits, Vec::new);
        }
    }

    /// How many constraints there were.
    pub const fn count(&self) -> usize {
        self.held.len()
    }

    /// A constraint that is there, by its place: one less than its number.
    pub fn get(&self, place: usize) -> Option<&Held> {
        self.held.get(place).filter(|held| !matches!(held.body, Body::Gone))
    }

    fn value(&self, lit: Lit) -> i8 {
        self.values.get(lit.place()).copied().unwrap_or_default()
    }

    /// One more constraint. Its variables have room.
    ///
    /// # Errors
    /// There are too many.
    pub fn add(&mut self, draft: Draft) -> Result<(), Reason> {
        self.bytes += size(&draft.body);
        let id = u32::try_from(self.held.len()).map_err(|_| "there are too many constraints")?;
        if self.bytes > MOST_BYTES {
            return Err(format!("the constraints that are there take more than {MOST_BYTES} bytes").into());
        }
        self.root = None;
        let Draft { mut body, side } = draft;
        let mut slack = 0;
        match &mut body {
            Body::Gone => {}
            Body::Clause(lits) => self.watch(id, lits),
            Body::Linear(terms) => {
                slack = -side;
                for term in &*terms {
                    if self.value(term.lit) >= 0 {
                        slack += i128::from(term.coef);
                    }
                    if let Some(list) = self.occurrences.get_mut(term.lit.place()) {
                        list.push(Occurrence { id, coef: term.coef });
                    }
                }
            }
        }
        let is_starter = !matches!(&body, Body::Clause(lits) if lits.len() > 1);
        self.held.push(Held { body, side, slack, is_pending: false, is_support: false });
        if is_starter {
            self.starters.push(id);
        }
        self.start(id);
        Ok(())
    }

    /// Two literals that are not false come first and are watched; where there is one alone it must be true.
    fn watch(&mut self, id: u32, lits: &mut [Lit]) {
        let mut front = 0;
        for place in 0..lits.len() {
            if front < 2 && lits.get(place).is_some_and(|lit| self.value(*lit) >= 0) {
                lits.swap(front, place);
                front += 1;
            }
        }
        if let [first, second, ..] = *lits {
            for (lit, blocker) in [(first, second), (second, first)] {
                if let Some(list) = self.watches.get_mut(lit.place()) {
                    list.push(Watch { id, blocker });
                }
            }
        }
    }

    /// Looks at a constraint for the first time, or once more when nothing is assigned.
    fn start(&mut self, id: u32) {
        let Some(held) = self.held.get_mut(id as usize) else { return };
        match &held.body {
            Body::Gone => {}
            Body::Linear(terms) => {
                let largest = terms.first().map_or(0, |term| i128::from(term.coef));
                if held.slack < 0 {
                    self.conflict = self.conflict.or(Some(id));
                } else if held.slack < largest && !held.is_pending {
                    held.is_pending = true;
                    self.pending.push(id);
                }
            }
            Body::Clause(lits) => {
                let (first, second) = (lits.first().copied(), lits.get(1).copied());
                match (first, second.map(|lit| self.value(lit))) {
                    (None, _) => self.conflict = self.conflict.or(Some(id)),
                    (Some(only), None | Some(-1)) => self.assign(only, Some(id)),
                    _ => {}
                }
            }
        }
    }

    /// Makes a literal true. What it makes impossible is a conflict.
    fn assign(&mut self, lit: Lit, reason: Option<u32>) {
        match self.value(lit) {
            0 => {}
            1 => return,
            _ => {
                self.conflict = self.conflict.or(reason);
                return;
            }
        }
        let negative = lit.negated();
        for (place, value) in [(lit.place(), 1), (negative.place(), -1)] {
            if let Some(slot) = self.values.get_mut(place) {
                *slot = value;
            }
        }
        self.trail.push(lit);
        if let Some(id) = reason.filter(|_| self.root.is_none()) {
            self.support(id);
        }
        let Some(occurrences) = self.occurrences.get(negative.place()) else { return };
        for Occurrence { id, coef } in occurrences {
            let Some(held) = self.held.get_mut(*id as usize) else { continue };
            held.slack -= i128::from(*coef);
            let Body::Linear(terms) = &held.body else { continue };
            if held.slack < 0 {
                self.conflict = self.conflict.or(Some(*id));
            } else if !held.is_pending && terms.first().is_some_and(|term| i128::from(term.coef) > held.slack)
            {
                held.is_pending = true;
                self.pending.push(*id);
            }
        }
    }

    /// The root rests on this constraint.
    fn support(&mut self, id: u32) {
        if let Some(held) = self.held.get_mut(id as usize).filter(|held| !held.is_support) {
            held.is_support = true;
            self.supports.push(id);
        }
    }

    /// Takes back all but the first literals of the trail.
    fn undo(&mut self, to: usize) {
        while self.trail.len() > to {
            let Some(lit) = self.trail.pop() else { break };
            let negative = lit.negated();
            for place in [lit.place(), negative.place()] {
                if let Some(slot) = self.values.get_mut(place) {
                    *slot = 0;
                }
            }
            for Occurrence { id, coef } in self.occurrences.get(negative.place()).into_iter().flatten() {
                if let Some(held) = self.held.get_mut(*id as usize) {
                    held.slack += i128::from(*coef);
                }
            }
        }
        self.looked_at = to;
        for id in self.pending.drain(..) {
            if let Some(held) = self.held.get_mut(id as usize) {
                held.is_pending = false;
            }
        }
        self.conflict = None;
    }

    /// Goes on until nothing follows any more, or there is a conflict.
    fn propagate(&mut self) {
        while self.conflict.is_none() {
            if let Some(lit) = self.trail.get(self.looked_at).copied() {
                self.looked_at += 1;
                self.look_at_clauses(lit.negated());
            } else if let Some(id) = self.pending.pop() {
                self.look_at_sum(id);
            } else {
                return;
            }
        }
    }

    fn look_at_sum(&mut self, id: u32) {
        let Some(held) = self.held.get_mut(id as usize) else { return };
        held.is_pending = false;
        let slack = held.slack;
        // No literal of it has its negative in it, so that its slack stays.
        let body = std::mem::replace(&mut held.body, Body::Gone);
        if let Body::Linear(terms) = &body {
            for term in terms.iter().take_while(|term| i128::from(term.coef) > slack) {
                if self.value(term.lit) == 0 {
                    self.assign(term.lit, Some(id));
                }
            }
        }
        if let Some(held) = self.held.get_mut(id as usize) {
            held.body = body;
        }
    }

    /// A literal has become false: who watches it watches another one, or has one left that must be true.
    fn look_at_clauses(&mut self, is_false: Lit) {
        let Some(list) = self.watches.get_mut(is_false.place()) else { return };
        let mut list = std::mem::take(list);
        list.retain_mut(|watch| {
            if self.conflict.is_some() || self.value(watch.blocker) > 0 {
                return true;
            }
            self.is_still_watching(watch, is_false)
        });
        if let Some(slot) = self.watches.get_mut(is_false.place()) {
            *slot = list;
        }
    }

    /// Whether a clause still watches this literal, now that it is false.
    fn is_still_watching(&mut self, watch: &mut Watch, is_false: Lit) -> bool {
        let Some(held) = self.held.get_mut(watch.id as usize) else { return false };
        let Body::Clause(lits) = &mut held.body else { return false };
        if lits.first() == Some(&is_false) {
            lits.swap(0, 1);
        }
        if lits.get(1) != Some(&is_false) {
            return false;
        }
        let values = &self.values;
        let value = |lit: Lit| values.get(lit.place()).copied().unwrap_or_default();
        let Some(first) = lits.first().copied() else { return false };
        watch.blocker = first;
        if value(first) > 0 {
            return true;
        }
        let other = lits.iter().skip(2).position(|lit| value(*lit) >= 0).map(|place| place + 2);
        if let Some((place, lit)) = other.and_then(|place| Some((place, *lits.get(place)?))) {
            lits.swap(1, place);
            if let Some(list) = self.watches.get_mut(lit.place()) {
                list.push(Watch { id: watch.id, blocker: first });
            }
            return false;
        }
        self.assign(first, Some(watch.id));
        true
    }

    /// Finds the root.
    fn settle(&mut self) {
        if self.is_stale {
            self.undo(0);
            (self.root, self.is_stale, self.is_contradictory) = (None, false, false);
            for id in std::mem::take(&mut self.supports) {
                if let Some(held) = self.held.get_mut(id as usize) {
                    held.is_support = false;
                }
            }
            for id in std::mem::take(&mut self.starters) {
                if self.get(id as usize).is_some() {
                    self.starters.push(id);
                    self.start(id);
                }
            }
        }
        if self.root.is_none() && !self.is_contradictory {
            self.propagate();
            if let Some(id) = self.conflict {
                self.is_contradictory = true;
                self.support(id);
            }
        }
        self.root = Some(self.trail.len());
    }

    /// Whether propagation finds a conflict when all of these are true.
    pub fn refutes(&mut self, assumed: impl IntoIterator<Item = Lit>) -> bool {
        self.settle();
        if self.is_contradictory {
            return true;
        }
        let root = self.trail.len();
        let is_impossible = assumed.into_iter().any(|lit| {
            let is_false = self.value(lit) < 0;
            self.assign(lit, None);
            is_false
        });
        if !is_impossible {
            self.propagate();
        }
        let found = is_impossible || self.conflict.is_some();
        self.undo(root);
        found
    }

    /// A constraint is there no more.
    pub fn delete(&mut self, place: usize) {
        if !self.is_stale {
            // Only then is it known what the root rests on.
            self.settle();
        }
        let Some(held) = self.held.get_mut(place) else { return };
        let size = size(&held.body);
        held.body = Body::Gone;
        self.is_stale |= held.is_support;
        self.bytes -= size;
        self.dust += size;
        if self.dust > self.bytes + (1 << 20) {
            self.dust = 0;
            let held = &self.held;
            let is_there =
                |id: u32| held.get(id as usize).is_some_and(|held| !matches!(held.body, Body::Gone));
            for list in &mut self.watches {
                list.retain(|watch| is_there(watch.id));
            }
            for list in &mut self.occurrences {
                list.retain(|occurrence| is_there(occurrence.id));
            }
        }
    }
}
