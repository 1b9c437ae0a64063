//! Random formulas against trying all of their solutions.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::*;
use crate::decide::{Outcome, best, worth};

fn random(seed: u64) -> Formula {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let variables = random.random_range(2..=11u32);
    let mut formula = Formula { variables, ..Formula::default() };
    let lit = |random: &mut Xoshiro256PlusPlus| {
        let lit = Lit::new(random.random_range(0..variables));
        if random.random_bool(0.5) { lit } else { !lit }
    };
    for _ in 0..random.random_range(1..=14) {
        let count = random.random_range(1..=variables);
        let largest = if random.random_bool(0.4) { 1 } else { 9 };
        let terms: Vec<(i64, Lit)> =
            (0..count).map(|_| (random.random_range(1..=largest), lit(&mut random))).collect();
        let all: i64 = terms.iter().map(|term| term.0).sum();
        formula.add(AtLeast::of(terms, random.random_range(1..=all.max(1))));
    }
    for name in ["first", "second"] {
        let mut terms: Vec<(i64, Lit)> = Vec::new();
        for var in 0..variables {
            if random.random_bool(0.6) {
                terms.push((random.random_range(1..=7), Lit::new(var)));
            }
        }
        formula.goals.push(Objective { name, terms });
    }
    // Clauses follow from themselves: sums of them hold goals up.
    let clauses = formula.constraints.iter().filter(|constraint| constraint.is_clause());
    formula.implied = clauses
        .map(|clause| Implied {
            clause: clause.terms.iter().map(|(_, lit)| *lit).collect(),
            cases: Vec::new(),
        })
        .collect();
    formula
}

fn holds(formula: &Formula, values: &[bool]) -> bool {
    formula.constraints.iter().all(|constraint| {
        let given: i64 = constraint
            .terms
            .iter()
            .filter(|(_, lit)| values[lit.var() as usize] != lit.is_negative())
            .map(|(coefficient, _)| *coefficient)
            .sum();
        given >= constraint.least
    })
}

fn by_trying(formula: &Formula) -> Option<Vec<i64>> {
    (0..1u32 << formula.variables)
        .map(|bits| (0..formula.variables).map(|var| bits >> var & 1 == 1).collect::<Vec<bool>>())
        .filter(|values| holds(formula, values))
        .map(|values| formula.goals.iter().map(|goal| worth(goal, &values)).collect())
        .min()
}

#[test]
fn the_best_solution_is_that_of_trying_all() {
    let (mut found, mut held_up) = (0, 0);
    for seed in 0..3000 {
        let formula = random(seed);
        let mut solver = Solver::new(&formula, Log::kept());
        let outcome = best(&formula, &mut solver, &|| false);
        held_up += usize::from(!solver.derived.is_empty());
        let certificate = std::mem::take(&mut solver.log).finish().unwrap();
        let verdict = audit::certificate::check(certificate.as_bytes());
        assert!(verdict.is_ok(), "seed {seed}: {}", verdict.unwrap_err());
        match (outcome, by_trying(&formula)) {
            (Outcome::Nothing, None) => {}
            (Outcome::Found(one), Some(least)) => {
                found += 1;
                assert!(holds(&formula, &one.values), "seed {seed}");
                let values: Vec<(i64, i64)> = least.into_iter().map(|value| (value, value)).collect();
                assert_eq!(one.goals, values, "seed {seed}");
            }
            (outcome, least) => panic!("seed {seed}: {outcome:?}, by trying {least:?}"),
        }
    }
    println!("{found} of 3000 have solutions");
    assert!(found > 500 && held_up > 200, "{found} {held_up}");
}

#[test]
fn who_asks_again_with_other_assumptions_is_told_what_trying_all_says() {
    let (mut held, mut failed, mut at_sight) = (0, 0, 0);
    for seed in 0..1500 {
        let formula = random(seed);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut solver = Solver::new(&formula, Log::default());
        let solutions: Vec<Vec<bool>> = (0..1u32 << formula.variables)
            .map(|bits| (0..formula.variables).map(|var| bits >> var & 1 == 1).collect())
            .filter(|values: &Vec<bool>| holds(&formula, values))
            .collect();
        let mut assumed: Vec<Lit> = Vec::new();
        for _ in 0..30 {
            assumed.truncate(random.random_range(0..=assumed.len()));
            for _ in 0..random.random_range(0..4) {
                let lit = Lit::new(random.random_range(0..formula.variables));
                assumed.push(if random.random_bool(0.5) { lit } else { !lit });
            }
            let is_true = |values: &[bool], lit: &Lit| values[lit.var() as usize] != lit.is_negative();
            let right: Vec<&Vec<bool>> =
                solutions.iter().filter(|values| assumed.iter().all(|lit| is_true(values, lit))).collect();
            if random.random_bool(0.5) {
                if solver.follows(&assumed) {
                    let lits = (0..formula.variables).map(Lit::new);
                    for lit in lits.filter_map(|lit| Some(if solver.value(lit)? { lit } else { !lit })) {
                        assert!(right.iter().all(|values| is_true(values, &lit)), "seed {seed}");
                    }
                } else {
                    at_sight += 1;
                    assert!(right.is_empty(), "seed {seed}");
                }
            }
            match solver.solve_again(&assumed, &|| false) {
                Searched::Holds => {
                    held += 1;
                    let found: Vec<bool> =
                        (0..formula.variables).map(|var| solver.model(Lit::new(var))).collect();
                    assert!(right.contains(&&found), "seed {seed}");
                }
                Searched::Fails => {
                    failed += 1;
                    assert!(right.is_empty(), "seed {seed}");
                }
                Searched::Ended => panic!("seed {seed}"),
            }
        }
    }
    assert!(held > 1000 && failed > 1000 && at_sight > 1000, "{held} {failed} {at_sight}");
}

/// Which vertices of a random graph are next to all of its edges, with the least weight.
fn vertex_cover(vertices: u32, edges: usize) -> Formula {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut formula = Formula { variables: vertices, ..Formula::default() };
    for _ in 0..edges {
        let clause: Vec<Lit> = (0..2).map(|_| Lit::new(random.random_range(0..vertices))).collect();
        if clause[0] != clause[1] {
            formula.add(AtLeast::clause(clause.iter().copied()));
            formula.implied.push(Implied { clause, cases: Vec::new() });
        }
    }
    let terms = (0..vertices).map(|var| (random.random_range(5..40), Lit::new(var))).collect();
    formula.goals.push(Objective { name: "weight", terms });
    formula
}

#[test]
fn who_is_out_of_time_says_what_is_proven() {
    let formula = vertex_cover(120, 400);
    let mut solver = Solver::new(&formula, Log::kept());
    let Outcome::Found(found) = best(&formula, &mut solver, &|| true) else { panic!("nothing found") };
    let (value, least) = found.goals[0];
    assert!(0 < least && least < value, "{least} … {value}");
    let certificate = std::mem::take(&mut solver.log).finish().unwrap();
    let verdict = audit::certificate::check(certificate.as_bytes());
    assert!(verdict.is_ok(), "{}", verdict.unwrap_err());
    // More than that is not proven by these lines.
    let said = format!("b 1 {least} {value}");
    assert!(certificate.contains(&said));
    let more = certificate.replace(&said, &format!("b 1 {} {value}", least + 1));
    assert!(audit::certificate::check(more.as_bytes()).is_err());
}
