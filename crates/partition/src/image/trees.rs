//! Unpacked images, each once, by the digests of their manifests.
//!
//! ```text
//!  images/trees/DIGEST.lock   held while somebody makes it
//!  images/trees/DIGEST.new    half unpacked: removed by whoever holds the lock next
//!  images/trees/DIGEST/root   the root           renamed there as a whole, after all of it is on the disk
//!                     /config.json               the config; what is not the one of the manifest is made anew
//! ```

use std::fs::{self, DirBuilder};
use std::io::{Read, Write};
use std::os::fd::BorrowedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use images::{Chosen, Digest, Layout, LeftOut, Owner};
use nix::fcntl::OFlag;

use super::{Around, hold, own_folder};
use model::partition::ImageRef;
use platforms::own_folder::{Others, OwnFolder};
use units::Reason;

/// What the image says of its program.
const CONFIG: &str = "config.json";
/// What becomes the partition's root.
const ROOT: &str = "root";

/// The root of an image.
pub fn tree_of(
    wanted: &ImageRef,
    layout: &Layout,
    image: &Chosen,
    around: &mut Around<'_>,
) -> Result<PathBuf, Reason> {
    let trees = own_folder(around.cache, "trees")?;
    let name = image.digest.digits();
    let place = trees.path().join(name);
    if is_whole(&place, &image.manifest.config.digest) {
        return Ok(place.join(ROOT));
    }
    let _held = hold(&trees, name, around)?;
    // Somebody else may have made it meanwhile.
    if !is_whole(&place, &image.manifest.config.digest) {
        make(wanted, layout, image, &trees, around)?;
    }
    Ok(place.join(ROOT))
}

/// Whether it was unpacked to its end: only then it has this name.
fn is_whole(place: &Path, config: &Digest) -> bool {
    let Ok(own) = OwnFolder::open(place, Others::StayOut) else { return false };
    let mut bytes = Vec::new();
    // The config of an image that was read once is no longer than that.
    let read = own.file(CONFIG, OFlag::O_RDONLY).and_then(|mut file| file.read_to_end(&mut bytes));
    read.is_ok() && Digest::of(&bytes) == *config && own.below(Path::new(ROOT)).is_ok()
}

fn make(
    wanted: &ImageRef,
    layout: &Layout,
    image: &Chosen,
    trees: &OwnFolder,
    around: &mut Around<'_>,
) -> Result<(), Reason> {
    let name = image.digest.digits();
    let half = format!("{name}.new");
    let failed =
        |error: std::io::Error| format!("{wanted}: unpacking it in {}: {error}", trees.path().display());
    // What a crash left, and what is broken.
    for old in [name, &half] {
        trees.remove(Path::new(old)).map_err(failed)?;
    }
    let bytes: u64 = image.manifest.layers.iter().map(|layer| layer.size).fold(0, u64::saturating_add);
    let (count, mib) = (image.manifest.layers.len(), bytes.div_ceil(1 << 20));
    (around.tell)(&format!("unpacking {wanted}: {count} layers, {mib} MiB packed"));
    let unpacked = unpack(layout, image, &trees.path().join(&half), around);
    let left_out = match unpacked {
        Ok(left_out) => left_out,
        Err(error) => {
            // The reason counts, not whether half of it stays for the next one to remove.
            let _ = trees.remove(Path::new(&half));
            return Err(format!("{wanted}: {error}").into());
        }
    };
    fs::rename(trees.path().join(&half), trees.path().join(name)).map_err(failed)?;
    trees.sync().map_err(failed)?;
    tell_left_out(wanted, left_out, around);
    Ok(())
}

fn unpack(layout: &Layout, image: &Chosen, half: &Path, around: &Around<'_>) -> Result<LeftOut, Reason> {
    let root = half.join(ROOT);
    let made =
        DirBuilder::new().mode(0o700).create(half).and_then(|()| DirBuilder::new().mode(0o700).create(&root));
    let failed = |error: std::io::Error| format!("{}: {error}", half.display());
    made.map_err(failed)?;
    let own = OwnFolder::open(half, Others::StayOut).map_err(failed)?;
    let mut config = own.file(CONFIG, OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_WRONLY).map_err(failed)?;
    config.write_all(&image.config_bytes).and_then(|()| config.sync_all()).map_err(failed)?;
    let root = own.below(Path::new(ROOT)).map_err(failed)?;
    images::unpack(layout, image, root, &keep, around.is_wanted).map_err(|error| error.to_string().into())
}

/// Owners and set-ID bits are a notion among guests, as with what they write themselves.
fn keep(file: BorrowedFd<'_>, owner: Owner) -> std::io::Result<()> {
    files::keep(file, owner.user, owner.group, owner.mode).map_err(|error| {
        let advice = "the cache lies on a file system that keeps no attributes of users; set BULKHEAD_CACHE to a folder on another";
        std::io::Error::new(error.kind(), format!("{error}: {advice}"))
    })
}

fn tell_left_out(wanted: &ImageRef, left_out: LeftOut, around: &mut Around<'_>) {
    let LeftOut { devices, capabilities, attributes } = left_out;
    for (count, what) in [
        (devices, "device nodes"),
        (capabilities, "capabilities of files"),
        (attributes, "files' extended attributes"),
    ] {
        if count > 0 {
            (around.tell)(&format!("{wanted}: {count} {what} of it are left out"));
        }
    }
}
