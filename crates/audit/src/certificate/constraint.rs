//! Constraints over 0/1 variables: a sum of literals, each with a coefficient, that is at least a right side.

use std::collections::HashSet;

use units::Reason;

use super::words::Lit;

/// Largest size of a right side. With coefficients of 64 bits and as many literals as fit into memory, no sum overflows.
pub(super) const LARGEST_SIDE: i128 = 1 << 100;

/// A literal with its coefficient, 1 or more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Term {
    /// The literal.
    pub lit: Lit,
    /// What it gives when it is true.
    pub coef: u64,
}

/// What a constraint is made of: each variable at most once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Body {
    /// It was deleted.
    Gone,
    /// One of these is true.
    Clause(Box<[Lit]>),
    /// The literals, the largest coefficients first.
    Linear(Box<[Term]>),
}

/// A constraint that is not yet numbered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Draft {
    /// What it is made of.
    pub body: Body,
    /// What the sum must reach.
    pub side: i128,
}

impl Body {
    /// Its literals with their coefficients.
    pub fn terms(&self) -> impl Iterator<Item = Term> + Clone {
        let (lits, terms): (&[Lit], &[Term]) = match self {
            Self::Gone => (&[], &[]),
            Self::Clause(lits) => (lits, &[]),
            Self::Linear(terms) => (&[], terms),
        };
        lits.iter().map(|lit| Term { lit: *lit, coef: 1 }).chain(terms.iter().copied())
    }

    /// How many literals it has.
    pub fn len(&self) -> usize {
        match self {
            Self::Gone => 0,
            Self::Clause(lits) => lits.len(),
            Self::Linear(terms) => terms.len(),
        }
    }
}

impl Draft {
    /// One of these is true.
    pub fn clause(lits: Vec<Lit>) -> Self {
        Self { body: Body::Clause(lits.into()), side: 1 }
    }

    /// These, of different variables, sum up to `side` at least.
    ///
    /// # Errors
    /// The right side is beyond belief.
    pub fn linear(mut terms: Vec<Term>, side: i128) -> Result<Self, Reason> {
        if side.unsigned_abs() > LARGEST_SIDE.unsigned_abs() {
            return Err(format!("a right side of {side} is too large to be counted with").into());
        }
        if side == 1 && terms.iter().all(|term| term.coef == 1) {
            return Ok(Self::clause(terms.into_iter().map(|term| term.lit).collect()));
        }
        terms.sort_unstable_by(|a, b| b.coef.cmp(&a.coef).then(a.lit.cmp(&b.lit)));
        Ok(Self { body: Body::Linear(terms.into()), side })
    }

    /// A goal is at most `most`; where `only_if` is given, that counts only if it is true.
    ///
    /// # Errors
    /// The numbers are beyond belief.
    pub fn at_most(goal: &[Term], most: i128, only_if: Option<Lit>) -> Result<Self, Reason> {
        let total: i128 = goal.iter().map(|term| i128::from(term.coef)).sum();
        let side = total - most;
        let mut terms: Vec<Term> =
            goal.iter().map(|term| Term { lit: term.lit.negated(), coef: term.coef }).collect();
        if let Some(selector) = only_if.filter(|_| side > 0) {
            let coef = u64::try_from(side).map_err(|_| format!("{side} is too large to be counted with"))?;
            terms.push(Term { lit: selector.negated(), coef });
        }
        Self::linear(terms, side)
    }
}

/// Says which variable is there twice.
pub(super) fn each_once(lits: impl Iterator<Item = Lit>) -> Result<(), Reason> {
    let mut seen = HashSet::new();
    for lit in lits {
        if !seen.insert(lit.variable()) {
            return Err("a variable stands there twice".into());
        }
    }
    Ok(())
}

/// Adds up constraints.
#[derive(Debug, Default)]
pub(super) struct Sum {
    /// What each variable counts, by its place.
    weights: Vec<i128>,
    /// Those that were touched.
    touched: Vec<u32>,
    side: i128,
}

const TOO_LARGE: &str = "the numbers are too large to be counted with";

impl Sum {
    /// Adds a constraint so many times. `a` times the negative of `x` is `a - a·x`.
    ///
    /// # Errors
    /// The numbers are beyond belief.
    pub fn add(&mut self, body: &Body, side: i128, factor: u64) -> Result<(), Reason> {
        let factor = i128::from(factor);
        self.side = side
            .checked_mul(factor)
            .and_then(|side| self.side.checked_add(side))
            .filter(|side| side.unsigned_abs() < 1 << 125)
            .ok_or(TOO_LARGE)?;
        for term in body.terms() {
            let weight = i128::from(term.coef).checked_mul(factor).ok_or(TOO_LARGE)?;
            let place = term.lit.variable();
            if self.weights.len() <= place {
                self.weights.resize(place + 1, 0);
            }
            let Some(slot) = self.weights.get_mut(place) else { continue };
            if *slot == 0 {
                self.touched.push(term.lit.0 >> 1);
            }
            let signed = if term.lit.is_negative() { -weight } else { weight };
            *slot = slot.checked_add(signed).ok_or(TOO_LARGE)?;
            if term.lit.is_negative() {
                self.side = self.side.checked_sub(weight).ok_or(TOO_LARGE)?;
            }
        }
        Ok(())
    }

    /// The sum, divided and rounded up, and begins anew. Coefficients that are rounded up make the left side no smaller, and a whole
    /// number that is at least a fraction is at least what that is rounded up to.
    ///
    /// # Errors
    /// The numbers are beyond belief.
    pub fn divided(&mut self, divisor: u64) -> Result<Draft, Reason> {
        let mut side = std::mem::take(&mut self.side);
        let mut terms = Vec::with_capacity(self.touched.len());
        let mut problem = None;
        for variable in std::mem::take(&mut self.touched) {
            // One that was back at 0 in between was touched twice.
            let weight = self.weights.get_mut(variable as usize).map(std::mem::take).unwrap_or_default();
            if weight == 0 {
                continue;
            }
            let lit = if weight < 0 { Lit::of(variable).negated() } else { Lit::of(variable) };
            let absolute = weight.unsigned_abs();
            match (
                side.checked_add_unsigned(if weight < 0 { absolute } else { 0 }),
                u64::try_from(absolute.div_ceil(divisor.into())),
            ) {
                (Some(more), Ok(coef)) => {
                    side = more;
                    terms.push(Term { lit, coef });
                }
                _ => problem = Some(TOO_LARGE),
            }
        }
        if let Some(problem) = problem {
            return Err(problem.into());
        }
        let divisor = i128::from(divisor);
        let up = i128::from(side.rem_euclid(divisor) != 0);
        Draft::linear(terms, side.div_euclid(divisor) + up)
    }
}
