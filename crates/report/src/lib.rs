//! Show it: terminal tables and a self-contained HTML page.
//!
//! This room is pure: it turns [`model::results::RunResults`] into strings and touches neither files nor
//! clocks. Whatever comes from a guest (labels, notes, console lines) is treated as hostile text.
//!
//! ```text
//!  RunResults ──► figures ──► terminal            (text, 80 columns)
//!        │            └─────► page ◄── chart      (HTML with inline SVG)
//!        └─ two of them ─► change ─► compare      (both forms)
//! ```

pub mod brief;
pub mod change;
pub mod channel_bench;
pub mod chart;
pub mod compare;
pub mod figures;
mod fit;
pub mod host_state;
mod isolation;
#[cfg(test)]
#[allow(dead_code, reason = "the tests of several crates share it, and each uses its own part")]
#[path = "../../analysis/src/made_run.rs"]
mod made_run;
pub mod page;
pub mod plan;
pub mod simulation;
pub mod terminal;
pub mod text;
mod together;
pub mod trace_events;
pub mod utc;
pub mod verification;
mod who;

pub use page::plan as plan_page;
pub use page::verification as verification_page;
