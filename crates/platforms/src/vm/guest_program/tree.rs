//! The program's file tree: the host's over virtio-fs or 9P with a layer on top, paths that are opened or bound, and what
//! every Linux program expects to find.
//!
//! ```text
//!  /dev /proc /sys           of this kernel
//!  --rw PATH                 the host's, written through; a single file: out of a tree that holds nothing else
//!  --bind FROM:TO            the host's, read-only
//!  overlay: tmpfs or disk    what the program changes, gone with the guest or saved (`layer`)
//!           read-only        the host's tree
//! ```
//! Over virtio-fs all trees are folders of one file system. virtio-fs: `virtiofs.rst`; 9P: the kernel's `Documentation/filesystems/9p.rst`; overlay: `overlayfs.rst`.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::unistd::{chdir, chroot};

use super::super::guest::{FILES_TAG, GuestProgram, GuestTree, PROGRAM_PATH, Root, SINGLE_FILE};
use super::super::pid1::in_context;
use super::{layer, names};
use model::partition::{Bind, Files};
use units::Reason;

/// Largest 9P message, in bytes: what virtio takes in one go.
const MESSAGE_BYTES: u32 = 512_000;
/// Where what is to be shown elsewhere is mounted for a moment.
const ASIDE: &str = "/dev/.opened";
/// Where the new root is put together.
const NEW: &str = "/new";

/// What comes of it.
pub struct Built {
    /// The saved layer, if there is one.
    pub saved: Option<File>,
    /// The folder of all trees of virtio-fs, if there are any.
    pub served: Option<File>,
}

/// Builds the tree and makes it the root. Nothing of the first file system is reachable afterwards.
pub fn build(program: &GuestProgram) -> Result<Built, Reason> {
    let saved = match &program.root {
        Root::Tree(tag) => layered(program, tag)?,
        Root::Alone(at) => alone(at).map(|()| None)?,
    };
    switch_root()?;
    if let Root::Alone(_) = &program.root {
        make_folder(&program.program.workdir, 0o755)?;
    }
    for (kind, target, options) in [
        ("proc", "/proc", None),
        ("sysfs", "/sys", None),
        ("devtmpfs", "/dev", None),
        ("devpts", "/dev/pts", Some("newinstance,ptmxmode=0666,mode=0620")),
        ("tmpfs", "/dev/shm", Some("mode=1777")),
    ] {
        make_folder(Path::new(target), 0o755)?;
        mount(Some(kind), target, Some(kind), MsFlags::empty(), options)
            .map_err(in_context(&format!("mounting {kind} at {target}")))?;
    }
    make_folder(Path::new("/tmp"), 0o1777)?;
    if program.program.files == Files::System {
        // They are made with the view, and are nobody's of the host.
        for folder in ["/tmp", "/var/tmp"] {
            fs::set_permissions(folder, fs::Permissions::from_mode(0o1777)).map_err(in_context(folder))?;
        }
    }
    for (name, target) in [("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")] {
        link_unless_there(&format!("/proc/self/fd{target}"), &format!("/dev/{name}"))?;
    }
    // Useful to what runs partitions itself; few need it.
    let _ = mount(Some("cgroup2"), "/sys/fs/cgroup", Some("cgroup2"), MsFlags::empty(), None::<&str>);
    // Before anything of the host's is mounted that may be written to: `--rw /etc` must not reach the host's own files.
    names::write(program.way_out, &program.names, &program.hostname, saved.is_some());
    let all = All::mount(program)?;
    for tree in &program.trees {
        if tree.is_file {
            show_file(program, tree)?;
        } else {
            make_folder(&tree.at, 0o755)?;
            mount_tree(program, &tree.tag, &tree.at, tree.writable)?;
        }
    }
    let served = all.unmount()?;
    program.inner_binds.iter().try_for_each(bind_inside)?;
    Ok(Built { saved, served })
}

