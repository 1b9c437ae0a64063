//! Fake: scripted and deterministic; nothing is run. For tests, and for trying out experiments.

mod instance;
mod pretend;
mod pretend_jobs;
mod pretend_peers;
mod pretend_share;
mod pretend_timing;
mod pretend_traps;

pub use instance::Fake;
