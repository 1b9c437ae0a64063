//! A second process of a worker, on the same machine, with a ring between both in memory without a name.

use std::io::{BufReader, Write};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use channel::Memory;

use super::VERB;
use super::way::Sections;
use crate::lines::{line_of, read_line};
use model::channel_worker::{SeriesOrder, Through, WorkerAnswer, WorkerOrder, WorkerWay, read_answer};
use platforms::spawn::{Bond, ending, spawn};
use units::Reason;

/// This program, also when its file has been removed.
const OWN_FILE: &str = "/proc/self/exe";

/// The second process, and the memory of both sections.
pub struct Pair {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    ours: Memory,
    theirs: Memory,
}

impl Pair {
    /// Starts it.
    ///
    /// # Errors
    /// When there is no memory for the sections, or it cannot be started.
    pub fn start() -> Result<Self, Reason> {
        let sealed = |name| Memory::sealed(name, Sections::bytes()).map_err(|error| error.to_string());
        let (ours, theirs) = (sealed("first section")?, sealed("second section")?);
        let mut command = Command::new(OWN_FILE);
        command.arg(VERB).stdin(Stdio::piped()).stdout(Stdio::piped());
        let failed = |error: std::io::Error| format!("the second process cannot be started: {error}");
        let mut child = spawn(command, Bond::DiesWithUs, None).map_err(failed)?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("the second process has no pipes".into());
        };
        Ok(Self { child, input: Some(input), output: BufReader::new(output), ours, theirs })
    }

    /// The section that this process writes, and the other one.
    pub fn paths(&self) -> (PathBuf, PathBuf) {
        (path(&self.ours), path(&self.theirs))
    }

    /// Tells the second process to follow.
    ///
    /// # Errors
    /// When it has ended.
    pub fn begin(&mut self, through: Through, order: &SeriesOrder) -> Result<(), Reason> {
        let way = WorkerWay::Shared { through, own: path(&self.theirs), peer: path(&self.ours) };
        let order =
            SeriesOrder { way, leads: false, cpu: order.second_cpu, second_cpu: None, ..order.clone() };
        let line = line_of(&WorkerOrder::Series(order))?;
        let told = self.input.as_mut().is_some_and(|input| input.write_all(&line).is_ok());
        if told { Ok(()) } else { Err(self.gone()) }
    }

    /// Waits for its answer; it gives one when its patience is over at the latest.
    ///
    /// # Errors
    /// What it says, or that it has ended.
    pub fn end(&mut self) -> Result<(), Reason> {
        let Ok(Some(line)) = read_line(&mut self.output) else { return Err(self.gone()) };
        match read_answer(&line)? {
            WorkerAnswer::Failed { reason, .. } => Err(reason.into()),
            _ => Ok(()),
        }
    }

    /// How it ended.
    fn gone(&mut self) -> Reason {
        let _ = self.child.kill();
        let how = self.child.wait().map_or_else(|error| error.to_string(), ending);
        format!("the second process {how}").into()
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        // The end of its input ends it; if it is busy, it is not waited for.
        self.input = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where other processes of this user find it.
fn path(memory: &Memory) -> PathBuf {
    let number = memory.file().map(AsRawFd::as_raw_fd).unwrap_or_default();
    PathBuf::from(format!("/proc/{}/fd/{number}", std::process::id()))
}
