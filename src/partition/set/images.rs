//! Images of a set's partitions, made ready before anything of it is started.

use std::collections::BTreeMap;

use crate::model::partition::ImageEntry;
use crate::model::partition::set::{Fault, Faults, PartitionSet};
use crate::partition::image::{Around, Ready, ready};

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
