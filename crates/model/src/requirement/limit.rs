//! A limit as people write it: `10 ms`, `150 MB/s`, `5 %`, `3`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use units::Reason;
use units::metric::Unit;
use units::names::hint;

/// Longest text of a limit.
const LONGEST: usize = 40;

/// A value with its unit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "String")]
pub struct RequiredLimit {
    /// In the base of its unit: nanoseconds, bytes, a share.
    pub value: f64,
    /// The unit.
    pub unit: Unit,
    text: String,
}

/// As it stands in a file: a number alone is a count.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Text(String),
    Whole(i64),
    Number(f64),
}

/// What can stand behind a number, what it counts, and how much of it that is.
const UNITS: &[(&str, Unit, f64)] = &[
    ("ns", Unit::Nanoseconds, 1.0),
    ("us", Unit::Nanoseconds, 1e3),
    ("µs", Unit::Nanoseconds, 1e3),
    ("ms", Unit::Nanoseconds, 1e6),
    ("s", Unit::Nanoseconds, 1e9),
    ("min", Unit::Nanoseconds, 6e10),
    ("h", Unit::Nanoseconds, 3.6e12),
    ("B", Unit::Bytes, 1.0),
    ("kB", Unit::Bytes, 1e3),
    ("MB", Unit::Bytes, 1e6),
    ("GB", Unit::Bytes, 1e9),
    ("KiB", Unit::Bytes, 1024.0),
    ("MiB", Unit::Bytes, 1_048_576.0),
    ("GiB", Unit::Bytes, 1_073_741_824.0),
    ("TiB", Unit::Bytes, 1_099_511_627_776.0),
    ("B/s", Unit::BytesPerSecond, 1.0),
    ("kB/s", Unit::BytesPerSecond, 1e3),
    ("MB/s", Unit::BytesPerSecond, 1e6),
    ("GB/s", Unit::BytesPerSecond, 1e9),
    ("KiB/s", Unit::BytesPerSecond, 1024.0),
    ("MiB/s", Unit::BytesPerSecond, 1_048_576.0),
    ("GiB/s", Unit::BytesPerSecond, 1_073_741_824.0),
    ("/s", Unit::PerSecond, 1.0),
    ("Hz", Unit::Hertz, 1.0),
    ("kHz", Unit::Hertz, 1e3),
    ("MHz", Unit::Hertz, 1e6),
    ("%", Unit::Share, 0.01),
    ("", Unit::Count, 1.0),
];

impl FromStr for RequiredLimit {
    type Err = Reason;

    fn from_str(text: &str) -> Result<Self, Reason> {
        let text = text.trim();
        let shown: String = text.chars().take(LONGEST).collect();
        let wanted = "a number with a unit such as \"10 ms\", \"150 MB/s\", \"5 %\" or \"3\"";
        if text.len() > LONGEST {
            return Err(format!("wanted {wanted}, got {} bytes", text.len()).into());
        }
        let is_number = |c: char| c.is_ascii_digit() || matches!(c, '.' | '_' | '-' | '+');
        let end = text.find(|c| !is_number(c)).unwrap_or(text.len());
        let (number, name) = text.split_at(end);
        let value: f64 =
            number.replace('_', "").parse().map_err(|_| format!("wanted {wanted}, got \"{shown}\""))?;
        let name = name.trim();
        let Some((_, unit, factor)) = UNITS.iter().find(|(known, ..)| *known == name) else {
            let known: Vec<&str> =
                UNITS.iter().map(|(known, ..)| *known).filter(|known| !known.is_empty()).collect();
            let hint = hint(name, &known);
            return Err(format!("\"{name}\" is no unit: wanted one of {}{hint}", known.join(", ")).into());
        };
        let value = value * factor;
        if !value.is_finite() || value < 0.0 {
            return Err(format!("wanted {wanted} that is not negative, got \"{shown}\"").into());
        }
        Ok(Self { value, unit: *unit, text: shown })
    }
}

impl RequiredLimit {
    /// How much one of the written unit is in the base of that: 1e6 of `10 ms`.
    pub fn factor(&self) -> f64 {
        let name =
            self.text.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '_' | '-' | '+'));
        UNITS.iter().find(|(known, ..)| *known == name.trim()).map_or(1.0, |(.., factor)| *factor)
    }
}

impl TryFrom<Written> for RequiredLimit {
    type Error = Reason;

    fn try_from(written: Written) -> Result<Self, Reason> {
        match written {
            Written::Text(text) => text.parse(),
            Written::Whole(number) => number.to_string().parse(),
            Written::Number(number) => number.to_string().parse(),
        }
    }
}

impl fmt::Display for RequiredLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl From<RequiredLimit> for String {
    fn from(limit: RequiredLimit) -> Self {
        limit.text
    }
}

/// A unit as messages name it.
pub(super) const fn unit_words(unit: Unit) -> &'static str {
    match unit {
        Unit::Nanoseconds => "a time (ns, us, ms, s, min)",
        Unit::Bytes => "a size (B, kB, MB, GB, KiB, MiB, GiB)",
        Unit::BytesPerSecond => "a throughput (B/s, kB/s, MB/s, MiB/s, …)",
        Unit::PerSecond => "a rate (/s)",
        Unit::Hertz => "a frequency (Hz, kHz, MHz)",
        Unit::Share => "a share (%)",
        Unit::Count => "a number without a unit",
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for RequiredLimit {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "RequiredLimit".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": ["string", "number"],
            "description": "A value with its unit: \"10 ms\", \"150 MB/s\", \"5 %\"; a number alone is a count."
        })
    }
}
