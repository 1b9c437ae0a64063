//! What a requirement is about: which figure, and in which unit it is.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::classes::{BadName, MetricName};
use probes::ProbeKind;
use units::Reason;
use units::metric::Unit;
use units::names::nearest;

/// What is measured or looked at.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum RequiredMetric {
    /// A figure of a probe, `wakeup.response_p99_ns`.
    Probe(MetricName),
    /// A property of a partition's place, `placement.differences`.
    Placement(PlacementProperty),
    /// A property of two partitions, `pair.shared_cpus`.
    Pair(PairProperty),
    /// A property of a network, `network.links_up`.
    Network(NetworkProperty),
    /// A property of the host, `host.memory_free_bytes`.
    Host(HostProperty),
    /// How long a client outside waits for its answers, `response.p99_ns`.
    Response(ResponseMetric),
    /// What clients outside get at most, `capacity.answers_per_s`.
    Capacity(CapacityMetric),
    /// What a client outside sees of a failure, `outage.duration_ns`.
    Outage(OutageMetric),
    /// A number that the user's own test prints, `command`; or of its results, `command.failures`.
    Command(CountedBy),
}

macro_rules! properties {
    ($(#[$meta:meta])* $name:ident: $family:literal { $($(#[$doc:meta])* $variant:ident = $word:literal, $unit:ident;)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$doc])* $variant,)+ }

        impl $name {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// As written, with its family.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => concat!($family, ".", $word),)+ }
            }

            /// Its unit.
            pub const fn unit(self) -> Unit {
                match self { $(Self::$variant => Unit::$unit,)+ }
            }
        }
    };
}

properties! {
    /// What the kernel says of a partition's place, asked anew.
    PlacementProperty: "placement" {
        /// Values that differ from what the set's file asks for.
        Differences = "differences", Count;
        /// Other partitions of the host whose CPUs may run on one of its CPUs.
        SharedCpus = "shared_cpus", Count;
        /// CPUs of the host that its CPUs may run on.
        Cpus = "cpus", Count;
        /// Memory that is on another node than asked for.
        MemoryElsewhere = "memory_elsewhere_bytes", Bytes;
        /// Its share of CPUs, as the kernel has it.
        CpuWeight = "cpu_weight", Count;
        /// Times that it was started again since `up`.
        Restarts = "restarts", Count;
        /// 1 if its program runs.
        Running = "running", Count;
        /// Sockets at which it is reached from this host and which its file does not name.
        UnlistedSockets = "unlisted_sockets", Count;
    }
}

properties! {
    /// What the kernel says of two partitions.
    PairProperty: "pair" {
        /// CPUs of the host that both may run on.
        SharedCpus = "shared_cpus", Count;
        /// Cores of which both may have a thread.
        SharedCores = "shared_cores", Count;
        /// Memory nodes on which both have memory.
        SharedNodes = "shared_nodes", Count;
        /// Channels that both have.
        SharedChannels = "shared_channels", Count;
        /// Files of the host that both can write.
        SharedFolders = "shared_folders", Count;
        /// 1 if both are in the same failure domain.
        SharedFailureDomains = "shared_failure_domains", Count;
    }
}

properties! {
    /// What is known of a network.
    NetworkProperty: "network" {
        /// Its links whose switch runs.
        LinksUp = "links_up", Count;
        /// Times that a switch of it was started again since `up`.
        Restarts = "restarts", Count;
    }
}

properties! {
    /// What the host's kernel says.
    HostProperty: "host" {
        /// Memory that is left when all partitions of all sets have all of theirs.
        MemoryFree = "memory_free_bytes", Bytes;
        /// By how much partitions may take more than there is.
        MemoryOvercommitted = "memory_overcommitted_bytes", Bytes;
        /// Swap in use.
        SwapUsed = "swap_used_bytes", Bytes;
        /// Huge pages that nobody has.
        HugePagesFree = "hugepages_free_bytes", Bytes;
        /// CPUs whose frequency is not held at its highest (governor).
        SlowGovernors = "slow_governors", Count;
        /// How far the clock may be from true time, as the kernel estimates it.
        ClockError = "clock_error_ns", Nanoseconds;
        /// 1 if nothing keeps the clock.
        ClockUnsynchronized = "clock_unsynchronized", Count;
        /// CPUs that run.
        Cpus = "cpus", Count;
    }
}

