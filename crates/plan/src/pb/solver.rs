//! The search: decisions, what follows, what is learned, when it begins again.

use std::collections::HashMap;

use super::heap::Heap;
use super::log::Log;
use super::propagate::{Sum, Watch};
use super::{AtLeast, Formula, Lit, Var};

/// Why a literal is true.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    /// It was decided or assumed.
    Decision,
    /// A clause.
    Clause(u32),
    /// A sum.
    Sum(u32),
}

/// A clause.
#[derive(Debug)]
pub(super) struct Clause {
    /// The first two are watched.
    pub(super) lits: Vec<Lit>,
    /// Of how many levels its literals were when it was learned; 0 for clauses of the formula.
    levels: u32,
    /// When it was last of use.
    used: u64,
    /// Its number in the certificate.
    id: u64,
}

/// What a search found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Searched {
    /// All constraints hold; [`Solver::model`] says how.
    Holds,
    /// They cannot hold with these assumptions.
    Fails,
    /// It was ended.
    Ended,
}

/// Conflicts between two restarts, times what Luby's sequence says.
const RESTART: u64 = 128;
/// Clauses that are learned before the first are forgotten.
const FIRST_FORGOTTEN: usize = 4000;
/// Clauses of so few levels are never forgotten.
const GLUE: u32 = 2;
/// Conflicts between two questions whether to end.
const ASK_EVERY: u64 = 64;
/// Propagations between two questions whether to end, where conflicts are rare.
const ASK_EVERY_PROPAGATIONS: u64 = 1 << 18;

/// A search that can be asked again with more constraints.
#[derive(Debug)]
pub struct Solver {
    /// By literal: 1 true, −1 false, 0 not known.
    pub(super) values: Vec<i8>,
    pub(super) levels: Vec<u32>,
    pub(super) reasons: Vec<Reason>,
    /// Where in the trail each variable is.
    pub(super) places: Vec<usize>,
    pub(super) seen: Vec<bool>,
    pub(super) trail: Vec<Lit>,
    starts: Vec<usize>,
    pub(super) head: usize,
    pub(super) clauses: Vec<Clause>,
    free: Vec<u32>,
    learned: Vec<u32>,
    pub(super) watches: Vec<Vec<Watch>>,
    pub(super) sums: Vec<Sum>,
    wanted: Vec<i64>,
    pub(super) occurrences: Vec<Vec<(u32, i64)>>,
    pub(super) heap: Heap,
    phase: Vec<bool>,
    model: Vec<bool>,
    /// What was assumed the last time.
    asked: Vec<Lit>,
    is_broken: bool,
    most_learned: usize,
    pub(super) conflicts: u64,
    pub(super) propagations: u64,
    /// What follows from sums of constraints, with its number in the certificate.
    pub derived: Vec<(AtLeast, u64)>,
    /// What is written of it.
    pub log: Log,
}

impl Solver {
    /// A search over this formula. Its symmetries are broken; its goals are for whoever asks.
    pub fn new(formula: &Formula, log: Log) -> Self {
        let mut solver = Self {
            values: Vec::new(),
            levels: Vec::new(),
            reasons: Vec::new(),
            places: Vec::new(),
            seen: Vec::new(),
            trail: Vec::new(),
            starts: Vec::new(),
            head: 0,
            clauses: Vec::new(),
            free: Vec::new(),
            learned: Vec::new(),
            watches: Vec::new(),
            sums: Vec::new(),
            wanted: Vec::new(),
            occurrences: Vec::new(),
            heap: Heap::default(),
            phase: Vec::new(),
            model: Vec::new(),
            asked: Vec::new(),
            is_broken: false,
            most_learned: FIRST_FORGOTTEN,
            conflicts: 0,
            propagations: 0,
            derived: Vec::new(),
            log,
        };
        solver.grow(formula.variables);
        for constraint in &formula.constraints {
            solver.log.constraint(constraint);
            solver.add(constraint);
        }
        for goal in &formula.goals {
            solver.log.goal(goal);
        }
        for symmetry in &formula.symmetries {
            solver.log.symmetry(symmetry);
            for constraint in symmetry.sorted() {
                solver.log.count();
                solver.add(&constraint);
            }
        }
        for derived in &formula.derived {
            let parts: Vec<(i64, u64)> =
                derived.parts.iter().map(|(factor, place)| (*factor, *place as u64 + 1)).collect();
            let id = solver.log.added(derived.divisor, &parts);
            let constraint = derived.constraint(&formula.constraints);
            solver.add(&constraint);
            solver.derived.push((constraint, id));
        }
        solver.imply(formula);
        solver
    }

