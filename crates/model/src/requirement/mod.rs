//! Requirements: what must hold of a set that is up, under which load and failure, and how sure one must be.
//!
//! ```text
//!  [requirement.ID] ─► Requirement ─┬► subject   a partition, a pair, a network, the host, the set
//!   (system.toml, a set's file,     ├► metric    a probe's figure, a property, an outage, a command's number
//!    or a file of their own)        ├► limit     with its unit
//!                                   └► load, failure, confidence
//! ```
//! Everything that can be told from the file alone is told here, each at its line.

mod check;
mod failure;
mod limit;
mod metric;
mod one_or_more;
mod read;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

pub use failure::{Client, ClientKind, InjectedFailure};
pub use limit::RequiredLimit;
pub use metric::{
    CapacityMetric, CountedBy, HostProperty, NetworkProperty, OutageMetric, PairProperty, PlacementProperty,
    RequiredMetric, ResponseMetric,
};
pub use one_or_more::OneOrMore;
pub use read::{KEY, RequirementFile};

use probes::job::LoadSpec;
use units::names::LoadKind;

/// Most requirements of a file.
pub const MOST_REQUIREMENTS: usize = 10_000;
/// Longest id, in bytes.
pub const LONGEST_ID: usize = 64;
/// Longest text of a requirement, in bytes.
pub const LONGEST_TEXT: usize = 4000;
/// Most words of a command.
pub const MOST_WORDS: usize = 64;
/// How sure a verdict is unless said otherwise.
pub const USUAL_CONFIDENCE: f64 = 0.95;
/// Seconds that are spent on a requirement at most unless said otherwise.
pub const USUAL_BUDGET_S: u32 = 60;

/// One requirement, as written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of its own in the file")]
pub struct Requirement {
    /// What must hold, in a sentence.
    pub text: String,
    /// The requirement that it is a part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The partition that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    /// The two partitions that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "two")]
    pub pair: Option<[String; 2]>,
    /// The network that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// It is about the host. Without any of these keys it is about the set.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub host: bool,
    /// What is measured or looked at; none for one that only has parts, or that is listed as not tested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<RequiredMetric>,
    /// Why it is not tested, where nothing can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_tested: Option<String>,
    /// Largest value allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<RequiredLimit>,
    /// Smallest value allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<RequiredLimit>,
    /// The only value allowed; for what is counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exactly: Option<RequiredLimit>,
    /// Under which load it must hold: `as-is` is what its neighbours do while it is measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<RequiredLoad>,
    /// Which part fails meanwhile, `qemu.db` for example.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<OneOrMore<InjectedFailure>>,
    /// Who asks from outside, and so notices an outage, or how long answers take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<Client>,
    /// Program and its arguments, for `metric = "command"`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Whether the command runs in the partition instead of on this host.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub inside: bool,
    /// Parameters of the probe, as in an experiment's file; unset ones are as usual.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params: Option<serde_json::Map<String, serde_json::Value>>,
    /// Folder of the partition in which the probe `disk` works; unset means its `/tmp`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// Network over which two partitions talk, of a probe between them; unset means the only one that both are in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over: Option<String>,
    /// Whether the partition's program stands still while a probe measures in its place; otherwise it goes on beside it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// Whether a probe measures in a partition of its own that is granted exactly what the partition is, which goes on beside it or is paused.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub probe_partition: bool,
    /// How sure the verdict must be, 0.5 … 0.9999.
    #[serde(default = "usual_confidence")]
    pub confidence: f64,
    /// Seconds that are spent at most until it is decided, 1 … 86,400.
    #[serde(default = "usual_budget")]
    pub budget_s: u32,
}

const fn usual_confidence() -> f64 {
    USUAL_CONFIDENCE
}

const fn usual_budget() -> u32 {
    USUAL_BUDGET_S
}

/// Whom a requirement is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Subject {
    /// A partition.
    Partition(String),
    /// Two of them.
    Pair([String; 2]),
    /// A network.
    Network(String),
    /// The host.
    Host,
    /// All of the set.
    Set,
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Partition(name) => f.pad(name),
            Self::Pair([one, other]) => f.pad(&format!("{one} and {other}")),
            Self::Network(name) => f.pad(&format!("network {name}")),
            Self::Host => f.pad("the host"),
            Self::Set => f.pad("the set"),
        }
    }
}

/// Two names, no more: an array alone takes the first two of three.
fn two<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<[String; 2]>, D::Error> {
    let names = Vec::<String>::deserialize(deserializer)?;
    let count = names.len();
    let pair = names.try_into();
    pair.map(Some).map_err(|_| D::Error::custom(format!("wanted the names of two partitions, got {count}")))
}

/// Beside what something is measured.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged, try_from = "WrittenLoad")]
pub enum RequiredLoad {
    /// `as-is`: beside whatever runs there; nothing is added.
    AsIs(AsIs),
    /// Loads that are added: `cpu@host`, `memory@db`, or `cpu` for the partition itself.
    Declared(Vec<DeclaredLoad>),
}

