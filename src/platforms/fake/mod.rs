//! Fake: scripted and deterministic; nothing is run. For tests, and for trying out experiments.

mod instance;
mod pretend;

pub use instance::Fake;
pub(crate) use pretend::{Pretence, dose, report};