    fn grow(&mut self, variables: u32) {
        let count = variables as usize;
        self.values.resize(2 * count, 0);
        self.watches.resize_with(2 * count, Vec::new);
        self.occurrences.resize_with(2 * count, Vec::new);
        self.levels.resize(count, 0);
        self.reasons.resize(count, Reason::Decision);
        self.places.resize(count, 0);
        self.seen.resize(count, false);
        self.phase.resize(count, false);
        self.model.resize(count, false);
        self.heap.grow(count);
    }

    /// A new variable.
    pub fn variable(&mut self) -> Lit {
        let var = self.levels.len() as Var;
        self.grow(var + 1);
        Lit::new(var)
    }

    /// What a variable is tried as first, and how early it is decided.
    pub fn suggest(&mut self, lit: Lit, weight: f64) {
        self.phase[lit.var() as usize] = !lit.is_negative();
        self.heap.add(lit.var(), weight);
    }

    /// Whether a literal is true in the solution that was found last.
    pub fn model(&self, lit: Lit) -> bool {
        self.model[lit.var() as usize] != lit.is_negative()
    }

    /// Literals whose consequences were looked at so far: what it has worked, the same on every machine.
    pub const fn work(&self) -> u64 {
        self.propagations
    }

    /// Conflicts so far.
    pub const fn conflicts(&self) -> u64 {
        self.conflicts
    }

    /// Whether it is true or false by what was assumed last; none where that is open.
    pub fn value(&self, lit: Lit) -> Option<bool> {
        match self.values[lit.index()] {
            0 => None,
            value => Some(value > 0),
        }
    }

    pub(super) fn level(&self) -> u32 {
        self.starts.len() as u32
    }

    /// What a sum wants.
    pub(super) fn wanted(&self, sum: u32) -> i64 {
        self.wanted[sum as usize]
    }

    pub(super) fn assign(&mut self, lit: Lit, reason: Reason) {
        let var = lit.var() as usize;
        self.values[lit.index()] = 1;
        self.values[(!lit).index()] = -1;
        self.levels[var] = self.level();
        self.reasons[var] = reason;
        self.places[var] = self.trail.len();
        self.trail.push(lit);
    }

    pub(super) fn note_use(&mut self, reason: Reason) {
        if let Reason::Clause(number) = reason {
            self.clauses[number as usize].used = self.conflicts;
        }
    }

    /// One more constraint, for good. Nothing is decided.
    pub fn add(&mut self, constraint: &AtLeast) -> Option<u32> {
        self.back_to(0);
        if constraint.is_void() || self.is_broken {
            return None;
        }
        if constraint.is_clause() {
            let lits: Vec<Lit> = constraint.terms.iter().map(|(_, lit)| *lit).collect();
            self.add_clause(lits, 0, 0);
            return None;
        }
        let number = self.sums.len() as u32;
        let mut terms = constraint.terms.clone();
        terms.sort_by_key(|(coefficient, _)| std::cmp::Reverse(*coefficient));
        let all: i64 = terms.iter().map(|(coefficient, _)| *coefficient).sum();
        let mut slack = all - constraint.least;
        for (coefficient, lit) in &terms {
            self.occurrences[lit.index()].push((number, *coefficient));
            let is_counted = self.value(*lit) == Some(false) && self.places[lit.var() as usize] < self.head;
            slack -= if is_counted { *coefficient } else { 0 };
        }
        self.sums.push(Sum { terms, slack });
        self.wanted.push(constraint.least);
        self.settle(number);
        Some(number)
    }

    /// A sum wants more, for good; unless this literal of it is true: its coefficient grows along, so that then nothing is wanted.
    pub fn raise(&mut self, sum: u32, by: i64, unless: Lit) {
        self.back_to(0);
        self.wanted[sum as usize] += by;
        let one = &mut self.sums[sum as usize];
        // What is wanted more, the literal can give more, while it is not false.
        let is_counted_out = self.values[unless.index()] == -1;
        one.slack -= if is_counted_out { by } else { 0 };
        one.terms.iter_mut().filter(|term| term.1 == unless).for_each(|term| term.0 += by);
        one.terms.sort_by_key(|(coefficient, _)| std::cmp::Reverse(*coefficient));
        let occurrences = self.occurrences[unless.index()].iter_mut();
        occurrences.filter(|(number, _)| *number == sum).for_each(|(_, coefficient)| *coefficient += by);
        self.settle(sum);
    }

