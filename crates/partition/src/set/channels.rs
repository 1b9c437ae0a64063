//! The memory of a set's channels: one file each, made before any partition starts, gone with the set.
//!
//! ```text
//!  ROOT/plant/c/frames                    where the state folder is memory itself
//!  ROOT/plant/c ─► /dev/shm/bulkhead-…    where it is not: the link is there before the folder, so that whoever undoes
//!                   ├─ frames             the set finds it; `.of` leads back
//!                   └─ .of ─► ROOT/plant
//! ```

use std::collections::BTreeSet;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use nix::sys::statfs::{TMPFS_MAGIC, statfs};

use super::{folder, root};
use crate::run;
use crate::section_folder::make_file;
use model::partition::SectionSpec;
use model::partition::set::UnitSpec;
use platforms::own_folder::remove_ours;
use platforms::sweep::{OUR_PREFIX, SHARED_MEMORY};

/// Folder of the files in that of the set.
pub const FOLDER: &str = "c";
/// Link from there to the set. No channel is called so: their names begin with a letter or a digit.
const BACK: &str = ".of";

/// Makes the files that these sections want; what is there and fits stays, because peers have it mapped, and what nobody
/// wants goes.
///
/// # Errors
/// There is no room, or what is there is not ours.
pub fn make<'a>(set: &Path, wanted: impl Iterator<Item = &'a SectionSpec>) -> io::Result<()> {
    let wanted: Vec<&SectionSpec> = wanted.collect();
    if wanted.is_empty() {
        return remove(set);
    }
    make_folder(set)?;
    let names: BTreeSet<&str> = wanted.iter().map(|section| section.name.as_str()).collect();
    remove_others(set, &names)?;
    for section in wanted {
        if run::check_file(section).is_err() {
            make_file(&section.path, section.size_mib).map_err(|error| told(section, &error))?;
        }
    }
    Ok(())
}

fn told(section: &SectionSpec, error: &io::Error) -> io::Error {
    let (name, size) = (&section.name, section.size_mib.to_bytes());
    let at = section.path.parent().map(|folder| fs::canonicalize(folder).unwrap_or(folder.to_owned()));
    let at = at.unwrap_or_default();
    let advice = match error.kind() {
        ErrorKind::StorageFull => {
            "; make that file system larger (mount -o remount,size=…), or the channel smaller"
        }
        _ => "",
    };
    io::Error::new(error.kind(), format!("channel {name}, {size} in {}: {error}{advice}", at.display()))
}

/// Removes what no partition that is kept has.
///
/// # Errors
/// Something cannot be removed.
pub fn sweep(set: &Path) -> io::Result<()> {
    let units = folder::kept(set).into_iter().filter_map(|kept| folder::read_unit(&set.join(kept)));
    let sections = units.flat_map(|unit| match unit {
        UnitSpec::Partition(unit) => unit.spec.sections,
        UnitSpec::Switch(_) => Vec::new(),
    });
    let names: BTreeSet<String> = sections.map(|section| section.name).collect();
    if names.is_empty() {
        return remove(set);
    }
    remove_others(set, &names.iter().map(String::as_str).collect())
}

/// Removes everything.
///
/// # Errors
/// Something cannot be removed.
pub fn remove(set: &Path) -> io::Result<()> {
    let at = set.join(FOLDER);
    match fs::symlink_metadata(&at) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(found) if found.is_dir() => root::check_private(set)?.remove(Path::new(FOLDER)).map(drop),
        Ok(_) => {
            // Where the link leads was checked when the folder was made; it is checked again, as it is to be removed.
            let there = fs::read_link(&at)?;
            match (root::check_private(&there), there.file_name()) {
                (Ok(_), Some(name)) if is_our_name(&there) => {
                    remove_ours(Path::new(SHARED_MEMORY), name)?;
                }
                (Err(error), _) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            fs::remove_file(&at)
        }
    }
}

fn is_our_name(folder: &Path) -> bool {
    let name = folder.file_name().map(|name| name.to_string_lossy().starts_with(OUR_PREFIX));
    folder.parent() == Some(Path::new(SHARED_MEMORY)) && name == Some(true)
}

