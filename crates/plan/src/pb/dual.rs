//! How far clauses hold a goal up: of each of them so much that together they ask for no more of any literal than it costs.
//!
//! ```text
//!  clauses  a+b ≥ 1, b+c ≥ 1   goal 3a + 4b + 2c   ─►  3 × first + 1 × second:  3a + 4b + c ≥ 4
//! ```
//! A packing is a solution of the dual of the linear relaxation: dual ascent (Erlenkotter, "A dual-based procedure for
//! uncapacitated facility location", 1978), begun in several orders.

use std::collections::HashMap;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::solver::Solver;
use super::{AtLeast, Formula, Implied, Lit, Objective};

/// Packings that are kept.
const MOST_KEPT: usize = 4;
/// Orders that are tried.
const ORDERS: u64 = 400;

/// Factors of clauses, by their places: the best ones first.
fn packings(goal: &Objective, clauses: &[(Vec<Lit>, u64)]) -> Vec<Vec<(i64, usize)>> {
    let costs: HashMap<Lit, i64> = goal.terms.iter().map(|(by, lit)| (*lit, *by)).collect();
    let usable: Vec<usize> = (0..clauses.len())
        .filter(|clause| clauses[*clause].0.iter().all(|lit| costs.contains_key(lit)))
        .collect();
    if usable.is_empty() {
        return Vec::new();
    }
    let mut found: Vec<(i64, Vec<(i64, usize)>)> = Vec::new();
    // The same each time: equal formulas have equal certificates.
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut order = usable;
    for _ in 0..ORDERS {
        // The shortest first, equally short ones in any order.
        order.shuffle(&mut random);
        order.sort_by_key(|clause| clauses[*clause].0.len());
        let mut left = costs.clone();
        let mut factors = Vec::new();
        for &clause in &order {
            let lits = &clauses[clause].0;
            let most = lits.iter().filter_map(|lit| left.get(lit)).copied().min().unwrap_or(0);
            if most > 0 {
                for lit in lits {
                    *left.entry(*lit).or_default() -= most;
                }
                factors.push((most, clause));
            }
        }
        if factors.is_empty() {
            break;
        }
        found.push((factors.iter().map(|(factor, _)| factor).sum(), factors));
        found.sort_by(|a, b| b.cmp(a));
        found.dedup();
        found.truncate(MOST_KEPT);
    }
    found.into_iter().map(|(_, factors)| factors).collect()
}

impl Solver {
    /// Adds clauses that follow, and sums of them that hold goals up.
    pub(super) fn imply(&mut self, formula: &Formula) {
        let mut known: Vec<(Vec<Lit>, u64)> = Vec::new();
        for Implied { clause, cases } in &formula.implied {
            let mut of_case = Vec::new();
            for case in cases {
                let lits: Vec<Lit> = std::iter::once(*case).chain(clause.iter().copied()).collect();
                of_case.push(self.log.learned(&lits));
            }
            let id = self.log.learned(clause);
            self.log.forgotten(&of_case);
            self.add(&AtLeast::clause(clause.iter().copied()));
            known.push((clause.clone(), id));
        }
        for goal in &formula.goals {
            for factors in packings(goal, &known) {
                let parts = || factors.iter().map(|(factor, clause)| (*factor, &known[*clause]));
                let numbers: Vec<(i64, u64)> = parts().map(|(factor, (_, id))| (factor, *id)).collect();
                let terms =
                    parts().flat_map(|(factor, (lits, _))| lits.iter().map(move |lit| (factor, *lit)));
                let constraint = AtLeast::of(terms, factors.iter().map(|(factor, _)| factor).sum());
                let id = self.log.added(1, &numbers);
                self.derived.push((constraint, id));
            }
        }
    }
}
