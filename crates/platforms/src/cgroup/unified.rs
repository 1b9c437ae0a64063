//! Version 2: where it is mounted, and where a group can be made whose controllers hold what is wanted.
//!
//! Version 2 allows processes only in leaves, so a group is made beside this program's own one, where controllers are handed down.
//! Those that are handed down from the root for a group stay so: other groups may use them by then. Source: the kernel's
//! `Documentation/admin-guide/cgroup-v2.rst`.

use std::fs;
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};

use super::of_process::Places;

/// Where version 2 is mounted: alone, or beside version 1.
pub(super) fn mount_point(mount: &Path) -> Option<PathBuf> {
    [mount.to_owned(), mount.join("unified")]
        .into_iter()
        .find(|path| path.join("cgroup.controllers").exists())
}

fn names(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.split_whitespace().map(ToOwned::to_owned).collect()
}

/// The folder in which a group is made for the process whose `/proc/PID/cgroup` this is, and which of the wanted controllers its
/// groups have; `mount` is where both versions are. From the process's own group upwards the first that hands most of them down; the
/// root hands down what it can when `enable` is set, and is taken to be able to otherwise.
pub fn unified_parent(
    mount: &Path,
    own: &str,
    wanted: &[&'static str],
    enable: bool,
) -> Option<(PathBuf, Vec<&'static str>)> {
    let mount = &mount_point(mount)?;
    let start = mount.join(Places::of(own).unified?);
    let mut best: Option<(PathBuf, Vec<&'static str>)> = None;
    for folder in start.ancestors().take(64).filter(|folder| folder.starts_with(mount) && folder.is_dir()) {
        let mut usable = handed_down(folder, wanted);
        if folder == mount && usable.len() < wanted.len() {
            usable = at_the_root(mount, wanted, enable);
        }
        let may_write = access(folder, AccessFlags::W_OK | AccessFlags::X_OK).is_ok();
        if may_write && best.as_ref().is_none_or(|(_, have)| usable.len() > have.len()) {
            best = Some((folder.to_owned(), usable));
        }
    }
    best.filter(|(_, usable)| !usable.is_empty())
}

fn handed_down(folder: &Path, wanted: &[&'static str]) -> Vec<&'static str> {
    let have = names(&folder.join("cgroup.subtree_control"));
    wanted.iter().copied().filter(|name| have.iter().any(|one| one == name)).collect()
}

/// The root may hold processes and hand controllers down at once; service managers do the same.
fn at_the_root(mount: &Path, wanted: &[&'static str], enable: bool) -> Vec<&'static str> {
    let file = mount.join("cgroup.subtree_control");
    let there = names(&mount.join("cgroup.controllers"));
    let can = |name: &&'static str| there.iter().any(|one| one == name);
    if !enable {
        let may_write = access(&file, AccessFlags::W_OK).is_ok();
        let already = handed_down(mount, wanted);
        return wanted
            .iter()
            .copied()
            .filter(|name| already.contains(name) || (may_write && can(name)))
            .collect();
    }
    for name in wanted.iter().filter(|name| can(name)) {
        // Each by itself: one that cannot be had must not keep the others away. What holds is read afterwards.
        let _ = fs::write(&file, format!("+{name}"));
    }
    handed_down(mount, wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(folder: &Path, subtree: &str) {
        fs::create_dir_all(folder).unwrap();
        fs::write(folder.join("cgroup.controllers"), "cpuset cpu io memory\n").unwrap();
        fs::write(folder.join("cgroup.subtree_control"), subtree).unwrap();
    }

    #[test]
    fn the_parent_is_the_nearest_group_that_hands_most_down() {
        let folder = tempfile::tempdir().unwrap();
        let mount = folder.path();
        let found = |own: &str, wanted: &[&'static str]| unified_parent(mount, own, wanted, false);
        assert_eq!(found("0::/\n", &["cpu"]), None, "it is not mounted");
        put(mount, "memory\n");
        put(&mount.join("a"), "cpu memory\n");
        put(&mount.join("a/b"), "");
        assert_eq!(mount_point(mount).unwrap(), mount);
        assert_eq!(found("0::/a/b\n", &["cpu", "memory"]), Some((mount.join("a"), vec!["cpu", "memory"])));
        let all = ["cpuset", "cpu", "memory"];
        assert_eq!(
            found("0::/a/b\n", &all),
            Some((mount.to_owned(), all.to_vec())),
            "the root can hand all down"
        );
        assert_eq!(found("0::/\n", &["hugetlb"]), None);
        assert_eq!(found("0::/../x\n", &["cpu"]), None);
        assert_eq!(found("1:cpu:/\n", &["cpu"]), None);
    }
}
