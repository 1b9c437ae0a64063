//! A volume: a folder by name that lasts, where a partition may write: `data:/var/lib/db`.

use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::is_name;
use units::Reason;

/// A volume as it is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct VolumeSpec {
    /// Its name.
    pub name: String,
    /// Where it appears in the partition, an absolute path.
    pub at: PathBuf,
}

/// A volume of a program: where it lies is settled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Volume {
    /// Its name.
    pub name: String,
    /// Its folder on the host; it need not be there yet.
    pub from: PathBuf,
    /// Where it appears in the partition.
    pub at: PathBuf,
}

impl Volume {
    /// What is in it: the folder that the partition sees.
    pub fn files(&self) -> PathBuf {
        self.from.join("files")
    }
}

impl VolumeSpec {
    /// With its place in the folder of all volumes.
    pub fn within(&self, root: &Path) -> Volume {
        Volume { name: self.name.clone(), from: root.join(&self.name), at: self.at.clone() }
    }
}

/// Where a guest has what its kernel and its init make.
const OF_THE_GUEST: [&str; 3] = ["/proc", "/sys", "/dev"];

impl FromStr for VolumeSpec {
    type Err = Reason;

    fn from_str(text: &str) -> Result<Self, Reason> {
        let wanted = || {
            format!(
                "wanted NAME:/PATH, such as data:/var/lib/db, the name of letters, digits, -, _ and ., got {text:?}"
            )
        };
        let (name, at) = text.split_once(':').ok_or_else(wanted)?;
        if at.contains(':') {
            return Err(format!(
                "wanted NAME:/PATH and nothing after it (what is to be read only is opened with --ro or --bind), got {text:?}"
            )
            .into());
        }
        let at = PathBuf::from(at);
        let mut parts = at.components();
        let from_root = parts.next() == Some(Component::RootDir);
        let below = parts.clone().next().is_some() && parts.all(|part| matches!(part, Component::Normal(_)));
        if !is_name(name) || !from_root || !below || text.contains('\0') {
            return Err(wanted().into());
        }
        if OF_THE_GUEST.iter().any(|own| at.starts_with(own)) {
            return Err(format!(
                "{} is the guest's own: wanted another place for a volume, got {text:?}",
                at.display()
            )
            .into());
        }
        Ok(Self { name: name.to_owned(), at })
    }
}

impl fmt::Display for VolumeSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.name, self.at.display())
    }
}

impl TryFrom<String> for VolumeSpec {
    type Error = Reason;

    fn try_from(text: String) -> Result<Self, Reason> {
        text.parse()
    }
}

impl From<VolumeSpec> for String {
    fn from(volume: VolumeSpec) -> Self {
        volume.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_has_a_plain_name_and_a_place() {
        let volume: VolumeSpec = "data:/var/lib/db".parse().expect("a volume");
        assert_eq!((volume.name.as_str(), volume.at.as_path()), ("data", Path::new("/var/lib/db")));
        assert_eq!(volume.to_string().parse(), Ok(volume.clone()));
        assert_eq!(volume.within(Path::new("/v")).files(), Path::new("/v/data/files"));
        for bad in [
            "data",
            "data:",
            "data:/",
            "data:x",
            "../x:/x",
            ".:/x",
            "a/b:/x",
            "a:/x/../y",
            "a:/x\0",
            "a:/x:ro",
            "a:/proc",
            "a:/dev/shm",
        ] {
            assert!(bad.parse::<VolumeSpec>().is_err(), "{bad:?}");
        }
    }
}
