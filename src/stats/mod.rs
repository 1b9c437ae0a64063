//! What do the numbers mean? Statistics of predictability, pure: no clock, no files, seeds come in as arguments.
//!
//! ```text
//!  Detail ──metrics──► Metric ──interval, pairs──► Answer, Comparison
//!     │                  ▲
//!     ├─influence, bound─┤   time-weighted tails
//!     ├─threads──────────┤   units really granted
//!     └─plateaus─────────┘   caches
//! ```

pub mod attribution;
pub mod bound;
mod dependence;
mod distributions;
mod fair_share;
pub mod influence;
pub mod interval;
pub mod isolation;
#[cfg(test)]
mod made_run;
pub mod metrics;
pub mod pairs;
pub mod plateaus;
mod signed_rank;
pub mod suitability;
pub mod summary;
pub mod threads;
pub mod timeline;

pub use metrics::metrics_of;
