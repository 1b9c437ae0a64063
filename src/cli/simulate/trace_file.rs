//! The file of `--trace`, opened before the simulation begins: what cannot be written is told at once, and not after hours.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

/// A file that can be written. One that was made for it goes again unless it is written.
pub(super) struct TraceFile {
    path: PathBuf,
    is_new: bool,
}

impl TraceFile {
    /// Opens it without changing what it holds.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let wrong = || format!("--trace {} cannot be written", path.display());
        let is_new = match fs::metadata(path) {
            Ok(found) if found.is_dir() => bail!("{}: it is a folder; wanted the name of a file", wrong()),
            Ok(found) if found.is_file() => {
                OpenOptions::new().append(true).open(path).with_context(wrong)?;
                false
            }
            // Pipes and devices: opening one may wait for somebody, so it is left for later.
            Ok(_) => false,
            Err(_) => {
                OpenOptions::new().write(true).create_new(true).open(path).with_context(wrong)?;
                true
            }
        };
        Ok(Self { path: path.to_owned(), is_new })
    }

    /// Writes it, and says where it is.
    pub(super) fn write(mut self, trace: &str) -> anyhow::Result<PathBuf> {
        self.is_new = false;
        fs::write(&self.path, trace)
            .with_context(|| format!("the trace cannot be written to {}", self.path.display()))?;
        Ok(std::mem::take(&mut self.path))
    }
}

impl Drop for TraceFile {
    fn drop(&mut self) {
        if self.is_new {
            // It is empty and ours; one that stays does no harm.
            let _ = fs::remove_file(&self.path);
        }
    }
}
