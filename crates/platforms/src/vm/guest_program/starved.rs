//! Whether memory ran out in the guest: what the kernel says when it kills a process for that, as `/dev/kmsg` has it.
//!
//! ```text
//!  new messages of the kernel, and whether oom_kill in /proc/vmstat grew beyond what they told
//!        ├─ "Out of memory: Killed process …" ─► the largest of them ─► MemoryRanOut
//!        ├─ "Memory cgroup out of memory: …"  ─► nothing: a limit that somebody in the guest has set
//!        └─ it grew, and no message says why  ─► MemoryRanOut without a name
//! ```
//! Sources: `mm/oom_kill.c` of Linux (`__oom_kill_process`), `Documentation/ABI/testing/dev-kmsg`.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::poll::PollFlags;

use model::partition::{LONGEST_TEXT, Victim};
use units::Bytes;

use crate::link::stream::is_ready;

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
    /// Kills that were before, or are told.
    before: u64,
    messages: Option<File>,
    /// The largest that messages named, until it is told.
    largest: Option<Victim>,
    /// What files had when this began: the guest's own first file system is among them.
    own_files: Bytes,
    /// What they had when the kernel killed last, as it wrote then.
    files_then: Option<Bytes>,
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
            || Self { own_files: self.own_files, ..Self::with(None) },
            |number| Self {
                own_files: self.own_files,
                ..Self::of(Path::new(&format!("/proc/self/fd/{number}")))
            },
        )
    }

    fn of(messages: &Path) -> Self {
        let open = || File::options().read(true).custom_flags(nix::libc::O_NONBLOCK).open(messages);
        let messages = open().and_then(|mut file| file.seek(SeekFrom::End(0)).map(|_| file));
        Self::with(messages.ok())
    }

    fn with(messages: Option<File>) -> Self {
        let (largest, files_then, waits_since) = (None, None, None);
        Self { before: killed(), messages, largest, own_files: files(), files_then, waits_since }
    }

    /// What to wait for: the kernel has written.
    pub fn wanted(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        self.messages.as_ref().map(|messages| (messages.as_fd(), PollFlags::POLLIN))
    }

    /// Who was killed for want of memory and not told yet; none when nobody was. It may take a moment.
    pub fn victim(&mut self) -> Option<Victim> {
        loop {
            match self.look() {
                Killed::Nobody => return None,
                Killed::NotWritten => std::thread::sleep(LOOK_EVERY),
                Killed::Largest(victim) => return Some(victim),
            }
        }
    }

    /// Looks once more, without waiting, when the kernel has written since: counts of the whole kernel take longer to read than most of
    /// what a turn does.
    pub fn look_at_news(&mut self) -> Killed {
        let has_news = self.wanted().is_none_or(|messages| is_ready(&[messages]));
        if has_news || self.waits_since.is_some() { self.look() } else { Killed::Nobody }
    }

    /// Looks at what is written and counted by now, without waiting.
    pub fn look(&mut self) -> Killed {
        self.read_messages();
        if let Some(victim) = self.largest.take() {
            self.waits_since = None;
            return Killed::Largest(Victim { files: self.files(), ..victim });
        }
        let killed = killed();
        if killed <= self.before {
            self.waits_since = None;
            return Killed::Nobody;
        }
        let since = *self.waits_since.get_or_insert_with(Instant::now);
        if self.messages.is_some() && since.elapsed() < WRITTEN_WITHIN {
            return Killed::NotWritten;
        }
        self.before = killed;
        self.waits_since = None;
        Killed::Largest(Victim { name: String::new(), memory: Bytes::from_bytes(0), files: self.files() })
    }

    /// What files of others had when the last one was killed. What they had is gone with it where nobody else held it.
    fn files(&mut self) -> Bytes {
        let then = self.files_then.take().unwrap_or_else(files);
        Bytes::from_bytes(then.get().saturating_sub(self.own_files.get()))
    }

    fn read_messages(&mut self) {
        let Some(mut messages) = self.messages.take() else { return };
        let mut record = vec![0; RECORD_BYTES];
        for _ in 0..MOST_RECORDS {
            match messages.read(&mut record) {
                Ok(count) => match of(&String::from_utf8_lossy(record.get(..count).unwrap_or_default())) {
                    Some(Said::Files(files)) => self.files_then = Some(files),
                    Some(Said::OwnLimit) => self.before = self.before.saturating_add(1),
                    Some(Said::Killed(victim)) => {
                        self.before = self.before.saturating_add(1);
                        self.largest =
                            self.largest.take().into_iter().chain([victim]).max_by_key(|v| v.memory);
                    }
                    None => {}
                },
                // Some records were overwritten before they were read; the next read goes on behind them.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // What cannot be read is not waited for any more.
                Err(_) => return,
            }
        }
        self.messages = Some(messages);
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

/// What a record of `/dev/kmsg` says of memory that ran out.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    /// What files have that only memory holds.
    Files(Bytes),
    /// A process was killed because a group of the guest's own had reached its limit.
    OwnLimit,
    /// This one was killed because the guest had no more.
    Killed(Victim),
}