fn make_folder(set: &Path) -> io::Result<()> {
    let at = set.join(FOLDER);
    if fs::symlink_metadata(&at).is_ok_and(|found| found.is_dir()) {
        return root::check_private(&at).map(drop);
    }
    if statfs(set).is_ok_and(|found| found.filesystem_type() == TMPFS_MAGIC) {
        return root::make_private(&at).map(drop);
    }
    let leads_here = |there: &Path| fs::read_link(there.join(BACK)).is_ok_and(|back| back == set);
    if let Ok(there) = fs::read_link(&at)
        && is_our_name(&there)
        && leads_here(&there)
    {
        return root::check_private(&there).map(drop);
    }
    // Left by a set whose folder somebody removed by hand.
    for entry in fs::read_dir(SHARED_MEMORY)?.flatten() {
        let there = entry.path();
        if is_our_name(&there) && leads_here(&there) && root::check_private(&there).is_ok() {
            remove_ours(Path::new(SHARED_MEMORY), &entry.file_name())?;
        }
    }
    // Nobody can foretell it, so nobody can be there first.
    let name = format!("{OUR_PREFIX}{:016x}", RandomState::new().hash_one(std::process::id()));
    let there = PathBuf::from(SHARED_MEMORY).join(name);
    match fs::remove_file(&at) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => symlink(&there, &at)?,
    }
    root::make_private(&there)?;
    symlink(set, there.join(BACK))
}

fn remove_others(set: &Path, names: &BTreeSet<&str>) -> io::Result<()> {
    let entries = match fs::read_dir(set.join(FOLDER)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        if name != BACK && !name.to_str().is_some_and(|name| names.contains(name)) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;
    use units::Mebibytes;

    fn section(set: &Path, name: &str, mib: u64) -> SectionSpec {
        let (path, size) = (set.join(FOLDER).join(name), Mebibytes::from_mib(mib));
        SectionSpec { name: name.to_owned(), path, size_mib: size, writable: true }
    }

    fn bench(parent: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir_in(parent).expect("a directory");
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).expect("ours");
        dir
    }

    #[test]
    fn what_fits_stays_and_what_does_not_is_made_anew_wherever_the_set_is() {
        // One is memory, the other usually is not.
        for parent in [SHARED_MEMORY, "/var/tmp"] {
            let dir = bench(parent);
            let set = dir.path();
            let (a, b) = (section(set, "a", 1), section(set, "b", 2));
            make(set, [&a, &b].into_iter()).expect("made");
            let there = fs::canonicalize(set.join(FOLDER)).expect("a folder");
            assert!(there.starts_with(SHARED_MEMORY), "{}", there.display());
            let inode = |section: &SectionSpec| fs::metadata(&section.path).expect("a file").ino();
            let before = (inode(&a), inode(&b));
            fs::File::options().write(true).open(&b.path).expect("open").set_len(100).expect("cut");
            make(set, [&a, &b].into_iter()).expect("made");
            assert_eq!((inode(&a), run::check_file(&b)), (before.0, Ok(())));
            assert_eq!(fs::metadata(&b.path).expect("a file").blocks(), 2 * 2048, "all of it is there");
            make(set, [&a].into_iter()).expect("made");
            assert!(!b.path.exists() && inode(&a) == before.0);
            make(set, [].into_iter()).expect("removed");
            assert!(!there.exists() && fs::symlink_metadata(set.join(FOLDER)).is_err());
        }
    }

    #[test]
    fn what_a_dead_one_left_is_not_taken_over() {
        let dir = bench("/var/tmp");
        let set = dir.path();
        let a = section(set, "a", 1);
        make(set, [&a].into_iter()).expect("made");
        let there = fs::canonicalize(set.join(FOLDER)).expect("a folder");
        let before = fs::metadata(&a.path).expect("a file").ino();
        if there.parent() == Some(Path::new(SHARED_MEMORY)) {
            fs::remove_file(set.join(FOLDER)).expect("removed");
            make(set, [&a].into_iter()).expect("made");
            let anew = fs::canonicalize(set.join(FOLDER)).expect("a folder");
            assert!(!there.exists() && anew != there, "what was left is gone, and no name is used twice");
            assert!(fs::metadata(&a.path).expect("a file").ino() != before);
            assert_eq!(fs::read_link(anew.join(BACK)).expect("a link"), set);
        }
        let there = fs::canonicalize(set.join(FOLDER)).expect("a folder");
        sweep(set).expect("nobody has it");
        assert!(!there.exists());
        // What is not ours is neither used nor removed.
        let other = bench(SHARED_MEMORY);
        symlink(other.path(), set.join(FOLDER)).expect("a link");
        remove(set).expect("the link");
        assert!(other.path().exists() && fs::symlink_metadata(set.join(FOLDER)).is_err());
    }

    #[test]
    fn no_room_is_said_with_the_name() {
        let dir = bench(SHARED_MEMORY);
        let huge = section(dir.path(), "huge", 1 << 24);
        let error = make(dir.path(), [&huge].into_iter()).expect_err("16 TiB").to_string();
        assert!(
            error.contains("channel huge") && error.contains("remount") && !huge.path.exists(),
            "{error}"
        );
    }
}