/// The tree of the host with a layer on top, which comes of it where it is saved.
fn layered(program: &GuestProgram, tag: &str) -> Result<Option<File>, Reason> {
    make_folder(Path::new("/lower"), 0o755)?;
    let mut lower = PathBuf::from("/lower");
    if program.virtio_fs {
        mount_virtio_fs(&lower)?;
        lower.push(tag);
    } else {
        mount_9p(tag, &lower, false)?;
    }
    make_folder(Path::new(layer::AT), 0o755)?;
    let is_saved = program.program.layer.is_some();
    let saved = if is_saved { Some(layer::saved()?) } else { layer::in_memory().map(|()| None)? };
    let [upper, work] = ["upper", "work"].map(|name| Path::new(layer::AT).join(name));
    for folder in [&upper, &work, Path::new(NEW)] {
        make_folder(folder, 0o755)?;
    }
    let more = if is_saved { layer::OVERLAY } else { "" };
    let (lower, upper, work) = (lower.display(), upper.display(), work.display());
    let options = format!("lowerdir={lower},upperdir={upper},workdir={work}{more}");
    mount(Some("overlay"), NEW, Some("overlay"), MsFlags::empty(), Some(options.as_str()))
        .map_err(in_context("mounting the layer over the host's tree"))?;
    Ok(saved)
}

/// A root with the program's own file only.
fn alone(at: &Path) -> Result<(), Reason> {
    make_folder(Path::new(NEW), 0o755)?;
    mount(Some("tmpfs"), NEW, Some("tmpfs"), MsFlags::empty(), Some("mode=0755"))
        .map_err(in_context("mounting an empty root"))?;
    let inside = Path::new(NEW).join(at.strip_prefix("/").unwrap_or(at));
    if let Some(folder) = inside.parent() {
        make_folder(folder, 0o755)?;
    }
    File::create(&inside).map_err(in_context(&at.display().to_string()))?;
    mount(Some(PROGRAM_PATH), &inside, None::<&str>, MsFlags::MS_BIND, None::<&str>)
        .map_err(in_context("showing the program its own file"))
}

fn switch_root() -> Result<(), Reason> {
    let failed = || in_context::<nix::Error>("making the file tree the root");
    chdir(NEW).map_err(failed())?;
    mount(Some("."), "/", None::<&str>, MsFlags::MS_MOVE, None::<&str>).map_err(failed())?;
    chroot(".").map_err(failed())?;
    chdir("/").map_err(failed())
}

/// All trees of virtio-fs, aside while they are shown at their places.
struct All(Option<File>);

impl All {
    fn mount(program: &GuestProgram) -> Result<Self, Reason> {
        if !program.virtio_fs || program.trees.is_empty() {
            return Ok(Self(None));
        }
        make_folder(Path::new(ASIDE), 0o700)?;
        mount_virtio_fs(Path::new(ASIDE))?;
        read_ahead(Path::new(ASIDE));
        File::open(ASIDE).map(|folder| Self(Some(folder))).map_err(in_context(ASIDE))
    }

    /// What is open of it stays.
    fn unmount(self) -> Result<Option<File>, Reason> {
        if self.0.is_none() {
            return Ok(None);
        }
        umount2(ASIDE, MntFlags::MNT_DETACH)
            .map_err(in_context("putting the host's files in their places"))?;
        fs::remove_dir(ASIDE).map_err(in_context(ASIDE)).map(|()| self.0)
    }
}

fn mount_virtio_fs(at: &Path) -> Result<(), Reason> {
    mount(Some(FILES_TAG), at, Some("virtiofs"), MsFlags::empty(), None::<&str>)
        .map_err(in_context("mounting the host's files"))
}

