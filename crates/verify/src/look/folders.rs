//! Folders and volumes that two partitions both write, whatever they are called: links are followed.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use model::partition::set::PartitionUnit;
use model::partition::{Content, Volume};

/// How many pairs of them are the same, or one within the other.
pub fn shared(one: &PartitionUnit, other: &PartitionUnit) -> usize {
    let others = written(other);
    let count = |a: &PathBuf| others.iter().filter(|b| is_shared(a, b)).count();
    written(one).iter().map(count).sum()
}

fn written(unit: &PartitionUnit) -> Vec<PathBuf> {
    let Content::Program(program) = &unit.spec.content else { return Vec::new() };
    let folders = program.writable.iter().cloned().chain(program.binds.iter().map(|bind| bind.from.clone()));
    let all = folders.chain(program.volumes.iter().map(Volume::files));
    // What is not there is shared by name, if at all.
    all.map(|path| path.canonicalize().unwrap_or(path)).collect()
}

fn is_shared(one: &Path, other: &Path) -> bool {
    let number = |path: &Path| fs::metadata(path).ok().map(|about| (about.dev(), about.ino()));
    let is_same = number(one).is_some() && number(one) == number(other);
    is_same || one.starts_with(other) || other.starts_with(one)
}
