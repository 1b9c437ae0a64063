//! Our side of a failure that another process makes: it is started before and waits, so that the moment it happens is known.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use platforms::spawn::{Bond, spawn};
use units::Reason;

use super::agent::{FAIL_VERB, FAILED, PAUSE, READY};

/// How long it may take to get there, and to do it.
pub(super) const WITHIN: Duration = Duration::from_secs(60);
/// How long it may take to end.
const ENDS_WITHIN: Duration = Duration::from_secs(20);
/// How often it is looked whether it has.
const LOOK: Duration = Duration::from_millis(5);
/// Longest line that is read: it may come from a guest.
const LONGEST_LINE: u64 = 1024;

/// A failure that happens at a word.
pub struct Armed {
    child: Child,
    lines: Receiver<String>,
    /// What fails, for messages.
    what: String,
}

impl Armed {
    /// Starts `agent fail WORD`, in a partition (`SET/NAME`) or here, and waits until it is ready.
    ///
    /// # Errors
    /// It cannot be started, or says why it cannot be done.
    pub fn begin(exe: &Path, inside: Option<&str>, word: &str) -> Result<Self, Reason> {
        let mut command = Command::new(exe);
        if let Some(label) = inside {
            command.args(["exec", "--in", label, "--user", "root", "--workdir", "/", "--", "/proc/1/exe"]);
        }
        command.arg("agent").arg(FAIL_VERB).arg(word);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let what = format!("{}: {word}", inside.unwrap_or("host"));
        let mut child = spawn(command, Bond::DiesWithUs, None).map_err(|error| format!("{what}: {error}"))?;
        let (out, heard) = (child.stdout.take(), child.stderr.take());
        let (tell, lines) = channel();
        let mut armed = Self { child, lines, what };
        std::thread::spawn(move || {
            if let Some(out) = out {
                one_by_one(out, |line| tell.send(line).is_ok());
            }
            // What it says at its end comes last.
            let mut why = String::new();
            if let Some(heard) = heard {
                let _ = heard.take(LONGEST_LINE).read_to_string(&mut why);
            }
            let _ = tell.send(why.trim().to_owned());
        });
        armed.hear(READY)?;
        Ok(armed)
    }

    /// The program of a partition (`SET/NAME`) stands still from now on until this is ended.
    ///
    /// # Errors
    /// It cannot be started, or says why it cannot be done.
    pub fn pause(exe: &Path, label: &str) -> Result<Self, Reason> {
        let mut armed = Self::begin(exe, Some(label), PAUSE)?;
        armed.fire()?;
        armed.happened()?;
        Ok(armed)
    }

    /// Lets it happen, without waiting for it.
    ///
    /// # Errors
    /// It is not there any more.
    pub fn fire(&mut self) -> Result<(), Reason> {
        let told = self.child.stdin.as_mut().map_or(Ok(()), |stdin| stdin.write_all(b"now\n"));
        told.map_err(|error| format!("{}: {error}", self.what).into())
    }

    /// Waits until it has happened.
    ///
    /// # Errors
    /// It says why it cannot, or says nothing.
    pub fn happened(&mut self) -> Result<(), Reason> {
        self.hear(FAILED)
    }

    fn hear(&mut self, wanted: &str) -> Result<(), Reason> {
        match self.lines.recv_timeout(WITHIN) {
            Ok(line) if line == wanted => Ok(()),
            Ok(line) => Err(format!("{}: {line}", self.what).into()),
            Err(_) => Err(format!("{}: not {wanted} within {} s", self.what, WITHIN.as_secs()).into()),
        }
    }

    /// Lets it end, and what it holds with it.
    ///
    /// # Errors
    /// It had to be killed: what it held is free all the same.
    pub fn end(mut self) -> Result<(), Reason> {
        drop(self.child.stdin.take());
        let until = Instant::now() + ENDS_WITHIN;
        while Instant::now() < until {
            if matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)) {
                return Ok(());
            }
            std::thread::sleep(LOOK);
        }
        Err(format!("{}: not ended within {} s, so it was killed", self.what, ENDS_WITHIN.as_secs()).into())
    }
}

impl Drop for Armed {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Gives each line on until nobody takes it.
fn one_by_one(out: ChildStdout, mut give: impl FnMut(String) -> bool) {
    let mut out = BufReader::new(out);
    let mut line = Vec::new();
    while matches!((&mut out).take(LONGEST_LINE).read_until(b'\n', &mut line), Ok(1..)) {
        if !give(String::from_utf8_lossy(&line).trim_end().to_owned()) {
            return;
        }
        line.clear();
    }
}
