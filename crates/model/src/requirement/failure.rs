//! Which part fails on purpose, and who notices.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::OneOrMore;
use crate::partition::is_name;
use units::names::nearest;
use units::{Millis, Reason};

/// A part of a set that is made to fail, written `qemu.db`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum InjectedFailure {
    /// `program.NAME`: the partition's own program is killed.
    Program(String),
    /// `qemu.NAME`: its QEMU is killed.
    Qemu(String),
    /// `partition.NAME`: its QEMU and who looks after it.
    Partition(String),
    /// `domain.NAME`: all partitions of a failure domain at once, each as `partition.NAME`.
    Domain(String),
    /// `switch.NETWORK.LINK`: the switch of a link is killed.
    Switch(String, u32),
    /// `link.NETWORK.LINK`: the switch of a link stands still for a while, and carries nothing.
    Link(String, u32),
    /// `cable.NETWORK.LINK@NAME`: what leads from a partition to the switch of a link is pulled out for a while.
    Cable(String, u32, String),
    /// `disk.NAME`: all that a partition may write to on the host is full for a while.
    Disk(String),
    /// `clock.NAME`: the clock service in a partition stands still for a while; `clock`: that of the host.
    Clock(Option<String>),
    /// `host`: all partitions and switches of the set at once.
    Host,
}

impl InjectedFailure {
    /// The partition that is hit, where it is one.
    pub fn partition(&self) -> Option<&str> {
        match self {
            Self::Program(name)
            | Self::Qemu(name)
            | Self::Partition(name)
            | Self::Disk(name)
            | Self::Cable(_, _, name) => Some(name),
            Self::Clock(name) => name.as_deref(),
            Self::Switch(..) | Self::Link(..) | Self::Domain(_) | Self::Host => None,
        }
    }

    /// Whether it lasts as long as it is held, and is noticed late, if at all.
    pub const fn stays(&self) -> bool {
        matches!(self, Self::Disk(_) | Self::Clock(_))
    }

    /// Whether it lasts until somebody takes it back; what is killed is started again.
    pub const fn is_held(&self) -> bool {
        matches!(self, Self::Disk(_) | Self::Clock(_) | Self::Cable(..) | Self::Link(..))
    }

    /// The network that is hit, where it is one.
    pub fn network(&self) -> Option<(&str, u32)> {
        match self {
            Self::Switch(name, link) | Self::Link(name, link) | Self::Cable(name, link, _) => {
                Some((name, *link))
            }
            _ => None,
        }
    }
}

/// What stands before the name of a part.
const KINDS: [&str; 9] =
    ["program", "qemu", "partition", "domain", "switch", "link", "cable", "disk", "clock"];

impl FromStr for InjectedFailure {
    type Err = Reason;

    fn from_str(text: &str) -> Result<Self, Reason> {
        let shown: String = text.chars().take(80).collect();
        let wanted = || {
            Reason::from(format!(
                "\"{shown}\" is no part that can fail: wanted program.NAME, qemu.NAME, partition.NAME, domain.NAME, \
                 switch.NETWORK.LINK, link.NETWORK.LINK, cable.NETWORK.LINK@NAME, disk.NAME, clock.NAME, clock, or host"
            ))
        };
        if text == "host" {
            return Ok(Self::Host);
        }
        if text == "clock" {
            return Ok(Self::Clock(None));
        }
        let (kind, rest) = text.split_once('.').ok_or_else(wanted)?;
        let linked = |rest: &str| {
            let (network, link) = rest.rsplit_once('.').ok_or_else(wanted)?;
            if !is_name(network) {
                return Err(wanted());
            }
            Ok((network.to_owned(), link.parse().map_err(|_| wanted())?))
        };
        let named = |name: &str| if is_name(name) { Ok(name.to_owned()) } else { Err(wanted()) };
        match kind {
            "cable" => {
                let (link, name) = rest.split_once('@').ok_or_else(wanted)?;
                let ((network, link), name) = (linked(link)?, named(name)?);
                Ok(Self::Cable(network, link, name))
            }
            "disk" => named(rest).map(Self::Disk),
            "clock" => named(rest).map(|name| Self::Clock(Some(name))),
            "program" => named(rest).map(Self::Program),
            "qemu" => named(rest).map(Self::Qemu),
            "partition" => named(rest).map(Self::Partition),
            "domain" => named(rest).map(Self::Domain),
            "switch" => linked(rest).map(|(network, link)| Self::Switch(network, link)),
            "link" => linked(rest).map(|(network, link)| Self::Link(network, link)),
            _ => Err(nearest(kind, &KINDS).map_or_else(wanted, |near| {
                format!("\"{shown}\" is no part that can fail; did you mean \"{near}.{rest}\"?").into()
            })),
        }
    }
}

