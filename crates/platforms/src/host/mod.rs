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

use std::time::Duration;

pub use kept_time::{KeptTime, kept_time};
pub use preflight::{crowding, preflight};

/// Which share of the time of all CPUs is idle while we look for so long; none where the kernel does not say.
pub fn idle_share(over: Duration) -> Option<f64> {
    let look = || activity::cpu_time(&read::text("/proc/stat")?);
    let first = look()?;
    std::thread::sleep(over);
    activity::idle(first, look()?)
}