    fn settle(&mut self, sum: u32) {
        if self.tighten(sum) || self.propagate().is_some() {
            self.is_broken = true;
        }
    }

    /// Adds a clause at a level where at most its first literal is not false; returns its number if it has two or more.
    fn add_clause(&mut self, mut lits: Vec<Lit>, levels: u32, id: u64) -> Option<u32> {
        if self.level() == 0 {
            if lits.iter().any(|lit| self.value(*lit) == Some(true)) {
                return None;
            }
            lits.retain(|lit| self.value(*lit).is_none());
        }
        match lits.as_slice() {
            [] => self.is_broken = true,
            [one] => {
                self.assign(*one, Reason::Decision);
                if self.propagate().is_some() {
                    self.is_broken = true;
                }
            }
            [first, second, ..] => {
                let (first, second) = (*first, *second);
                let clause = Clause { lits, levels, used: self.conflicts, id };
                let number = if let Some(number) = self.free.pop() {
                    self.clauses[number as usize] = clause;
                    number
                } else {
                    self.clauses.push(clause);
                    self.clauses.len() as u32 - 1
                };
                self.watches[first.index()].push(Watch { clause: number, blocker: second });
                self.watches[second.index()].push(Watch { clause: number, blocker: first });
                return Some(number);
            }
        }
        None
    }

    pub(super) fn back_to(&mut self, level: u32) {
        let Some(&start) = self.starts.get(level as usize) else { return };
        while self.trail.len() > start {
            let at = self.trail.len() - 1;
            let Some(lit) = self.trail.pop() else { break };
            let falsified = !lit;
            if at < self.head {
                for (sum, coefficient) in &self.occurrences[falsified.index()] {
                    self.sums[*sum as usize].slack += coefficient;
                }
            }
            self.values[lit.index()] = 0;
            self.values[falsified.index()] = 0;
            self.phase[lit.var() as usize] = !lit.is_negative();
            self.heap.insert(lit.var());
        }
        self.head = self.head.min(start);
        self.starts.truncate(level as usize);
    }

    /// Looks for a solution in which `assumptions` are true. `is_over` is asked now and then; true ends it.
    pub fn solve(&mut self, assumptions: &[Lit], is_over: &dyn Fn() -> bool) -> Searched {
        self.back_to(0);
        let found = self.search(assumptions, is_over);
        self.back_to(0);
        found
    }

    /// The same, for who asks again and again: what follows from the first assumptions stays, as many as are those of the time before
    /// (Hickey and Bacchus, "Speeding up assumption-based SAT", 2019).
    pub fn solve_again(&mut self, assumptions: &[Lit], is_over: &dyn Fn() -> bool) -> Searched {
        self.keep(assumptions);
        self.search(assumptions, is_over)
    }

    /// Whether nothing speaks against these assumptions at first sight; what follows from them says [`Self::value`].
    pub fn follows(&mut self, assumptions: &[Lit]) -> bool {
        self.keep(assumptions);
        let mut is_met = !self.is_broken && self.propagate().is_none();
        while let Some(&assumed) = assumptions.get(self.level() as usize).filter(|_| is_met) {
            let value = self.value(assumed);
            self.starts.push(self.trail.len());
            if value.is_none() {
                self.assign(assumed, Reason::Decision);
            }
            is_met = value != Some(false) && self.propagate().is_none();
        }
        self.back_to(if is_met { self.level() } else { 0 });
        is_met
    }

    fn keep(&mut self, assumptions: &[Lit]) {
        let same = self.asked.iter().zip(assumptions).take_while(|(was, is)| was == is).count();
        self.back_to(same as u32);
        self.asked = assumptions.to_vec();
    }

