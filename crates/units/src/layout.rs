//! Layouts: how many hosts, how many instances on each, written `2x4`.
//!
//! A second host is another machine where the platform reaches several, and a network namespace joined by a virtual
//! cable where all of them stand for one machine: the code is the same.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Most hosts of a layout.
pub const MAX_HOSTS: u32 = 64;
/// Most instances of a layout.
pub const MAX_INSTANCES: u32 = 256;

/// Hosts × instances per host. Written and stored as text, `2x4`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Layout {
    hosts: u32,
    per_host: u32,
}

/// A text that is no layout.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{0}\" is no layout: wanted HOSTSxINSTANCES such as 1x2 or 2x4, at most {MAX_HOSTS} hosts and {MAX_INSTANCES} instances in all"
)]
pub struct BadLayout(String);

impl Layout {
    /// One instance alone.
    pub const SINGLE: Self = Self { hosts: 1, per_host: 1 };
    /// Two instances on one host.
    pub const PAIR: Self = Self { hosts: 1, per_host: 2 };

    /// `hosts` hosts with `per_host` instances each; none when a number is 0 or too large.
    pub fn new(hosts: u32, per_host: u32) -> Option<Self> {
        let fits = (1..=MAX_HOSTS).contains(&hosts)
            && per_host >= 1
            && hosts.checked_mul(per_host).is_some_and(|all| all <= MAX_INSTANCES);
        fits.then_some(Self { hosts, per_host })
    }

    /// Number of hosts.
    pub const fn hosts(self) -> u32 {
        self.hosts
    }

    /// Instances on each host.
    pub const fn per_host(self) -> u32 {
        self.per_host
    }

    /// Instances in all.
    pub const fn instances(self) -> u32 {
        self.hosts * self.per_host
    }

    /// The host of an instance. Instances are dealt out host by host in turn, so that the first two are on different
    /// hosts where there are two.
    pub const fn host_of(self, rank: u32) -> u32 {
        rank % self.hosts
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}x{}", self.hosts, self.per_host))
    }
}

impl FromStr for Layout {
    type Err = BadLayout;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || BadLayout(text.chars().take(40).collect());
        let (hosts, per_host) = text.split_once('x').ok_or_else(bad)?;
        let number = |digits: &str| digits.parse::<u32>().map_err(|_| bad());
        Self::new(number(hosts)?, number(per_host)?).ok_or_else(bad)
    }
}

impl TryFrom<String> for Layout {
    type Error = BadLayout;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Layout> for String {
    fn from(layout: Layout) -> Self {
        layout.to_string()
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Layout {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Layout".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "pattern": "^[1-9][0-9]*x[1-9][0-9]*$",
            "description": "hosts x instances per host, 2x4 for example"
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layout_comes_back_from_its_text_and_nonsense_does_not() {
        for (hosts, per_host) in [(1, 1), (1, 2), (2, 4), (64, 4)] {
            let layout = Layout::new(hosts, per_host).unwrap();
            assert_eq!(layout.to_string().parse(), Ok(layout));
        }
        for bad in ["", "x", "2", "2x", "x2", "0x1", "1x0", "-1x2", "65x1", "1x257", "99999999999x1"] {
            let error = bad.parse::<Layout>().unwrap_err();
            assert!(error.to_string().contains("is no layout"), "{error}");
        }
    }

    #[test]
    fn the_first_two_instances_are_on_two_hosts_where_there_are_two() {
        let layout = Layout::new(2, 2).unwrap();
        assert_eq!([0, 1, 2, 3].map(|rank| layout.host_of(rank)), [0, 1, 0, 1]);
        assert_eq!([0, 1].map(|rank| Layout::PAIR.host_of(rank)), [0, 0]);
    }
}
