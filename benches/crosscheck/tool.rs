//! Runs the tools that are compared with: by their arguments, with a deadline, and gone when this program is.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;

/// A tool and the package that brings it.
#[derive(Debug, Clone, Copy)]
pub struct Tool {
    pub name: &'static str,
    pub package: &'static str,
}

/// A program has loaded its libraries by then; on a machine that is busy it takes a few looks.
const MAPS_AFTER: Duration = Duration::from_millis(300);
const MAPS_LOOKS: u32 = 20;

/// Where else to look: tools for the administrator are not on everybody's path.
const MORE_FOLDERS: [&str; 2] = ["/usr/sbin", "/sbin"];

impl Tool {
    fn find(self) -> Result<PathBuf, String> {
        find(self.name)
            .ok_or_else(|| format!("{} is not installed here; package {}", self.name, self.package))
    }

    /// Runs it to its end; returns what it printed.
    pub fn run(self, arguments: &[&str], folder: &Path, patience: Duration) -> Result<String, String> {
        let mut running = self.start(arguments, folder)?;
        let status = running.wait(patience)?;
        let printed = running.printed()?;
        if status.success() {
            return Ok(printed);
        }
        let last = printed.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("nothing").to_owned();
        Err(format!("{} ended with {status}; its last words: {last}", self.name))
    }

    /// The same, and what it has mapped once it runs: a single look, so that nobody keeps a CPU warm for it.
    pub fn run_mapped(
        self,
        arguments: &[&str],
        folder: &Path,
        patience: Duration,
    ) -> Result<(String, String), String> {
        let mut running = self.start(arguments, folder)?;
        let maps = running.maps();
        let status = running.wait(patience)?;
        let printed = running.printed()?;
        if status.success() { Ok((printed, maps)) } else { Err(format!("{} ended with {status}", self.name)) }
    }

    /// Starts it in this folder.
    pub fn start(self, arguments: &[&str], folder: &Path) -> Result<Running, String> {
        let program = self.find()?;
        let failed = |error: std::io::Error| format!("{} could not be run: {error}", self.name);
        let out = tempfile::tempfile().map_err(failed)?;
        let both = || out.try_clone().map(Stdio::from);
        // Ends with this program even when that is killed, where util-linux can see to it.
        let mut command = match find("setpriv") {
            Some(setpriv) => {
                let mut command = Command::new(setpriv);
                command.args(["--pdeathsig", "KILL", "--"]).arg(program);
                command
            }
            None => Command::new(program),
        };
        let child = command
            .args(arguments)
            .current_dir(folder)
            // One thread, as the probes it is compared with.
            .env("OPENBLAS_NUM_THREADS", "1")
            .env("OMP_NUM_THREADS", "1")
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(both().map_err(failed)?)
            .stderr(both().map_err(failed)?)
            .spawn()
            .map_err(failed)?;
        Ok(Running { name: self.name, child, out })
    }
}

fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(MORE_FOLDERS.map(PathBuf::from));
    folders.map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// A tool that runs; killed when it is dropped.
#[derive(Debug)]
pub struct Running {
    name: &'static str,
    child: Child,
    out: File,
}

impl Running {
    /// The files that it has mapped, once it is itself and its libraries are there; empty when it ended before.
    fn maps(&self) -> String {
        let path = format!("/proc/{}/maps", self.child.id());
        for _ in 0..MAPS_LOOKS {
            thread::sleep(MAPS_AFTER);
            let maps = std::fs::read_to_string(&path).unwrap_or_default();
            let is_itself =
                maps.lines().next().is_some_and(|line| line.ends_with(&format!("/{}", self.name)));
            if is_itself || maps.is_empty() {
                return maps;
            }
        }
        String::new()
    }

    /// Waits asleep: whoever looked now and then would keep a CPU warm for the tool, and nobody does for the probe.
    fn wait(&mut self, patience: Duration) -> Result<ExitStatus, String> {
        let failed = |error: std::io::Error| format!("{} could not be waited for: {error}", self.name);
        let id = i32::try_from(self.child.id()).map(Pid::from_raw).map(Id::Pid);
        let id = id.map_err(|_| failed(std::io::ErrorKind::InvalidInput.into()))?;
        let (send, receive) = mpsc::channel();
        thread::spawn(move || send.send(waitid(id, WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT)));
        match receive.recv_timeout(patience) {
            Ok(Ok(_)) => self.child.wait().map_err(failed),
            Ok(Err(errno)) => Err(failed(errno.into())),
            Err(_) => Err(format!("{} was not done after {patience:?}", self.name)),
        }
    }

    fn printed(&mut self) -> Result<String, String> {
        let mut bytes = Vec::new();
        self.out
            .seek(SeekFrom::Start(0))
            .and_then(|_| self.out.read_to_end(&mut bytes))
            .map_err(|error| format!("what {} printed cannot be read: {error}", self.name))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Already over, as a rule.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
