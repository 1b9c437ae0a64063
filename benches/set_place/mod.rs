//! A set of a bench's own: a folder for its files and for its state.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, ensure};

/// Where everything of a bench is.
pub struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Result<Self> {
        Ok(Self { folder: tempfile::tempdir()? })
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The program with these words, in that folder.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bulkhead"));
        command.args(words).env("BULKHEAD_STATE", self.path("state")).current_dir(self.folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// The same, which is to say what it found: that something does not hold (1, 4) is no error.
    pub fn call(&self, words: &[&str]) -> Result<Output> {
        let output = self.command(words).output().context("starting bulkhead")?;
        ensure!(
            matches!(output.status.code(), Some(0 | 1 | 4)),
            "{}: {}",
            words.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(output)
    }
}
