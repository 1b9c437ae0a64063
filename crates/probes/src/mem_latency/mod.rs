//! Latency of dependent loads: each load gives the address of the next, over arrays of growing size. Source: lmbench
//! `lat_mem_rd` (`McVoy` and Staelin 1996) and Lourot's thesis for the backward order.
//!
//! The random order is one cycle through all elements whose steps go to a random other page each time, so neither a
//! stream prefetcher nor an open row helps: pages are put in a random circle, and each lap of the circle visits
//! another element of every page. It is written page by page, which costs no more than filling the array.

pub(crate) mod check;
mod circle;
pub mod detail;
pub(crate) mod metrics;
pub mod params;
pub(crate) mod pretend;
pub mod run;

use units::Bytes;
use units::facts::MachineFacts;

use self::detail::MemLatencyDetail;
use self::params::MemLatencyParams;
use crate::probe::{About, Cost, Probe, Slowdown};
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
            "Each load needs the result of the one before, over larger and larger arrays. The curve climbs in steps: each \
             plateau is a level of cache, the last one is memory.",
        )
    };

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
}