impl fmt::Display for InjectedFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program(name) => f.pad(&format!("program.{name}")),
            Self::Qemu(name) => f.pad(&format!("qemu.{name}")),
            Self::Partition(name) => f.pad(&format!("partition.{name}")),
            Self::Domain(name) => f.pad(&format!("domain.{name}")),
            Self::Switch(network, link) => f.pad(&format!("switch.{network}.{link}")),
            Self::Link(network, link) => f.pad(&format!("link.{network}.{link}")),
            Self::Cable(network, link, name) => f.pad(&format!("cable.{network}.{link}@{name}")),
            Self::Disk(name) => f.pad(&format!("disk.{name}")),
            Self::Clock(Some(name)) => f.pad(&format!("clock.{name}")),
            Self::Clock(None) => f.pad("clock"),
            Self::Host => f.pad("host"),
        }
    }
}

impl TryFrom<String> for InjectedFailure {
    type Error = Reason;

    fn try_from(text: String) -> Result<Self, Reason> {
        text.parse()
    }
}

impl From<InjectedFailure> for String {
    fn from(failure: InjectedFailure) -> Self {
        failure.to_string()
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for InjectedFailure {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "InjectedFailure".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "pattern": "^(host|clock|(program|qemu|partition|domain|disk|clock)\\.[^ ]+|(switch|link)\\.[^ ]+\\.[0-9]+|cable\\.[^ ]+\\.[0-9]+@[^ ]+)$",
            "description": "A part that is made to fail: program.NAME, qemu.NAME, partition.NAME, domain.NAME, switch.NETWORK.LINK, link.NETWORK.LINK, cable.NETWORK.LINK@NAME, disk.NAME, clock.NAME, clock, host."
        })
    }
}

/// Who asks the set again and again from outside, and so notices when it is gone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Client {
    /// What counts as an answer.
    pub kind: ClientKind,
    /// Where it asks: a port of the set on this host, `127.0.0.1:8080`. Of several it asks the first until that does not answer in time,
    /// then the next, and after the last the first again.
    pub at: OneOrMore<SocketAddr>,
    /// For `http`: what it asks for.
    #[serde(default = "root_path")]
    pub path: String,
    /// How often it asks, 1 … 10,000 ms.
    #[serde(default = "usual_period")]
    pub period_ms: Millis,
    /// When an answer is late: 1 … 600,000 ms.
    #[serde(default = "usual_within")]
    pub answer_within_ms: Millis,
    /// Of a metric of capacity: clients that ask at once, 1 … 512, each as soon as it has its answer.
    #[serde(default = "usual_concurrency", skip_serializing_if = "is_usual_concurrency")]
    pub concurrency: u32,
}

/// Clients that ask at once unless said otherwise.
pub const USUAL_CONCURRENCY: u32 = 8;

const fn usual_concurrency() -> u32 {
    USUAL_CONCURRENCY
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it")]
const fn is_usual_concurrency(concurrency: &u32) -> bool {
    *concurrency == USUAL_CONCURRENCY
}

fn root_path() -> String {
    "/".to_owned()
}

const fn usual_period() -> Millis {
    Millis::from_millis(10)
}

const fn usual_within() -> Millis {
    Millis::from_millis(1000)
}

/// What counts as an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ClientKind {
    /// The first byte of a server that speaks first (SSH, SMTP), on a new connection each time.
    Greeting,
    /// A status from 200 to 399 of HTTP, on a new connection each time.
    Http,
    /// The same line back over a connection that is kept: lines are numbered, so lost and doubled ones are counted.
    Echo,
}
