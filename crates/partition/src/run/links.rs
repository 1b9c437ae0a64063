//! Where a path leads once its symbolic links are followed, in a tree that need not be this host's root.

use std::fs;
use std::path::{Component, Path, PathBuf};

/// Most symbolic links followed on the way, as Linux has it.
const MOST_LINKS: usize = 40;

/// What is at a part of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathPart {
    /// A symbolic link, and where it leads.
    Link(PathBuf),
    /// Anything else.
    Other,
}

/// Where an absolute path leads; `at` says what each part of it is, by its path without links, or that the path leads nowhere. None then,
/// and where links lead in a circle.
pub fn follow(path: &Path, mut at: impl FnMut(&Path) -> Option<PathPart>) -> Option<PathBuf> {
    let mut left = vec![path.to_owned()];
    let mut reached = PathBuf::from("/");
    let mut links = 0;
    while let Some(path) = left.pop() {
        let mut parts = path.components();
        let Some(part) = parts.next() else { continue };
        left.push(parts.as_path().to_owned());
        match part {
            Component::RootDir | Component::Prefix(_) => reached = PathBuf::from("/"),
            Component::CurDir => {}
            Component::ParentDir => drop(reached.pop()),
            Component::Normal(name) => {
                let next = reached.join(name);
                match at(&next)? {
                    PathPart::Link(_) if links == MOST_LINKS => return None,
                    PathPart::Link(target) => {
                        links += 1;
                        left.push(target);
                    }
                    PathPart::Other => reached = next,
                }
            }
        }
    }
    Some(reached)
}

/// What is at a path of this host; none where nothing is.
pub fn on_host(path: &Path) -> Option<PathPart> {
    if fs::symlink_metadata(path).ok()?.is_symlink() {
        return fs::read_link(path).ok().map(PathPart::Link);
    }
    Some(PathPart::Other)
}
