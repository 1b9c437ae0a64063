//! Whether blocks of variables can be exchanged: each constraint becomes one that is there, too, and each goal stays as it is.
//!
//! Sound: exchanges of neighbours make every order of the blocks, so of a solution every order of its blocks is a solution, worth as
//! much by every goal. Ordered by the first of its first `ROWS` places that is true, each block meets what is made for it: where a place is
//! true, that of the block before is no later. So for every solution there is one as good that meets all of it.

use std::collections::HashMap;

use units::Reason;

use super::constraint::{Body, Draft, Term};
use super::engine::Engine;
use super::words::Lit;

/// Most literals of what one line makes.
const MOST_LITERALS: usize = 10_000_000;

/// Variables, block by block.
#[derive(Debug)]
pub(super) struct Blocks {
    /// Places of the variables; each block as long as the others.
    pub blocks: Vec<Vec<u32>>,
    /// How many places of each are sorted by.
    pub rows: usize,
}

/// Constraints that are there, found by what they are made of.
#[derive(Debug, Default)]
pub(super) struct Index {
    by_hash: HashMap<u64, Vec<u32>>,
    /// Of each goal, what its literals count.
    goals: Vec<HashMap<Lit, u64>>,
    /// By variable.
    with: Vec<Vec<u32>>,
    /// How many are indexed.
    count: usize,
    /// What each literal counts in what is just compared; all 0 otherwise.
    scratch: Vec<u64>,
    /// Where each variable of the blocks goes, one more than the place; all 0 otherwise.
    moved: Vec<u32>,
}

impl Index {
    /// One more goal.
    pub fn add_goal(&mut self, terms: &[Term]) {
        self.goals.push(terms.iter().map(|term| (term.lit, term.coef)).collect());
    }

    /// What is new since it was called last.
    fn follow(&mut self, engine: &Engine, variables: usize) {
        self.with.resize_with(variables, Vec::new);
        self.moved.resize(variables, 0);
        self.scratch.resize(variables * 2, 0);
        for place in self.count..engine.count() {
            let (Some(held), Ok(id)) = (engine.get(place), u32::try_from(place)) else { continue };
            for term in held.body.terms() {
                if let Some(list) = self.with.get_mut(term.lit.variable()) {
                    list.push(id);
                }
            }
            let same = self.by_hash.entry(hash(held.body.terms(), held.side)).or_default();
            if !same
                .iter()
                .any(|other| is_same(&mut self.scratch, engine, *other, held.body.terms(), held.side))
            {
                same.push(id);
            }
        }
        self.count = engine.count();
    }

    /// Whether any two neighbouring blocks can be exchanged.
    ///
    /// # Errors
    /// What would not stay as it is.
    pub fn check(&mut self, engine: &Engine, blocks: &Blocks, variables: usize) -> Result<(), Reason> {
        self.follow(engine, variables);
        for (number, pair) in blocks.blocks.windows(2).enumerate() {
            let [first, second] = pair else { continue };
            for (a, b) in first.iter().zip(second) {
                self.note(*a, *b + 1);
                self.note(*b, *a + 1);
            }
            let problem = self.problem(engine, first, second);
            for place in first.iter().chain(second) {
                self.note(*place, 0);
            }
            if let Some(problem) = problem {
                return Err(format!(
                    "to exchange blocks {} and {} changes {problem}",
                    number + 1,
                    number + 2
                )
                .into());
            }
        }
        Ok(())
    }

    fn note(&mut self, place: u32, to: u32) {
        if let Some(slot) = self.moved.get_mut(place as usize) {
            *slot = to;
        }
    }

    /// Where a literal goes.
    fn image(&self, lit: Lit) -> Lit {
        match self.moved.get(lit.variable()).and_then(|to| to.checked_sub(1)) {
            Some(to) if lit.is_negative() => Lit::of(to).negated(),
            Some(to) => Lit::of(to),
            None => lit,
        }
    }

    fn problem(&mut self, engine: &Engine, first: &[u32], second: &[u32]) -> Option<String> {
        let variables = || first.iter().chain(second).copied();
        for (number, goal) in self.goals.iter().enumerate() {
            let stays = |lit: Lit| goal.get(&lit) == goal.get(&self.image(lit));
            if variables().any(|place| !stays(Lit::of(place)) || !stays(Lit::of(place).negated())) {
                return Some(format!("goal {}", number + 1));
            }
        }
        let mut touched: Vec<u32> =
            variables().filter_map(|place| self.with.get(place as usize)).flatten().copied().collect();
        touched.sort_unstable();
        touched.dedup();
        for id in touched {
            let Some(held) = engine.get(id as usize) else { continue };
            let image: Vec<Term> =
                held.body.terms().map(|term| Term { lit: self.image(term.lit), coef: term.coef }).collect();
            let terms = || image.iter().copied();
            let same = self.by_hash.get(&hash(terms(), held.side));
            let scratch = &mut self.scratch;
            if !same.into_iter().flatten().any(|other| is_same(scratch, engine, *other, terms(), held.side)) {
                return Some(format!("constraint {} into one that is not there", id + 1));
            }
        }
        None
    }
}

impl Blocks {
    /// What is made of them, in the order in which it is numbered.
    ///
    /// # Errors
    /// It is too much.
    pub fn clauses(&self) -> Result<Vec<Draft>, Reason> {
        let size =
            self.rows.checked_mul(self.rows + 3).and_then(|twice| (twice / 2).checked_mul(self.blocks.len()));
        if size.is_none_or(|size| size > MOST_LITERALS) {
            return Err(format!("what this makes has more than {MOST_LITERALS} literals").into());
        }
        let mut clauses = Vec::new();
        for pair in self.blocks.windows(2) {
            let [before, block] = pair else { continue };
            for (row, variable) in block.iter().enumerate().take(self.rows) {
                let mut lits = vec![Lit::of(*variable).negated()];
                lits.extend(before.iter().take(row + 1).map(|place| Lit::of(*place)));
                clauses.push(Draft::clause(lits));
            }
        }
        Ok(clauses)
    }
}

/// The same for the same constraint, in whatever order.
fn hash(terms: impl Iterator<Item = Term>, side: i128) -> u64 {
    let bytes = side.to_le_bytes();
    let start = bytes.iter().fold(0, |hash, byte| mixed(hash, u64::from(*byte)));
    terms.fold(start, |sum: u64, term| sum.wrapping_add(mixed(u64::from(term.lit.0), term.coef)))
}

/// Two numbers in one, all bits of which depend on all of theirs (the finaliser of `SplitMix64`; Steele et al., 2014).
fn mixed(a: u64, b: u64) -> u64 {
    let mut z = a.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(b.rotate_left(29));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Whether a constraint that is there is exactly this one. Leaves `scratch` as it was.
pub(super) fn is_same(
    scratch: &mut [u64],
    engine: &Engine,
    id: u32,
    terms: impl Iterator<Item = Term> + Clone,
    side: i128,
) -> bool {
    let Some(held) = engine.get(id as usize) else { return false };
    if held.side != side || held.body.len() != terms.clone().count() {
        return false;
    }
    note(scratch, &held.body, |coef| coef);
    let is_same = terms.into_iter().all(|term| scratch.get(term.lit.place()) == Some(&term.coef));
    note(scratch, &held.body, |_| 0);
    is_same
}

/// Writes down what each literal of a constraint counts.
fn note(scratch: &mut [u64], body: &Body, counts: impl Fn(u64) -> u64) {
    for term in body.terms() {
        if let Some(slot) = scratch.get_mut(term.lit.place()) {
            *slot = counts(term.coef);
        }
    }
}
