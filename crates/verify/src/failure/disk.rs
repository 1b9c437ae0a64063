//! A disk is full: the process that serves a partition's files is told again and again that it is, and refuses what takes room. Nothing is
//! taken of the host's disk, and when nobody tells it any more there is room again.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;

use model::partition::set::ProcessName;
use partition::set::process;
use platforms::vm::files::{FULL_FOR, FULL_SIGNAL};
use units::Reason;

/// How often it is told, in the time that once lasts: some may come late.
const TELLS: u32 = 4;

/// What is full until this is dropped.
pub struct FullDisk {
    stop: Option<Sender<()>>,
    telling: Option<JoinHandle<()>>,
}

impl FullDisk {
    /// All that the partition of that folder may write to on the host is full.
    ///
    /// # Errors
    /// Its server cannot be sent signals.
    pub fn begin(server: ProcessName, folder: &Path) -> Result<Self, Reason> {
        let folder: PathBuf = folder.to_owned();
        process::signal(&server, &folder, FULL_SIGNAL)?;
        let (stop, stopped) = channel::<()>();
        let tell = move || {
            while stopped.recv_timeout(FULL_FOR / TELLS) == Err(RecvTimeoutError::Timeout) {
                // It ends with its partition.
                let _ = process::signal(&server, &folder, FULL_SIGNAL);
            }
        };
        let telling = std::thread::Builder::new().name("full disk".to_owned()).spawn(tell);
        let telling = telling.map_err(|error| format!("no thread for a full disk: {error}"))?;
        Ok(Self { stop: Some(stop), telling: Some(telling) })
    }
}

impl Drop for FullDisk {
    /// There is room again when this returns.
    fn drop(&mut self) {
        drop(self.stop.take());
        if self.telling.take().is_some_and(|telling| telling.join().is_ok()) {
            std::thread::sleep(FULL_FOR);
        }
    }
}
