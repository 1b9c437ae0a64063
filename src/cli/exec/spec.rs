//! From the arguments of `exec` to a partition.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use nix::unistd::{getegid, geteuid, getgroups};

use super::args::{ExecArgs, Net, ResourceArgs, SightArgs};
use super::terminal;
use crate::model::partition::{
    Bind, CardSpec, Content, DiskSpec, Files, PartitionSpec, Priority, Program, Resources, UserIds, Word,
    is_name,
};
use crate::model::units::{Bytes, Mebibytes};
use crate::platforms::vm::toolbox::memory_for;

/// What a partition gets unless said otherwise, less what a guest's system takes (see `memory_for`).
const USUAL_MEMORY: Bytes = Bytes::from_bytes(768 << 20);
/// Least memory a guest boots with.
const LEAST_MIB: u64 = 128;

/// The partition that was asked for.
pub fn partition(args: &ExecArgs) -> Result<PartitionSpec> {
    let program = program(args)?;
    let cards = if args.sight.net == Net::User { vec![CardSpec::User] } else { Vec::new() };
    Ok(PartitionSpec {
        name: name(&program),
        content: Content::Program(Box::new(program)),
        resources: resources(&args.resources)?,
        disks: args.sight.disk.iter().map(disk).collect(),
        cards,
    })
}

/// The program's own name, where it can be a name of a machine.
fn name(program: &Program) -> String {
    let file = program.argv.first().and_then(|word| Path::new(OsStr::from_bytes(word)).file_name());
    let name = file.unwrap_or_default().to_string_lossy().into_owned();
    if is_name(&name) { name } else { "partition".to_owned() }
}

fn program(args: &ExecArgs) -> Result<Program> {
    let sight = &args.sight;
    let files = match sight.files.as_os_str().as_bytes() {
        b"host" => Files::Host,
        b"none" => Files::None,
        _ => Files::Tree(absolute(&sight.files)?),
    };
    let workdir = match (&sight.workdir, &files) {
        (Some(folder), _) => folder.clone(),
        (None, Files::Host) => std::env::current_dir().context("the current folder")?,
        (None, _) => PathBuf::from("/"),
    };
    Ok(Program {
        argv: args.command.iter().map(|word| word.as_bytes().to_vec()).collect(),
        env: environment(sight)?,
        workdir,
        user: user(sight.user.as_deref())?,
        files,
        writable: sight.rw.iter().map(|path| absolute(path)).collect::<Result<_>>()?,
        binds: sight.bind.iter().map(bind).collect::<Result<_>>()?,
        terminal: args.terminal.then(terminal::size),
    })
}

fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("the path \"{}\"", path.display()))
}

fn environment(sight: &SightArgs) -> Result<Vec<(Word, Word)>> {
    let mut variables: Vec<(Word, Word)> = Vec::new();
    if !sight.env_clear {
        variables.extend(std::env::vars_os().map(|(name, value)| (name.into_vec(), value.into_vec())));
    }
    for word in &sight.env {
        let (name, value) = halves(word, b'=')
            .filter(|(name, _)| !name.is_empty())
            .ok_or_else(|| anyhow!("--env {}: NAME=VALUE was wanted", word.to_string_lossy()))?;
        variables.retain(|(known, _)| *known != name);
        variables.push((name, value));
    }
    Ok(variables)
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
        pin: pin.map_err(|error: String| anyhow!("--pin: {error}"))?,
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

/// `512MiB`, `512M`, `2GiB`, `2G`: whole mebibytes, all powers of two.
fn memory(text: &str) -> Result<Mebibytes> {
    let wanted =
        || anyhow!("--memory {text}: a size such as 512MiB or 2GiB was wanted, at least {LEAST_MIB}MiB");
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| wanted())?;
    let mib = match unit.trim().to_ascii_lowercase().as_str() {
        "m" | "mb" | "mib" => number,
        "g" | "gb" | "gib" => number.saturating_mul(1024),
        _ => return Err(wanted()),
    };
    if mib < LEAST_MIB { Err(wanted()) } else { Ok(Mebibytes::from_mib(mib)) }
}

/// Numbers of a user. Names are looked up in the host's own files, which are what a static program can read.
fn user(text: Option<&str>) -> Result<UserIds> {
    let Some(text) = text else {
        let groups = getgroups().unwrap_or_default().into_iter().map(nix::unistd::Gid::as_raw).collect();
        return Ok(UserIds { uid: geteuid().as_raw(), gid: getegid().as_raw(), groups });
    };
    let (who, group) = text.split_once(':').map_or((text, None), |(who, group)| (who, Some(group)));
    let known = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let by_name = known
        .lines()
        .map(|line| line.split(':').collect::<Vec<_>>())
        .find(|fields| fields.first() == Some(&who) || (fields.get(2) == Some(&who)));
    let number = |field: Option<&&str>| field.and_then(|text| text.parse::<u32>().ok());
    let uid = by_name.as_ref().and_then(|fields| number(fields.get(2))).or_else(|| who.parse().ok());
    let Some(uid) = uid else { bail!("--user {text}: there is no user \"{who}\" in /etc/passwd") };
    let own_gid = by_name.as_ref().and_then(|fields| number(fields.get(3)));
    let gid = match group {
        None => own_gid.unwrap_or(uid),
        Some(group) => gid(group).ok_or_else(|| anyhow!("--user {text}: there is no group \"{group}\""))?,
    };
    let name = by_name.and_then(|fields| fields.first().map(|name| (*name).to_owned()));
    let groups =
        if group.is_none() { name.map(|name| groups_of(&name)).unwrap_or_default() } else { Vec::new() };
    Ok(UserIds { uid, gid, groups })
}

fn group_file() -> Vec<Vec<String>> {
    let text = std::fs::read_to_string("/etc/group").unwrap_or_default();
    text.lines().map(|line| line.split(':').map(str::to_owned).collect()).collect()
}

fn gid(group: &str) -> Option<u32> {
    let lines = group_file();
    let named = lines.iter().find(|fields| fields.first().is_some_and(|name| name == group));
    named.and_then(|fields| fields.get(2)?.parse().ok()).or_else(|| group.parse().ok())
}

fn groups_of(name: &str) -> Vec<u32> {
    let member =
        |fields: &Vec<String>| fields.get(3).is_some_and(|all| all.split(',').any(|one| one == name));
    group_file()
        .iter()
        .filter(|fields| member(fields))
        .filter_map(|fields| fields.get(2)?.parse().ok())
        .collect()
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
