//! Whether a certificate proves what it says: checked line by line, without any search. `docs/plan.md` has the format.
//!
//! ```text
//!  line ─► words ─► Checker ─┬► c, g, n: the problem    ─┐
//!                            ├► y: symmetry             ─┤
//!                            ├► a: Sum                  ─┼► Engine: constraints that are there ─► propagation
//!                            ├► u, b, x: asked of it   ◄─┤
//!                            └► o, b: bounds of goals   ─┘
//!                                     └► v or x ─► Verdict
//! ```
//! # Why each line is sound
//!
//! What holds after every line: *for each solution of all `c` constraints with at most the `VALUE` of each goal that was ended, there is one
//! that is worth the same by every goal and meets all constraints that are there, where each selector may say whether its goal is below its
//! value.*
//!
//! - `c`, `g`, `n` say what the problem is. They come before all else, so nothing was concluded that they could change.
//! - `y`: of the solutions worth the same one is sorted ([`symmetry`]). It looks at all constraints that are there and at all goals, and
//!   comes before anything is derived, so there is nothing that is symmetric no more.
//! - `a`: a sum of what holds, with positive factors, holds; so does what is divided and rounded up ([`constraint::Sum`]). It names
//!   only constraints that are there.
//! - `u`: a solution that met none of the literals would not meet what propagation finds cannot be met ([`engine`]).
//! - `d` leaves fewer constraints to meet. What it deletes is gone from propagation, too.
//! - `o`: the selector occurred nowhere before, so nothing else says what it is: it can be true exactly where the goal is below the value,
//!   and all that is derived later holds then, too.
//! - `b` with `LEAST`: were there a solution whose goal is below it, there would be one in which the selector of that `o` is true. Propagation
//!   says there is none. A sum of literals with positive coefficients is 0 or more without any proof. With `VALUE` it leaves solutions out,
//!   as what holds says.
//! - `v` is held against all `c` constraints and each `VALUE`, whatever was derived: so there is a solution that good, and none that is better
//!   than the `LEAST` of a goal while it has at most the `VALUE` of each goal before.
//! - `x`: no solution meets all that is there, and no goal was ended: so none meets all `c` constraints.
//!
//! Numbers that do not fit are an error, never wrapped.

mod checker;
mod constraint;
mod engine;
mod matching;
mod symmetry;
#[cfg(test)]
mod tests;
mod words;

use std::fmt;
use std::io::BufRead;

use units::Reason;

pub use matching::{goals_match, places_match};

use checker::Checker;
use words::read_line;

/// The first line.
pub const HEADER: &str = "bulkhead-certificate 1";
/// Most of a line that is shown.
const MOST_SHOWN: usize = 80;

/// What a certificate proves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// There is this solution, and none is better by more than what is said.
    Optimal {
        /// The goals that were ended, in their order.
        goals: Vec<ProvenGoal>,
        /// Where its named variables say that replicas have parts.
        places: Vec<Place>,
    },
    /// Nothing meets all constraints.
    Infeasible,
}

/// A goal of which is proven what can be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProvenGoal {
    /// Its name.
    pub name: String,
    /// No solution with at most the values of all goals before is below this.
    pub least: u64,
    /// What the solution has. Where `least` is as much, nothing is better.
    pub value: u64,
}

/// A part of a replica at a memory node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// What the replica is called.
    pub replica: String,
    /// The host.
    pub host: String,
    /// The number of the node.
    pub node: u32,
}

/// A line of a certificate that is not right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Its number, from 1; one after the last where something is missing at the end.
    pub line: u64,
    /// What it says, shortened.
    pub claimed: String,
    /// Why that is not so.
    pub why: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A reason may repeat a word of the line.
        let why: String = self.why.chars().filter(|char| !char.is_control()).collect();
        write!(f, "line {}: \"{}\": {why}", self.line, self.claimed)
    }
}

impl std::error::Error for Refused {}

/// Checks a certificate.
///
/// # Errors
/// The first line that is wrong: what it claims, and why that does not follow.
pub fn check(mut from: impl BufRead) -> Result<Verdict, Refused> {
    let mut checker = Checker::default();
    let mut line = Vec::new();
    let mut number = 0;
    loop {
        number += 1;
        let refused =
            |line: &[u8], why: Reason| Refused { line: number, claimed: shown(line), why: why.to_string() };
        match read_line(&mut from, &mut line) {
            Err(why) => return Err(refused(&line, why)),
            Ok(false) => return checker.finish().map_err(|why| refused(b"", why)),
            Ok(true) => {}
        }
        let words = std::str::from_utf8(&line).map_err(|_| Reason::from("it is no text"));
        let done = words.and_then(|text| match number {
            1 if text == HEADER => Ok(()),
            1 => Err(format!("a certificate begins with \"{HEADER}\"").into()),
            _ => checker.take(text),
        });
        done.map_err(|why| refused(&line, why))?;
    }
}

/// A line for people: what cannot be shown is left out.
fn shown(line: &[u8]) -> String {
    let start = line.get(..line.len().min(4 * MOST_SHOWN)).unwrap_or_default();
    let text = String::from_utf8_lossy(start);
    let mut shown: String = text.chars().filter(|char| !char.is_control()).take(MOST_SHOWN).collect();
    if text.chars().nth(MOST_SHOWN).is_some() {
        shown.push('…');
    }
    shown
}
