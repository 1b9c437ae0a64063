//! What a channel bench found: the output of `bulkhead channel bench --json`.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::channel_worker::Limits;
use units::Reason;
use units::histogram::Histogram;
use units::metric::Answer;

/// Version of this format; raised when an old reader would misread it.
pub const CHANNEL_BENCH_VERSION: u32 = 1;

/// Which way messages went. The order is that of tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// The channel between two partitions.
    Channel,
    /// The same ring between two processes inside one guest.
    OneGuest,
    /// The same ring between two processes on the host.
    Host,
    /// TCP over virtio-net between the two partitions.
    Tcp,
    /// A plain copy by one process inside one guest.
    GuestCopy,
    /// A plain copy by one process on the host.
    HostCopy,
    /// A bare flag between the two partitions: a word that each side stores and the other waits for.
    Flag,
    /// A bare flag between two processes on the host.
    HostFlag,
}

/// Size of a bare flag.
pub const FLAG_BYTES: u64 = 8;

impl Way {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Channel,
        Self::OneGuest,
        Self::Host,
        Self::Tcp,
        Self::GuestCopy,
        Self::HostCopy,
        Self::Flag,
        Self::HostFlag,
    ];

    /// Whether messages go there and back.
    pub const fn has_trips(self) -> bool {
        !matches!(self, Self::GuestCopy | Self::HostCopy)
    }

    /// Whether messages can follow each other: a flag says nothing more before the last word was answered.
    pub const fn has_stream(self) -> bool {
        !matches!(self, Self::Flag | Self::HostFlag)
    }

    /// Whether messages of this size can go there.
    pub const fn carries(self, bytes: u64) -> bool {
        self.has_stream() || bytes == FLAG_BYTES
    }

    /// Whether it needs no partition.
    pub const fn is_on_host(self) -> bool {
        matches!(self, Self::Host | Self::HostCopy | Self::HostFlag)
    }

    /// Its name in tables.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Channel => "channel",
            Self::OneGuest => "one guest",
            Self::Host => "host",
            Self::Tcp => "TCP",
            Self::GuestCopy => "copy, guest",
            Self::HostCopy => "copy, host",
            Self::Flag => "flag",
            Self::HostFlag => "flag, host",
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One measurement: a way at a size in a round.
#[derive(Debug, Clone, PartialEq)]
pub struct Taken {
    /// Number of the round.
    pub round: u32,
    /// The way.
    pub way: Way,
    /// Size of a message.
    pub bytes: u64,
    /// What was seen, or why it failed.
    pub outcome: Result<super::channel_worker::Seen, Reason>,
}

/// A whole bench.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChannelBench {
    /// [`CHANNEL_BENCH_VERSION`].
    pub schema_version: u32,
    /// Version of the program.
    pub bulkhead_version: String,
    /// Seed of the order.
    pub seed: u64,
    /// Rounds that were asked for.
    pub rounds: u32,
    /// Whether it was ended before all of them.
    pub interrupted: bool,
    /// What runs the CPUs of partitions: `kvm` or `tcg`; none without partitions.
    pub engine: Option<String>,
    /// Host CPUs: that of whoever leads, and of whoever follows. Empty where there are no two.
    pub host_cpus: Vec<u32>,
    /// Size of a ring in each direction.
    pub ring_bytes: u64,
    /// How much each series measures.
    pub limits: BenchLimits,
    /// Mappings beside ordinary memory.
    pub mappings: Vec<Mapping>,
    /// What a read of the clock costs, by place.
    pub clocks: Vec<ClockCost>,
    /// One per way and size.
    pub series: Vec<Series>,
    /// What is held against what.
    pub marks: Vec<Mark>,
    /// How far the rings are from a bare flag, and what a flag makes of the partitions.
    pub floors: Vec<Floor>,
    /// Everything that failed.
    pub failures: Vec<SeriesFailure>,
}

