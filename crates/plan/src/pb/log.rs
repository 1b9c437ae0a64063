//! A certificate as it is written: `docs/plan.md` has its lines.
//!
//! What is learned between the beginning of a bound and its end is kept until the end: only then is it known what the bound is.

use std::fmt::Write as _;

use super::{AtLeast, Lit, Objective, Symmetry, Var};

/// The lines so far; none when nobody wants them.
#[derive(Debug, Default)]
pub struct Log {
    lines: Option<String>,
    /// Lines since a bound began.
    open: Option<String>,
    constraints: u64,
}

/// A literal as it is written.
fn word(lit: Lit) -> i64 {
    let number = i64::from(lit.var()) + 1;
    if lit.is_negative() { -number } else { number }
}

/// Coefficients with their literals.
fn sum(text: &mut String, terms: &[(i64, Lit)]) {
    for (coefficient, lit) in terms {
        let _ = write!(text, " {coefficient} {}", word(*lit));
    }
    text.push('\n');
}

impl Log {
    /// One that is kept.
    pub fn kept() -> Self {
        Self { lines: Some("bulkhead-certificate 1\n".to_owned()), ..Self::default() }
    }

    fn to(&mut self) -> Option<&mut String> {
        let lines = self.lines.as_mut()?;
        Some(self.open.as_mut().unwrap_or(lines))
    }

    /// What a variable means.
    pub fn name(&mut self, lit: Lit, replica: &str, host: &str, node: u32) {
        if let Some(lines) = self.to() {
            let _ = writeln!(lines, "n {} {replica} {host} {node}", word(lit));
        }
    }

    pub(super) fn constraint(&mut self, constraint: &AtLeast) {
        self.constraints += 1;
        if let Some(lines) = self.to() {
            let _ = write!(lines, "c {}", constraint.least);
            sum(lines, &constraint.terms);
        }
    }

    pub(super) fn goal(&mut self, goal: &Objective) {
        if let Some(lines) = self.to() {
            let _ = write!(lines, "g {}", goal.name);
            sum(lines, &goal.terms);
        }
    }

    pub(super) fn symmetry(&mut self, symmetry: &Symmetry) {
        let Some(lines) = self.to() else { return };
        let length = symmetry.blocks.first().map_or(0, Vec::len);
        let _ = write!(lines, "y {} {length} {}", symmetry.blocks.len(), symmetry.rows);
        for var in symmetry.blocks.iter().flatten() {
            let _ = write!(lines, " {}", var + 1);
        }
        lines.push('\n');
    }

    /// A constraint that a line before has made.
    pub(super) fn count(&mut self) {
        self.constraints += 1;
    }

    /// The sum of constraints by their numbers, times their factors, divided and rounded up: its own number.
    pub fn added(&mut self, divisor: i64, parts: &[(i64, u64)]) -> u64 {
        self.constraints += 1;
        if let Some(lines) = self.to() {
            let _ = write!(lines, "a {divisor}");
            for (factor, constraint) in parts {
                let _ = write!(lines, " {factor} {constraint}");
            }
            lines.push('\n');
        }
        self.constraints
    }

    pub(super) fn learned(&mut self, lits: &[Lit]) -> u64 {
        self.constraints += 1;
        if let Some(lines) = self.to() {
            lines.push('u');
            for lit in lits {
                let _ = write!(lines, " {}", word(*lit));
            }
            lines.push_str(" 0\n");
        }
        self.constraints
    }

    pub(super) fn forgotten(&mut self, ids: &[u64]) {
        if ids.is_empty() {
            return;
        }
        let Some(lines) = self.to() else { return };
        lines.push('d');
        for id in ids {
            let _ = write!(lines, " {id}");
        }
        lines.push('\n');
    }

    /// A bound of a goal begins: the number of its constraint.
    pub fn bound_begins(&mut self) -> u64 {
        self.constraints += 1;
        if self.lines.is_some() {
            self.open = Some(String::new());
        }
        self.constraints
    }

    /// It is proven, or given up: with this selector the goal, from 0, was held below `value`.
    pub fn bound_ends(&mut self, goal: usize, value: i64, selector: Lit) {
        let Some(open) = self.open.take() else { return };
        if let Some(lines) = self.lines.as_mut() {
            let _ = writeln!(lines, "o {} {value} {}", goal + 1, word(selector));
            lines.push_str(&open);
        }
    }

    /// A goal is ended.
    pub fn goal_ends(&mut self, goal: usize, least: i64, value: i64) {
        self.constraints += 1;
        if let Some(lines) = self.to() {
            let _ = writeln!(lines, "b {} {least} {value}", goal + 1);
        }
    }

    /// The solution.
    pub fn solution(&mut self, variables: impl Iterator<Item = Var>) {
        let Some(lines) = self.to() else { return };
        lines.push('v');
        for var in variables {
            let _ = write!(lines, " {}", var + 1);
        }
        lines.push('\n');
    }

    /// There is none.
    pub fn nothing(&mut self) {
        if let Some(lines) = self.to() {
            lines.push_str("x\n");
        }
    }

    /// All lines.
    pub fn finish(self) -> Option<String> {
        self.lines
    }
}
