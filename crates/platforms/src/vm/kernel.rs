//! Finds a guest's kernel with its modules, and the form of it that starts fastest.
//!
//! Looked for in this order: what the experiment names; what the set-up put into the cache folder (newest first); the
//! host's own. An uncompressed copy is kept in the cache folder, made once per kernel image.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::bzimage::{self, MAX_KERNEL_BYTES};

/// Largest kernel image that is read; distributions' have 8 to 20 MB.
const MAX_IMAGE_BYTES: u64 = 256 * 1024 * 1024;
/// Unpacked kernels that are kept; usual ones have 60 MB each.
const MOST_UNPACKED: usize = 8;

/// A kernel with the folder of its modules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// The image as the distribution ships it.
    pub image: PathBuf,
    /// `…/lib/modules/RELEASE`; none when there is no such folder: then everything needed must be built in.
    pub modules: Option<PathBuf>,
    /// Its release, as its file name says it.
    pub release: String,
}

/// Where to look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places<'a> {
    /// Image named by the user.
    pub named: Option<&'a Path>,
    /// Modules folder named by the user.
    pub named_modules: Option<&'a Path>,
    /// Cache folder of the program.
    pub cache: &'a Path,
    /// Root of the host's own file system; `/` but for tests.
    pub root: &'a Path,
    /// Release of the host's kernel.
    pub host_release: &'a str,
}

/// Why there is no kernel.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// The named one cannot be read.
    #[error("kernel {}: {error}; name a readable bzImage or vmlinux", path.display())]
    Named {
        /// What was named.
        path: PathBuf,
        /// Why it cannot be read.
        error: io::Error,
    },
    /// None was found.
    #[error(
        "no kernel for the guest: none in {} and none readable at {}; run `make setup`, or name one with \
         --kernel /path/to/vmlinuz, or kernel = \"…\" in an experiment", cache.display(), host.display()
    )]
    NotFound {
        /// Where the set-up puts kernels.
        cache: PathBuf,
        /// The host's own.
        host: PathBuf,
    },
}

/// Finds the kernel.
pub fn find(places: &Places<'_>) -> Result<Kernel, KernelError> {
    if let Some(path) = places.named {
        fs::File::open(path)
            .and_then(|file| file.metadata())
            .and_then(
                |meta| {
                    if meta.is_file() { Ok(()) } else { Err(io::Error::other("this is not a file")) }
                },
            )
            .map_err(|error| KernelError::Named { path: path.to_owned(), error })?;
        return Ok(described(path, places));
    }
    let cache = places.cache.join("kernel");
    let host = places.root.join(format!("boot/vmlinuz-{}", places.host_release));
    if let Some(path) = newest_image(&cache.join("boot")) {
        return Ok(described(&path, places));
    }
    if fs::File::open(&host).is_ok() {
        return Ok(described(&host, places));
    }
    Err(KernelError::NotFound { cache, host })
}

/// The release from the file name, and the modules: named, or in the tree the image lies in, or the host's.
fn described(image: &Path, places: &Places<'_>) -> Kernel {
    let name = image.file_name().unwrap_or_default().to_string_lossy();
    let release = ["vmlinuz-", "bzImage-", "vmlinux-", "kernel-"]
        .iter()
        .find_map(|prefix| name.strip_prefix(prefix))
        .map(str::to_owned);
    let beside = image.parent().and_then(Path::parent).map(|tree| tree.join("lib/modules"));
    let modules = places.named_modules.map(Path::to_owned).or_else(|| {
        let release = release.as_deref()?;
        [beside, Some(places.root.join("lib/modules"))]
            .into_iter()
            .flatten()
            .map(|folder| folder.join(release))
            .find(|folder| folder.is_dir())
    });
    let of_modules =
        || modules.as_ref().and_then(|folder| Some(folder.file_name()?.to_string_lossy().into_owned()));
    let release = release.or_else(of_modules).unwrap_or_else(|| name.into_owned());
    Kernel { image: image.to_owned(), modules, release }
}

/// The image with the highest version in its name.
fn newest_image(folder: &Path) -> Option<PathBuf> {
    fs::read_dir(folder)
        .ok()?
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .filter(|path| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz-"))
                && fs::File::open(path).is_ok()
        })
        .max_by_key(|path| version_key(&path.file_name().unwrap_or_default().to_string_lossy()))
}