/// Limits of one series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BenchLimits {
    /// Round trips that are timed one by one, at most.
    pub trips: u64,
    /// Time for these.
    pub trips_ms: u64,
    /// Time for round trips that are timed as a whole.
    pub batch_ms: u64,
    /// Time for the stream.
    pub stream_ms: u64,
    /// How many times as long TCP gets: it has far fewer in the same time.
    pub tcp_factor: u64,
}

impl BenchLimits {
    /// Those of a way.
    pub const fn of(self, way: Way) -> Limits {
        let factor = if matches!(way, Way::Tcp) { self.tcp_factor } else { 1 };
        Limits {
            trips: self.trips,
            trips_ms: self.trips_ms * factor,
            batch_ms: self.batch_ms,
            stream_ms: self.stream_ms * factor,
        }
    }
}

/// A mapping beside ordinary memory of the same process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Mapping {
    /// Where, in words.
    pub place: String,
    /// Loads of which each says where the next one is.
    pub dependent_load: AccessCost,
    /// Loads of word after word.
    pub sequential_load: AccessCost,
    /// Stores to word after word; none where the mapping is only read.
    pub store: Option<AccessCost>,
    /// What that means; none when the figures do not tell.
    pub cached: Option<bool>,
}

/// One kind of access to a 64-bit word.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AccessCost {
    /// In the mapping.
    pub mapping_ns: Answer,
    /// In ordinary memory.
    pub ordinary_ns: Answer,
    /// Mapping over ordinary memory.
    pub ratio: Answer,
}

/// What a read of the clock costs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClockCost {
    /// Way whose leader reads it.
    pub way: Way,
    /// One read.
    pub read_ns: Answer,
}

/// A way at a size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Series {
    /// The way.
    pub way: Way,
    /// Size of a message.
    pub size_bytes: u64,
    /// Rounds in which it was measured.
    pub rounds: u32,
    /// Time of a round trip (of a copy) timed by itself, the clock's cost included: the 99.9 % quantile.
    pub p999_ns: Answer,
    /// The 99 % quantile.
    pub p99_ns: Answer,
    /// The median.
    pub p50_ns: Answer,
    /// The longest of all rounds.
    pub max_ns: Option<u64>,
    /// Mean of round trips that were timed as a whole.
    pub batch_mean_ns: Answer,
    /// One way, until the other side has said that it has everything.
    pub bandwidth_bytes_per_s: Answer,
    /// Every round trip of all rounds, `[bucket, count, sum]`.
    pub trips_ns: Histogram,
}

/// What is measured about a series, for a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Quantity {
    /// Median round trip.
    RoundTrip,
    /// Bandwidth.
    Bandwidth,
}

/// A ratio and what it should be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Mark {
    /// What is compared.
    pub quantity: Quantity,
    /// At which size.
    pub size_bytes: u64,
    /// What is above the line of the ratio.
    pub this: Way,
    /// What is below it.
    pub other: Way,
    /// Whether the ratio should be at most `wanted`; at least otherwise.
    pub at_most: bool,
    /// The mark.
    pub wanted: f64,
    /// From pairs of the same round.
    pub ratio: Answer,
    /// Whether the ratio keeps to the mark; none when there is no ratio.
    pub reached: Option<bool>,
    /// Whether its whole interval says so.
    pub certain: bool,
}

/// A ratio without a mark, of median round trips.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Floor {
    /// At which size.
    pub size_bytes: u64,
    /// What is above the line of the ratio.
    pub this: Way,
    /// What is below it.
    pub other: Way,
    /// From pairs of the same round.
    pub ratio: Answer,
}

/// A series that failed in a round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SeriesFailure {
    /// The way.
    pub way: Way,
    /// Size of a message; none when no series of it could begin.
    pub size_bytes: Option<u64>,
    /// Number of the round.
    pub round: u32,
    /// Why.
    pub reason: String,
}