    fn search(&mut self, assumptions: &[Lit], is_over: &dyn Fn() -> bool) -> Searched {
        let (mut restarts, mut asked) = (0, self.propagations);
        let mut until = self.conflicts + RESTART;
        loop {
            if self.is_broken {
                return Searched::Fails;
            }
            if let Some(conflict) = self.propagate() {
                if self.level() == 0 {
                    self.is_broken = true;
                    return Searched::Fails;
                }
                self.conflicts += 1;
                self.learn(conflict);
                if self.conflicts.is_multiple_of(ASK_EVERY) && is_over() {
                    return Searched::Ended;
                }
                continue;
            }
            if self.conflicts >= until {
                restarts += 1;
                until = self.conflicts + RESTART * luby(restarts);
                self.back_to(0);
                self.forget();
            }
            if self.propagations - asked > ASK_EVERY_PROPAGATIONS {
                asked = self.propagations;
                if is_over() {
                    return Searched::Ended;
                }
            }
            match self.decide(assumptions) {
                Some(Ok(())) => {}
                Some(Err(())) => return Searched::Fails,
                None => {
                    for var in 0..self.model.len() {
                        self.model[var] = self.values[2 * var] == 1;
                    }
                    return Searched::Holds;
                }
            }
        }
    }

    /// The next decision; an error if an assumption is false, nothing if all is decided.
    fn decide(&mut self, assumptions: &[Lit]) -> Option<Result<(), ()>> {
        while let Some(&assumed) = assumptions.get(self.level() as usize) {
            match self.value(assumed) {
                Some(false) => return Some(Err(())),
                // A level of its own all the same, so that levels and assumptions agree.
                Some(true) => self.starts.push(self.trail.len()),
                None => {
                    self.starts.push(self.trail.len());
                    self.assign(assumed, Reason::Decision);
                    return Some(Ok(()));
                }
            }
        }
        loop {
            let var = self.heap.pop()?;
            if self.values[2 * var as usize] == 0 {
                let lit = Lit::new(var);
                self.starts.push(self.trail.len());
                self.assign(if self.phase[var as usize] { lit } else { !lit }, Reason::Decision);
                return Some(Ok(()));
            }
        }
    }

    fn learn(&mut self, conflict: Reason) {
        let lesson = self.analyze(conflict);
        self.back_to(lesson.level);
        let id = self.log.learned(&lesson.lits);
        let first = lesson.lits[0];
        if lesson.lits.len() == 1 {
            self.add_clause(lesson.lits, lesson.levels, id);
        } else if let Some(number) = self.add_clause(lesson.lits, lesson.levels, id) {
            self.learned.push(number);
            if self.value(first).is_none() {
                self.assign(first, Reason::Clause(number));
            }
        }
        self.heap.decay();
    }

    /// Forgets half of what was learned and was of least use. Nothing is decided.
    fn forget(&mut self) {
        if self.learned.len() < self.most_learned {
            return;
        }
        self.most_learned += self.most_learned / 10;
        let mut learned = std::mem::take(&mut self.learned);
        learned.sort_by_key(|number| {
            let clause = &self.clauses[*number as usize];
            (std::cmp::Reverse(clause.levels), clause.used)
        });
        let half = learned.len() / 2;
        let held: std::collections::HashSet<u32> = self
            .trail
            .iter()
            .filter_map(|lit| match self.reasons[lit.var() as usize] {
                Reason::Clause(number) => Some(number),
                _ => None,
            })
            .collect();
        let mut gone: HashMap<u32, u64> = HashMap::new();
        for (at, number) in learned.into_iter().enumerate() {
            let clause = &self.clauses[number as usize];
            if at < half && clause.levels > GLUE && !held.contains(&number) {
                gone.insert(number, clause.id);
            } else {
                self.learned.push(number);
            }
        }
        for watches in &mut self.watches {
            watches.retain(|watch| !gone.contains_key(&watch.clause));
        }
        let mut ids: Vec<u64> = gone.values().copied().collect();
        ids.sort_unstable();
        self.log.forgotten(&ids);
        let mut numbers: Vec<u32> = gone.into_keys().collect();
        numbers.sort_unstable();
        for number in numbers {
            self.clauses[number as usize].lits = Vec::new();
            self.free.push(number);
        }
    }
}

/// Luby, Sinclair and Zuckerman, "Optimal speedup of Las Vegas algorithms" (1993): 1 1 2 1 1 2 4 …, from the first on.
fn luby(mut at: u64) -> u64 {
    loop {
        let length = u64::BITS - at.leading_zeros();
        if at == (1 << length) - 1 {
            return 1 << (length - 1);
        }
        at -= (1 << (length - 1)) - 1;
    }
}
