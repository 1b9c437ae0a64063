//! Fixed time quantum: how many small rounds of work fit into each of many equal spans of time. What is missing in a
//! span was taken away in it, so the series can be searched for beats; a series of work quanta cannot, because its
//! samples are not evenly spaced in time. Source: Sottile and Minnich 2004; van Hensbergen 2005 names it as future work.
//!
//! ```text
//!  quantum   0        │ 1        │ 2        │ 3        │ 4
//!  rounds    ▪▪▪▪▪▪▪▪▪│▪▪▪▪▪     │          │    ▪▪▪▪▪▪│▪▪▪▪▪▪▪▪▪     counts 9 5 0 6 9
//!                           └──── taken away ────┘
//! ```
//!
//! A round counts for the quantum in which it ends. The grid is laid out once from the first read of the counter: what
//! is late makes no quantum longer and moves no later one.

pub(crate) mod check;
pub mod detail;
pub(crate) mod metrics;
pub mod params;
pub(crate) mod pretend;
pub mod run;

use units::facts::MachineFacts;

use self::detail::FtqDetail;
use self::params::FtqParams;
use crate::probe::{About, Cost, Probe};

/// The probe.
#[derive(Debug, Clone, Copy)]
pub struct Ftq;

impl Probe for Ftq {
    type Params = FtqParams;
    type Detail = FtqDetail;

    const ABOUT: About = About {
        is_about_shares: true,
        ..About::new(
            "How much work fits into equal spans",
            "Work is counted in equal spans of time. What is missing in a span was taken away; the spectrum shows whether \
             it is taken at regular times, and by what frequency.",
        )
    };

    fn cost(params: &FtqParams, _facts: &MachineFacts) -> Cost {
        Cost { by_work: 0.001, ..Cost::clock(params.duration_ms.to_duration()) }
    }
}
