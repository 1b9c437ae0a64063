//! Who is called how in a guest: `/etc/hosts`, `/etc/hostname` and `/etc/resolv.conf`, replaced in the throw-away layer only. Over a saved layer they are
//! mounts in memory: who is called how is of this start, and no later one is to find it.
//!
//! ```text
//!  127.0.0.1 localhost       if the host's file does not say so
//!  10.77.1.1 db              partitions of the set, those of this guest's networks
//!  …                         the host's own lines, without the names above
//! ```
//! The C library takes all addresses of a name together (`multi on`, host.conf(5)), so none may be there twice.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Read};
use std::path::Path;

use nix::mount::{MntFlags, MsFlags, mount, umount2};

use super::super::guest::WayOut;
use super::super::pid1::say;
use model::partition::network::NamedAddress;

const HOSTS: &str = "/etc/hosts";
const OWN_NAME: &str = "/etc/hostname";
const RESOLVER: &str = "/etc/resolv.conf";
/// Where a file is made that is shown elsewhere.
const ASIDE: &str = "/dev/.names";
/// Longest file of names that is read; a longer one is cut there.
const MOST_BYTES: u64 = 1 << 20;

/// Writes what is to be known. A guest whose program has nothing to write to does without.
pub fn write(way: Option<WayOut>, names: &[NamedAddress], own: &str, is_saved: bool) {
    let put = |path: &str, text: &str| {
        if let Err(error) = if is_saved { cover(path, text) } else { replace(path, text) } {
            say(&format!("{path}: {error}"));
        }
    };
    if let Some(way) = way {
        // The host's own name servers may be at addresses that mean nothing here.
        put(RESOLVER, &format!("nameserver {}\n", way.names));
    }
    // Without a network a saved layer keeps these files as its programs left them.
    if is_saved && names.is_empty() {
        return;
    }
    // Without one, ours is the first.
    let old = text_of(HOSTS);
    let new = merged(&old, names, own);
    if new != old {
        put(HOSTS, &new);
    }
    if !is_saved && text_of(OWN_NAME).trim() != own {
        put(OWN_NAME, &format!("{own}\n"));
    }
}

/// What stands in a file, nothing where it is not there.
fn text_of(path: &str) -> String {
    let mut bytes = Vec::new();
    let _ = fs::File::open(path).and_then(|file| file.take(MOST_BYTES).read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

fn replace(path: &str, text: &str) -> io::Result<()> {
    fs::create_dir_all("/etc")?;
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::write(path, text)
}

/// Shows it there without changing what lies there, unless that is no file.
fn cover(path: &str, text: &str) -> io::Result<()> {
    if !fs::symlink_metadata(path).is_ok_and(|found| found.is_file()) {
        replace(path, "")?;
    }
    fs::create_dir_all(ASIDE)?;
    mount(Some("tmpfs"), ASIDE, Some("tmpfs"), MsFlags::empty(), Some("mode=0755"))?;
    let file = Path::new(ASIDE).join("names");
    fs::write(&file, text)?;
    mount(Some(&file), path, None::<&str>, MsFlags::MS_BIND, None::<&str>)?;
    umount2(ASIDE, MntFlags::MNT_DETACH)?;
    fs::remove_dir(ASIDE)
}

/// The lines of `old` behind ours, without our names. The guest's own name leads to itself, unless somebody says otherwise.
fn merged(old: &str, names: &[NamedAddress], own: &str) -> String {
    let is_ours = |word: &str| names.iter().any(|named| named.name == word);
    let is_there = |name: &str| old.lines().any(|line| words(line).skip(1).any(|word| word == name));
    let mut text = String::new();
    if !is_there("localhost") {
        text.push_str("127.0.0.1\tlocalhost\n");
    }
    if !own.is_empty() && !is_ours(own) && !is_there(own) {
        let _ = writeln!(text, "127.0.1.1\t{own}");
    }
    for named in names {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}\t{}", named.address, named.name);
    }
    for line in old.lines() {
        if !words(line).skip(1).any(is_ours) {
            let _ = writeln!(text, "{line}");
            continue;
        }
        let rest: Vec<&str> = words(line)
            .enumerate()
            .filter(|(place, word)| *place == 0 || !is_ours(word))
            .map(|(_, word)| word)
            .collect();
        if rest.len() > 1 {
            let _ = writeln!(text, "{}", rest.join("\t"));
        }
    }
    text
}

/// Address and names of a line, without what is said about them (hosts(5)).
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split('#').next().unwrap_or_default().split_whitespace()
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn the_sets_names_come_first_and_once() {
        let at = |last: u8, name: &str| NamedAddress {
            address: Ipv4Addr::new(10, 77, 1, last),
            name: name.to_owned(),
        };
        let names = [at(1, "db"), at(2, "plc")];
        let old = "127.0.0.1 localhost\n127.0.1.1 plc # once\n192.0.2.7 db.example.org db files\n# db\n::1 ip6-localhost";
        assert_eq!(
            merged(old, &names, "db"),
            "10.77.1.1\tdb\n10.77.1.2\tplc\n127.0.0.1 localhost\n192.0.2.7\tdb.example.org\tfiles\n# db\n::1 ip6-localhost\n"
        );
        assert_eq!(merged("", &names[..1], "me"), "127.0.0.1\tlocalhost\n127.0.1.1\tme\n10.77.1.1\tdb\n");
        assert_eq!(merged("127.0.0.1 localhost me\n", &[], "me"), "127.0.0.1 localhost me\n");
    }
}
