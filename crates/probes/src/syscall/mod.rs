//! Cost of entering the kernel: `getppid` in a loop, made as a raw system call, since a C library may cache it.
//! Source: Lourot's thesis.

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
use self::params::SyscallParams;
use crate::probe::{About, Cost, Probe};

/// The probe.
#[derive(Debug, Clone, Copy)]
pub struct Syscall;

impl Probe for Syscall {
    type Params = SyscallParams;
    type Detail = RateDetail;

    const ABOUT: About = About {
        is_about_shares: true,
        ..About::new(
            "System calls",
            "The cheapest system call, in a loop. It shows what entering the kernel costs, and what a platform puts in \
             between. Longer bars are better.",
        )
    };

    fn cost(params: &SyscallParams, facts: &MachineFacts) -> Cost {
        Cost::clock(params.duration_ms.to_duration() * params.max_threads.unwrap_or(facts.cpus.max(1)))
    }
}
