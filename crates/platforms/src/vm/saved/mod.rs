//! Saved machines in the cache folder, a file for each shape: found, kept, removed when they are of no use or too many.
//!
//! ```text
//!  CACHE/saved/             0700, ours
//!    3f0c….saved            see `image`; written under another name first, so that it is whole or not there
//!    3f0c….refused          why machines of this shape could not be saved a while ago, and the shape
//! ```
//! What is found is believed only in a folder that is ours alone, in a file that is ours, and under its checksums. They tell accidents,
//! not forgery: who can write there is us.

pub mod image;

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use nix::fcntl::{FcntlArg, OFlag, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};

use tempfile::NamedTempFile;

use self::image::Image;
use crate::own_folder::{Others, OwnFolder};
use units::Reason;

/// Folder in the cache.
pub const FOLDER: &str = "saved";
const SUFFIX: &str = "saved";
const REFUSED: &str = "refused";
/// How long a refusal holds: what kept a machine from being saved may have been a full disk or a host that stood still.
const REFUSED_FOR: Duration = Duration::from_secs(15 * 60);
/// Longest refusal that is read.
const MOST_REFUSED_BYTES: u64 = 64 * 1024;
/// Most machines and refusals that are kept, those used last.
const MOST: usize = 4;
/// What is being written has this at the beginning of its name, and is locked by whoever writes it.
const UNFINISHED: &str = "unfinished-";
/// How long it may lie before it is locked.
const NOT_LOCKED_YET: Duration = Duration::from_secs(10);

/// The folder of saved machines.
#[derive(Debug)]
pub struct Store {
    folder: OwnFolder,
}

impl Store {
    /// Opens it, or makes it.
    ///
    /// # Errors
    /// It is not ours alone, or cannot be made.
    pub fn open(cache: &Path) -> io::Result<Self> {
        // The cache itself was looked at when it was chosen.
        OwnFolder::open(cache, Others::MayLook)?;
        let store = Self { folder: OwnFolder::make_private(&cache.join(FOLDER))? };
        // What was killed while it wrote has left as much as a machine's memory.
        store.remove_unfinished()?;
        Ok(store)
    }

