//! What do the measurements mean? From journals and results to joint figures, isolation, the sharing policy, fitness and who took
//! the time. Pure: no clock, no files, seeds come in as arguments.
//!
//! ```text
//!  Measurement ──joint──► metrics of a cell ──► RunResults ─┬─isolation, fair share──► who hurts whom
//!       │                                                    └─suitability───────────► fit for what
//!       ├─attribution, timeline─► who took the time
//!       ├─shares, policy────────► by which policy CPUs are shared
//!       └─outside───────────────► what its clock was
//! RunResults ──host_facts──► what planning takes from it
//! ```

// Made-up runs name this crate as other crates' tests do, which take the same file.
#[cfg(test)]
extern crate self as analysis;

pub mod attribution;
pub mod cap;
pub mod channel_bench;
pub mod exceedance;
mod fair_share;
pub mod host_facts;
mod host_memory;
pub mod isolation;
pub mod joint;
#[cfg(test)]
mod made_run;
pub mod outside;
pub mod policy;
pub mod shares;
pub mod suitability;
pub mod timeline;
