//! Goal by goal: the best by the first, of those the best by the second, each proven before the next.
//!
//! ```text
//!  any solution ─► goal 1: better than the best so far? ─ yes: it is the best so far ─┐
//!                    ▲                                  └─ no: proven ─► goal 2 …     │
//!                    └────────────────────────────────────────────────────────────────┘
//! ```
//! "Better" hangs at a selector: what is learned with it says so, and stays true when the goal is ended.

use std::collections::HashMap;

use crate::pb::{AtLeast, Formula, Lit, Objective, Searched, Solver};

/// What came out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing meets all constraints.
    Nothing,
    /// The time was over before anything was found.
    Ended,
    /// The best that was found.
    Found(Found),
}

/// A solution, and what it is worth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// By variable.
    pub values: Vec<bool>,
    /// Per goal: what it is, and what it cannot be below.
    pub goals: Vec<(i64, i64)>,
}

/// Looks for the best solution of a formula that `solver` was made of.
pub fn best(formula: &Formula, solver: &mut Solver, is_over: &dyn Fn() -> bool) -> Outcome {
    match solver.solve(&[], is_over) {
        Searched::Fails => {
            solver.log.nothing();
            return Outcome::Nothing;
        }
        Searched::Ended => return Outcome::Ended,
        Searched::Holds => {}
    }
    let mut values = taken(formula, solver);
    let mut goals = Vec::new();
    for (number, goal) in formula.goals.iter().enumerate() {
        let (value, least) = lowest(formula, solver, number, &mut values, is_over);
        solver.log.goal_ends(number, least, value);
        solver.add(&AtLeast::at_most(goal.terms.iter().copied(), value));
        goals.push((value, least));
        for var in 0..formula.variables {
            let lit = Lit::new(var);
            solver.suggest(if values[var as usize] { lit } else { !lit }, 0.0);
        }
    }
    solver.log.solution((0..formula.variables).filter(|var| values[*var as usize]));
    Outcome::Found(Found { values, goals })
}

/// Makes one goal as small as it can be: what `values` are worth then, and what is proven that it cannot be below.
fn lowest(
    formula: &Formula,
    solver: &mut Solver,
    number: usize,
    values: &mut Vec<bool>,
    is_over: &dyn Fn() -> bool,
) -> (i64, i64) {
    let goal = &formula.goals[number];
    let mut value = worth(goal, values);
    if value == 0 {
        return (0, 0);
    }
    let floors = floors(goal, solver);
    let selector = solver.variable();
    let begun = solver.log.bound_begins();
    let mut bound = Bound::new(solver, goal, value, selector);
    for (floor, by) in &floors {
        solver.log.added(1, &[(1, begun), (1, *by)]);
        bound.combine(solver, floor);
    }
    let mut least = floors.iter().map(|(floor, _)| floor.least).max().unwrap_or(0);
    // What holds it up, and the bound, leave nothing but that the selector is false.
    while value > least {
        match solver.solve(&[selector], is_over) {
            Searched::Holds => {
                *values = taken(formula, solver);
                let better = worth(goal, values);
                bound.lower(solver, value - better);
                value = better;
                if value == 0 {
                    break;
                }
            }
            Searched::Fails => least = value,
            Searched::Ended => break,
        }
    }
    solver.log.bound_ends(number, value, selector);
    solver.add(&AtLeast::clause([!selector]));
    if let Some((_, by)) = floors.iter().find(|(floor, _)| floor.least == least && least < value) {
        let selector = solver.variable();
        let begun = solver.log.bound_begins();
        solver.log.added(1, &[(1, begun), (1, *by)]);
        solver.log.bound_ends(number, least, selector);
    }
    (value, least)
}

fn taken(formula: &Formula, solver: &Solver) -> Vec<bool> {
    (0..formula.variables).map(|var| solver.model(Lit::new(var))).collect()
}

/// Sums that follow from the constraints and ask for no more of any literal than it costs: what the goal cannot be below. With
/// their numbers.
fn floors(goal: &Objective, solver: &Solver) -> Vec<(AtLeast, u64)> {
    let costs: HashMap<Lit, i64> = goal.terms.iter().map(|(by, lit)| (*lit, *by)).collect();
    let is_part = |(floor, _): &&(AtLeast, u64)| {
        floor.least > 0 && floor.terms.iter().all(|(by, lit)| costs.get(lit).is_some_and(|cost| by <= cost))
    };
    solver.derived.iter().filter(is_part).cloned().collect()
}

/// What a solution is worth by a goal.
pub fn worth(goal: &Objective, values: &[bool]) -> i64 {
    let is_true = |lit: &Lit| values[lit.var() as usize] != lit.is_negative();
    goal.terms.iter().filter(|(_, lit)| is_true(lit)).map(|(coefficient, _)| *coefficient).sum()
}

/// "The goal is below so much", if the selector is true: alone, and added to each of what holds it up.
struct Bound {
    /// What is said, and the sum that says it; none where it is a clause, or says nothing yet: then it is added anew.
    sums: Vec<(AtLeast, Option<u32>)>,
    selector: Lit,
}

impl Bound {
    fn new(solver: &mut Solver, goal: &Objective, value: i64, selector: Lit) -> Self {
        let below = below(goal, value, selector);
        let sum = solver.add(&below);
        Self { sums: vec![(below, sum)], selector }
    }

    fn combine(&mut self, solver: &mut Solver, floor: &AtLeast) {
        let (below, _) = &self.sums[0];
        let terms = below.terms.iter().chain(&floor.terms).copied();
        let both = AtLeast::of(terms, below.least + floor.least);
        let sum = solver.add(&both);
        self.sums.push((both, sum));
    }

    fn lower(&mut self, solver: &mut Solver, by: i64) {
        for (said, sum) in &mut self.sums {
            said.least += by;
            said.terms.iter_mut().filter(|term| term.1 == !self.selector).for_each(|term| term.0 += by);
            match sum {
                Some(sum) => solver.raise(*sum, by, !self.selector),
                None => *sum = solver.add(said),
            }
        }
    }
}

/// The goal is below `value`, or the selector is false.
fn below(goal: &Objective, value: i64, selector: Lit) -> AtLeast {
    let all: i64 = goal.terms.iter().map(|(coefficient, _)| *coefficient).sum();
    let wanted = all - (value - 1);
    let terms = goal.terms.iter().map(|(coefficient, lit)| (*coefficient, !*lit));
    AtLeast::of(terms.chain([(wanted, !selector)]), wanted)
}
