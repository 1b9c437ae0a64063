//! Which image of a container is the root of a partition: `image = "/srv/alpine"`, `oci:docker.io/library/alpine:3.20`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use units::Reason;

/// What a name at a registry begins with.
const REGISTRY: &str = "oci:";
/// Longest name at a registry.
const LONGEST: usize = 512;

/// An image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageRef {
    /// A folder: an OCI layout, of which `:NAME` behind it chooses an image, or a root as it is.
    Folder(PathBuf),
    /// A name at a registry: `docker.io/library/alpine:3.20`.
    Registry(String),
}

impl FromStr for ImageRef {
    type Err = Reason;

    fn from_str(text: &str) -> Result<Self, Reason> {
        let Some(name) = text.strip_prefix(REGISTRY) else {
            return if text.is_empty() || text.contains('\0') {
                Err(format!("wanted a folder, or {REGISTRY}NAME, got {text:?}").into())
            } else {
                Ok(Self::Folder(PathBuf::from(text)))
            };
        };
        let starts = name.starts_with(|c: char| c.is_ascii_alphanumeric());
        let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "-_./:@".contains(c));
        if starts && plain && name.len() <= LONGEST {
            return Ok(Self::Registry(name.to_owned()));
        }
        Err(format!("wanted {REGISTRY}NAME with a name such as docker.io/library/alpine:3.20, got {text:?}")
            .into())
    }
}

impl fmt::Display for ImageRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(folder) => folder.display().fmt(f),
            Self::Registry(name) => write!(f, "{REGISTRY}{name}"),
        }
    }
}

/// What a set says of a partition's image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageEntry {
    /// Whether it boots what its first disk holds.
    Disk(bool),
    /// Its program's root.
    Root(ImageRef),
}

impl ImageEntry {
    /// Whether nothing is said.
    pub fn is_none(&self) -> bool {
        *self == Self::Disk(false)
    }
}

impl Serialize for ImageEntry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Disk(boots) => serializer.serialize_bool(*boots),
            Self::Root(image) => serializer.collect_str(image),
        }
    }
}

impl<'de> Deserialize<'de> for ImageEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl de::Visitor<'_> for Either {
            type Value = ImageEntry;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "true, which boots the first disk, or a string: a folder, or {REGISTRY}NAME")
            }

            fn visit_bool<E: de::Error>(self, boots: bool) -> Result<ImageEntry, E> {
                Ok(ImageEntry::Disk(boots))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<ImageEntry, E> {
                text.parse().map(ImageEntry::Root).map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Either)
    }
}

/// The same as the schema shows it.
#[cfg(feature = "schema")]
#[derive(schemars::JsonSchema)]
#[schemars(untagged)]
pub enum ImageKey {
    /// Whether it boots whatever the first disk holds.
    Disk(bool),
    /// A folder (an OCI layout, `:NAME` behind it chooses one of its images; or a root as it is), or `oci:NAME` of a registry.
    Root(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_at_registries_are_plain_and_all_else_is_a_folder() {
        let registry = |name: &str| Ok(ImageRef::Registry(name.to_owned()));
        for name in ["alpine", "docker.io/library/alpine:3.20", "localhost:5000/a@sha256:00"] {
            assert_eq!(format!("oci:{name}").parse(), registry(name));
        }
        assert_eq!("/srv/a:b".parse(), Ok(ImageRef::Folder("/srv/a:b".into())));
        for bad in ["", "oci:", "oci:-v", "oci:a b", "oci:a\u{1b}", "a\0"] {
            let told = bad.parse::<ImageRef>().expect_err(bad);
            assert!(!told.to_string().contains('\u{1b}'), "{told:?}");
        }
    }
}
