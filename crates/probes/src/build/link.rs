//! From many object files to one image: functions of all, equal ones kept once, every call bound to what it calls.

use std::collections::BTreeMap;

use super::object::Object;
use crate::error::WorkError;

/// Links objects. Calls of what is in no object stay calls by name, as those of shared libraries do.
///
/// # Errors
/// Which object is none.
pub fn link(objects: &[Vec<u8>]) -> Result<Vec<u8>, WorkError> {
    let read = |(number, bytes): (usize, &Vec<u8>)| {
        Object::of_bytes(bytes).map_err(|wrong| WorkError::Unfit(format!("object {number}: {wrong}")))
    };
    let objects = objects.iter().enumerate().map(read).collect::<Result<Vec<_>, WorkError>>()?;
    let mut image = Object { defined: BTreeMap::new(), called: Vec::new(), packed: Vec::new() };
    for object in &objects {
        for (name, checksum) in &object.defined {
            // Of one name but another text: another function, as methods of several types are.
            image.defined.insert(format!("{name}.{checksum:08x}"), *checksum);
        }
        image.packed.extend(&object.packed);
    }
    let calls = objects.iter().flat_map(|object| object.called.iter().map(move |name| (object, name)));
    image.called = calls.map(|(object, name)| bound(&image.defined, object, name)).collect();
    image.called.sort_unstable();
    image.called.dedup();
    Ok(image.to_bytes())
}

/// What a call reaches: the function of its own object, else the first of any, else the name.
fn bound(all: &BTreeMap<String, u32>, object: &Object, name: &str) -> String {
    if let Some(checksum) = object.defined.get(name) {
        return format!("{name}.{checksum:08x}");
    }
    let begin = format!("{name}.");
    let first = all.range(begin.clone()..).next().map(|(full, _)| full);
    first.filter(|full| full.starts_with(&begin)).cloned().unwrap_or_else(|| name.to_owned())
}
