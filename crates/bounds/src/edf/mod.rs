//! Preemptive earliest deadline first: whether all deadlines are met, and how late jobs can be.

mod demand;
mod response;

pub use demand::{demand, test};
pub use response::responses;
