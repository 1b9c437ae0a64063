//! The file systems behind the wall: what was given, bound into an empty tree, and that tree as the root. Nothing else of the
//! host can be reached from there: it is not mounted.
//!
//! ```text
//!  given paths ─► detached copies of their mounts (read-only, no devices, no set-user-ID, owners mapped) ─┐
//!  tmpfs ─► folders, links, devices ──────────────────────────────────────────────────────────────────────┴─► root, read-only
//! ```
//! Mounts below a given folder are shown as well, except those whose files the kernel makes up (`/proc`, `/sys`, `/dev`, …).

#![expect(unsafe_code, reason = "no library in use has a wrapper for mount_setattr(2)")]

use std::ffi::CStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::stat::{Mode, SFlag, mknod};
use nix::unistd::{chdir, pivot_root};
use rustix::fs::CWD;
use rustix::mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree};

use super::below::Below;
use super::identity::Identity;
use super::order::{Order, Rights, Shown};

/// Where the new root is put together: a folder that every system has. What lies there is not needed any more by then.
const WORKSHOP: &str = "/proc";
/// Rights of the group and of everybody.
const OTHERS: u32 = 0o077;
/// Options of the root: a few folders and links.
const ROOT_OPTIONS: &str = "mode=0755,size=4m";
/// Where a process finds itself, and nobody else, behind the wall.
const SELF: &str = "/proc/self";
/// An empty file, which hides others.
const EMPTY: &str = "/.empty";
/// Devices that every program may use.
const USUAL_DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// Why something could not be shown.
type Problem = String;

/// Builds the tree and makes it the root.
///
/// # Errors
/// What could not be shown, and why.
pub fn build(order: &Order, identity: &Identity) -> Result<(), Problem> {
    let failed = |what: &str| {
        let what = what.to_owned();
        move |error: Errno| format!("{what}: {}", error.desc())
    };
    // What happens here stays here, and what the host mounts later does not come here.
    let none = None::<&str>;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)
        .map_err(failed("a view of its own"))?;
    let table = fs::read("/proc/self/mountinfo").map_err(|error| format!("the mounts: {error}"))?;
    let below = Below::read(&table);
    let mut copies = Vec::new();
    for shown in &order.shown {
        let told = |problem: io::Error| format!("{}: {problem}", shown.from.display());
        copies.extend(copy(shown, identity, &below).map_err(told)?);
    }
    let own = Copy::of(&PathBuf::from(format!("/proc/{}", std::process::id())), false);
    let own = own.map_err(|error| format!("its own folder in /proc: {error}"))?;
    let devices = devices(order, identity).map_err(|error| format!("devices: {error}"))?;
    mount(Some("tmpfs"), WORKSHOP, Some("tmpfs"), MsFlags::MS_NOSUID, Some(ROOT_OPTIONS))
        .map_err(failed("a root of its own"))?;
    chdir(WORKSHOP).map_err(failed("its root"))?;
    pivot_root(".", ".").map_err(failed("changing the root"))?;
    // The old one lies on top.
    umount2(".", MntFlags::MNT_DETACH).map_err(failed("leaving the host's files"))?;
    chdir("/").map_err(failed("its root"))?;
    // Only now: links of the host's that are repeated here must not lead back there.
    furnish(order, identity, copies, own, devices).map_err(|error| format!("its root: {error}"))?;
    let sealed =
        MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY | MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
    mount(none, "/", none, sealed, none).map_err(failed("sealing its root"))
}

/// Puts everything in its place.
fn furnish(
    order: &Order,
    identity: &Identity,
    copies: Vec<Placed>,
    own: Copy,
    devices: Vec<Device>,
) -> io::Result<()> {
    for folder in &order.folders {
        make_folder(folder, identity)?;
    }
    for (target, at) in &order.links {
        make_parent(at, identity)?;
        match symlink(target, at) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    for placed in copies {
        placed.put(identity)?;
    }
    Placed { at: PathBuf::from(SELF), what: What::Copy(own) }.put(identity)?;
    devices.into_iter().try_for_each(|device| device.put(identity))
}

/// A detached copy of a mount.
struct Copy {
    tree: OwnedFd,
    is_folder: bool,
}

enum What {
    Copy(Copy),
    /// Hides what the kernel makes up.
    Nothing,
}

struct Placed {
    at: PathBuf,
    what: What,
}

impl Copy {
    fn of(from: &Path, with_all_below: bool) -> io::Result<Self> {
        let mut flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        flags.set(OpenTreeFlags::AT_RECURSIVE, with_all_below);
        let tree = open_tree(CWD, from, flags)?;
        let is_folder = rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(&tree)?.st_mode).is_dir();
        Ok(Self { tree, is_folder })
    }

    /// Says what may be done with it. Mapping owners is tried first where it is wanted.
    fn restrict(
        &self,
        from: &Path,
        rights: Rights,
        identity: &Identity,
        with_all_below: bool,
    ) -> io::Result<()> {
        let flags = attributes(rights);
        if let (Identity::Nobody { users, .. }, Rights::Read | Rights::Write) = (identity, rights) {
            match set_attributes(&self.tree, flags | libc::MOUNT_ATTR_IDMAP, Some(users), with_all_below) {
                Err(error) if cannot_map(&error) => {
                    let is_open = !self.is_folder && open_to_all_behind_us(from)?;
                    // Of other things as much is shown as everybody may read.
                    if rights == Rights::Write && !is_open {
                        return Err(io::Error::new(error.kind(), UNMAPPED));
                    }
                }
                other => return other,
            }
        }
        set_attributes(&self.tree, flags, None, with_all_below)
    }
}

