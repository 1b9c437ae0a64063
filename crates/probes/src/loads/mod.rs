//! Neighbours: stressors whose dose is measured, not assumed.
//!
//! ```text
//!  LoadSpec ─► Team ─► threads, each with a Stressor ─► round, round, … ─► Done per round ─► Dose ─► Resting
//!                                                          └─ a bounded piece of work, so that it can be stopped soon
//! ```

pub mod arithmetic;
pub mod forking;
pub mod hits;
pub mod interrupt;
pub mod lock;
pub mod mixed;
pub mod network;
pub mod outlet;
pub mod packets;
pub mod resting;
pub mod streaming;
pub mod stressors;
pub mod team;
pub mod writing;
