//! What can be told before anything is made: refuses what would fail later, with the reason.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;

use super::opened::{check_opened, no_rights_within};
use super::{Failed, lookup};
use crate::model::partition::{Bind, CardSpec, Content, DiskSpec, Files, PartitionSpec, Program, is_name};
use crate::model::units::Mebibytes;
use crate::partition::{given_files, layer};
use crate::platforms::vm::guest::{MOST_SECTIONS, SECRETS};

/// Most bytes of words and environment together: Linux takes no more with the usual stack.
const MOST_WORD_BYTES: usize = 2 * 1024 * 1024;
/// Most trees, disks and cards: places on the PCI bus are few.
const MOST_DEVICES: usize = 24;
/// Most secrets of a program.
const MOST_SECRETS: usize = 64;
/// Places that are free beside them and what every partition has.
const FREE_PLACES: usize = 4;
/// What disks of files are made of.
const SECTOR_BYTES: u64 = 512;
/// Largest program file that is put into a partition without files.
pub const MOST_ALONE_BYTES: u64 = 256 * 1024 * 1024;

/// All that stands in a partition's way but for its resources, the gravest first.
pub fn faults(spec: &PartitionSpec) -> Vec<Failed> {
    let mut found = Vec::new();
    match &spec.content {
        Content::Program(program) => found.extend(check_program(program, spec.resources.memory)),
        Content::Image if spec.disks.is_empty() => {
            found.push(Err(Failed::own("an image was to be booted, but there is no disk")));
        }
        Content::Image => {}
    }
    found.push(check_count(spec));
    if spec.content == Content::Image && !spec.ports.is_empty() {
        found.push(Err(Failed::own(
            "ports of the host lead to a program; what an image runs is reached over a network of its own",
        )));
    }
    found.extend(spec.disks.iter().map(check_disk));
    if spec.cards.iter().filter(|card| matches!(card, CardSpec::User)).count() > 1 {
        found.push(Err(Failed::own("a partition may have one card at QEMU's own network, not several")));
    }
    found.into_iter().filter_map(Result::err).collect()
}

/// There is a place on the bus for each device.
fn check_count(spec: &PartitionSpec) -> Result<(), Failed> {
    let trees = match &spec.content {
        Content::Program(program) => {
            let trees = program.writable.len() + program.binds.len() + program.volumes.len();
            trees + usize::from(program.layer.is_some())
        }
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
            "a partition may have {most} opened paths, binds, volumes, disks (a saved layer is one) and cards together, these are \
             {devices}"
        )));
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

fn check_program(program: &Program, memory: Mebibytes) -> Vec<Result<(), Failed>> {
    let mut found = vec![check_words(program), check_names(program)];
    if let Files::Tree(folder) = &program.files {
        found.push(wanted_folder(folder, "the file tree"));
    }
    found.extend(program.writable.iter().map(|path| check_opened(path)));
    found.push(check_apart(program));
    found.extend(program.binds.iter().map(check_bind));
    found.push(check_volumes(program));
    found.push(check_secrets(program));
    found.push(layer::check(program).map_err(Failed::own));
    found.push(check_start(program, memory));
    found
}

/// Words and variables are such as a program can be given.
fn check_words(program: &Program) -> Result<(), Failed> {
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
    Ok(())
}

/// The program and the folder it starts in are there.
fn check_start(program: &Program, memory: Mebibytes) -> Result<(), Failed> {
    if !program.workdir.is_absolute() {
        let shown = program.workdir.display();
        return Err(Failed::own(format!("the folder to start in must be an absolute path, got \"{shown}\"")));
    }
    // What a saved layer holds only the partition can tell.
    let is_saved = program.layer.is_some();
    let found = match lookup::program(program) {
        Err(_) if is_saved => None,
        found => found?,
    };
    let alone = program.files == Files::None;
    if let (Some(found), true) = (&found, alone) {
        check_alone(&found.host, memory)?;
    }
    let covered = mounts(program);
    let is_covered = covered.into_iter().any(|mount| program.workdir.starts_with(mount));
    let there = || {
        let path = lookup::resolve(lookup::root_of(program), &program.workdir);
        path.is_some_and(|path| path.is_dir())
    };
    if !alone && !is_saved && !is_covered && !there() {
        let shown = program.workdir.display();
        return Err(Failed::own(format!("the folder to start in, {shown}, is not there")));
    }
    Ok(())
}

