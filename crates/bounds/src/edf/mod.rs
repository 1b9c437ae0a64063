//! Preemptive earliest deadline first: whether all deadlines are met, and how late jobs can be.

mod demand;
mod response;

pub(crate) use demand::test_within;
pub use demand::{demand, test};
pub use response::responses;
