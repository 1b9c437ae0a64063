//! What would happen? A discrete-event model of hosts, hypervisor schedulers and guests: pure, deterministic by seed.
//!
//! ```text
//!  queue ─► host::Machine ─┬─ policy   who gets a CPU, and for how long
//!                          └─ guest    what runs there: threads, a scheduler of its own, locks
//!  nodes    a program on many nodes, and what noise does to it      closed   what theory says of it
//!  paging   guest and host memory on NUMA nodes, cold and warm
//! ```

pub mod brake;
pub mod calibrate;
pub mod closed;
pub mod guest;
pub mod host;
#[cfg(test)]
#[allow(dead_code, reason = "the tests of several crates share it, and each uses its own part")]
#[path = "../../analysis/src/made_run.rs"]
mod made_run;
pub mod nodes;
pub mod packed;
pub mod paging;
pub mod planned;
pub mod policy;
pub mod programs;
pub mod queue;
pub mod random;
pub mod scenario;
pub mod speed;
pub mod time;