properties! {
    /// How long a client outside waits for its answers while nothing fails on purpose.
    ResponseMetric: "response" {
        /// Half of the requests are answered within this time.
        P50 = "p50_ns", Nanoseconds;
        /// Nine of ten.
        P90 = "p90_ns", Nanoseconds;
        /// 99 of 100.
        P99 = "p99_ns", Nanoseconds;
        /// 999 of 1000.
        P999 = "p99_9_ns", Nanoseconds;
        /// All that were made.
        Longest = "longest_ns", Nanoseconds;
        /// Requests of a round that were not answered in time.
        Missing = "missing", Count;
    }
}

impl ResponseMetric {
    /// The share of requests that it is about, for those that are quantiles.
    pub const fn quantile(self) -> Option<f64> {
        match self {
            Self::P50 => Some(0.5),
            Self::P90 => Some(0.9),
            Self::P99 => Some(0.99),
            Self::P999 => Some(0.999),
            Self::Longest | Self::Missing => None,
        }
    }
}

properties! {
    /// What clients outside get when each of them asks again as soon as it has its answer.
    CapacityMetric: "capacity" {
        /// Answers in a second, those that came in time.
        AnswersPerSecond = "answers_per_s", PerSecond;
    }
}

properties! {
    /// What a client outside sees of a failure.
    OutageMetric: "outage" {
        /// From the failure until it is answered again for good.
        Duration = "duration_ns", Nanoseconds;
        /// From the failure until the first answer was missing.
        Detection = "detection_ns", Nanoseconds;
        /// From the first missing answer until it is answered again for good.
        Switchover = "switchover_ns", Nanoseconds;
        /// From the failure until everything runs as before it.
        Restoration = "restoration_ns", Nanoseconds;
        /// Requests that were never answered.
        Lost = "lost", Count;
        /// Requests that were answered more than once.
        Doubled = "doubled", Count;
    }
}

properties! {
    /// What is taken of a command.
    CountedBy: "command" {
        /// The number it prints.
        Value = "value", Count;
        /// Tests of `JUnit` or TAP that failed.
        Failures = "failures", Count;
        /// Its exit code.
        ExitCode = "exit_code", Count;
    }
}

impl RequiredMetric {
    /// Its unit; none where the test says it (a number that a command prints has the limit's).
    pub fn unit(&self) -> Option<Unit> {
        match self {
            Self::Probe(name) => {
                probes::catalogue(name.probe).iter().find(|m| m.id == name.id).map(|m| m.unit)
            }
            Self::Placement(property) => Some(property.unit()),
            Self::Pair(property) => Some(property.unit()),
            Self::Network(property) => Some(property.unit()),
            Self::Host(property) => Some(property.unit()),
            Self::Response(metric) => Some(metric.unit()),
            Self::Capacity(metric) => Some(metric.unit()),
            Self::Outage(metric) => Some(metric.unit()),
            Self::Command(CountedBy::Value) => None,
            Self::Command(counted) => Some(counted.unit()),
        }
    }

    /// Whether it is measured again and again, so that it has an interval; else it is looked at.
    pub const fn is_sampled(&self) -> bool {
        matches!(
            self,
            Self::Probe(_)
                | Self::Command(CountedBy::Value)
                | Self::Response(_)
                | Self::Capacity(_)
                | Self::Outage(_)
        )
    }
}

/// All names that are no probe's.
fn properties() -> Vec<(&'static str, RequiredMetric)> {
    let mut all = Vec::new();
    all.extend(PlacementProperty::ALL.iter().map(|one| (one.as_str(), RequiredMetric::Placement(*one))));
    all.extend(PairProperty::ALL.iter().map(|one| (one.as_str(), RequiredMetric::Pair(*one))));
    all.extend(NetworkProperty::ALL.iter().map(|one| (one.as_str(), RequiredMetric::Network(*one))));
    all.extend(HostProperty::ALL.iter().map(|one| (one.as_str(), RequiredMetric::Host(*one))));
    all.extend(ResponseMetric::ALL.iter().map(|one| (one.as_str(), RequiredMetric::Response(*one))));
    all.extend(CapacityMetric::ALL.iter().map(|one| (one.as_str(), RequiredMetric::Capacity(*one))));
    all.extend(OutageMetric::ALL.iter().map(|one| (one.as_str(), RequiredMetric::Outage(*one))));
    all.extend(CountedBy::ALL.iter().map(|one| (one.as_str(), RequiredMetric::Command(*one))));
    all
}

