//! What is left of a run's budget, and what of it verdicts may take.
//!
//! ```text
//!  ├──────────── budget_s ────────────┼─ a tenth more ─┤
//!   figures, and verdicts that take     verdicts that
//!   ¾ of what is left at most           this decides
//! ```

use std::time::Duration;

use super::{History, Plan};
use units::Nanos;

/// A run becomes longer by this part of its budget at most for verdicts that it decides: that 7 s are missing is no answer.
const OVERTIME: u64 = 10;

impl Plan {
    /// Whether the budget is used up.
    pub(super) fn is_over(&self, history: &History) -> bool {
        self.left(history) == Nanos::ZERO
    }

    /// What is left of the budget.
    pub(super) fn left(&self, history: &History) -> Nanos {
        self.budget().saturating_sub(history.spent())
    }

    /// The most that deciding a verdict may take. All of the rest would leave nothing for figures.
    pub(crate) fn for_a_verdict(&self, history: &History) -> Nanos {
        let left = self.left(history);
        if left == Nanos::ZERO {
            return self.longest().saturating_sub(history.spent());
        }
        Nanos::from_nanos(left.get() / 4 * 3)
    }

    /// The most that may be spent: the budget, and what verdicts may have beyond it. Who measures until they are decided has said how
    /// long.
    pub(crate) fn longest(&self) -> Nanos {
        let has_overtime = self.has_verdicts && !self.repeat.until_decided;
        let more = if has_overtime { self.budget().get() / OVERTIME } else { 0 };
        self.budget().saturating_add(Nanos::from_nanos(more))
    }

    fn budget(&self) -> Nanos {
        Nanos::from_duration(Duration::from_secs(self.repeat.budget_s.into()))
    }
}
