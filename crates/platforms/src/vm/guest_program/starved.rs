//! Whether memory ran out in the guest: what the kernel says when it kills a process for that, as `/dev/kmsg` has it.
//!
//! ```text
//!  oom_kill in /proc/vmstat grew? ── no ─► nothing
//!        └─ yes ─► kernel's messages since the start ─► the largest that was killed ─► MemoryRanOut
//! ```
//! Sources: `mm/oom_kill.c` of Linux (`__oom_kill_process`), `Documentation/ABI/testing/dev-kmsg`.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use model::partition::{LONGEST_TEXT, Victim};
use units::Bytes;

/// A record that does not fit in is refused by the kernel; it makes none that are longer.
const RECORD_BYTES: usize = 8192;
/// Most records that are read: whoever writes without end is not listened to for ever.
const MOST_RECORDS: usize = 50_000;
/// The kernel kills first and writes then: how long it is waited for.
const WRITTEN_WITHIN: Duration = Duration::from_millis(500);
/// How often it is looked.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Looks for what the kernel does for want of memory from the moment this is made.
pub struct StarvedWatch {
    before: u64,
    messages: Option<File>,
    /// Since when the kernel's words of a killed process are waited for.
    waits_since: Option<Instant>,
}

/// What is known of a killed process.
#[derive(Debug, PartialEq, Eq)]
pub enum Killed {
    /// There is none.
    Nobody,
    /// There is one, of which the kernel has not written yet.
    NotWritten,
    /// The largest that is known.
    Largest(Victim),
}

impl StarvedWatch {
    /// Begins. Without the kernel's messages it is still known that something was killed.
    pub fn begin() -> Self {
        Self::of(Path::new("/dev/kmsg"))
    }

    /// Another one from now on, also where the kernel's messages cannot be seen any more.
    pub fn anew(&self) -> Self {
        let number = self.messages.as_ref().map(AsRawFd::as_raw_fd);
        number.map_or_else(
            || Self { before: killed(), messages: None, waits_since: None },
            |number| Self::of(Path::new(&format!("/proc/self/fd/{number}"))),
        )
    }

    fn of(messages: &Path) -> Self {
        let open = || File::options().read(true).custom_flags(nix::libc::O_NONBLOCK).open(messages);
        let messages = open().and_then(|mut file| file.seek(SeekFrom::End(0)).map(|_| file));
        Self { before: killed(), messages: messages.ok(), waits_since: None }
    }

    /// Who was killed for want of memory; none when nobody was. It may take a moment.
    pub fn victim(&mut self) -> Option<Victim> {
        loop {
            match self.look() {
                Killed::Nobody => return None,
                Killed::NotWritten => std::thread::sleep(LOOK_EVERY),
                Killed::Largest(victim) => return Some(victim),
            }
        }
    }

    /// The same without waiting.
    pub fn look(&mut self) -> Killed {
        if killed() <= self.before {
            return Killed::Nobody;
        }
        let since = *self.waits_since.get_or_insert_with(Instant::now);
        if let Some(victim) = self.largest() {
            return Killed::Largest(victim);
        }
        if self.messages.is_some() && since.elapsed() < WRITTEN_WITHIN {
            return Killed::NotWritten;
        }
        Killed::Largest(Victim { name: String::new(), memory: Bytes::from_bytes(0), files: files() })
    }

    fn largest(&mut self) -> Option<Victim> {
        let messages = self.messages.as_mut()?;
        let mut record = vec![0; RECORD_BYTES];
        let mut largest: Option<Victim> = None;
        for _ in 0..MOST_RECORDS {
            match messages.read(&mut record) {
                Ok(count) => {
                    let text = String::from_utf8_lossy(record.get(..count).unwrap_or_default());
                    largest = largest.into_iter().chain(of(&text)).max_by_key(|victim| victim.memory);
                }
                // Some records were overwritten before they were read; the next read goes on behind them.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
                Err(_) => break,
            }
        }
        largest
    }
}

/// Processes that were killed for want of memory since the boot.
fn killed() -> u64 {
    let text = fs::read_to_string("/proc/vmstat").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
    line.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

/// What files have that only memory holds. They outlive who was killed.
fn files() -> Bytes {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Shmem:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    Bytes::from_bytes(kib.unwrap_or(0).saturating_mul(1024))
}

/// Whom a record of `/dev/kmsg` says was killed: `…;Out of memory: Killed process 71 (tail) total-vm:…kB, anon-rss:…kB, …`.
fn of(record: &str) -> Option<Victim> {
    // Programs can write records, too: those of the kernel are of facility 0.
    let (head, said) = record.split_once(';')?;
    let priority: u32 = head.split(',').next()?.parse().ok()?;
    let said = said.lines().next().filter(|said| priority < 8 && said.contains("ut of memory"))?;
    let (_, process) = said.split_once("illed process ")?;
    // A name may hold anything; the last of these comes after it.
    let (name, figures) = process.rsplit_once(") total-vm:")?;
    let (_, name) = name.split_once(" (")?;
    let kib = |key: &str| -> Option<u64> {
        let (_, rest) = figures.split_once(key)?;
        rest.split_once("kB")?.0.parse().ok()
    };
    let kib = ["anon-rss:", "file-rss:", "shmem-rss:"].iter().filter_map(|key| kib(key));
    let memory = Bytes::from_bytes(kib.fold(0, u64::saturating_add).saturating_mul(1024));
    Some(Victim { name: name.chars().take(LONGEST_TEXT).collect(), memory, files: files() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "3,512,8124533,-;Out of memory: Killed process 71 (a (b) total-vm:x) total-vm:231000kB, anon-rss:204800kB, \
                        file-rss:1024kB, shmem-rss:0kB, UID:0 pgtables:496kB oom_score_adj:0\n SUBSYSTEM=x\n";

    #[test]
    fn the_kernels_words_name_who_was_killed() {
        let victim = of(SAID).expect("a victim");
        assert_eq!((victim.name.as_str(), victim.memory.get()), ("a (b) total-vm:x", 205_824 * 1024));
        // What a program writes into the kernel's messages is marked as its own.
        assert_eq!(of(&SAID.replacen("3,", "11,", 1)), None);
        for other in ["", "6,1,2,-;Linux version 6", "6,1,2,-;Out of memory: Killed process 7 (x)", "x;y"] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
