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

use std::path::Path;
use std::time::Duration;

use model::partition::NumberList;
use units::Bytes;

pub use kept_time::{KeptTime, kept_time};
pub use preflight::{crowding, preflight};

/// All CPUs' folders.
const CPUS: &str = "/sys/devices/system/cpu";

/// Swap in use; none where the kernel does not say.
pub fn swap_used() -> Option<Bytes> {
    activity::swap_used(&read::text("/proc/meminfo")?)
}

/// CPUs whose frequency is not held at its highest; none where the kernel shows no governors.
pub fn slow_governors() -> Option<usize> {
    let all = read::text_of_each(CPUS, "cpu", "cpufreq/scaling_governor");
    (!all.is_empty()).then(|| all.iter().filter(|governor| *governor != "performance").count())
}

/// All threads of a CPU's core that run, itself included, below a root folder that has `sys`; none where the kernel does not say.
pub fn threads_of_core(root: &Path, cpu: u32) -> Option<NumberList> {
    let folder = root.join(CPUS.trim_start_matches('/')).join(format!("cpu{cpu}/topology"));
    // The second one is the name before Linux 5.3.
    let mut names = ["core_cpus_list", "thread_siblings_list"].into_iter();
    names.find_map(|name| read::text(folder.join(name))?.parse().ok())
}

/// Which share of the time of all CPUs is idle while we look for so long; none where the kernel does not say.
pub fn idle_share(over: Duration) -> Option<f64> {
    let look = || activity::cpu_time(&read::text("/proc/stat")?);
    let first = look()?;
    std::thread::sleep(over);
    activity::idle(first, look()?)
}
