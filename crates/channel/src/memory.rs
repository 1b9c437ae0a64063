//! Shared memory as 64-bit atomic words: mapped files, PCI resources, sealed memory files, or the heap.
//!
//! The only module with unsafe code. What leaves it is `&[AtomicU64]`, on which nothing that another process does
//! can be undefined: every bit pattern is a number, and every access is atomic.

#![expect(unsafe_code, reason = "mapping memory and seeing it as atomic words cannot be said without it")]

use std::fs::File;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::atomic::{AtomicU64, Ordering};
use crate::error::{Error, Result};

/// A mapping or allocation, alive as long as this value.
#[derive(Debug)]
pub struct Memory {
    first: NonNull<AtomicU64>,
    words: usize,
    origin: Origin,
    writable: bool,
    name: String,
}

#[derive(Debug)]
enum Origin {
    /// Mapped; the file is kept for its lock and its size.
    Mapped { file: File, bytes: usize },
    /// `Box<[AtomicU64]>`, taken apart.
    Heap,
}

// SAFETY: the value owns its mapping or allocation; nothing in it belongs to a thread.
unsafe impl Send for Memory {}
// SAFETY: shared access is through atomics only.
unsafe impl Sync for Memory {}

impl Memory {
    /// Zeroed memory of this process, rounded up to words: channels between threads, and tests.
    pub fn heap(bytes: usize) -> Self {
        let words: Box<[AtomicU64]> = (0..bytes.div_ceil(8)).map(|_| AtomicU64::new(0)).collect();
        let length = words.len();
        let first = NonNull::from(Box::leak(words)).cast::<AtomicU64>();
        Self { first, words: length, origin: Origin::Heap, writable: true, name: "heap memory".to_owned() }
    }

    /// The words, whatever their peers write into them.
    pub(crate) fn words(&self) -> &[AtomicU64] {
        // SAFETY: `first` is page- or box-aligned, `words` words from it are mapped or allocated until drop, zeroed or
        // shared bytes are valid for atomics, and nobody has a plain reference to them. When mapped read-only, only
        // `Foreign` windows are made of them, whose relaxed loads are allowed there.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.words) }
    }

    /// The word at an index, read once; none beyond the end. For looking at a mapping before or beside a channel, for
    /// instance to measure whether it is cached.
    #[inline]
    pub fn word(&self, at: usize) -> Option<u64> {
        self.words().get(at).map(|word| word.load(Ordering::Relaxed))
    }

    /// Stores a word; false beyond the end, and where the memory is only read. It goes through whatever a section has
    /// there: not for memory that is one.
    #[inline]
    pub fn set_word(&self, at: usize, value: u64) -> bool {
        let place = self.words().get(at).filter(|_| self.writable);
        place.inspect(|word| word.store(value, Ordering::Relaxed)).is_some()
    }

    /// Whether it may be written.
    pub fn is_writable(&self) -> bool {
        self.writable
    }

    /// Size in bytes, whole words.
    pub fn bytes(&self) -> u64 {
        self.words as u64 * 8
    }

    /// What it is, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file behind it, to be handed to a peer; none for the heap.
    pub fn file(&self) -> Option<&File> {
        match &self.origin {
            Origin::Mapped { file, .. } => Some(file),
            Origin::Heap => None,
        }
    }

    /// Whether the file behind it still has all its bytes. Reading what was cut off would end the process.
    pub(crate) fn check_size(&self) -> Result<()> {
        let Origin::Mapped { file, bytes } = &self.origin else { return Ok(()) };
        let got = file.metadata().map_err(Error::io(format!("look at {}", self.name)))?.len();
        let wanted = *bytes as u64;
        if got < wanted { Err(Error::TooSmall { what: self.name.clone(), wanted, got }) } else { Ok(()) }
    }
}

/// Some words of a memory, which lives as long as they do: the way to them is short, since every message takes it often.
#[derive(Debug, Clone)]
pub(crate) struct Span {
    memory: Arc<Memory>,
    first: NonNull<AtomicU64>,
    words: usize,
    /// One less than the largest power of two that is not above `words`.
    mask: usize,
}

// SAFETY: the words belong to no thread, and the memory that is held is `Send` and `Sync`.
unsafe impl Send for Span {}
// SAFETY: as above; shared access is through atomics only.
unsafe impl Sync for Span {}

impl Span {
    /// Words `[from, from + words)`, if there is one and the memory has them.
    pub(crate) fn new(memory: &Arc<Memory>, from: usize, words: usize) -> Option<Self> {
        let found = memory.words().get(from..from.checked_add(words)?)?;
        let mask = (1 << words.checked_ilog2()?) - 1;
        let first = NonNull::from(found).cast::<AtomicU64>();
        Some(Self { memory: Arc::clone(memory), first, words, mask })
    }

    /// The words.
    #[inline]
    pub(crate) fn words(&self) -> &[AtomicU64] {
        debug_assert!(self.words <= self.memory.words);
        // SAFETY: a part of `Memory::words`, found in `new`; that memory stays where it is as long as it is held here.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.words) }
    }
}

impl Span {
    /// The word at an index that goes around: where the number of words is a power of two, all of them one after the other
    /// and then the first one again. Every index has one.
    #[inline]
    pub(crate) fn around(&self, at: usize) -> &AtomicU64 {
        // SAFETY: what is masked is at most `mask`, which is less than `words`: it stays inside.
        let word = unsafe { self.first.add(at & self.mask) };
        // SAFETY: one of `words()`, and alive as long as this value.
        unsafe { word.as_ref() }
    }
}

