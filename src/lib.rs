//! Bulkhead tells you, before you share a machine, what each tenant will get, and then holds the machine to it.
//!
//! Library and thin binary. Each folder of `src/` is a room that answers one question; ARCHITECTURE.md has the table,
//! and `tests/architecture.rs` holds the imports to it.

pub mod cli;

pub use {
    analysis, campaign, channels, model, partition, platforms, probes, report, sim, stats, units, verify,
};
