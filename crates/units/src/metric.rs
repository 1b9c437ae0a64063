//! A metric: one figure that a probe yields, with its unit and its good direction; and estimates with intervals.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::quantity::{Bytes, Nanos, three_digits};

/// Unit of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Nanoseconds.
    Nanoseconds,
    /// Bytes.
    Bytes,
    /// Bytes per second.
    BytesPerSecond,
    /// Events per second.
    PerSecond,
    /// How often something regular happens per second.
    Hertz,
    /// A share of a whole, 0 … 1.
    Share,
    /// A number of things.
    Count,
}

impl Unit {
    /// A value of this unit as people read it: `4.21 µs`, `1.50 GiB/s`, `2.4 %`.
    pub fn format(self, value: f64) -> String {
        match self {
            Self::Nanoseconds if value.abs() < 100.0 => format!("{} ns", three_digits(value)),
            Self::Nanoseconds => Nanos::from_nanos(saturate(value)).to_string(),
            Self::Bytes => Bytes::from_bytes(saturate(value)).to_string(),
            Self::BytesPerSecond => format!("{}/s", Bytes::from_bytes(saturate(value))),
            Self::PerSecond if value >= 1e10 => format!("{} G/s", three_digits(value / 1e9)),
            Self::PerSecond if value >= 1e7 => format!("{} M/s", three_digits(value / 1e6)),
            Self::PerSecond if value >= 1e4 => format!("{} k/s", three_digits(value / 1e3)),
            Self::PerSecond => format!("{} /s", three_digits(value)),
            Self::Hertz if value >= 1e4 => format!("{} kHz", three_digits(value / 1e3)),
            Self::Hertz => format!("{} Hz", three_digits(value)),
            Self::Share => format!("{} %", three_digits(value * 100.0)),
            Self::Count => three_digits(value),
        }
    }
}

/// Rounds a float to `u64`; what is negative or not a number becomes 0.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "float to int casts saturate")]
pub fn saturate(value: f64) -> u64 {
    value.round() as u64
}

/// Which direction of a metric is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Better {
    /// Small is good: times, gaps.
    Lower,
    /// Large is good: throughput.
    Higher,
    /// Neither: a fact about the machine, for example a cache size.
    Neither,
}

/// A figure, or the reason why there is none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// The figure.
    Value(f64),
    /// The data cannot support one, for example a tail quantile of too few samples.
    Unsupported(String),
}

impl Figure {
    /// The value, if there is one.
    pub const fn value(&self) -> Option<f64> {
        match self {
            Self::Value(value) => Some(*value),
            Self::Unsupported(_) => None,
        }
    }
}

/// One figure of one measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Metric {
    /// Name with the unit last, `bound_95_ns` for example; unique within its probe.
    pub id: String,
    /// What it says, in a few words for a table's row.
    pub title: String,
    /// Unit of the figure.
    pub unit: Unit,
    /// Good direction.
    pub better: Better,
    /// Whether verdicts and summaries are drawn from it; others are shown in the details.
    pub headline: bool,
    /// The figure.
    pub figure: Figure,
}

/// Where no difference was found and only one of more percent than this would have been seen, nothing is decided.
pub const UNDECIDED_FROM_PERCENT: f64 = 25.0;

/// A difference that is promised to be seen, in percent, so rounded up: to one decimal below 10, then to whole ones.
pub fn percent_up(percent: f64) -> String {
    match percent {
        0.0..9.95 => format!("{} %", (percent * 10.0).ceil().max(1.0) / 10.0),
        9.95..=1000.0 => format!("{:.0} %", percent.ceil()),
        _ => "over 1000 %".to_owned(),
    }
}

/// A value with its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Estimate {
    /// Point estimate.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Confidence of the interval, 0.95 for example.
    pub confidence: f64,
}

impl Estimate {
    /// Half the interval's width relative to the value; infinite when the value is zero.
    pub fn relative_half_width(&self) -> f64 {
        if self.value == 0.0 { f64::INFINITY } else { ((self.high - self.low) / 2.0 / self.value).abs() }
    }

    /// The interval of a ratio as people read it: `[1.08 … 1.16]`; one that spans more than a factor of a hundred says
    /// nothing, and digits would pretend otherwise: `[very wide]`.
    pub fn interval_text(&self) -> String {
        if self.low <= 0.0 || self.high > self.low * 100.0 {
            return "[very wide]".to_owned();
        }
        format!("[{} … {}]", three_digits(self.low), three_digits(self.high))
    }

    /// Whether value and ends are numbers that something measured can have; forged files hold others.
    pub fn is_sound(&self) -> bool {
        [self.value, self.low, self.high].iter().all(|end| end.abs() < 1e19)
    }

    /// Whether the interval contains `value`.
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!(
            "{} [{} … {}]",
            three_digits(self.value),
            three_digits(self.low),
            three_digits(self.high)
        );
        f.pad(&text)
    }
}

/// A value with its interval, or the reason why there is none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// The value.
    Estimate(Estimate),
    /// The data cannot support one.
    Unsupported(String),
}

impl Answer {
    /// The estimate, if there is one.
    pub const fn estimate(&self) -> Option<&Estimate> {
        match self {
            Self::Estimate(estimate) => Some(estimate),
            Self::Unsupported(_) => None,
        }
    }
}

/// A ratio from interleaved pairs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Comparison {
    /// The ratio, this over the other, with its interval.
    pub ratio: Answer,
    /// Number of pairs behind it.
    pub pairs: u32,
    /// What its interval, or that of its family where there is one, allows to say.
    pub difference: Difference,
    /// The same at the confidence at which all ratios that answer one question together are right.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of_family: Option<Estimate>,
    /// The smallest true difference that would have been called with 90 % power, percent of this over the other or the other way
    /// round; none without a ratio, and in older files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detectable_percent: Option<f64>,
}

impl Comparison {
    /// Whether nothing is decided: no difference was found, and what users would call one would not have been seen.
    pub fn is_undecided(&self) -> bool {
        !self.difference.is_called()
            && self.detectable_percent.is_none_or(|percent| percent > UNDECIDED_FROM_PERCENT)
    }

    /// What cannot be compared.
    pub const fn impossible(reason: String) -> Self {
        Self {
            ratio: Answer::Unsupported(reason),
            pairs: 0,
            difference: Difference::Unknown,
            of_family: None,
            detectable_percent: None,
        }
    }
}

/// What an interval allows to say about a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Difference {
    /// The interval lies on the good side of 1.
    Better,
    /// The interval lies on the bad side of 1.
    Worse,
    /// The interval excludes 1, and neither direction is good.
    Different,
    /// The interval contains 1: no difference was found.
    NotFound,
    /// Too little data.
    Unknown,
}

impl Difference {
    /// Whether a difference is called, whichever.
    pub const fn is_called(self) -> bool {
        matches!(self, Self::Better | Self::Worse | Self::Different)
    }
}
