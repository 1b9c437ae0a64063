//! A loop that watches the clock, as the gap and share probes do. Samples are the stretches in which it did not run.

use super::samples::Samples;
use crate::guest::{Moment, Op, Program, Seen};
use crate::time::{Span, Time};

/// The program.
#[derive(Debug, Clone)]
pub struct Gap {
    piece: Span,
    until: Time,
    last: Option<Time>,
    away: Samples,
}

impl Gap {
    /// Looks at the clock after each `piece` of work, for `duration`. What is away for less than a piece is not told apart.
    pub fn new(piece: Span, duration: Span, away: Samples) -> Self {
        Self { piece, until: Time::ZERO + duration, last: None, away }
    }
}

impl Program for Gap {
    fn next(&mut self, moment: Moment<'_>) -> Op {
        if let Some(last) = self.last {
            let away = moment.now.since(last).less(self.piece);
            if away >= self.piece {
                self.away.push(away);
            }
        }
        self.last = Some(moment.now);
        if moment.now >= self.until { Op::Finish } else { Op::Work(self.piece) }
    }

    fn seen(&self) -> Seen {
        self.away.seen(self.away.count(), 0)
    }

    fn is_finite(&self) -> bool {
        true
    }
}
