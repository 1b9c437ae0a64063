//! The mixed load: a quarter of its threads each arithmetic, memory, disk, network.
//!
//! ```text
//!  8 threads:  0 cpu   1 memory   2 disk   3 network   4 cpu   5 memory   6 disk   7 network
//!  6 threads:  0 cpu   1 memory   2 disk   3 network   4, 5: all four in turns of 5 ms
//!  2 threads:  all four in turns of 5 ms, each thread beginning with another one
//! ```

use std::time::{Duration, Instant};

use super::stressors::{Done, Post, Stressor, make};
use crate::error::WorkError;
use units::names::LoadKind;

/// What it is mixed of.
const PARTS: &[(LoadKind, &str)] = LoadKind::Mixed.parts();
/// How long a thread that does all four stays with one.
const TURN: Duration = Duration::from_millis(5);

/// One thread of the mixed load.
pub struct Mixture {
    members: Vec<Member>,
    current: usize,
    turn_ends: Instant,
}

struct Member {
    part: usize,
    stressor: Box<dyn Stressor>,
}

impl Mixture {
    /// The part, or all parts, of one thread. Each has worked once when this returns.
    ///
    /// # Errors
    /// The machine lacks what one of them needs.
    pub fn new(post: &Post<'_>) -> Result<Self, WorkError> {
        let mut members = Vec::new();
        for part in parts_of(post.number, post.threads) {
            let Some((kind, _)) = PARTS.get(part) else { continue };
            let alike = (0..post.threads).filter(|number| parts_of(*number, post.threads).contains(&part));
            let threads = u32::try_from(alike.count()).unwrap_or(u32::MAX);
            let named =
                |error: WorkError| WorkError::Unfit(format!("its {kind} part could not begin: {error}"));
            let made = make(*kind, &Post { threads, ..*post }).map_err(named)?;
            let Some(mut stressor) = made else { continue };
            stressor.round().map_err(named)?;
            members.push(Member { part, stressor });
        }
        Ok(Self { members, current: 0, turn_ends: Instant::now() + TURN })
    }
}

/// What a thread does: one part in whole groups of four threads, all parts in turns beyond them.
fn parts_of(number: u32, threads: u32) -> Vec<usize> {
    let first = number as usize % PARTS.len();
    if number < threads / 4 * 4 {
        vec![first]
    } else {
        (0..PARTS.len()).map(|step| (first + step) % PARTS.len()).collect()
    }
}

impl Stressor for Mixture {
    fn round(&mut self) -> Result<Done, WorkError> {
        if self.members.len() > 1 {
            let now = Instant::now();
            if now >= self.turn_ends {
                self.current = (self.current + 1) % self.members.len();
                self.turn_ends = now + TURN;
            }
        }
        let Some(member) = self.members.get_mut(self.current) else { return Ok(Done::default()) };
        let amount = member.stressor.round()?.whole;
        // A piece of work that did nothing is none.
        let mut done = Done::of(u64::from(amount > 0));
        if let Some(part) = done.parts.get_mut(member.part) {
            *part = amount;
        }
        Ok(done)
    }

    fn way(&self) -> Option<String> {
        let way = self.members.iter().find_map(|member| member.stressor.way())?;
        Some(format!("its network part: {way}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_alone_does_all_four_in_turns() {
        let folder = tempfile::tempdir().unwrap();
        let lock = std::sync::Arc::default();
        let post = Post { number: 0, threads: 1, scratch: Some(folder.path()), lock: &lock, outlet: None };
        let mut mixture = Mixture::new(&post).unwrap();
        let mut sums = [0; PARTS.len()];
        let end = Instant::now() + Duration::from_secs(60);
        while sums.contains(&0) && Instant::now() < end {
            let done = mixture.round().unwrap();
            assert!(done.parts.iter().filter(|part| **part > 0).count() as u64 == done.whole, "{done:?}");
            for (sum, part) in sums.iter_mut().zip(done.parts) {
                *sum += part;
            }
        }
        assert!(!sums.contains(&0), "{sums:?}");
    }

    #[test]
    fn whole_groups_of_four_have_one_part_each_and_the_rest_have_all() {
        assert_eq!(parts_of(0, 4), [0]);
        assert_eq!(parts_of(6, 8), [2]);
        assert_eq!(parts_of(4, 6), [0, 1, 2, 3]);
        assert_eq!(parts_of(1, 2), [1, 2, 3, 0]);
        for threads in 1..13 {
            for part in 0..PARTS.len() {
                let who = (0..threads).filter(|number| parts_of(*number, threads).contains(&part)).count();
                assert!(who > 0, "nobody of {threads} does part {part}");
            }
        }
    }
}
