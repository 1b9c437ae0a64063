//! The state word of a section: what its writer is doing, and in which generation.
//!
//! ```text
//!               start: generation + 1, from any state
//!        ┌───────────────┬──────────────┬────────────┐
//!        ▼               │              │            │
//!  Absent ──► Starting ──┴► Ready ──────┴► Draining ─┴► Gone ──► Starting (generation + 1)
//!                 │           │                          ▲
//!                 └───────────┴──────────── end ─────────┘
//! ```
//!
//! State and generation are one 64-bit word (generation in the upper 56 bits), so a reader always sees a pair that
//! was really there. A crashed writer leaves any state behind, therefore start is legal from all of them.

use std::fmt;

/// Generations end here, because sessions carry them in 47 bits (milliseconds since 1970 fit for 4400 years).
pub(crate) const MOST_GENERATION: u64 = (1 << 47) - 1;

/// What the writer of a section is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// Nobody has written this section yet.
    Absent,
    /// The writer lays out header and rings; nothing else may be read.
    Starting,
    /// Header and rings are valid.
    Ready,
    /// The writer ends: it takes no new links, what it sent can still be read.
    Draining,
    /// The writer has ended in good order; what it sent can still be read.
    Gone,
}

/// What moves a writer from one state to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// A writer takes the section over.
    Start,
    /// Everything is laid out.
    Open,
    /// No new links.
    Drain,
    /// The writer ends.
    End,
}

impl State {
    /// All states, in order.
    pub const ALL: [Self; 5] = [Self::Absent, Self::Starting, Self::Ready, Self::Draining, Self::Gone];

    /// The state after a step, or nothing if the step is not allowed here.
    pub fn after(self, step: Step) -> Option<Self> {
        match (self, step) {
            (_, Step::Start) => Some(Self::Starting),
            (Self::Starting, Step::Open) => Some(Self::Ready),
            (Self::Ready, Step::Drain) => Some(Self::Draining),
            (Self::Starting | Self::Ready | Self::Draining, Step::End) => Some(Self::Gone),
            _ => None,
        }
    }

    /// Place in a generation's life; it only grows.
    fn rank(self) -> u64 {
        match self {
            Self::Absent => 0,
            Self::Starting => 1,
            Self::Ready => 2,
            Self::Draining => 3,
            Self::Gone => 4,
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Absent => "absent",
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Draining => "draining",
            Self::Gone => "gone",
        })
    }
}

/// State and generation, as they stand in the section.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StateWord {
    /// What the writer is doing.
    pub state: State,
    /// Which start of the writer this is; larger than every earlier one.
    pub generation: u64,
}

/// What changed between two looks at a peer's state word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Nothing.
    Same,
    /// The same generation went on to a later state.
    Advanced,
    /// There is a new generation.
    Restarted,
    /// No writer that keeps the rules could have done this.
    Impossible,
}

impl StateWord {
    /// The word of a section that nobody has written.
    pub const ABSENT: Self = Self { state: State::Absent, generation: 0 };

    /// Reads a word; nothing when it is none.
    pub fn decode(word: u64) -> Option<Self> {
        let (generation, rank) = (word >> 8, word & 0xff);
        let state = State::ALL.into_iter().find(|state| state.rank() == rank)?;
        let legal = if state == State::Absent { generation == 0 } else { generation != 0 };
        (legal && generation <= MOST_GENERATION).then_some(Self { state, generation })
    }

    /// The 64 bits.
    pub fn encode(self) -> u64 {
        self.generation << 8 | self.state.rank()
    }

    /// The word after a step. A start takes the generation `at_least`, or the next one if that is larger.
    pub fn after(self, step: Step, at_least: u64) -> Option<Self> {
        let state = self.state.after(step)?;
        let generation = match step {
            Step::Start => at_least.max(self.generation.checked_add(1)?),
            _ => self.generation,
        };
        (generation <= MOST_GENERATION).then_some(Self { state, generation })
    }

