//! `report.html`: one self-contained file. It opens without a network, reads without scripts, and holds no request.
//!
//! ```text
//!  document ─► summary · fit · comparison · isolation · attribution · one section per probe · neighbours · failures · provenance
//!                 └──────────────── parts (tables, figures, legends) ────────────────┘
//! ```

mod attribution;
pub(crate) mod clocks;
mod comparison;
mod cpu;
mod disk;
pub(crate) mod document;
mod failures;
mod fit;
mod fwq;
mod gap;
mod headlines;
mod host_memory;
mod isolation;
mod jobs;
mod memory;
mod neighbours;
pub(crate) mod parts;
mod peers;
mod probes;
mod provenance;
mod rates;
pub(super) mod share;
mod simulation;
mod summary;
mod time_line;
mod timing;
mod together;
mod traps;

pub use document::html;
