//! What a program sees of its host unless it is told otherwise: which folders besides the system's own, and with which links on
//! the way to them.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use super::Failed;
use super::links::{self, PathPart};
use crate::users;
use model::partition::{Files, Program};
use platforms::vm::system_view::SystemView;
use units::Reason;

/// Folders that hold what belongs to everybody, or to the system: never shown for the only reason that somebody works there.
const SHARED_FOLDERS: [&str; 15] = [
    "/", "/boot", "/dev", "/dev/shm", "/home", "/media", "/mnt", "/proc", "/root", "/run", "/srv", "/sys",
    "/tmp", "/var", "/var/tmp",
];

/// The view of a program that sees the system; none of one that sees another tree.
///
/// # Errors
/// A folder that was named is not there.
pub fn of(program: &Program) -> Result<Option<SystemView>, Failed> {
    if program.files != Files::System {
        return Ok(None);
    }
    let mut view = SystemView::default();
    for path in &program.readable {
        let real = follow(path, &mut view.links).ok_or_else(|| missing(path))?;
        view.named.push(real);
    }
    // Those above first: what lies below is in them already.
    view.named.sort();
    view.named.dedup_by(|later, first| later.starts_with(first));
    for path in &program.writable {
        follow(path, &mut view.links);
    }
    let home = program.env.iter().find(|(name, _)| name == b"HOME").map(|(_, home)| home.as_slice());
    let home = home.map(|home| PathBuf::from(std::ffi::OsStr::from_bytes(home)));
    for folder in home.iter().chain([&program.workdir]).filter(|folder| folder.is_absolute()) {
        let real = follow(folder, &mut view.links).unwrap_or_else(|| folder.clone());
        let plain = !real.components().any(|part| part == Component::ParentDir);
        if plain && !view.shows(&real) {
            view.folders.push(real);
        }
    }
    Ok(Some(view))
}

/// Whether a path that is to be shown leads somewhere.
pub fn is_there(path: &Path) -> bool {
    follow(path, &mut Vec::new()).is_some()
}

/// A path that is to be shown leads nowhere.
pub fn missing(path: &Path) -> Failed {
    Failed::own(format!("{}, which was to be shown, is not there", path.display()))
}

/// Whether the folder that a program starts in is shown to it without being named; else why not.
///
/// # Errors
/// Why not, in words for the user.
pub fn shown_unasked(folder: &Path) -> Result<(), Reason> {
    let Ok(real) = fs::canonicalize(folder) else { return Ok(()) };
    // Below /etc, too, lie keys that only root reads.
    let shared = real.starts_with("/etc") || SHARED_FOLDERS.iter().any(|shared| real == Path::new(shared));
    let is_home = users::homes().iter().any(|home| home.starts_with(&real));
    if !shared && !is_home {
        return Ok(());
    }
    let what = if is_home && !shared { "holds somebody's home" } else { "holds what is everybody's" };
    let shown = folder.display();
    Err(format!("{shown} {what}, so it is not shown to the program unless it is named: --ro {shown}").into())
}

/// The program's own file, where it is named by its path and not looked for: who names it means to show it.
pub fn named_by_path(name: &Path, workdir: &Path) -> Option<PathBuf> {
    let path = workdir.join(name);
    (name.as_os_str().as_bytes().contains(&b'/') && path.is_file()).then_some(path)
}

/// Whether the program can be seen, whose path there and on the host this is. `Err` with what would show it.
///
/// # Errors
/// The folder to be named.
pub fn sees(view: &SystemView, program: &Program, inside: &Path, host: &Path) -> Result<(), PathBuf> {
    let opened = |path: &Path| {
        program
            .writable
            .iter()
            .filter_map(|opened| fs::canonicalize(opened).ok())
            .any(|opened| path.starts_with(opened))
    };
    // A link must be seen itself, not only what it leads to.
    let is_link = fs::symlink_metadata(inside).is_ok_and(|meta| meta.is_symlink());
    let folder = inside.parent().filter(|_| is_link).and_then(|folder| fs::canonicalize(folder).ok());
    for path in folder.iter().map(PathBuf::as_path).chain([host]) {
        if !view.shows(path) && !opened(path) {
            return Err(if path == host {
                host.parent().unwrap_or(host).to_owned()
            } else {
                path.to_owned()
            });
        }
    }
    Ok(())
}

/// Where a path leads; links on the way are noted. None when it leads nowhere.
fn follow(path: &Path, links: &mut Vec<(PathBuf, PathBuf)>) -> Option<PathBuf> {
    links::follow(path, |at| {
        let part = links::on_host(at)?;
        if let PathPart::Link(target) = &part {
            let link = (target.clone(), at.to_owned());
            if !links.contains(&link) {
                links.push(link);
            }
        }
        Some(part)
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_on_the_way_are_noted() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        fs::create_dir_all(top.join("real/sub")).unwrap();
        symlink("real", top.join("a")).unwrap();
        symlink(top.join("a/sub"), top.join("b")).unwrap();
        let mut links = Vec::new();
        assert_eq!(follow(&top.join("b"), &mut links), Some(top.join("real/sub")));
        assert_eq!(links, [(top.join("a/sub"), top.join("b")), ("real".into(), top.join("a"))]);
        assert_eq!(follow(&top.join("none"), &mut links), None);
    }

    #[test]
    fn homes_and_everybodys_folders_are_not_shown_unasked() {
        for folder in ["/", "/root", "/home", "/tmp", "/etc"] {
            assert!(shown_unasked(Path::new(folder)).unwrap_err().to_string().contains("--ro"), "{folder}");
        }
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(shown_unasked(folder.path()), Ok(()));
    }

    #[test]
    fn folders_within_others_are_named_once() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        fs::create_dir(top.join("in")).unwrap();
        let program = Program {
            readable: vec![top.join("in"), top.clone()],
            workdir: "/nowhere/x".into(),
            ..Program::default()
        };
        let view = of(&program).unwrap().unwrap();
        assert_eq!(view.named, std::slice::from_ref(&top));
        assert_eq!(view.folders, [PathBuf::from("/nowhere/x")]);
        assert_eq!(sees(&view, &program, &top.join("in/x"), &top.join("in/x")), Ok(()));
        assert_eq!(sees(&view, &program, Path::new("/root/x"), Path::new("/root/x")), Err("/root".into()));
    }
}
