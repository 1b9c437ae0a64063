//! From the arguments of `exec` to a partition.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};

use super::args::{ExecArgs, Net, ProgramArgs, ResourceArgs, SightArgs};
use super::terminal;
use crate::cli::output;
use model::partition::{
    Bind, CardSpec, Content, DiskSpec, Files, ImageRef, LONGEST_NAME, LayerSpec, PartitionSpec, Priority,
    Program, Resources, SecretSpec, UserIds, Volume, VolumeSpec, Word, boots_with, fits_layer, is_name,
};
use partition::image::{Around, Image, Overrides, Ready, ready};
use partition::set::visit::Visit;
use partition::{given_files, run, users, volume};
use platforms::limits;
use platforms::vm::toolbox::{bounded_memory, memory_for};
use units::{Bytes, Mebibytes, Reason};

/// What a partition gets unless said otherwise, less what a guest's system takes (see `memory_for`).
const USUAL_MEMORY: Bytes = Bytes::from_bytes(768 << 20);

/// Why `--ro` shows nothing beside another tree.
const NOT_SEEN: &str =
    "--ro shows more of this host's files, which the program does not see at all; use --bind";

/// The partition that was asked for; `visit` is its place in the network of a set, if it has one.
pub fn partition(args: &ExecArgs, image: Option<Ready>, visit: Option<&Visit>) -> Result<PartitionSpec> {
    let program = program(args, image)?;
    let cards = match (&args.sight.net, visit) {
        (Net::User, _) => vec![CardSpec::User],
        (Net::Of { .. }, Some(visit)) => vec![visit.card.clone()],
        _ => Vec::new(),
    };
    Ok(PartitionSpec {
        name: name(&program),
        content: Content::Program(Box::new(program)),
        resources: resources(&args.resources)?,
        disks: args.sight.disk.iter().map(disk).collect(),
        cards,
        sections: Vec::new(),
        ports: args.sight.port.clone(),
    })
}

/// The program's own name, where it can be a name of a machine.
fn name(program: &Program) -> String {
    let file = program.argv.first().and_then(|word| Path::new(OsStr::from_bytes(word)).file_name());
    let name = file.unwrap_or_default().to_string_lossy().into_owned();
    if is_name(&name) { name } else { "partition".to_owned() }
}

/// The image that was asked for, made ready.
pub fn image(args: &ExecArgs, cache: &Path) -> Result<Option<Ready>> {
    let Some(named) = &args.sight.image else { return Ok(None) };
    let named = match named {
        ImageRef::Folder(path) => ImageRef::Folder(absolute(path)?),
        ImageRef::Registry(_) => named.clone(),
    };
    let mut tell = |text: &str| output::say(&format!("bulkhead: {text}"));
    let mut around = Around { cache, is_wanted: &|| true, tell: &mut tell };
    ready(&named, &mut around).map(Some).map_err(|problem| anyhow!("--image {problem}"))
}

fn program(args: &ExecArgs, image: Option<Ready>) -> Result<Program> {
    let sight = &args.sight;
    let files = match (image, sight.files.as_os_str().as_bytes()) {
        (Some(Ready::Image(image)), _) => return of_image(args, &image),
        (Some(Ready::Root(root)), _) => Files::Tree(root),
        (None, b"system") => Files::System,
        // "host" is what it was called before.
        (None, b"all" | b"host") => Files::All,
        (None, b"none") => Files::None,
        (None, _) => Files::Tree(absolute(&sight.files)?),
    };
    if args.command.is_empty() {
        return Err(anyhow!(
            "--image: this folder is a root as it is and says no program: give one after --"
        ));
    }
    with_sight(args, given(&args.command, &sight.program, files)?)
}

/// The program of an image; what the command line says counts before what that says.
fn of_image(args: &ExecArgs, image: &Image) -> Result<Program> {
    let said = &args.sight.program;
    if !said.ro.is_empty() {
        return Err(anyhow!("{NOT_SEEN}"));
    }
    let passed = |name: &OsStr| said.env_all || (args.terminal && name == "TERM" && !said.env_clear);
    let beneath = std::env::vars_os().filter(|(name, _)| passed(name));
    let overrides = Overrides {
        words: args.command.iter().map(|word| word.as_bytes().to_vec()).collect(),
        beneath: beneath.map(|(name, value)| (name.into_vec(), value.into_vec())).collect(),
        env: named_variables(said)?,
        without_own_env: said.env_clear,
        workdir: said.workdir.as_deref(),
        user: said.user.as_deref(),
    };
    let writable = said.rw.iter().map(|path| absolute(path)).collect::<Result<_>>()?;
    let program = image.program(overrides).map_err(|problem| anyhow!("--image: {problem}"))?;
    with_sight(args, Program { writable, ..program })
}

