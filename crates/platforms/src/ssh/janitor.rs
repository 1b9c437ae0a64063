//! The janitor: a child of a remote agent that removes the agent's folder when the agent ends, however it ends.
//!
//! ```text
//!  agent start ─► unlink own file ─► janitor started, blocked on a pipe ─► agent ends or is killed ─► pipe closes ─► rm -r
//! ```

use std::fs;
use std::io::{self, PipeReader, PipeWriter, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path};
use std::process::{Command, Stdio};

use super::remote::FOLDER_PREFIX;
use crate::own_folder::remove_ours;
use crate::spawn::{Bond, spawn};

/// Holds the janitor back; it works when this is dropped, or when the process ends.
#[derive(Debug)]
pub struct Janitor {
    _pipe: PipeWriter,
}

/// Whether a folder is one that was made for an agent: its name, its owner, no way around.
fn is_ours(folder: &Path) -> bool {
    let named =
        folder.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(FOLDER_PREFIX));
    let plain = folder.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    let owned = fs::symlink_metadata(folder)
        .is_ok_and(|found| found.is_dir() && found.uid() == nix::unistd::geteuid().as_raw());
    named && plain && owned && folder.is_absolute()
}

impl Janitor {
    /// Removes the agent's own file from `folder` and starts the janitor, `exe janitor FOLDER`.
    ///
    /// # Errors
    /// The folder is not one that was made for an agent, or the janitor cannot be started.
    pub fn hire(folder: &Path, exe: &Path) -> io::Result<Self> {
        if !is_ours(folder) {
            return Err(io::Error::other(format!("{} is no folder of an agent", folder.display())));
        }
        let (read, pipe) = io::pipe()?;
        let mut command = Command::new(exe);
        command.arg("janitor").arg(folder).current_dir("/");
        command.stdin(read).stdout(Stdio::null()).stderr(Stdio::null());
        // A session of its own: what ends the connection's processes does not reach it.
        drop(spawn(command, Bond::OutlivesUs, None)?);
        match fs::remove_file(folder.join("bulkhead")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(Self { _pipe: pipe }),
        }
    }
}

/// What the janitor does: waits for the end of `pipe`, removes `folder`.
///
/// # Errors
/// The folder is not one that was made for an agent, or cannot be removed.
pub fn janitor_main(folder: &Path, pipe: PipeReader) -> io::Result<()> {
    let mut pipe = pipe;
    let mut byte = [0];
    // Nobody ever writes: this returns when the agent is gone.
    while matches!(pipe.read(&mut byte), Ok(count) if count > 0) {}
    if !is_ours(folder) {
        return Err(io::Error::other(format!("refused to remove {}", folder.display())));
    }
    let (Some(parent), Some(name)) = (folder.parent(), folder.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    remove_ours(parent, name).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_made_for_an_agent_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let ours = parent.path().join("bulkhead-abcdefghij");
        let other = parent.path().join("precious");
        for folder in [&ours, &other] {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join("file"), "x").unwrap();
        }
        let gone = || {
            let (read, write) = io::pipe().unwrap();
            drop(write);
            read
        };
        assert!(janitor_main(&other, gone()).is_err());
        assert!(janitor_main(&ours.join("..").join("precious"), gone()).is_err());
        let link = parent.path().join("bulkhead-linklinkli");
        std::os::unix::fs::symlink(&other, &link).unwrap();
        assert!(janitor_main(&link, gone()).is_err());
        assert!(other.join("file").exists());
        janitor_main(&ours, gone()).unwrap();
        assert!(!ours.exists());
    }
}
