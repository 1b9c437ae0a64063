//! The reaper: a tiny child that sweeps the run directory when the program dies without saying goodbye.
//!
//! ```text
//!  start ─► blocked on a pipe ─┬─ goodbye byte ─► exit
//!                              └─ end of pipe  ─► wait briefly, sweep(DIR), exit
//! ```

use std::fs::File;
use std::io::{self, PipeWriter, Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::ledger::{list_in, sweep_listed, sweep_open};
use super::own_folder::{Others, OwnFolder};
use super::spawn::{Bond, spawn};

/// Says that nothing is left to be undone.
const GOODBYE: u8 = b'g';
/// Agents notice a closed link by themselves and end; a sweep is quicker when they have.
const SETTLE: Duration = Duration::from_millis(300);
/// How often the sweep is tried: what is busy at first (a mount, a cgroup) is free a moment later.
const ATTEMPTS: u32 = 5;

/// A running reaper. Dropping it without [`Self::goodbye`] makes it sweep.
#[derive(Debug)]
pub struct Reaper {
    child: Child,
    pipe: Option<PipeWriter>,
}

impl Reaper {
    /// Starts `exe reaper DIR` in a session of its own, blocked until this process says goodbye or is gone.
    ///
    /// # Errors
    /// When the reaper cannot be started.
    pub fn start(dir: &Path, exe: &Path) -> io::Result<Self> {
        let mut command = Command::new(exe);
        command.arg("reaper").arg(dir.canonicalize()?);
        Self::start_command(command)
    }

    /// The same for an `up` of a set: starts `exe undo STATE_ROOT SET`.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start_undo(state_root: &Path, set: &str, exe: &Path) -> io::Result<Self> {
        let mut command = Command::new(exe);
        command.arg("undo").arg(state_root.canonicalize()?).arg(set);
        Self::start_command(command)
    }

    fn start_command(mut command: Command) -> io::Result<Self> {
        let (read, pipe) = io::pipe()?;
        command.current_dir("/");
        command.stdin(read).stdout(Stdio::null()).stderr(Stdio::null());
        let child = spawn(command, Bond::OutlivesUs, None)?;
        Ok(Self { child, pipe: Some(pipe) })
    }

    /// Tells the reaper that everything was undone, and waits until it has ended.
    pub fn goodbye(mut self) {
        if let Some(mut pipe) = self.pipe.take() {
            let _ = pipe.write_all(&[GOODBYE]);
        }
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        self.pipe = None;
        let _ = self.child.wait();
    }
}

/// Waits until whoever holds the other end says goodbye, which is true, or is gone.
pub fn goodbye_was_said(pipe: OwnedFd) -> bool {
    let mut said = Vec::new();
    // An error is as good as the end: nobody will say goodbye any more.
    let _ = File::from(pipe).take(16).read_to_end(&mut said);
    said.contains(&GOODBYE)
}

/// What the reaper does: waits at `pipe`, then sweeps `dir` unless goodbye was said.
pub fn reaper_main(dir: &Path, pipe: OwnedFd) {
    // Opened before the wait: whatever has that name afterwards, this is the folder that was meant, and this its list.
    let dir = OwnFolder::open(dir, Others::MayLook);
    let list = dir.as_ref().ok().and_then(|dir| list_in(dir).ok().flatten());
    if goodbye_was_said(pipe) {
        return;
    }
    let Ok(dir) = dir else { return };
    for _ in 0..ATTEMPTS {
        std::thread::sleep(SETTLE);
        if list.as_ref().map_or_else(|| sweep_open(&dir), |list| sweep_listed(&dir, list)).is_empty() {
            return;
        }
    }
}
