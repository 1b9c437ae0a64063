//! Everything that a saved machine depends on, in words: what it is compared by.
//!
//! The host's boot is among it: its counter, which a guest keeps time by, and what its processor is made to show may be
//! others afterwards.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::super::making::Making;
use model::partition::PROGRAM_PROTOCOL;
use platforms::held_process::boot_id;
use platforms::vm::kernel::identity;
use platforms::vm::qemu::{HostCounter, MACHINE, command_line};

/// Changes whenever an old saved machine must not be used any more although nothing below has changed.
const FORMAT: u32 = 1;
/// What of `/proc/cpuinfo` is read: the first processor.
const MOST_CPU_BYTES: u64 = 8192;
/// Its lines that say which processor it is and what it can do.
const CPU_KEYS: [&str; 7] =
    ["vendor_id", "cpu family", "model", "model name", "stepping", "microcode", "flags"];

/// The shape of what is to be made.
pub fn shape(making: &Making<'_>) -> String {
    let (tools, resources) = (making.tools, &making.spec.resources);
    let engine = making.engine.as_str();
    let mut text =
        format!("format {FORMAT}\nprotocol {PROGRAM_PROTOCOL}\nboot {}\n{}", boot_id(), processor());
    // Writing to a String cannot fail.
    let _ = writeln!(text, "engine {engine}\ncpus {}\nmemory {}", resources.cpus, resources.memory.get());
    let _ = writeln!(text, "machine {MACHINE}\nsessions {}", making.takes_sessions);
    // Its rate is measured anew every time, and not quite the same.
    let counter = HostCounter { rate: None, ..tools.counter };
    let _ = writeln!(text, "words {}", command_line(making.engine, tools.modules.device, counter));
    let _ = writeln!(text, "program {}", content(&tools.program));
    for module in tools.modules.link.iter().chain(&tools.modules.program) {
        let _ = writeln!(text, "module {} {}", module.name, content(&module.image));
    }
    let image = fs::metadata(&tools.kernel.image).map(|meta| identity(&meta));
    let _ = writeln!(text, "kernel {}", image.unwrap_or_default());
    for path in [Some(&tools.qemu), Some(&tools.bootable.path), tools.firmware.as_ref()].into_iter().flatten()
    {
        let _ = writeln!(text, "file {}", stamp(path));
    }
    text
}

fn content(bytes: &[u8]) -> String {
    format!("{} bytes, {:08x}", bytes.len(), crc32fast::hash(bytes))
}

/// Which file it is, and when it was written last: what a file says that was written since is something else.
fn stamp(path: &Path) -> String {
    let meta =
        fs::metadata(path).map(|meta| (meta.dev(), meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec()));
    format!("{} {:?}", path.display(), meta.unwrap_or_default())
}

fn processor() -> String {
    let mut text = String::new();
    // What cannot be read is the same nothing every time.
    let _ = File::open("/proc/cpuinfo").and_then(|file| file.take(MOST_CPU_BYTES).read_to_string(&mut text));
    let first = text.split("\n\n").next().unwrap_or_default();
    let is_kept = |line: &&str| CPU_KEYS.iter().any(|key| line.split(':').next().map(str::trim) == Some(key));
    first.lines().filter(is_kept).fold(String::new(), |all, line| all + line + "\n")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_that_was_written_anew_is_another_and_one_with_other_rights_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "one").unwrap();
        let before = stamp(&path);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(stamp(&path), before);
        fs::write(folder.path().join("another"), "two").unwrap();
        fs::rename(folder.path().join("another"), &path).unwrap();
        assert_ne!(stamp(&path), before);
    }

    #[test]
    fn the_processor_is_known_and_its_speed_of_the_moment_is_no_part_of_it() {
        let text = processor();
        assert!(text.contains("flags") && !text.contains("MHz"), "{text}");
    }
}
