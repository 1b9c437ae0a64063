//! Open files: reading, writing, and what the guest may keep of them in its cache.
//!
//! The guest's cache holds what it wrote itself and what it read. When it opens a file anew the host's size and times are compared
//! with those of the moment when the cache was last known to be right; unless they are the same, what is cached goes. A name
//! that leads elsewhere by now, or a size that the guest's kernel does not know yet, is ESTALE, once: it looks the path up again, and
//! opens what it finds (`retries`).

use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{
    FallocateFlags, FileType, OFlags, SeekFrom, Stat, copy_file_range, fallocate, fdatasync, fstat, fstatfs,
    fsync, seek, syncfs,
};
use rustix::io::{Errno, ReadWriteFlags, pread, pwrite, pwritev2};

use crate::attributes::with_access;
use crate::message::{Body, Fields, MOST_DATA, Result};
use crate::nodes::{ROOT, link_to, open_again};
use crate::server::{Asker, Files, Outcome};
use crate::stamp::{Cached, Stamp};
use crate::streams::drop_cached;

/// What OPEN answers (`FOPEN_…`).
mod opened {
    pub const KEEP_CACHE: u32 = 1 << 1;
    pub const NO_FLUSH: u32 = 1 << 5;
}

/// From this size on the guest keeps what it alone has written without reading it again, though the clock has not moved on since.
pub const LARGE: i64 = 1 << 20;
/// The host's kernel has written a page that was changed through a mapping to the disk after so long (`dirty_expire_centisecs` and
/// `dirty_writeback_centisecs`: 35 s unless told otherwise). Who changes it again then changes the file's times.
const AT_REST: Duration = Duration::from_secs(120);
/// File systems that are memory alone (`linux/magic.h`: tmpfs, ramfs, hugetlbfs): there a mapping never changes times.
const MEMORY: [i64; 3] = [0x0102_1994, 0x8584_58f6, 0x9584_58f6];
/// What a WRITE carries (`FUSE_WRITE_…`).
const FROM_CACHE: u32 = 1 << 0;
/// Likewise.
const KILL_SET_ID: u32 = 1 << 2;
/// OPEN's (`FUSE_OPEN_…`).
const OPEN_KILL_SET_ID: u32 = 1 << 0;
/// RELEASE's modes of allocation that the guest's kernel sends.
const ALLOCATIONS: FallocateFlags =
    FallocateFlags::KEEP_SIZE.union(FallocateFlags::PUNCH_HOLE).union(FallocateFlags::ZERO_RANGE);

/// An open file.
#[derive(Debug)]
pub struct Handle {
    /// Of which node.
    pub node: u64,
    /// The host's.
    pub file: Arc<OwnedFd>,
    /// Owners of record locks that were set through it.
    pub lockers: Vec<u64>,
}

/// Flags of open(2) as the host is to have them: the guest's kernel does the rest.
pub fn host_flags(flags: u32) -> OFlags {
    let flags = OFlags::from_bits_retain(flags);
    flags & (OFlags::RWMODE | OFlags::TRUNC | OFlags::SYNC | OFlags::DSYNC)
}

impl Files {
    pub(crate) fn open(&mut self, id: u64, mut fields: Fields<'_>, asker: Asker) -> Result<Body> {
        let (flags, how) = (fields.number()?, fields.number()?);
        let wanted = host_flags(flags);
        let is_writable = self.is_writable(id)?;
        if !is_writable && wanted.intersects(OFlags::RWMODE | OFlags::TRUNC) {
            return Err(Errno::ROFS);
        }
        // Whoever has just looked it up opens what it has found.
        let was_found = self.was_found(id);
        self.check_names(id)?;
        let path = self.any_path(id)?;
        let host = fstat(&path)?;
        // One that was opened by itself, and that the host has replaced or removed: where its name leads is out of reach.
        if is_writable && host.st_nlink == 0 && self.nodes.get(id)?.parent == ROOT {
            return Err(Errno::STALE);
        }
        // The guest's kernel serves the others itself.
        if FileType::from_raw_mode(host.st_mode) != FileType::RegularFile {
            // Unless the name was that of a file a moment ago: then it is looked up anew.
            return Err(if is_writable { Errno::STALE } else { Errno::INVAL });
        }
        if is_writable {
            let is_stale = self.must_be_told_anew(id, wanted)?;
            let node = self.nodes.get(id)?;
            if (is_stale || node.told != Some(Stamp::of(&host))) && !was_found {
                return Err(Errno::STALE);
            }
        }
        let needed = if wanted.contains(OFlags::RDWR) {
            0o600
        } else if wanted.contains(OFlags::WRONLY) {
            0o200
        } else {
            0o400
        };
        let link = link_to(&path);
        let file = with_access(&link, &host, needed, || open_again(&path, wanted | OFlags::NONBLOCK))?;
        if how & OPEN_KILL_SET_ID != 0 && wanted.contains(OFlags::TRUNC) {
            self.kill_set_id(id, &file, asker)?;
        }
        let now = fstat(&file)?;
        self.moved_on(id, Stamp::of(&host), Stamp::of(&now));
        self.opened(id, file, flags, &now)
    }

