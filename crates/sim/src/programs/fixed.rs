//! A fixed amount of work, then the end. The sample is the time from the first instruction to the end.

use crate::guest::{Moment, Op, Program, Seen};
use crate::time::{Span, Time};

/// The program.
#[derive(Debug, Clone, Copy)]
pub struct Fixed {
    work: Span,
    began: Option<Time>,
    took: Option<Span>,
}

impl Fixed {
    /// So much CPU time.
    pub const fn new(work: Span) -> Self {
        Self { work, began: None, took: None }
    }
}

impl Program for Fixed {
    fn next(&mut self, moment: Moment<'_>) -> Op {
        match self.began {
            None => {
                self.began = Some(moment.now);
                Op::Work(self.work)
            }
            Some(began) => {
                self.took = self.took.or(Some(moment.now.since(began)));
                Op::Finish
            }
        }
    }

    fn seen(&self) -> Seen {
        Seen {
            samples: self.took.into_iter().collect(),
            done: u64::from(self.took.is_some()),
            ..Seen::default()
        }
    }

    fn is_finite(&self) -> bool {
        true
    }
}