/// Where something else than its root is.
fn mounts(program: &Program) -> impl Iterator<Item = &PathBuf> {
    let bound = program.binds.iter().map(|bind| &bind.to);
    bound.chain(&program.writable).chain(program.volumes.iter().map(|volume| &volume.at))
}

/// Each has a place of its own; what is in one that is there already is looked at like all that is opened.
fn check_volumes(program: &Program) -> Result<(), Failed> {
    let mut places = BTreeSet::new();
    for volume in &program.volumes {
        if !places.insert(&volume.at) {
            let shown = volume.at.display();
            return Err(Failed::own(format!("volume {}: there is another one at {shown}", volume.name)));
        }
        let files = volume.files();
        if files.symlink_metadata().is_ok() {
            check_opened(&files)?;
        }
    }
    Ok(())
}

/// Each is a file that can be read, and nothing of the host's is where they will be.
fn check_secrets(program: &Program) -> Result<(), Failed> {
    if program.secrets.len() > MOST_SECRETS {
        let got = program.secrets.len();
        return Err(Failed::own(format!("a program may have {MOST_SECRETS} secrets, these are {got}")));
    }
    let covers = mounts(program).find(|mount| Path::new(SECRETS).starts_with(mount));
    if let Some(mount) = covers.filter(|_| !program.secrets.is_empty()) {
        let shown = mount.display();
        return Err(Failed::own(format!(
            "secrets are files in {SECRETS}, and {shown} would be there: open less of it"
        )));
    }
    let mut names = BTreeSet::new();
    for secret in &program.secrets {
        let name = &secret.name;
        let failed = |problem: String| Err(Failed::own(format!("secret {name}: {problem}")));
        if !is_name(name) {
            return failed("wanted letters, digits, -, _ and ., beginning with a letter or digit".to_owned());
        }
        if !names.insert(name) {
            return failed("it is there twice".to_owned());
        }
        if let Err(problem) = given_files::secret(&secret.from) {
            return failed(problem);
        }
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
    let volumes = program.volumes.iter();
    let volumes =
        volumes.flat_map(|volume| [("a volume", &volume.from), ("the place of a volume", &volume.at)]);
    let start = std::iter::once(("the folder to start in", &program.workdir)).chain(volumes);
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

/// What is opened for writing is written whole. A path in it that was named to be read only would be written with it.
fn check_apart(program: &Program) -> Result<(), Failed> {
    let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let itself = program.argv.first().map(|name| program.workdir.join(OsStr::from_bytes(name)));
    let is_named = |path: &&PathBuf| **path != program.workdir && Some(*path) != itself.as_ref();
    for shown in program.readable.iter().filter(is_named) {
        if let Some(opened) = program.writable.iter().find(|opened| real(shown).starts_with(real(opened))) {
            return Err(Failed::own(format!(
                "{} was to be read only, and lies in {}, which is opened for writing, all of it; open by name what \
                 lies beside it, or take --ro away",
                shown.display(),
                opened.display()
            )));
        }
    }
    Ok(())
}

fn check_bind(bind: &Bind) -> Result<(), Failed> {
    let (from, to) = (bind.from.display(), bind.to.display());
    if !bind.from.is_absolute() || !bind.to.is_absolute() || bind.to == Path::new("/") {
        return Err(Failed::own(format!(
            "a bind needs two absolute paths, the second not /; got {from}:{to}"
        )));
    }
    let there = fs::metadata(&bind.from).map(drop);
    there.map_err(|error| Failed::own(format!("bind {from}:{to}: {error}")))
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

pub(super) fn wanted_folder(path: &Path, what: &str) -> Result<(), Failed> {
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
        Ok(meta) if meta.is_file() => {
            if !disk.read_only {
                no_rights_within(&disk.file, &disk.file, &meta)?;
            }
            false
        }
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
