//! What do the numbers mean? Statistics of predictability, pure: no clock, no files, seeds come in as arguments.
//!
//! ```text
//!  raw values ─┬─influence, bound─► time-weighted tails    ─┐
//!              ├─threads──────────► units really granted    ├─► a figure a round ──interval, pairs──► Answer, Comparison
//!              ├─plateaus─────────► caches                  │
//!              ├─exceedance───────► how often later than t   │
//!              └─spectrum─────────► periodic noise          ─┘
//! ```

pub mod bound;
mod dependence;
pub mod distributions;
pub mod exceedance;
pub mod influence;
pub mod interval;
pub mod looks;
pub mod pairs;
pub mod plateaus;
pub mod power;
mod signed_rank;
pub mod spectrum;
pub mod summary;
pub mod tail;
pub mod threads;
pub mod water;
