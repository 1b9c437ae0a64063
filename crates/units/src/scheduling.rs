//! How the threads of a probe were scheduled, where its figures hang on it.
//!
//! A real-time thread does not wait for ordinary ones, so what it waits for at all is something else than what an ordinary
//! thread waits for: figures of the two are not held against each other. Source: `sched(7)`.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Policy and priority of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Scheduling {
    /// As an ordinary thread.
    Normal,
    /// `SCHED_FIFO`.
    Fifo {
        /// From 1 to 99.
        priority: u32,
    },
}

impl fmt::Display for Scheduling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Normal => f.write_str("normal priority"),
            Self::Fifo { priority } => write!(f, "FIFO {priority}"),
        }
    }
}

/// Why figures of threads scheduled like these may not be held against those of the others; none when they may, or nothing
/// is known of one side. Each side lists every way that occurred: where one is mixed, nobody can tell them apart.
pub fn incomparable(this: &[Scheduling], other: &[Scheduling]) -> Option<String> {
    let all: BTreeSet<&Scheduling> = this.iter().chain(other).collect();
    let is_known = !this.is_empty() && !other.is_empty();
    (is_known && all.len() > 1).then(|| format!("not comparable: {} against {}", words(this), words(other)))
}

fn words(ways: &[Scheduling]) -> String {
    ways.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_scheduled_alike_is_compared() {
        let (fifo, low, normal) =
            (Scheduling::Fifo { priority: 80 }, Scheduling::Fifo { priority: 1 }, Scheduling::Normal);
        assert_eq!(incomparable(&[fifo], &[fifo]), None);
        assert_eq!(incomparable(&[normal], &[normal]), None);
        assert_eq!(incomparable(&[], &[normal]), None, "probes that ask for nothing, and old files");
        let why = incomparable(&[fifo], &[normal]).unwrap();
        assert_eq!(why, "not comparable: FIFO 80 against normal priority");
        assert_eq!(incomparable(&[low], &[fifo]).unwrap(), "not comparable: FIFO 1 against FIFO 80");
        let mixed = [normal, fifo];
        assert!(incomparable(&mixed, &mixed).unwrap().contains("normal priority and FIFO 80 against"));
    }
}