#[cfg(not(loom))]
impl Memory {
    /// A file of at least `bytes`, made with mode 0600 if absent, mapped to be written by this process alone.
    pub fn create(path: &Path, bytes: u64) -> Result<Self> {
        let mut options = open_options();
        let file = std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600)
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(Error::io(format!("open {}", path.display())))?;
        let size = file.metadata().map_err(Error::io(format!("look at {}", path.display())))?.len();
        if size < bytes {
            file.set_len(bytes).map_err(Error::io(format!("give {} {bytes} bytes", path.display())))?;
        }
        Self::from_file(file, &path.display().to_string(), true)
    }

    /// An existing file or PCI resource (`/sys/bus/pci/devices/…/resource2`, or a link to it), to be written by this
    /// process alone.
    pub fn writable(path: &Path) -> Result<Self> {
        let file =
            open_options().read(true).write(true).open(resource_behind(path).as_deref().unwrap_or(path));
        Self::from_file(
            file.map_err(Error::io(format!("open {}", path.display())))?,
            &path.display().to_string(),
            true,
        )
    }

    /// An existing file or PCI resource (or a link to it) of a peer, mapped read-only.
    pub fn readable(path: &Path) -> Result<Self> {
        let file = open_options().read(true).open(resource_behind(path).as_deref().unwrap_or(path));
        Self::from_file(
            file.map_err(Error::io(format!("open {}", path.display())))?,
            &path.display().to_string(),
            false,
        )
    }

    /// Nameless memory of exactly `bytes` that nobody can shrink, to be handed to others as `file()`.
    ///
    /// Readers that do not trust the writer need this kind, or a device: who can cut a mapped file short ends the
    /// processes that read it.
    pub fn sealed(name: &str, bytes: u64) -> Result<Self> {
        use nix::fcntl::{FcntlArg, SealFlag, fcntl};
        use nix::sys::memfd::{MFdFlags, memfd_create};
        let doing = || format!("make memory \"{name}\" of {bytes} bytes");
        let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
        let file = File::from(memfd_create(name, flags).map_err(|errno| Error::io(doing())(errno.into()))?);
        file.set_len(bytes).map_err(Error::io(doing()))?;
        let seals = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL;
        fcntl(&file, FcntlArg::F_ADD_SEALS(seals)).map_err(|errno| Error::io(doing())(errno.into()))?;
        Self::from_file(file, name, true)
    }

    /// Maps all of an open file, to be written or only read.
    pub fn from_file(file: File, name: &str, writable: bool) -> Result<Self> {
        use nix::sys::mman::{MapFlags, ProtFlags, mmap};
        let facts = file.metadata().map_err(Error::io(format!("look at {name}")))?;
        if !facts.is_file() {
            return Err(Error::Io {
                doing: format!("map {name}"),
                source: std::io::Error::other("wanted a file or a PCI resource, got something else"),
            });
        }
        let too_small =
            Error::TooSmall { what: name.to_owned(), wanted: crate::layout::LEAST_BYTES, got: facts.len() };
        let Some(length) =
            usize::try_from(facts.len()).ok().and_then(|bytes| std::num::NonZeroUsize::new(bytes & !7))
        else {
            return Err(too_small);
        };
        let protection =
            if writable { ProtFlags::PROT_READ | ProtFlags::PROT_WRITE } else { ProtFlags::PROT_READ };
        let flags = MapFlags::MAP_SHARED | MapFlags::MAP_POPULATE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory of ours.
        let mapped = unsafe { mmap(None, length, protection, flags, &file, 0) };
        let first =
            mapped.map_err(|errno| Error::io(format!("map {name}"))(errno.into()))?.cast::<AtomicU64>();
        let origin = Origin::Mapped { file, bytes: length.get() };
        Ok(Self { first, words: length.get() / 8, origin, writable, name: name.to_owned() })
    }
}

/// Where a link to a device leads. No other link is followed: only the kernel makes what is there.
#[cfg(not(loom))]
fn resource_behind(path: &Path) -> Option<std::path::PathBuf> {
    let is_link = std::fs::symlink_metadata(path).ok()?.is_symlink();
    std::fs::canonicalize(path).ok().filter(|real| is_link && real.starts_with("/sys/devices"))
}

/// Neither follows a link nor waits for a pipe's other end.
#[cfg(not(loom))]
fn open_options() -> std::fs::OpenOptions {
    use nix::fcntl::OFlag;
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = File::options();
    options.custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits());
    options
}

impl Drop for Memory {
    fn drop(&mut self) {
        match &self.origin {
            Origin::Mapped { bytes, .. } => {
                // SAFETY: exactly what was mapped in `from_file`; every span holds an `Arc` of this value, so none is
                // left. An error would only mean that the mapping stays.
                #[cfg(not(loom))]
                let _unmapped = unsafe { nix::sys::mman::munmap(self.first.cast(), *bytes) };
                #[cfg(loom)]
                let _ = bytes;
            }
            Origin::Heap => {
                let all = std::ptr::slice_from_raw_parts_mut(self.first.as_ptr(), self.words);
                // SAFETY: taken apart in `heap`, with the same length, and put together only here.
                drop(unsafe { Box::from_raw(all) });
            }
        }
    }
}

#[cfg(loom)]
const _: fn(&Path) = |_| ();
