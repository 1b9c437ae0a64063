//! Latency of dependent loads: each load gives the address of the next, over arrays of growing size. Source: lmbench
//! `lat_mem_rd` (`McVoy` and Staelin 1996) and Lourot's thesis for the backward order.
//!
//! The random order is one cycle through all elements whose steps go to a random other page each time, so neither a
//! stream prefetcher nor an open row helps: pages are put in a random circle, and each lap of the circle visits
//! another element of every page. It is written page by page, which costs no more than filling the array.

pub mod detail;
mod metrics;
pub mod params;
mod pretend;
pub mod run;

use units::Bytes;
use units::facts::MachineFacts;
use units::metric::Metric;

use self::detail::MemLatencyDetail;
use self::params::MemLatencyParams;
use crate::check::{Checked, MOST_POINTS, at_most, because, finite};
use crate::context::Context;
use crate::detail::Detail;
use crate::error::WorkError;
use crate::job::ProbeReport;
use crate::pretend::Maker;
use crate::probe::{About, Cost, OutOfBounds, Probe, Slowdown};
use crate::sizes::{Arrays, largest_array};

/// The probe.
#[derive(Debug, Clone, Copy)]
pub struct MemLatency;

impl Probe for MemLatency {
    type Params = MemLatencyParams;
    type Detail = MemLatencyDetail;

    const ABOUT: About = About {
        is_about_memory: true,
        slowdown: Slowdown { virtualized: 1.15, translated: 4.0 },
        ..About::new(
            "Memory latency",
            "Each load needs the result of the one before, over larger and larger arrays. The curve climbs in steps: each plateau is a level of cache, the last one is memory.",
        )
    };

    fn check_params(params: &MemLatencyParams) -> Result<(), OutOfBounds> {
        params.check()
    }

    fn cost(params: &MemLatencyParams, facts: &MachineFacts) -> Cost {
        let arrays = Arrays::of(params.min_size_kib, params.max_size_mib, params.steps_per_octave, facts);
        let elements = arrays.total_bytes() / f64::from(params.stride_bytes.max(1));
        Cost {
            by_clock: params.duration_ms.to_duration().as_secs_f64() * arrays.count,
            ..Cost::work(elements, 40.0)
        }
    }

    fn memory(params: &MemLatencyParams, facts: &MachineFacts) -> Bytes {
        Bytes::from_bytes(largest_array(params.max_size_mib, facts))
    }

    fn run(params: &MemLatencyParams, context: &Context<'_>) -> Result<ProbeReport, WorkError> {
        run::measure(params, context)
    }

    fn pretend(maker: &mut Maker, params: &MemLatencyParams) -> Result<Detail, String> {
        Ok(Detail::MemLatency(maker.mem_latency(params)))
    }

    fn saw_nothing(detail: &MemLatencyDetail) -> Option<String> {
        because(
            detail.points.is_empty() || detail.points.iter().any(|point| point.load_ns <= 0.0),
            "no load was timed at one of the sizes",
        )
    }

    fn check(detail: &MemLatencyDetail) -> Checked {
        at_most("mem-latency.points", detail.points.len(), MOST_POINTS)?;
        detail.points.iter().try_for_each(|point| finite("mem-latency.load_ns", point.load_ns))
    }

    fn metrics(detail: &MemLatencyDetail) -> Vec<Metric> {
        metrics::metrics(detail)
    }
}
