//! Failures that last as long as a process is told so: a disk that is full, for what serves a partition's files, and a cable that is pulled
//! out, for a switch. When nobody tells it any more, by `kill -9` too, there is room again and the cable is in.

use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use model::partition::set::ProcessName;
use partition::network::switch::cable::{self, PULL_SIGNAL, PULLED_FOR};
use partition::set::process;
use platforms::vm::files::{FULL_FOR, FULL_SIGNAL};
use units::Reason;

/// How often it is told, in the time that once lasts: some may come late.
const TELLS: u32 = 4;

/// What fails until this is dropped.
pub struct Told {
    stop: Option<Sender<()>>,
    telling: Option<JoinHandle<()>>,
    lasts: Duration,
}

impl Told {
    /// All that the partition of that folder may write to on the host is full.
    ///
    /// # Errors
    /// Its server cannot be sent signals.
    pub fn full_disk(server: ProcessName, folder: PathBuf) -> Result<Self, Reason> {
        Self::begin(FULL_FOR, move || process::signal(&server, &folder, FULL_SIGNAL))
    }

    /// The cable between a plug and the switch of that folder is out; `link` is the folder of the link.
    ///
    /// # Errors
    /// The switch cannot be told.
    pub fn pulled_cable(
        switch: ProcessName,
        folder: PathBuf,
        link: PathBuf,
        plug: u8,
    ) -> Result<Self, Reason> {
        Self::begin(PULLED_FOR, move || {
            cable::pull(&link, plug)
                .map_err(|error| format!("the link's folder {}: {error}", link.display()))?;
            process::signal(&switch, &folder, PULL_SIGNAL)
        })
    }

    /// Once now, and again in time until this is dropped; once lasts as long as it says.
    fn begin(
        lasts: Duration,
        tell: impl Fn() -> Result<(), Reason> + Send + 'static,
    ) -> Result<Self, Reason> {
        tell()?;
        let (stop, stopped) = channel::<()>();
        let again = move || {
            while stopped.recv_timeout(lasts / TELLS) == Err(RecvTimeoutError::Timeout) {
                // Who is told may have ended.
                let _ = tell();
            }
        };
        let telling = std::thread::Builder::new().name("failure".to_owned()).spawn(again);
        let telling = telling.map_err(|error| format!("no thread for a failure: {error}"))?;
        Ok(Self { stop: Some(stop), telling: Some(telling), lasts })
    }
}

impl Drop for Told {
    /// It is over when this returns.
    fn drop(&mut self) {
        drop(self.stop.take());
        if self.telling.take().is_some_and(|telling| telling.join().is_ok()) {
            std::thread::sleep(self.lasts);
        }
    }
}
