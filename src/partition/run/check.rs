//! What can be told before anything is made: refuses what would fail later, with the reason.

use std::fs::{self, Metadata, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::fcntl::OFlag;
use nix::sys::statfs::{FsType, PROC_SUPER_MAGIC, SYSFS_MAGIC, statfs};
use nix::unistd::{AccessFlags, access, geteuid};

use super::own_places::{around, is_ours};
use super::{Failed, lookup};
use crate::model::partition::{CardSpec, Content, DiskSpec, Files, PartitionSpec, Program};
use crate::model::units::Mebibytes;
use crate::partition::place;
use crate::platforms::vm::guest::MOST_SECTIONS;

/// Most bytes of words and environment together: Linux takes no more with the usual stack.
const MOST_WORD_BYTES: usize = 2 * 1024 * 1024;
/// Most trees, disks and cards: places on the PCI bus are few.
const MOST_DEVICES: usize = 24;
/// Places that are free beside them and what every partition has.
const FREE_PLACES: usize = 4;
/// File systems whose files nobody has written.
const MADE_UP: [FsType; 2] = [PROC_SUPER_MAGIC, SYSFS_MAGIC];
/// What disks of files are made of.
const SECTOR_BYTES: u64 = 512;
/// Largest program file that is put into a partition without files.
pub const MOST_ALONE_BYTES: u64 = 256 * 1024 * 1024;

/// Checks a partition.
pub fn check(spec: &PartitionSpec) -> Result<(), Failed> {
    place::possible(&spec.resources).map_err(Failed::own)?;
    if let Content::Program(program) = &spec.content {
        check_program(program, spec.resources.memory)?;
    } else if spec.disks.is_empty() {
        return Err(Failed::own("an image was to be booted, but there is no disk"));
    }
    let trees = match &spec.content {
        Content::Program(program) => program.writable.len() + program.binds.len(),
        Content::Image => 0,
    };
    let devices = trees + spec.disks.len() + spec.cards.iter().map(plugs).sum::<usize>();
    // Eight sections share a place; the first four of these are beyond those counted here.
    let sections = spec.sections.len().div_ceil(8);
    if spec.sections.len() > usize::from(MOST_SECTIONS) {
        let got = spec.sections.len();
        return Err(Failed::own(format!("a partition may have {MOST_SECTIONS} channels, these are {got}")));
    }
    let most = MOST_DEVICES - sections.saturating_sub(FREE_PLACES);
    if devices > most {
        return Err(Failed::own(format!(
            "a partition may have {most} opened paths, binds, disks and cards together, these are {devices}"
        )));
    }
    spec.disks.iter().try_for_each(check_disk)?;
    if spec.cards.iter().filter(|card| matches!(card, CardSpec::User)).count() > 1 {
        return Err(Failed::own("a partition may have one card at QEMU's own network, not several"));
    }
    Ok(())
}

/// Cards that the guest sees: one per link.
fn plugs(card: &CardSpec) -> usize {
    match card {
        CardSpec::User => 1,
        CardSpec::Switch { sockets, .. } => sockets.len(),
    }
}

fn check_program(program: &Program, memory: Mebibytes) -> Result<(), Failed> {
    let words = program.argv.iter().chain(program.env.iter().flat_map(|(name, value)| [name, value]));
    let mut bytes = 0;
    for word in words {
        bytes += word.len() + 1;
        if word.contains(&0) {
            return Err(Failed::own("a word or variable holds a zero byte, which no program can be given"));
        }
    }
    if bytes > MOST_WORD_BYTES {
        let wanted =
            format!("words and environment may have {MOST_WORD_BYTES} bytes together, these have {bytes}");
        return Err(Failed::own(wanted));
    }
    if program.env.iter().any(|(name, _)| name.is_empty() || name.contains(&b'=')) {
        return Err(Failed::own("a variable's name is empty or holds ="));
    }
    check_names(program)?;
    if let Files::Tree(folder) = &program.files {
        wanted_folder(folder, "the file tree")?;
    }
    program.writable.iter().try_for_each(|path| check_opened(path))?;
    check_binds(program)?;
    if !program.workdir.is_absolute() {
        let shown = program.workdir.display();
        return Err(Failed::own(format!("the folder to start in must be an absolute path, got \"{shown}\"")));
    }
    let found = lookup::program(program)?;
    let alone = program.files == Files::None;
    if let (Some(found), true) = (&found, alone) {
        check_alone(&found.host, memory)?;
    }
    let covered = program.binds.iter().map(|bind| &bind.to).chain(&program.writable);
    let is_covered = covered.clone().any(|mount| program.workdir.starts_with(mount));
    let there = || {
        let path = lookup::resolve(lookup::root_of(program), &program.workdir);
        path.is_some_and(|path| path.is_dir())
    };
    if !alone && !is_covered && !there() {
        let shown = program.workdir.display();
        return Err(Failed::own(format!("the folder to start in, {shown}, is not there")));
    }
    Ok(())
}

/// A guest is told as text where its trees lie. Names within them may be any bytes.
#[expect(clippy::unnecessary_debug_formatting, reason = "a name that is no text is shown escaped")]
fn check_names(program: &Program) -> Result<(), Failed> {
    let opened = program.writable.iter().map(|path| ("what is to be opened for writing", path));
    let shown = program.readable.iter().map(|path| ("what is to be shown", path));
    let bound =
        program.binds.iter().flat_map(|bind| [("a bind", &bind.from), ("the place of a bind", &bind.to)]);
    let start = std::iter::once(("the folder to start in", &program.workdir));
    let tree = match &program.files {
        Files::Tree(folder) => Some(("the file tree", folder)),
        _ => None,
    };
    for (what, path) in opened.chain(shown).chain(bound).chain(start).chain(tree) {
        if path.to_str().is_none() {
            // Escaped: as it is, it is no text either.
            return Err(Failed::own(format!(
                "{what}, {path:?}: its name is not UTF-8, and a guest is told as text what it gets; rename it, or give a \
                 folder above it: names within may be any bytes"
            )));
        }
    }
    Ok(())
}

fn check_binds(program: &Program) -> Result<(), Failed> {
    for bind in &program.binds {
        let (from, to) = (bind.from.display(), bind.to.display());
        if !bind.from.is_absolute() || !bind.to.is_absolute() || bind.to == Path::new("/") {
            return Err(Failed::own(format!(
                "a bind needs two absolute paths, the second not /; got {from}:{to}"
            )));
        }
        fs::metadata(&bind.from).map_err(|error| Failed::own(format!("bind {from}:{to}: {error}")))?;
    }
    Ok(())
}

/// A program without files must need none.
fn check_alone(host: &Path, memory: Mebibytes) -> Result<(), Failed> {
    let refused = |reason: String| Err(Failed::of(126, reason));
    let shown = host.display();
    match lookup::kind(host) {
        Ok(lookup::Kind::Elf { is_static: true }) => {}
        Ok(lookup::Kind::Elf { .. }) => {
            return refused(format!(
                "{shown} needs a loader and libraries: without files only a static program runs"
            ));
        }
        _ => {
            return refused(format!(
                "{shown} is no ELF file: without files there is nothing that could interpret it"
            ));
        }
    }
    match fs::metadata(host) {
        // The first file system may take half of the memory, and is there twice while it is unpacked.
        Ok(meta) if meta.len() > memory.to_bytes().get() / 5 => {
            let wanted = Mebibytes::from_mib(meta.len() / (1 << 20) * 5 + 5);
            Err(Failed::own(format!(
                "{shown} has {} bytes, too many for a guest with {}: give it {}",
                meta.len(),
                memory.to_bytes(),
                wanted.to_bytes()
            )))
        }
        Ok(meta) if meta.len() <= MOST_ALONE_BYTES => Ok(()),
        Ok(meta) => {
            refused(format!("{shown} has {} bytes, at most {MOST_ALONE_BYTES} are taken", meta.len()))
        }
        Err(error) => refused(format!("{shown}: {error}")),
    }
}

/// A folder, or a file that may be written to.
fn check_opened(path: &Path) -> Result<(), Failed> {
    const WHAT: &str = "what is to be opened for writing";
    let Ok(meta) = fs::metadata(path) else { return wanted_folder(path, WHAT) };
    if let Some(own) = around(path) {
        return Err(is_our_own(path, &own));
    }
    if meta.is_dir() || !path.is_absolute() {
        return wanted_folder(path, WHAT)
            .and_then(|()| check_owner(path, &meta))
            .and_then(|()| check_set_id(path));
    }
    let is_made_up = statfs(path).is_ok_and(|found| MADE_UP.contains(&found.filesystem_type()));
    let found = if is_made_up {
        "this is a file of the running kernel, which means something else, or nothing, to a guest".to_owned()
    } else if meta.is_file() {
        check_owner(path, &meta)?;
        match access(path, AccessFlags::R_OK | AccessFlags::W_OK) {
            Ok(()) => return Ok(()),
            Err(error) => format!("it cannot be read and written: {error}"),
        }
    } else {
        "this is neither a file nor a folder; a disk is given as a disk".to_owned()
    };
    Err(Failed::own(format!("{WHAT}, {}: {found}", path.display())))
}

/// Refuses a tree in which a program carries its owner's rights: its content could be exchanged without the kernel noticing
/// (through a shared mapping, by a QEMU that was taken over). Looks at so many files; what lies beyond is not promised.
fn check_set_id(top: &Path) -> Result<(), Failed> {
    const MOST_FILES: usize = 50_000;
    const SET_ID: u32 = 0o6000;
    let mut folders = vec![top.to_owned()];
    let mut looked = 0;
    while let Some(folder) = folders.pop() {
        // What we cannot read the guest cannot either.
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            looked += 1;
            if looked > MOST_FILES {
                return Ok(());
            }
            let Ok(meta) = entry.metadata() else { continue };
            if meta.is_dir() && is_ours(&entry.path(), &meta) {
                return Err(is_our_own(top, &entry.path()));
            }
            if meta.is_dir() {
                folders.push(entry.path());
            } else if meta.is_file() && meta.mode() & SET_ID != 0 {
                let (top, shown) = (top.display(), entry.path());
                return Err(Failed::own(format!(
                    "what is to be opened for writing, {top}: {} carries its owner's or group's rights (mode {:o}), and a guest \
                     could write another program into it; chmod ug-s it, or open a folder without it",
                    shown.display(),
                    meta.mode() & 0o7777
                )));
            }
        }
    }
    Ok(())
}

