//! Folders: what is in them, with all that is known of each, so that the guest need not ask one by one.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{Dir, FileType, OFlags, fstat};
use rustix::io::Errno;

use crate::attributes::with_access;
use crate::message::{Body, Fields, Result};
use crate::nodes::{ROOT, link_to, open_again};
use crate::server::Files;

/// Most bytes that all folders which are being listed take together; a guest that wants more at once hears ENOMEM.
const MOST_LISTED: usize = 128 << 20;
/// OPENDIR's answer: what was listed may be kept (`FOPEN_KEEP_CACHE`, `FOPEN_CACHE_DIR`).
const KEEP: u32 = 1 << 1 | 1 << 3;

/// A folder that is being listed.
#[derive(Debug)]
pub struct Listing {
    /// It.
    pub folder: Arc<OwnedFd>,
    node: u64,
    entries: Option<Entries>,
}

/// What was in a folder when its listing began.
#[derive(Debug, Default)]
struct Entries {
    all: Vec<Entry>,
    /// Their names, one behind the other.
    names: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    inode: u64,
    begins: usize,
    kind: FileType,
}

impl Entries {
    fn bytes(&self) -> usize {
        self.all.capacity() * size_of::<Entry>() + self.names.capacity()
    }

    fn name(&self, place: usize) -> &[u8] {
        let begins = |place: usize| self.all.get(place).map_or(self.names.len(), |entry| entry.begins);
        self.names.get(begins(place)..begins(place + 1)).unwrap_or_default()
    }
}

impl Files {
    pub(crate) fn open_folder(&mut self, id: u64) -> Result<Body> {
        let is_kept = id != ROOT && !self.is_writable(id)?;
        if id != ROOT {
            self.check_names(id)?;
        }
        let path = self.nodes.folder(id)?;
        let host = fstat(&path)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK;
        let folder = Arc::new(with_access(&link_to(&path), &host, 0o400, || open_again(&path, flags))?);
        let number = self.handle_number();
        self.listings.insert(number, Listing { folder, node: id, entries: None });
        Ok(Body::default().long(number).number(if is_kept { KEEP } else { 0 }).number(0).done())
    }

    pub(crate) fn close_folder(&mut self, mut fields: Fields<'_>) -> Result<Body> {
        let listing = self.listings.remove(&fields.long()?).ok_or(Errno::BADF)?;
        self.listed -= listing.entries.as_ref().map_or(0, Entries::bytes);
        Ok(Body::default())
    }

    pub(crate) fn list(
        &mut self,
        id: u64,
        mut fields: Fields<'_>,
        room: usize,
        with_all: bool,
    ) -> Result<Body> {
        let (number, offset, size) = (fields.long()?, fields.long()?, fields.number()?);
        let room = room.min(usize::try_from(size).unwrap_or(usize::MAX));
        let listing =
            self.listings.get_mut(&number).filter(|listing| listing.node == id).ok_or(Errno::BADF)?;
        let folder = Arc::clone(&listing.folder);
        // Given back when all is done.
        let mut entries = listing.entries.take();
        self.listed -= entries.as_ref().map_or(0, Entries::bytes);
        if offset == 0 || entries.is_none() {
            drop(entries.take());
            entries = Some(read_all(&folder, MOST_LISTED.saturating_sub(self.listed))?);
        }
        let entries = entries.unwrap_or_default();
        let device = fstat(&folder)?.st_dev;
        let mut body = Body::default();
        let first = usize::try_from(offset).unwrap_or(usize::MAX);
        for (place, entry) in entries.all.iter().enumerate().skip(first) {
            let name = entries.name(place);
            let next = u64::try_from(place).unwrap_or(u64::MAX).saturating_add(1);
            let length = (24 + name.len()).next_multiple_of(8) + if with_all { 128 } else { 0 };
            if body.0.len() + length > room {
                break;
            }
            if with_all {
                self.add_all(&mut body, id, &folder, name);
            }
            let number = self.nodes.number(device, entry.inode);
            body.long(number).long(next).number(u32::try_from(name.len()).unwrap_or_default());
            body.number(kind_number(entry.kind));
            body.0.extend(name);
            body.zeros((24 + name.len()).next_multiple_of(8) - 24 - name.len());
        }
        if let Some(listing) = self.listings.get_mut(&number) {
            self.listed += entries.bytes();
            listing.entries = Some(entries);
        }
        Ok(body)
    }

    /// What LOOKUP would say, or nothing.
    fn add_all(&mut self, body: &mut Body, id: u64, folder: &OwnedFd, name: &[u8]) {
        let is_itself = name == b"." || name == b"..";
        let known = if is_itself { None } else { self.look(folder, name).ok() };
        let told = known.and_then(|known| {
            let child = self.enter(id, name, &known).ok()?;
            self.entry(child, &known).ok()
        });
        match told {
            Some(told) => body.0.extend(told.0),
            None => drop(body.zeros(128)),
        }
    }
}

fn read_all(folder: &OwnedFd, most_bytes: usize) -> Result<Entries> {
    let mut entries = Entries::default();
    // It is opened once more by the name `.`, for which the owner's own mode must let it search.
    let host = fstat(folder)?;
    let mut reading = with_access(&link_to(folder), &host, 0o500, || Dir::read_from(folder))?;
    while let Some(entry) = reading.read() {
        let entry = entry?;
        let begins = entries.names.len();
        entries.names.extend(entry.file_name().to_bytes());
        entries.all.push(Entry { inode: entry.ino(), begins, kind: entry.file_type() });
        if entries.bytes() > most_bytes {
            return Err(Errno::NOMEM);
        }
    }
    entries.all.shrink_to_fit();
    entries.names.shrink_to_fit();
    Ok(entries)
}

/// `DT_…`.
const fn kind_number(kind: FileType) -> u32 {
    match kind {
        FileType::Fifo => 1,
        FileType::CharacterDevice => 2,
        FileType::Directory => 4,
        FileType::BlockDevice => 6,
        FileType::RegularFile => 8,
        FileType::Symlink => 10,
        FileType::Socket => 12,
        FileType::Unknown => 0,
    }
}
