//! What do the numbers mean? Statistics of predictability, pure: no clock, no files, seeds come in as arguments.
//!
//! ```text
//!  Detail ──metrics──► Metric ──interval, pairs──► Answer, Comparison
//!     │                  ▲
//!     ├─influence, bound─┤   time-weighted tails
//!     ├─threads──────────┤   units really granted
//!     ├─plateaus─────────┤   caches
//!     └─spectrum─────────┘   periodic noise
//! ```

// Made-up runs name this crate as other crates' tests do, which take the same file.
#[cfg(test)]
extern crate self as stats;

pub mod attribution;
pub mod bound;
mod cap;
pub mod channel_bench;
mod dependence;
mod distributions;
mod fair_share;
mod host_memory;
pub mod influence;
pub mod interval;
pub mod isolation;
pub mod joint;
#[cfg(test)]
mod made_run;
pub mod metrics;
pub mod outside;
pub mod pairs;
pub mod plateaus;
pub mod policy;
pub mod shares;
mod signed_rank;
pub mod spectrum;
pub mod suitability;
pub mod summary;
pub mod threads;
pub mod timeline;
pub mod water;

pub use metrics::metrics_of;
