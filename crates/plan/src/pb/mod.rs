//! Sums of 0/1 variables that must be large enough, and sums that are to be small: what a plan is found with.
//!
//! ```text
//!  Formula: Σ coefficient × literal ≥ right side,   goals Σ coefficient × literal → least
//!     └─► Solver: decide ─► propagate ─► conflict? ─► learn a clause, go back ─┐
//!            ▲                             no: decide on ◄────────────────────┘
//!            └─ each clause that is learned, each bound ─► Log: a certificate (docs/plan.md)
//! ```
//! Lazy explanation of pseudo-Boolean propagation by clauses: Eén and Sörensson, "Translating pseudo-Boolean constraints into
//! SAT" (2006, without the translation), Chai and Kuehlmann, "A fast pseudo-Boolean constraint solver" (2005); conflict
//! analysis, restarts and what is forgotten as in Eén and Sörensson, "An extensible SAT-solver" (2003), and Audemard and
//! Simon, "Predicting learnt clauses quality in modern SAT solvers" (2009).

mod analyze;
mod dual;
mod heap;
mod log;
mod propagate;
mod solver;
#[cfg(test)]
mod tests;

use std::ops::Not;

pub use log::Log;
pub use solver::{Searched, Solver};

/// A variable, counted from 0.
pub type Var = u32;

/// A variable or its negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lit(u32);

impl Lit {
    /// The variable is true.
    pub const fn new(var: Var) -> Self {
        Self(var << 1)
    }

    /// Its variable.
    pub const fn var(self) -> Var {
        self.0 >> 1
    }

    /// Whether it says that its variable is false.
    pub const fn is_negative(self) -> bool {
        self.0 & 1 == 1
    }

    const fn index(self) -> usize {
        self.0 as usize
    }
}

impl Not for Lit {
    type Output = Self;

    fn not(self) -> Self {
        Self(self.0 ^ 1)
    }
}

/// Σ coefficient × literal ≥ `least`, coefficients positive, each variable once.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AtLeast {
    /// The sum.
    pub terms: Vec<(i64, Lit)>,
    /// The right side.
    pub least: i64,
}

impl AtLeast {
    /// Brings any sum into this form: `Σ coefficient × literal ≥ least`, coefficients of any sign, variables more than once.
    pub fn of(terms: impl IntoIterator<Item = (i64, Lit)>, least: i64) -> Self {
        let mut by_var: std::collections::BTreeMap<Var, i64> = std::collections::BTreeMap::new();
        let mut least = least;
        for (coefficient, lit) in terms {
            // c × ¬x is c − c × x.
            let sign = if lit.is_negative() { -1 } else { 1 };
            *by_var.entry(lit.var()).or_default() += sign * coefficient;
            least -= if lit.is_negative() { coefficient } else { 0 };
        }
        let mut positive = Vec::with_capacity(by_var.len());
        for (var, coefficient) in by_var {
            match coefficient {
                0 => {}
                1.. => positive.push((coefficient, Lit::new(var))),
                _ => {
                    positive.push((-coefficient, !Lit::new(var)));
                    least -= coefficient;
                }
            }
        }
        Self { terms: positive, least }
    }

    /// The same of a sum that must not be above `most`.
    pub fn at_most(terms: impl IntoIterator<Item = (i64, Lit)>, most: i64) -> Self {
        Self::of(terms.into_iter().map(|(coefficient, lit)| (-coefficient, lit)), -most)
    }

    /// One of them is true.
    pub fn clause(lits: impl IntoIterator<Item = Lit>) -> Self {
        Self::of(lits.into_iter().map(|lit| (1, lit)), 1)
    }

    /// Whether it holds whatever the variables are.
    pub const fn is_void(&self) -> bool {
        self.least <= 0
    }

    /// Whether one of its literals is all it asks for.
    fn is_clause(&self) -> bool {
        self.terms.iter().all(|(coefficient, _)| *coefficient >= self.least)
    }
}

/// What is to be small.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Objective {
    /// Its name.
    pub name: &'static str,
    /// The sum; coefficients positive, each variable once.
    pub terms: Vec<(i64, Lit)>,
}

/// Blocks of variables of which any two can be exchanged, place by place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Symmetry {
    /// How many places, from the first, blocks are sorted by.
    pub rows: usize,
    /// The blocks, all of one length.
    pub blocks: Vec<Vec<Var>>,
}

impl Symmetry {
    /// What sorts the blocks: `docs/plan.md`, line `y`.
    pub fn sorted(&self) -> Vec<AtLeast> {
        let mut constraints = Vec::new();
        for pair in self.blocks.windows(2) {
            for row in 0..self.rows {
                let before = pair[0].iter().take(row + 1).map(|var| Lit::new(*var));
                let lits = before.chain(std::iter::once(!Lit::new(pair[1][row])));
                constraints.push(AtLeast::clause(lits));
            }
        }
        constraints
    }
}

/// The sum of constraints, each times its factor, divided and rounded up: it follows from them, and says more at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Derived {
    /// What all of it is divided by, 1 or more.
    pub divisor: i64,
    /// Factors, 1 or more, and constraints of the formula by their places.
    pub parts: Vec<(i64, usize)>,
}

impl Derived {
    /// What it says.
    pub fn constraint(&self, of: &[AtLeast]) -> AtLeast {
        let sum = || self.parts.iter().map(|(factor, place)| (*factor, &of[*place]));
        let terms =
            sum().flat_map(|(factor, one)| one.terms.iter().map(move |(by, lit)| (factor * by, *lit)));
        let least = sum().map(|(factor, one)| factor * one.least).sum();
        let AtLeast { mut terms, least } = AtLeast::of(terms, least);
        let up =
            |number: i64| number.div_euclid(self.divisor) + i64::from(number.rem_euclid(self.divisor) != 0);
        terms.iter_mut().for_each(|term| term.0 = up(term.0));
        AtLeast { terms, least: up(least) }
    }
}

/// A clause that follows case by case, one of which must be: what is left of each case follows by propagation, and so does the
/// clause from all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Implied {
    /// The clause.
    pub clause: Vec<Lit>,
    /// The case is not, or the clause holds: that is what is shown of each.
    pub cases: Vec<Lit>,
}

/// All that is asked.
#[derive(Debug, Clone, Default)]
pub struct Formula {
    /// How many variables there are.
    pub variables: u32,
    /// What must hold.
    pub constraints: Vec<AtLeast>,
    /// What is to be small, the most important first.
    pub goals: Vec<Objective>,
    /// What can be exchanged: each with all constraints, and with what is sorted before it.
    pub symmetries: Vec<Symmetry>,
    /// What follows from the constraints, and helps.
    pub derived: Vec<Derived>,
    /// Clauses that follow, and help.
    pub implied: Vec<Implied>,
}

impl Formula {
    /// A new variable.
    pub fn variable(&mut self) -> Lit {
        let var = self.variables;
        self.variables += 1;
        Lit::new(var)
    }

    /// Nothing meets it.
    pub fn add_conflict(&mut self) {
        self.constraints.push(AtLeast { terms: Vec::new(), least: 1 });
    }

    /// One more constraint, unless it says nothing: its place.
    pub fn add(&mut self, constraint: AtLeast) -> Option<usize> {
        if constraint.is_void() {
            return None;
        }
        self.constraints.push(constraint);
        Some(self.constraints.len() - 1)
    }
}
