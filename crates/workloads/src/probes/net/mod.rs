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

pub mod control;
pub mod datagrams;
mod follow;
mod lead;
mod link;
mod pair;
pub mod plan;
pub mod probe;
mod questions;
mod streams;
mod usage;