impl Default for RequiredLoad {
    fn default() -> Self {
        Self::AsIs(AsIs::AsIs)
    }
}

impl RequiredLoad {
    /// Whether nothing is added.
    pub const fn is_as_is(&self) -> bool {
        matches!(self, Self::AsIs(_))
    }
}

/// The word for nothing added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum AsIs {
    /// Nothing is added.
    AsIs,
}

/// `as-is`, or loads that are added.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
enum WrittenLoad {
    Word(String),
    List(Vec<String>),
}

impl TryFrom<WrittenLoad> for RequiredLoad {
    type Error = units::Reason;

    fn try_from(written: WrittenLoad) -> Result<Self, Self::Error> {
        match written {
            WrittenLoad::Word(word) if word == "as-is" => Ok(Self::AsIs(AsIs::AsIs)),
            WrittenLoad::Word(word) => {
                let shown: String = word.chars().take(80).collect();
                Err(format!("wanted load = \"as-is\" or a list such as [\"cpu@host\"], got \"{shown}\"")
                    .into())
            }
            WrittenLoad::List(words) => {
                words.into_iter().map(DeclaredLoad::try_from).collect::<Result<_, _>>().map(Self::Declared)
            }
        }
    }
}

impl RequiredLoad {
    /// Those that are added.
    pub fn declared(&self) -> &[DeclaredLoad] {
        match self {
            Self::AsIs(_) => &[],
            Self::Declared(loads) => loads,
        }
    }
}

impl fmt::Display for RequiredLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self.declared().iter().map(ToString::to_string).collect();
        if all.is_empty() { f.pad("as it is") } else { f.pad(&format!("beside {}", all.join(", "))) }
    }
}

/// A load with the place where it runs, written `KIND` or `KIND@PLACE`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DeclaredLoad {
    /// Which stressor.
    pub kind: LoadKind,
    /// `host`, or a partition of the set; none means the one that is measured.
    pub place: Option<String>,
}

/// The place of a load that runs on the host.
pub const ON_HOST: &str = "host";

impl DeclaredLoad {
    /// With as many threads as there are CPUs.
    pub const fn spec(&self) -> LoadSpec {
        LoadSpec { kind: self.kind, threads: None }
    }
}

impl fmt::Display for DeclaredLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some(place) => f.pad(&format!("{}@{place}", self.kind)),
            None => f.pad(self.kind.as_str()),
        }
    }
}

impl TryFrom<String> for DeclaredLoad {
    type Error = units::Reason;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let (kind, place) = match text.split_once('@') {
            Some((kind, place)) => (kind, Some(place.to_owned())),
            None => (text.as_str(), None),
        };
        if place.as_deref() == Some("") {
            return Err(format!("\"{text}\" names no place: wanted KIND@host or KIND@PARTITION").into());
        }
        let kind = kind.parse().map_err(|error: units::names::UnknownName| error.to_string())?;
        Ok(Self { kind, place })
    }
}

impl From<DeclaredLoad> for String {
    fn from(load: DeclaredLoad) -> Self {
        load.to_string()
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for DeclaredLoad {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "DeclaredLoad".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "pattern": "^[a-z-]+(@[A-Za-z0-9._-]+)?$",
            "description": "A load, KIND for one in the partition that is measured, KIND@host, or KIND@PARTITION."
        })
    }
}

/// Which way a value may lie from its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Comparator {
    /// It is the largest value allowed.
    AtMost,
    /// The smallest.
    AtLeast,
    /// The only one.
    Exactly,
}

impl Requirement {
    /// Whom it is about.
    pub fn subject(&self) -> Subject {
        if let Some(name) = &self.partition {
            Subject::Partition(name.clone())
        } else if let Some(pair) = &self.pair {
            Subject::Pair(pair.clone())
        } else if let Some(name) = &self.network {
            Subject::Network(name.clone())
        } else if self.host {
            Subject::Host
        } else {
            Subject::Set
        }
    }

    /// What the value is held against; none for one without a metric.
    pub fn limit(&self) -> Option<(Comparator, &RequiredLimit)> {
        let at_most = self.at_most.as_ref().map(|limit| (Comparator::AtMost, limit));
        let at_least = self.at_least.as_ref().map(|limit| (Comparator::AtLeast, limit));
        let exactly = self.exactly.as_ref().map(|limit| (Comparator::Exactly, limit));
        at_most.or(at_least).or(exactly)
    }

    /// The limit in words: `at most 10 ms`.
    pub fn limit_words(&self) -> String {
        self.limit().map_or_else(String::new, |(comparator, limit)| {
            let word = match comparator {
                Comparator::AtMost => "at most",
                Comparator::AtLeast => "at least",
                Comparator::Exactly => "exactly",
            };
            format!("{word} {limit}")
        })
    }
}

/// Requirements by id.
pub type Requirements = BTreeMap<String, Requirement>;