/// With what only the program of `exec` is given.
fn with_sight(args: &ExecArgs, program: Program) -> Result<Program> {
    let sight = &args.sight;
    Ok(Program {
        binds: sight.bind.iter().map(bind).collect::<Result<_>>()?,
        volumes: volumes(&sight.volume)?,
        layer: layer(sight)?,
        terminal: args.terminal.then(terminal::size),
        hostname: Some(hostname(sight.hostname.as_deref())?),
        inherited: limits::taken(),
        secrets: sight.secret.iter().map(|word| secret(word)).collect::<Result<_>>()?,
        ..program
    })
}

/// A program with what any in a partition is given.
pub fn given(command: &[OsString], args: &ProgramArgs, files: Files) -> Result<Program> {
    let workdir = match (&args.workdir, &files) {
        // Another tree has its own folders, and none of them is the current one.
        (Some(folder), Files::Tree(_)) => folder.clone(),
        (None, Files::Tree(_)) => PathBuf::from("/"),
        (Some(folder), _) => absolute(folder)?,
        (None, _) => std::env::current_dir().context("the current folder")?,
    };
    if !args.ro.is_empty() && !matches!(files, Files::System | Files::All) {
        return Err(anyhow!("{NOT_SEEN}"));
    }
    let is_system = files == Files::System;
    let folder = (is_system && run::shown_unasked(&workdir).is_ok()).then(|| workdir.clone());
    let itself =
        command.first().and_then(|name| run::named_by_path(Path::new(name), &workdir)).filter(|_| is_system);
    let shown = folder.into_iter().chain(itself);
    let named = args.ro.iter().map(|path| absolute(path)).collect::<Result<Vec<_>>>()?;
    Ok(Program {
        argv: command.iter().map(|word| word.as_bytes().to_vec()).collect(),
        env: environment(args)?,
        workdir,
        user: user(args.user.as_deref())?,
        files,
        readable: named.into_iter().chain(shown).collect(),
        writable: args.rw.iter().map(|path| absolute(path)).collect::<Result<_>>()?,
        ..Program::default()
    })
}

/// Where its changes are kept.
fn layer(sight: &SightArgs) -> Result<Option<LayerSpec>> {
    let Some(folder) = &sight.save else { return Ok(None) };
    let most = |text: &String| {
        fits_layer(size("--save-size", text, 1)?).map_err(|problem| anyhow!("--save-size {text}: {problem}"))
    };
    let size_mib = sight.save_size.as_ref().map(most).transpose()?;
    Ok(Some(LayerSpec { folder: absolute(folder)?, size_mib }))
}

/// Where its volumes lie.
fn volumes(named: &[VolumeSpec]) -> Result<Vec<Volume>> {
    if named.is_empty() {
        return Ok(Vec::new());
    }
    let root = volume::root().map_err(|problem| anyhow!("--volume: {problem}"))?;
    Ok(named.iter().map(|volume| volume.within(&root)).collect())
}

/// The name that was asked for, or this host's.
fn hostname(named: Option<&str>) -> Result<String> {
    if let Some(name) = named {
        let wanted = format!(
            "at most {LONGEST_NAME} letters, digits, -, _ and . were wanted, beginning with a letter or digit"
        );
        return if is_name(name) { Ok(name.to_owned()) } else { Err(anyhow!("--hostname {name}: {wanted}")) };
    }
    let own = nix::unistd::gethostname().context("the name of this host")?;
    Ok(own.to_string_lossy().into_owned())
}

fn secret(word: &OsStr) -> Result<SecretSpec> {
    let shown = word.display();
    let (name, from) = halves(word, b'=').ok_or_else(|| anyhow!("--secret {shown}: NAME=FILE was wanted"))?;
    let name =
        String::from_utf8(name).map_err(|_| anyhow!("--secret {shown}: a name of letters was wanted"))?;
    Ok(SecretSpec { name, from: absolute(Path::new(OsStr::from_bytes(&from)))? })
}

