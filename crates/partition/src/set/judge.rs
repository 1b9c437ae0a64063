//! All that stands against a set before anything of it is started: what its file says of keys, and what this host says of what they name.
//! Each is told at the key that says so.

use std::path::Path;

use super::images::{self, Images};
use super::ports;
use super::resolve::{self, Kept};
use crate::image::Around;
use crate::place;
use crate::run::{self, Obstacle};
use model::partition::ImageEntry;
use model::partition::set::{
    Fault, Faults, FoundBy, PartitionEntry, PartitionSet, PartitionUnit, Tools, USUAL_MEMORY, UnitSpec,
};

/// What changes one of a partition's resources to what asks for nothing.
type Without = (&'static str, fn(&mut PartitionEntry));

/// Resources of a partition by their keys.
const RESOURCES: [Without; 10] = [
    ("hugepages", |entry| entry.hugepages = false),
    ("realtime", |entry| entry.realtime = None),
    ("nice", |entry| entry.nice = None),
    ("cpu_weight", |entry| entry.cpu_weight = None),
    ("cpu_cap_percent", |entry| entry.cpu_cap_percent = None),
    ("guest_nodes", |entry| entry.guest_nodes = 1),
    ("node", |entry| entry.node = None),
    ("pin", |entry| entry.pin = None),
    ("memory_mib", |entry| entry.memory_mib = USUAL_MEMORY),
    ("cpus", |entry| entry.cpus = 1),
];

/// What is to be kept of a set whose file is faultless, if this host can hold it; all that is wrong otherwise. Images are made ready.
///
/// # Errors
/// Everything that stands against it.
pub fn checked(
    set: &PartitionSet,
    tools: &Tools,
    folder: &Path,
    is_wanted: &dyn Fn() -> bool,
    tell: &mut dyn FnMut(&str),
) -> Result<Vec<Kept>, Vec<Fault>> {
    let mut faults = Faults::default();
    let images = images::of(set, &mut Around { cache: &tools.cache, is_wanted, tell }, &mut faults);
    let (kept, here) = judged(set, tools, folder, &images);
    let mut all = Vec::from(faults);
    all.extend(here);
    if all.is_empty() { Ok(kept) } else { Err(all) }
}

/// What this host says against a set, without looking into its images, which costs time: for one whose file is wrong already.
pub fn faults_here(set: &PartitionSet, tools: &Tools, folder: &Path) -> Vec<Fault> {
    let mut faults = Faults::default();
    let mut around = Around { cache: &tools.cache, is_wanted: &|| true, tell: &mut |_| () };
    images::absent(set, &mut around, &mut faults);
    let mut all = Vec::from(faults);
    all.extend(judged(set, tools, folder, &Images::new()).1);
    all
}

/// What can be kept of a set, and what this host says against the rest.
fn judged(set: &PartitionSet, tools: &Tools, folder: &Path, images: &Images) -> (Vec<Kept>, Vec<Fault>) {
    let mut found = Faults::default();
    let kept = resolve::kept(set, tools, folder, images, &mut found);
    let mut all = Vec::from(found);
    all.extend(set.check_on(&resolve::host_size()));
    let mut known = all.clone();
    known.extend(set.check());
    known.extend(unread(set, images));
    for unit in kept.iter().filter_map(|one| match &one.unit {
        UnitSpec::Partition(unit) => Some(unit),
        UnitSpec::Switch(_) => None,
    }) {
        let Some(entry) = set.partitions.get(&unit.spec.name) else { continue };
        let found = of_partition(entry, unit, folder, &known);
        all.extend(
            found.into_iter().filter(|fault| !known.iter().any(|told| fault.may_follow(told, FoundBy::Host))),
        );
    }
    (kept, all)
}

/// Images that are not there, at which what depends on them cannot be judged. Why is told elsewhere.
fn unread(set: &PartitionSet, images: &Images) -> Vec<Fault> {
    let missing = set
        .partitions
        .iter()
        .filter(|(name, entry)| matches!(entry.image, ImageEntry::Root(_)) && !images.contains_key(*name));
    missing.map(|(name, _)| Fault::new(&["partition", name, "image"], "")).collect()
}

fn of_partition(entry: &PartitionEntry, unit: &PartitionUnit, folder: &Path, known: &[Fault]) -> Vec<Fault> {
    let name = unit.spec.name.as_str();
    let is_told = |fault: &Fault| {
        let ["partition", of, key] = fault.path.iter().map(String::as_str).collect::<Vec<_>>()[..] else {
            return false;
        };
        of == name && RESOURCES.iter().any(|(resource, _)| *resource == key)
    };
    // Where a number is told to be wrong already, this would say so once more.
    let mut found: Vec<Fault> =
        if known.iter().any(is_told) { Vec::new() } else { resources(name, entry).into_iter().collect() };
    // That it names no program the file tells by itself.
    let names_none = entry.program.is_empty() && matches!(entry.image, ImageEntry::Disk(_));
    let obstacles = run::obstacles(&unit.spec).into_iter();
    let of_the_rest =
        obstacles.filter(|one| !(names_none && one.keys.first().is_some_and(|key| key == "program")));
    found.extend(of_the_rest.map(|obstacle| fault(name, entry, obstacle)));
    found.extend(ports::faults(folder, unit));
    found
}

/// What this host cannot give, at the key without which it could.
fn resources(name: &str, entry: &PartitionEntry) -> Option<Fault> {
    let problem = place::possible(&resolve::resources(entry)).err()?;
    let is_it = |(_, change): &&Without| {
        let mut other = entry.clone();
        change(&mut other);
        place::possible(&resolve::resources(&other)).is_ok()
    };
    let key = RESOURCES.iter().find(is_it).map(|(key, _)| *key);
    let path: Vec<&str> = ["partition", name].into_iter().chain(key).collect();
    Some(Fault::new(&path, problem))
}

/// At its key. With an image as its root what is not said of files is the image's.
fn fault(name: &str, entry: &PartitionEntry, obstacle: Obstacle) -> Fault {
    let has_image = matches!(entry.image, ImageEntry::Root(_));
    let of_image = |key: &str| key == "files" || (key == "program" && entry.program.is_empty());
    let keys = obstacle.keys.iter().map(|key| match key.as_str() {
        key if has_image && of_image(key) => "image",
        key => key,
    });
    let path: Vec<&str> = ["partition", name].into_iter().chain(keys).collect();
    let fault = Fault::new(&path, obstacle.failed.reason);
    match obstacle.item {
        Some(item) => fault.item(item),
        None => fault,
    }
}
