//! Facts of the machine this process runs on, from `/proc` and `/sys`. Used by agents and by the host alike; what is
//! not there, or reads strangely, stays unknown.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::spawn::own_cpus;
use units::facts::MachineFacts;
use units::{Bytes, Hertz};

/// Longest file that is read.
const MAX_FILE_BYTES: u64 = 1024 * 1024;
/// Longest fact, in characters.
const MAX_FACT_CHARS: usize = 200;

/// Collects the facts. The rate of the cycle counter is measured by whoever owns the counter.
pub fn collect(counter_hz: Option<Hertz>) -> MachineFacts {
    collect_from(Path::new("/"), counter_hz)
}

/// Collects from the `proc`, `sys` and `etc` folders below `root`.
fn collect_from(root: &Path, counter_hz: Option<Hertz>) -> MachineFacts {
    let read = |path: &str| read_bounded(&root.join(path));
    let cpuinfo = read("proc/cpuinfo").unwrap_or_default();
    let names = nix::sys::utsname::uname().ok();
    let architecture = names.as_ref().map_or_else(
        || std::env::consts::ARCH.to_owned(),
        |names| names.machine().to_string_lossy().into_owned(),
    );
    MachineFacts {
        architecture: tidy(&architecture).unwrap_or_default(),
        cpu_model: cpu_model(&cpuinfo),
        cpus: u32::try_from(own_cpus().len()).unwrap_or(u32::MAX),
        memory_bytes: read("proc/meminfo").as_deref().and_then(memory_total),
        last_level_cache_bytes: last_level_cache(root),
        system: read("etc/os-release").as_deref().and_then(pretty_name),
        kernel: names.and_then(|names| tidy(&names.release().to_string_lossy())),
        clock_source: read("sys/devices/system/clocksource/clocksource0/current_clocksource")
            .and_then(|text| tidy(&text)),
        hypervisor: hypervisor(root, &cpuinfo),
        counter_hz,
        nics: Vec::new(),
    }
}

fn read_bounded(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(MAX_FILE_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// A fact in one short line without control characters; nothing when it is empty.
fn tidy(text: &str) -> Option<String> {
    let words: Vec<&str> = text.split(|c: char| c.is_whitespace() || c.is_control()).collect();
    let line: String = words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    let line: String = line.chars().take(MAX_FACT_CHARS).collect();
    (!line.is_empty()).then_some(line)
}

/// The value of the first `key : value` line with this key.
fn value_of<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then_some(value.trim())
    })
}

fn cpu_model(cpuinfo: &str) -> Option<String> {
    // x86 says "model name"; some ARM kernels "Model", "Hardware" or only numbers.
    ["model name", "Model", "Hardware", "cpu model"]
        .into_iter()
        .find_map(|key| value_of(cpuinfo, key))
        .and_then(tidy)
}

fn memory_total(meminfo: &str) -> Option<Bytes> {
    let kib: u64 = value_of(meminfo, "MemTotal")?.strip_suffix("kB")?.trim().parse().ok()?;
    Some(Bytes::from_bytes(kib.checked_mul(1024)?))
}

fn pretty_name(os_release: &str) -> Option<String> {
    let value = os_release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    tidy(value.trim().trim_matches(['"', '\'']))
}

/// Size of the cache with the highest level that CPU 0 sees.
fn last_level_cache(root: &Path) -> Option<Bytes> {
    let folder = root.join("sys/devices/system/cpu/cpu0/cache");
    let indices = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    let cache = |path: std::path::PathBuf| {
        let level: u32 = read_bounded(&path.join("level"))?.trim().parse().ok()?;
        let is_data = read_bounded(&path.join("type")).is_none_or(|kind| kind.trim() != "Instruction");
        let size = cache_size(read_bounded(&path.join("size"))?.trim())?;
        is_data.then_some((level, size))
    };
    indices.filter_map(cache).max().map(|(_, size)| size)
}

/// `32768K`, `16M`, `512`.
fn cache_size(text: &str) -> Option<Bytes> {
    let (digits, factor) = match text.as_bytes().last()? {
        b'K' => (text.strip_suffix('K')?, 1024),
        b'M' => (text.strip_suffix('M')?, 1024 * 1024),
        _ => (text, 1),
    };
    let bytes = digits.parse::<u64>().ok()?.checked_mul(factor)?;
    (bytes > 0).then(|| Bytes::from_bytes(bytes))
}