/// A path as seen from the root.
fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("the path \"{}\"", path.display()))
}

/// Says that the folder the program starts in is not shown to it.
pub fn remark(program: &Program) -> Option<Reason> {
    let is_named = |named: &PathBuf| program.workdir.starts_with(named);
    let is_shown =
        program.files != Files::System || program.readable.iter().chain(&program.writable).any(is_named);
    // Who starts at the top does not mean to see all of it.
    if is_shown || program.workdir == Path::new("/") {
        None
    } else {
        run::shown_unasked(&program.workdir).err()
    }
}

/// Variables that are passed on unasked: what programs need to speak and to be found; and `OMP_…`, how many threads they have.
const USUAL_VARIABLES: &str = "PATH HOME USER LOGNAME SHELL PWD TERM COLORTERM NO_COLOR COLUMNS LINES TZ \
    LANG LANGUAGE LC_ALL LC_ADDRESS LC_COLLATE LC_CTYPE LC_IDENTIFICATION LC_MEASUREMENT LC_MESSAGES LC_MONETARY LC_NAME LC_NUMERIC \
    LC_PAPER LC_TELEPHONE LC_TIME";

/// The environment: what is usual of this command's, or all or nothing of it, and what was set.
fn environment(args: &ProgramArgs) -> Result<Vec<(Word, Word)>> {
    let own = std::env::vars_os().map(|(name, value)| (name.into_vec(), value.into_vec()));
    let mut variables: Vec<(Word, Word)> =
        own.filter(|(name, _)| !args.env_clear && (args.env_all || is_usual(name))).collect();
    for (name, value) in named_variables(args)? {
        variables.retain(|(known, _)| *known != name);
        variables.push((name, value));
    }
    Ok(variables)
}

/// Variables as `--env-file` and `--env` name them, each once.
pub fn named_variables(args: &ProgramArgs) -> Result<Vec<(Word, Word)>> {
    let mut variables: Vec<(Word, Word)> = Vec::new();
    for path in &args.env_file {
        let read = given_files::variables(path).map_err(|problem| anyhow!("--env-file {problem}"))?;
        variables.retain(|(known, _)| read.iter().all(|(name, _)| name != known));
        variables.extend(read);
    }
    for word in &args.env {
        let (name, value) = if let Some(pair) = halves(word, b'=') {
            pair
        } else {
            let missing = || {
                let name = word.display();
                anyhow!(
                    "--env {name}: NAME=VALUE was wanted, or the name of a variable that this command has"
                )
            };
            (word.as_bytes().to_vec(), std::env::var_os(word).ok_or_else(missing)?.into_vec())
        };
        if name.is_empty() {
            return Err(anyhow!("--env {}: NAME or NAME=VALUE was wanted", word.display()));
        }
        variables.retain(|(known, _)| *known != name);
        variables.push((name, value));
    }
    Ok(variables)
}

fn is_usual(name: &[u8]) -> bool {
    name.starts_with(b"OMP_") || USUAL_VARIABLES.split(' ').any(|usual| usual.as_bytes() == name)
}

fn halves(word: &OsStr, by: u8) -> Option<(Vec<u8>, Vec<u8>)> {
    let bytes = word.as_bytes();
    let at = bytes.iter().position(|byte| *byte == by)?;
    Some((bytes.get(..at)?.to_vec(), bytes.get(at + 1..)?.to_vec()))
}

fn bind(word: &OsString) -> Result<Bind> {
    let (from, to) =
        halves(word, b':').ok_or_else(|| anyhow!("--bind {}: FROM:TO was wanted", word.to_string_lossy()))?;
    let (from, to) = (PathBuf::from(OsString::from_vec(from)), PathBuf::from(OsString::from_vec(to)));
    Ok(Bind { from: absolute(&from)?, to })
}

fn disk(word: &OsString) -> DiskSpec {
    let bytes = word.as_bytes();
    let (file, read_only) = bytes.strip_suffix(b",ro").map_or((bytes, false), |file| (file, true));
    DiskSpec {
        file: PathBuf::from(OsStr::from_bytes(file)),
        read_only,
        bytes_per_s: None,
        operations_per_s: None,
    }
}