/// Streams are read as far ahead as one request may ask for. Without it they are slower, no more.
fn read_ahead(at: &Path) {
    use std::os::unix::fs::MetadataExt;
    let Ok(device) = fs::metadata(at).map(|meta| meta.dev()) else { return };
    let (major, minor) = (nix::sys::stat::major(device), nix::sys::stat::minor(device));
    let _ = fs::write(format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb"), "1024");
}

/// Shows a tree at its place.
fn mount_tree(program: &GuestProgram, tag: &str, at: &Path, writable: bool) -> Result<(), Reason> {
    if !program.virtio_fs {
        return mount_9p(tag, at, writable);
    }
    bind(&Path::new(ASIDE).join(tag), at, writable)
        .map_err(in_context(&format!("showing the host's files at {}", at.display())))
}

fn bind(from: &Path, to: &Path, writable: bool) -> Result<(), Errno> {
    mount(Some(from), to, None::<&str>, MsFlags::MS_BIND, None::<&str>)?;
    if writable {
        return Ok(());
    }
    let read_only = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
    mount(None::<&str>, to, None::<&str>, read_only, None::<&str>)
}

/// Read-only trees are cached without asking the host again: whoever changes them there while a guest runs must not
/// expect it to be seen. What may be written is not cached: a shared mapping, which would have to be, is refused.
fn mount_9p(tag: &str, at: &Path, writable: bool) -> Result<(), Reason> {
    let cache = if writable { "none" } else { "loose" };
    let options = format!("trans=virtio,version=9p2000.L,msize={MESSAGE_BYTES},cache={cache}");
    let flags = if writable { MsFlags::empty() } else { MsFlags::MS_RDONLY };
    mount(Some(tag), at, Some("9p"), flags, Some(options.as_str()))
        .map_err(in_context(&format!("mounting the host's files at {}", at.display())))
}

/// Shows the one file of a tree at its path. The tree itself is not to be seen.
fn show_file(program: &GuestProgram, tree: &GuestTree) -> Result<(), Reason> {
    let failed = |error: Errno| Reason::from(format!("showing the host's {}: {error}", tree.at.display()));
    if program.virtio_fs {
        make_file(&tree.at)?;
        let file = Path::new(ASIDE).join(&tree.tag).join(SINGLE_FILE);
        return bind(&file, &tree.at, tree.writable).map_err(failed);
    }
    make_folder(Path::new(ASIDE), 0o700)?;
    mount_9p(&tree.tag, Path::new(ASIDE), tree.writable)?;
    make_file(&tree.at)?;
    let file = Path::new(ASIDE).join(SINGLE_FILE);
    mount(Some(&file), &tree.at, None::<&str>, MsFlags::MS_BIND, None::<&str>).map_err(failed)?;
    umount2(ASIDE, MntFlags::MNT_DETACH).map_err(failed)?;
    fs::remove_dir(ASIDE).map_err(in_context(ASIDE))
}

/// Shows a path of the tree under another one, too.
fn bind_inside(bind: &Bind) -> Result<(), Reason> {
    let failed = |error: io::Error| {
        Reason::from(format!("showing {} at {}: {error}", bind.from.display(), bind.to.display()))
    };
    if fs::metadata(&bind.from).map_err(failed)?.is_dir() {
        make_folder(&bind.to, 0o755)?;
    } else {
        make_file(&bind.to)?;
    }
    let flags = MsFlags::MS_BIND | MsFlags::MS_REC;
    let read_only = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
    mount(Some(&bind.from), &bind.to, None::<&str>, flags, None::<&str>)
        .and_then(|()| mount(None::<&str>, &bind.to, None::<&str>, read_only, None::<&str>))
        .map_err(|error| failed(error.into()))
}

/// Makes a folder with all above it; one that is there stays as it is.
fn make_folder(path: &Path, mode: u32) -> Result<(), Reason> {
    if path.is_dir() {
        return Ok(());
    }
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(path)
        .and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(mode)))
        .map_err(in_context(&path.display().to_string()))
}

/// Makes an empty file, with the folders above it; one that is there stays as it is.
fn make_file(path: &Path) -> Result<(), Reason> {
    // Opening it would copy it into the throw-away layer.
    if path.exists() {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        make_folder(folder, 0o755)?;
    }
    File::create(path).map(drop).map_err(in_context(&path.display().to_string()))
}

fn link_unless_there(target: &str, at: &str) -> Result<(), Reason> {
    match symlink(target, at) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(format!("{at}: {error}").into()),
        _ => Ok(()),
    }
}
