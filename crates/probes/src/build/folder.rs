//! Where sources and objects lie: a folder of its own in the scratch place, gone when the probe is over.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::{fs, io, process};

use crate::error::WorkError;
use crate::scratch::Scratch;
use units::Bytes;

/// Where instances whose scratch place is a disk without a file system have one.
const WITHOUT_FILE_SYSTEM: &str = "/tmp";

static FOLDERS_MADE: AtomicU64 = AtomicU64::new(0);

/// The folder of one job.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    note: String,
}

impl Folder {
    /// Makes it, where there is room for this much.
    ///
    /// # Errors
    /// There is no scratch place, no room in it, or the system refused.
    pub fn make(scratch: Option<&Path>, room: Bytes) -> Result<Self, WorkError> {
        // A block device holds no files.
        let place = match scratch {
            Some(place) if !place.is_dir() && place.exists() => Some(Path::new(WITHOUT_FILE_SYSTEM)),
            place => place,
        };
        let file = Scratch::open(place)?;
        file.check_room(room)?;
        let number = FOLDERS_MADE.fetch_add(1, Ordering::Relaxed);
        let parent = place.unwrap_or(Path::new(WITHOUT_FILE_SYSTEM));
        let path = parent.join(format!("bulkhead-build-{}-{number}", process::id()));
        fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .map_err(|error| WorkError::system(format!("make the folder {}", path.display()), error))?;
        let instead = match scratch {
            Some(device) if place != scratch => format!(", since {} holds no files", device.display()),
            _ => String::new(),
        };
        let note = format!("sources and objects lie in {}, {}{instead}", parent.display(), file.target());
        Ok(Self { path, note })
    }

    /// Where it lies, for the notes of a report.
    pub fn note(&self) -> &str {
        &self.note
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The source file of this number.
    pub fn source(&self, number: u32) -> PathBuf {
        self.path.join(format!("{number}.src"))
    }

    /// The object that becomes of it.
    pub fn object(&self, number: u32) -> PathBuf {
        object_in(&self.path, number)
    }

    /// What all objects become together.
    pub fn image(&self) -> PathBuf {
        self.path.join("image")
    }

    /// Writes a source file.
    ///
    /// # Errors
    /// There is no room, or the system refused.
    pub fn write_source(&self, number: u32, text: &str) -> Result<(), WorkError> {
        let path = self.source(number);
        fs::write(&path, text).map_err(|error| match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                WorkError::DiskFull { doing: format!("writing {}", path.display()) }
            }
            _ => WorkError::system(format!("write {}", path.display()), error),
        })
    }
}

/// The object of this number in a job's folder.
pub fn object_in(folder: &Path, number: u32) -> PathBuf {
    folder.join(format!("{number}.o"))
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed here goes with the scratch place.
        let _ = fs::remove_dir_all(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_and_a_full_place_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::make(Some(place.path()), Bytes::from_bytes(1)).unwrap();
        folder.write_source(3, "text").unwrap();
        assert_eq!(fs::read_to_string(folder.source(3)).unwrap(), "text");
        assert!(folder.note().contains(&place.path().display().to_string()));
        drop(folder);
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
        let full = Folder::make(Some(place.path()), Bytes::from_bytes(1 << 60)).unwrap_err();
        assert!(matches!(full, WorkError::DiskFull { .. }), "{full}");
        assert!(
            Folder::make(None, Bytes::from_bytes(1)).unwrap_err().to_string().contains("no scratch folder")
        );
    }
}
