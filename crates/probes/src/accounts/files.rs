//! Reads small files of the kernel, never more of them than a bound.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use units::Reason;

/// Longest file that is read: `/proc/interrupts` of a machine with 4096 CPUs has some megabytes.
const MOST_BYTES: u64 = 16 << 20;

/// The text of a file; bytes that are no UTF-8 are replaced.
///
/// # Errors
/// Why it could not be read, with its path.
pub fn read(path: &Path) -> Result<String, Reason> {
    read_at_most(path, MOST_BYTES)
}

/// The same with a bound of its own.
///
/// # Errors
/// Why it could not be read, with its path.
pub fn read_at_most(path: &Path, most: u64) -> Result<String, Reason> {
    let refused = |error: io::Error| format!("{}: {error}", path.display());
    let mut bytes = Vec::new();
    File::open(path).map_err(refused)?.take(most + 1).read_to_end(&mut bytes).map_err(refused)?;
    if bytes.len() as u64 > most {
        return Err(format!("{} is longer than {most} bytes", path.display()).into());
    }
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// The begin of a file, at most so many bytes; empty when it cannot be read.
pub fn head(path: &Path, most: u64) -> String {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(most).read_to_end(&mut bytes));
    read.map_or_else(|_| String::new(), |_| String::from_utf8_lossy(&bytes).into_owned())
}

/// Writes a setting into a file of the kernel, which must be there already.
///
/// # Errors
/// Why it was refused, with the path.
pub fn set(path: &Path, value: &str) -> Result<(), Reason> {
    let mut file = File::options().write(true).open(path).map_err(|error| refusal(value, path, &error))?;
    file.write_all(value.as_bytes()).map_err(|error| refusal(value, path, &error))
}

fn refusal(value: &str, path: &Path, error: &io::Error) -> Reason {
    format!("cannot write {value} to {}: {error}", path.display()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_and_missing_files_are_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, b"abc\xff").unwrap();
        assert_eq!(read_at_most(&path, 4).unwrap(), "abc\u{fffd}");
        assert!(read_at_most(&path, 3).unwrap_err().to_string().contains("longer than 3 bytes"));
        assert_eq!((head(&path, 2).as_str(), head(&folder.path().join("none"), 2).as_str()), ("ab", ""));
        assert!(read(&folder.path().join("none")).unwrap_err().to_string().contains("none: No such file"));
    }
}