/// Numbers compare as numbers, so that 6.10 is newer than 6.9.
fn version_key(name: &str) -> Vec<(u64, String)> {
    name.split(['.', '-', '_', '+'])
        .map(|part| {
            let digits = part.bytes().take_while(u8::is_ascii_digit).count();
            let (number, rest) = part.split_at(digits);
            (number.parse().unwrap_or(0), rest.to_owned())
        })
        .collect()
}

/// The file QEMU gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bootable {
    /// The file.
    pub path: PathBuf,
    /// What it is, for the properties: `uncompressed, entered through PVH` or why it is the packed image.
    pub form: String,
}

/// Which file it is and when it was changed last; nobody can set that, so one written anew with the size and the time of
/// writing of before is another one.
pub fn identity(meta: &fs::Metadata) -> String {
    format!("{:x}-{:x}-{:x}-{:x}", meta.len(), meta.ino(), meta.ctime(), meta.ctime_nsec())
}

/// The fastest form of the kernel: the uncompressed ELF file with PVH entry, made once and kept in the cache folder;
/// the image itself when it has no such entry or cannot be unpacked.
pub fn bootable(kernel: &Kernel, cache: &Path) -> io::Result<Bootable> {
    let meta = fs::metadata(&kernel.image)?;
    let folder = cache.join("vmlinux");
    let stem = format!("{}-{}", safe(&kernel.release), identity(&meta));
    let unpacked = folder.join(format!("{stem}.elf"));
    let packed = |why: &str| Bootable { path: kernel.image.clone(), form: format!("packed image ({why})") };
    if is_elf(&unpacked) {
        open_as(&unpacked, &meta);
        note_use(&unpacked);
        return Ok(Bootable { path: unpacked, form: PVH_FORM.to_owned() });
    }
    if meta.len() > MAX_IMAGE_BYTES {
        return Err(io::Error::other(format!(
            "{} has {} bytes, more than any kernel image ({MAX_IMAGE_BYTES})",
            kernel.image.display(),
            meta.len()
        )));
    }
    let mut image = Vec::new();
    fs::File::open(&kernel.image)?.take(MAX_IMAGE_BYTES).read_to_end(&mut image)?;
    let elf = match bzimage::vmlinux(&image) {
        Ok(elf) => elf,
        Err(error) => return Ok(packed(&error.to_string())),
    };
    if !bzimage::has_pvh_entry(&elf) {
        return Ok(packed("it has no PVH entry"));
    }
    if image.starts_with(b"\x7fELF") {
        return Ok(Bootable { path: kernel.image.clone(), form: PVH_FORM.to_owned() });
    }
    match keep(&folder, &unpacked, &elf) {
        Ok(()) => {
            open_as(&unpacked, &meta);
            forget_all_but(MOST_UNPACKED, &folder);
            Ok(Bootable { path: unpacked, form: PVH_FORM.to_owned() })
        }
        Err(error) => {
            Ok(packed(&format!("the uncompressed one could not be kept in {}: {error}", folder.display())))
        }
    }
}

const PVH_FORM: &str = "uncompressed, entered through PVH";

/// Writes beside and renames, so that a reader sees all of it or nothing.
fn keep(folder: &Path, path: &Path, elf: &[u8]) -> io::Result<()> {
    debug_assert!(elf.len() <= MAX_KERNEL_BYTES);
    fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(elf)?;
    file.as_file().sync_all()?;
    file.persist(path).map(drop).map_err(|error| error.error)
}

/// Its time of access says when it was asked for last, also where reading does not set it.
fn note_use(path: &Path) {
    // Otherwise it is only forgotten sooner.
    let _ = fs::File::open(path)
        .and_then(|file| file.set_times(fs::FileTimes::new().set_accessed(std::time::SystemTime::now())));
}

/// Removes the unpacked kernels that were not asked for for the longest time.
fn forget_all_but(most: usize, folder: &Path) {
    let used = |entry: fs::DirEntry| {
        let meta = entry.metadata().ok().filter(fs::Metadata::is_file)?;
        let path = entry.path();
        let is_ours = path.extension().is_some_and(|extension| extension == "elf");
        is_ours.then(|| ((meta.atime(), meta.atime_nsec()), path))
    };
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let mut known: Vec<_> = entries.filter_map(used).collect();
    known.sort();
    let too_many = known.len().saturating_sub(most);
    for (_, path) in known.into_iter().take(too_many) {
        // One that cannot be removed is tried again with the next kernel.
        let _ = fs::remove_file(path);
    }
}

