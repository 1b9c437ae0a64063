//! What the guest has written itself stays in its cache.
//!
//! Linux drops what it has cached of a file when it is told of another time of its last change (`fuse_change_attributes` in `fs/fuse/inode.c`
//! of 6.1), also when that was a write of its own: nobody had told it when that was. Only in the answer to a SETATTR it takes new
//! times and drops nothing. So PID 1 of the guest sets the mode of such a file to what it is; it hears of it by an attribute that
//! nobody has and only the guest's root may ask for:
//!
//! ```text
//!  a program: LOOKUP, GETATTR of a large file that the guest alone has written ─► held back ◄─────────────────┐
//!  PID 1: trusted.bulkhead.written ─► which file, which mode ─► SETATTR, answered with the times ─► asks again ┘
//! ```
//! Where anything else may have written to it, and where PID 1 does not come to it in time, the answer goes out as it is.

use std::collections::VecDeque;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::fstat;
use rustix::io::Errno;

use crate::attributes::{Known, set};
use crate::handles::LARGE;
use crate::message::{Body, Fields, Result};
use crate::server::{Files, Outcome};
use crate::stamp::Stamp;
use crate::streams::{Stream, drop_cached};
use crate::watch::Watched;
use crate::xattrs::sized;

/// The attribute that says of which file the times are to be taken.
pub const WRITTEN: &str = "trusted.bulkhead.written";
/// Bytes of its value: the file's number and its mode, then nothing.
pub const VALUE_BYTES: usize = 16;

/// Reading less than this again costs no more than asking PID 1.
const WORTH_IT: u64 = 4 << 20;
/// For how long an answer is held back at most: whoever writes to the file keeps PID 1 from it.
const LONGEST: Duration = Duration::from_millis(50);
/// What was believed for no time the guest's kernel forgets with the last who uses it, and its cache with that (`delete_stale` in
/// `fs/fuse/dir.c`): this is a tick of its clock.
const A_TICK: Duration = Duration::from_nanos(1);
/// Bytes of a SETATTR between what is set and the mode.
const BEFORE_MODE: usize = 64;
/// Most files that PID 1 is to do.
const MOST: usize = 64;

/// A file whose times are to be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// The guest's number for it.
    pub node: u64,
    /// Its mode, which stays.
    pub mode: u32,
}

/// The file that a value names; none where it is cut short.
#[must_use]
pub fn wanted(value: &[u8]) -> Option<Wanted> {
    let node = value.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))?;
    let mode = value.get(8..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))?;
    Some(Wanted { node, mode })
}

/// What of a file is the guest's own work.
#[derive(Debug, Clone, Copy, Default)]
pub struct Own {
    /// Bytes that it has written since its kernel was told of attributes.
    pub written: u64,
    /// Whether somebody else has opened it since the guest has made it.
    watched: Option<Watched>,
    /// How far it has come as a stream.
    stream: Stream,
}

impl Own {
    /// Whether it would be known that somebody else has opened it.
    pub const fn is_watched(&self) -> bool {
        self.watched.is_some()
    }
}

/// All files of which PID 1 is to take the times, until this is dropped.
#[derive(Debug, Default)]
pub(crate) struct Written(Arc<Shared>);

impl Drop for Written {
    fn drop(&mut self) {
        self.0.table().is_over = true;
        self.0.changed.notify_all();
    }
}

#[derive(Debug, Default)]
struct Shared {
    table: Mutex<Table>,
    /// There is one, one is done, or it is over.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Table {
    /// Those that nobody does yet, with their numbers.
    open: VecDeque<(u64, Wanted)>,
    /// What PID 1 does: number, file, its thread there, since when.
    current: Option<(u64, Wanted, u32, Instant)>,
    last: u64,
    /// Up to which number all are done.
    done: u64,
    /// Whose they are.
    asks: Option<u32>,
    is_asking: bool,
    is_over: bool,
}

/// One of them.
struct Ticket(Arc<Shared>, u64);

