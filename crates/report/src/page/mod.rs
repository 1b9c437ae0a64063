//! `report.html`: one self-contained file. It opens without a network, reads without scripts, and holds no request.
//!
//! ```text
//!  document ─► front (the first screen, from `brief`)                                         └ open
//!           ├► comparison · fit · isolation · attribution · together · clocks · failures · provenance · glossary     └ folded
//!           └► probes: search, index, a fold per probe ─► figures (rows, strips, notes), its pictures
//!                      parts (folds, tables, pictures), notes (each sentence once), anchor (where links lead)
//! ```

pub(crate) mod anchor;
mod attribution;
pub(crate) mod clocks;
mod comparison;
mod cpu;
mod disk;
pub(crate) mod document;
mod failures;
mod figures;
mod fit;
mod front;
mod fwq;
mod gap;
mod glossary;
mod headlines;
mod host_memory;
mod isolation;
mod jobs;
mod memory;
mod notes;
pub(crate) mod parts;
mod peers;
pub mod plan;
mod probes;
mod provenance;
mod rates;
pub(super) mod share;
mod simulation;
mod strip;
mod time_line;
mod timing;
mod together;
mod traps;
pub mod verification;

pub use document::html;