/// Whether owners of what is written can be mapped.
pub fn can_map(order: &Order, identity: &Identity) -> bool {
    let Identity::Nobody { users, .. } = identity else { return true };
    let can = |shown: &Shown| {
        let copy = Copy::of(&shown.from, false).map(|copy| copy.tree);
        copy.is_ok_and(|tree| set_attributes(&tree, libc::MOUNT_ATTR_IDMAP, Some(users), false).is_ok())
    };
    order.shown.iter().filter(|shown| shown.rights == Rights::Write).all(can)
}

/// Opens a file to everybody when nobody but root comes by its folder: memory of channels on kernels that map no owners of
/// files in memory. Who may write is then said by the mounts alone.
fn open_to_all_behind_us(file: &Path) -> io::Result<bool> {
    let Some(folder) = file.parent() else { return Ok(false) };
    let above = fs::symlink_metadata(folder)?;
    let is_private = above.is_dir() && above.uid() == 0 && above.mode() & OTHERS == 0;
    if is_private {
        fs::set_permissions(file, fs::Permissions::from_mode(0o606))?;
    }
    Ok(is_private)
}

/// What is said where owners cannot be mapped.
const UNMAPPED: &str = "its file system (or this kernel: 5.12 or newer is wanted, 6.3 for tmpfs) cannot map owners, without which \
                        what root opens for writing would be written as root itself: use a folder on ext4, xfs, btrfs \
                        or tmpfs, or call bulkhead as the user who owns it";

fn cannot_map(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOSYS | libc::EPERM))
}

const fn attributes(rights: Rights) -> u64 {
    let always = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
    match rights {
        Rights::Execute => always | libc::MOUNT_ATTR_RDONLY,
        Rights::Public | Rights::Read => always | libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOEXEC,
        Rights::Write => always | libc::MOUNT_ATTR_NOEXEC,
    }
}