impl Ticket {
    /// Until it is done, or too late.
    fn wait(&self) {
        let until = Instant::now() + LONGEST;
        let mut table = self.0.table();
        while table.done < self.1 && !table.is_over {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            table = self.0.changed.wait_timeout(table, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Shared {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has PID 1 do a file, and waits until it has.
    fn have_done(self: &Arc<Self>, wanted: Wanted) {
        if let Some(ticket) = self.ask(wanted) {
            ticket.wait();
        }
    }

    /// Has PID 1 do a file; none where it does not listen.
    fn ask(self: &Arc<Self>, wanted: Wanted) -> Option<Ticket> {
        let mut table = self.table();
        let listens = table.is_asking || table.current.is_some_and(|(.., since)| since.elapsed() < LONGEST);
        if let Some((number, _)) = table.open.iter().find(|(_, open)| *open == wanted) {
            return Some(Ticket(Arc::clone(self), *number)).filter(|_| listens);
        }
        if !listens || table.open.len() >= MOST {
            return None;
        }
        table.last += 1;
        let number = table.last;
        table.open.push_back((number, wanted));
        self.changed.notify_all();
        Some(Ticket(Arc::clone(self), number))
    }

    /// Answers the attribute: the next file, as soon as there is one; nothing when it is over. What was answered last is done by now.
    fn next(self: &Arc<Self>, size: u32, thread: u32) -> Result<Outcome> {
        if usize::try_from(size).unwrap_or(usize::MAX) < VALUE_BYTES {
            return Err(Errno::RANGE);
        }
        let mut table = self.table();
        // PID 1's thread is the first that asks. A program that waited here could not be ended.
        if *table.asks.get_or_insert(thread) != thread {
            return Err(Errno::OPNOTSUPP);
        }
        if table.is_asking {
            return Err(Errno::BUSY);
        }
        table.is_asking = true;
        if let Some((number, ..)) = table.current.take() {
            table.done = number;
            self.changed.notify_all();
        }
        let all = Arc::clone(self);
        Ok(Outcome::Waits(Box::new(move || sized(all.wait(thread), size))))
    }

    fn wait(&self, thread: u32) -> Vec<u8> {
        let mut table = self.table();
        loop {
            if let Some((number, wanted)) = table.open.pop_front().filter(|_| !table.is_over) {
                table.is_asking = false;
                table.current = Some((number, wanted, thread, Instant::now()));
                return Body::default().long(wanted.node).number(wanted.mode).number(0).done().0;
            }
            if table.is_over {
                return Vec::new();
            }
            table = self.changed.wait(table).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Whether this thread is PID 1's, and does this file.
    fn is_done_by(&self, node: u64, mode: u32, thread: u32) -> bool {
        self.current_of(thread) == Some(Wanted { node, mode })
    }

    /// What this thread does, if it is PID 1's.
    fn current_of(&self, thread: u32) -> Option<Wanted> {
        self.table().current.filter(|(_, _, by, _)| *by == thread).map(|(_, wanted, ..)| wanted)
    }
}

impl Files {
    /// Answers the attribute.
    pub(crate) fn next_written(&self, size: u32, thread: u32) -> Result<Outcome> {
        self.written.0.next(size, thread)
    }

    /// An answer with attributes, held back until the guest's kernel has the times of what it has written itself.
    pub(crate) fn after_own_writes(&mut self, id: u64, known: &Known, body: Body) -> Outcome {
        let Some(node) = self.nodes.get_mut(id).ok().filter(|node| node.held.own.written > 0) else {
            return body.into();
        };
        let written = std::mem::take(&mut node.held.own.written);
        if written < WORTH_IT || !self.is_guests_alone(id, known) {
            return body.into();
        }
        let (all, wanted) = (Arc::clone(&self.written.0), Wanted { node: id, mode: known.mode() });
        let settles = Stamp::of(&known.host).settles_in();
        Outcome::Waits(Box::new(move || {
            std::thread::sleep(settles);
            all.have_done(wanted);
            Ok(body)
        }))
    }

    /// Answers a SETATTR if it is the one that was asked for; none where it is another.
    pub(crate) fn take_times(
        &mut self,
        id: u64,
        mut fields: Fields<'_>,
        thread: u32,
    ) -> Result<Option<Body>> {
        let valid = fields.number()?;
        fields.skip(BEFORE_MODE)?;
        let mode = fields.number()?;
        if valid != set::MODE || !self.written.0.is_done_by(id, mode, thread) {
            return Ok(None);
        }
        let known = self.look_at_node(id)?;
        let is_right = mode == known.mode()
            && self.is_guests_alone(id, &known)
            && Stamp::of(&known.host).settles_in().is_zero();
        if is_right { self.attributes_of(id, &known).map(Some) } else { Err(Errno::AGAIN) }
    }

    /// For how long PID 1 is to believe the name of what it does, though it may be open.
    pub(crate) fn least_validity(&self, id: u64, thread: u32) -> Duration {
        let is_it = self.written.0.current_of(thread).is_some_and(|wanted| wanted.node == id);
        if is_it { A_TICK } else { Duration::ZERO }
    }

    /// Whether nobody but the guest has written to a file since it has made it, so that its cache holds what the file holds.
    fn is_guests_alone(&mut self, id: u64, known: &Known) -> bool {
        let Ok(node) = self.nodes.get(id) else { return false };
        let stamp = Stamp::of(&known.host);
        let is_own = node.cached.is_some_and(|cached| cached.stamp == stamp && cached.is_unmapped)
            && !stamp.is_coarse();
        is_own && self.guest_keeps(id)
    }

    /// Whether the guest's cache will keep what it writes to a file, as far as is known by now.
    pub(crate) fn guest_keeps(&mut self, id: u64) -> bool {
        let Ok(node) = self.nodes.get(id) else { return false };
        let watch = self.watch.as_mut().zip(node.held.own.watched);
        !node.held.is_locked && watch.is_some_and(|(watch, watched)| watch.is_alone(watched))
    }

    /// The answer to a write to a file that had so many bytes. Once in a while the host's kernel is told of them first, which takes as long
    /// as the disk is busy.
    pub(crate) fn note_written(
        &mut self,
        id: u64,
        file: &Arc<OwnedFd>,
        length: u64,
        written: Range<u64>,
        answer: Body,
    ) -> Outcome {
        let keeps = self.guest_keeps(id);
        let Ok(node) = self.nodes.get_mut(id) else { return answer.into() };
        node.held.own.written += written.end - written.start;
        if let Some(cached) = node.cached.as_mut().filter(|_| !keeps) {
            // What somebody else begins to write through a mapping within the same tick does not show.
            cached.is_unmapped = false;
        }
        let part = node.held.own.stream.next(length, &written);
        let Some(part) = part.filter(|_| keeps) else { return answer.into() };
        let file = Arc::clone(file);
        Outcome::Waits(Box::new(move || {
            drop_cached(&file, &part);
            Ok(answer)
        }))
    }

    /// What the host's cache need not keep of a stream that is on the disk.
    pub(crate) fn rest_of_stream(&mut self, id: u64) -> Option<Range<u64>> {
        let rest = self.nodes.get_mut(id).ok()?.held.own.stream.rest()?;
        self.guest_keeps(id).then_some(rest)
    }

    /// Watches a file that the guest has just made.
    pub(crate) fn watch_new(&mut self, id: u64, file: &OwnedFd) -> Result<()> {
        let watched = self.watch.as_mut().and_then(|watch| watch.begin(file));
        // Unless somebody was faster.
        let is_empty = fstat(file)?.st_size == 0;
        self.nodes.get_mut(id)?.held.own = Own { watched: watched.filter(|_| is_empty), ..Own::default() };
        Ok(())
    }

    /// Watches a file that nobody has open any more only if it is worth it: it is kept when it is opened again, also emptied. Of what
    /// somebody else has opened that stays known.
    pub(crate) fn watch_if_worth_it(&mut self, id: u64, file: &OwnedFd) {
        let is_small = fstat(file).is_ok_and(|found| found.st_size < LARGE);
        if is_small
            && self.guest_keeps(id)
            && let Ok(node) = self.nodes.get_mut(id)
            && let Some(watch) = &mut self.watch
            && let Some(watched) = node.held.own.watched.take()
        {
            watch.end(file, watched);
        }
    }
}
