//! Files that users name: read no further than what can be right, written whole or not at all.

use std::fs::{File, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, bail};

/// The text of a file, or its first `most` bytes and one more, so that whoever reads it sees and refuses what is too long. `what` it
/// is stands before its path in an error, as in "scenario ".
pub fn read(what: &str, path: &Path, most: usize) -> anyhow::Result<String> {
    let context = || format!("{what}{} cannot be read", path.display());
    let mut bytes = Vec::new();
    let limit = most as u64 + 1;
    File::open(path).with_context(context)?.take(limit).read_to_end(&mut bytes).with_context(context)?;
    let is_cut = bytes.len() > most;
    text_of(bytes, is_cut).with_context(context)
}

/// Of what is cut, a letter may be in two: it is too long with another one in its place as well.
fn text_of(bytes: Vec<u8>, is_cut: bool) -> anyhow::Result<String> {
    let Err(error) = std::str::from_utf8(&bytes) else { return Ok(String::from_utf8(bytes)?) };
    if is_cut && error.error_len().is_none() {
        return Ok(String::from_utf8_lossy(&bytes).into_owned());
    }
    let before = bytes.get(..error.valid_up_to()).unwrap_or_default();
    let line = before.split(|byte| *byte == b'\n').count();
    bail!("line {line} is no UTF-8, which all text here is")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_text_is_refused_with_its_line_and_what_is_too_long_is_as_long() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let of = |bytes: &[u8], most: usize| {
            std::fs::write(&path, bytes).unwrap();
            read("", &path, most).map_err(|error| format!("{error:#}"))
        };
        assert_eq!(of("né".as_bytes(), 10), Ok("né".to_owned()));
        assert_eq!(of("né too long".as_bytes(), 1), Ok("n\u{fffd}".to_owned()), "cut within a letter");
        let why = of(b"one\ntwo\n\xff\n", 100).unwrap_err();
        assert!(why.ends_with("cannot be read: line 3 is no UTF-8, which all text here is"), "{why}");
        assert!(of(b"n\xc3", 10).unwrap_err().contains("line 1"), "a letter without its end");
    }
}
