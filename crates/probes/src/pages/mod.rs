//! First touch of memory: what a page costs when nobody has used it yet, and on which memory node it lies.
//!
//! Source: Ibrahim 2012: in a guest that has just been started nearly every first touch reaches the hypervisor; later
//! the guest's kernel hands out pages that it already has.
//!
//! ```text
//!  map ─► touch each page once, each timed ─► nodes ─► unmap      first pass: cold when the instance is fresh
//!   ▲                                                    │        further passes: warm
//!   └────────────────────────────────────────────────────┘
//! ```

pub(crate) mod check;
pub mod detail;
pub(crate) mod metrics;
mod nodes;
pub mod params;
pub(crate) mod pretend;
pub mod run;

use units::Bytes;
use units::facts::MachineFacts;

use self::detail::PagesDetail;
use self::params::PagesParams;
use crate::probe::{About, Cost, Probe, Slowdown};

/// The probe.
#[derive(Debug, Clone, Copy)]
pub struct Pages;

impl Probe for Pages {
    type Params = PagesParams;
    type Detail = PagesDetail;

    const ABOUT: About = About {
        is_about_memory: true,
        wants_fresh_instance: true,
        slowdown: Slowdown { virtualized: 1.6, translated: 25.0 },
        ..About::new(
            "First touch of memory",
            "Memory is touched for the first time, page by page. In a machine that has just been started the hypervisor \
             must find each page; later the guest's kernel has pages of its own to give.",
        )
    };

    fn cost(params: &PagesParams, _facts: &MachineFacts) -> Cost {
        let pages = params.size_mib.to_bytes().as_f64() / 4096.0 * (f64::from(params.warm_passes) + 1.0);
        Cost::work(pages, 500.0)
    }

    fn memory(params: &PagesParams, _facts: &MachineFacts) -> Bytes {
        params.size_mib.to_bytes()
    }
}
