//! What is there: units, names, and every artefact that is written to disk or sent over the wire.
//!
//! This room is pure: no clock, no files, no environment. The other rooms hand each other values whose types
//! live here, so every verb runs, tests and resumes alone.
//!
//! ```text
//!  experiment.toml ─► Experiment ─► Job ══ wire ══► Reply(ProbeReport)
//!                                                      │
//!                     journal.jsonl ◄─ Measurement ◄───┘
//!                           │
//!                     results.json ◄─ RunResults ─► terminal, report.html
//! ```

pub mod accounts;
pub mod attribution;
pub mod classes;
pub mod detail;
pub mod experiment;
pub mod facts;
pub mod histogram;
pub mod isolation;
pub mod job;
pub mod journal;
pub mod layout;
pub mod metric;
pub mod names;
pub mod outside;
pub mod params;
pub mod platform;
pub mod preflight;
pub mod results;
pub mod sides;
pub mod stage;
pub mod tracing;
pub mod units;
pub mod wire;

/// Version of the formats in a run directory (`journal.jsonl`, `results.json`). Raised when an old reader would
/// misread a new file; a reader refuses versions it does not know.
pub const SCHEMA_VERSION: u32 = 2;
