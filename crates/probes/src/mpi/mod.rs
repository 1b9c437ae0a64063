//! Message passing as parallel programs do it, without a library for it: ping-pong between the first and the last rank,
//! and all-to-all.
//!
//! A rank is a thread. Ranks of different instances have a TCP connection of their own each; ranks of one instance hand
//! pieces over through memory ([`mailbox`]), as the libraries do between processes of one machine. Whoever waits asks
//! again and again, as the libraries do: it spins, then yields, and sleeps only after a millisecond without progress, so
//! that ranks that outnumber the CPUs do not starve each other.
//!
//! ```text
//!  instance 0: rank 0 ══ mailboxes ══ rank 1        per pattern and size:
//!                │  ╲               ╱   │             barrier (dissemination)
//!               TCP    TCP     TCP     TCP            order(n) from rank 0 ─► n iterations … until warm
//!                │   ╱            ╲     │             order(n) ─► n iterations, timed at rank 0 … until time is up
//!  instance 1: rank 2 ══ mailboxes ══ rank 3          order(0), content checked
//! ```
//!
//! Barrier: Hensgen, Finkel, Manber 1988. All-to-all: pairwise exchange by distance, as MPICH does it for long messages:
//! in step k a rank sends to the rank k further and receives from the one k before, so each step pairs everybody.

pub(crate) mod check;
pub mod detail;
pub mod mailbox;
mod mesh;
pub(crate) mod metrics;
mod orders;
pub mod params;
mod patterns;
mod post;
pub(crate) mod pretend;
pub mod run;
mod wait;

use units::Bytes;
use units::facts::MachineFacts;

use self::detail::MpiDetail;
use self::params::MpiParams;
use crate::probe::{About, Cost, Probe, Slowdown, message_time, whole_messages};

/// The probe.
#[derive(Debug, Clone, Copy)]
pub struct Mpi;

impl Probe for Mpi {
    type Params = MpiParams;
    type Detail = MpiDetail;

    const ABOUT: About = About {
        is_made_together: true,
        polls: true,
        slowdown: Slowdown { virtualized: 1.15, translated: 10.0 },
        ..About::new(
            "Message passing",
            "Messages go to and fro between two ranks, and from all to all, as parallel programs send them: whoever waits \
             asks again and again instead of sleeping. In such programs all wait for the slowest, so the tail counts more \
             than the median.",
        )
    };

    fn cost(params: &MpiParams, _facts: &MachineFacts) -> Cost {
        let sizes = u32::try_from(params.message_bytes.len()).unwrap_or(u32::MAX);
        Cost::exchanges(params.duration_ms.to_duration(), sizes.saturating_mul(2))
    }

    fn transfer(params: &MpiParams, instances: f64, slow: f64) -> f64 {
        if slow <= 0.0 {
            return 0.0;
        }
        let time = params.duration_ms.to_duration().as_secs_f64();
        let ranks = instances * f64::from(params.ranks_per_instance);
        // There and back; to everybody from everybody, all at once.
        let beyond = |each: f64| whole_messages(time, each) - time;
        let way = |size: u32| message_time(size, slow);
        params.message_bytes.iter().map(|size| beyond(2.0 * way(*size)) + beyond(ranks * way(*size))).sum()
    }

    fn memory(params: &MpiParams, _facts: &MachineFacts) -> Bytes {
        // A message to send and room for one that comes, per rank; mailboxes besides.
        let largest = u64::from(params.message_bytes.iter().copied().max().unwrap_or(1));
        Bytes::from_bytes((16 << 20) + u64::from(params.ranks_per_instance) * 2 * largest)
    }
}
