//! Cost of a context switch: two processes, or two threads, hand a turn to each other through a pipe or a futex, on the same CPU
//! and on two. What `lat_ctx` of lmbench measures with two processes and no working set (`McVoy` and Staelin 1996), and the same
//! between threads and through what locks sleep on.
//!
//! ```text
//!   measuring      give ───────► take     one pass and one switch each
//!   partner        take ◄─────── give
//! ```
//! What giving and taking cost without anybody to switch to is measured in turn with the passes, and taken off.

pub(crate) mod check;
pub mod detail;
mod handover;
pub(crate) mod metrics;
pub mod params;
pub(crate) mod pretend;
pub mod run;

use units::facts::MachineFacts;

use self::detail::{KINDS, SwitchDetail};
use self::params::SwitchParams;
use crate::probe::{About, Cost, Probe};

/// The probe.
#[derive(Debug, Clone, Copy)]
pub struct Switch;

impl Probe for Switch {
    type Params = SwitchParams;
    type Detail = SwitchDetail;

    const ABOUT: About = About::new(
        "Switching between programs",
        "Two processes, or two threads, hand a turn to each other: through a pipe, as programs do, and through a futex, on which \
         locks sleep. On one CPU it shows what the kernel's switch costs; on two, what waking up another CPU costs, which a \
         hypervisor makes dear: each wake-up is an interrupt to a CPU that may have to be woken itself.",
    );

    fn cost(params: &SwitchParams, _facts: &MachineFacts) -> Cost {
        let kinds = u32::try_from(KINDS.len()).unwrap_or(u32::MAX);
        Cost { by_work: 0.01, ..Cost::clock(params.duration_ms.to_duration().saturating_mul(kinds)) }
    }
}
