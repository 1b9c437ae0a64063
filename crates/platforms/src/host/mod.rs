//! Is this host fit to be measured? Reads what the kernel says of governor, clocks, load, memory and the place we are
//! in, and judges it. Each check is a pure function of the text it was made from; only [`preflight`] reads.
//!
//! ```text
//!  /proc, /sys ─► read (bounded) ─► checks (pure) ─► Preflight: ok · note · dirty · missing
//! ```

mod activity;
mod clocks;
pub mod cpu_log;
mod frequency;
mod kept_time;
mod memory;
pub mod numa_maps;
mod place;
mod preflight;
mod read;
pub mod watch;

pub use kept_time::{KeptTime, kept_time};
pub use preflight::{crowding, preflight};
