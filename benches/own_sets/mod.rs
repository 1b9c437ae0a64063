//! Sets of a bench's own: a folder for their files and for their state, and the program that is called for them.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// Where they are, and the program that is called there.
pub struct OwnSets {
    folder: tempfile::TempDir,
    program: PathBuf,
}

impl OwnSets {
    /// Of this program.
    pub fn of(program: impl Into<PathBuf>) -> Result<Self> {
        Ok(Self { folder: tempfile::tempdir()?, program: program.into() })
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The program with these words, in that folder.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(words).env("BULKHEAD_STATE", self.path("state")).current_dir(self.folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// The same; what it says. Ends with one of these codes, or this is an error: 1 and 4 say that something does not hold.
    pub fn call(&self, words: &[&str], codes: &[i32]) -> Result<String> {
        let output = self.command(words).output().context("starting bulkhead")?;
        let out = String::from_utf8_lossy(&output.stdout).into_owned();
        ensure!(
            output.status.code().is_some_and(|code| codes.contains(&code)),
            "bulkhead {}: {out}{}",
            words.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(out)
    }
}
