//! What rests between the jobs of an agent, so that a measurement need not set it up anew: loads, and arrays of probes. The memory
//! load alone takes 140 ms for its own.
//!
//! ```text
//!  job ends ─► keep: at rest ─── next job with this load ─► take: goes on
//!                       └─────── little memory left ─► ended
//! ```
//! Only one team of each kind and size rests, and none that sends packets: what comes back meanwhile would be counted later.

use std::sync::{Mutex, PoisonError};

use super::team::Team;
use crate::armed::Armed;
use crate::job::LoadSpec;
use crate::machine::{available_memory, last_level_cache};

/// Most loads that rest at once.
const MOST: usize = 16;

/// Loads that rest, and what probes have laid out.
#[derive(Debug, Default)]
pub struct Resting {
    teams: Mutex<Vec<(LoadSpec, Team)>>,
    pub(crate) arrays: Armed,
}

impl Resting {
    /// One that rests and can go on.
    pub(crate) fn take(&self, spec: &LoadSpec) -> Option<Team> {
        let mut teams = self.teams.lock().unwrap_or_else(PoisonError::into_inner);
        let at = teams.iter().position(|(resting, _)| resting == spec)?;
        let (_, team) = teams.swap_remove(at);
        team.is_whole().then_some(team)
    }

    /// Keeps one that rests, or ends it.
    pub(crate) fn keep(&self, spec: &LoadSpec, team: Team) {
        let mut teams = self.teams.lock().unwrap_or_else(PoisonError::into_inner);
        let is_there = teams.iter().any(|(resting, _)| resting == spec);
        if !spec.kind.sends_packets() && !is_there && teams.len() < MOST && team.is_whole() && is_roomy() {
            teams.push((spec.clone(), team));
        }
    }
}

/// Whether there is room for arrays beyond the caches once more.
fn is_roomy() -> bool {
    let arrays = last_level_cache().map_or(0, |cache| cache.get().saturating_mul(4));
    available_memory().is_some_and(|left| left.get() > arrays)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

    use super::*;
    use crate::bounds::Bounds;
    use units::Millis;
    use units::names::LoadKind;

    fn working(team: &mut Team) {
        let stop = AtomicBool::new(false);
        team.wait_until_working(Bounds::starting_now(&stop, Millis::from_millis(60_000))).unwrap();
    }

    fn spec(kind: LoadKind) -> LoadSpec {
        LoadSpec { kind, threads: Some(2) }
    }

    #[test]
    fn what_rests_does_nothing_and_counts_anew_when_it_goes_on() {
        let resting = Resting::default();
        let folder = tempfile::tempdir().unwrap();
        for kind in [LoadKind::Cpu, LoadKind::Memory, LoadKind::Disk, LoadKind::Lock, LoadKind::Idle] {
            let spec = spec(kind);
            let mut team = Team::start(&spec, Some(folder.path()), None).unwrap();
            working(&mut team);
            std::thread::sleep(Duration::from_millis(60));
            let first = team.rest();
            std::thread::sleep(Duration::from_millis(100));
            resting.keep(&spec, team);
            let mut again = resting.take(&spec).expect("it rests");
            assert!(resting.take(&spec).is_none(), "there is one only");
            again.go_on();
            working(&mut again);
            std::thread::sleep(Duration::from_millis(60));
            let second = again.rest();
            let is_busy = kind != LoadKind::Idle;
            assert_eq!((first.rate_per_s > 0.0, second.rate_per_s > 0.0), (is_busy, is_busy), "{kind}");
            // Nothing of the rest is in it, however late this thread was.
            assert!(second.elapsed_ns.get() >= 60_000_000, "{kind}");
            assert!(
                second.cpu_time_ns.get() <= 2 * second.elapsed_ns.get() + 20_000_000,
                "{kind}: {second:?}"
            );
            resting.keep(&spec, again);
        }
    }

    #[test]
    fn what_sends_packets_and_what_broke_does_not_rest() {
        let resting = Resting::default();
        let spec_of = spec(LoadKind::Network);
        let mut team = Team::start(&spec_of, None, None).unwrap();
        working(&mut team);
        team.rest();
        resting.keep(&spec_of, team);
        assert!(resting.take(&spec_of).is_none());
        let broken = spec(LoadKind::Disk);
        let mut team = Team::start(&broken, None, None).unwrap();
        let stop = AtomicBool::new(false);
        assert!(team.wait_until_working(Bounds::starting_now(&stop, Millis::from_millis(60_000))).is_err());
        team.rest();
        resting.keep(&broken, team);
        assert!(resting.take(&broken).is_none());
    }
}
