//! A saved layer: what a program changes of its file tree, kept in a folder of the host: `save = "/srv/state"`.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::program::{Files, Program};
use units::{Mebibytes, Reason};

/// Version of what is written beside a layer.
pub const LAYER_SCHEMA: u32 = 1;
/// Largest a layer becomes that does not say.
pub const USUAL_LAYER: Mebibytes = Mebibytes::from_mib(16 << 10);
/// Smallest that holds a file system with its journal.
pub const LEAST_LAYER: Mebibytes = Mebibytes::from_mib(64);
/// Largest that is made: 16 TiB, as Linux has it for files on ext4.
pub const LARGEST_LAYER: Mebibytes = Mebibytes::from_mib((16 << 20) - 1);

/// A layer as it is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayerSpec {
    /// Folder of the host that holds it; it need not be there yet.
    pub folder: PathBuf,
    /// Largest it becomes; unset means [`USUAL_LAYER`], or what it was made with.
    #[serde(default)]
    pub size_mib: Option<Mebibytes>,
}

/// What a layer lies over: it means nothing over anything else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Over {
    /// The system as programs usually see it.
    System,
    /// All of the host's files.
    All,
    /// A folder of the host.
    Tree(PathBuf),
    /// An image of a container, by the digest of its manifest.
    Image(String),
}

/// What is written beside a layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayerRecord {
    /// [`LAYER_SCHEMA`] of its time.
    pub schema_version: u32,
    /// What it lies over.
    pub over: Over,
    /// Largest it becomes.
    pub size_mib: Mebibytes,
}

impl Over {
    /// What a layer of this program would lie over; nothing where a program has no files.
    pub fn of(program: &Program) -> Option<Self> {
        match (&program.image, &program.files) {
            (_, Files::None) => None,
            (Some(digest), _) => Some(Self::Image(digest.clone())),
            (None, Files::System) => Some(Self::System),
            (None, Files::All) => Some(Self::All),
            (None, Files::Tree(folder)) => Some(Self::Tree(folder.clone())),
        }
    }
}

impl fmt::Display for Over {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System => f.write_str("the system (files \"system\")"),
            Self::All => f.write_str("all of the host's files (files \"all\")"),
            Self::Tree(folder) => write!(f, "the folder {}", folder.display()),
            Self::Image(digest) => write!(f, "the image {digest}"),
        }
    }
}

/// The size fits a layer.
///
/// # Errors
/// What is wanted, and what was got.
pub fn fits_layer(size: Mebibytes) -> Result<Mebibytes, Reason> {
    if (LEAST_LAYER..=LARGEST_LAYER).contains(&size) {
        return Ok(size);
    }
    let (least, most, got) = (LEAST_LAYER.get(), LARGEST_LAYER.get(), size.get());
    Err(format!("a saved layer has {least} to {most} MiB, got {got} MiB").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layer_lies_over_what_the_program_sees() {
        let over = |files: Files, image: Option<&str>| {
            Over::of(&Program { files, image: image.map(str::to_owned), ..Program::default() })
        };
        assert_eq!(over(Files::System, None), Some(Over::System));
        assert_eq!(over(Files::All, None), Some(Over::All));
        let tree = || Files::Tree("/x".into());
        assert_eq!(over(tree(), None), Some(Over::Tree("/x".into())));
        // Where an image lies is of no account: the cache may be elsewhere the next time.
        assert_eq!(over(tree(), Some("sha256:0")), Some(Over::Image("sha256:0".to_owned())));
        assert_eq!(over(Files::None, None), None);
    }

    #[test]
    fn what_is_written_comes_back_and_unknown_keys_are_refused() {
        for over in [Over::System, Over::All, Over::Tree("/x".into()), Over::Image("sha256:0".to_owned())] {
            let record = LayerRecord { schema_version: LAYER_SCHEMA, over, size_mib: USUAL_LAYER };
            let text = serde_json::to_string(&record).unwrap();
            assert_eq!(serde_json::from_str::<LayerRecord>(&text).unwrap(), record);
        }
        let text = r#"{"schema_version":1,"over":"system","size_mib":64,"more":1}"#;
        assert!(serde_json::from_str::<LayerRecord>(text).is_err());
    }

    #[test]
    fn sizes_are_bounded() {
        let fits = |mib| fits_layer(Mebibytes::from_mib(mib)).is_ok();
        assert!(fits(64) && fits(16 << 10) && fits((16 << 20) - 1));
        assert!(!fits(63) && !fits(16 << 20) && !fits(u64::MAX));
    }
}