    /// Notes an open file, and says what the guest may do with its cache.
    pub(crate) fn opened(&mut self, id: u64, file: OwnedFd, flags: u32, host: &Stat) -> Result<Body> {
        let is_writable = self.is_writable(id)?;
        let wanted = OFlags::from_bits_retain(flags);
        let number = self.handle_number();
        let tells = is_writable && self.tells_of_mappings(&file, host.st_dev);
        let stamp = Stamp::of(host);
        let keeps = self.guest_keeps(id);
        let node = self.nodes.get_mut(id)?;
        let before = node.cached.filter(|cached| cached.stamp == stamp);
        let was_settled = before.is_some_and(|cached| cached.is_settled);
        // Within a tick nothing shows that somebody maps it who was seen to open it.
        let may_be_mapped = !was_settled && !keeps && node.held.own.is_watched();
        let was_unmapped = before.is_some_and(|cached| cached.is_unmapped) && !may_be_mapped;
        let is_settled = stamp.is_settled();
        let is_kept = keeps && stamp.size >= LARGE && !stamp.is_coarse();
        let is_known = was_unmapped && (was_settled || is_kept);
        if !is_known {
            // What has no bytes has nothing that was written to. What the guest then writes itself goes on from there.
            let is_unmapped = tells && (stamp.size == 0 || was_unmapped || stamp.is_older(AT_REST));
            node.cached = Some(Cached { stamp, is_settled, is_unmapped });
        }
        let is_locked = node.held.is_locked;
        node.open.push(number);
        let mut answer = 0;
        if is_known || !is_writable {
            answer |= opened::KEEP_CACHE;
        }
        // Through such a descriptor nothing is mapped for writing, so that nothing waits to be written when it is closed; record
        // locks that are set through it go with the handle. Those that are there already go when it is closed, so that must be heard of.
        let is_read = !wanted.intersects(OFlags::RWMODE);
        let is_made = wanted.contains(OFlags::WRONLY) && wanted.intersects(OFlags::TRUNC | OFlags::EXCL);
        if (is_read || is_made) && !is_locked {
            answer |= opened::NO_FLUSH;
        }
        self.handles.insert(number, Handle { node: id, file: Arc::new(file), lockers: Vec::new() });
        Ok(Body::default().long(number).number(answer).number(0).done())
    }

    /// Whether the times of a file on such a device tell that somebody writes to it through a mapping.
    fn tells_of_mappings(&mut self, file: &OwnedFd, device: u64) -> bool {
        *self.tells_of_mappings.entry(device).or_insert_with(|| {
            fstatfs(file)
                .is_ok_and(|found| !MEMORY.iter().any(|kind| i128::from(*kind) == i128::from(found.f_type)))
        })
    }

    /// An open file of the guest's.
    pub(crate) fn handle_of(&self, number: u64) -> Result<&Handle> {
        self.handles.get(&number).ok_or(Errno::BADF)
    }

