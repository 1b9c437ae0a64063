//! Volumes: folders of ours by name, which partitions write and which stay.
//!
//! ```text
//!  $XDG_DATA_HOME/bulkhead/volumes   or ~/.local/share/…, ours alone
//!      NAME/lock                     held by all who use it; alone by whoever removes it
//!      NAME/files                    what partitions see
//!      .removed-NAME-N               on its way out
//! ```

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::fcntl::OFlag;
use nix::sys::stat::{Mode, fchmod};

use crate::users;
use model::partition::{UserIds, Volume, is_name};
use platforms::own_folder::{Others, OwnFolder, check_way};
use units::Reason;

const LOCK: &str = "lock";
/// What is being removed begins so; no volume's name does.
const REMOVED: &str = ".removed-";
/// How long a volume that somebody looks at is waited for.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often it is looked.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A volume that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// Its folder.
    pub path: PathBuf,
    /// Whether a partition that runs has it.
    pub is_used: bool,
}

/// The folder of all volumes; it need not be there.
///
/// # Errors
/// There is neither `XDG_DATA_HOME` nor a home.
pub fn root() -> Result<PathBuf, Reason> {
    let named = std::env::var_os("XDG_DATA_HOME").map(PathBuf::from).filter(|folder| folder.is_absolute());
    let data = named.or_else(|| users::own_home().map(|home| home.join(".local/share")));
    let data = data.ok_or("volumes lie in XDG_DATA_HOME, or in a home, and there is neither")?;
    Ok(data.join("bulkhead/volumes"))
}

/// Makes sure that all of a program's volumes are there, and that none is removed until what comes of it is dropped. What is
/// made is the program's user's, in its eyes.
///
/// # Errors
/// One is not ours, or cannot be made, or is being removed.
pub fn take(volumes: &[Volume], user: &UserIds) -> Result<Vec<File>, Reason> {
    volumes.iter().map(|volume| take_one(volume, user)).collect()
}

fn take_one(volume: &Volume, user: &UserIds) -> Result<File, Reason> {
    let failed = |error: io::Error| Reason::from(format!("volume {}: {error}", volume.name));
    if let Some(root) = volume.from.parent() {
        check_way(root).and_then(|()| OwnFolder::make_private(root)).map_err(failed)?;
    }
    let until = Instant::now() + PATIENCE;
    loop {
        let own = OwnFolder::make_private(&volume.from).map_err(failed)?;
        let Some(lock) = held(&own, File::try_lock_shared).map_err(failed)? else {
            if Instant::now() > until {
                return Err(failed(io::Error::other("somebody removes it just now")));
            }
            std::thread::sleep(LOOK_EVERY);
            continue;
        };
        make_files(&volume.files(), user).map_err(failed)?;
        return Ok(lock);
    }
}

/// Its lock, unless somebody else has it in the way, or it is no longer the one of that name.
fn held(own: &OwnFolder, how: impl Fn(&File) -> Result<(), TryLockError>) -> io::Result<Option<File>> {
    let lock = own.file(LOCK, OFlag::O_CREAT | OFlag::O_RDWR)?;
    match how(&lock) {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    let is_still = fs::symlink_metadata(own.path().join(LOCK));
    Ok(Some(lock.metadata()?.ino())
        .filter(|ino| is_still.is_ok_and(|there| there.ino() == *ino))
        .map(|_| lock))
}

fn make_files(files: &Path, user: &UserIds) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(files) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            OwnFolder::open(files, Others::MayLook).map(drop)
        }
        made => {
            made?;
            let folder = OwnFolder::open(files, Others::MayLook)?.file_of_itself()?;
            // Where such attributes are not kept, it is the caller's.
            let _ = files::keep(folder.as_fd(), user.uid, user.gid, 0);
            // Nobody else gets as far as here.
            Ok(fchmod(&folder, Mode::from_bits_truncate(0o755))?)
        }
    }
}

