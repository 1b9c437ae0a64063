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
use super::{Failed, lookup, view};
use crate::{given_files, layer};
use model::partition::{Bind, CardSpec, Content, DiskSpec, Files, PartitionSpec, Program, is_name};
use platforms::vm::guest::{MOST_SECTIONS, SECRETS};
use units::{Mebibytes, Reason};

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

/// What stands in a partition's way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Obstacle {
    /// The key of a set's file that says so, and those below it; empty where it is several together.
    pub keys: Vec<String>,
    /// Which of the things in its list.
    pub item: Option<usize>,
    /// Why.
    pub failed: Failed,
}

/// Obstacles as they are found.
#[derive(Default)]
struct Found(Vec<Obstacle>);

impl Found {
    fn at(&mut self, key: &str, checked: Result<(), Failed>) {
        self.note(&[key], None, checked);
    }

    fn item(&mut self, key: &str, item: usize, checked: Result<(), Failed>) {
        self.note(&[key], Some(item), checked);
    }

    fn note(&mut self, keys: &[&str], item: Option<usize>, checked: Result<(), Failed>) {
        let keys = || keys.iter().map(|key| (*key).to_owned()).collect();
        self.0.extend(checked.err().map(|failed| Obstacle { keys: keys(), item, failed }));
    }
}

