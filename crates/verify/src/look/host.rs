//! What the host's kernel says of itself.

use std::fs;
use std::path::Path;

use model::partition::set::{OVERHEAD, Phase, SetStatus};
use model::requirement::HostProperty;
use partition::place::HostTopology;
use partition::set::status;
use platforms::host::{KeptTime, kept_time, slow_governors, swap_used};
use units::Reason;

use super::Values;

/// All of it; `root` is where sets that are up are found.
pub fn properties(root: &Path) -> Values {
    let all =
        status::names(root).into_iter().filter_map(|name| status::status(root, &name)).collect::<Vec<_>>();
    HostProperty::ALL.iter().map(|one| (one.as_str().to_owned(), value(*one, &all))).collect()
}

fn value(property: HostProperty, sets: &[SetStatus]) -> Result<f64, Reason> {
    Ok(match property {
        HostProperty::MemoryFree => (available()? - to_come(sets)).max(0.0),
        HostProperty::MemoryOvercommitted => (to_come(sets) - available()?).max(0.0),
        HostProperty::SwapUsed => swap_used().ok_or("the kernel does not show its swap")?.as_f64(),
        HostProperty::HugePagesFree => huge_pages_free()?,
        HostProperty::SlowGovernors => slow_governors().ok_or("the kernel shows no governors here")? as f64,
        HostProperty::ClockError => kept()?.largest_error.as_f64(),
        HostProperty::ClockUnsynchronized => f64::from(u8::from(!kept()?.is_synchronized)),
        HostProperty::Cpus => HostTopology::of_this_host()?.online.numbers().len() as f64,
    })
}

fn kept() -> Result<KeptTime, Reason> {
    kept_time().map_err(|error| format!("the kernel does not say how its clock is kept: {error}").into())
}

fn huge_pages_free() -> Result<f64, Reason> {
    let huge = HostTopology::of_this_host()?.huge;
    Ok(huge.size.get().saturating_mul(huge.free) as f64)
}

/// What the kernel could give away now, whoever has the rest.
fn available() -> Result<f64, Reason> {
    Ok(HostTopology::of_this_host()?.available.get() as f64)
}

/// Memory that partitions may still take: their guests' and QEMU's own, without what they have already.
fn to_come(sets: &[SetStatus]) -> f64 {
    let all = sets.iter().flat_map(|set| &set.partitions);
    let there = all.filter(|one| !matches!(one.phase, Phase::Missing | Phase::Stopped | Phase::Ended));
    let each = there.map(|one| {
        let may = one.memory_mib.to_bytes().get().saturating_add(OVERHEAD.to_bytes().get());
        may.saturating_sub(one.pid.and_then(resident).unwrap_or(0))
    });
    each.fold(0, u64::saturating_add) as f64
}

/// Memory that a process has, shared with others or not; a guest's is a file in memory. Source: `proc_pid_status(5)`.
fn resident(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let kib = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    Some(kib("VmRSS:")?.saturating_mul(1024))
}
