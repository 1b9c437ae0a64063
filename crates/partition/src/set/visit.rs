//! A program that is no part of a set, in one of its networks: while it runs it has a number there that no partition of
//! the set has.
//!
//! ```text
//!  l/control.0/254.taken   locked by who has the number; free again when he ends, however he does
//!  l/control.0/254.sock    his plug; the switch finds it like any other
//! ```

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::net::Ipv4Addr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;

use super::resolve::links;
use super::{folder, root};
use crate::network::switch::socket_name;
use model::partition::CardSpec;
use model::partition::network::NamedAddress;
use model::partition::set::Wiring;
use units::Reason;
use units::names::hint;

/// A number in a network, for as long as this lives.
#[derive(Debug)]
pub struct Visit {
    /// The card that is plugged in.
    pub card: CardSpec,
    address: Ipv4Addr,
    others: Vec<NamedAddress>,
    sockets: Vec<PathBuf>,
    /// Locked.
    _taken: File,
}

/// Takes a free number in `network` of the set `name`, which must be up.
///
/// # Errors
/// There is no such set or network, it cannot be reached, or all its numbers are taken.
pub fn visit(state_root: &Path, name: &str, network: &str) -> Result<Visit, Reason> {
    let path = state_root.join(name);
    if let Err(error) = root::check_private(&path)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(format!("set \"{name}\": {error}").into());
    }
    let record = folder::read_set(&path)
        .ok_or_else(|| format!("no set \"{name}\" is up; bulkhead ps shows which are"))?;
    let known: Vec<&str> = record.set.networks.keys().map(String::as_str).collect();
    let Some(entry) = record.set.networks.get(network) else {
        let hint = hint(network, &known);
        return Err(format!("set \"{name}\" has no network \"{network}\"{hint}").into());
    };
    let wiring = record.set.wiring().map_err(|fault| format!("set \"{name}\": {}", fault.problem))?;
    let wires = wiring.get(network).ok_or_else(|| format!("network \"{network}\" has no addresses"))?;
    let folders: Vec<PathBuf> =
        links(network, entry.links).map(|link| folder::of_link(&path, &link)).collect();
    let first = folders.first().ok_or_else(|| format!("network \"{network}\" has no links"))?;
    let (number, taken) = take_number(first, wires)
        .map_err(|error| format!("network \"{network}\" of set \"{name}\", {}: {error}", first.display()))?
        .ok_or_else(|| format!("all numbers of network \"{network}\" are taken"))?;
    let sockets: Vec<PathBuf> = folders.iter().map(|folder| folder.join(socket_name(number))).collect();
    let card = CardSpec::Switch {
        network: network.to_owned(),
        sockets: sockets.clone(),
        number,
        address: wires.subnet.address(number),
    };
    Ok(Visit { card, address: wires.subnet.host(number), others: wires.names(), sockets, _taken: taken })
}

/// From the top: partitions of the set have the lowest ones.
fn take_number(link: &Path, wires: &Wiring) -> io::Result<Option<(u8, File)>> {
    let is_theirs = |number: &u8| wires.members.values().any(|member| member.number == *number);
    for number in (1..=254).rev().filter(|number| !is_theirs(number)) {
        let mut options = OpenOptions::new();
        // The switch writes there, too, and may have been taken over: no link of it is followed, no pipe of it waited for.
        let file = options.create(true).truncate(false).write(true).mode(0o600);
        let file = file.custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits());
        let file = match file.open(link.join(format!("{number}.taken"))) {
            Ok(file) if file.metadata()?.is_file() => file,
            // What it is instead, is in use as far as we are concerned.
            Ok(_) => continue,
            Err(error) if matches!(error.raw_os_error(), Some(libc::ELOOP | libc::ENXIO | libc::EISDIR)) => {
                continue;
            }
            Err(error) => return Err(error),
        };
        match file.try_lock() {
            Ok(()) => return Ok(Some((number, file))),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Ok(None)
}

impl Visit {
    /// Who is there, by name: the set's partitions, and the visitor, unless one of them is called so.
    pub fn names_for(&self, visitor: &str) -> Vec<NamedAddress> {
        let mut names = self.others.clone();
        if names.iter().all(|named| named.name != visitor) {
            names.push(NamedAddress { address: self.address, name: visitor.to_owned() });
        }
        names
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        // The machine has ended; whoever gets the number next makes them anew.
        for socket in &self.sockets {
            let _ = fs::remove_file(socket);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    use super::*;

    /// A switch that was taken over puts what it likes where numbers are taken.
    #[test]
    fn no_link_is_followed_for_a_number_and_no_pipe_waited_for() {
        let link = tempfile::tempdir().unwrap();
        let at = |number: u8| link.path().join(format!("{number}.taken"));
        let (victim, target) = (link.path().join("victim"), link.path().join("target"));
        fs::write(&target, "precious").unwrap();
        mkfifo(&at(254), Mode::S_IRWXU).unwrap();
        symlink(&victim, at(253)).unwrap();
        symlink(&target, at(252)).unwrap();
        fs::create_dir(at(251)).unwrap();
        let _listener = UnixListener::bind(at(250)).unwrap();
        let wires = Wiring { subnet: "10.77.1.0/24".parse().unwrap(), members: BTreeMap::new() };
        let (say, hear) = channel();
        let folder = link.path().to_owned();
        std::thread::spawn(move || say.send(take_number(&folder, &wires)));
        let taken = hear.recv_timeout(Duration::from_secs(20)).expect("it does not wait");
        assert_eq!(taken.unwrap().map(|(number, _)| number), Some(249), "what else lies there is in use");
        assert!(!victim.exists(), "nothing is made through a link");
        assert_eq!(fs::read_to_string(target).unwrap(), "precious");
    }
}
