//! The first rank decides how often, and tells the others.

use std::time::Duration;

use super::patterns::{Buffers, PatternTask, barrier};
use super::post::MessagePost;
use crate::error::WorkError;
use crate::rendezvous::HelloWord;
use units::histogram::DenseHistogram;

/// Most iterations of one order; each order takes half a second at most as far as can be told beforehand.
const MOST: u32 = 1 << 20;
/// Longest time of the iterations of one order, as far as can be told beforehand.
const LONGEST: Duration = Duration::from_millis(500);
/// Longest warm-up; it is a tenth of the duration otherwise.
const LONGEST_WARM_UP: Duration = Duration::from_millis(500);
/// An order on the wire: number of iterations, and a token that shows that both sides are at the same place.
const ORDER_BYTES: usize = 12;

/// What the first rank measured.
#[derive(Debug, Clone, Copy, Default)]
pub struct OrderOutcome {
    /// Iterations that were timed.
    pub iterations: u64,
    /// How long they took together.
    pub elapsed: Duration,
}

/// Everything that makes one pattern and size, at any rank.
pub struct Round<'r, 'p, 'b> {
    /// Ways to the others.
    pub post: &'r mut MessagePost<'p>,
    /// Memory.
    pub buffers: &'r mut Buffers<'b>,
    /// What only members know.
    pub word: HelloWord,
    /// Place in the list of patterns and sizes.
    pub number: u64,
    /// What is made.
    pub task: PatternTask,
    /// Orders given or taken so far.
    orders: u64,
}

impl<'r, 'p, 'b> Round<'r, 'p, 'b> {
    /// Before the barrier.
    pub const fn new(
        post: &'r mut MessagePost<'p>,
        buffers: &'r mut Buffers<'b>,
        word: HelloWord,
        number: u64,
        task: PatternTask,
    ) -> Self {
        Self { post, buffers, word, number, task, orders: 0 }
    }

    /// Makes it all, at this rank; what comes back counts at the first rank only.
    ///
    /// # Errors
    /// A rank is gone or does something else, a message arrived changed, or the job is to end.
    pub fn make(
        &mut self,
        duration: Duration,
        times: &mut DenseHistogram,
    ) -> Result<OrderOutcome, WorkError> {
        self.task.spoil(self.buffers);
        barrier(self.post, self.word, self.number)?;
        let outcome = if self.post.rank == 0 {
            self.lead(duration, times)?
        } else {
            self.follow()?;
            OrderOutcome::default()
        };
        self.task.check(self.post, self.buffers, self.word)?;
        Ok(outcome)
    }

    /// Warm-up in growing orders, whose last one also tells how long an iteration takes; then timed orders.
    fn lead(&mut self, duration: Duration, times: &mut DenseHistogram) -> Result<OrderOutcome, WorkError> {
        let warm_up = (duration / 10).min(LONGEST_WARM_UP);
        let (mut count, mut warmed) = (1u32, Duration::ZERO);
        let mut each;
        loop {
            let took = self.ordered(count, None)?;
            warmed += took;
            each = took / count;
            if warmed >= warm_up || count >= MOST {
                break;
            }
            count *= 2;
        }
        let mut outcome = OrderOutcome::default();
        while outcome.elapsed < duration {
            let count = fitting(duration.saturating_sub(outcome.elapsed), each);
            let took = self.ordered(count, Some(times))?;
            outcome.elapsed += took;
            outcome.iterations += u64::from(count);
            each = took / count;
        }
        self.give(0)?;
        Ok(outcome)
    }

    fn ordered(&mut self, count: u32, times: Option<&mut DenseHistogram>) -> Result<Duration, WorkError> {
        self.look()?;
        self.give(count)?;
        self.task.iterate(self.post, self.buffers, count, times)
    }

    /// A rank that never has to wait would not notice otherwise that it is to end.
    fn look(&self) -> Result<(), WorkError> {
        self.post.rules.patience.check(|| "the end of the measurement".to_owned())
    }

    fn follow(&mut self) -> Result<(), WorkError> {
        loop {
            self.look()?;
            match self.take()? {
                0 => return Ok(()),
                count => self.task.iterate(self.post, self.buffers, count, None)?,
            };
        }
    }

    fn token(&mut self) -> [u8; 8] {
        self.orders += 1;
        self.word.derive(!self.number.wrapping_mul(1 << 40).wrapping_add(self.orders)).to_le_bytes()
    }

    fn give(&mut self, count: u32) -> Result<(), WorkError> {
        let mut order = [0; ORDER_BYTES];
        let token = self.token();
        let bytes = count.to_le_bytes().into_iter().chain(token);
        order.iter_mut().zip(bytes).for_each(|(slot, byte)| *slot = byte);
        (1..self.post.ranks()).try_for_each(|rank| self.post.send(rank, &order))
    }

    fn take(&mut self) -> Result<u32, WorkError> {
        let mut order = [0; ORDER_BYTES];
        self.post.receive(0, &mut order)?;
        let token = self.token();
        let (count, heard) = order.split_first_chunk::<4>().unwrap_or((&[0; 4], &[]));
        let count = u32::from_le_bytes(*count);
        if heard == token && count <= MOST {
            return Ok(count);
        }
        Err(WorkError::Unfit(format!(
            "rank 0 gave an order that does not fit here, at rank {}",
            self.post.rank
        )))
    }
}

/// How many iterations of this length fit, at least one.
fn fitting(left: Duration, each: Duration) -> u32 {
    let left = left.min(LONGEST).as_nanos();
    u32::try_from(left / each.as_nanos().max(1)).unwrap_or(MOST).clamp(1, MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_fit_the_time_left_and_are_never_empty_or_endless() {
        let ms = Duration::from_millis;
        assert_eq!(fitting(ms(100), ms(1)), 100);
        assert_eq!(fitting(ms(1), ms(100)), 1);
        assert_eq!(fitting(Duration::from_secs(3600), ms(1)), 500);
        assert_eq!(fitting(ms(100), Duration::ZERO), MOST);
    }
}
