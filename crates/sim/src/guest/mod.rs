//! Guests: what runs on virtual CPUs. A guest has threads, each with a program, a scheduler of its own that brings them
//! onto its virtual CPUs, and locks in its kernel.
//!
//! ```text
//!  program ─ Op ─► thread ─ on a virtual CPU ─► Demand ─► host: run so long · spin · halt · help me
//! ```

mod costs;
mod interrupts;
mod kernel;
mod lock;
mod program;
#[cfg(test)]
mod tests;
mod thread;
mod waits;

pub use costs::GuestCosts;
pub use kernel::{Demand, Effects, Guest, GuestPlan, ThreadPlan, ThreadReport};
pub use lock::{LockKind, LockReport, OnLongWait};
pub use program::{Moment, Op, Program, Seen};
pub use waits::Waits;
