//! Where this program was put on other machines, so that it is not copied with each call.
//!
//! ```text
//!  CACHE/there/DESTINATION ─► a path that ends in this program's SHA-256 ─► has that file this sum, over there? ─► it is run
//!                              no such line, another program, any doubt ─► settle: copied, checked, put ─► written down
//! ```

use std::path::{Path, PathBuf};

use anyhow::Context;

use super::MOST_PATH;
use crate::cli::{cache, file};
use images::Digest;
use model::experiment::SshSpec;
use platforms::Cancel;
use platforms::own_folder::OwnFolder;
use platforms::ssh::errand::is_program;
use platforms::ssh::{has_digest, run_there};
use units::Reason;

/// Folder of what is known, in the cache folder.
const FOLDER: &str = "there";

/// This program's path on a machine, where it has been put now if it was not there.
pub fn program_there(
    ssh: &SshSpec,
    destination: &str,
    exe: &Path,
    cancel: &Cancel,
) -> Result<String, Reason> {
    let own = std::fs::read(exe).map(|program| Digest::of(&program));
    let own = own.map_err(|error| format!("{} cannot be read: {error}", exe.display()))?;
    let is_own = |path: &str| is_program(path) && path.ends_with(&format!("/{}", own.digits()));
    let known = remembered(destination).filter(|path| is_own(path));
    if let Some(path) = known
        && has_digest(ssh, &path, own.digits(), cancel)?
    {
        return Ok(path);
    }
    let told = run_there(ssh, exe, &["settle"], MOST_PATH, cancel)?;
    let path = told.trim_end_matches('\n');
    if is_own(path) {
        // Without it, it is copied once more.
        let _ = remember(destination, path);
    }
    Ok(path.to_owned())
}

fn remembered(destination: &str) -> Option<String> {
    let most = usize::try_from(MOST_PATH).ok()?;
    let text = file::read("", &path_for(destination), most).ok()?;
    Some(text.trim_end_matches('\n').to_owned())
}

fn remember(destination: &str, path: &str) -> anyhow::Result<()> {
    OwnFolder::make_private(&cache::folder().join(FOLDER)).context("there is no cache folder")?;
    file::write(&path_for(destination), format!("{path}\n").as_bytes(), 0o600)
}

fn path_for(destination: &str) -> PathBuf {
    cache::folder().join(FOLDER).join(Digest::of(destination.as_bytes()).digits())
}
