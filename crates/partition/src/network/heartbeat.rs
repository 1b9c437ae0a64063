//! Whether a switch still works: it counts on in a file of its link's folder, others look there. Nobody asks and nobody
//! answers, so it costs the same for any number of watchers, and a switch that hangs shows as one that was stopped does.
//!
//! ```text
//!  switch: every 100 ms, from the loop that moves frames ─► l/control.0/beat ◄─ every 100 ms: does it still change?
//!                                                                               4 looks without: it hangs
//! ```
//! Looks are counted, not time: after a moment in which the whole host stood still the switch gets its chance first.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::fcntl::OFlag;

/// Its name in the folder of a link.
const FILE: &str = "beat";
/// Between two beats at most while the switch works, and between two looks at least.
pub const BEAT_EVERY: Duration = Duration::from_millis(100);
/// Looks without a new beat after which a card is told that its switch is gone: 300 to 500 ms after the switch began to
/// hang.
pub const HANGS_AFTER: u32 = 4;

/// Where the switch of a link's folder beats.
pub fn beat_file(link: &Path) -> PathBuf {
    link.join(FILE)
}

/// The switch's side.
#[derive(Debug)]
pub struct Beat {
    file: File,
    count: u64,
}

impl Beat {
    /// Begins in the folder of a link.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub fn begin(link: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let file = options.create(true).truncate(false).write(true).mode(0o600).open(beat_file(link))?;
        Ok(Self { file, count: 0 })
    }

    /// Shows that the switch works.
    pub fn beat(&mut self) {
        self.count += 1;
        // On a full disk the switch seems to hang, and the other one takes over.
        let _ = self.file.write_at(&self.count.to_ne_bytes(), 0);
    }
}

/// The watchers' side.
#[derive(Debug)]
pub struct Heartbeat {
    path: PathBuf,
    most_missed: u32,
    last: Option<Vec<u8>>,
    missed: u32,
}

impl Heartbeat {
    /// Of the switch that beats in this file; it hangs after so many looks without a new beat.
    pub fn of(path: PathBuf, most_missed: u32) -> Self {
        Self { path, most_missed, last: None, missed: 0 }
    }

    /// Whether it works, as far as is known: one that never beat is not judged. To be asked every [`BEAT_EVERY`].
    pub fn look(&mut self) -> bool {
        let mut now = Vec::new();
        // Whoever writes it may have been taken over: no link of it is followed, no pipe of it waited for.
        let mut options = OpenOptions::new();
        let opened =
            options.read(true).custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits()).open(&self.path);
        let is_file = |file: &File| file.metadata().is_ok_and(|meta| meta.is_file());
        let opened = opened
            .and_then(|file| if is_file(&file) { Ok(file) } else { Err(io::ErrorKind::InvalidData.into()) });
        let read = opened.and_then(|file| file.take(8).read_to_end(&mut now));
        if read.is_ok_and(|bytes| bytes == 8) && self.last.as_ref() != Some(&now) {
            self.last = Some(now);
            self.missed = 0;
        } else if self.last.is_some() {
            self.missed = self.missed.saturating_add(1);
        }
        self.missed < self.most_missed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_hangs_when_it_no_longer_beats_and_is_back_with_the_next_beat() {
        let link = tempfile::tempdir().unwrap();
        let mut heartbeat = Heartbeat::of(beat_file(link.path()), 3);
        assert!((0..10).all(|_| heartbeat.look()), "what never beat is not judged");
        let mut beat = Beat::begin(link.path()).unwrap();
        for _ in 0..2 {
            beat.beat();
            let looks: Vec<bool> = (0..5).map(|_| heartbeat.look()).collect();
            assert_eq!(looks, [true, true, true, false, false]);
        }
        // One that was started anew counts from the beginning.
        let mut beat = Beat::begin(link.path()).unwrap();
        beat.beat();
        assert!(heartbeat.look());
        std::fs::remove_file(beat_file(link.path())).unwrap();
        assert!([(); 3].iter().any(|()| !heartbeat.look()), "no beat is none");
    }

    /// A switch that was taken over puts what it likes in the place of its beats.
    #[test]
    fn no_link_is_followed_for_a_beat_and_no_pipe_waited_for() {
        let link = tempfile::tempdir().unwrap();
        let beats = beat_file(link.path());
        let elsewhere = link.path().join("elsewhere");
        std::fs::write(&elsewhere, 7_u64.to_ne_bytes()).unwrap();
        let never_beat = || {
            let (mut heartbeat, (say, hear)) = (Heartbeat::of(beats.clone(), 3), std::sync::mpsc::channel());
            std::thread::spawn(move || say.send((0..10).all(|_| heartbeat.look())));
            let looked = hear.recv_timeout(Duration::from_secs(20));
            std::fs::remove_file(&beats).unwrap();
            looked.expect("it does not wait")
        };
        std::os::unix::fs::symlink(&elsewhere, &beats).unwrap();
        assert!(never_beat(), "what lies elsewhere is no beat");
        nix::unistd::mkfifo(&beats, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(never_beat());
        let _listener = std::os::unix::net::UnixListener::bind(&beats).unwrap();
        assert!(never_beat());
    }
}
