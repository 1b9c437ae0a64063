//! What a condition names: a figure of a probe, and the neighbours that count.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::journal::Neighbour;
use probes::ProbeKind;
use units::names::{LoadKind, LoadPlace, UnknownName};

/// Longest id of a metric.
const LONGEST_ID: usize = 64;

/// A figure of a probe, written `probe.metric`: `gap.bound_99_ns`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MetricName {
    /// The probe.
    pub probe: ProbeKind,
    /// Id of the metric within the probe.
    pub id: String,
}

/// Which neighbours count for a condition, written `alone`, `all`, or a list such as `cpu, memory@host, @second`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Beside {
    /// Only the measurement without a neighbour.
    Alone,
    /// The measurement without a neighbour and that beside each one that was measured.
    All,
    /// The measurement without a neighbour and that beside each one that one of these names.
    Named(Vec<Pattern>),
}

/// Neighbours by kind, by place, or by both. At least one is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pattern {
    /// Which stressor; none means any.
    pub kind: Option<LoadKind>,
    /// Where it runs; none means anywhere.
    pub place: Option<LoadPlace>,
}

/// A name in a condition that means nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadName {
    /// A probe, load or place that does not exist.
    #[error(transparent)]
    Unknown(#[from] UnknownName),
    /// Not of the form `probe.metric`.
    #[error("\"{0}\" names no figure: wanted PROBE.METRIC such as gap.bound_99_ns")]
    Form(String),
    /// An empty list of neighbours.
    #[error(
        "neighbours = \"\" names nobody: wanted alone, all, or a list of KIND, KIND@PLACE, @PLACE such as cpu, memory@host"
    )]
    Nobody,
}

impl Beside {
    /// Whether measurements beside this neighbour count.
    pub fn counts(&self, neighbour: Neighbour) -> bool {
        match self {
            Self::Alone => false,
            Self::All => true,
            Self::Named(patterns) => patterns.iter().any(|pattern| pattern.fits(neighbour)),
        }
    }
}

impl Pattern {
    fn fits(self, neighbour: Neighbour) -> bool {
        self.kind.is_none_or(|kind| kind == neighbour.kind)
            && self.place.is_none_or(|place| place == neighbour.place)
    }
}

impl FromStr for MetricName {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let form = || BadName::Form(text.chars().take(80).collect());
        let (probe, id) = text.split_once('.').ok_or_else(form)?;
        let probe = probe.parse()?;
        let plain = |letter: u8| letter.is_ascii_alphanumeric() || letter == b'_';
        let good = !id.is_empty() && id.len() <= LONGEST_ID && id.bytes().all(plain);
        if good { Ok(Self { probe, id: id.to_owned() }) } else { Err(form()) }
    }
}

impl FromStr for Beside {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.trim() {
            "alone" => Ok(Self::Alone),
            "all" => Ok(Self::All),
            "" => Err(BadName::Nobody),
            list => Ok(Self::Named(list.split(',').map(str::parse).collect::<Result<_, _>>()?)),
        }
    }
}

impl FromStr for Pattern {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (kind, place) = match text.trim().split_once('@') {
            Some((kind, place)) => (kind.trim(), Some(place.trim().parse()?)),
            None => (text.trim(), None),
        };
        match (kind, place) {
            ("", None) => Err(BadName::Nobody),
            ("", place) => Ok(Self { kind: None, place }),
            (kind, place) => Ok(Self { kind: Some(kind.parse()?), place }),
        }
    }
}

impl fmt::Display for MetricName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}.{}", self.probe, self.id))
    }
}

impl fmt::Display for Beside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Alone => f.pad("alone"),
            Self::All => f.pad("all"),
            Self::Named(patterns) => {
                f.pad(&patterns.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
            }
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind.map_or("", LoadKind::as_str);
        match self.place {
            Some(place) => f.pad(&format!("{kind}@{place}")),
            None => f.pad(kind),
        }
    }
}

macro_rules! as_text {
    ($type:ident, $pattern:literal, $about:literal) => {
        impl TryFrom<String> for $type {
            type Error = BadName;

            fn try_from(text: String) -> Result<Self, Self::Error> {
                text.parse()
            }
        }

        impl From<$type> for String {
            fn from(name: $type) -> Self {
                name.to_string()
            }
        }

        #[cfg(feature = "schema")]
impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "pattern": $pattern, "description": $about })
            }
        }
    };
}

as_text!(MetricName, "^[a-z-]+\\.[A-Za-z0-9_]+$", "probe.metric, gap.bound_99_ns for example");
as_text!(Beside, "^[a-z@, -]+$", "alone, all, or a list of KIND, KIND@PLACE, @PLACE");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_from_their_text_and_nonsense_does_not() {
        for text in ["gap.bound_99_ns", "mem-latency.largest_array_ns"] {
            assert_eq!(text.parse::<MetricName>().unwrap().to_string(), text);
        }
        for text in ["alone", "all", "cpu", "cpu@host, memory", "@second"] {
            assert_eq!(text.parse::<Beside>().unwrap().to_string(), text);
        }
        for (bad, part) in [
            ("gap", "names no figure"),
            ("gap.", "names no figure"),
            ("gap.a b", "names no figure"),
            ("gapp.x_ns", "did you mean \"gap\"?"),
        ] {
            let error = bad.parse::<MetricName>().unwrap_err().to_string();
            assert!(error.contains(part), "{bad}: {error}");
        }
        for (bad, part) in
            [("", "names nobody"), ("cpu,", "names nobody"), ("cpv", "did you mean"), ("cpu@hst", "host")]
        {
            let error = bad.parse::<Beside>().unwrap_err().to_string();
            assert!(error.contains(part), "{bad}: {error}");
        }
    }

    #[test]
    fn a_pattern_fits_by_kind_by_place_or_by_both() {
        let cpu_second = Neighbour { kind: LoadKind::Cpu, place: LoadPlace::Second };
        for (text, fits) in [
            ("cpu", true),
            ("@second", true),
            ("cpu@second", true),
            ("cpu@host", false),
            ("memory", false),
            ("memory, cpu", true),
            ("all", true),
            ("alone", false),
        ] {
            assert_eq!(text.parse::<Beside>().unwrap().counts(cpu_second), fits, "{text}");
        }
    }
}
