//! Where words lead in a partition, those of its program and those of a command that is run beside it: from its `workdir`, by its
//! `PATH`, and which files of this host's it is shown there. What the guest makes itself, or has changed of its tree in a layer of its
//! own, is no file of this host's.
//!
//! ```text
//!  word ─► below `workdir` ─► links followed as they are there ─► deepest of `rw`, volumes, `bind`, the tree ─► a file of this host's
//! ```

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use model::partition::{Files, Program};
use partition::run::links::{self, PathPart};
use partition::run::{find_program, path_of, root_of};
use platforms::vm::system_view::SystemView;

/// What the guest makes, whatever the tree has there.
const OF_THE_GUEST: [&str; 4] = ["/proc", "/sys", "/dev", "/run/secrets"];

/// What a partition's program is shown.
pub struct Within {
    workdir: PathBuf,
    /// Folders of its `PATH`.
    path: Vec<PathBuf>,
    /// What of the host's tree it sees, unless that is all.
    view: Option<SystemView>,
    /// Places in the partition, without links, the root first; and what of this host is there, if anything is.
    places: Vec<(PathBuf, Option<PathBuf>)>,
}

impl Within {
    /// As a program is shown it.
    pub fn of(program: &Program) -> Self {
        let root = (program.files != Files::None).then(|| root_of(program).to_owned());
        let places = std::iter::once((PathBuf::from("/"), root))
            .chain(OF_THE_GUEST.map(|at| (PathBuf::from(at), None)))
            .collect();
        let path = path_of(program).split(|byte| *byte == b':');
        let path = path.map(|one| PathBuf::from(OsStr::from_bytes(one))).collect();
        let view = (program.files == Files::System).then(|| SystemView {
            named: program.readable.iter().filter_map(|path| fs::canonicalize(path).ok()).collect(),
            ..SystemView::default()
        });
        let mut within = Self { workdir: program.workdir.clone(), path, view, places };
        for (at, from) in opened(program) {
            let at = within.without_links(&at).unwrap_or(at);
            within.places.push((at, Some(from)));
        }
        within
    }

    /// Files of this host that a command's words name there: its program, where it is found, and others. They need not be there.
    pub fn named_by(&self, words: &[String]) -> Vec<PathBuf> {
        let program = words.first().filter(|word| !word.contains('/'));
        let found = program.and_then(|name| {
            let mut files = self.path.iter().filter_map(|folder| self.file(&folder.join(name)));
            files.find(|file| file.is_file())
        });
        let rest = words.iter().skip(usize::from(program.is_some()));
        found.into_iter().chain(rest.filter_map(|word| self.file(Path::new(word)))).collect()
    }

    /// The file of this host that is seen under this path, which may be relative.
    pub fn file(&self, path: &Path) -> Option<PathBuf> {
        let at = self.without_links(&self.workdir.join(path))?;
        let is_shown = self.view.as_ref().is_none_or(|view| view.shows(&at));
        let is_opened = || self.places.iter().skip(1).any(|(place, _)| at.starts_with(place));
        self.of_host(&at).filter(|_| is_shown || is_opened())
    }

    /// What of this host is at a path without links.
    fn of_host(&self, at: &Path) -> Option<PathBuf> {
        // What is shown later at the same place hides what was there.
        let places = self.places.iter().filter(|(place, _)| at.starts_with(place));
        let (place, from) = places.max_by_key(|(place, _)| place.components().count())?;
        let (from, rest) = (from.as_ref()?, at.strip_prefix(place).ok()?);
        // A slash behind a file's name would make it a folder's.
        Some(if rest.as_os_str().is_empty() { from.clone() } else { from.join(rest) })
    }

    /// Where an absolute path leads there, also where nothing is yet. None where links lead in a circle.
    fn without_links(&self, path: &Path) -> Option<PathBuf> {
        links::follow(path, |at| {
            let target = self.of_host(at).and_then(|host| fs::read_link(host).ok());
            Some(target.map_or(PathPart::Other, PathPart::Link))
        })
    }
}

