//! The network probe: two instances send each other streams, and questions with answers, over TCP and UDP.
//!
//! ```text
//!   first (even number)                         second (odd number)
//!   knock ─────────────── control ────────────► door at its own address
//!   per protocol, exchange, size, direction:
//!     Begin ──────────────────────────────────►
//!     knock ──────────── data (TCP) ──────────► admit
//!          ◄────────────────────────────── Ready
//!     out:  send ═════════════════════════════► receive, then hang up
//!     in:   Go ────►  receive ◄═══════════════ send        … Enough ──►
//!     both: ask ◄════════════════════════════► answer      … Enough ──►
//!          ◄──────────────────────── Done(tally)
//! ```
//!
//! With more than two instances, 0 and 1, 2 and 3 and so on are pairs that measure at the same time; each even one
//! reports its own pair, and the last of an odd number rests. Streams are timed where they arrive, from their first
//! byte. TCP streams leave Nagle's algorithm on and buffers at the system's own sizes, as iperf3 does; questions and
//! answers use `TCP_NODELAY` and blocking calls, as sockperf's ping-pong does, so the figures can be set beside theirs
//! (sockperf prints half the round trip). Like those two, the probe's thread is not pinned: whether partners on one
//! machine share a CPU is its scheduler's choice, as it is for real programs, and decides a round trip by a factor of four.

pub(crate) mod check;
pub mod control;
mod cost;
pub mod datagrams;
pub mod detail;
mod follow;
mod lead;
mod link;
pub(crate) mod metrics;
mod pair;
mod pairs;
pub mod params;
pub mod plan;
pub(crate) mod pretend;
mod questions;
pub mod run;
mod streams;
mod usage;

use units::Bytes;
use units::facts::MachineFacts;

use self::detail::NetDetail;
use self::params::NetParams;
use crate::probe::{About, Cost, Probe, Slowdown};

/// The probe.
#[derive(Debug, Clone, Copy)]
pub struct Net;

impl Probe for Net {
    type Params = NetParams;
    type Detail = NetDetail;

    const ABOUT: About = About {
        is_made_together: true,
        slowdown: Slowdown { virtualized: 1.15, translated: 10.0 },
        ..About::new(
            "Network",
            "Two instances send each other messages of growing size, as a stream and as question and answer. Streams show \
             how much goes through, round trips how long a partner waits. CPU time is that of both ends; UDP may lose \
             messages, and what it loses is counted.",
        )
    };

    fn cost(params: &NetParams, _facts: &MachineFacts) -> Cost {
        Cost::exchanges(params.duration_ms.to_duration(), cost::points(params))
    }

    fn transfer(params: &NetParams, _instances: f64, slow: f64) -> f64 {
        cost::transfer(params, slow)
    }

    fn memory(params: &NetParams, _facts: &MachineFacts) -> Bytes {
        // A message to send and room for one that comes; datagrams besides.
        let largest = u64::from(params.message_bytes.iter().copied().max().unwrap_or(1));
        Bytes::from_bytes((4 << 20) + 2 * largest)
    }
}
