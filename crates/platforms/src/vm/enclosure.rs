//! What QEMU finds behind its wall: every path and disk that its machine names, under a place of its own there, and nothing
//! else. Disks and the plugs' sockets are opened here and handed over.
//!
//! ```text
//!  /usr /lib* …      QEMU and its libraries, as everybody may read them
//!  /machine/…        kernel, firmware
//!  /trees/N          over 9P: file trees of the guest, read-only or written to; /trees/N/file where it is a single file
//!  /sections/N       memory of channels: a reader's mount is read-only
//!  /dev/fdset/N      disks (QEMU's own way of naming descriptors)
//! ```

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, listen as listen_at, socket,
};
use nix::sys::stat::{Mode, fchmod};

use super::guest::SINGLE_FILE;
use super::qemu::{DiskArgument, Engine, Extras, FileDevice, HandedDisk, Machine, ShareArgument, SharedTree};
use crate::wall::{Network, Order, Rights, SizeLimits};
use units::Mebibytes;

/// Folders of programs and libraries; on many systems links to those in `/usr`.
pub const PROGRAM_FOLDERS: [&str; 7] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];
/// Whole systems that live elsewhere.
pub const OTHER_STORES: [&str; 2] = ["/nix/store", "/gnu/store"];
/// Where the trees are seen.
pub const TREES: &str = "/trees";
/// What the loader reads to find libraries.
const LOADER_FILES: [&str; 3] = ["/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d"];
/// Where QEMU's own network learns who resolves names.
const RESOLVER_FILE: &str = "/etc/resolv.conf";

/// Describes the wall around `qemu` as `machine`, whose paths become those behind it. Further descriptors that QEMU needs are
/// added to `inherited`.
///
/// # Errors
/// A disk cannot be opened, or a plug's socket cannot be made.
pub fn enclose(qemu: &Path, machine: &mut Machine, inherited: &mut Vec<OwnedFd>) -> io::Result<Order> {
    let mut order = Order::default();
    show_programs(&mut order, qemu);
    order.show(&machine.kernel, "/machine/kernel", Rights::Read);
    machine.kernel = "/machine/kernel".into();
    if let Some(firmware) = &mut machine.firmware {
        order.show(firmware, "/machine/firmware", Rights::Read);
        *firmware = "/machine/firmware".into();
    }
    if machine.engine == Engine::Kvm {
        order.devices.push("/dev/kvm".into());
    }
    let extras = &mut machine.extras;
    for (disk, set) in machine.disk.iter_mut().chain(&mut extras.disks).zip(0..) {
        hand_over(disk, set, inherited).map_err(|error| about(&disk.image, &error))?;
    }
    if extras.file_device == FileDevice::Plan9 {
        show_trees(&mut order, &mut extras.shares);
    }
    for section in &mut extras.sections {
        let rights = if section.writable { Rights::Write } else { Rights::Read };
        let at = format!("/sections/{}", section.slot);
        order.show(&section.path, &at, rights);
        section.path = at.into();
    }
    order.size_limits = size_limits(extras, machine.memory, machine.disk.as_ref())?;
    for plug in &mut extras.plugs {
        let listener = listen(&plug.socket).map_err(|error| about(&plug.socket, &error))?;
        plug.listener = Some(listener.as_raw_fd());
        inherited.push(listener.into());
    }
    if extras.user_network.is_some() {
        order.network = Network::Host;
        if Path::new(RESOLVER_FILE).exists() {
            order.show(Path::new(RESOLVER_FILE), RESOLVER_FILE, Rights::Public);
        }
    }
    order.words = std::iter::once(qemu.as_os_str().to_owned()).chain(machine.arguments()).collect();
    Ok(order)
}

/// Others have a writer's sections mapped, so it must not cut them. Which file a call is about cannot be told, only the size that
/// it asks for: so there are no limits where it writes files of any size, or has memory made of files no longer than a section.
fn size_limits(
    extras: &Extras,
    memory: Mebibytes,
    disk: Option<&DiskArgument>,
) -> io::Result<Option<SizeLimits>> {
    let sections = extras.sections.iter().filter(|section| section.writable);
    let Some(longest) = sections.map(|section| section.bytes.get()).max() else { return Ok(None) };
    let own = extras.memory.file_sizes(memory, extras.files.is_some());
    // Over virtio-fs somebody else writes them.
    let writes = extras.file_device == FileDevice::Plan9 && extras.shares.iter().any(|share| share.writable);
    if writes || own.iter().any(|size| *size <= longest) {
        return Ok(None);
    }
    let mut longest = own.iter().copied().fold(longest, u64::max);
    for disk in disk.into_iter().chain(&extras.disks).filter(|disk| !disk.read_only) {
        let size = fs::metadata(&disk.image).map_err(|error| about(&disk.image, &error))?.len();
        longest = longest.max(size);
    }
    longest = extras.layer.iter().map(|layer| layer.bytes.get()).fold(longest, u64::max);
    Ok(Some(SizeLimits { longest, own }))
}

