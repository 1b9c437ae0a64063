//! Reads everything once, looks again a moment later for what changes, and judges.

use std::fs::OpenOptions;
use std::num::NonZero;
use std::path::Path;
use std::time::Duration;

use super::{CPUS, activity, clocks, frequency, memory, place, read};
use model::preflight::Preflight;
use units::Bytes;

/// Between the two looks at steal and swapping.
const BETWEEN_LOOKS: Duration = Duration::from_millis(250);
const CLOCK_SOURCES: &str = "/sys/devices/system/clocksource/clocksource0";

/// How many times longer than on an idle host something may take now: tasks per CPU over the last minute, 1 to 5. Deadlines against
/// hangs are stretched by it: a guest that gets a tenth of a CPU is slow, not stuck.
pub fn crowding() -> f64 {
    activity::crowding(read::text("/proc/loadavg").as_deref(), cpus())
}

fn cpus() -> u32 {
    let cpus = std::thread::available_parallelism().map_or(1, NonZero::get);
    u32::try_from(cpus).unwrap_or(u32::MAX)
}

/// Looks at this host for a quarter of a second; `out` is where the run directory will be.
///
/// A run is dirty when the load average over a minute exceeds half of the CPUs, when a hypervisor steals more than 1 %
/// while we look, when pages are swapped while we look, when the governor is not `performance`, or when turbo is on.
pub fn preflight(out: &Path) -> Preflight {
    let look = || (read::text("/proc/stat"), read::text("/proc/vmstat"));
    let first = look();
    std::thread::sleep(BETWEEN_LOOKS);
    let second = look();
    let cpu_time = |stat: &Option<String>| stat.as_deref().and_then(activity::cpu_time);
    let swapped = |vmstat: &Option<String>| vmstat.as_deref().and_then(activity::swapped);
    let meminfo = read::text("/proc/meminfo");
    let mut checks = vec![
        activity::load(read::text("/proc/loadavg").as_deref(), cpus()),
        activity::steal(cpu_time(&first.0), cpu_time(&second.0)),
        activity::swap(meminfo.as_deref(), swapped(&first.1), swapped(&second.1)),
    ];
    checks.extend(steadiness());
    checks.push(memory::huge_pages(
        read::text("/sys/kernel/mm/transparent_hugepage/enabled").as_deref(),
        meminfo.as_deref(),
    ));
    checks.push(memory::free_memory(meminfo.as_deref()));
    checks.push(memory::free_disk(&out.display().to_string(), free_space(out)));
    checks.extend(surroundings());
    Preflight { checks }
}

fn steadiness() -> [model::preflight::Check; 6] {
    let cpu = |file: &str| read::text(format!("{CPUS}/{file}"));
    let clock = |file: &str| read::text(format!("{CLOCK_SOURCES}/{file}"));
    let sysctl = |file: &str| read::text(format!("/proc/sys/kernel/{file}"));
    [
        frequency::governor(&read::text_of_each(CPUS, "cpu", "cpufreq/scaling_governor")),
        frequency::turbo(cpu("intel_pstate/no_turbo").as_deref(), cpu("cpufreq/boost").as_deref()),
        frequency::smt(cpu("smt/active").as_deref()),
        clocks::clock_source(
            clock("current_clocksource").as_deref(),
            clock("available_clocksource").as_deref(),
        ),
        clocks::tsc(std::env::consts::ARCH, read::text("/proc/cpuinfo").as_deref()),
        clocks::realtime_throttle(
            sysctl("sched_rt_runtime_us").as_deref(),
            sysctl("sched_rt_period_us").as_deref(),
        ),
    ]
}

fn surroundings() -> [model::preflight::Check; 4] {
    const MARKERS: [&str; 2] = ["/.dockerenv", "/run/.containerenv"];
    let cpuinfo = read::text("/proc/cpuinfo");
    let vendor = read::text("/sys/class/dmi/id/sys_vendor");
    let product = read::text("/sys/class/dmi/id/product_name");
    let hypervisor_type = read::text("/sys/hypervisor/type");
    let kvm = Path::new("/dev/kvm");
    let openable = OpenOptions::new().read(true).write(true).open(kvm);
    [
        place::cgroups(read::text("/proc/self/mounts").as_deref()),
        place::hypervisor(place::Signs {
            cpuinfo: cpuinfo.as_deref(),
            vendor: vendor.as_deref(),
            product: product.as_deref(),
            hypervisor_type: hypervisor_type.as_deref(),
        }),
        place::container(
            read::text("/proc/1/cgroup").as_deref(),
            MARKERS.into_iter().find(|marker| Path::new(marker).exists()),
        ),
        place::kvm(kvm.exists(), openable.map(|_| ()).map_err(|error| error.to_string().into())),
    ]
}

/// Free space for this user on the file system of the nearest folder that exists.
fn free_space(path: &Path) -> Option<Bytes> {
    let absolute = std::path::absolute(path).ok()?;
    let existing = absolute.ancestors().find(|ancestor| ancestor.exists())?;
    let stat = nix::sys::statvfs::statvfs(existing).ok()?;
    Some(Bytes::from_bytes(stat.blocks_available().saturating_mul(stat.fragment_size())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_check_says_something_and_has_its_own_name() {
        let dir = tempfile::tempdir().unwrap();
        let checks = preflight(&dir.path().join("not/yet/there")).checks;
        let ids: std::collections::BTreeSet<&str> = checks.iter().map(|check| check.id.as_str()).collect();
        assert_eq!(ids.len(), checks.len());
        assert_eq!(checks.len(), 16);
        assert!(checks.iter().all(|check| !check.found.is_empty()));
        let disk = checks.iter().find(|check| check.id == "disk").unwrap();
        assert!(!disk.found.contains("not visible"), "a folder above exists: {}", disk.found);
    }
}
