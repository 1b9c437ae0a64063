//! What is written: every artefact on disk or on the wire.
//!
//! This room is pure: no clock, no files, no environment. The other rooms hand each other values whose types
//! live here, in `units` and in `probes`, so every verb runs, tests and resumes alone.
//!
//! ```text
//!  experiment.toml ─► Experiment ─► Job ══ wire ══► Reply(ProbeReport)
//!                                                      │
//!                     journal.jsonl ◄─ Measurement ◄───┘
//!                           │
//!                     results.json ◄─ RunResults ─► terminal, report.html
//! ```

pub mod attribution;
pub mod channel_bench;
pub mod channel_worker;
pub mod classes;
pub mod clocks;
pub mod exceedance;
pub mod experiment;
pub mod formats;
pub mod host_state;
pub mod isolation;
pub mod journal;
pub mod partition;
pub mod plan;
pub mod platform;
pub mod policy;
pub mod power;
pub mod prediction;
pub mod preflight;
pub mod requirement;
pub mod results;
pub mod scenario;
pub mod sides;
pub mod simulation;
pub mod system;
pub mod verification;
pub mod wire;

/// Version of the formats in a run directory (`journal.jsonl`, `results.json`). Raised when an old reader would
/// misread a new file; a reader refuses versions it does not know.
pub const SCHEMA_VERSION: u32 = 2;

/// The oldest version of these formats that is still read: files of schema 1 have no layouts, clocks or accounts.
pub const OLDEST_SCHEMA_VERSION: u32 = 1;

/// Versions of the formats that this program reads, for messages: `1 to 2`.
pub const READABLE_SCHEMAS: &str = "1 to 2";

/// Whether files of this version are read.
pub const fn is_readable_schema(version: u32) -> bool {
    OLDEST_SCHEMA_VERSION <= version && version <= SCHEMA_VERSION
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_name_the_versions_that_are_read() {
        assert_eq!(READABLE_SCHEMAS, format!("{OLDEST_SCHEMA_VERSION} to {SCHEMA_VERSION}"));
        assert!(is_readable_schema(1) && is_readable_schema(2));
        assert!(!is_readable_schema(0) && !is_readable_schema(SCHEMA_VERSION + 1));
    }
}