fn set_attributes(tree: &OwnedFd, set: u64, users: Option<&OwnedFd>, with_all_below: bool) -> io::Result<()> {
    let attributes = libc::mount_attr {
        attr_set: set,
        attr_clr: 0,
        propagation: 0,
        userns_fd: users.map_or(0, |users| u64::from(users.as_raw_fd().unsigned_abs())),
    };
    let below = if with_all_below { libc::AT_RECURSIVE } else { 0 };
    let flags = libc::AT_EMPTY_PATH | below;
    let (path, size): (&CStr, usize) = (c"", size_of::<libc::mount_attr>());
    // SAFETY: path and attributes live until the call returns, and the size is the latter's.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            path.as_ptr(),
            flags,
            &raw const attributes,
            size,
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Copies what is shown, with the mounts below it.
fn copy(shown: &Shown, identity: &Identity, below: &Below) -> io::Result<Vec<Placed>> {
    let from = fs::canonicalize(&shown.from)?;
    let at = &shown.at;
    let mounts = below.of(&from);
    let place = |path: &Path| at.join(path.strip_prefix(&from).unwrap_or(path));
    let mut placed = Vec::new();
    let single = Copy::of(&from, false);
    // A user namespace may not show what lies under a mount: then all of them come along, and some are hidden again.
    let all = matches!(&single, Err(error) if error.raw_os_error() == Some(libc::EINVAL));
    let top = if all { Copy::of(&from, true)? } else { single? };
    top.restrict(&from, shown.rights, identity, all)?;
    placed.push(Placed { at: at.to_owned(), what: What::Copy(top) });
    if shown.rights == Rights::Public && matches!(identity, Identity::Caller) {
        // Its groups and files of its own may open to the caller what is not everybody's.
        let hidden = not_everybodys(&from);
        placed.extend(hidden.iter().map(|path| Placed { at: place(path), what: What::Nothing }));
    }
    for (path, is_made_up) in mounts {
        let here = place(path);
        if is_made_up {
            if all {
                placed.push(Placed { at: here, what: What::Nothing });
            }
        } else if !all {
            placed.extend(copy_below(path, here, shown.rights, identity)?);
        }
    }
    Ok(placed)
}

/// What in a folder not everybody may read or enter. Looks at so many files.
fn not_everybodys(top: &Path) -> Vec<PathBuf> {
    const MOST_FILES: usize = 20_000;
    let (mut found, mut folders, mut looked) = (Vec::new(), vec![top.to_owned()], 0);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            looked += 1;
            let Ok(meta) = entry.metadata() else { continue };
            let wanted = if meta.is_dir() { 0o005 } else { 0o004 };
            if looked > MOST_FILES || (!meta.is_symlink() && meta.mode() & wanted != wanted) {
                found.push(entry.path());
            } else if meta.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    found
}

/// A mount below what is shown; none where it cannot be looked into. Where owners cannot be mapped it can only be read.
fn copy_below(path: &Path, at: PathBuf, rights: Rights, identity: &Identity) -> io::Result<Option<Placed>> {
    let copy = match Copy::of(path, false) {
        Ok(copy) => copy,
        // Hidden under another mount, or gone by now.
        Err(error)
            if matches!(
                error.raw_os_error(),
                Some(libc::ENOENT | libc::EINVAL | libc::EACCES | libc::ENOTDIR)
            ) =>
        {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    copy.restrict(path, rights, identity, false)
        .or_else(|_| copy.restrict(path, Rights::Public, identity, false))?;
    Ok(Some(Placed { at, what: What::Copy(copy) }))
}

impl Placed {
    fn put(self, identity: &Identity) -> io::Result<()> {
        let at = &self.at;
        match self.what {
            What::Copy(copy) => {
                if copy.is_folder {
                    make_folder(at, identity)?;
                } else if !at.exists() {
                    make_parent(at, identity)?;
                    File::create(at)?;
                }
                let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
                Ok(move_mount(&copy.tree, c"", CWD, at, flags)?)
            }
            What::Nothing => {
                let flags = MsFlags::MS_RDONLY | MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
                if at.is_dir() {
                    let options = Some("mode=0555,size=4k,nr_inodes=2");
                    return Ok(mount(Some("tmpfs"), at, Some("tmpfs"), flags, options)?);
                }
                // The root is not sealed yet.
                File::create(EMPTY)?;
                Ok(mount(Some(EMPTY), at, None::<&str>, MsFlags::MS_BIND, None::<&str>)?)
            }
        }
    }
}

/// A device behind the wall.
enum Device {
    /// Root makes one that belongs to the process.
    Made { at: PathBuf, number: u64, kind: SFlag, mode: u32 },
    /// Others bind the host's.
    Bound(Placed),
}

impl Device {
    fn put(self, identity: &Identity) -> io::Result<()> {
        match self {
            Self::Bound(placed) => placed.put(identity),
            Self::Made { at, number, kind, mode } => {
                make_parent(&at, identity)?;
                mknod(&at, kind, Mode::from_bits_truncate(mode), number)?;
                fs::set_permissions(&at, fs::Permissions::from_mode(mode))?;
                give(&at, identity)
            }
        }
    }
}

fn devices(order: &Order, identity: &Identity) -> io::Result<Vec<Device>> {
    let usual = USUAL_DEVICES.iter().map(|path| (Path::new(path), 0o666));
    let asked = order.devices.iter().map(|path| (path.as_path(), 0o600));
    let mut found = Vec::new();
    for (path, mode) in usual.chain(asked) {
        let at = path.to_owned();
        let Ok(meta) = fs::metadata(path) else { continue };
        let kind = if meta.file_type().is_block_device() { SFlag::S_IFBLK } else { SFlag::S_IFCHR };
        found.push(match identity {
            Identity::Nobody { .. } => Device::Made { at, number: meta.rdev(), kind, mode },
            Identity::Caller => Device::Bound(Placed { at, what: What::Copy(Copy::of(path, false)?) }),
        });
    }
    Ok(found)
}

fn make_parent(at: &Path, identity: &Identity) -> io::Result<()> {
    at.parent().map_or(Ok(()), |folder| make_folder(folder, identity))
}

/// Makes a folder with all above it, the process's own.
fn make_folder(at: &Path, identity: &Identity) -> io::Result<()> {
    if at.is_dir() {
        return Ok(());
    }
    make_parent(at, identity)?;
    fs::create_dir(at)?;
    give(at, identity)
}

fn give(at: &Path, identity: &Identity) -> io::Result<()> {
    identity.number().map_or(Ok(()), |number| chown(at, Some(number), Some(number)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_owners_cannot_be_mapped_only_private_files_are_opened() {
        if !nix::unistd::geteuid().is_root() {
            return skips::skip(skips::Need::Root, "only root maps owners");
        }
        // Nobody may map owners as they are on the host itself.
        let users = File::open("/proc/self/ns/user").unwrap().into();
        let identity = Identity::Nobody { number: 1, users };
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let file = folder.path().join("section");
        fs::write(&file, "x").unwrap();
        let restrict =
            |path: &Path, rights| Copy::of(path, false).unwrap().restrict(path, rights, &identity, false);
        assert!(restrict(folder.path(), Rights::Write).unwrap_err().to_string().contains("map owners"));
        restrict(folder.path(), Rights::Read).unwrap();
        restrict(&file, Rights::Write).unwrap();
        assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o606);
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        assert!(restrict(&file, Rights::Write).is_err());
        let mut order = Order::default();
        order.show(folder.path(), "/x", Rights::Read);
        assert!(can_map(&order, &identity));
        order.show(folder.path(), "/y", Rights::Write);
        assert!(!can_map(&order, &identity));
    }
}
