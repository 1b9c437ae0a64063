//! A locked file in a folder that one run has made outside its own: while the run lives it has the lock, however it ends the kernel
//! takes it away. So whoever comes next knows what was left by a run that was killed together with its reaper.

use std::fs::File;
use std::io;
use std::path::Path;

use nix::fcntl::OFlag;
use tempfile::NamedTempFile;

use super::own_folder::{Others, OwnFolder};

/// The file. No other folder of ours has one of that name.
const NAME: &str = ".run";

/// The lock, held until it is dropped.
#[derive(Debug)]
pub struct RunLock {
    _file: File,
}

impl RunLock {
    /// Puts the locked file into a folder.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn take(folder: &Path) -> io::Result<Self> {
        // It has its name only once it is locked, so nobody finds it without.
        let file = NamedTempFile::new_in(folder)?;
        file.as_file().lock()?;
        let file = file.persist(folder.join(NAME)).map_err(|error| error.error)?;
        Ok(Self { _file: file })
    }

    /// Whether this is a folder of ours with such a file that nobody has locked.
    pub fn is_free(folder: &Path) -> bool {
        let folder = OwnFolder::open(folder, Others::StayOut);
        let file = folder.and_then(|folder| folder.file(NAME, OFlag::O_RDONLY));
        file.is_ok_and(|file| file.try_lock().is_ok())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::sweep::new_folder;

    #[test]
    fn a_folder_is_free_when_its_run_is_gone_and_never_without_the_file() {
        let folder = new_folder("test").unwrap();
        assert!(!RunLock::is_free(folder.path()), "nothing says that a run has made it");
        let lock = RunLock::take(folder.path()).unwrap();
        assert!(!RunLock::is_free(folder.path()));
        drop(lock);
        assert!(RunLock::is_free(folder.path()));
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        assert!(!RunLock::is_free(folder.path()), "others could have put something there");
    }
}
