//! Gap probe: one pinned thread reads the cycle counter back to back; each difference of two reads is a gap. What
//! takes the CPU away (interrupts, other threads, the hypervisor) shows as a long gap. Source: Lourot's thesis, §2
//! of the methodology.

pub(crate) mod check;
pub mod detail;
pub(crate) mod metrics;
pub mod observe;
pub mod pace;
pub mod params;
pub(crate) mod pretend;
pub mod record;
pub mod run;

use units::Bytes;
use units::facts::MachineFacts;

use self::detail::GapDetail;
use self::params::GapParams;
use crate::probe::{About, Cost, Lengths, Probe};

/// The probe.
#[derive(Debug, Clone, Copy)]
pub struct Gap;

impl Probe for Gap {
    type Params = GapParams;
    type Detail = GapDetail;

    const ABOUT: About = About::new(
        "Time taken away",
        "One thread does nothing but read the cycle counter. Whenever the time between two reads is long, somebody \
         took the CPU away: the kernel, the hypervisor, a neighbour. A gap counts as long as it lasts. bound_95 is \
         the length that gaps stay below for 95 % of the time; the worst gap is what a deadline has to survive.",
    );

    fn cost(params: &GapParams, _facts: &MachineFacts) -> Cost {
        match params.reads {
            Some(reads) => Cost::work(reads as f64, 12.0),
            None => Cost { by_work: 0.001, ..Cost::clock(params.duration_ms.to_duration()) },
        }
    }

    fn memory(params: &GapParams, _facts: &MachineFacts) -> Bytes {
        Bytes::from_bytes(u64::from(params.batches) * (128 << 10) / 4)
    }

    fn lengths(detail: &GapDetail) -> Option<Lengths> {
        metrics::lengths(detail)
    }
}