/// `…;Out of memory: Killed process 71 (tail) total-vm:…kB, anon-rss:…kB, …`, and before it `…;Mem-Info:`, `…;active_anon:…
/// … shmem:PAGES …` in several lines.
fn of(record: &str) -> Option<Said> {
    // Programs can write records, too: those of the kernel are of facility 0.
    let (head, said) = record.split_once(';')?;
    let priority: u32 = head.split(',').next()?.parse().ok()?;
    let said = said.lines().next().filter(|_| priority < 8)?;
    if said.starts_with("active_anon:") {
        // Lines within a record are written so.
        let figures = said.split("\\x0a").flat_map(str::split_whitespace);
        let pages =
            figures.filter_map(|figure| figure.strip_prefix("shmem:")).find_map(|n| n.parse::<u64>().ok())?;
        return Some(Said::Files(Bytes::from_bytes(pages.saturating_mul(page_bytes()))));
    }
    if !said.contains("ut of memory") {
        return None;
    }
    let (why, process) = said.split_once("illed process ")?;
    // A name may hold anything; the last of these comes after it.
    let (name, figures) = process.rsplit_once(") total-vm:")?;
    let (_, name) = name.split_once(" (")?;
    if why.to_ascii_lowercase().contains("cgroup out of memory") {
        return Some(Said::OwnLimit);
    }
    let kib = |key: &str| -> Option<u64> {
        let (_, rest) = figures.split_once(key)?;
        rest.split_once("kB")?.0.parse().ok()
    };
    let kib = ["anon-rss:", "file-rss:", "shmem-rss:"].iter().filter_map(|key| kib(key));
    let memory = Bytes::from_bytes(kib.fold(0, u64::saturating_add).saturating_mul(1024));
    let name = name.chars().take(LONGEST_TEXT).collect();
    Some(Said::Killed(Victim { name, memory, files: Bytes::from_bytes(0) }))
}

fn page_bytes() -> u64 {
    let size = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok().flatten();
    size.and_then(|size| size.try_into().ok()).unwrap_or(4096)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "3,512,8124533,-;Out of memory: Killed process 71 (a (b) total-vm:x) total-vm:231000kB, anon-rss:204800kB, \
                        file-rss:1024kB, shmem-rss:0kB, UID:0 pgtables:496kB oom_score_adj:0\n SUBSYSTEM=x\n";

    #[test]
    fn the_kernels_words_name_who_was_killed() {
        let Some(Said::Killed(victim)) = of(SAID) else { panic!("a victim") };
        assert_eq!((victim.name.as_str(), victim.memory.get()), ("a (b) total-vm:x", 205_824 * 1024));
        // What a program writes into the kernel's messages is marked as its own.
        assert_eq!(of(&SAID.replacen("3,", "11,", 1)), None);
        for other in ["", "6,1,2,-;Linux version 6", "6,1,2,-;Out of memory: Killed process 7 (x)", "x;y"] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    #[test]
    fn a_limit_that_the_guest_has_set_is_none_of_the_guests() {
        assert_eq!(of(&SAID.replace("Out of memory", "Memory cgroup out of memory")), Some(Said::OwnLimit));
    }

    #[test]
    fn the_kernel_says_what_files_had_when_it_killed() {
        let info = "4,513,8124534,-;active_anon:2 inactive_anon:5 isolated_anon:0\\x0a unevictable:0 dirty:0 \
                    writeback:0\\x0a mapped:1 shmem:1024 pagetables:90\\x0a free:1\n";
        assert_eq!(of(info), Some(Said::Files(Bytes::from_bytes(1024 * page_bytes()))));
        assert_eq!(of(&info.replace("shmem:1024 ", "shmem:1024kB ")), None);
        assert_eq!(of(&info.replacen("4,", "12,", 1)), None);
    }
}