fn is_our_own(path: &Path, folder: &Path) -> Failed {
    Failed::own(format!(
        "what is to be opened for writing, {}: {} is a folder of bulkhead's own, whose memory and lists other partitions depend \
         on; open a folder without it, and outside of it",
        path.display(),
        folder.display()
    ))
}

/// As root a partition writes as root, but without its power over what others own: said before the program finds out.
fn check_owner(path: &Path, meta: &Metadata) -> Result<(), Failed> {
    const FOR_ALL: u32 = 0o002;
    if !geteuid().is_root() || meta.uid() == 0 || meta.mode() & FOR_ALL != 0 {
        return Ok(());
    }
    let (shown, owner) = (path.display(), meta.uid());
    Err(Failed::own(format!(
        "what is to be opened for writing, {shown}: it belongs to user {owner}, and what a partition writes belongs to whoever \
         called bulkhead, which is root; call it as that user: setpriv --reuid {owner} --regid {} --init-groups bulkhead …",
        meta.gid()
    )))
}

fn wanted_folder(path: &Path, what: &str) -> Result<(), Failed> {
    let shown = path.display();
    let found = match fs::metadata(path) {
        Ok(_) if !path.is_absolute() => "this is not an absolute path".to_owned(),
        Ok(meta) if meta.is_dir() => return Ok(()),
        Ok(_) => "this is no folder".to_owned(),
        Err(error) => error.to_string(),
    };
    Err(Failed::own(format!("{what}, {shown}: {found}")))
}

