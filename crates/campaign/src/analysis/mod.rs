//! What does the journal add up to? Journal in, [`model::results::RunResults`] out; pure.
//!
//! ```text
//!  measurements ─► table (per cell: rounds × metrics) ─► estimates ─► comparisons ─► verdicts
//!                                                    └─► detail, clock, cost, doses, notes
//! ```

mod attribution;
mod clocks;
mod comparisons;
mod detail;
mod policies;
mod results;
mod steps;
mod table;
mod verdicts;
mod wording;

pub(crate) use comparisons::CONFIDENCE;
pub use results::analyse;