    pub(crate) fn read(&mut self, mut fields: Fields<'_>, room: usize) -> Result<Body> {
        let (handle, offset, size) = (fields.long()?, fields.long()?, fields.number()?);
        let open = self.handle_of(handle)?;
        let (file, id) = (Arc::clone(&open.file), open.node);
        self.fills(id);
        let size = usize::try_from(size).unwrap_or(usize::MAX).min(MOST_DATA).min(room);
        let mut data = vec![0; size];
        let mut filled = 0;
        while let Some(rest) = data.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            let at = offset.checked_add(u64::try_from(filled).unwrap_or(u64::MAX)).ok_or(Errno::INVAL)?;
            match pread(&file, rest, at) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(Errno::INTR) => {}
                Err(_) if filled > 0 => break,
                Err(error) => return Err(error),
            }
        }
        data.truncate(filled);
        Ok(Body(data))
    }

    pub(crate) fn write(&mut self, id: u64, mut fields: Fields<'_>, asker: Asker) -> Result<Outcome> {
        let (handle, offset, size, how) =
            (fields.long()?, fields.long()?, fields.number()?, fields.number()?);
        fields.skip(8)?;
        // Those of this moment: `F_SETFL` may have changed them since the file was opened.
        let flags = OFlags::from_bits_retain(fields.number()?);
        fields.skip(4)?;
        let data = fields.bytes(usize::try_from(size).unwrap_or(usize::MAX))?;
        let open = self.handle_of(handle)?;
        if open.node != id {
            return Err(Errno::BADF);
        }
        self.writable(id)?;
        self.fills(id);
        let open = self.handle_of(handle)?;
        let file = Arc::clone(&open.file);
        let appends = flags.contains(OFlags::APPEND) && how & FROM_CACHE == 0;
        let before = fstat(&file)?;
        let was = Stamp::of(&before);
        if self.fullness.is_full() && takes_room(&before, offset, size) {
            return Err(Errno::NOSPC);
        }
        if how & KILL_SET_ID != 0 {
            self.kill_set_id(id, &file, asker)?;
        }
        let written = write_to(&file, data, offset, appends)?;
        self.moved_on(id, was, Stamp::of(&fstat(&file)?));
        let length = before.st_size.cast_unsigned();
        if appends && length != offset {
            // The host had added something: it lies elsewhere than the guest believes.
            let node = self.nodes.get_mut(id)?;
            (node.told, node.cached) = (None, None);
        }
        let answer = Body::default().number(u32::try_from(written).unwrap_or(u32::MAX)).number(0).done();
        let begins = if appends { length } else { offset };
        let written = begins..begins.saturating_add(u64::try_from(written).unwrap_or_default());
        Ok(self.note_written(id, &file, length, written, answer))
    }

    pub(crate) fn flush(&mut self, id: u64, mut fields: Fields<'_>) -> Result<Body> {
        let handle = fields.long()?;
        fields.skip(8)?;
        let owner = fields.long()?;
        self.handle_of(handle)?;
        self.locks.release(id, owner);
        Ok(Body::default())
    }

    pub(crate) fn release(&mut self, mut fields: Fields<'_>) -> Result<Body> {
        let number = fields.long()?;
        let handle = self.handles.remove(&number).ok_or(Errno::BADF)?;
        if let Ok(node) = self.nodes.get_mut(handle.node) {
            node.open.retain(|open| *open != number);
        }
        let is_last = self.nodes.get(handle.node).map_or(true, |node| node.open.is_empty());
        for owner in handle.lockers {
            // Those of others that are open go on.
            let is_held = self
                .handles
                .values()
                .any(|other| other.node == handle.node && other.lockers.contains(&owner));
            if !is_held {
                self.locks.release(handle.node, owner);
            }
        }
        if is_last {
            self.locks.claims.remove(&handle.node);
            self.watch_if_worth_it(handle.node, &handle.file);
        }
        Ok(Body::default())
    }

    pub(crate) fn sync(&mut self, id: u64, mut fields: Fields<'_>) -> Result<Outcome> {
        let (handle, flags) = (fields.long()?, fields.number()?);
        let file = Arc::clone(&self.handle_of(handle)?.file);
        let rest = self.rest_of_stream(id);
        Ok(later(move || {
            if flags & 1 == 0 { fsync(&file) } else { fdatasync(&file) }?;
            if let Some(rest) = rest {
                drop_cached(&file, &rest);
            }
            Ok(())
        }))
    }

    pub(crate) fn sync_folder(&mut self, mut fields: Fields<'_>) -> Result<Outcome> {
        let listing = self.listings.get(&fields.long()?).ok_or(Errno::BADF)?;
        let folder = Arc::clone(&listing.folder);
        Ok(later(move || fsync(&folder)))
    }

    /// Everything that was written, to the disk.
    pub(crate) fn sync_all(&mut self, process: u32) -> Result<Outcome> {
        // The guest's end: the host's kernel has it, and natively nothing waits for the disk either when a program ends.
        if process == 1 {
            return Ok(Body::default().into());
        }
        let mut folders = Vec::new();
        for (number, _) in self.trees.iter().enumerate().filter(|(_, tree)| tree.is_writable) {
            let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            let name = number.to_string();
            folders.push(rustix::fs::openat(
                self.nodes.root(),
                name.as_str(),
                flags,
                rustix::fs::Mode::empty(),
            )?);
        }
        Ok(later(move || folders.iter().try_for_each(syncfs)))
    }

    /// Somebody else changes what a file holds: its set-ID bits go.
    fn kill_set_id(&mut self, id: u64, file: &OwnedFd, asker: Asker) -> Result<()> {
        let known = self.look_at(file)?;
        let now = known.notion.without_set_id(known.host.st_mode, asker.group == known.notion.group);
        self.set_notion(id, &known, known.host.st_mode & crate::notion::PLAIN, now)
    }

    /// The same where the request does not say whether who asks may keep them: root may.
    fn kill_set_id_of_others(&mut self, id: u64, file: &OwnedFd, asker: Asker) -> Result<()> {
        if asker.user == 0 { Ok(()) } else { self.kill_set_id(id, file, asker) }
    }

    pub(crate) fn allocate(&mut self, id: u64, mut fields: Fields<'_>, asker: Asker) -> Result<Body> {
        let (handle, offset, length, mode) =
            (fields.long()?, fields.long()?, fields.long()?, fields.number()?);
        let file = Arc::clone(&self.handle_of(handle)?.file);
        self.writable(id)?;
        let mode = FallocateFlags::from_bits_retain(mode);
        if !ALLOCATIONS.contains(mode) {
            return Err(Errno::OPNOTSUPP);
        }
        let was = Stamp::of(&fstat(&file)?);
        self.kill_set_id_of_others(id, &file, asker)?;
        fallocate(&file, mode, offset, length)?;
        self.moved_on(id, was, Stamp::of(&fstat(&file)?));
        Ok(Body::default())
    }

    pub(crate) fn seek(&mut self, mut fields: Fields<'_>) -> Result<Body> {
        const DATA: u32 = 3;
        const HOLE: u32 = 4;
        let (handle, offset, whence) = (fields.long()?, fields.long()?, fields.number()?);
        let to = match whence {
            DATA => SeekFrom::Data(offset),
            HOLE => SeekFrom::Hole(offset),
            _ => return Err(Errno::INVAL),
        };
        let at = seek(&self.handle_of(handle)?.file, to)?;
        Ok(Body::default().long(at).done())
    }

    pub(crate) fn copy_range(&mut self, mut fields: Fields<'_>, asker: Asker) -> Result<Body> {
        let (from, mut at, _) = (fields.long()?, fields.long()?, fields.long()?);
        let (to, mut target, length) = (fields.long()?, fields.long()?, fields.long()?);
        let source = Arc::clone(&self.handle_of(from)?.file);
        let open = self.handle_of(to)?;
        let (file, id) = (Arc::clone(&open.file), open.node);
        self.writable(id)?;
        let was = Stamp::of(&fstat(&file)?);
        // No longer than others may have to wait.
        let length = usize::try_from(length).unwrap_or(usize::MAX).min(64 << 20);
        self.kill_set_id_of_others(id, &file, asker)?;
        let count = copy_file_range(&source, Some(&mut at), &file, Some(&mut target), length)?;
        self.moved_on(id, was, Stamp::of(&fstat(&file)?));
        Ok(Body::default().number(u32::try_from(count).unwrap_or(u32::MAX)).number(0).done())
    }
}