/// All that stands in a partition's way but for its resources, the gravest first.
pub fn obstacles(spec: &PartitionSpec) -> Vec<Obstacle> {
    let mut found = Found::default();
    match &spec.content {
        Content::Program(program) => check_program(program, spec.resources.memory, &mut found),
        Content::Image if spec.disks.is_empty() => {
            found.at("image", Err(Failed::own("an image was to be booted, but there is no disk")));
        }
        Content::Image => {}
    }
    found.note(&[], None, check_count(spec));
    if spec.content == Content::Image && !spec.ports.is_empty() {
        let problem =
            "ports of the host lead to a program; what an image runs is reached over a network of its own";
        found.at("ports", Err(Failed::own(problem)));
    }
    for (item, disk) in spec.disks.iter().enumerate() {
        found.item("disk", item, check_disk(disk));
    }
    if spec.cards.iter().filter(|card| matches!(card, CardSpec::User)).count() > 1 {
        let problem = "a partition may have one card at QEMU's own network, not several";
        found.at("networks", Err(Failed::own(problem)));
    }
    found.0
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

fn check_program(program: &Program, memory: Mebibytes, found: &mut Found) {
    found.at("program", check_words(program));
    found.at("env", check_variables(program));
    found.note(&[], None, check_names(program));
    let tree = match &program.files {
        Files::Tree(folder) => wanted_folder(folder, "the file tree"),
        _ => Ok(()),
    };
    let is_there = tree.is_ok();
    found.at("files", tree);
    for (item, path) in program.writable.iter().enumerate() {
        found.item("rw", item, check_opened(path));
    }
    for (item, path) in program.readable.iter().enumerate() {
        found.item("ro", item, check_apart(program, path));
    }
    for (item, bind) in program.binds.iter().enumerate() {
        found.item("bind", item, check_bind(bind));
    }
    check_volumes(program, found);
    check_secrets(program, found);
    found.at("save", layer::check(program).map_err(Failed::own));
    // In a tree that is not there nothing else can be.
    if is_there {
        check_start(program, memory, found);
    }
}

/// Words are such as a program can be given, and with the variables not too many.
fn check_words(program: &Program) -> Result<(), Failed> {
    let words = program.argv.iter().chain(program.env.iter().flat_map(|(name, value)| [name, value]));
    let bytes: usize = words.map(|word| word.len() + 1).sum();
    if program.argv.iter().any(|word| word.contains(&0)) {
        return Err(Failed::own("a word holds a zero byte, which no program can be given"));
    }
    if bytes > MOST_WORD_BYTES {
        let wanted =
            format!("words and environment may have {MOST_WORD_BYTES} bytes together, these have {bytes}");
        return Err(Failed::own(wanted));
    }
    Ok(())
}

fn check_variables(program: &Program) -> Result<(), Failed> {
    if program.env.iter().any(|(name, value)| name.contains(&0) || value.contains(&0)) {
        return Err(Failed::own("a variable holds a zero byte, which no program can be given"));
    }
    if program.env.iter().any(|(name, _)| name.is_empty() || name.contains(&b'=')) {
        return Err(Failed::own("a variable's name is empty or holds ="));
    }
    Ok(())
}

/// The program and the folder it starts in are there, and what is shown to it.
fn check_start(program: &Program, memory: Mebibytes, found: &mut Found) {
    let shown = program.workdir.display();
    if !program.workdir.is_absolute() {
        let problem = format!("the folder to start in must be an absolute path, got \"{shown}\"");
        return found.at("workdir", Err(Failed::own(problem)));
    }
    // The folder it starts in is among them, and looked at below.
    let is_missing =
        |path: &PathBuf| program.files == Files::System && *path != program.workdir && !view::is_there(path);
    for (item, path) in program.readable.iter().enumerate().filter(|(_, path)| is_missing(path)) {
        found.item("ro", item, Err(view::missing(path)));
    }
    // What a saved layer holds only the partition can tell.
    let is_saved = program.layer.is_some();
    let readable = program.readable.iter().filter(|path| view::is_there(path)).cloned().collect();
    let file = match lookup::program(&Program { readable, ..program.clone() }) {
        Err(_) if is_saved => Ok(None),
        file => file,
    };
    let alone = program.files == Files::None;
    found.at(
        "program",
        file.and_then(|file| match file {
            Some(file) if alone => check_alone(&file.host, memory),
            _ => Ok(()),
        }),
    );
    let is_covered = mounts(program).any(|mount| program.workdir.starts_with(mount));
    let there = || {
        let path = lookup::resolve(lookup::root_of(program), &program.workdir);
        path.is_some_and(|path| path.is_dir())
    };
    if !alone && !is_saved && !is_covered && !there() {
        found.at("workdir", Err(Failed::own(format!("the folder to start in, {shown}, is not there"))));
    }
}

/// Where something else than its root is.
fn mounts(program: &Program) -> impl Iterator<Item = &PathBuf> {
    let bound = program.binds.iter().map(|bind| &bind.to);
    bound.chain(&program.writable).chain(program.volumes.iter().map(|volume| &volume.at))
}

/// Each has a place of its own; what is in one that is there already is looked at like all that is opened.
fn check_volumes(program: &Program, found: &mut Found) {
    let mut places = BTreeSet::new();
    for (item, volume) in program.volumes.iter().enumerate() {
        if !places.insert(&volume.at) {
            let shown = volume.at.display();
            let problem = format!("volume {}: there is another one at {shown}", volume.name);
            found.item("volumes", item, Err(Failed::own(problem)));
            continue;
        }
        let files = volume.files();
        if files.symlink_metadata().is_ok() {
            found.item("volumes", item, check_opened(&files));
        }
    }
}

/// Each is a file that can be read, and nothing of the host's is where they will be.
fn check_secrets(program: &Program, found: &mut Found) {
    if program.secrets.len() > MOST_SECRETS {
        let got = program.secrets.len();
        let problem = format!("a program may have {MOST_SECRETS} secrets, these are {got}");
        found.at("secrets", Err(Failed::own(problem)));
    }
    let covers = mounts(program).find(|mount| Path::new(SECRETS).starts_with(mount));
    if let Some(mount) = covers.filter(|_| !program.secrets.is_empty()) {
        let shown = mount.display();
        let problem = format!("secrets are files in {SECRETS}, and {shown} would be there: open less of it");
        found.at("secrets", Err(Failed::own(problem)));
    }
    let mut names = BTreeSet::new();
    for secret in program.secrets.iter().take(MOST_SECRETS) {
        let name = &secret.name;
        let problem = if !is_name(name) {
            Some("wanted letters, digits, -, _ and ., beginning with a letter or digit".into())
        } else if !names.insert(name) {
            Some("it is there twice".into())
        } else {
            given_files::secret(&secret.from).err()
        };
        let failed = |problem: Reason| Err(Failed::own(format!("secret {name}: {problem}")));
        found.note(&["secrets", name], None, problem.map_or(Ok(()), failed));
    }
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
fn check_apart(program: &Program, shown: &PathBuf) -> Result<(), Failed> {
    let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let itself = program.argv.first().map(|name| program.workdir.join(OsStr::from_bytes(name)));
    if *shown == program.workdir || Some(shown) == itself.as_ref() {
        return Ok(());
    }
    if let Some(opened) = program.writable.iter().find(|opened| real(shown).starts_with(real(opened))) {
        return Err(Failed::own(format!(
            "{} was to be read only, and lies in {}, which is opened for writing, all of it; open by name what \
             lies beside it, or take --ro away",
            shown.display(),
            opened.display()
        )));
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
        Ok(lookup::LookupKind::Elf { is_static: true }) => {}
        Ok(lookup::LookupKind::Elf { .. }) => {
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
