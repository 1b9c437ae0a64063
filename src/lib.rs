//! Bulkhead tells you, before you share a machine, what each tenant will get, and then holds the machine to it.
//!
//! Library and thin binary. Each folder of `src/` is a room that answers one question; ARCHITECTURE.md has the table,
//! and `tests/architecture.rs` holds the imports to it.

pub mod campaign;
pub mod channels;
pub mod cli;
pub mod model;
pub mod partition;
pub mod platforms;
pub mod report;
pub mod sim;
pub mod stats;
pub mod workloads;
