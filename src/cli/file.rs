//! Files that users name: read no further than what can be right, written whole or not at all.

use std::fs::{File, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::Context;

/// The text of a file, or its first `most` bytes and one more, so that whoever reads it sees and refuses what is too long. `what` it
/// is stands before its path in an error, as in "scenario ".
pub fn read(what: &str, path: &Path, most: usize) -> anyhow::Result<String> {
    let context = || format!("{what}{} cannot be read", path.display());
    let mut text = String::new();
    let limit = most as u64 + 1;
    File::open(path).with_context(context)?.take(limit).read_to_string(&mut text).with_context(context)?;
    Ok(text)
}

/// Writes it under another name first: a file of an earlier time keeps its rights, and whoever has it open.
pub fn write(path: &Path, content: &[u8], mode: u32) -> anyhow::Result<()> {
    let keep = || {
        let mut file = tempfile::NamedTempFile::new_in(path.parent().unwrap_or(Path::new(".")))?;
        file.write_all(content)?;
        file.as_file().set_permissions(Permissions::from_mode(mode))?;
        file.as_file().sync_all()?;
        file.persist(path).map(drop).map_err(|error| error.error)
    };
    keep().with_context(|| format!("{} cannot be written", path.display()))
}

/// Its name without folder and ending.
pub fn stem(path: &Path) -> String {
    path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}