fn later(act: impl FnOnce() -> Result<()> + Send + 'static) -> Outcome {
    Outcome::Waits(Box::new(move || act().map(|()| Body::default())))
}

/// Writes as much as goes, at the file's end instead where it appends.
fn write_to(file: &OwnedFd, data: &[u8], offset: u64, appends: bool) -> Result<usize> {
    let mut written = 0;
    while let Some(rest) = data.get(written..).filter(|rest| !rest.is_empty()) {
        let at = offset.checked_add(u64::try_from(written).unwrap_or(u64::MAX)).ok_or(Errno::FBIG)?;
        let result = if appends {
            pwritev2(file, &[IoSlice::new(rest)], at, ReadWriteFlags::APPEND)
        } else {
            pwrite(file, rest, at)
        };
        match result {
            Ok(0) => break,
            Ok(count) => written += count,
            Err(Errno::INTR) => {}
            Err(_) if written > 0 => break,
            Err(error) => return Err(error),
        }
    }
    Ok(written)
}

/// Whether what is written there needs room that the file does not have yet: behind its end, or where it has holes.
fn takes_room(file: &Stat, offset: u64, size: u32) -> bool {
    let ends = offset.saturating_add(u64::from(size));
    let has_holes = file.st_blocks.cast_unsigned().saturating_mul(512) < file.st_size.cast_unsigned();
    size > 0 && (has_holes || ends > file.st_size.cast_unsigned())
}
