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

pub mod mailbox;
mod mesh;
mod orders;
mod patterns;
mod post;
pub mod probe;
mod wait;
