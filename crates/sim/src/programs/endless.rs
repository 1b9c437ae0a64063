//! An endless loop: wants a CPU for ever. No samples.

use crate::guest::{Moment, Op, Program, Seen};
use crate::time::Span;

/// The program.
#[derive(Debug, Clone, Copy, Default)]
pub struct Endless;

/// Nothing of a loop without an end can be told apart, so it is asked for in long pieces.
const PIECE: Span = Span::from_secs(3600);

impl Program for Endless {
    fn next(&mut self, _: Moment<'_>) -> Op {
        Op::Work(PIECE)
    }

    fn seen(&self) -> Seen {
        Seen::default()
    }

    fn is_finite(&self) -> bool {
        false
    }
}