    /// The machine of this shape, if one is kept.
    ///
    /// # Errors
    /// One is, but is of no use: why. It should be [removed](Self::remove).
    pub fn find(&self, shape: &str) -> Result<Option<Image>, Reason> {
        let file = match self.folder.file(&name(shape, SUFFIX), OFlag::O_RDONLY) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(|error| error.to_string())?,
        };
        let mode = file.metadata().map_err(|error| error.to_string())?.permissions().mode() & 0o7777;
        if mode & 0o077 != 0 {
            return Err(format!("others may read it: its mode is {mode:o}, wanted 600").into());
        }
        // Only the order in which they are given up depends on it.
        let _ = file.set_modified(SystemTime::now());
        Image::open(file, shape).map(Some)
    }

    /// Keeps a machine; those that were not used for the longest time go.
    ///
    /// # Errors
    /// It cannot be written; nothing of it is left then.
    pub fn keep(&self, shape: &str, state: &[u8], memory: &File) -> io::Result<()> {
        let mut file = self.unfinished()?;
        image::write(file.as_file_mut(), shape, state, memory)?;
        file.persist(self.folder.path().join(name(shape, SUFFIX))).map_err(|error| error.error)?;
        self.thin_out()
    }

    /// Remembers for a while that machines of this shape are not to be saved, and why.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn refuse(&self, shape: &str, why: &str) -> io::Result<()> {
        let mut file = self.unfinished()?;
        file.write_all(format!("{}\n{shape}", why.replace('\n', " ")).as_bytes())?;
        file.persist(self.folder.path().join(name(shape, REFUSED))).map_err(|error| error.error)?;
        self.thin_out()
    }

    /// Why machines of this shape are not to be saved now, if that was found out.
    pub fn refused(&self, shape: &str) -> Option<String> {
        let file = self.folder.file(&name(shape, REFUSED), OFlag::O_RDONLY).ok()?;
        let age = SystemTime::now().duration_since(file.metadata().ok()?.modified().ok()?).ok()?;
        if age > REFUSED_FOR {
            return None;
        }
        let mut text = String::new();
        file.take(MOST_REFUSED_BYTES).read_to_string(&mut text).ok()?;
        text.split_once('\n').filter(|(_, of)| *of == shape).map(|(why, _)| why.to_owned())
    }

    /// Removes the machine of this shape.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn remove(&self, shape: &str) -> io::Result<()> {
        self.folder.remove(Path::new(&name(shape, SUFFIX))).map(drop)
    }

    /// A file that is not there yet for whoever looks for machines.
    fn unfinished(&self) -> io::Result<NamedTempFile> {
        let file = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(self.folder.path())?;
        file.as_file().lock()?;
        Ok(file)
    }

    /// Removes what nobody writes any more.
    fn remove_unfinished(&self) -> io::Result<()> {
        for entry in fs::read_dir(self.folder.held())?.flatten() {
            let name = PathBuf::from(entry.file_name());
            let Ok(changed) = entry.metadata().and_then(|meta| meta.modified()) else { continue };
            let age = SystemTime::now().duration_since(changed).unwrap_or_default();
            let is_left = || {
                let file = self.folder.file(&entry.file_name().to_string_lossy(), OFlag::O_RDONLY);
                file.is_ok_and(|file| file.try_lock().is_ok())
            };
            if name.to_string_lossy().starts_with(UNFINISHED) && age > NOT_LOCKED_YET && is_left() {
                self.folder.remove(&name)?;
            }
        }
        Ok(())
    }

    fn thin_out(&self) -> io::Result<()> {
        let mut kept: Vec<(SystemTime, PathBuf)> = Vec::new();
        for entry in fs::read_dir(self.folder.held())?.flatten() {
            let name = PathBuf::from(entry.file_name());
            let Ok(changed) = entry.metadata().and_then(|meta| meta.modified()) else { continue };
            if name.extension().is_some_and(|suffix| suffix == SUFFIX || suffix == REFUSED) {
                kept.push((changed, name));
            }
        }
        kept.sort();
        let surplus = kept.len().saturating_sub(MOST);
        kept.iter().take(surplus).try_for_each(|(_, name)| self.folder.remove(name).map(drop))
    }
}

/// The shape itself is in the file; another one that gets the same name is only in the way.
fn name(shape: &str, suffix: &str) -> String {
    let mut hasher = DefaultHasher::new();
    shape.hash(&mut hasher);
    format!("{:016x}.{suffix}", hasher.finish())
}

/// A guest's memory as a file in memory, whose size nobody can change: others have it mapped.
///
/// # Errors
/// No such file can be had.
pub fn memory(bytes: u64) -> io::Result<File> {
    let file =
        File::from(memfd_create(c"bulkhead-memory", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING)?);
    file.set_len(bytes)?;
    let seals = SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_SEAL;
    fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
    Ok(file)
}

