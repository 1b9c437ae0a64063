//! Container images of anybody: read from an OCI layout, and unpacked beneath a folder, and nowhere else.
//!
//! ```text
//!  layout: index.json ─► `documents` ─► manifest of this machine ─► config (program, variables, folder, user)
//!             └ blobs, by `digest`          └► layers ─ `packing` ─► `archive` (tar) ─► `tree`: files beneath a root
//! ```
//! An image is not trusted: every blob is held against its digest, sizes and numbers are bounded, a name or link in it leads
//! nowhere but beneath the root. Who owns what is a notion: whoever unpacks is told and keeps it as he likes.
//!
//! Sources: the OCI image specification 1.1 (`image-layout.md`, `image-index.md`, `manifest.md`, `config.md`, `layer.md`), `pax(1)`.

mod archive;
mod digest;
mod documents;
mod layout;
mod packing;
mod tree;

use std::os::fd::{BorrowedFd, OwnedFd};

pub use archive::{Budget, Entry, Kind, walk};
pub use digest::Digest;
use digest::Hashed;
pub use documents::{Config, Descriptor, Document, Manifest, Platform, read_config, read_document};
pub use layout::{Chosen, Layout};
pub use packing::unpacked;
pub use tree::{Owner, Tree, open_in_root};

/// Why there is no image.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// It says something that cannot be, or is cut off.
    #[error("{0}")]
    Malformed(String),
    /// More than is taken.
    #[error("{0}")]
    TooMuch(String),
    /// What was asked for is not in it.
    #[error("{0}")]
    NotThere(String),
    /// Something cannot be read or written.
    #[error("{what}: {error}")]
    Io {
        /// What.
        what: String,
        /// Why.
        error: std::io::Error,
    },
    /// Whoever wanted it does not want it any more.
    #[error("interrupted")]
    Interrupted,
}

impl ImageError {
    fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |error| Self::Io { what, error }
    }
}

/// What of an image is not unpacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LeftOut {
    /// Device nodes.
    pub devices: u64,
    /// Capabilities of files.
    pub capabilities: u64,
    /// Files with other extended attributes.
    pub attributes: u64,
}

/// Keeps who has a file, and with which set-ID bits; the file is open, and the caller's with plain permission bits.
pub type Keep<'a> = &'a dyn Fn(BorrowedFd<'_>, Owner) -> std::io::Result<()>;

/// Unpacks an image beneath an empty folder, and makes the folder that its program starts in.
///
/// # Errors
/// A layer is not what its digest says, holds what leads out of the root, or more than is taken; what was written by then stays.
pub fn unpack(
    layout: &Layout,
    image: &Chosen,
    root: OwnedFd,
    keep: Keep<'_>,
    is_wanted: &dyn Fn() -> bool,
) -> Result<LeftOut, ImageError> {
    let mut tree = tree::Tree::new(root, keep)?;
    let mut budget = Budget::usual(is_wanted);
    let layers = &image.manifest.layers;
    for (layer, diff_id) in layers.iter().zip(image.config.diff_ids(layers)?) {
        let mut blob = layout.blob(layer)?;
        let applied = unpacked(&mut blob).and_then(|plain| {
            let mut plain = Hashed::new(plain);
            walk(&mut plain, &mut budget, &mut |entry, body| tree.apply(entry, body))?;
            diff_id.map_or(Ok(()), |wanted| check_diff_id(plain, &mut budget, wanted))
        });
        applied.map_err(|error| in_layer(layer, error))?;
        blob.verify()?;
        tree.next_layer();
    }
    if let Some(folder) = image.config.workdir() {
        tree.make_folder(folder.as_bytes())?;
    }
    tree.finish()
}

/// Whether what is in a layer is what the config says of it.
fn check_diff_id(
    mut plain: Hashed<impl std::io::Read>,
    budget: &mut Budget<'_>,
    wanted: &Digest,
) -> Result<(), ImageError> {
    // Behind the archive's end there may be more of the blob, which counts.
    let mut chunk = vec![0; packing::CHUNK];
    loop {
        match std::io::Read::read(&mut plain, &mut chunk).map_err(ImageError::io("its end"))? {
            0 => break,
            count => budget.rest(count as u64)?,
        }
    }
    let got = plain.digest();
    if got == *wanted {
        return Ok(());
    }
    Err(ImageError::Malformed(format!("the image's config says that {wanted} is in it, it is {got}")))
}

fn in_layer(layer: &Descriptor, error: ImageError) -> ImageError {
    let about = |text: String| format!("layer {}: {text}", layer.digest.short());
    match error {
        ImageError::Malformed(text) => ImageError::Malformed(about(text)),
        ImageError::TooMuch(text) => ImageError::TooMuch(about(text)),
        ImageError::Io { what, error } => ImageError::Io { what: about(what), error },
        other => other,
    }
}

/// A name of an image as it can be shown: nothing in it moves a cursor.
fn shown(name: &[u8]) -> String {
    const MOST: usize = 200;
    let text = String::from_utf8_lossy(name);
    let cut: String = text.chars().take(MOST).collect();
    format!("\"{}\"", cut.escape_debug())
}
