//! Memory throughput: read, write and copy over arrays of growing size, by one or more threads at once. Source:
//! STREAM (John D. `McCalpin`, 1995) and Lourot's thesis. Write-allocate traffic is not counted, as in STREAM.

pub(crate) mod check;
pub mod detail;
pub(crate) mod metrics;
pub mod params;
pub(crate) mod pretend;
pub mod run;

use units::Bytes;
use units::facts::MachineFacts;

use self::detail::MemBandwidthDetail;
use self::params::MemBandwidthParams;
use crate::probe::{About, Cost, Probe, Slowdown};
use crate::sizes::{Arrays, largest_array};

/// The probe.
#[derive(Debug, Clone, Copy)]
pub struct MemBandwidth;

impl Probe for MemBandwidth {
    type Params = MemBandwidthParams;
    type Detail = MemBandwidthDetail;

    const ABOUT: About = About {
        is_about_shares: true,
        is_about_memory: true,
        slowdown: Slowdown { virtualized: 1.15, translated: 20.0 },
        ..About::new(
            "Memory throughput",
            "Arrays of growing size are read, written and copied. The curve falls in steps as the array outgrows one \
             cache after the other.",
        )
    };

    fn cost(params: &MemBandwidthParams, facts: &MachineFacts) -> Cost {
        let arrays = Arrays::of(params.min_size_kib, params.max_size_mib, params.steps_per_octave, facts);
        let by_clock = params.duration_ms.to_duration().as_secs_f64() * arrays.count * 3.0;
        Cost { by_clock, ..Cost::work(arrays.total_bytes() * f64::from(params.threads), 0.6) }
    }

    fn memory(params: &MemBandwidthParams, facts: &MachineFacts) -> Bytes {
        Bytes::from_bytes(largest_array(params.max_size_mib, facts).saturating_mul(params.threads.into()))
    }
}