/// The state of a machine's devices, for a QEMU that inherits it.
///
/// # Errors
/// No file in memory can be had.
pub fn state(bytes: &[u8]) -> io::Result<OwnedFd> {
    use std::io::Seek;
    let mut file = File::from(super::initramfs::in_memory("bulkhead-state", bytes)?);
    file.rewind()?;
    Ok(file.into())
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::{FileExt, symlink};

    use super::*;

    fn kept(cache: &Path, shape: &str) -> Store {
        let store = Store::open(cache).unwrap();
        let memory = memory(1 << 20).unwrap();
        memory.write_all_at(b"something", 4096).unwrap();
        store.keep(shape, b"state", &memory).unwrap();
        store
    }

    fn names(cache: &Path) -> usize {
        fs::read_dir(cache.join(FOLDER)).unwrap().count()
    }

    #[test]
    fn one_is_found_by_its_shape_until_it_is_removed() {
        let cache = tempfile::tempdir().unwrap();
        let store = kept(cache.path(), "one");
        assert_eq!(store.find("one").unwrap().unwrap().state(), b"state");
        assert!(store.find("two").unwrap().is_none());
        store.remove("one").unwrap();
        assert!(store.find("one").unwrap().is_none());
        assert_eq!(names(cache.path()), 0);
    }

    #[test]
    fn a_refusal_is_remembered_for_its_shape_alone_and_for_a_while() {
        let cache = tempfile::tempdir().unwrap();
        let store = kept(cache.path(), "one");
        assert_eq!(store.refused("one"), None);
        store.refuse("one", "no\nport").unwrap();
        assert_eq!(store.refused("one").unwrap(), "no port");
        let file = |shape| cache.path().join(FOLDER).join(name(shape, REFUSED));
        let age = |by| File::open(file("one")).unwrap().set_modified(SystemTime::now() - by).unwrap();
        age(REFUSED_FOR / 2);
        assert_eq!(store.refused("one").unwrap(), "no port");
        age(REFUSED_FOR + Duration::from_secs(1));
        assert_eq!(store.refused("one"), None, "it is tried again");
        age(Duration::ZERO);
        assert_eq!(store.refused("two"), None);
        fs::rename(file("one"), file("two")).unwrap();
        assert_eq!(store.refused("two"), None, "it is another one's");
    }

    #[test]
    fn those_not_used_for_the_longest_time_go() {
        let cache = tempfile::tempdir().unwrap();
        for shape in ["1", "2", "3", "4"] {
            kept(cache.path(), shape);
            std::thread::sleep(Duration::from_millis(20));
        }
        kept(cache.path(), "4").find("1").unwrap();
        let store = kept(cache.path(), "5");
        let found = ["1", "2", "3", "4", "5"].map(|shape| store.find(shape).unwrap().is_some());
        assert_eq!(found, [true, false, true, true, true]);
        assert_eq!(names(cache.path()), MOST);
    }

    /// Regression: those of another mode than promised were taken, as long as others could only read them.
    #[test]
    fn what_others_may_read_is_not_taken() {
        let cache = tempfile::tempdir().unwrap();
        let store = kept(cache.path(), "one");
        let path = cache.path().join(FOLDER).join(name("one", SUFFIX));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(store.find("one").unwrap_err().to_string().contains("its mode is 644, wanted 600"));
    }

    #[test]
    fn what_others_could_have_written_is_not_believed() {
        let cache = tempfile::tempdir().unwrap();
        let store = kept(cache.path(), "one");
        let path = cache.path().join(FOLDER).join(name("one", SUFFIX));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        let error = store.find("one").unwrap_err();
        assert!(error.to_string().contains("can be written to"), "{error}");
        fs::rename(&path, cache.path().join("elsewhere")).unwrap();
        symlink(cache.path().join("elsewhere"), &path).unwrap();
        assert!(store.find("one").unwrap_err().to_string().contains("symbolic link"));
        store.remove("one").unwrap();
        assert!(cache.path().join("elsewhere").exists());
        let folder = cache.path().join(FOLDER);
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(Store::open(cache.path()).is_err());
    }

    #[test]
    fn what_was_killed_while_it_wrote_leaves_nothing_for_long() {
        let cache = tempfile::tempdir().unwrap();
        let store = kept(cache.path(), "one");
        let (written, fresh, left) =
            (store.unfinished().unwrap(), store.unfinished().unwrap(), store.unfinished().unwrap());
        for file in [&written, &left] {
            file.as_file().set_modified(SystemTime::now() - 2 * NOT_LOCKED_YET).unwrap();
        }
        // As when whoever wrote them is gone.
        for file in [&fresh, &left] {
            file.as_file().unlock().unwrap();
        }
        Store::open(cache.path()).unwrap();
        assert_eq!([&written, &fresh, &left].map(|file| file.path().exists()), [true, true, false]);
        assert!(store.find("one").unwrap().is_some());
    }

    #[test]
    fn nobody_changes_the_size_of_a_guests_memory() {
        let memory = memory(1 << 20).unwrap();
        assert!(memory.set_len(0).is_err() && memory.set_len(2 << 20).is_err());
        let again =
            File::options().read(true).write(true).open(format!("/proc/self/fd/{}", memory.as_raw_fd()));
        assert!(again.unwrap().set_len(0).is_err());
    }
}
