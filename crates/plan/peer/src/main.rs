//! What a general solver needs for what plans ask: pumpkin-core (lazy clause generation), side by side with the search of `plan`.
//! `cargo run --release --manifest-path crates/plan/peer/Cargo.toml -- [COUNT]`: so many random systems for each of three loads.
//!
//! ```text
//!  random system ─► plan ─► certificate: its sums (c), the goal (g), what sorts equal nodes (y) ─► pumpkin: the same least traffic?
//! ```
//! Ours is timed from the system to the plan, all goals, with its certificate; the other one for its sums of one goal, the traffic
//! between nodes, without any: so the comparison is in its favour.

#[path = "../../tests/systems/mod.rs"]
mod systems;

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use model::plan::Goal;
use model::system::System;
use plan::{Answer, Question, plan};
use pumpkin_conflict_resolvers::resolvers::ResolutionResolver;
use pumpkin_core::optimisation::OptimisationDirection;
use pumpkin_core::optimisation::linear_sat_unsat::LinearSatUnsat;
use pumpkin_core::results::{OptimisationResult, ProblemSolution, SolutionReference};
use pumpkin_core::termination::TimeBudget;
use pumpkin_core::variables::{AffineView, DomainId, TransformableVariable};
use pumpkin_core::{DefaultBrancher, Solver};
use systems::{Kind, file, hosts};

/// When either gives up.
const LIMIT: Duration = Duration::from_secs(30);
/// Rates of the systems are multiples of this; the other solver's numbers have 32 bits.
const UNIT: i64 = 1_000_000;

/// A coefficient and a literal, as a certificate has them.
type Term = (i64, i64);

/// The sums of a certificate.
#[derive(Default)]
struct Sums {
    at_least: Vec<(i64, Vec<Term>)>,
    goals: Vec<(String, Vec<Term>)>,
}

impl Sums {
    fn of(certificate: &str) -> Self {
        let mut sums = Self::default();
        for line in certificate.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let number = |word: &str| word.parse::<i64>().expect("a number");
            let terms = |words: &[&str]| -> Vec<Term> {
                words.chunks(2).map(|pair| (number(pair[0]), number(pair[1]))).collect()
            };
            match words[0] {
                "c" => sums.at_least.push((number(words[1]), terms(&words[2..]))),
                "g" => sums.goals.push((words[1].to_owned(), terms(&words[2..]))),
                "y" => sums.sort(&words[1..].iter().map(|word| number(word)).collect::<Vec<i64>>()),
                _ => {}
            }
        }
        sums
    }

    /// `docs/plan.md`, line `y`.
    fn sort(&mut self, words: &[i64]) {
        let (blocks, length, rows) = (words[0], words[1], words[2]);
        let variable = |block: i64, row: i64| words[(3 + block * length + row) as usize];
        for block in 1..blocks {
            for row in 0..rows {
                let before = (0..=row).map(|row| (1, variable(block - 1, row)));
                self.at_least.push((1, before.chain([(1, -variable(block, row))]).collect()));
            }
        }
    }
}

/// What the other solver finds of a goal in time, and whether it is proven.
fn by_the_other(sums: &Sums, goal: &[Term]) -> (Option<i64>, bool) {
    let mut solver = Solver::default();
    let all = sums.at_least.iter().flat_map(|(_, terms)| terms).chain(goal);
    let most = all.map(|(_, lit)| lit.unsigned_abs()).max().unwrap_or(0);
    let variables: Vec<DomainId> = (0..most).map(|_| solver.new_bounded_integer(0, 1)).collect();
    let of = |lit: i64| variables[lit.unsigned_abs() as usize - 1];
    for (least, terms) in &sums.at_least {
        // Σ c × literal ≥ least, and a negative literal is 1 less its variable.
        let negative: i64 = terms.iter().filter(|(_, lit)| *lit < 0).map(|(by, _)| by).sum();
        let sign = |lit: i64| if lit > 0 { -1 } else { 1 };
        let sum: Vec<AffineView<DomainId>> =
            terms.iter().map(|(by, lit)| of(*lit).scaled((by * sign(*lit)) as i32)).collect();
        let tag = solver.new_constraint_tag();
        solver
            .add_constraint(pumpkin_constraints::less_than_or_equals(sum, (negative - least) as i32, tag))
            .post();
    }
    let largest: i64 = goal.iter().map(|(by, _)| by / UNIT).sum();
    let objective = solver.new_bounded_integer(0, largest as i32);
    let mut sum: Vec<AffineView<DomainId>> =
        goal.iter().map(|(by, lit)| of(*lit).scaled((by / UNIT) as i32)).collect();
    sum.push(objective.scaled(-1));
    let tag = solver.new_constraint_tag();
    solver.add_constraint(pumpkin_constraints::less_than_or_equals(sum, 0, tag)).post();
    let (mut brancher, mut resolver) = (solver.default_brancher(), ResolutionResolver::default());
    let mut end = TimeBudget::starting_now(LIMIT);
    let go_on = |_: &Solver, _: SolutionReference, _: &DefaultBrancher, _: &ResolutionResolver| {
        ControlFlow::<()>::Continue(())
    };
    let least = LinearSatUnsat::new(OptimisationDirection::Minimise, objective, go_on);
    match solver.optimise(&mut brancher, &mut end, &mut resolver, least) {
        OptimisationResult::Optimal(found) => {
            (Some(i64::from(found.get_integer_value(objective)) * UNIT), true)
        }
        OptimisationResult::Satisfiable(found) => {
            (Some(i64::from(found.get_integer_value(objective)) * UNIT), false)
        }
        _ => (None, false),
    }
}

fn main() {
    let count: u64 = std::env::args().nth(1).map_or(4, |word| word.parse().expect("how many"));
    for load in [0.6, 0.85, 0.95] {
        for seed in 0..count {
            let kind = Kind { hosts: 1, nodes: 8, cpus_per_node: 16, partitions: 32, load, talks: 1.0 };
            let system = System::from_toml(&file(&kind, seed), "system").expect("a system");
            let hosts = hosts(&system);
            let began = Instant::now();
            let is_over = || began.elapsed() > LIMIT;
            let answer = plan(&Question {
                system: &system,
                hosts: &hosts,
                from: None,
                proof: true,
                is_over: &is_over,
            });
            let ours = began.elapsed().as_secs_f64();
            let Answer::Planned(planned) = answer else {
                println!("{load} {seed}: no plan within {ours:.1} s");
                continue;
            };
            let value = planned.plan.goals.iter().find(|goal| goal.goal == Goal::BetweenNodes);
            let value = value.expect("it is a goal");
            let sums = Sums::of(&planned.certificate.expect("it was asked for"));
            let goal = sums.goals.iter().find(|goal| goal.0 == "between_nodes").expect("it is a goal");
            let began = Instant::now();
            let (found, is_proven) = by_the_other(&sums, &goal.1);
            let theirs = began.elapsed().as_secs_f64();
            let of = |is_proven: bool| if is_proven { "proven" } else { "not proven" };
            println!(
                "{load} {seed}: ours {ours:.2} s, {} {}; pumpkin {theirs:.2} s, {:?} {}; ratio {:.1}",
                value.value,
                of(value.value == value.least),
                found,
                of(is_proven),
                theirs / ours
            );
        }
    }
}
