//! What is set: the configurations whose names are scored, and the name that each should get.

#![allow(dead_code, reason = "the test of the score needs a part of it")]

use bulkhead::model::experiment::PlatformSpec;
use bulkhead::model::policy::SharingPolicy;
use bulkhead::units::names::PlatformKind;

/// What shares this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Real processes, a run of one round.
    Processes,
    /// Real virtual machines, a run of the three rounds that the full experiment makes at least.
    Machines,
}

impl Kind {
    pub const ALL: [Self; 2] = [Self::Processes, Self::Machines];

    pub const fn word(self) -> &'static str {
        match self {
            Self::Processes => "processes",
            Self::Machines => "machines",
        }
    }

    /// Rounds of a run unless said otherwise.
    pub const fn rounds(self) -> usize {
        match self {
            Self::Processes => 1,
            Self::Machines => 3,
        }
    }
}

/// What two instances are granted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Grant {
    /// Nothing: the kernel shares among threads.
    Plain,
    /// A group each, as `cpu_weight` alone makes them.
    Equal,
    /// The first one's weight over the other one's.
    Weight(u32),
    /// At most this many percent of one CPU for each.
    Cap(u32),
}

impl Grant {
    pub const ALL: [Self; 10] = [
        Self::Plain,
        Self::Equal,
        Self::Weight(1),
        Self::Weight(2),
        Self::Weight(3),
        Self::Weight(4),
        Self::Cap(30),
        Self::Cap(50),
        Self::Cap(60),
        Self::Cap(80),
    ];

    pub fn label(self) -> String {
        match self {
            Self::Plain => "plain".to_owned(),
            Self::Equal => "equal".to_owned(),
            Self::Weight(weight) => format!("{weight} : 1"),
            Self::Cap(percent) => format!("cap {percent} %"),
        }
    }

    pub fn spec(self, kind: Kind) -> PlatformSpec {
        let platform = match kind {
            Kind::Processes => PlatformKind::Native,
            Kind::Machines => PlatformKind::Vm,
        };
        let spec = PlatformSpec::of_kind(platform);
        match self {
            Self::Plain => spec,
            Self::Equal => PlatformSpec { cpu_weight: Some(100), ..spec },
            Self::Weight(weight) => {
                PlatformSpec { cpu_weight: Some(100 * weight), other_cpu_weight: Some(100), ..spec }
            }
            Self::Cap(percent) => PlatformSpec { cpu_cap_percent: Some(percent), ..spec },
        }
    }

    /// Instances that root starts begin in CPU groups of their own, all of the same weight. Before they did (and were compared with
    /// containers, which always have), plain processes shared per thread and plain machines in proportion to need.
    pub const fn policy(self, _kind: Kind) -> SharingPolicy {
        match self {
            Self::Plain | Self::Equal | Self::Weight(1) => SharingPolicy::EqualPerInstance,
            Self::Weight(_) => SharingPolicy::Weighted,
            Self::Cap(_) => SharingPolicy::Capped,
        }
    }

    /// The parameter that was set, where the policy has one.
    pub fn parameter(self) -> Option<f64> {
        match self {
            Self::Weight(weight) if weight > 1 => Some(f64::from(weight)),
            Self::Cap(percent) => Some(f64::from(percent) / 100.0),
            _ => None,
        }
    }
}
