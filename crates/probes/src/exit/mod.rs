//! Cost of a trap to the hypervisor: `cpuid` between two reads of the cycle counter, against two reads with nothing
//! between them.
//!
//! Every hypervisor on x86 must handle `cpuid` itself (Intel SDM vol. 3, "Instructions That Cause VM Exits
//! Unconditionally"; AMD's is intercepted by all of them), and user space may execute it. aarch64 has no instruction that
//! user space may execute and that always leaves the guest, so the probe refuses there.

pub(crate) mod check;
pub mod detail;
pub(crate) mod metrics;
pub mod params;
pub(crate) mod pretend;
pub mod run;

use units::facts::MachineFacts;

use self::detail::ExitDetail;
use self::params::ExitParams;
use crate::probe::{About, Cost, Probe};

/// The probe.
#[derive(Debug, Clone, Copy)]
pub struct Exit;

impl Probe for Exit {
    type Params = ExitParams;
    type Detail = ExitDetail;

    const ABOUT: About = About::new(
        "Traps to the hypervisor",
        "An instruction that a hypervisor must handle itself, over and over. It shows what leaving the guest and \
         coming back costs; on a machine without a hypervisor it is a slow instruction and nothing else.",
    );

    fn cost(params: &ExitParams, _facts: &MachineFacts) -> Cost {
        Cost::clock(params.duration_ms.to_duration())
    }
}
