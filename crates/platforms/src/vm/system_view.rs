//! What a program walled off sees of its host unless it is told otherwise: programs and libraries, `/etc` as everybody may read
//! it, the folders that were named. Everything else is not there.

use std::path::{Path, PathBuf};

use super::enclosure::{OTHER_STORES, PROGRAM_FOLDERS, show_or_link};
use crate::wall::{Order, Rights};

/// Shown as everybody may read them, root included: they may hold secrets of root's.
const PUBLIC_FOLDERS: [&str; 3] = ["/etc", "/opt", "/usr/local"];
/// There, and empty: programs expect them.
const EMPTY_FOLDERS: [&str; 16] = [
    "/dev",
    "/home",
    "/media",
    "/mnt",
    "/proc",
    "/root",
    "/run",
    "/srv",
    "/sys",
    "/tmp",
    "/var/cache",
    "/var/lib",
    "/var/log",
    "/var/spool",
    "/var/tmp",
    "/boot",
];

/// Such a view.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SystemView {
    /// Folders and files of the host, without links in their paths, shown under their own paths, read-only.
    pub named: Vec<PathBuf>,
    /// Links of the host's on the way to them: what they say, and where.
    pub links: Vec<(PathBuf, PathBuf)>,
    /// Further empty folders.
    pub folders: Vec<PathBuf>,
}

impl SystemView {
    /// Puts it together below `root`.
    pub fn put(&self, root: &Path, order: &mut Order) {
        let below = |path: &Path| root.join(path.strip_prefix("/").unwrap_or(path));
        order.folders.extend(EMPTY_FOLDERS.iter().map(|folder| below(Path::new(folder))));
        order.folders.extend(self.folders.iter().map(|folder| below(folder)));
        order.links.extend(self.links.iter().map(|(target, at)| (target.clone(), below(at))));
        for folder in PROGRAM_FOLDERS.into_iter().chain(OTHER_STORES) {
            show_or_link(order, Path::new(folder), root, Rights::Read);
        }
        for folder in PUBLIC_FOLDERS {
            show_or_link(order, Path::new(folder), root, Rights::Public);
        }
        for path in self.named.iter().filter(|path| !is_program(path)) {
            order.show(path, below(path), Rights::Read);
        }
    }

    /// Whether a file of the host, without links in its path, is seen.
    pub fn shows(&self, path: &Path) -> bool {
        is_program(path)
            || PUBLIC_FOLDERS.iter().any(|folder| path.starts_with(folder))
            || self.named.iter().any(|named| path.starts_with(named))
    }
}

/// Whether it lies in what is shown as the caller may read it anyway.
fn is_program(path: &Path) -> bool {
    let public = PUBLIC_FOLDERS.iter().any(|folder| path.starts_with(folder));
    !public && PROGRAM_FOLDERS.iter().chain(&OTHER_STORES).any(|folder| path.starts_with(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_seen_and_homes_are_not() {
        let view = SystemView { named: vec!["/home/u/work".into()], ..SystemView::default() };
        let seen = |path: &str| view.shows(Path::new(path));
        assert!(seen("/usr/bin/true") && seen("/etc/passwd") && seen("/usr/local/bin/x"));
        assert!(seen("/home/u/work/a") && seen("/home/u/work"));
        assert!(!seen("/home/u") && !seen("/home/u/work2") && !seen("/root/.ssh/id") && !seen("/var/lib/x"));
    }

    #[test]
    fn a_folder_is_put_under_its_own_path() {
        let view =
            SystemView { named: vec!["/srv/data".into(), "/usr/share".into()], ..SystemView::default() };
        let mut order = Order::default();
        view.put(Path::new("/trees/0"), &mut order);
        let rights =
            |at: &str| order.shown.iter().find(|shown| shown.at == Path::new(at)).map(|shown| shown.rights);
        assert_eq!(rights("/trees/0/srv/data"), Some(Rights::Read));
        assert_eq!(rights("/trees/0/etc"), Some(Rights::Public));
        assert_eq!(rights("/trees/0/usr"), Some(Rights::Read));
        assert_eq!(rights("/trees/0/usr/share"), None, "it is there already");
        assert!(order.folders.contains(&PathBuf::from("/trees/0/var/tmp")));
    }
}
