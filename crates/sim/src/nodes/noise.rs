//! What takes time from the nodes, made from what a scenario says.
//!
//! Two kinds: **drawn** noise lengthens each step by a random time, whatever the step does (exponential, Pareto, rare);
//! **interruptions** happen in time, so they hit whatever a node's CPU does then, messages included (periodic, trace).

use super::interruptions::Interruptions;
use super::trace::{Interruption, NoiseTrace};
use crate::random::Stream;
use crate::time::Span;
use model::scenario::{NodesSpec, NoiseSpec};
use units::{Micros, Reason, metric};

/// No draw is longer: some 36 years. Only Pareto noise of a shape far below 1 gets there.
const LONGEST_DRAW: u64 = 1 << 60;
/// Streams of this room begin with this number.
const NODES: u64 = 4;

/// The noise.
#[derive(Debug, Clone)]
pub enum Noise {
    /// Drawn for each step.
    Drawn(Drawn),
    /// In time.
    Interruptions(Interruptions),
}

/// A distribution of the time a step loses.
#[derive(Debug, Clone, Copy)]
pub enum Drawn {
    /// None.
    Nothing,
    /// Exponential with this mean.
    Exponential(f64),
    /// Pareto with this least value and shape.
    Pareto(f64, f64),
    /// With this probability, so long.
    Rare(f64, Span),
}

impl Drawn {
    /// One draw, in whole nanoseconds.
    #[inline]
    pub fn draw(&self, stream: &mut Stream) -> Span {
        let whole = |nanos: f64| Span::from_nanos(metric::saturate(nanos).min(LONGEST_DRAW));
        match *self {
            Self::Nothing => Span::ZERO,
            Self::Exponential(mean) => whole(stream.exponential(mean)),
            Self::Pareto(least, shape) => whole(stream.pareto(least, shape)),
            Self::Rare(probability, length) => {
                if stream.unit() < probability {
                    length
                } else {
                    Span::ZERO
                }
            }
        }
    }
}

/// The draws of a step, node by node: the first nodes draw the same however many there are.
pub fn draws_of(seed: u64, step: u32) -> Stream {
    Stream::new(seed, &[NODES, 1, u64::from(step)])
}

/// Where in the noise the nodes begin, node by node.
pub fn begins(seed: u64) -> Stream {
    Stream::new(seed, &[NODES, 0])
}

pub(super) fn micros(micros: Micros) -> Span {
    Span::from_micros(micros.get())
}

impl Noise {
    /// What the scenario says; `trace` is what it names, if it names one.
    pub fn of(spec: &NodesSpec, trace: Option<&NoiseTrace>) -> Result<Self, Reason> {
        let drawn = match &spec.noise {
            NoiseSpec::None {} => Drawn::Nothing,
            NoiseSpec::Exponential { mean_us } => Drawn::Exponential(micros(*mean_us).as_f64()),
            NoiseSpec::Pareto { least_us, shape } => Drawn::Pareto(micros(*least_us).as_f64(), *shape),
            NoiseSpec::Rare { probability, length_us } => Drawn::Rare(*probability, micros(*length_us)),
            NoiseSpec::Periodic { period_us, length_us } => {
                let one = Interruption { start: Span::ZERO, length: micros(*length_us) };
                let trace = NoiseTrace::new(vec![one], micros(*period_us))?;
                return Ok(Self::Interruptions(Interruptions::of(&trace)));
            }
            NoiseSpec::Trace { file, .. } => {
                let trace = trace.ok_or_else(|| format!("the trace {file} was not given"))?;
                return Ok(Self::Interruptions(Interruptions::of(trace)));
            }
        };
        Ok(Self::Drawn(drawn))
    }
}
