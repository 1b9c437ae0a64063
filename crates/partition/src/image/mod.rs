//! Images of containers as roots of partitions: from a folder or a registry to a root and a program.
//!
//! ```text
//!  oci:NAME ─► `fetch`: skopeo ─► layout in the cache ─┐
//!  FOLDER[:NAME], a layout ────────────────────────────┴─► manifest of this machine ─► `trees`: unpacked once ─► Image
//!  FOLDER, anything else ──────────────────────────────────────────────────────────────────────────────────────► a root as it is
//! ```
//! An image is anybody's: what reads and unpacks it is the crate `images`, what is kept of it lies in a private folder of the
//! cache. Nothing of it is executed on the host.

mod fetch;
mod trees;

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

use images::{Config, Layout, Platform};
use nix::fcntl::OFlag;

use crate::users::{self, USUAL_PATH};
use model::partition::{Files, ImageRef, Program, Word};
use platforms::own_folder::OwnFolder;
use units::Reason;

/// How often it is tried whether somebody else has done with an image.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// With what images are made ready.
pub struct Around<'a> {
    /// Cache folder.
    pub cache: &'a Path,
    /// Whether anybody still waits for it.
    pub is_wanted: &'a dyn Fn() -> bool,
    /// What takes long is told.
    pub tell: &'a mut dyn FnMut(&str),
}

/// What is there for a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ready {
    /// A root as it is.
    Root(PathBuf),
    /// An image's root, which says what runs in it.
    Image(Box<Image>),
}

/// An image that is unpacked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    root: PathBuf,
    /// Of its manifest.
    digest: String,
    config: Config,
}

/// What the caller says of a program; it counts before what the image says.
#[derive(Debug, Clone, Default)]
pub struct Overrides<'a> {
    /// Instead of the image's arguments.
    pub words: Vec<Word>,
    /// Variables that come before the image's.
    pub beneath: Vec<(Word, Word)>,
    /// Variables that come after the image's.
    pub env: Vec<(Word, Word)>,
    /// Whether the image's own variables are left out.
    pub without_own_env: bool,
    /// Folder to start in.
    pub workdir: Option<&'a Path>,
    /// Who runs it, by the image's names.
    pub user: Option<&'a str>,
}

/// Makes an image ready, once.
///
/// # Errors
/// It is not there, cannot be fetched, is not what its digests say, or holds what is not taken.
pub fn ready(wanted: &ImageRef, around: &mut Around<'_>) -> Result<Ready, Reason> {
    let (folder, name) = match wanted {
        ImageRef::Registry(name) => (fetch::layout_of(name, around)?, None),
        ImageRef::Folder(path) => parted(path)?,
    };
    if !Layout::is_one(&folder) {
        return Ok(Ready::Root(folder));
    }
    let failed = |error: images::ImageError| format!("{wanted}: {error}");
    let layout = Layout::open(&folder).map_err(failed)?;
    let chosen = layout.choose(name.as_deref(), &Platform::own()).map_err(failed)?;
    let root = trees::tree_of(wanted, &layout, &chosen, around)?;
    let digest = chosen.digest.to_string();
    Ok(Ready::Image(Box::new(Image { root, digest, config: chosen.config })))
}

/// Folder, and the name of an image in it, if there is one behind a colon.
fn parted(path: &Path) -> Result<(PathBuf, Option<String>), Reason> {
    let shown = path.display();
    if path.is_dir() {
        return Ok((path.to_owned(), None));
    }
    let text = path.to_str().unwrap_or_default();
    for (at, _) in text.match_indices(':') {
        let (folder, name) = text.split_at(at);
        if Layout::is_one(Path::new(folder)) {
            return Ok((PathBuf::from(folder), Some(name.trim_start_matches(':').to_owned())));
        }
    }
    Err(if path.is_file() {
        format!(
            "{shown}: a folder was wanted, this is a file; unpack what docker save wrote: mkdir DIR && tar -C DIR -xf {shown}"
        ).into()
    } else {
        format!("{shown}: there is no such folder; a name at a registry begins with oci:").into()
    })
}

impl Image {
    /// The program that it and the caller say.
    ///
    /// # Errors
    /// It names none, or a user that it does not have.
    pub fn program(&self, overrides: Overrides<'_>) -> Result<Program, Reason> {
        let argv = self.config.command(&overrides.words);
        if argv.is_empty() {
            return Err("the image names no program, so one must be given".into());
        }
        let named = overrides.user.or_else(|| self.config.user()).unwrap_or("0");
        let found = users::find_in(&self.root, named)?;
        let bytes = |text: &str| text.as_bytes().to_vec();
        let usual = [("PATH", USUAL_PATH), ("HOME", found.home.as_str())]
            .map(|(name, value)| (bytes(name), bytes(value)));
        let own = self.config.variables().map(|(name, value)| (bytes(name), bytes(value)));
        let own: Vec<(Word, Word)> =
            usual.into_iter().chain(own).filter(|_| !overrides.without_own_env).collect();
        let mut env: Vec<(Word, Word)> = Vec::new();
        for (name, value) in overrides.beneath.into_iter().chain(own).chain(overrides.env) {
            env.retain(|(known, _)| *known != name);
            env.push((name, value));
        }
        let own = self.config.workdir().unwrap_or_default();
        let workdir = overrides.workdir.unwrap_or(Path::new(&own));
        Ok(Program {
            argv,
            env,
            workdir: Path::new("/").join(workdir),
            user: found.ids,
            files: Files::Tree(self.root.clone()),
            image: Some(self.digest.clone()),
            ..Program::default()
        })
    }
}

