//! An OCI layout: a folder of blobs by their digests, and an index of what they are called.
//!
//! ```text
//!  oci-layout          the version
//!  index.json          ─► manifest, or an index of manifests for several machines ─► manifest ─► config, layers
//!  blobs/sha256/…      every one of them
//! ```
//! Nothing in it is followed as a link.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use serde::Deserialize;

use crate::digest::{Blob, Digest};
use crate::documents::{
    Config, Descriptor, Document, MOST_JSON_BYTES, Manifest, Platform, read_config, read_document,
};
use crate::{ImageError, shown};

/// What says that a folder is a layout.
const MARK: &str = "oci-layout";
/// How deep indexes lie in each other at most.
const MOST_LEVELS: usize = 4;
/// What a descriptor's own name is called, and the whole name that some engines add.
const NAMES: [&str; 2] = ["org.opencontainers.image.ref.name", "io.containerd.image.name"];

/// A layout.
#[derive(Debug)]
pub struct Layout {
    folder: OwnedFd,
}

/// An image that was chosen from a layout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// Of its manifest: what tells it from all others.
    pub digest: Digest,
    /// Its layers.
    pub manifest: Manifest,
    /// What it says of its program.
    pub config: Config,
    /// The same as it stands there, of the digest that the manifest names.
    pub config_bytes: Vec<u8>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Mark {
    image_layout_version: String,
}

impl Layout {
    /// Whether a folder says that it is one.
    pub fn is_one(folder: &Path) -> bool {
        folder.join(MARK).is_file()
    }