fn resources(args: &ResourceArgs) -> Result<Resources> {
    let memory = args.memory.as_deref().map_or_else(|| Ok(memory_for(USUAL_MEMORY)), memory)?;
    let pin = args.pin.as_deref().map(str::parse).transpose();
    Ok(Resources {
        cpus: args.cpus,
        pin: pin.map_err(|error: Reason| anyhow!("--pin: {error}"))?,
        memory,
        node: args.node,
        hugepages: args.hugepages,
        priority: match (args.nice, args.realtime) {
            (_, Some(priority)) => Priority::Realtime(priority),
            (Some(nice), None) => Priority::Nice(nice),
            (None, None) => Priority::Usual,
        },
        cpu_weight: args.cpu_weight,
        cpu_cap_percent: args.cpu_cap,
        guest_nodes: args.guest_nodes,
    })
}

/// Whether the memory will be the same the next time: not where it is what this host has left at this moment.
pub fn is_memory_settled(args: &ResourceArgs, resources: &Resources) -> bool {
    args.memory.is_some() || resources.memory == bounded_memory(USUAL_MEMORY, None)
}

/// Memory of a partition: a [`size`] with which a guest boots.
pub fn memory(text: &str) -> Result<Mebibytes> {
    boots_with(size("--memory", text, 1)?).map_err(|problem| anyhow!("--memory {text}: {problem}"))
}

/// `512MiB`, `512M`, `2GiB`, `2G`: whole mebibytes, all powers of two, at least so many of them.
pub fn size(option: &str, text: &str, least_mib: u64) -> Result<Mebibytes> {
    let wanted =
        || anyhow!("{option} {text}: a size such as 512MiB or 2GiB was wanted, at least {least_mib}MiB");
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| wanted())?;
    let mib = match unit.trim().to_ascii_lowercase().as_str() {
        "m" | "mb" | "mib" => number,
        "g" | "gb" | "gib" => number.saturating_mul(1024),
        _ => return Err(wanted()),
    };
    if mib < least_mib { Err(wanted()) } else { Ok(Mebibytes::from_mib(mib)) }
}

/// The numbers of `NAME`, `UID`, or either with `:GROUP`.
/// A user, as `--user` names it.
pub fn user(text: Option<&str>) -> Result<UserIds> {
    let (who, group) = match text {
        Some(text) => {
            text.split_once(':').map_or((Some(text), None), |(who, group)| (Some(who), Some(group)))
        }
        None => (None, None),
    };
    let found = users::find(who).map_err(|problem| anyhow!("--user: {problem}"))?;
    let Some(group) = group else { return Ok(found.ids) };
    let gid = users::group(group).map_err(|problem| anyhow!("--user: {problem}"))?;
    Ok(UserIds { gid, groups: Vec::new(), ..found.ids })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        let mib = |text: &str| memory(text).map(Mebibytes::get).ok();
        assert_eq!(["512MiB", "512m", "2G", "1GiB"].map(mib), [Some(512), Some(512), Some(2048), Some(1024)]);
        assert_eq!(["512", "1KiB", "", "-1G", "1.5G", "64M", "99999999999999999999G"].map(mib), [None; 7]);
    }

    #[test]
    fn users_are_names_or_numbers() {
        assert_eq!(user(Some("root")).unwrap().uid, 0);
        let ids = user(Some("4711:4712")).unwrap();
        assert_eq!((ids.uid, ids.gid, ids.groups.len()), (4711, 4712, 0));
        assert_eq!(user(Some("4711")).unwrap().gid, 4711);
        assert!(user(Some("nobody-by-this-name")).is_err());
        assert!(user(Some("root:no-group")).is_err());
    }

    #[test]
    fn words_are_cut_at_the_first_mark() {
        assert_eq!(halves(OsStr::new("A=b=c"), b'='), Some((b"A".to_vec(), b"b=c".to_vec())));
        assert_eq!(halves(OsStr::new("A"), b'='), None);
        let disk = disk(&OsString::from("/a,b,ro"));
        assert_eq!((disk.file, disk.read_only), (PathBuf::from("/a,b"), true));
    }
}
