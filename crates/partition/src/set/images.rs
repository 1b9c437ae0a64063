//! Images of a set's partitions, made ready before anything of it is started.

use std::collections::BTreeMap;
use std::path::Path;

use crate::image::{Around, Ready, ready};
use model::partition::set::{Fault, Faults, PartitionSet};
use model::partition::{ImageEntry, ImageRef};

/// By the names of partitions.
pub type Images = BTreeMap<String, Ready>;

/// All of them, but for those that are at fault.
pub fn of(set: &PartitionSet, around: &mut Around<'_>, faults: &mut Faults) -> Images {
    let mut images = Images::new();
    for (name, entry) in &set.partitions {
        let ImageEntry::Root(image) = &entry.image else { continue };
        let made = ready(image, around).map_err(|problem| Fault::new(&["partition", name, "image"], problem));
        images.extend(faults.value(made).map(|made| (name.clone(), made)));
    }
    images
}

/// What is wrong with those that are not on this host at all, which costs no time to tell.
pub fn absent(set: &PartitionSet, around: &mut Around<'_>, faults: &mut Faults) {
    for (name, entry) in &set.partitions {
        let ImageEntry::Root(image @ ImageRef::Folder(path)) = &entry.image else { continue };
        // A name may stand behind it.
        let folder =
            path.to_str().and_then(|path| path.rsplit_once(':')).map(|(folder, _)| Path::new(folder));
        if !path.exists() && !folder.is_some_and(Path::exists) {
            faults.value(
                ready(image, around).map_err(|problem| Fault::new(&["partition", name, "image"], problem)),
            );
        }
    }
}
