//! Files of the host that a program is given the content of: variables, and secrets. What stands in them is told nobody.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use model::partition::{MOST_ENV_FILE_BYTES, Word, read_env_file};
use units::Reason;

/// Most bytes of a secret.
pub const MOST_SECRET_BYTES: u64 = 1 << 20;

/// The variables in a file.
///
/// # Errors
/// It cannot be read, or which line is wrong.
pub fn variables(path: &Path) -> Result<Vec<(Word, Word)>, Reason> {
    let bytes = content(path, MOST_ENV_FILE_BYTES)?;
    read_env_file(&bytes).map_err(|problem| format!("{}: {problem}", path.display()).into())
}

/// What is in the file of a secret.
///
/// # Errors
/// It cannot be read, is no file, or is too long.
pub fn secret(path: &Path) -> Result<Vec<u8>, Reason> {
    content(path, MOST_SECRET_BYTES)
}

fn content(path: &Path, most: u64) -> Result<Vec<u8>, Reason> {
    let shown = path.display();
    // A FIFO that nobody writes to would be waited for.
    let kind = path.metadata().map_err(|error| format!("{shown}: {error}"))?.file_type();
    if kind.is_fifo() {
        return Err(format!(
            "{shown}: a file was wanted, this is a pipe, and it is read more than once; write it to a file below /dev/shm"
        )
        .into());
    }
    if !kind.is_file() {
        return Err(format!("{shown}: a file was wanted").into());
    }
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(most + 1).read_to_end(&mut bytes));
    read.map_err(|error| format!("{shown}: {error}"))?;
    if bytes.len() as u64 > most {
        return Err(format!("{shown}: more than {most} bytes, which is the most").into());
    }
    Ok(bytes)
}
