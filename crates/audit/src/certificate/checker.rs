//! What each line of a certificate makes, and whether it may. Why that is sound stands in `mod.rs`.

use std::collections::{HashMap, HashSet};

use units::Reason;

use super::constraint::{Draft, Sum, Term, each_once};
use super::engine::Engine;
use super::symmetry::{Blocks, Index};
use super::words::{Lit, Variables, Words};
use super::{Place, ProvenGoal, Verdict};

const NO_CONFLICT: &str = "it does not follow: propagation ends without a conflict";

/// How far a certificate has come. What has ended does not come again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
enum Stage {
    /// What the problem is: `n`, `c`, `g`.
    #[default]
    Stating,
    /// Symmetries: `y`.
    Sorting,
    /// What follows.
    Deriving,
    /// `v` or `x` was there.
    Concluded,
}

/// A goal: the sum of these.
#[derive(Debug)]
struct Goal {
    name: String,
    terms: Vec<Term>,
}

/// All that the lines so far have made.
#[derive(Debug, Default)]
pub(super) struct Checker {
    stage: Stage,
    variables: Variables,
    engine: Engine,
    sum: Sum,
    index: Index,
    /// How many constraints `c` made: the first ones.
    stated: usize,
    goals: Vec<Goal>,
    /// What each `n` says, by the variable's place, in their order.
    named: Vec<(u32, Place)>,
    /// Variables and places that are named.
    taken: (HashSet<u32>, HashSet<Place>),
    /// Selectors of `o`, by goal and value.
    selectors: HashMap<(usize, u64), Vec<Lit>>,
    /// Goals that were ended.
    ended: Vec<ProvenGoal>,
    verdict: Option<Verdict>,
}

impl Checker {
    /// One more line.
    ///
    /// # Errors
    /// Why it is not right.
    pub fn take(&mut self, line: &str) -> Result<(), Reason> {
        if line == "#" || line.starts_with("# ") {
            return Ok(());
        }
        let mut words = Words::of(line);
        let stage = match words.word("what the line is")? {
            "n" | "c" | "g" => Stage::Stating,
            "y" => Stage::Sorting,
            // What is deleted between symmetries is theirs.
            "d" => self.stage.max(Stage::Sorting),
            "a" | "u" | "o" | "b" | "v" | "x" => Stage::Deriving,
            word => {
                return Err(
                    format!("lines begin with n, #, c, g, y, a, u, d, o, b, v or x, got \"{word}\"").into()
                );
            }
        };
        if self.stage == Stage::Concluded {
            return Err("v or x is the last line, and was there".into());
        }
        if stage < self.stage {
            return Err("it comes too late: n, c and g, then y, then all others".into());
        }
        self.stage = stage;
        match line.get(..1).unwrap_or_default() {
            "n" => self.name(words),
            "c" => self.state(words),
            "g" => self.goal(words),
            "y" => self.sort(words),
            "d" => self.delete(words),
            "a" => self.add_up(words),
            "u" => self.follow(words),
            "o" => self.open(words),
            "b" => self.bound(words),
            "v" => self.solve(words),
            _ => self.give_up(&words),
        }
    }

    /// What is proven when there is no further line.
    ///
    /// # Errors
    /// Nothing is.
    pub fn finish(self) -> Result<Verdict, Reason> {
        self.verdict.ok_or_else(|| "it ends without v or x, so nothing is proven".into())
    }

    /// A literal as it is written, with room for its variable.
    fn lit(&mut self, number: i64) -> Lit {
        let variable = u32::try_from(number.unsigned_abs()).unwrap_or_default();
        let lit = Lit::of(self.variables.place(variable));
        self.engine.grow(self.variables.count());
        if number < 0 { lit.negated() } else { lit }
    }

    /// The rest of a line: literals with coefficients.
    fn terms(&mut self, mut words: Words<'_>) -> Result<Vec<Term>, Reason> {
        let mut terms = Vec::new();
        while !words.is_at_end() {
            let coef = positive(words.number("a coefficient")?, "coefficients")?;
            let lit = words.literal()?;
            terms.push(Term { lit: self.lit(lit), coef });
        }
        each_once(terms.iter().map(|term| term.lit))?;
        Ok(terms)
    }

