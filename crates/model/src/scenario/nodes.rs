//! A bulk-synchronous program on many nodes, as written in a scenario.

use serde::{Deserialize, Serialize};

use super::{Impossible, bounded, bounded_f64};
use units::{Micros, Nanos};

/// The program and its nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct NodesSpec {
    /// How many nodes.
    pub count: u32,
    /// Computation of each node between two barriers.
    pub work_us: Micros,
    /// How many of them.
    pub steps: u32,
    /// The barrier.
    pub barrier: BarrierSpec,
    /// What takes time from the nodes.
    pub noise: NoiseSpec,
    /// Whether the noise comes to all nodes at the same time (co-scheduled) instead of independently.
    #[serde(default)]
    pub together: bool,
}

/// A barrier.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum BarrierSpec {
    /// It ends when the last node has come; messages cost nothing.
    Maximum {},
    /// Dissemination: in round k everybody sends to who is 2^k further; costs after `LogGp`.
    Dissemination(LogGp),
    /// A binary tree up and down; costs after `LogGp`.
    Tree(LogGp),
}

/// Costs of a message after the `LogGP` model (Alexandrov, Ionescu, Schauser, Scheiman 1995).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LogGp {
    /// L: on the way.
    pub latency_ns: Nanos,
    /// o: of a CPU, to send and to receive each.
    pub overhead_ns: Nanos,
    /// g: between two messages of a node.
    pub gap_ns: Nanos,
    /// G: for each byte after the first, in picoseconds.
    pub per_byte_ps: u64,
    /// s: bytes of a message.
    pub bytes: u64,
}

/// What takes time from a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum NoiseSpec {
    /// Nothing.
    None {},
    /// Each step takes longer by an exponential time.
    Exponential {
        /// Its mean.
        mean_us: Micros,
    },
    /// Each step takes longer by a Pareto time.
    Pareto {
        /// The least.
        least_us: Micros,
        /// The shape; the mean exists above 1.
        shape: f64,
    },
    /// Each step is hit with this probability, for so long.
    Rare {
        /// From 0 to 1.
        probability: f64,
        /// How long.
        length_us: Micros,
    },
    /// Interruptions at fixed intervals, with a phase of its own on every node unless together.
    Periodic {
        /// Between their begins.
        period_us: Micros,
        /// How long each takes.
        length_us: Micros,
    },
    /// A recorded trace, from a random place on, round and round: lines `start_ns<TAB>duration_ns`, a run that measured
    /// gap or fwq, or the folder of a simulated host: when its first virtual CPU did not run.
    Trace {
        /// The file or run directory, beside the scenario.
        file: String,
        /// Which platform of a run, the first that has a trace unless given; of a simulation the case, or the case and the
        /// virtual CPU, `CASE: A.0`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        platform: Option<String>,
    },
}

impl NodesSpec {
    pub(super) fn check(&self) -> Result<(), Impossible> {
        let path = |key: &str| format!("nodes.{key}");
        bounded(path("count"), self.count.into(), 1, 100_000_000)?;
        bounded(path("work_us"), self.work_us.get(), 0, 3_600_000_000)?;
        bounded(path("steps"), self.steps.into(), 1, 10_000_000)?;
        if let BarrierSpec::Dissemination(costs) | BarrierSpec::Tree(costs) = &self.barrier {
            for (key, value) in [
                ("latency_ns", costs.latency_ns),
                ("overhead_ns", costs.overhead_ns),
                ("gap_ns", costs.gap_ns),
            ] {
                bounded(path(&format!("barrier.{key}")), value.get(), 0, 1_000_000_000)?;
            }
            bounded(path("barrier.per_byte_ps"), costs.per_byte_ps, 0, 1_000_000_000)?;
            bounded(path("barrier.bytes"), costs.bytes, 1, 1 << 30)?;
        }
        let time =
            |key: &str, value: Micros| bounded(path(&format!("noise.{key}")), value.get(), 1, 3_600_000_000);
        match &self.noise {
            NoiseSpec::Exponential { mean_us } => time("mean_us", *mean_us),
            NoiseSpec::Pareto { least_us, shape } => {
                time("least_us", *least_us)?;
                bounded_f64(path("noise.shape"), *shape, 0.1, 1000.0)
            }
            NoiseSpec::Rare { probability, length_us } => {
                bounded_f64(path("noise.probability"), *probability, 0.0, 1.0)?;
                time("length_us", *length_us)
            }
            NoiseSpec::Periodic { period_us, length_us } => {
                time("period_us", *period_us)?;
                time("length_us", *length_us)?;
                if length_us >= period_us {
                    let problem = "interruptions as long as their interval leave nothing for the work";
                    return Err(Impossible::new(path("noise.length_us"), problem));
                }
                Ok(())
            }
            NoiseSpec::Trace { file, .. } if file.is_empty() => {
                Err(Impossible::new(path("noise.file"), "wanted the name of a file or a run directory"))
            }
            NoiseSpec::None {} | NoiseSpec::Trace { .. } => Ok(()),
        }
    }
}