/// As readable as the image it is of: where owners cannot be mapped (a network's file system), QEMU, as a user that owns
/// nothing, reads what everybody may.
fn open_as(unpacked: &Path, image: &fs::Metadata) {
    let wanted = 0o600 | image.mode() & 0o044;
    let has = fs::metadata(unpacked).map(|meta| meta.mode() & 0o777);
    if has.is_ok_and(|mode| mode != wanted) {
        // Where it matters and cannot be done, QEMU says that it cannot open its kernel.
        let _ = fs::set_permissions(unpacked, fs::Permissions::from_mode(wanted));
    }
}

fn is_elf(path: &Path) -> bool {
    let mut magic = [0; 4];
    fs::File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok() && &magic == b"\x7fELF"
}

fn safe(name: &str) -> String {
    name.chars()
        .map(|c| if c.is_ascii_alphanumeric() || "._+-".contains(c) { c } else { '_' })
        .take(100)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places<'a>(cache: &'a Path, root: &'a Path) -> Places<'a> {
        Places { named: None, named_modules: None, cache, root, host_release: "6.18.0" }
    }

    fn touch(path: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, b"x").unwrap();
    }

    #[test]
    fn the_cache_comes_before_the_host_and_the_newest_first() {
        let (cache, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let places = places(cache.path(), root.path());
        let error = find(&places).unwrap_err().to_string();
        assert!(error.contains("make setup") && error.contains("--kernel"), "{error}");

        touch(&root.path().join("boot/vmlinuz-6.18.0"));
        fs::create_dir_all(root.path().join("lib/modules/6.18.0")).unwrap();
        let host = find(&places).unwrap();
        assert_eq!((host.release.as_str(), host.modules.is_some()), ("6.18.0", true));

        for release in ["6.1.0-9-amd64", "6.1.0-56-amd64"] {
            touch(&cache.path().join(format!("kernel/boot/vmlinuz-{release}")));
            fs::create_dir_all(cache.path().join(format!("kernel/lib/modules/{release}"))).unwrap();
        }
        let newest = find(&places).unwrap();
        assert_eq!(newest.release, "6.1.0-56-amd64");
        assert_eq!(newest.modules, Some(cache.path().join("kernel/lib/modules/6.1.0-56-amd64")));
    }

    #[test]
    fn a_named_kernel_must_be_there() {
        let (cache, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let missing = root.path().join("nowhere");
        let error = find(&Places { named: Some(&missing), ..places(cache.path(), root.path()) }).unwrap_err();
        assert!(error.to_string().contains("nowhere"), "{error}");
    }

    /// Regression: an image that was written anew with its old size and time was booted as it had been.
    #[test]
    fn an_image_that_was_written_anew_is_another_whatever_its_time_says() {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("vmlinuz-1");
        let then = fs::FileTimes::new().set_modified(std::time::SystemTime::UNIX_EPOCH);
        let written = |text: &str| {
            fs::write(&image, text).unwrap();
            fs::File::options().write(true).open(&image).unwrap().set_times(then).unwrap();
            identity(&fs::metadata(&image).unwrap())
        };
        let one = written("one");
        assert_eq!(identity(&fs::metadata(&image).unwrap()), one);
        // The clock of the file system ticks every few milliseconds.
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert_ne!(written("two"), one);
    }

    #[test]
    fn of_unpacked_kernels_those_asked_for_last_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let kernel = |number: u64| folder.path().join(format!("{number}.elf"));
        for number in 0..5 {
            fs::write(kernel(number), "x").unwrap();
            let at = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(number);
            let times = fs::FileTimes::new().set_accessed(at);
            fs::File::open(kernel(number)).unwrap().set_times(times).unwrap();
        }
        fs::write(folder.path().join("other"), "x").unwrap();
        note_use(&kernel(1));
        forget_all_but(3, folder.path());
        let is_there: Vec<bool> = (0..5).map(|number| kernel(number).exists()).collect();
        assert_eq!(is_there, [false, true, false, true, true]);
        assert!(folder.path().join("other").exists());
    }

    #[test]
    fn an_image_without_pvh_stays_packed_and_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("vmlinuz-1");
        fs::write(&image, b"not a kernel").unwrap();
        let kernel = Kernel { image: image.clone(), modules: None, release: "1".to_owned() };
        let bootable = bootable(&kernel, folder.path()).unwrap();
        assert_eq!(bootable.path, image);
        assert!(bootable.form.contains("HdrS"), "{}", bootable.form);
    }
}
