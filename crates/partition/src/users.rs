//! Users of this host: read from `/etc/passwd` and `/etc/group` (passwd(5), group(5)). A static program cannot load the C
//! library's further sources of users; who is only known there is named by number.

use std::fs::{self, File};
use std::io::Read;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use nix::unistd::{Gid, getgid, getgroups, getuid};
use rustix::fs::{OFlags, ResolveFlags};

use model::partition::UserIds;
use units::Reason;

/// Longest file of users that is read.
const MOST_BYTES: u64 = 16 << 20;

/// `PATH` of programs that are given none.
pub const USUAL_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A user with its home.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundUser {
    /// Its numbers.
    pub ids: UserIds,
    /// Its home.
    pub home: String,
}

/// A user by name or number; without one, ourselves with our own groups.
///
/// # Errors
/// When there is no user of that name.
pub fn find(name: Option<&str>) -> Result<FoundUser, Reason> {
    let (passwd, group) = (text("/etc/passwd"), text("/etc/group"));
    if let Some(name) = name {
        return look_up(&passwd, &group, name, None);
    }
    let groups = getgroups().unwrap_or_default().into_iter().map(Gid::as_raw).collect();
    let ids = UserIds { uid: getuid().as_raw(), gid: getgid().as_raw(), groups };
    let home = look_up(&passwd, &group, &ids.uid.to_string(), None)?.home;
    Ok(FoundUser { ids, home })
}

/// `USER[:GROUP]` of another tree, by its own files, which are not followed out of it. With a group it has no others.
///
/// # Errors
/// When there is no user or group of that name.
pub fn find_in(root: &Path, named: &str) -> Result<FoundUser, Reason> {
    let (passwd, groups) = (text_in(root, "etc/passwd"), text_in(root, "etc/group"));
    let (who, group) = named.split_once(':').map_or((named, None), |(who, group)| (who, Some(group)));
    let whose = |problem: Reason| format!("the image's {problem}");
    // Who is not in it has group 0, as with container engines.
    let mut found = look_up(&passwd, &groups, who, Some(0)).map_err(whose)?;
    if let Some(group) = group {
        let gid = group_in(&groups, group).map_err(whose)?;
        found.ids = UserIds { gid, groups: Vec::new(), ..found.ids };
    }
    Ok(found)
}

/// Number of a group by name or number.
///
/// # Errors
/// When there is no group of that name.
pub fn group(wanted: &str) -> Result<u32, Reason> {
    group_in(&text("/etc/group"), wanted)
}

fn group_in(groups: &str, wanted: &str) -> Result<u32, Reason> {
    let named = groups.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let [name, _, gid, ..] = fields.as_slice() else { return None };
        if *name == wanted { gid.parse().ok() } else { None }
    });
    let missing = || format!("/etc/group has no group \"{wanted}\"; what is not in it is named by number");
    named.or_else(|| wanted.parse().ok()).ok_or_else(|| missing().into())
}

/// Our own home: the one that the environment names, else that of `/etc/passwd`, when it is there.
pub fn own_home() -> Option<PathBuf> {
    let named = std::env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    named.or_else(|| find(None).ok().map(|found| PathBuf::from(found.home)).filter(|home| home.is_dir()))
}

/// Homes of all users of this host but those that stand for none, and the one that the environment names; without links.
pub fn homes() -> Vec<PathBuf> {
    const NONE: [&str; 12] = [
        "/",
        "/nonexistent",
        "/bin",
        "/sbin",
        "/usr/bin",
        "/usr/sbin",
        "/usr/games",
        "/dev",
        "/proc",
        "/run",
        "/tmp",
        "/var/tmp",
    ];
    let is_home = |home: &&str| !NONE.contains(home);
    let passwd = text("/etc/passwd");
    let own = std::env::var("HOME").ok().filter(|home| home.len() > 1);
    let named =
        passwd.lines().filter_map(|line| line.split(':').nth(5)).filter(is_home).map(ToOwned::to_owned);
    named.chain(own).map(|home| fs::canonicalize(&home).unwrap_or(home.into())).collect()
}

fn text(path: &str) -> String {
    File::open(Path::new(path)).map(text_of).unwrap_or_default()
}

/// What is in a file of another tree; a link there leads within, a pipe makes nobody wait.
fn text_in(root: &Path, path: &str) -> String {
    let open = || {
        let root = File::open(root).ok()?;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let opened = images::open_in_root(root.as_fd(), path.as_bytes(), flags, ResolveFlags::empty());
        let file = File::from(opened.ok()?);
        file.metadata().is_ok_and(|meta| meta.is_file()).then_some(file)
    };
    open().map(text_of).unwrap_or_default()
}

fn text_of(file: File) -> String {
    let mut text = Vec::new();
    // What cannot be read has no users.
    let _ = file.take(MOST_BYTES).read_to_end(&mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// A user by these files. `strangers` is the group of who is in none of them; without it they have one of their own number.
fn look_up(passwd: &str, group: &str, wanted: &str, strangers: Option<u32>) -> Result<FoundUser, Reason> {
    let number: Option<u32> = wanted.parse().ok();
    for line in passwd.lines() {
        let fields: Vec<&str> = line.split(':').collect();
        let [name, _, uid, gid, _, home, ..] = fields.as_slice() else { continue };
        let (Ok(uid), Ok(gid)) = (uid.parse::<u32>(), gid.parse::<u32>()) else { continue };
        if *name == wanted || number == Some(uid) {
            let ids = UserIds { uid, gid, groups: groups(group, name, gid) };
            return Ok(FoundUser { ids, home: (*home).to_owned() });
        }
    }
    match number {
        Some(number) => {
            let gid = strangers.unwrap_or(number);
            let ids = UserIds { uid: number, gid, groups: vec![gid] };
            Ok(FoundUser { ids, home: "/".to_owned() })
        }
        None => {
            Err(format!("/etc/passwd has no user \"{wanted}\"; who is not in it is named by number").into())
        }
    }
}

/// Numbers of the groups that list a user, its own one first.
fn groups(group: &str, user: &str, own: u32) -> Vec<u32> {
    let listed = group.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let [_, _, gid, members, ..] = fields.as_slice() else { return None };
        members.split(',').any(|member| member == user).then(|| gid.parse::<u32>().ok()).flatten()
    });
    let mut groups = vec![own];
    groups.extend(listed.filter(|gid| *gid != own));
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\n+bad\nalice:x:1000:100::/home/alice:/bin/sh\n";
    const GROUP: &str = "root:x:0:\nusers:x:100:alice\nkvm:x:104:bob,alice\n";

    #[test]
    fn users_are_found_by_name_and_number() {
        let alice = look_up(PASSWD, GROUP, "alice", None).expect("there");
        assert_eq!((alice.ids.uid, alice.ids.gid, alice.home.as_str()), (1000, 100, "/home/alice"));
        assert_eq!(alice.ids.groups, [100, 104]);
        assert_eq!(look_up(PASSWD, GROUP, "1000", Some(0)), Ok(alice));
        assert_eq!(look_up(PASSWD, GROUP, "7", None).expect("any number").ids.gid, 7);
        assert_eq!(look_up(PASSWD, GROUP, "7", Some(0)).expect("any number").ids.gid, 0);
        assert!(look_up(PASSWD, GROUP, "bob", None).is_err());
        assert_eq!(find(None).expect("ourselves").ids.uid, getuid().as_raw());
    }
}
