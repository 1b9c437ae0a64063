//! Network cards and disks that have hardware behind them, and the memory node at which each hangs.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::super::topology::text;
use model::system::CardShape;
use units::Bytes;

/// Most entries of a folder of devices that are looked at; a host with many partitions has a tap for each.
const MOST_ENTRIES: usize = 16 * 1024;
/// Most cards, and most disks, that a shape can have.
const MOST_DEVICES: usize = 64;
/// How far above a device its node may be told: of a virtio card by the PCI device that it is behind.
const MOST_PARENTS: usize = 6;

/// A disk that was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenDisk {
    /// Its name.
    pub name: String,
    /// The memory node it hangs at, where that is known.
    pub node: Option<u32>,
    /// Names of what lies on it, itself included: partitions, and devices that are made of it or of these.
    pub holds: BTreeSet<String>,
}

/// Cards whose rate is known, by name; of the others `remarks` say why they are left out.
pub(super) fn cards(root: &Path, nodes: &BTreeSet<u32>, remarks: &mut Vec<String>) -> Vec<CardShape> {
    let mut cards = Vec::new();
    for (name, path) in entries(&root.join("sys/class/net")) {
        // Loopback, bridges, bonds, taps, virtual cables have none; a card's virtual functions are parts of it.
        if !path.join("device").exists() || path.join("device/physfn").exists() {
            continue;
        }
        let node = node_of(&path, nodes);
        let Some(bytes_per_s) = rate(&path) else {
            let at = node.map_or_else(String::new, |node| format!(", node = {node}"));
            remarks.push(format!(
                "card {name} is left out: it does not say how fast it is (no link, or a virtual one). Write it into the system's file: \
                 nic = [{{ name = \"{name}\"{at}, bytes_per_s = … }}]"
            ));
            continue;
        };
        cards.push(CardShape { name, node, bytes_per_s, receivers: None });
    }
    if cards.len() > MOST_DEVICES {
        remarks
            .push(format!("{} cards are more than {MOST_DEVICES}: the last ones are left out", cards.len()));
        cards.truncate(MOST_DEVICES);
    }
    cards
}

/// What a card carries in one direction: `speed` is in 10⁶ bits per second. Nobody knows which way partitions will send, and both
/// together may then go one way.
fn rate(card: &Path) -> Option<Bytes> {
    let speed: u64 = text(&card.join("speed")).ok()?.trim().parse().ok()?;
    // Drivers that do not know say −1, and some all ones as an unsigned number.
    let is_one = speed > 0 && speed < u64::from(u32::MAX);
    is_one.then(|| Bytes::from_bytes(speed.saturating_mul(125_000)))
}

/// Whole disks, by name.
pub(super) fn disks(root: &Path, nodes: &BTreeSet<u32>) -> Vec<SeenDisk> {
    let is_one = |file: &Path| text(file).is_ok_and(|text| text.trim() == "1");
    let is_empty = |path: &Path| text(&path.join("size")).is_ok_and(|text| text.trim() == "0");
    let all = entries(&root.join("sys/block")).into_iter().filter(|(_, path)| {
        // What can be taken out is nothing to plan with; hidden ones are paths to one that shows.
        path.join("device").exists()
            && !is_one(&path.join("removable"))
            && !is_one(&path.join("hidden"))
            && !is_empty(path)
    });
    let seen =
        all.map(|(name, path)| SeenDisk { node: node_of(&path, nodes), holds: holds(&name, &path), name });
    seen.take(MOST_DEVICES).collect()
}

/// The disk, its partitions, and what is made of these.
fn holds(name: &str, path: &Path) -> BTreeSet<String> {
    let partitions = entries(path).into_iter().filter(|(_, path)| path.join("partition").exists());
    let mut all = BTreeSet::new();
    for (name, path) in std::iter::once((name.to_owned(), path.to_owned())).chain(partitions) {
        all.extend(entries(&path.join("holders")).into_iter().map(|(name, _)| name));
        all.insert(name);
    }
    all
}

/// The memory node of a device: told by it or by what it is behind. None where that is not known, or is no node of this host.
fn node_of(entry: &Path, nodes: &BTreeSet<u32>) -> Option<u32> {
    let device = fs::canonicalize(entry.join("device")).ok()?;
    let told =
        device.ancestors().take(MOST_PARENTS).find_map(|folder| text(&folder.join("numa_node")).ok())?;
    told.trim().parse().ok().filter(|node| nodes.contains(node))
}

/// Names and paths in a folder, sorted by name; none where it cannot be read.
fn entries(folder: &Path) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().take(MOST_ENTRIES);
    let mut all: Vec<(String, PathBuf)> =
        entries.filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path()))).collect();
    all.sort();
    all
}