/// What the machine's tables say of a hypervisor; its own signature when only the CPU
/// says that there is one.
fn hypervisor(root: &Path, cpuinfo: &str) -> Option<String> {
    let read = |path: &str| read_bounded(&root.join(path)).as_deref().and_then(tidy);
    if let Some(kind) = read("sys/hypervisor/type") {
        return Some(kind);
    }
    let flagged = value_of(cpuinfo, "flags").is_some_and(|flags| flags.split(' ').any(|f| f == "hypervisor"));
    flagged.then(|| machine_below(root).or_else(signature).unwrap_or_else(|| "unknown".to_owned()))
}

/// What the firmware calls this machine, maker and product.
pub fn machine() -> Option<String> {
    machine_below(Path::new("/"))
}

fn machine_below(root: &Path) -> Option<String> {
    let read = |path: &str| read_bounded(&root.join(path)).as_deref().and_then(tidy);
    let said = ["sys/class/dmi/id/sys_vendor", "sys/class/dmi/id/product_name"].into_iter().filter_map(read);
    Some(said.collect::<Vec<_>>().join(" ")).filter(|words| !words.is_empty())
}

/// What the hypervisor calls itself, `KVMKVMKVM` for example (CPUID leaf 0x40000000; Intel SDM volume 2, `CPUID`).
#[cfg(target_arch = "x86_64")]
fn signature() -> Option<String> {
    let leaf = core::arch::x86_64::__cpuid(0x4000_0000);
    let bytes = [leaf.ebx, leaf.ecx, leaf.edx].map(u32::to_le_bytes).concat();
    tidy(&String::from_utf8_lossy(&bytes).replace('\0', ""))
}

/// Other processors have no such leaf.
#[cfg(not(target_arch = "x86_64"))]
fn signature() -> Option<String> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_made_up_machine_is_read() {
        let root = tempfile::tempdir().expect("a directory");
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().expect("has one")).expect("made");
            std::fs::write(path, text).expect("written");
        };
        write("proc/cpuinfo", "processor : 0\nmodel name\t: Imaginary  CPU\u{7} 9\nflags : fpu hypervisor\n");
        write("proc/meminfo", "MemFree: 1 kB\nMemTotal:       2048 kB\n");
        write("etc/os-release", "NAME=x\nPRETTY_NAME=\"Some System 1\"\n");
        write("sys/class/dmi/id/sys_vendor", "QEMU\n");
        for (index, level, kind, size) in
            [(0, 1, "Data", "32K"), (1, 1, "Instruction", "64K"), (2, 3, "Unified", "2M")]
        {
            let folder = format!("sys/devices/system/cpu/cpu0/cache/index{index}");
            write(&format!("{folder}/level"), &format!("{level}\n"));
            write(&format!("{folder}/type"), kind);
            write(&format!("{folder}/size"), size);
        }
        let facts = collect_from(root.path(), None);
        assert_eq!(facts.cpu_model.as_deref(), Some("Imaginary CPU 9"));
        assert_eq!(facts.memory_bytes, Some(Bytes::from_bytes(2 << 20)));
        assert_eq!(facts.last_level_cache_bytes, Some(Bytes::from_bytes(2 << 20)));
        assert_eq!(facts.system.as_deref(), Some("Some System 1"));
        assert_eq!(facts.hypervisor.as_deref(), Some("QEMU"));
        assert_eq!(facts.clock_source, None);
    }

    #[test]
    fn an_empty_machine_stays_unknown() {
        let root = tempfile::tempdir().expect("a directory");
        let facts = collect_from(root.path(), Some(Hertz::from_hz(7)));
        assert_eq!((facts.cpu_model, facts.memory_bytes, facts.system), (None, None, None));
        assert_eq!(facts.counter_hz, Some(Hertz::from_hz(7)));
        assert!(facts.cpus > 0);
    }

    #[test]
    fn this_machine_says_something() {
        let facts = collect(None);
        assert!(!facts.architecture.is_empty() && facts.kernel.is_some() && facts.memory_bytes.is_some());
    }
}