    fn name(&mut self, mut words: Words<'_>) -> Result<(), Reason> {
        let variable = i64::from(words.variable()?);
        let variable = self.lit(variable).0 >> 1;
        let (replica, host) = (words.word("a replica")?.to_owned(), words.word("a host")?.to_owned());
        let place = Place { replica, host, node: words.number("the number of a node")? };
        words.end()?;
        if !self.taken.0.insert(variable) || !self.taken.1.insert(place.clone()) {
            return Err("this variable or this place has a name already".into());
        }
        self.named.push((variable, place));
        Ok(())
    }

    fn state(&mut self, mut words: Words<'_>) -> Result<(), Reason> {
        let side = words.number("a right side")?;
        let terms = self.terms(words)?;
        self.engine.add(Draft::linear(terms, side)?)?;
        self.stated = self.engine.count();
        Ok(())
    }

    fn goal(&mut self, mut words: Words<'_>) -> Result<(), Reason> {
        let name = words.word("a goal's name")?.to_owned();
        if self.goals.iter().any(|goal| goal.name == name) {
            return Err(format!("goal \"{name}\" is there already").into());
        }
        let terms = self.terms(words)?;
        self.index.add_goal(&terms);
        self.goals.push(Goal { name, terms });
        Ok(())
    }

    fn sort(&mut self, mut words: Words<'_>) -> Result<(), Reason> {
        let (blocks, length): (usize, usize) =
            (words.number("how many blocks")?, words.number("how long they are")?);
        let rows: usize = words.number("how many rows")?;
        if blocks < 2 || length < 1 || !(1..=length).contains(&rows) {
            return Err(
                "wanted two blocks or more, of one variable or more, and 1 row to as many as those".into()
            );
        }
        let mut places = Vec::new();
        while !words.is_at_end() {
            let variable = i64::from(words.variable()?);
            places.push(self.lit(variable).0 >> 1);
        }
        if blocks.checked_mul(length) != Some(places.len()) {
            return Err(format!("{blocks} blocks of {length} are not {} variables", places.len()).into());
        }
        each_once(places.iter().map(|place| Lit::of(*place)))?;
        let blocks = Blocks { blocks: places.chunks(length).map(<[u32]>::to_vec).collect(), rows };
        let clauses = blocks.clauses()?;
        self.index.check(&self.engine, &blocks, self.variables.count())?;
        clauses.into_iter().try_for_each(|clause| self.engine.add(clause))
    }

    /// The place of a constraint, by its number.
    fn constraint(&self, words: &mut Words<'_>) -> Result<usize, Reason> {
        let id: usize = words.number("the number of a constraint")?;
        match id.checked_sub(1).filter(|place| self.engine.get(*place).is_some()) {
            Some(place) => Ok(place),
            None if id <= self.engine.count() && id > 0 => Err(format!("constraint {id} was deleted").into()),
            None => {
                Err(format!("there is no constraint {id}, the last one is {}", self.engine.count()).into())
            }
        }
    }

    fn delete(&mut self, mut words: Words<'_>) -> Result<(), Reason> {
        while !words.is_at_end() {
            let place = self.constraint(&mut words)?;
            if place < self.stated {
                return Err(format!("constraint {} is of c, and stays", place + 1).into());
            }
            self.engine.delete(place);
        }
        Ok(())
    }

    fn add_up(&mut self, mut words: Words<'_>) -> Result<(), Reason> {
        let divisor = positive(words.number("a divisor")?, "divisors")?;
        if words.is_at_end() {
            return Err("it sums up nothing".into());
        }
        while !words.is_at_end() {
            let factor = positive(words.number("a factor")?, "factors")?;
            let place = self.constraint(&mut words)?;
            if let Some(held) = self.engine.get(place) {
                self.sum.add(&held.body, held.side, factor)?;
            }
        }
        let draft = self.sum.divided(divisor)?;
        self.engine.add(draft)
    }

    fn follow(&mut self, mut words: Words<'_>) -> Result<(), Reason> {
        let mut lits = Vec::new();
        loop {
            if words.clone().word("a literal or 0")? == "0" {
                words.word("0")?;
                break;
            }
            let lit = words.literal()?;
            lits.push(self.lit(lit));
        }
        words.end()?;
        each_once(lits.iter().copied())?;
        if !self.engine.refutes(lits.iter().map(|lit| lit.negated())) {
            return Err(NO_CONFLICT.into());
        }
        self.engine.add(Draft::clause(lits))
    }

