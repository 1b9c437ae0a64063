//! What the host's kernel says of itself.

use std::fs;
use std::path::Path;

use model::partition::set::{Phase, SetStatus};
use model::requirement::HostProperty;
use partition::place::HostTopology;
use partition::set::status;
use platforms::host::kept_time;
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
        HostProperty::MemoryFree => (memory()? - guests(sets)).max(0.0),
        HostProperty::MemoryOvercommitted => (guests(sets) - memory()?).max(0.0),
        HostProperty::SwapUsed => (meminfo("SwapTotal")? - meminfo("SwapFree")?).max(0.0),
        HostProperty::HugePagesFree => meminfo("HugePages_Free")? * meminfo("Hugepagesize")?,
        HostProperty::SlowGovernors => slow_governors()?,
        HostProperty::ClockError => kept()?.largest_error.as_f64(),
        HostProperty::ClockUnsynchronized => f64::from(u8::from(!kept()?.is_synchronized)),
        HostProperty::Cpus => HostTopology::of_this_host()?.online.numbers().len() as f64,
    })
}

fn kept() -> Result<platforms::host::KeptTime, Reason> {
    kept_time().map_err(|error| format!("the kernel does not say how its clock is kept: {error}").into())
}

fn memory() -> Result<f64, Reason> {
    Ok(HostTopology::of_this_host()?.memory.get() as f64)
}

/// Memory of all partitions that run or may: their guests' and QEMU's own.
fn guests(sets: &[SetStatus]) -> f64 {
    let all = sets.iter().flat_map(|set| &set.partitions);
    let there = all.filter(|one| !matches!(one.phase, Phase::Missing | Phase::Stopped | Phase::Ended));
    let each = there.map(|one| {
        one.memory_mib.to_bytes().get().saturating_add(model::partition::set::OVERHEAD.to_bytes().get())
    });
    each.fold(0, u64::saturating_add) as f64
}

/// A line of `/proc/meminfo`, in bytes where it has a unit.
fn meminfo(name: &str) -> Result<f64, Reason> {
    let text = fs::read_to_string("/proc/meminfo").map_err(|error| format!("/proc/meminfo: {error}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let line = line.ok_or_else(|| format!("/proc/meminfo has no {name}"))?;
    let mut words = line.split_whitespace();
    let number: f64 = words
        .next()
        .and_then(|word| word.parse().ok())
        .ok_or_else(|| format!("/proc/meminfo: {name} is no number"))?;
    Ok(if words.next() == Some("kB") { number * 1024.0 } else { number })
}

fn slow_governors() -> Result<f64, Reason> {
    let entries =
        fs::read_dir("/sys/devices/system/cpu/cpufreq").map_err(|_| "the kernel shows no governors here")?;
    let policies =
        entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with("policy"));
    let (mut all, mut slow) = (0_u32, 0_u32);
    for policy in policies {
        let Ok(governor) = fs::read_to_string(policy.path().join("scaling_governor")) else { continue };
        let cpus = fs::read_to_string(policy.path().join("affected_cpus")).unwrap_or_default();
        let cpus = u32::try_from(cpus.split_whitespace().count()).unwrap_or(u32::MAX).max(1);
        all += cpus;
        slow += if governor.trim() == "performance" { 0 } else { cpus };
    }
    if all == 0 { Err("the kernel shows no governors here".into()) } else { Ok(f64::from(slow)) }
}
