//! Notices on the host that a rank is frozen while the job waits for it: Open MPI's launcher waits without end for what
//! it had started in a partition that stands still.
//!
//! ```text
//!  heartbeat of each section ─► moved? ─► since when not? ─┬─ all stopped together ─► whoever stopped them goes on
//!                                                          └─ one long before others ─► frozen
//! ```

use std::time::{Duration, Instant};

use channel::{PeerSection, State};

/// A rank whose heart stands still for so long is given up. Its peers do so earlier, and most jobs end by that.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(30);
/// Hearts that stopped closer to each other than this stopped together, as when the job is stopped.
const TOGETHER: Duration = Duration::from_secs(4);
/// Time between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Who did not look for so long was stopped, too, and knows nothing of the time between.
const SLEPT: Duration = Duration::from_secs(5);

/// The hearts of all ranks.
#[derive(Debug)]
pub struct RankHeartbeat {
    /// None where the section cannot be read; such a rank is looked at when the job has ended.
    ranks: Vec<Option<Heart>>,
    looked: Instant,
}

#[derive(Debug)]
struct Heart {
    section: PeerSection,
    seen: Seen,
    since: Instant,
}

/// What a look found; a rank that is not ready needs no heart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    is_ready: bool,
    beat: u64,
}

impl RankHeartbeat {
    /// Begins to look.
    pub fn new(sections: Vec<Option<PeerSection>>, now: Instant) -> Self {
        let heart = |section: PeerSection| Heart { seen: look(&section), section, since: now };
        Self { ranks: sections.into_iter().map(|section| section.map(heart)).collect(), looked: now }
    }

    /// The first rank that is frozen, and for how long. Looks once a second, however often it is called.
    pub fn frozen(&mut self, now: Instant) -> Option<(usize, Duration)> {
        let passed = now.saturating_duration_since(self.looked);
        if passed < LOOK_EVERY {
            return None;
        }
        self.looked = now;
        for heart in self.ranks.iter_mut().flatten() {
            let seen = look(&heart.section);
            if seen != heart.seen || passed > SLEPT {
                (heart.seen, heart.since) = (seen, now);
            }
        }
        let last = self.ranks.iter().flatten().map(|heart| heart.since).max()?;
        self.ranks.iter().enumerate().find_map(|(rank, heart)| {
            let heart = heart.as_ref().filter(|heart| heart.seen.is_ready)?;
            let silent = now.saturating_duration_since(heart.since);
            let is_alone = last.saturating_duration_since(heart.since) >= TOGETHER;
            (silent >= GIVEN_UP_AFTER && is_alone).then_some((rank, silent))
        })
    }
}

fn look(section: &PeerSection) -> Seen {
    let is_ready = section.state().is_ok_and(|word| matches!(word.state, State::Ready | State::Draining));
    Seen { is_ready, beat: section.beat() }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use channel::{Layout, Memory, Section};

    use super::*;

    /// Sections of two ranks, whose hearts beat until they are forgotten.
    fn two() -> (tempfile::TempDir, Vec<Option<Section>>, RankHeartbeat, Instant) {
        let folder = tempfile::tempdir().unwrap();
        let paths: Vec<_> = (0..2).map(|rank| folder.path().join(rank.to_string())).collect();
        let make = |path: &PathBuf| {
            std::fs::write(path, vec![0; 1 << 20]).unwrap();
            Some(Section::create_in(Memory::writable(path).unwrap(), &Layout::new(2).ring(1, 4096)).unwrap())
        };
        let sections = paths.iter().map(make).collect();
        let peer = |path: &PathBuf| Some(PeerSection::new(Memory::readable(path).unwrap()).unwrap());
        let now = Instant::now();
        (folder, sections, RankHeartbeat::new(paths.iter().map(peer).collect(), now), now)
    }

    /// Looks at a pretended second, after real hearts had time to beat.
    fn after(heartbeat: &mut RankHeartbeat, begin: Instant, seconds: u64) -> Option<usize> {
        std::thread::sleep(Duration::from_millis(80));
        heartbeat.frozen(begin + Duration::from_secs(seconds)).map(|(rank, _)| rank)
    }

    /// What is left in memory when a process is killed: all but the beats.
    fn kill(folder: &tempfile::TempDir, section: &mut Option<Section>, rank: usize) {
        let path = folder.path().join(rank.to_string());
        let as_it_was = std::fs::read(&path).unwrap();
        drop(section.take());
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &as_it_was, 0).unwrap();
    }

    #[test]
    fn one_that_stands_still_while_another_lives_is_frozen() {
        let (folder, mut sections, mut heartbeat, begin) = two();
        assert!((1..40).step_by(4).all(|second| after(&mut heartbeat, begin, second).is_none()), "both live");
        kill(&folder, &mut sections[1], 1);
        let found: Vec<_> =
            (41..80).step_by(4).filter_map(|second| after(&mut heartbeat, begin, second)).collect();
        assert!(!found.is_empty() && found.iter().all(|rank| *rank == 1), "{found:?}");
    }

    #[test]
    fn a_rank_that_closed_is_not_frozen_nor_are_all_that_stopped_together() {
        let (folder, mut sections, mut heartbeat, begin) = two();
        drop(sections[1].take());
        assert!((1..60).step_by(4).all(|second| after(&mut heartbeat, begin, second).is_none()), "it closed");
        let (other, mut both, mut heartbeat, begin) = two();
        (0..2).for_each(|rank| kill(&other, &mut both[rank], rank));
        assert!(
            (1..60).step_by(2).all(|second| after(&mut heartbeat, begin, second).is_none()),
            "all stopped"
        );
        drop(folder);
    }

    #[test]
    fn who_slept_knows_nothing() {
        let (folder, mut sections, mut heartbeat, begin) = two();
        kill(&folder, &mut sections[0], 0);
        assert_eq!(after(&mut heartbeat, begin, 100), None, "the time between is nobody's");
    }
}