/// What is put into its tree, as it is put there: where, and what of this host. What lies above comes first.
fn opened(program: &Program) -> Vec<(PathBuf, PathBuf)> {
    let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    // Of no tree there is the program alone.
    let alone = if program.files == Files::None { find_program(program).ok().flatten() } else { None };
    let alone = alone.map(|found| (found.inside, real(&found.host)));
    let written = program.writable.iter().map(|path| (path.clone(), real(path)));
    let volumes = program.volumes.iter().map(|volume| (volume.at.clone(), real(&volume.files())));
    let binds = program.binds.iter().map(|bind| (bind.to.clone(), real(&bind.from)));
    let mut all: Vec<(PathBuf, PathBuf)> =
        alone.into_iter().chain(written).chain(volumes).chain(binds).collect();
    all.sort_by_key(|(at, _)| at.components().count());
    all
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use model::partition::{Bind, Volume};

    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn a_path_there_is_the_file_that_is_shown_there() {
        let folder = tempfile::tempdir().unwrap();
        let host = fs::canonicalize(folder.path()).unwrap();
        for name in ["tree/bin", "tree/srv/bound", "tree/dev", "own/deep", "volumes/data/files"] {
            fs::create_dir_all(host.join(name)).unwrap();
        }
        for name in ["tree/bin/tool", "tree/dev/x", "own/deep/a", "volumes/data/files/b", "bound"] {
            fs::write(host.join(name), name).unwrap();
        }
        symlink("/own/deep", host.join("tree/srv/link")).unwrap();
        symlink("circle", host.join("tree/srv/circle")).unwrap();
        symlink(host.join("own"), host.join("own-link")).unwrap();
        let program = Program {
            files: Files::Tree(host.join("tree")),
            workdir: "/srv".into(),
            env: vec![(b"PATH".to_vec(), b"/nowhere:/bin".to_vec())],
            binds: vec![
                Bind { from: host.join("bound"), to: "/srv/one".into() },
                Bind { from: host.join("own-link"), to: "/own".into() },
            ],
            volumes: vec![Volume {
                name: "data".into(),
                from: host.join("volumes/data"),
                at: "/var/lib/db".into(),
            }],
            ..Program::default()
        };
        let within = Within::of(&program);
        let found = |all: &[&str]| within.named_by(&words(all));
        let one = |word: &str| within.file(Path::new(word));
        assert_eq!(found(&["tool", "link/a"]), [host.join("tree/bin/tool"), host.join("own/deep/a")]);
        assert_eq!(one("../var/./lib/db/b"), Some(host.join("volumes/data/files/b")));
        assert_eq!(one("one"), Some(host.join("bound")), "a file alone");
        assert_eq!(one("/own/deep/../deep/a"), Some(host.join("own/deep/a")));
        assert_eq!((one("circle"), one("/dev/x")), (None, None), "the guest has a /dev of its own");
    }

    #[test]
    fn what_is_not_shown_of_the_host_is_not_found_there() {
        let folder = tempfile::tempdir().unwrap();
        let host = fs::canonicalize(folder.path()).unwrap();
        for name in ["read", "write", "hidden"] {
            fs::create_dir(host.join(name)).unwrap();
            fs::write(host.join(name).join("a"), name).unwrap();
        }
        symlink("write", host.join("link")).unwrap();
        let program = Program {
            workdir: host.join("link"),
            readable: vec![host.join("read")],
            writable: vec![host.join("link")],
            ..Program::default()
        };
        let within = Within::of(&program);
        let one = |word: &str| within.file(Path::new(word));
        assert_eq!(one("a"), Some(host.join("write/a")));
        assert_eq!(one("../read/a"), Some(host.join("read/a")));
        assert_eq!(one("../hidden/a"), None);
        let shell = within.named_by(&words(&["sh"]));
        assert_eq!(shell, [fs::canonicalize("/bin/sh").unwrap()], "by PATH");
    }
}