    /// A goal, by its number.
    fn goal_number(&self, words: &mut Words<'_>) -> Result<usize, Reason> {
        let number: usize = words.number("the number of a goal")?;
        let place = number.checked_sub(1).filter(|place| *place < self.goals.len());
        place.ok_or_else(|| format!("there is no goal {number}; there are {}", self.goals.len()).into())
    }

    fn open(&mut self, mut words: Words<'_>) -> Result<(), Reason> {
        let goal = self.goal_number(&mut words)?;
        let (value, number): (u64, u32) = (words.number("a value")?, words.variable()?);
        words.end()?;
        if self.variables.known(number).is_some() {
            return Err(format!("variable {number} is no new one").into());
        }
        let selector = self.lit(i64::from(number));
        let Some(stated) = self.goals.get(goal) else { return Ok(()) };
        let draft = Draft::at_most(&stated.terms, i128::from(value) - 1, Some(selector))?;
        self.selectors.entry((goal, value)).or_default().push(selector);
        self.engine.add(draft)
    }

    fn bound(&mut self, mut words: Words<'_>) -> Result<(), Reason> {
        let number = self.goal_number(&mut words)?;
        let (least, value): (u64, u64) = (words.number("what is least")?, words.number("a value")?);
        words.end()?;
        if number != self.ended.len() {
            return Err(
                format!("goals are ended in their order: goal {} is next", self.ended.len() + 1).into()
            );
        }
        if least > value {
            return Err(format!("{value} would be less than what is least").into());
        }
        if least > 0 {
            let Some(selectors) = self.selectors.get(&(number, least)) else {
                return Err(format!("no o asks whether goal {} can be less than {least}", number + 1).into());
            };
            let engine = &mut self.engine;
            if !selectors.iter().any(|selector| engine.refutes([*selector])) {
                return Err(NO_CONFLICT.into());
            }
        }
        let Some(goal) = self.goals.get(number) else { return Ok(()) };
        self.ended.push(ProvenGoal { name: goal.name.clone(), least, value });
        self.engine.add(Draft::at_most(&goal.terms, value.into(), None)?)
    }

    fn solve(&mut self, mut words: Words<'_>) -> Result<(), Reason> {
        let mut is_true = vec![false; self.variables.count()];
        while !words.is_at_end() {
            let number = words.variable()?;
            let slot = self.variables.known(number).and_then(|place| is_true.get_mut(place as usize));
            let slot = slot.ok_or_else(|| format!("variable {number} occurs nowhere"))?;
            if std::mem::replace(slot, true) {
                return Err(format!("variable {number} stands there twice").into());
            }
        }
        let holds =
            |lit: Lit| is_true.get(lit.variable()).is_some_and(|is_true| *is_true != lit.is_negative());
        let sum = |terms: &mut dyn Iterator<Item = Term>| -> i128 {
            terms.filter(|term| holds(term.lit)).map(|term| i128::from(term.coef)).sum()
        };
        for place in 0..self.stated {
            let Some(held) = self.engine.get(place) else { continue };
            let reached = sum(&mut held.body.terms());
            if reached < held.side {
                return Err(
                    format!("it does not meet constraint {}: {reached} of {}", place + 1, held.side).into()
                );
            }
        }
        for (goal, proven) in self.goals.iter().zip(&self.ended) {
            let reached = sum(&mut goal.terms.iter().copied());
            if reached != i128::from(proven.value) {
                return Err(format!("its {} is {reached}, not {}", goal.name, proven.value).into());
            }
        }
        let places = self.named.iter().filter(|(place, _)| holds(Lit::of(*place)));
        let places = places.map(|(_, place)| place.clone()).collect();
        self.stage = Stage::Concluded;
        self.verdict = Some(Verdict::Optimal { goals: std::mem::take(&mut self.ended), places });
        Ok(())
    }

    fn give_up(&mut self, words: &Words<'_>) -> Result<(), Reason> {
        words.end()?;
        if !self.ended.is_empty() {
            return Err("a goal was ended, so there is a solution: v says which".into());
        }
        if !self.engine.refutes([]) {
            return Err(NO_CONFLICT.into());
        }
        self.stage = Stage::Concluded;
        self.verdict = Some(Verdict::Infeasible);
        Ok(())
    }
}

fn positive(number: u64, what: &str) -> Result<u64, Reason> {
    if number > 0 {
        return Ok(number);
    }
    Err(format!("{what} are 1 or more, got 0").into())
}