/// Shows the trees, each at its number.
pub fn show_trees(order: &mut Order, shares: &mut [ShareArgument]) {
    for (share, number) in shares.iter_mut().zip(0..) {
        let at = PathBuf::from(format!("{TREES}/{number}"));
        let rights = if share.writable { Rights::Write } else { Rights::Read };
        match &share.tree {
            SharedTree::All => order.show(&share.path, &at, rights),
            SharedTree::File => order.show(&share.path, at.join(SINGLE_FILE), rights),
            SharedTree::Only(view) => view.put(&at, order),
        }
        share.path = at;
    }
}

fn about(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// QEMU itself, what it is linked with, and its firmware.
fn show_programs(order: &mut Order, qemu: &Path) {
    let real = fs::canonicalize(qemu).unwrap_or_else(|_| qemu.to_owned());
    for folder in PROGRAM_FOLDERS.into_iter().chain(OTHER_STORES).chain(LOADER_FILES) {
        show_or_link(order, Path::new(folder), Path::new("/"), Rights::Execute);
    }
    let is_shown =
        |path: &Path| PROGRAM_FOLDERS.iter().chain(&OTHER_STORES).any(|folder| path.starts_with(folder));
    if !is_shown(&real) {
        // Built by hand: PREFIX/bin/qemu, with its firmware in PREFIX/share; a lone program has no more than its folder.
        let folder = real.parent().unwrap_or(&real);
        let prefix =
            folder.parent().filter(|_| folder.ends_with("bin")).filter(|prefix| *prefix != Path::new("/"));
        let shown = prefix.unwrap_or(folder);
        order.show(shown, shown, Rights::Execute);
    }
    if !is_shown(qemu) && qemu != real {
        order.links.push((real, qemu.to_owned()));
    }
}

/// Shows a folder of the host under its own path below `root`; a link is repeated, what is not there is left out.
pub fn show_or_link(order: &mut Order, path: &Path, root: &Path, rights: Rights) {
    let at = root.join(path.strip_prefix("/").unwrap_or(path));
    match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_symlink() => {
            if let Ok(target) = fs::read_link(path) {
                order.links.push((target, at));
            }
        }
        Ok(_) => order.show(path, at, rights),
        Err(_) => {}
    }
}

/// Opens a disk, twice where it is written to: QEMU begins by reading.
fn hand_over(disk: &mut DiskArgument, set: u32, inherited: &mut Vec<OwnedFd>) -> io::Result<()> {
    let image = fs::canonicalize(&disk.image)?;
    let open = |writable: bool| {
        OpenOptions::new().read(true).write(writable).custom_flags(libc::O_NONBLOCK).open(&image)
    };
    let mut files: Vec<File> = vec![open(false)?];
    if !disk.read_only {
        files.push(open(true)?);
    }
    let is_device =
        files.iter().any(|file| file.metadata().is_ok_and(|meta| meta.file_type().is_block_device()));
    let descriptors: Vec<RawFd> = files.iter().map(AsRawFd::as_raw_fd).collect();
    inherited.extend(files.into_iter().map(OwnedFd::from));
    disk.handed = Some(HandedDisk { set, is_device, descriptors });
    Ok(())
}

