//! A cgroup's folder, of either version: written down before it is made, removed when its last process has ended.

use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, io};

use crate::ledger::{Ledger, Thing, Ticket};
use crate::sweep::OUR_PREFIX;

/// How long a group may take to become empty after its last process was reaped.
const EMPTY_GRACE: Duration = Duration::from_secs(1);

/// A file of a group and what is to be written to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Controller that has the file.
    pub controller: &'static str,
    /// The file.
    pub file: &'static str,
    /// What is written.
    pub value: String,
    /// The file in which the kernel says what holds, where that is another one.
    pub shown_in: &'static str,
}

impl Setting {
    /// One whose file says what holds.
    pub const fn new(controller: &'static str, file: &'static str, value: String) -> Self {
        Self { controller, file, value, shown_in: file }
    }

    /// Whether the kernel's words hold it. `io.max` has a line per device, with every limit in it.
    fn holds(&self, shown: &str) -> bool {
        if self.file != "io.max" {
            return shown.trim() == self.value;
        }
        let mut wanted = self.value.split_whitespace();
        let device = wanted.next();
        let line = shown.lines().find(|line| line.split_whitespace().next() == device);
        line.is_some_and(|line| wanted.all(|limit| line.split_whitespace().any(|word| word == limit)))
    }
}

/// A cgroup's folder; removed when dropped.
#[derive(Debug)]
pub struct CgroupFolder {
    path: PathBuf,
    ledger: Ledger,
    ticket: Option<Ticket>,
}

impl CgroupFolder {
    /// Makes a folder with a name of its own below `parent` and lets it hold `settings`.
    ///
    /// # Errors
    /// It cannot be written down or made, or the kernel does not hold what was written; the message names it.
    pub fn make(parent: &Path, settings: &[Setting], ledger: &Ledger) -> io::Result<Self> {
        let path = parent.join(format!("{OUR_PREFIX}{:016x}", RandomState::new().hash_one(Instant::now())));
        let failed = |what: &str, error: io::Error| {
            let advice = match error.kind() {
                io::ErrorKind::PermissionDenied => "; a group needs root or a delegated cgroup",
                _ => "",
            };
            let path = path.display();
            io::Error::new(error.kind(), format!("cgroup: cannot {what} {path}: {error}{advice}"))
        };
        let thing = Thing::Cgroup { path: path.clone() };
        let ticket = ledger.record(thing).map_err(|error| failed("write down", error))?;
        let folder = Self { path: path.clone(), ledger: ledger.clone(), ticket: Some(ticket) };
        fs::create_dir(&path).map_err(|error| failed("make", error))?;
        for setting in settings {
            let what = || format!("write \"{}\" to {} of", setting.value, setting.file);
            fs::write(path.join(setting.file), &setting.value).map_err(|error| failed(&what(), error))?;
        }
        for setting in settings {
            let shown = fs::read_to_string(path.join(setting.shown_in))
                .map_err(|error| failed(&format!("read {} of", setting.shown_in), error))?;
            if !setting.holds(&shown) {
                return Err(io::Error::other(format!(
                    "cgroup: wanted {} \"{}\" of {}, the kernel holds \"{}\": a group above it allows no more",
                    setting.file,
                    setting.value,
                    path.display(),
                    shown.trim()
                )));
            }
        }
        Ok(folder)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for CgroupFolder {
    fn drop(&mut self) {
        let until = Instant::now() + EMPTY_GRACE;
        loop {
            match fs::remove_dir(&self.path) {
                Ok(()) => break,
                Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                // Left to the ledger: the next sweep tries again.
                Err(_) if Instant::now() >= until => return,
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        }
        if let Some(ticket) = self.ticket.take() {
            self.ledger.undone(ticket);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_holds_is_compared() {
        let holds = |file, value: &str, shown| Setting::new("", file, value.to_owned()).holds(shown);
        assert!(holds("cpu.weight", "50", "50\n"));
        assert!(!holds("cpuset.cpus", "0-3", "0-1\n"));
        let io = |shown| holds("io.max", "8:0 rbps=5 wbps=5", shown);
        assert!(io("7:0 rbps=5 wbps=5 riops=max wiops=max\n8:0 rbps=5 wbps=5 riops=max wiops=max\n"));
        assert!(!io("8:0 rbps=5 wbps=max riops=max wiops=max\n"));
        assert!(!io("7:0 rbps=5 wbps=5\n"));
    }

    #[test]
    fn a_group_is_written_down_before_it_is_made() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = Ledger::open(folder.path()).unwrap();
        let nowhere = folder.path().join("none");
        let error = CgroupFolder::make(&nowhere, &[], &ledger).unwrap_err().to_string();
        assert!(error.contains("cannot make"), "{error}");
        let text = fs::read_to_string(folder.path().join(crate::ledger::FILE_NAME)).unwrap();
        assert!(text.contains("cgroup") && text.contains("undone"), "{text}");
    }

    #[test]
    fn a_group_that_does_not_hold_what_was_written_is_not_given() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = Ledger::open(folder.path()).unwrap();
        let setting = Setting { shown_in: "../shown", ..Setting::new("cpu", "../weight", "50".to_owned()) };
        fs::write(folder.path().join("shown"), "40\n").unwrap();
        let error = CgroupFolder::make(folder.path(), &[setting], &ledger).unwrap_err().to_string();
        assert!(error.contains("weight \"50\"") && error.contains("holds \"40\""), "{error}");
        let left = fs::read_dir(folder.path()).unwrap().flatten().filter(|entry| entry.path().is_dir());
        assert_eq!(left.count(), 0);
    }
}