    /// Opens one.
    ///
    /// # Errors
    /// The folder is none, or of a version that is not known.
    pub fn open(folder: &Path) -> Result<Self, ImageError> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let opened = rustix::fs::open(folder, flags, Mode::empty());
        let what = folder.display().to_string();
        let layout = Self { folder: opened.map_err(|error| ImageError::io(what)(error.into()))? };
        let mark = layout.document(MARK)?;
        match serde_json::from_slice::<Mark>(&mark) {
            Ok(mark) if mark.image_layout_version.starts_with("1.") => Ok(layout),
            Ok(mark) => {
                let got = shown(mark.image_layout_version.as_bytes());
                Err(ImageError::Malformed(format!("an OCI layout of version 1 was wanted, this is {got}")))
            }
            Err(error) => {
                let why = error.to_string();
                Err(ImageError::Malformed(format!("{MARK} cannot be read: {}", why.escape_debug())))
            }
        }
    }

    /// The image of this name, or the only one, for this kind of machine.
    ///
    /// # Errors
    /// There is none, or more than one; or it is not what its digest says.
    pub fn choose(&self, name: Option<&str>, platform: &Platform) -> Result<Chosen, ImageError> {
        let index = read_document(&self.document("index.json")?)?;
        let Document::Index(all) = index else {
            return Err(ImageError::Malformed("index.json was to be an index, and is a manifest".to_owned()));
        };
        let named: Vec<&Descriptor> =
            all.iter().filter(|one| name.is_none_or(|name| is_called(one, name))).collect();
        if named.is_empty() {
            let wanted = name.map_or_else(|| "an image".to_owned(), |name| shown(name.as_bytes()));
            return Err(ImageError::NotThere(format!(
                "{wanted} is not in the layout; there is: {}",
                called(&all)
            )));
        }
        let fitting: Vec<&Descriptor> = named.iter().copied().filter(|one| may_run(one, platform)).collect();
        match fitting.as_slice() {
            [one] => self.image((*one).clone(), platform),
            [] => Err(not_for(platform, &named)),
            several => {
                let there = called(several.iter().copied());
                Err(ImageError::NotThere(format!("there are several images, name one of them: {there}")))
            }
        }
    }

    /// The image that a descriptor leads to, through an index of machines if need be.
    fn image(&self, from: Descriptor, platform: &Platform) -> Result<Chosen, ImageError> {
        let mut at = from;
        for _ in 0..MOST_LEVELS {
            match read_document(&self.small_blob(&at)?)? {
                Document::Manifest(manifest) => {
                    let config_bytes = self.small_blob(&manifest.config)?;
                    let config = read_config(&config_bytes)?;
                    if config.platform != *platform {
                        let got = &config.platform;
                        let text = format!("the image is for {got}, this machine is {platform}");
                        return Err(ImageError::NotThere(text));
                    }
                    return Ok(Chosen { digest: at.digest, manifest, config, config_bytes });
                }
                Document::Index(machines) => {
                    let all: Vec<&Descriptor> = machines.iter().collect();
                    let ours = machines.iter().find(|one| one.platform.as_ref() == Some(platform));
                    let ours = ours.or_else(|| machines.iter().find(|one| one.platform.is_none()));
                    at = ours.cloned().ok_or_else(|| not_for(platform, &all))?;
                }
            }
        }
        Err(ImageError::TooMuch(format!("more than {MOST_LEVELS} indexes within each other")))
    }

    /// A blob, to be read and then verified.
    ///
    /// # Errors
    /// It is not there, or not as long as was said.
    pub fn blob(&self, wanted: &Descriptor) -> Result<Blob, ImageError> {
        let (file, length) = self.file(&format!("blobs/sha256/{}", wanted.digest.digits()))?;
        if length == wanted.size {
            return Ok(Blob::new(file, wanted.digest.clone()));
        }
        let (digest, size) = (&wanted.digest, wanted.size);
        Err(ImageError::Malformed(format!(
            "a blob of the layout is damaged: {digest} was to have {size} bytes and has {length}; fetch the image anew"
        )))
    }

    fn small_blob(&self, wanted: &Descriptor) -> Result<Vec<u8>, ImageError> {
        let mut blob = self.blob(wanted)?;
        let mut bytes = Vec::new();
        // What is longer is refused by whoever reads it.
        let read = (&mut blob).take(MOST_JSON_BYTES + 1).read_to_end(&mut bytes);
        read.map_err(ImageError::io(format!("blob {}", wanted.digest)))?;
        if bytes.len() as u64 <= MOST_JSON_BYTES {
            blob.verify()?;
        }
        Ok(bytes)
    }

    fn document(&self, name: &str) -> Result<Vec<u8>, ImageError> {
        let (file, _) = self.file(name)?;
        let mut bytes = Vec::new();
        file.take(MOST_JSON_BYTES + 1).read_to_end(&mut bytes).map_err(ImageError::io(name))?;
        Ok(bytes)
    }

    fn file(&self, name: &str) -> Result<(File, u64), ImageError> {
        // A pipe of that name makes nobody wait.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let opened = openat2(self.folder.as_fd(), name, flags, Mode::empty(), within);
        let file = opened
            .map(File::from)
            .map_err(|error| ImageError::io(format!("{name} of the layout"))(error.into()))?;
        let meta = file.metadata().map_err(ImageError::io(name))?;
        if meta.is_file() {
            return Ok((file, meta.len()));
        }
        Err(ImageError::Malformed(format!("{name} of the layout is not a file")))
    }
}

fn names(of: &Descriptor) -> impl Iterator<Item = &str> {
    let said = of.annotations.as_ref();
    NAMES.iter().filter_map(move |key| said.and_then(|said| said.get(*key))).map(String::as_str)
}

fn is_called(one: &Descriptor, name: &str) -> bool {
    names(one).any(|own| own == name)
}

fn called<'a>(all: impl IntoIterator<Item = &'a Descriptor>) -> String {
    const MOST: usize = 20;
    let name = |one: &Descriptor| {
        names(one).next().map_or_else(|| "one without a name".to_owned(), |name| shown(name.as_bytes()))
    };
    let all: Vec<String> = all.into_iter().take(MOST).map(name).collect();
    if all.is_empty() { "nothing".to_owned() } else { all.join(", ") }
}

fn may_run(one: &Descriptor, platform: &Platform) -> bool {
    one.platform.as_ref().is_none_or(|for_it| for_it == platform)
}

fn not_for(platform: &Platform, all: &[&Descriptor]) -> ImageError {
    const MOST: usize = 20;
    let platforms: Vec<String> =
        all.iter().filter_map(|one| one.platform.as_ref()).take(MOST).map(ToString::to_string).collect();
    ImageError::NotThere(format!("there is no image for {platform}, only for {}", platforms.join(", ")))
}
