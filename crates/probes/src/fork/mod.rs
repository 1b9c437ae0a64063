//! Cost of a process: fork, exec of a program that ends at once, wait. `fork` and not `posix_spawn`, because copying
//! the page tables is what a hypervisor makes dear. Source: Lourot's thesis (fork + exit + wait), with exec added.

pub(crate) mod check;
pub(crate) mod metrics;
pub mod params;
pub(crate) mod pretend;
pub mod run;

pub mod detail {
    //! Its outcome is that of all probes that count.
    pub use crate::rate::RateDetail;
}

use units::facts::MachineFacts;

use self::detail::RateDetail;
use self::params::ForkParams;
use crate::probe::{About, Cost, Probe};

/// The probe.
#[derive(Debug, Clone, Copy)]
pub struct Fork;

impl Probe for Fork {
    type Params = ForkParams;
    type Detail = RateDetail;

    const ABOUT: About = About {
        is_about_shares: true,
        ..About::new(
            "Starting processes",
            "Start a process, run a program in it, wait for its end. This exercises page tables and the kernel and is \
             where virtualization tends to cost most. Longer bars are better.",
        )
    };

    fn cost(params: &ForkParams, facts: &MachineFacts) -> Cost {
        Cost::clock(params.duration_ms.to_duration() * params.max_threads.unwrap_or(facts.cpus.max(1)))
    }
}