/// A private folder of the cache.
fn own_folder(cache: &Path, name: &str) -> Result<OwnFolder, Reason> {
    let images = cache.join("images");
    let made = OwnFolder::make_private(&images).and_then(|_| OwnFolder::make_private(&images.join(name)));
    made.map_err(|error| format!("images are kept in the cache folder: {error}").into())
}

/// Holds what belongs to one image, until it is dropped: two at once would unpack it into each other.
fn hold(folder: &OwnFolder, name: &str, around: &mut Around<'_>) -> Result<File, Reason> {
    let failed = |error: std::io::Error| format!("{name} in {}: {error}", folder.path().display());
    let lock = folder.file(&format!("{name}.lock"), OFlag::O_CREAT | OFlag::O_RDWR).map_err(failed)?;
    let mut is_told = false;
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(lock),
            Err(TryLockError::WouldBlock) if !(around.is_wanted)() => {
                return Err("interrupted".into());
            }
            Err(TryLockError::WouldBlock) => {
                if !is_told {
                    (around.tell)("waiting for another bulkhead that makes the same image ready");
                    is_told = true;
                }
                std::thread::sleep(LOOK_EVERY);
            }
            Err(TryLockError::Error(error)) => return Err(failed(error).into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_name_stands_behind_a_layout_and_an_archive_is_told_from_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let (plain, layout) = (folder.path().join("a:b"), folder.path().join("c:d"));
        for folder in [&plain, &layout] {
            fs::create_dir(folder).unwrap();
        }
        fs::write(layout.join("oci-layout"), "").unwrap();
        fs::write(folder.path().join("x.tar"), "").unwrap();
        assert_eq!(parted(&plain), Ok((plain.clone(), None)));
        let named = format!("{}:docker.io/x:1.2", layout.display());
        assert_eq!(parted(Path::new(&named)), Ok((layout, Some("docker.io/x:1.2".to_owned()))));
        assert!(parted(&folder.path().join("x.tar")).unwrap_err().to_string().contains("tar -C DIR"));
        assert!(parted(Path::new("/no/such:x")).unwrap_err().to_string().contains("oci:"));
    }

    #[test]
    fn what_the_caller_says_counts_before_the_image() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("etc")).unwrap();
        fs::write(root.path().join("etc/passwd"), "app:x:70:71::/srv/app:/bin/sh\n").unwrap();
        let text = r#"{"architecture":"a","os":"l","config":{"Entrypoint":["/e"],"Cmd":["c"],"Env":["A=1","B=2"],
            "WorkingDir":"w","User":"app"}}"#;
        let config = images::read_config(text.as_bytes()).unwrap();
        let image = Image { root: root.path().to_owned(), digest: "sha256:0".to_owned(), config };
        let value = |program: &Program, name: &str| {
            let found = program.env.iter().filter(|(known, _)| known == name.as_bytes());
            found.map(|(_, value)| String::from_utf8_lossy(value).into_owned()).collect::<Vec<_>>()
        };
        let own = image.program(Overrides::default()).unwrap();
        assert_eq!((own.user.uid, own.user.gid, own.workdir.as_path()), (70, 71, Path::new("/w")));
        assert_eq!(
            [value(&own, "A"), value(&own, "HOME"), value(&own, "PATH")].concat(),
            ["1", "/srv/app", USUAL_PATH]
        );
        assert_eq!(own.argv, [b"/e".to_vec(), b"c".to_vec()]);
        let pair = |name: &str, value: &str| (name.as_bytes().to_vec(), value.as_bytes().to_vec());
        let overrides = Overrides {
            words: vec![b"d".to_vec()],
            beneath: vec![pair("A", "host"), pair("C", "host")],
            env: vec![pair("B", "3")],
            workdir: Some(Path::new("/x")),
            user: Some("5:6"),
            ..Overrides::default()
        };
        let told = image.program(overrides).unwrap();
        assert_eq!((told.user.uid, told.user.gid, told.workdir.as_path()), (5, 6, Path::new("/x")));
        assert_eq!([value(&told, "A"), value(&told, "B"), value(&told, "C")].concat(), ["1", "3", "host"]);
        assert_eq!(told.argv, [b"/e".to_vec(), b"d".to_vec()]);
        let stranger = image.program(Overrides { user: Some("nobody-here"), ..Overrides::default() });
        assert!(stranger.unwrap_err().to_string().contains("the image's /etc/passwd"));
    }
}
