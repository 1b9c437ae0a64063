//! The JSON schemas of what is written to disk, as they come with the program.
//!
//! They lie in `docs/formats`, a definition a line. The crate `schemas` makes them from the types and fails when they differ: the
//! code that makes them would be a twentieth of the binary.

/// Results of a run, `results.json`.
pub const RESULTS: &str = include_str!("../../../docs/formats/results.schema.json");
/// A line of `journal.jsonl`.
pub const JOURNAL: &str = include_str!("../../../docs/formats/journal.schema.json");
/// `experiment.toml`, as JSON.
pub const EXPERIMENT: &str = include_str!("../../../docs/formats/experiment.schema.json");
/// A file of classes, as JSON.
pub const CLASSES: &str = include_str!("../../../docs/formats/classes.schema.json");
/// `scenario.toml`, as JSON.
pub const SCENARIO: &str = include_str!("../../../docs/formats/scenario.schema.json");
/// Output of `doctor --json`.
pub const PREFLIGHT: &str = include_str!("../../../docs/formats/preflight.schema.json");
/// Output of `doctor --power --json`.
pub const POWER: &str = include_str!("../../../docs/formats/power.schema.json");
/// A set of partitions, as JSON.
pub const SET: &str = include_str!("../../../docs/formats/set.schema.json");
/// Output of `channel bench --json`.
pub const CHANNEL: &str = include_str!("../../../docs/formats/channel.schema.json");
/// A host, as `doctor --host-file` writes it, as JSON.
pub const HOST: &str = include_str!("../../../docs/formats/host.schema.json");
/// A system, as JSON: a set with hosts, links, and what each partition needs.
pub const SYSTEM: &str = include_str!("../../../docs/formats/system.schema.json");
/// `plan.json`.
pub const PLAN: &str = include_str!("../../../docs/formats/plan.schema.json");
/// A file of requirements, as JSON.
pub const REQUIREMENTS: &str = include_str!("../../../docs/formats/requirements.schema.json");
/// `verify.json`.
pub const VERIFY: &str = include_str!("../../../docs/formats/verify.schema.json");
/// A line of a verification's `journal.jsonl`.
pub const VERIFY_JOURNAL: &str = include_str!("../../../docs/formats/verify-journal.schema.json");
