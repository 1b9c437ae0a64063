//! The vocabulary: quantities with their units, names, and the facts that everything else is said in. Pure.
//!
//! ```text
//!  quantity ─► metric, histogram          what figures are made of
//!           ├► facts, accounts, outside   what a machine says, and what its host saw
//!           └► stage, exchange            what a running job may ask of its host
//! ```
//! What could not be done is told with a [`Reason`].

pub mod accounts;
pub mod bounds;
pub mod clock_wire;
pub mod exchange;
pub mod facts;
pub mod histogram;
pub mod layout;
pub mod metric;
pub mod names;
pub mod outside;
mod quantity;
mod reason;
pub mod scheduling;
pub mod stage;
pub mod tracing;

pub use quantity::*;
pub use reason::Reason;