/// Makes a plug's socket, for us alone; one that was left by a machine that was killed goes.
fn listen(path: &Path) -> io::Result<UnixListener> {
    match fs::symlink_metadata(path) {
        Ok(meta) if meta.file_type().is_socket() => fs::remove_file(path)?,
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // The rights of a socket that is not bound yet are those of its name: there is no moment at which others have more, and
    // nothing is changed by name (unix(7); `unix_bind` in the kernel).
    let socket = socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    fchmod(&socket, Mode::S_IRUSR | Mode::S_IWUSR)?;
    bind(socket.as_raw_fd(), &UnixAddr::new(path)?)?;
    listen_at(&socket, Backlog::new(1)?)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use std::mem::MaybeUninit;
    use std::os::unix::fs::PermissionsExt;

    use rustix::fs::inotify::{CreateFlags, ReadFlags, Reader, WatchFlags, add_watch, init};

    use super::*;
    use crate::vm::qemu::{MemoryArgument, SectionArgument, ShareArgument, Throttle};
    use model::platform::DiskBus;
    use units::Bytes;

    #[test]
    fn a_plugs_socket_is_for_us_alone_from_its_first_moment() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("7.sock");
        // One that was left there.
        drop(UnixListener::bind(&path).unwrap());
        let watch = init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).unwrap();
        add_watch(&watch, folder.path(), WatchFlags::CREATE | WatchFlags::ATTRIB).unwrap();
        let _listener = listen(&path).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        // What it is now it was when it came: nothing was changed between.
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = Reader::new(&watch, &mut buffer);
        let mut seen = Vec::new();
        while let Ok(event) = reader.next() {
            if event.file_name() == Some(c"7.sock") {
                seen.push(event.events());
            }
        }
        let comes = seen.iter().position(|events| events.contains(ReadFlags::CREATE)).expect("it came");
        assert!(!seen[comes..].iter().any(|events| events.contains(ReadFlags::ATTRIB)), "{seen:?}");
    }

    /// A link there leads whoever listens nowhere else.
    #[test]
    fn what_else_lies_at_a_plugs_place_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (path, elsewhere) = (folder.path().join("7.sock"), folder.path().join("elsewhere"));
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        assert_eq!(listen(&path).unwrap_err().raw_os_error(), Some(libc::EADDRINUSE));
        assert!(!elsewhere.exists());
    }

    const MIB: u64 = 1 << 20;

    fn writer(memory: MemoryArgument) -> Extras {
        let section = |slot: u8, mib: u64, writable: bool| SectionArgument {
            path: "/dev/null".into(),
            bytes: Bytes::from_bytes(mib * MIB),
            writable,
            slot,
        };
        // What is only read has no say.
        let sections = vec![section(0, 2, true), section(1, 64, false), section(2, 1, true)];
        Extras { memory, sections, ..Extras::default() }
    }

    #[test]
    fn who_writes_a_section_has_the_sizes_of_what_it_was_given() {
        let sizes = |extras: &Extras, mib: u64| size_limits(extras, Mebibytes::from_mib(mib), None).unwrap();
        assert_eq!(sizes(&Extras::default(), 64), None, "no section, nothing that others depend on");
        let plain = writer(MemoryArgument::default());
        assert_eq!(sizes(&plain, 64), Some(SizeLimits { longest: 2 * MIB, own: vec![] }));
        let huge = writer(MemoryArgument { hugepages: true, guest_nodes: 2, ..MemoryArgument::default() });
        let own = vec![32 * MIB, 32 * MIB];
        assert_eq!(sizes(&huge, 64), Some(SizeLimits { longest: 32 * MIB, own }));
        assert_eq!(sizes(&huge, 4), None, "memory of the section's own size could be taken for it");
        let (tag, path, tree) = ("x".to_owned(), "/x".into(), SharedTree::All);
        let shares = vec![ShareArgument { tag, path, tree, writable: true }];
        let opened = Extras { shares, ..plain };
        assert_eq!(sizes(&opened, 64), None, "files of any size");
        // Somebody else writes those; but the machine's memory is a file then.
        let served = Extras { file_device: FileDevice::VirtioFs, files: Some(9), ..opened };
        assert_eq!(sizes(&served, 64), Some(SizeLimits { longest: 64 * MIB, own: vec![64 * MIB] }));
    }

    #[test]
    fn a_disk_is_written_to_its_end() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(16 * MIB).unwrap();
        let disk = DiskArgument {
            image: file.path().to_owned(),
            direct: true,
            bus: DiskBus::Virtio,
            shared: false,
            read_only: false,
            throttle: Throttle::default(),
            handed: None,
        };
        let plain = writer(MemoryArgument::default());
        let sizes = |disk: &DiskArgument| size_limits(&plain, Mebibytes::from_mib(64), Some(disk)).unwrap();
        assert_eq!(sizes(&disk).unwrap().longest, 16 * MIB);
        assert_eq!(sizes(&DiskArgument { read_only: true, ..disk }).unwrap().longest, 2 * MIB);
    }
}
