//! What is sent to whom: barrier, ping-pong, all-to-all.

use std::time::{Duration, Instant};

use super::post::MessagePost;
use crate::detail::MpiPattern;
use crate::error::WorkError;
use crate::pattern::Pattern;
use crate::rendezvous::HelloWord;
use units::histogram::DenseHistogram;

/// What a rank sends, and room for what it receives; both of the largest size.
#[derive(Debug)]
pub struct Buffers<'a> {
    /// A message, filled with the rank's pattern.
    pub message: &'a mut [u8],
    /// Room for one.
    pub buffer: &'a mut [u8],
}

/// What a rank fills its messages with.
pub fn filling(word: HelloWord, rank: u32) -> Pattern {
    Pattern::new(word.derive(0x4D50_4900_0000_0000 | u64::from(rank)))
}

/// Waits until every rank is here: in round k a rank tells the one 2^k further and hears from the one 2^k before. The
/// tokens show that all are at the same place of the program.
///
/// # Errors
/// A rank is elsewhere or gone, or the job is to end.
pub fn barrier(post: &mut MessagePost<'_>, word: HelloWord, number: u64) -> Result<(), WorkError> {
    let (own, ranks) = (post.rank, post.ranks());
    let mut distance = 1;
    while distance < ranks {
        let to = (own + distance) % ranks;
        let from = (own + ranks - distance) % ranks;
        let token = word.derive(number.wrapping_mul(1 << 20).wrapping_add(distance.into())).to_le_bytes();
        let mut heard = [0; 8];
        post.exchange(to, &token, from, &mut heard)?;
        if heard != token {
            return Err(WorkError::Unfit(format!("rank {from} is not at the same barrier as rank {own}")));
        }
        distance *= 2;
    }
    Ok(())
}

/// One message to and fro between the first and the last rank; the others have nothing to do.
fn ping_pong(post: &mut MessagePost<'_>, message: &[u8], buffer: &mut [u8]) -> Result<(), WorkError> {
    let last = post.ranks().saturating_sub(1);
    if post.rank == 0 {
        post.send(last, message)?;
        post.receive(last, buffer)
    } else if post.rank == last {
        post.receive(0, buffer)?;
        post.send(0, message)
    } else {
        Ok(())
    }
}

/// A message from every rank to every other one.
fn all_to_all(post: &mut MessagePost<'_>, message: &[u8], buffer: &mut [u8]) -> Result<(), WorkError> {
    let (own, ranks) = (post.rank, post.ranks());
    (1..ranks).try_for_each(|step| {
        post.exchange((own + step) % ranks, message, (own + ranks - step) % ranks, buffer)
    })
}

/// One pattern and size, as a rank makes it.
#[derive(Debug, Clone, Copy)]
pub struct PatternTask {
    /// Pattern.
    pub pattern: MpiPattern,
    /// Size of each message.
    pub size: usize,
}

impl PatternTask {
    /// Makes so many iterations, each recorded where `times` is given; returns how long they took.
    ///
    /// # Errors
    /// A rank is gone, or the job is to end.
    pub fn iterate(
        &self,
        post: &mut MessagePost<'_>,
        buffers: &mut Buffers<'_>,
        count: u32,
        mut times: Option<&mut DenseHistogram>,
    ) -> Result<Duration, WorkError> {
        let message = buffers.message.get(..self.size).unwrap_or_default();
        let buffer = buffers.buffer.get_mut(..self.size).unwrap_or_default();
        let began = Instant::now();
        let mut last = Duration::ZERO;
        for _ in 0..count {
            match self.pattern {
                MpiPattern::PingPong => ping_pong(post, message, buffer)?,
                MpiPattern::AllToAll => all_to_all(post, message, buffer)?,
            }
            if let Some(times) = &mut times {
                let now = began.elapsed();
                times.record(u64::try_from(now.saturating_sub(last).as_nanos()).unwrap_or(u64::MAX));
                last = now;
            }
        }
        Ok(began.elapsed())
    }

    /// From whom the last message of an iteration comes; none when nobody sends to this rank.
    const fn last_sender(&self, own: u32, ranks: u32) -> Option<u32> {
        match self.pattern {
            MpiPattern::AllToAll if ranks > 1 => Some((own + 1) % ranks),
            MpiPattern::PingPong if own == 0 => Some(ranks - 1),
            MpiPattern::PingPong if own + 1 == ranks => Some(0),
            _ => None,
        }
    }

    /// Makes what a message of an earlier size has left unlike what is to come.
    pub fn spoil(&self, buffers: &mut Buffers<'_>) {
        let buffer = buffers.buffer.get_mut(..self.size).unwrap_or_default();
        if let Some(first) = buffer.first_mut() {
            *first = !*first;
        }
        if let Some(last) = buffer.last_mut().filter(|_| self.size > 1) {
            *last = !*last;
        }
    }

    /// Checks the last message that arrived.
    ///
    /// # Errors
    /// It is not what its sender sent.
    pub fn check(
        &self,
        post: &MessagePost<'_>,
        buffers: &Buffers<'_>,
        word: HelloWord,
    ) -> Result<(), WorkError> {
        let Some(from) = self.last_sender(post.rank, post.ranks()) else { return Ok(()) };
        let got = buffers.buffer.get(..self.size).unwrap_or_default();
        if filling(word, from).matches(got, 0) {
            return Ok(());
        }
        let own = post.rank;
        Err(WorkError::Unfit(format!(
            "a message of {} bytes from rank {from} arrived changed at rank {own}",
            self.size
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_message_comes_from_who_sends_in_the_last_step() {
        let task = |pattern| PatternTask { pattern, size: 1 };
        for ranks in 2..9u32 {
            for own in 0..ranks {
                let step = ranks - 1;
                let from = (own + ranks - step) % ranks;
                assert_eq!(task(MpiPattern::AllToAll).last_sender(own, ranks), Some(from));
            }
            assert_eq!(task(MpiPattern::PingPong).last_sender(0, ranks), Some(ranks - 1));
        }
        assert_eq!(task(MpiPattern::PingPong).last_sender(1, 3), None);
    }
}
