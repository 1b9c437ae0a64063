//! Fake: scripted and deterministic; nothing is run. For tests, and for trying out experiments.

mod instance;

pub use instance::Fake;
