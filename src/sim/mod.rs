//! What would happen? A discrete-event model of hosts, hypervisor schedulers and guests: pure, deterministic by seed.
//!
//! ```text
//!  queue ─► host::Machine ─┬─ policy   who gets a CPU, and for how long
//!                          └─ guest    what runs there: threads, a scheduler of its own, locks
//! ```

pub mod calibrate;
pub mod guest;
pub mod host;
pub mod policy;
pub mod programs;
pub mod queue;
pub mod random;
pub mod scenario;
pub mod time;
