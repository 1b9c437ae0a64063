//! Whether anybody but the guest has opened a file since it has made it: times alone do not tell, since two changes within one tick of the
//! clock have the same.
//!
//! The kernel reports who opens and changes files that are watched (`fanotify(7)`), with the process if that is this one. Whoever else it
//! is, and where reports were lost, no file counts as watched any more: they are few, and seldom touched by two.

use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::fanotify::{EventFFlags, Fanotify, InitFlags, MarkFlags, MaskFlags};

/// Most files that are watched at once: each stays in the host's memory for that.
const MOST: usize = 1024;
/// Reports without an open file in each (`FAN_REPORT_FID` of `linux/fanotify.h`): what a process without rights may have.
const REPORT_NUMBERS: InitFlags = InitFlags::from_bits_retain(0x200);

/// Which files are watched.
#[derive(Debug)]
pub struct Watch {
    group: Fanotify,
    process: i32,
    /// Of those that are watched now; it is another one as soon as somebody else has opened any of them.
    round: u64,
    count: usize,
}

/// A file that is watched, as long as nobody else has opened any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watched(u64);

impl Watch {
    /// None is watched yet.
    ///
    /// # Errors
    /// This kernel reports nothing to a process without rights (before Linux 5.13), or to no more of this user's.
    pub fn new() -> Result<Self, Errno> {
        let flags = InitFlags::FAN_CLOEXEC | InitFlags::FAN_NONBLOCK | REPORT_NUMBERS;
        let group = Fanotify::init(flags, EventFFlags::empty())?;
        let process = i32::try_from(std::process::id()).unwrap_or_default();
        Ok(Self { group, process, round: 0, count: 0 })
    }

    /// Watches a file; none where that cannot be.
    pub fn begin(&mut self, file: &OwnedFd) -> Option<Watched> {
        // What was reported before says nothing of this file; and where nobody asks, reports must not pile up.
        if self.count >= MOST || self.is_any_touched() {
            self.forget();
        }
        let what = MaskFlags::FAN_OPEN | MaskFlags::FAN_MODIFY;
        self.group.mark(MarkFlags::FAN_MARK_ADD, what, file.as_fd(), None::<&str>).ok()?;
        self.count += 1;
        Some(Watched(self.round))
    }

    /// Watches it no more.
    pub fn end(&mut self, file: &OwnedFd, watched: Watched) {
        let what = MaskFlags::FAN_OPEN | MaskFlags::FAN_MODIFY;
        if watched.0 == self.round
            && self.group.mark(MarkFlags::FAN_MARK_REMOVE, what, file.as_fd(), None::<&str>).is_ok()
        {
            self.count = self.count.saturating_sub(1);
        }
    }

    /// Whether nobody else has opened or changed it since.
    pub fn is_alone(&mut self, watched: Watched) -> bool {
        if watched.0 == self.round && self.is_any_touched() {
            self.forget();
        }
        watched.0 == self.round
    }

    fn is_any_touched(&self) -> bool {
        loop {
            match self.group.read_events() {
                Ok(events) if events.iter().all(|event| event.pid() == self.process) => {}
                Err(Errno::EAGAIN) => return false,
                // Somebody else's, lost ones (they name no process), or none can be had.
                Err(Errno::EINTR) => {}
                Ok(_) | Err(_) => return true,
            }
        }
    }

    /// None is watched any more.
    fn forget(&mut self) {
        let flush = MarkFlags::FAN_MARK_FLUSH;
        let is_gone = self.group.mark(flush, MaskFlags::empty(), self.group.as_fd(), None::<&str>).is_ok();
        (self.round, self.count) = (self.round + 1, 0);
        // Reports of before say nothing of the files to come.
        while is_gone && self.group.read_events().is_ok_and(|events| !events.is_empty()) {}
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File, OpenOptions};
    use std::io::Write;
    use std::process::Command;

    use super::*;

    #[test]
    fn whoever_else_opens_it_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let mut watch = Watch::new().expect("Linux 5.13 or later");
        let make = |name: &str| OwnedFd::from(File::create(folder.path().join(name)).unwrap());
        let (one, two) = (make("one"), make("two"));
        let (of_one, of_two) = (watch.begin(&one).unwrap(), watch.begin(&two).unwrap());
        // This process's own are not reported as somebody else's.
        OpenOptions::new().append(true).open(folder.path().join("one")).unwrap().write_all(b"own").unwrap();
        assert!(watch.is_alone(of_one) && watch.is_alone(of_two));
        let mut theirs = Command::new("sh");
        theirs.arg("-c").arg("echo theirs >> \"$1\"").arg("sh").arg(folder.path().join("two"));
        assert!(theirs.status().unwrap().success());
        assert!(!watch.is_alone(of_two) && !watch.is_alone(of_one));
        // Those of afterwards are judged by what comes afterwards.
        let three = make("three");
        let of_three = watch.begin(&three).unwrap();
        assert!(watch.is_alone(of_three));
        watch.end(&three, of_three);
        assert_eq!(watch.count, 0);
        // Nor by what has not been asked for yet.
        let five = watch.begin(&make("five")).unwrap();
        assert!(Command::new("cat").arg(folder.path().join("five")).status().unwrap().success());
        let six = watch.begin(&make("six")).unwrap();
        assert!(watch.is_alone(six) && !watch.is_alone(five));
        fs::read(folder.path().join("three")).unwrap();
        let four = watch.begin(&make("four")).unwrap();
        assert!(Command::new("cat").arg(folder.path().join("three")).status().unwrap().success());
        assert!(watch.is_alone(four));
    }
}
