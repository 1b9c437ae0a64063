//! Did it hold? Every requirement, the test that shows it, the result, and what could not be tested.
//!
//! ```text
//!  requirements ─► tests ─► run: round after round, what is not decided first ─► journal.jsonl
//!                            │ in_place  a probe beside the subject's own program
//!                            │ look      what kernel and supervisors say
//!                            │ command   a program of the user's
//!                            │ client    who asks from outside, how long answers take
//!                            └ failure   a part fails, a client outside waits
//!  journal ─► judge ─► conclude: parts, what is stale ─► verify.json ─► evidence: page, JUnit, manifest
//! ```
//! `judge`, `conclude`, `trace` and `junit` touch nothing: an evidence folder is judged again offline from its journal.

pub mod basis;
mod client;
pub mod command;
pub mod conclude;
pub mod failure;
pub mod in_place;
pub mod journal;
pub mod judge;
pub mod junit;
pub mod look;
pub mod of_class;
pub mod run;
pub mod tester;
pub mod trace;
pub mod watch;
