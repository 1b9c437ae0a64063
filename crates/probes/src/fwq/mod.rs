//! Fixed work quantum: the same empty loop, timed over and over; what is longer than the shortest was taken away by
//! somebody. Source: Van Hensbergen 2005; Sottile and Minnich 2004 name the weakness (long samples hide which
//! disturbance it was), which the gap probe does not have.

pub(crate) mod check;
pub mod detail;
pub(crate) mod metrics;
pub mod params;
pub(crate) mod pretend;
pub mod run;

use units::Bytes;
use units::facts::MachineFacts;

use self::detail::FwqDetail;
use self::params::FwqParams;
use crate::probe::{About, Cost, Probe, more_rounds};

/// The probe.
#[derive(Debug, Clone, Copy)]
pub struct Fwq;

impl Probe for Fwq {
    type Params = FwqParams;
    type Detail = FwqDetail;

    const ABOUT: About = About {
        is_about_shares: true,
        ..About::new(
            "Same work, again and again",
            "A fixed piece of work is done over and over, and each time is noted. On an ideal machine all times are \
             equal; what lies above the shortest is interference.",
        )
    };

    fn with_more_work(params: &FwqParams, percent: f64) -> Option<FwqParams> {
        Some(FwqParams { iterations: more_rounds(params.iterations, percent), ..params.clone() })
    }

    fn cost(params: &FwqParams, _facts: &MachineFacts) -> Cost {
        Cost::work(params.iterations as f64 * f64::from(params.samples), 0.5)
    }

    fn memory(params: &FwqParams, _facts: &MachineFacts) -> Bytes {
        Bytes::from_bytes(u64::from(params.samples) * 16)
    }
}