impl FromStr for RequiredMetric {
    type Err = Reason;

    fn from_str(text: &str) -> Result<Self, Reason> {
        let text = if text == "command" { CountedBy::Value.as_str() } else { text };
        let all = properties();
        if let Some((_, metric)) = all.iter().find(|(name, _)| *name == text) {
            return Ok(metric.clone());
        }
        let shown: String = text.chars().take(80).collect();
        let family = text.split_once('.').map_or(text, |(family, _)| family);
        if all.iter().any(|(name, _)| name.split_once('.').is_some_and(|(known, _)| known == family)) {
            let known: Vec<&str> =
                all.iter().map(|(name, _)| *name).filter(|name| name.starts_with(family)).collect();
            return Err(unknown(&shown, &known));
        }
        // Its family alone is missing.
        let is_rest = |name: &&str| name.split_once('.').is_some_and(|(_, rest)| rest == text);
        if let Some(near) = all.iter().map(|(name, _)| *name).find(is_rest) {
            return Err(format!("\"{shown}\" is no metric; did you mean \"{near}\"?").into());
        }
        let name = match text.parse::<MetricName>() {
            Ok(name) => name,
            Err(BadName::Unknown(error)) => {
                let families: Vec<&str> = all
                    .iter()
                    .filter_map(|(name, _)| name.split_once('.'))
                    .map(|(family, _)| family)
                    .collect();
                let Some(near) = nearest(family, &families) else { return Err(error.to_string().into()) };
                let of_it = all.iter().map(|(name, _)| *name).filter(|name| name.starts_with(near));
                let whole = nearest(text, &of_it.collect::<Vec<_>>());
                let meant = whole.map_or_else(|| format!("one of {near}.…"), |whole| format!("\"{whole}\""));
                return Err(format!("\"{shown}\" is no metric; did you mean {meant}?").into());
            }
            Err(error) => return Err(error.to_string().into()),
        };
        let there = probes::catalogue(name.probe);
        if there.iter().any(|metric| metric.id == name.id) {
            return Ok(Self::Probe(name));
        }
        let known: Vec<String> = there.iter().map(|metric| format!("{}.{}", name.probe, metric.id)).collect();
        Err(unknown(&shown, &known.iter().map(String::as_str).collect::<Vec<_>>()))
    }
}

fn unknown(shown: &str, known: &[&str]) -> Reason {
    let hint = nearest(shown, known).map(|near| format!("did you mean \"{near}\"? "));
    format!("\"{shown}\" is no metric; {}known are {}", hint.unwrap_or_default(), known.join(", ")).into()
}

impl fmt::Display for RequiredMetric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Probe(name) => name.fmt(f),
            Self::Placement(property) => f.pad(property.as_str()),
            Self::Pair(property) => f.pad(property.as_str()),
            Self::Network(property) => f.pad(property.as_str()),
            Self::Host(property) => f.pad(property.as_str()),
            Self::Response(metric) => f.pad(metric.as_str()),
            Self::Capacity(metric) => f.pad(metric.as_str()),
            Self::Outage(metric) => f.pad(metric.as_str()),
            Self::Command(counted) => f.pad(counted.as_str()),
        }
    }
}

impl TryFrom<String> for RequiredMetric {
    type Error = Reason;

    fn try_from(text: String) -> Result<Self, Reason> {
        text.parse()
    }
}

impl From<RequiredMetric> for String {
    fn from(metric: RequiredMetric) -> Self {
        metric.to_string()
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for RequiredMetric {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "RequiredMetric".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "pattern": "^[a-z-]+(\\.[A-Za-z0-9_]+)?$",
            "description": "PROBE.FIGURE, or a property: placement.…, pair.…, network.…, host.…, response.…, capacity.…, outage.…, command.…"
        })
    }
}

/// The probe that a metric is of; none where it is no probe's.
pub(super) fn probe_of(metric: &RequiredMetric) -> Option<ProbeKind> {
    match metric {
        RequiredMetric::Probe(name) => Some(name.probe),
        _ => None,
    }
}
