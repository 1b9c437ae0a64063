//! What a user may set of the share probe, with defaults and bounds.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use units::Millis;

use units::bounds::{HOUR_MS, OutOfBounds, within};

/// Thread counts per curve at most.
const MOST_COUNTS: u32 = 6;

/// Parameters of the share probe, made by all instances of a layout: the first needs 1 … 2 E threads, the others E
/// and then 2 E each, where E is the number of CPUs they share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct ShareParams {
    /// How long per point of the curve, 50 ms … 1 h; several scheduling periods are needed.
    pub duration_ms: Millis,
    /// How long the threads work before each point is counted, 0 … 1 h: kernels take some tenths of a second to move
    /// threads between CPUs when others begin or end, and what holds until then is nobody's policy.
    pub settle_ms: Millis,
}

impl Default for ShareParams {
    fn default() -> Self {
        Self { duration_ms: Millis::from_millis(500), settle_ms: Millis::from_millis(500) }
    }
}

/// Threads of the first instance and of each other one in a phase of the share probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShareStep {
    /// Of the first instance.
    pub first: u32,
    /// Of each other instance.
    pub other: u32,
}

impl ShareParams {
    /// From the common start to the first phase: threads are started and the counter's rate is measured meanwhile.
    pub const LEAD: Duration = Duration::from_millis(100);
    /// Between two phases, so that a thread that was away at the end of one is there for the next.
    pub const PAUSE: Duration = Duration::from_millis(30);

    pub(crate) fn check(&self) -> Result<(), OutOfBounds> {
        within("probe.share.duration_ms", self.duration_ms.get(), 50, HOUR_MS)?;
        within("probe.share.settle_ms", self.settle_ms.get(), 0, HOUR_MS)
    }

    /// The phases for instances with `cpus` CPUs: each side alone, then every combination.
    pub fn steps(cpus: u32) -> Vec<ShareStep> {
        let cpus = cpus.max(1);
        let most = cpus.saturating_mul(2);
        let mut counts: Vec<u32> = if most <= MOST_COUNTS {
            (1..=most).collect()
        } else {
            vec![1, cpus / 2, cpus, cpus.saturating_add(cpus / 2), most]
        };
        counts.dedup();
        let mut steps = vec![ShareStep { first: cpus, other: 0 }, ShareStep { first: 0, other: cpus }];
        for other in [cpus, most] {
            steps.extend(counts.iter().map(|first| ShareStep { first: *first, other }));
        }
        steps
    }

    /// From the begin of one phase to that of the next.
    pub fn phase(&self) -> Duration {
        self.settle_ms
            .to_duration()
            .saturating_add(self.duration_ms.to_duration())
            .saturating_add(Self::PAUSE)
    }

    /// From the common start to the end of the last phase, for instances with `cpus` CPUs.
    pub fn takes(&self, cpus: u32) -> Duration {
        let phases = u32::try_from(Self::steps(cpus).len()).unwrap_or(u32::MAX);
        Self::LEAD.saturating_add(self.phase().saturating_mul(phases))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_side_is_measured_alone_and_then_in_every_combination() {
        let steps = ShareParams::steps(2);
        let text: Vec<String> = steps.iter().map(|step| format!("{}+{}", step.first, step.other)).collect();
        assert_eq!(text, ["2+0", "0+2", "1+2", "2+2", "3+2", "4+2", "1+4", "2+4", "3+4", "4+4"]);
        assert_eq!(ShareParams::steps(1).len(), 6);
        for cpus in [3, 4, 16, 1000] {
            let steps = ShareParams::steps(cpus);
            assert!(steps.len() <= 14, "{cpus}: {}", steps.len());
            assert!(steps.contains(&ShareStep { first: 2 * cpus, other: 2 * cpus }));
        }
    }

    #[test]
    fn all_phases_with_what_lies_between_them_make_the_whole() {
        let params =
            ShareParams { duration_ms: Millis::from_millis(200), settle_ms: Millis::from_millis(70) };
        assert_eq!(params.takes(2), Duration::from_millis(100 + 10 * 300));
        assert_eq!(params.takes(1), Duration::from_millis(100 + 6 * 300));
    }
}