    /// What a reader that saw `self` before and sees `now` makes of it. States between two looks may be missed.
    pub fn change_to(self, now: Self) -> Change {
        match now.generation.cmp(&self.generation) {
            std::cmp::Ordering::Greater => Change::Restarted,
            std::cmp::Ordering::Equal if now.state == self.state => Change::Same,
            std::cmp::Ordering::Equal if now.state.rank() > self.state.rank() => Change::Advanced,
            _ => Change::Impossible,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    const STEPS: [Step; 4] = [Step::Start, Step::Open, Step::Drain, Step::End];

    /// Every word that a writer can reach from `from` within a few steps.
    fn reachable(from: StateWord, depth: u32) -> HashSet<StateWord> {
        let mut seen = HashSet::from([from]);
        for _ in 0..depth {
            let next: Vec<_> =
                seen.iter().flat_map(|word| STEPS.map(|step| word.after(step, 0))).flatten().collect();
            seen.extend(next);
        }
        seen
    }

    #[test]
    fn every_pair_of_looks_is_judged_as_the_writers_steps_allow() {
        let words: Vec<StateWord> = (0..=3)
            .flat_map(|generation| State::ALL.map(|state| StateWord { state, generation }))
            .filter(|word| StateWord::decode(word.encode()).is_some())
            .collect();
        assert_eq!(words.len(), 13, "absent once, four states in three generations");
        for &before in &words {
            let can_follow = reachable(before, 16);
            for &now in &words {
                let change = before.change_to(now);
                let possible = change != Change::Impossible;
                assert_eq!(possible, can_follow.contains(&now), "{before:?} then {now:?}: {change:?}");
                assert_eq!(change == Change::Same, before == now);
                assert_eq!(change == Change::Restarted, now.generation > before.generation);
            }
        }
    }

    #[test]
    fn the_table_of_steps_is_what_the_picture_shows() {
        let allowed: Vec<(State, Step, State)> = State::ALL
            .into_iter()
            .flat_map(|state| STEPS.map(|step| (state, step)))
            .filter_map(|(state, step)| Some((state, step, state.after(step)?)))
            .collect();
        let others: Vec<_> = allowed.iter().filter(|(_, step, _)| *step != Step::Start).copied().collect();
        assert_eq!(allowed.len() - others.len(), State::ALL.len(), "start is possible from everywhere");
        assert_eq!(
            others,
            [
                (State::Starting, Step::Open, State::Ready),
                (State::Starting, Step::End, State::Gone),
                (State::Ready, Step::Drain, State::Draining),
                (State::Ready, Step::End, State::Gone),
                (State::Draining, Step::End, State::Gone),
            ]
        );
    }

    #[test]
    fn every_low_byte_and_the_edges_of_the_generation_decode_to_a_legal_word_or_none() {
        for low in 0..=255_u64 {
            for generation in
                [0, 1, 2, MOST_GENERATION - 1, MOST_GENERATION, MOST_GENERATION + 1, (1 << 56) - 1]
            {
                let word = generation << 8 | low;
                let legal = match low {
                    0 => generation == 0,
                    1..=4 => (1..=MOST_GENERATION).contains(&generation),
                    _ => false,
                };
                assert_eq!(StateWord::decode(word).is_some(), legal, "{word:#x}");
                assert!(StateWord::decode(word).is_none_or(|read| read.encode() == word));
            }
        }
    }

    #[test]
    fn generations_grow_and_end() {
        let first = StateWord::ABSENT.after(Step::Start, 7).expect("a start");
        assert_eq!(first.generation, 7);
        assert_eq!(first.after(Step::Start, 3).map(|word| word.generation), Some(8));
        let last = StateWord { state: State::Gone, generation: MOST_GENERATION };
        assert_eq!(last.after(Step::Start, 0), None);
    }
}