fn check_disk(disk: &DiskSpec) -> Result<(), Failed> {
    let shown = disk.file.display();
    let failed = |why: String| Err(Failed::own(format!("disk {shown}: {why}")));
    let is_device = match fs::metadata(&disk.file) {
        Err(error) => return failed(error.to_string()),
        Ok(meta) if meta.file_type().is_block_device() => true,
        // QEMU would make it longer without a word.
        Ok(meta) if meta.is_file() && !disk.read_only && meta.len() % SECTOR_BYTES != 0 => {
            let got = meta.len();
            return failed(format!(
                "a disk has whole sectors of {SECTOR_BYTES} bytes, this file has {got} bytes; make it longer, or give it \
                 read-only"
            ));
        }
        Ok(meta) if meta.is_file() => false,
        Ok(_) => return failed("a file or block device was wanted, this is neither".to_owned()),
    };
    // Linux lets nobody open a device so who would write below a mounted file system, a volume or a swap space (open(2)).
    let exclusive = if is_device && !disk.read_only { OFlag::O_EXCL } else { OFlag::empty() };
    let mut options = OpenOptions::new();
    options.read(true).write(!disk.read_only).custom_flags(exclusive.bits());
    match options.open(&disk.file) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::ResourceBusy => {
            failed("the device is in use on this host; unmount it, or give it read-only".to_owned())
        }
        Err(error) => failed(format!("it cannot be opened: {error}")),
    }
}