/// All that are there, by name.
///
/// # Errors
/// Their folder is not ours.
pub fn list(root: &Path) -> io::Result<Vec<Listed>> {
    match OwnFolder::open(root, Others::StayOut) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        opened => drop(opened?),
    }
    let mut all = Vec::new();
    for entry in fs::read_dir(root)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let path = root.join(&name);
        if !is_name(&name) || !path.is_dir() {
            continue;
        }
        let own = OwnFolder::open(&path, Others::StayOut)?;
        let is_used = held(&own, File::try_lock)?.is_none();
        all.push(Listed { name, path, is_used });
    }
    all.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(all)
}

/// Removes one with all that is in it, unless a partition that runs has it.
///
/// # Errors
/// Why it is still there.
pub fn remove(root: &Path, name: &str) -> Result<(), Reason> {
    let failed = |error: io::Error| Reason::from(format!("volume {name}: {error}"));
    let missing = || Reason::from(format!("there is no volume {name:?} in {}", root.display()));
    if !is_name(name) {
        return Err(missing());
    }
    let all = match OwnFolder::open(root, Others::StayOut) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(missing()),
        opened => opened.map_err(failed)?,
    };
    let place = root.join(name);
    let own = match OwnFolder::open(&place, Others::StayOut) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(missing()),
        opened => opened.map_err(failed)?,
    };
    let in_use = || format!("volume {name} is in use by a partition that runs; end that first (bulkhead ps)");
    let _lock = held(&own, File::try_lock).map_err(failed)?.ok_or_else(in_use)?;
    // From here on nobody finds it, whatever becomes of the rest.
    let gone = format!("{REMOVED}{name}-{}", std::process::id());
    fs::rename(&place, root.join(&gone)).map_err(failed)?;
    // With what others left that were killed here.
    for entry in fs::read_dir(root).map_err(failed)?.flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(REMOVED.as_bytes()) {
            all.remove(Path::new(&entry.file_name())).map_err(failed)?;
        }
    }
    all.sync().map_err(failed)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;
    use model::partition::VolumeSpec;

    fn volume(root: &Path, name: &str) -> Volume {
        VolumeSpec { name: name.to_owned(), at: "/data".into() }.within(root)
    }

    #[test]
    fn what_is_used_stays_and_what_is_not_goes_with_all_in_it() {
        let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(outside.path().join("precious"), "x").unwrap();
        let root = dir.path().join("volumes");
        assert_eq!(list(&root).unwrap(), []);
        assert!(remove(&root, "db").unwrap_err().to_string().contains("no volume"));
        let db = volume(&root, "db");
        let first = take(std::slice::from_ref(&db), &UserIds::default()).unwrap();
        let second = take(std::slice::from_ref(&db), &UserIds::default()).unwrap();
        assert_eq!(fs::metadata(&db.from).unwrap().permissions().mode() & 0o777, 0o700);
        symlink(outside.path(), db.files().join("out")).unwrap();
        let mut deep = db.files();
        for _ in 0..300 {
            deep.push("d");
            fs::create_dir(&deep).unwrap();
        }
        fs::set_permissions(&deep, fs::Permissions::from_mode(0o0)).unwrap();
        drop(first);
        assert!(remove(&root, "db").unwrap_err().to_string().contains("in use"));
        assert!(list(&root).unwrap()[0].is_used);
        drop(second);
        assert!(!list(&root).unwrap()[0].is_used);
        remove(&root, "db").unwrap();
        assert_eq!(fs::read_dir(&root).unwrap().count(), 0);
        assert!(outside.path().join("precious").exists());
        assert!(remove(&root, "../volumes").unwrap_err().to_string().contains("no volume"));
    }

    #[test]
    fn what_others_could_have_written_is_no_volume() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("volumes");
        fs::create_dir_all(root.join("open")).unwrap();
        fs::set_permissions(&root, fs::Permissions::from_mode(0o700)).unwrap();
        fs::set_permissions(root.join("open"), fs::Permissions::from_mode(0o777)).unwrap();
        symlink("/etc", root.join("link")).unwrap();
        for name in ["open", "link"] {
            assert!(take(&[volume(&root, name)], &UserIds::default()).is_err(), "{name}");
            assert!(remove(&root, name).is_err(), "{name}");
        }
        fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(
            take(&[volume(&root, "new")], &UserIds::default()).unwrap_err().to_string().contains("chmod 700")
        );
    }
}
